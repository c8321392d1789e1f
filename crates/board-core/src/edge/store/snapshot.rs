//! Earlier states: which are made, which are kept.
//!
//! A snapshot is a second name of the file that the next write replaces, so it costs neither a copy nor a
//! sync. It is a convenience: if it cannot be made, the write goes on.
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Store;
use crate::edge::clock;
use crate::edge::files::{FileError, Kind, create_dirs_private, list_dir};
use crate::model::time::Timestamp;

/// Directory of the snapshots below the state directory.
const SNAPSHOTS: &str = "snapshots";
/// The newest that are kept whatever their age.
pub(super) const KEEP_NEWEST: usize = 20;
/// One per hour is kept so long, hours.
pub(super) const KEEP_HOURLY: i64 = 48;
/// One per day is kept so long, days.
pub(super) const KEEP_DAILY: i64 = 30;
/// All together, bytes.
pub(super) const KEEP_BYTES: u64 = 64 * 1024 * 1024;
/// At most one is made in so many seconds.
pub(super) const APART_SECONDS: i64 = 60;

/// One earlier state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its file, `state-<UTC time>-<generation>.json`.
    pub path: PathBuf,
    /// When that state was written, to the second.
    pub at: Timestamp,
    /// Its generation.
    pub generation: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// The time as file names spell it: `20261130T200000Z`.
pub(super) fn compact(at: Timestamp) -> String {
    at.to_jiff().strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn name_of(at: Timestamp, generation: u64) -> String {
    format!("state-{}-{generation}.json", compact(at))
}

fn parse_name(name: &str) -> Option<(Timestamp, u64)> {
    let (time, generation) = name.strip_prefix("state-")?.strip_suffix(".json")?.split_once('-')?;
    let part = |from: usize, to: usize| time.get(from..to);
    let spelled = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(9, 11)?,
        part(11, 13)?,
        part(13, 15)?
    );
    let (at, generation) = (spelled.parse().ok()?, generation.parse().ok()?);
    (name_of(at, generation) == name).then_some((at, generation))
}

impl Store {
    /// All snapshots, newest first; by generation, since a clock may have been set back.
    ///
    /// # Errors
    /// [`FileError`] if they cannot be listed.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, FileError> {
        let dir = self.dir.join(SNAPSHOTS);
        let entries = match list_dir(&dir) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.kind == Kind::File) {
            let Some((at, generation)) = entry.name.to_str().and_then(parse_name) else { continue };
            let path = dir.join(&entry.name);
            // One that is pruned just now is gone.
            let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
            found.push(Snapshot { path, at, generation, bytes: meta.len() });
        }
        found.sort_by_key(|snapshot| std::cmp::Reverse((snapshot.generation, snapshot.at)));
        Ok(found)
    }

    /// The newest snapshot that can be read; of no use to restore one that cannot.
    ///
    /// # Errors
    /// [`FileError`] if they cannot be listed.
    pub fn newest_readable_snapshot(&self) -> Result<Option<Snapshot>, FileError> {
        Ok(self.snapshots()?.into_iter().find(|snapshot| super::read_state(&snapshot.path).is_ok()))
    }

    /// Keeps the state file that is about to be replaced, if a snapshot is due, and prunes. Under the lock.
    pub(super) fn keep(&self, generation: u64) {
        if let Err(error) = self.try_keep(generation) {
            tracing::warn!("no snapshot of the state: {error}");
        }
    }

    fn try_keep(&self, generation: u64) -> Result<(), FileError> {
        let written = match std::fs::symlink_metadata(&self.path).and_then(|meta| meta.modified()) {
            Ok(time) => time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default(),
            Err(error) => return Err(FileError::new("look at", &self.path, error)),
        };
        let at = Timestamp::from_millis(i64::try_from(written.as_millis()).unwrap_or(i64::MAX));
        let newest = self.snapshots()?.into_iter().next();
        let due = newest.is_none_or(|newest| !(0..APART_SECONDS).contains(&at.seconds_since(newest.at)));
        if !due {
            return Ok(());
        }
        let dir = self.dir.join(SNAPSHOTS);
        create_dirs_private(&dir)?;
        let path = dir.join(name_of(at, generation));
        match std::fs::hard_link(&self.path, &path) {
            // A write that died after this step and is repeated now.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.map_err(FileError::at("keep the state as", &path))?,
        }
        for old in to_prune(&self.snapshots()?, clock::now()) {
            std::fs::remove_file(&old).map_err(FileError::at("remove", &old))?;
        }
        Ok(())
    }
}

/// Which of the snapshots, newest first, are not kept. The newest one always is.
fn to_prune(snapshots: &[Snapshot], now: Timestamp) -> Vec<PathBuf> {
    let (mut hours, mut days) = (BTreeSet::new(), BTreeSet::new());
    let mut bytes = 0_u64;
    let mut pruned = Vec::new();
    for (n, snapshot) in snapshots.iter().enumerate() {
        let age = now.seconds_since(snapshot.at);
        let hour = age < KEEP_HOURLY * 3600 && hours.insert(snapshot.at.as_millis() / 3_600_000);
        let day = age < KEEP_DAILY * 86_400 && days.insert(snapshot.at.as_millis() / 86_400_000);
        let wanted = n < KEEP_NEWEST || hour || day;
        let fits = bytes.saturating_add(snapshot.bytes) <= KEEP_BYTES;
        if n == 0 || (wanted && fits) {
            bytes = bytes.saturating_add(snapshot.bytes);
        } else {
            pruned.push(snapshot.path.clone());
        }
    }
    pruned
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T20:00:00Z";

    /// Snapshots of `bytes` each, the n-th so many seconds old.
    fn aged(seconds: impl IntoIterator<Item = i64>, bytes: u64) -> Vec<Snapshot> {
        let now: Timestamp = NOW.parse().unwrap();
        let numbered = (0_u64..).zip(seconds);
        let made = numbered.map(|(n, seconds)| {
            let (at, generation) = (now.plus_seconds(-seconds), 1_000_000 - n);
            Snapshot { path: name_of(at, generation).into(), at, generation, bytes }
        });
        made.collect()
    }

    fn kept(snapshots: &[Snapshot]) -> usize {
        snapshots.len() - to_prune(snapshots, NOW.parse().unwrap()).len()
    }

    #[test]
    fn a_name_tells_time_and_generation_and_only_in_one_spelling() {
        let at: Timestamp = NOW.parse().unwrap();
        assert_eq!(name_of(at, 7), "state-20261130T200000Z-7.json");
        assert_eq!(parse_name("state-20261130T200000Z-7.json"), Some((at, 7)));
        for bad in [
            "state-20261130T200000Z-07.json",
            "state-2026-7.json",
            "state.json",
            "state-20261330T200000Z-7.json",
        ] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_newest_twenty_are_kept_and_the_next_of_the_same_hour_is_not() {
        assert_eq!(kept(&aged((1..=20).map(|n| n * 60), 1)), 20);
        assert_eq!(kept(&aged((1..=21).map(|n| n * 60), 1)), 20);
    }

    #[test]
    fn one_an_hour_for_two_days_and_one_a_day_for_thirty_are_kept() {
        let half_hours = aged((1..=200).map(|n| n * 1800), 1);
        // Half-hours 1 to 20 are the newest; up to half-hour 95 one of each hour; then one of each day.
        assert_eq!(kept(&half_hours), 20 + 37 + 3);
        let days = aged((1..=60).map(|n| n * 86_400), 1);
        assert_eq!(kept(&days), 29);
    }

    #[test]
    fn all_together_have_at_most_64_mib_and_the_newest_is_always_kept() {
        assert_eq!(kept(&aged(1..=8, KEEP_BYTES / 8)), 8);
        assert_eq!(kept(&aged(1..=9, KEEP_BYTES / 8)), 8);
        assert_eq!(kept(&aged(1..=2, KEEP_BYTES + 1)), 1);
    }

    #[test]
    fn a_snapshot_of_the_future_does_not_stop_the_next() {
        let now: Timestamp = NOW.parse().unwrap();
        let apart =
            |seconds: i64| !(0..APART_SECONDS).contains(&now.seconds_since(now.plus_seconds(-seconds)));
        assert!(apart(-3600) && apart(60) && !apart(59) && !apart(0));
    }
}
