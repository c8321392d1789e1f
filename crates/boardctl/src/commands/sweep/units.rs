//! The part of the sweep that is root's: path units that gave up are started again, and a backlog without a worker gets
//! one, so that the queue goes on even where its path units cannot.
use board_core::edge::clock;
use board_core::edge::queue::Queue;
use board_core::edge::settings::{Language, Settings};
use board_core::edge::systemd::{
    SWEEP_TIMER, Systemctl, TARGET, TRIGGER, TRIGGER_SOCKET, Unit, WATCHER, slot_service,
};

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
    let daemons = systemctl.units(&[TARGET, TRIGGER_SOCKET, TRIGGER, WATCHER, SWEEP_TIMER])?;
    // A board that was stopped stays stopped.
    if !daemons.iter().any(|unit| unit.id == TARGET && unit.is_active()) {
        return Ok(Vec::new());
    }
    let queue = Queue::look_at(&settings.board.state_dir);
    let backlogs = slots::backlogs(&queue, &slots::of_lanes(settings, Some(&paths)), clock::now())?;
    let mut services = Vec::new();
    for backlog in &backlogs {
        let names: Vec<String> = backlog.free.iter().map(|slot| slot_service(backlog.lane, *slot)).collect();
        services.extend(systemctl.units(&names.iter().map(String::as_str).collect::<Vec<_>>())?);
    }
    Ok(plan(paths.iter().chain(&daemons), &backlogs, &services))
}

/// What to do, in order: a revived path unit starts its worker by itself, but not at once where it failed for want of
/// inotify instances, so both are done.
fn plan<'a>(units: impl Iterator<Item = &'a Unit>, backlogs: &[Backlog], services: &[Unit]) -> Vec<Step> {
    let mut steps: Vec<Step> =
        units.filter(|unit| unit.is_failed()).map(|unit| Step::Revive(unit.id.clone())).collect();
    for backlog in backlogs {
        let named = |slot: &u32| slot_service(backlog.lane, *slot);
        let is_masked = |name: &String| services.iter().any(|unit| unit.id == *name && unit.is_masked());
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
        let units =
            [unit("board-agent-build@1.path", "failed", "loaded"), unit(TRIGGER_SOCKET, "active", "loaded")];
        let backlog = Backlog { lane: Lane::Build, age: 61, free: vec![1, 2] };
        let services = [
            unit("board-agent-build@1.service", "inactive", "masked"),
            unit("board-agent-build@2.service", "inactive", "loaded"),
        ];
        assert_eq!(
            plan(units.iter(), std::slice::from_ref(&backlog), &services),
            [
                Step::Revive("board-agent-build@1.path".into()),
                Step::Start { unit: "board-agent-build@2.service".into(), age: 61 }
            ]
        );
        let one = Backlog { free: vec![1], ..backlog };
        assert_eq!(
            plan([].iter(), &[one], &services),
            [Step::Masked { unit: "board-agent-build@1.service".into(), age: 61 }]
        );
    }
}
