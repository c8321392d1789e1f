//! The part of the sweep that is root's: path units that gave up are started again, and a backlog without a worker gets
//! one, so that the queue goes on even where its path units cannot.
use std::collections::BTreeSet;

use board_core::edge::queue::Queue;
use board_core::edge::settings::{Language, Settings};
use board_core::edge::systemd::{
    self, BACKLOG_TIMER, SWEEP_TIMER, Systemctl, TARGET, TRIGGER, TRIGGER_SOCKET, Unit, WATCHER, slot_service,
};
use board_core::edge::{alarms, clock};

use super::Found;
use crate::commands::slots::{self, Backlog};
use crate::words;

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Forget the failure of a unit and start it.
    Revive(String),
    /// Start a worker.
    Start { unit: String, age: i64 },
    /// Every free slot of the lane is masked.
    Masked { unit: String, age: i64 },
}

/// Sweeps the units.
pub(super) fn sweep(settings: &Settings, systemctl: &Systemctl) -> Found {
    let mut found = Found::default();
    let language = settings.board.language;
    let Some(steps) = found.take("systemd", steps(settings, systemctl)) else { return found };
    for step in steps {
        match step {
            Step::Revive(unit) => {
                if found.take(&unit, systemctl.revive(&unit).map_err(Into::into)).is_some() {
                    found.notice(words::unit_revived(language, &unit));
                }
            }
            Step::Start { unit, age } => {
                if found.take(&unit, systemctl.start(&unit).map_err(Into::into)).is_some() {
                    found.notice(started(language, &unit, age));
                }
            }
            Step::Masked { unit, age } => found.notice(words::unit_masked(language, &unit, &age.to_string())),
        }
    }
    found
}

fn started(language: Language, unit: &str, age: i64) -> String {
    words::worker_started(language, unit, &age.to_string())
}

fn steps(settings: &Settings, systemctl: &Systemctl) -> anyhow::Result<Vec<Step>> {
    let paths = slots::path_units(systemctl)?;
    let daemons = systemctl.units(&[TARGET, TRIGGER_SOCKET, TRIGGER, WATCHER, SWEEP_TIMER, BACKLOG_TIMER])?;
    // A board that was stopped stays stopped.
    if !daemons.iter().any(|unit| unit.id == TARGET && unit.is_active()) {
        return Ok(Vec::new());
    }
    let state_dir = &settings.board.state_dir;
    // systemd forgets the failure of a unit that cannot be started again; the alarm that it raised stays.
    let alarms: BTreeSet<String> = alarms::all(state_dir).into_keys().collect();
    let usable: Vec<Unit> =
        paths.into_iter().filter(|unit| unit.is_active() || gave_up(unit, &alarms)).collect();
    let backlogs =
        slots::backlogs(&Queue::look_at(state_dir), &slots::of_lanes(settings, Some(&usable)), clock::now())?;
    let named: Vec<String> = usable.iter().filter_map(|unit| service_of(&unit.id)).collect();
    let services = match named.as_slice() {
        [] => Vec::new(),
        names => systemctl.units(&names.iter().map(String::as_str).collect::<Vec<_>>())?,
    };
    Ok(plan(usable.iter().chain(&daemons), &alarms, &backlogs, &services))
}

/// Whether a unit ended against everybody's will. One that somebody stopped stays stopped.
fn gave_up(unit: &Unit, alarms: &BTreeSet<String>) -> bool {
    unit.is_failed() || (!unit.is_active() && alarms.contains(&unit.id))
}

/// The worker of a path unit.
fn service_of(path_unit: &str) -> Option<String> {
    systemd::slot_of(path_unit).map(|(lane, slot)| slot_service(lane, slot))
}

/// What to do, in order: a revived path unit starts its worker by itself, but not at once where it failed for want of
/// inotify instances, so both are done. A masked worker would only fail its path unit again.
fn plan<'a>(
    units: impl Iterator<Item = &'a Unit>,
    alarms: &BTreeSet<String>,
    backlogs: &[Backlog],
    services: &[Unit],
) -> Vec<Step> {
    let is_masked = |name: &String| services.iter().any(|unit| unit.id == *name && unit.is_masked());
    let mut steps: Vec<Step> = units
        .filter(|unit| gave_up(unit, alarms) && !service_of(&unit.id).is_some_and(|name| is_masked(&name)))
        .map(|unit| Step::Revive(unit.id.clone()))
        .collect();
    for backlog in backlogs {
        let named = |slot: &u32| slot_service(backlog.lane, *slot);
        match (backlog.free.iter().map(named).find(|name| !is_masked(name)), backlog.free.first()) {
            (Some(unit), _) => steps.push(Step::Start { unit, age: backlog.age }),
            (None, Some(slot)) => steps.push(Step::Masked { unit: named(slot), age: backlog.age }),
            (None, None) => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use board_core::model::job::Lane;

    use super::*;

    fn unit(id: &str, active: &str, load: &str) -> Unit {
        Unit { id: id.into(), active: active.into(), load: load.into(), ..Unit::default() }
    }

    #[test]
    fn what_failed_is_revived_and_a_backlog_gets_a_worker_that_is_not_masked() {
        let units = [
            unit("board-agent-build@1.path", "failed", "loaded"),
            unit("board-agent-build@2.path", "failed", "loaded"),
            unit("board-agent-read@1.path", "inactive", "loaded"),
            unit("board-agent-read@2.path", "inactive", "loaded"),
            unit(TRIGGER_SOCKET, "active", "loaded"),
        ];
        // An inactive unit without an alarm was stopped by somebody.
        let alarms = BTreeSet::from(["board-agent-read@2.path".to_owned()]);
        let backlog = Backlog { lane: Lane::Build, age: 61, free: vec![1, 2] };
        let services = [
            unit("board-agent-build@1.service", "inactive", "masked"),
            unit("board-agent-build@2.service", "inactive", "loaded"),
        ];
        assert_eq!(
            plan(units.iter(), &alarms, std::slice::from_ref(&backlog), &services),
            [
                Step::Revive("board-agent-build@2.path".into()),
                Step::Revive("board-agent-read@2.path".into()),
                Step::Start { unit: "board-agent-build@2.service".into(), age: 61 }
            ]
        );
        let one = Backlog { free: vec![1], ..backlog };
        assert_eq!(
            plan([].iter(), &alarms, &[one], &services),
            [Step::Masked { unit: "board-agent-build@1.service".into(), age: 61 }]
        );
    }
}
