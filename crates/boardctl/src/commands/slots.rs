//! Which slots there are, which of them are free, and what waits in front of them: for the sweep and for `doctor`.
//!
//! Only looks: a slot is taken if its lock is held, as the kernel tells, so nobody's lock is disturbed.
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use board_core::edge::lock::slot_lock;
use board_core::edge::queue::{Queue, QueueError};
use board_core::edge::settings::Settings;
use board_core::edge::systemd::{self, SLOT_PATHS, Systemctl, SystemctlError, TARGET, Unit};
use board_core::model::job::Lane;
use board_core::model::time::Timestamp;

/// A file that lies in an inbox for longer than this while a slot of its lane is free is worth an alarm, in seconds:
/// a path unit starts its worker within one.
pub(crate) const BACKLOG_AFTER_S: i64 = 60;

/// Files that wait although a slot is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// The lane.
    pub(crate) lane: Lane,
    /// For how long the oldest has been lying there, in seconds.
    pub(crate) age: i64,
    /// The free slots, ascending.
    pub(crate) free: Vec<u32>,
}

/// The path units of slots: what the target wants, and what runs besides. systemd forgets one that is inactive, so a
/// pattern alone would not find it.
///
/// # Errors
/// systemd cannot be asked.
pub(crate) fn path_units(systemctl: &Systemctl) -> Result<Vec<Unit>, SystemctlError> {
    let wanted = systemctl.property(TARGET, "Wants")?;
    let loaded = systemctl.units(&[SLOT_PATHS])?;
    let names: BTreeSet<&str> = wanted
        .split_whitespace()
        .chain(loaded.iter().map(|unit| unit.id.as_str()))
        .filter(|name| systemd::slot_of(name).is_some())
        .collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    systemctl.units(&names.into_iter().collect::<Vec<_>>())
}

/// The slots of each lane: those of these path units, or without them those of the configuration.
pub(crate) fn of_lanes(settings: &Settings, paths: Option<&[Unit]>) -> BTreeMap<Lane, Vec<u32>> {
    let configured = || Lane::ALL.map(|lane| (lane, (1..=settings.slots.of(lane)).collect())).into();
    let Some(paths) = paths else { return configured() };
    let mut slots: BTreeMap<Lane, Vec<u32>> = Lane::ALL.map(|lane| (lane, Vec::new())).into();
    for (lane, slot) in paths.iter().filter_map(|unit| systemd::slot_of(&unit.id)) {
        slots.entry(lane).or_default().push(slot);
    }
    for numbers in slots.values_mut() {
        numbers.sort_unstable();
    }
    slots
}

/// What waits too long.
///
/// # Errors
/// An inbox that cannot be read.
pub(crate) fn backlogs(
    queue: &Queue,
    slots: &BTreeMap<Lane, Vec<u32>>,
    now: Timestamp,
) -> Result<Vec<Backlog>, QueueError> {
    let locked = locked_inodes();
    let mut found = Vec::new();
    for (lane, numbers) in slots {
        let Some(since) = queue.waits_since(*lane)? else { continue };
        let free = numbers.iter().copied().filter(|slot| !is_taken(queue.state_dir(), *lane, *slot, &locked));
        found.extend(overdue(*lane, now.seconds_since(since), free.collect()));
    }
    Ok(found)
}

fn overdue(lane: Lane, age: i64, free: Vec<u32>) -> Option<Backlog> {
    (age > BACKLOG_AFTER_S && !free.is_empty()).then_some(Backlog { lane, age, free })
}

fn is_taken(state_dir: &Path, lane: Lane, slot: u32, locked: &HashSet<u64>) -> bool {
    let lock = std::fs::symlink_metadata(slot_lock(state_dir, lane, slot));
    lock.is_ok_and(|lock| locked.contains(&lock.ino()))
}

/// Inodes of files that are locked now.
pub(crate) fn locked_inodes() -> HashSet<u64> {
    inodes(&std::fs::read_to_string("/proc/locks").unwrap_or_default())
}

/// The same from the text of `/proc/locks`. The device is not compared: it is another one than `stat` tells on btrfs
/// and overlayfs.
fn inodes(proc_locks: &str) -> HashSet<u64> {
    proc_locks
        .lines()
        .filter_map(|line| {
            // `->` marks one who waits.
            let mut words = line.split_whitespace().skip(1).peekable();
            if words.peek() == Some(&"->") {
                return None;
            }
            words.nth(4)?.rsplit(':').next()?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use board_core::edge::lock::{Lock, LockClass};

    use super::*;

    #[test]
    fn who_waits_for_a_lock_does_not_hold_it() {
        let text = "1: FLOCK  ADVISORY  WRITE 812 00:2d:4711 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 813 00:2d:4712 0 EOF\n\
                    2: POSIX  ADVISORY  READ  99 08:01:42 128 128\nrubbish\n";
        assert_eq!(inodes(text), HashSet::from([4711, 42]));
    }

    #[test]
    fn a_backlog_is_older_than_a_minute_and_has_a_free_slot() {
        assert_eq!(overdue(Lane::Read, BACKLOG_AFTER_S, vec![1]), None);
        assert_eq!(overdue(Lane::Read, BACKLOG_AFTER_S + 1, Vec::new()), None);
        assert!(overdue(Lane::Read, BACKLOG_AFTER_S + 1, vec![1]).is_some());
    }

    #[test]
    fn a_slot_is_taken_while_its_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let taken = || is_taken(dir.path(), Lane::Build, 1, &locked_inodes());
        assert!(!taken());
        let lock = Lock::acquire(&slot_lock(dir.path(), Lane::Build, 1), LockClass::Slot).unwrap();
        assert!(taken());
        drop(lock);
        assert!(!taken());
    }
}
