//! The names of the queue's directories; spelled here and nowhere else.
//!
//! ```text
//! <state_dir>/queue/
//!   tmp/  drop/  inbox/<lane>/  running/<lane>-<slot>/  running/extern/
//!   outcomes/  done/  rejected/  cancel/
//! ```
use std::fmt;
use std::path::{Path, PathBuf};

use crate::edge::files::{FileError, list_dir};
use crate::model::job::Lane;

const QUEUE: &str = "queue";
const TMP: &str = "tmp";
const DROP: &str = "drop";
const INBOX: &str = "inbox";
const RUNNING: &str = "running";
const OUTCOMES: &str = "outcomes";
const DONE: &str = "done";
const REJECTED: &str = "rejected";
const CANCEL: &str = "cancel";
const EXTERN: &str = "extern";
const PROGRESS: &str = "progress";

/// Most that the state directory and the queue may be open to others: a way through for the group that drops.
pub(super) const WAY_MODE: u32 = 0o711;
/// Most that the drop directory may be open.
pub(super) const DROP_MODE: u32 = 0o730;
/// Everything else is ours alone.
pub(super) const OWN_MODE: u32 = 0o700;

/// Where a running job lies: a slot of a lane, or with the external builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotName {
    /// `running/<lane>-<n>/`
    Slot {
        /// The lane.
        lane: Lane,
        /// Number of the slot within it.
        number: u32,
    },
    /// `running/extern/`: no slot, never recovered as an orphan.
    Extern,
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotName::Slot { lane, number } => write!(f, "{}-{number}", lane.id()),
            SlotName::Extern => f.write_str(EXTERN),
        }
    }
}

impl SlotName {
    /// The place of a directory's name; `None` if it is not exactly such a name.
    pub fn from_dir_name(name: &str) -> Option<SlotName> {
        if name == EXTERN {
            return Some(SlotName::Extern);
        }
        let (lane, number) = name.rsplit_once('-')?;
        let slot = SlotName::Slot { lane: Lane::from_id(lane)?, number: number.parse().ok()? };
        (slot.to_string() == name).then_some(slot)
    }
}

/// The directories of one queue.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) state_dir: PathBuf,
    pub(super) root: PathBuf,
}

impl Layout {
    pub(super) fn new(state_dir: &Path) -> Layout {
        Layout { state_dir: state_dir.to_owned(), root: state_dir.join(QUEUE) }
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.root.join(TMP)
    }

    pub(super) fn drop_dir(&self) -> PathBuf {
        self.root.join(DROP)
    }

    pub(super) fn inbox(&self, lane: Lane) -> PathBuf {
        self.root.join(INBOX).join(lane.id())
    }

    pub(super) fn all_running(&self) -> PathBuf {
        self.root.join(RUNNING)
    }

    pub(super) fn running(&self, place: SlotName) -> PathBuf {
        self.all_running().join(place.to_string())
    }

    pub(super) fn progress(&self, place: SlotName) -> PathBuf {
        self.running(place).join(PROGRESS)
    }

    pub(super) fn outcomes(&self) -> PathBuf {
        self.root.join(OUTCOMES)
    }

    pub(super) fn done(&self) -> PathBuf {
        self.root.join(DONE)
    }

    pub(super) fn rejected(&self) -> PathBuf {
        self.root.join(REJECTED)
    }

    pub(super) fn cancel(&self) -> PathBuf {
        self.root.join(CANCEL)
    }

    /// Every directory that is always there, parents first, with the most that it may be open.
    pub(super) fn standing(&self) -> Vec<(PathBuf, u32)> {
        let mut all = vec![(self.state_dir.clone(), WAY_MODE), (self.root.clone(), WAY_MODE)];
        all.push((self.drop_dir(), DROP_MODE));
        all.push((self.root.join(INBOX), OWN_MODE));
        all.extend(Lane::ALL.map(|lane| (self.inbox(lane), OWN_MODE)));
        let own =
            [self.tmp(), self.all_running(), self.outcomes(), self.done(), self.rejected(), self.cancel()];
        all.extend(own.map(|dir| (dir, OWN_MODE)));
        all
    }

    /// The running directories that are there.
    pub(super) fn places(&self) -> Result<Vec<SlotName>, FileError> {
        let entries = list_dir(&self.all_running())?;
        Ok(entries.iter().filter_map(|e| e.name.to_str()).filter_map(SlotName::from_dir_name).collect())
    }
}

/// A file in the queue of a state directory that an earlier life left there; it tells a lost state from a first
/// start.
///
/// # Errors
/// [`FileError`] if a directory cannot be listed.
pub fn first_trace(state_dir: &Path) -> Result<Option<PathBuf>, FileError> {
    let layout = Layout::new(state_dir);
    let mut dirs = vec![layout.done(), layout.outcomes()];
    dirs.extend(Lane::ALL.map(|lane| layout.inbox(lane)));
    match layout.places() {
        Ok(places) => dirs.extend(places.into_iter().map(|place| layout.running(place))),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    for dir in dirs {
        match list_dir(&dir) {
            Ok(entries) => {
                if let Some(entry) = entries.into_iter().next() {
                    return Ok(Some(dir.join(entry.name)));
                }
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_directory_has_one_spelling() {
        let slot = SlotName::Slot { lane: Lane::Build, number: 2 };
        assert_eq!(SlotName::from_dir_name("build-2"), Some(slot));
        assert_eq!(SlotName::from_dir_name("extern"), Some(SlotName::Extern));
        for bad in ["build-02", "build-", "build", "Build-1", "other-1", "build--1", "../build-1", ""] {
            assert_eq!(SlotName::from_dir_name(bad), None, "{bad}");
        }
    }
}
