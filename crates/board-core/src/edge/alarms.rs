//! Alarms that the board shows as banners: `<state_dir>/alarms/<name>`, one file each.
//!
//! Files of their own and no part of the state: an alarm is raised when something is broken, perhaps the state itself,
//! by short-lived programs that must not wait for a lock. A name that is raised twice is one alarm; whoever finds its
//! cause gone takes it away.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::clock;
use super::files::read::{Read, open_regular_nofollow};
use super::files::{FileError, create_dirs_private, list_dir, remove_durable, replace_volatile};
use crate::model::time::Timestamp;

const DIRECTORY: &str = "alarms";
/// Longest name, bytes: that of a unit.
pub const MAX_NAME_BYTES: usize = 200;
/// Largest file that is read, bytes.
const MAX_ALARM_BYTES: u64 = 64 * 1024;
/// Most alarms that are read; more say nothing more.
pub const MAX_ALARMS: usize = 50;

/// Something is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Since when.
    pub since: Timestamp,
    /// A sentence in the language of the board.
    pub reason: String,
}

/// Raises an alarm; one that is raised already keeps its beginning. Answers whether it is new.
///
/// # Errors
/// A name that is no file name (as an error of its path), or a directory that cannot be written.
pub fn raise(state_dir: &Path, name: &str, reason: &str) -> Result<bool, FileError> {
    let path = path_of(state_dir, name)?;
    let before = read(&path)?;
    let since = before.as_ref().map_or_else(clock::now, |alarm| alarm.since);
    let alarm = Alarm { since, reason: reason.to_owned() };
    if before.as_ref() == Some(&alarm) {
        return Ok(false);
    }
    create_dirs_private(&state_dir.join(DIRECTORY))?;
    let bytes = serde_json::to_vec_pretty(&alarm)
        .map_err(|error| FileError::new("spell", &path, std::io::Error::other(error)))?;
    replace_volatile(&path, &bytes)?;
    Ok(before.is_none())
}

/// Takes an alarm away; answers whether there was one.
///
/// # Errors
/// As [`raise`].
pub fn clear(state_dir: &Path, name: &str) -> Result<bool, FileError> {
    let path = path_of(state_dir, name)?;
    let was_there = read(&path)?.is_some();
    match remove_durable(&path) {
        // Without the directory there was none.
        Err(error) if error.is_not_found() => Ok(false),
        other => other.map(|()| was_there),
    }
}

/// All alarms by their names. What cannot be read is none: a banner is never worth a failed page.
pub fn all(state_dir: &Path) -> BTreeMap<String, Alarm> {
    let dir = state_dir.join(DIRECTORY);
    let names =
        list_dir(&dir).unwrap_or_default().into_iter().filter_map(|entry| entry.name.into_string().ok());
    names
        .filter_map(|name| {
            let path = path_of(state_dir, &name).ok()?;
            Some((name, read(&path).ok()??))
        })
        .take(MAX_ALARMS)
        .collect()
}

fn path_of(state_dir: &Path, name: &str) -> Result<PathBuf, FileError> {
    let dir = state_dir.join(DIRECTORY);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@:\\".contains(&byte);
    // A leading dot is a temporary file of ours, or worse.
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.starts_with('.') || !name.bytes().all(plain) {
        let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("{name:?} names no alarm"));
        return Err(FileError::new("name", dir, why));
    }
    Ok(dir.join(name))
}

fn read(path: &Path) -> Result<Option<Alarm>, FileError> {
    Ok(match open_regular_nofollow(path, MAX_ALARM_BYTES)? {
        Read::Bytes(file) => serde_json::from_slice(&file.bytes).ok(),
        Read::Missing | Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_keeps_its_beginning_until_it_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let name = "board-agent-build@1.path";
        assert_eq!(all(dir.path()), BTreeMap::new());
        assert!(!clear(dir.path(), name).unwrap());
        assert!(raise(dir.path(), name, "one").unwrap());
        let since = all(dir.path())[name].since;
        assert!(!raise(dir.path(), name, "two").unwrap());
        assert_eq!(all(dir.path())[name], Alarm { since, reason: "two".into() });
        assert!(clear(dir.path(), name).unwrap());
        assert_eq!(all(dir.path()), BTreeMap::new());
    }

    #[test]
    fn a_name_never_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "ü"] {
            assert!(raise(dir.path(), name, "x").is_err(), "{name:?}");
        }
        assert!(raise(dir.path(), &"x".repeat(MAX_NAME_BYTES), "x").unwrap());
        assert!(raise(dir.path(), &"x".repeat(MAX_NAME_BYTES + 1), "x").is_err());
    }

    #[test]
    fn more_alarms_than_are_read_and_broken_ones_break_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..=MAX_ALARMS {
            raise(dir.path(), &format!("alarm-{n}"), "x").unwrap();
        }
        std::fs::write(dir.path().join("alarms/alarm-0"), "{").unwrap();
        assert_eq!(all(dir.path()).len(), MAX_ALARMS);
        raise(dir.path(), "one-more", "x").unwrap();
        assert_eq!(all(dir.path()).len(), MAX_ALARMS);
    }
}
