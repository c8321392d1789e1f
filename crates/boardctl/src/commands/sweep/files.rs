//! The part of the sweep that is the service user's: age alarms, alarms whose cause is gone, retention, worktrees and
//! saved work that nobody needs any more.
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use board_core::edge::audit::try_lock_repository;
use board_core::edge::git::{Git, GitOptions, Identity};
use board_core::edge::lock::LockError;
use board_core::edge::queue::Queue;
use board_core::edge::secrets::Secrets;
use board_core::edge::settings::Settings;
use board_core::edge::store::{Store, UpdateError};
use board_core::edge::systemd::Systemctl;
use board_core::edge::worktree::Worktrees;
use board_core::edge::{alarms, clock, files, space};
use board_core::model::board::Board;
use board_core::model::job::{JobRef, Lane};
use board_core::model::phase::Phase;
use board_core::model::time::Timestamp;

use super::Found;
use crate::commands::slots;
use crate::words;

/// A day, in seconds.
const DAY_S: u64 = 24 * 60 * 60;
/// Refs with the work of runs that did not end well.
const SAVED: &str = "refs/board/saved/";
/// The log of who did what, which looks after its own size.
const AUDIT_LOG: &str = "audit.jsonl";

/// Sweeps the files.
pub(super) fn sweep(settings: &Settings, systemctl: Option<&Systemctl>) -> Found {
    let mut found = Found::default();
    let language = settings.board.language;
    let state_dir = &settings.board.state_dir;
    let now = clock::now();
    if let Some(queue) = found.take("queue", whole_queue(state_dir)) {
        for dir in &queue.1 {
            found.notice(words::recreated(language, dir));
        }
        let backlog = backlog(settings, &queue.0, systemctl, now, &mut found);
        found.take("backlog", backlog);
        if let Some(board) =
            found.take("state", Store::open(state_dir).and_then(|s| s.read()).map_err(Into::into))
        {
            let old = retention(settings, &queue.0, &board);
            if let Some(removed) = found.take("retention", old).filter(|removed| *removed > 0) {
                found.tidied(words::old_files(language, &removed.to_string()));
            }
            let given_up = give_up_deployed(settings, &board, now);
            for card in found.take("worktrees", given_up).unwrap_or_default() {
                found.tidied(words::worktree_over(language, &card));
            }
            let repository = repository(settings, &board, now, &mut found);
            found.take("repository", repository);
        }
    }
    if let Some(systemctl) = systemctl {
        let cleared = gone_alarms(settings, systemctl);
        for name in found.take("alarms", cleared).unwrap_or_default() {
            found.notice(words::alarm_over(language, &name));
        }
    }
    if let Some(free) = space::short(state_dir) {
        found.notice(words::disk_short(language, &(free >> 20).to_string()));
    }
    found
}

/// The queue, and the directories of it that had to be made again.
fn whole_queue(state_dir: &Path) -> anyhow::Result<(Queue, Vec<String>)> {
    let made = Queue::look_at(state_dir).mend()?;
    let queue = Queue::open(state_dir, false)?;
    Ok((queue, made.iter().map(|dir| dir.display().to_string()).collect()))
}

fn backlog_alarm(lane: Lane) -> String {
    format!("backlog-{}", lane.id())
}

/// An alarm for each lane whose jobs wait although a slot is free, until they no longer do.
fn backlog(
    settings: &Settings,
    queue: &Queue,
    systemctl: Option<&Systemctl>,
    now: Timestamp,
    found: &mut Found,
) -> anyhow::Result<()> {
    let paths =
        systemctl.and_then(|systemctl| slots::path_units(systemctl).ok()).filter(|paths| !paths.is_empty());
    let lanes = slots::of_lanes(settings, paths.as_deref());
    let backlogs = slots::backlogs(queue, &lanes, now)?;
    for lane in Lane::ALL {
        let name = backlog_alarm(lane);
        match backlogs.iter().find(|backlog| backlog.lane == lane) {
            Some(backlog) => {
                let sentence = words::backlog(settings.board.language, lane.id(), &backlog.age.to_string());
                if alarms::raise(&settings.board.state_dir, &name, &sentence)? {
                    found.notice(sentence);
                }
            }
            None => {
                if alarms::clear(&settings.board.state_dir, &name)? {
                    found.notice(words::alarm_over(settings.board.language, &name));
                }
            }
        }
    }
    Ok(())
}

/// Takes away the alarms of units that did not stay failed.
fn gone_alarms(settings: &Settings, systemctl: &Systemctl) -> anyhow::Result<Vec<String>> {
    let state_dir = &settings.board.state_dir;
    let names: Vec<String> =
        alarms::all(state_dir).into_keys().filter(|name| name.starts_with("board-agent")).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let units = systemctl.units(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut cleared = Vec::new();
    for unit in units.iter().filter(|unit| unit.is_active() && names.contains(&unit.id)) {
        if alarms::clear(state_dir, &unit.id)? {
            cleared.push(unit.id.clone());
        }
    }
    Ok(cleared)
}

fn days(days: u32) -> Option<Duration> {
    (days > 0).then(|| Duration::from_secs(u64::from(days) * DAY_S))
}

/// Removes what is older than it is kept; answers how much.
fn retention(settings: &Settings, queue: &Queue, board: &Board) -> anyhow::Result<usize> {
    let needed: BTreeSet<JobRef> = board
        .cards
        .values()
        .flat_map(|card| card.current_job().map(|job| job.reference()).into_iter().chain(card.applied))
        .collect();
    let keep = &settings.retention;
    let mut removed = queue.remove_old(days(keep.done), days(keep.rejected), |job| needed.contains(&job))?;
    if let Some(age) = days(keep.logs) {
        removed += old_logs(&settings.board.state_dir.join("logs"), age)?;
    }
    Ok(removed)
}

/// Logs are found by their last change: one that is written is not old.
fn old_logs(dir: &Path, age: Duration) -> anyhow::Result<usize> {
    let limit = SystemTime::now().checked_sub(age);
    let mut removed = 0;
    let entries = match files::list_dir(dir) {
        Err(error) if error.is_not_found() => return Ok(0),
        other => other?,
    };
    for entry in entries.into_iter().filter(|entry| entry.kind == files::Kind::File) {
        if entry.name.to_string_lossy().starts_with(AUDIT_LOG) {
            continue;
        }
        let path = dir.join(&entry.name);
        let changed = std::fs::symlink_metadata(&path).and_then(|about| about.modified()).ok();
        if changed.zip(limit).is_some_and(|(changed, limit)| changed < limit) {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Gives up the worktrees of cards that were deployed long ago; the watcher removes what is given up, with its work
/// kept. The branch stays.
fn give_up_deployed(settings: &Settings, board: &Board, now: Timestamp) -> anyhow::Result<Vec<String>> {
    let Some(age) = days(settings.retention.worktrees_of_deployed) else { return Ok(Vec::new()) };
    let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    let due = |board: &Board| -> Vec<_> {
        let old = board.cards.values().filter(|card| {
            let build = card.build.as_ref();
            card.phase == Phase::Deployed
                && card.applying.is_none()
                && build.is_some_and(|build| build.worktree.is_some() && !build.given_up)
                && now.seconds_since(card.changed_at) > age
        });
        old.map(|card| card.id.clone()).collect()
    };
    if due(board).is_empty() {
        return Ok(Vec::new());
    }
    let given_up = Store::open(&settings.board.state_dir)?.update(|board| {
        let ids = due(board);
        for id in &ids {
            if let Some(build) = board.cards.get_mut(id).and_then(|card| card.build.as_mut()) {
                build.given_up = true;
            }
        }
        Ok::<_, std::convert::Infallible>(ids)
    });
    match given_up {
        Ok(ids) => Ok(ids.iter().map(ToString::to_string).collect()),
        Err(UpdateError::Refused(never)) => match never {},
        Err(UpdateError::Store(error)) => Err(error.into()),
    }
}

/// Strays among the worktrees, and saved work that is old and no card's.
fn repository(settings: &Settings, board: &Board, now: Timestamp, found: &mut Found) -> anyhow::Result<()> {
    let language = settings.board.language;
    let git = open_git(settings)?;
    let worktrees = Worktrees::new(&settings.board.state_dir.join("worktrees"), git.clone())?;
    let worktrees = worktrees.keeping_out(Secrets::of(settings));
    let lock = match try_lock_repository(&settings.board.state_dir, &git) {
        Ok(lock) => lock,
        // Somebody works there; the next sweep looks again.
        Err(LockError::Busy { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for stray in worktrees.strays()? {
        let path = stray.path.display().to_string();
        if worktrees.prune(&stray)? {
            found.tidied(words::stray_removed(language, &path));
        } else {
            // Not a notice, which would come back with every sweep; `doctor` shows it.
            tracing::info!("{path}: {:?}", stray.kind);
        }
    }
    let Some(age) = days(settings.retention.saved_refs) else { return Ok(()) };
    let limit = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    let kept: BTreeSet<&str> = board
        .cards
        .values()
        .filter_map(|card| card.build.as_ref())
        .flat_map(|build| build.saved_refs.iter().map(String::as_str))
        .collect();
    for (name, tip) in git.refs_below(SAVED)? {
        if kept.contains(name.as_str()) {
            continue;
        }
        let committed = git.log_of(&tip, 1)?.first().map(|commit| commit.committed);
        let old = committed.is_some_and(|at| now.as_millis() / 1000 - at > limit);
        if old && git.delete_ref(&name, &tip)? {
            found.tidied(words::saved_removed(language, &name));
        }
    }
    drop(lock);
    Ok(())
}

/// The repository as the programs open it.
pub(crate) fn open_git(settings: &Settings) -> anyhow::Result<Git> {
    let options = GitOptions {
        allow_filters: settings.board.allow_filters,
        identity: Identity { name: settings.audit.name.clone(), email: settings.audit.email.clone() },
        lock_note_dir: settings.board.state_dir.join("locks"),
        program: "git".into(),
    };
    Ok(Git::open(&settings.board.repository, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_by_its_age_and_the_log_of_who_did_what_stays() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs");
        assert_eq!(old_logs(&logs, Duration::from_secs(DAY_S)).unwrap(), 0);
        std::fs::create_dir(&logs).unwrap();
        let old = SystemTime::now() - Duration::from_secs(2 * DAY_S);
        for (name, is_old) in [("a.1.jsonl", true), ("b.1.jsonl", false), ("audit.jsonl.1", true)] {
            let file = std::fs::File::create(logs.join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        assert_eq!(old_logs(&logs, Duration::from_secs(DAY_S)).unwrap(), 1);
        assert!(!logs.join("a.1.jsonl").exists() && logs.join("audit.jsonl.1").exists());
    }

    #[test]
    fn zero_days_keep_for_ever() {
        assert_eq!(days(0), None);
        assert_eq!(days(1), Some(Duration::from_secs(DAY_S)));
    }

    #[test]
    fn directories_of_the_queue_that_somebody_removed_are_made_again_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("state");
        drop(Queue::open(&state_dir, true).unwrap());
        assert!(whole_queue(&state_dir).unwrap().1.is_empty());
        let gone = Queue::look_at(&state_dir).outcomes_dir();
        std::fs::remove_dir(&gone).unwrap();
        assert_eq!(whole_queue(&state_dir).unwrap().1, [gone.display().to_string()]);
    }
}
