//! What the watcher waits for, told to whoever draws the board: `<state_dir>/watcher.json`.
//!
//! A file of its own and no part of the state: it follows from what a pass found, nothing is decided on it,
//! and a wait that comes and goes must not write the state or wake anybody.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::read::{Read, open_regular_nofollow};
use super::files::{FileError, replace_volatile};
use crate::model::card::CardId;
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

/// Name of the file below the state directory.
pub const WAITS_FILE: &str = "watcher.json";
/// Largest file that is read, in bytes.
const MAX_WAITS_BYTES: u64 = 4 * 1024 * 1024;

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Since when.
    pub since: Timestamp,
    /// A German sentence.
    pub reason: String,
}

/// The record of a card that was edited by hand; both texts are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Path in the repository.
    pub path: String,
    /// Hash of what stands there; none if it is no file that can be read.
    pub hash: Option<String>,
    /// A German sentence.
    pub reason: String,
}

/// Everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Why nothing is committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Wait>,
    /// Why an outcome, a synthesis or an order of this card is not carried out.
    #[serde(default)]
    pub cards: BTreeMap<CardId, Wait>,
    /// Records that were edited by hand.
    #[serde(default)]
    pub edits: BTreeMap<Slug, Edit>,
    /// Paths of which the operator has a staged version, which stays.
    #[serde(default)]
    pub staged: Vec<String>,
}

impl Waits {
    /// What the watcher told last; empty if there is nothing that can be read.
    pub fn read(state_dir: &Path) -> Waits {
        match open_regular_nofollow(&state_dir.join(WAITS_FILE), MAX_WAITS_BYTES) {
            Ok(Read::Bytes(file)) => serde_json::from_slice(&file.bytes).unwrap_or_default(),
            Ok(Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) | Err(_) => {
                Waits::default()
            }
        }
    }

    /// Tells this, if it is not what was told before. Who still waits for the same keeps his `since`.
    ///
    /// # Errors
    /// [`FileError`]; nothing depends on it.
    pub fn tell(mut self, state_dir: &Path) -> Result<(), FileError> {
        let before = Waits::read(state_dir);
        let keep = |wait: &mut Wait, old: Option<&Wait>| {
            if let Some(old) = old.filter(|old| old.reason == wait.reason) {
                wait.since = old.since;
            }
        };
        if let Some(commit) = &mut self.commit {
            keep(commit, before.commit.as_ref());
        }
        for (card, wait) in &mut self.cards {
            keep(wait, before.cards.get(card));
        }
        if self == before {
            return Ok(());
        }
        let path = state_dir.join(WAITS_FILE);
        let bytes = serde_json::to_vec_pretty(&self)
            .map_err(|error| FileError::new("spell", &path, std::io::Error::other(error)))?;
        replace_volatile(&path, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_the_same_keeps_its_beginning_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Waits::read(dir.path()), Waits::default());
        let wait = |since, reason: &str| Wait { since: Timestamp::from_millis(since), reason: reason.into() };
        let told = |since, reason: &str| Waits { commit: Some(wait(since, reason)), ..Waits::default() };
        told(1, "rebase").tell(dir.path()).unwrap();
        let inode =
            || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(dir.path().join(WAITS_FILE)).unwrap());
        let first = inode();
        told(2, "rebase").tell(dir.path()).unwrap();
        assert_eq!((inode(), Waits::read(dir.path())), (first, told(1, "rebase")));
        told(3, "merge").tell(dir.path()).unwrap();
        assert_eq!(Waits::read(dir.path()), told(3, "merge"));
        std::fs::write(dir.path().join(WAITS_FILE), "{").unwrap();
        assert_eq!(Waits::read(dir.path()), Waits::default());
    }
}
