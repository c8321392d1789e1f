//! Bringing an earlier state back, for `boardctl state restore`: the one way to replace a state that cannot be
//! read. What was there is kept beside it.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::snapshot::{Snapshot, compact};
use super::{STATE_FILE, Store, StoreError, read_state};
use crate::edge::clock;
use crate::edge::files::{FileError, exists};
use crate::model::board::Board;

/// What stands in the name of a state that was replaced by an earlier one.
pub(super) const BROKEN: &str = "state.json.broken-";
/// Restores within one second that each get a name.
const SAME_SECOND: u32 = 100;

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Generation that the restored state got.
    pub generation: u64,
    /// Where the state that was there is kept, if there was one.
    pub broken: Option<PathBuf>,
}

impl Store {
    /// Brings a snapshot back.
    ///
    /// # Errors
    /// [`StoreError`] if the snapshot cannot be read; nothing is changed then.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<Restored, StoreError> {
        self.put_back(read_state(&snapshot.path)?)
    }

    /// Puts a whole board in the place of the state, for example one that was rebuilt from the repository. Its
    /// generation is raised above all that are known, so that no revision of a card is given out twice.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written; the old state is then still there.
    pub fn put_back(&self, mut board: Board) -> Result<Restored, StoreError> {
        let _lock = self.lock()?;
        let newest = self.snapshots()?.first().map_or(0, |snapshot| snapshot.generation);
        // An unreadable state was written after the newest snapshot, at most a minute's writes ago or more;
        // a wide step covers what it may have counted.
        let there = self.read().map_or(newest.saturating_add(1_000_000), |board| board.generation);
        board.generation = board.generation.max(newest).max(there).saturating_add(1);
        let board = Arc::new(board);
        let broken = self.keep_broken()?;
        self.write(&board, None)?;
        Ok(Restored { generation: board.generation, broken })
    }

    /// Gives the state that is there a second name, so that at no time there is none.
    fn keep_broken(&self) -> Result<Option<PathBuf>, StoreError> {
        if !exists(&self.path)? {
            return Ok(None);
        }
        let time = compact(clock::now());
        let named = |n: u32| match n {
            1 => self.dir.join(format!("{BROKEN}{time}")),
            _ => self.dir.join(format!("{BROKEN}{time}-{n}")),
        };
        let mut path = named(1);
        for n in 2..SAME_SECOND {
            if !exists(&path)? {
                break;
            }
            path = named(n);
        }
        self.second_name(&path)?;
        Ok(Some(path))
    }

    fn second_name(&self, path: &Path) -> Result<(), FileError> {
        // A directory or another odd thing named like the state cannot be linked: it is moved away.
        match std::fs::hard_link(&self.path, path) {
            Ok(()) => Ok(()),
            Err(_) => std::fs::rename(&self.path, path)
                .map_err(FileError::at("keep the broken state as", &self.dir.join(STATE_FILE))),
        }
    }
}
