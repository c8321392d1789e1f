//! Files dropped by hand into `drop/`: found, taken under a name of our own, removed when their request is in
//! the state.
//!
//! What a dropped file asks for, and whose files are accepted, is decided by the watcher. Here are the moves:
//! `<any name>.json` becomes `<uuid>.adopt`, and that uuid is the key of the request, so a crash between the
//! write of the state and the removal repeats only the removal.
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::claim::is_json;
use super::{Fate, Queue, QueueError, Reason, gone_is_false};
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{FileError, Kind, list_dir, remove_durable, rename_sync, sync_dir};
use crate::fault_point;
use crate::model::job::JobRef;

/// Largest dropped file, bytes: it holds four short fields.
pub const MAX_DROP_BYTES: u64 = 64 * 1024;
/// Ending of a dropped file that was taken.
const ADOPT: &str = ".adopt";
/// Age of a file in `tmp/` that its writer must have given up.
const STALE_STAGING: Duration = Duration::from_secs(3600);

/// A dropped file that was not taken yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name in `drop/`, which need not be UTF-8.
    pub name: OsString,
    /// What it is: bytes with owner, number of links and time, or why it has none.
    pub read: Read,
}

/// A dropped file that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Key of its request.
    pub key: Uuid,
    /// What it is.
    pub read: Read,
}

impl Queue {
    /// The files `*.json` in `drop/`, by name.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn read_drops(&self) -> Result<Vec<Dropped>, QueueError> {
        let dir = self.layout.drop_dir();
        let mut drops = Vec::new();
        for entry in list_dir(&dir)?.into_iter().filter(is_json) {
            let read = read(&dir, &entry.name, entry.kind)?;
            if read != Read::Missing {
                drops.push(Dropped { name: entry.name, read });
            }
        }
        Ok(drops)
    }

    /// Takes a dropped file, durably; `None` if it was gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn take_drop(&self, name: &OsStr) -> Result<Option<Uuid>, QueueError> {
        let key = Uuid::new_v4();
        let dir = self.layout.drop_dir();
        let taken = gone_is_false(rename_sync(&dir.join(name), &self.adopted_path(key)))?;
        fault_point!("adopt.taken");
        Ok(taken.then_some(key))
    }

    /// Files that were taken and not removed yet, from this pass or from before a crash.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn adopted(&self) -> Result<Vec<Adopted>, QueueError> {
        let dir = self.layout.drop_dir();
        sync_dir(&dir)?;
        let mut adopted = Vec::new();
        for entry in list_dir(&dir)? {
            let key = entry.name.to_str().and_then(|name| name.strip_suffix(ADOPT));
            let Some(key) = key.and_then(|key| Uuid::try_parse(key).ok()) else { continue };
            if entry.name != OsStr::new(&format!("{key}{ADOPT}")) {
                continue;
            }
            let read = read(&dir, &entry.name, entry.kind)?;
            if read != Read::Missing {
                adopted.push(Adopted { key, read });
            }
        }
        Ok(adopted)
    }

    /// Removes a taken file whose request is in the state.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn remove_adopted(&self, key: Uuid) -> Result<(), QueueError> {
        remove_durable(&self.adopted_path(key))?;
        fault_point!("adopt.removed");
        Ok(())
    }

    /// Moves a dropped file to `rejected/`; `false` if it was gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn reject_drop(&self, name: &OsStr, why: &str, field: Option<&str>) -> Result<bool, QueueError> {
        let mut reason = Reason::new(&name.to_string_lossy(), why);
        reason.field = field.map(str::to_owned);
        Ok(self.throw_out(&self.layout.drop_dir().join(name), Fate::Rejected, &reason)?)
    }

    /// Moves a taken file to `rejected/`, under the name that it was dropped with where that is known; `false`
    /// if it was gone. A crash in between leaves it dropped, and it is refused again.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn reject_adopted(
        &self,
        key: Uuid,
        name: Option<&OsStr>,
        why: &str,
        field: Option<&str>,
    ) -> Result<bool, QueueError> {
        let taken = format!("{key}{ADOPT}");
        let Some(name) = name else { return self.reject_drop(OsStr::new(&taken), why, field) };
        match rename_sync(&self.adopted_path(key), &self.layout.drop_dir().join(name)) {
            Ok(()) => self.reject_drop(name, why, field),
            // Somebody dropped another file of this name meanwhile.
            Err(error) if error.is_exists() => self.reject_drop(OsStr::new(&taken), why, field),
            Err(error) => gone_is_false(Err(error)),
        }
    }

    fn adopted_path(&self, key: Uuid) -> PathBuf {
        self.layout.drop_dir().join(format!("{key}{ADOPT}"))
    }

    /// Removes files from `done/` and `rejected/` that were last changed longer ago than each keeps them (none:
    /// for ever), and what writers that died left in `tmp/`; returns how many. Files of jobs for which `needed`
    /// holds stay.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn remove_old(
        &self,
        done: Option<Duration>,
        rejected: Option<Duration>,
        needed: impl Fn(JobRef) -> bool,
    ) -> Result<usize, QueueError> {
        let mut removed = remove_older(&self.layout.tmp(), STALE_STAGING, |_| false)?;
        for (dir, keep) in [(self.layout.done(), done), (self.layout.rejected(), rejected)] {
            let Some(keep) = keep else { continue };
            removed += remove_older(&dir, keep, |name| {
                let job = JobRef::from_job_file(name).or_else(|| JobRef::from_outcome_file(name));
                job.is_some_and(&needed)
            })?;
        }
        Ok(removed)
    }
}

fn read(dir: &Path, name: &OsStr, kind: Kind) -> Result<Read, FileError> {
    if kind == Kind::File {
        open_regular_nofollow(&dir.join(name), MAX_DROP_BYTES)
    } else {
        Ok(Read::NotRegular(kind))
    }
}

fn remove_older(dir: &Path, age: Duration, stays: impl Fn(&str) -> bool) -> Result<usize, FileError> {
    let limit = SystemTime::now().checked_sub(age);
    let mut removed = 0;
    for entry in list_dir(dir)? {
        let path = dir.join(&entry.name);
        // By the change of the inode, which a move into this directory sets, not of the content.
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        let changed = std::os::unix::fs::MetadataExt::ctime(&meta);
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(changed.max(0).cast_unsigned()));
        let old = changed.zip(limit).is_some_and(|(changed, limit)| changed < limit);
        if !old || entry.name.to_str().is_some_and(&stays) {
            continue;
        }
        let gone = match entry.kind {
            Kind::Directory => std::fs::remove_dir_all(&path),
            Kind::File | Kind::Link | Kind::Special => std::fs::remove_file(&path),
        };
        gone.map_err(FileError::at("remove", &path))?;
        removed += 1;
    }
    Ok(removed)
}
