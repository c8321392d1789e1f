//! The queue: state is which files exist, one rename is the moment of commit, every crash point has a named
//! recovery (`docs/queue.md`).
//!
//! - here: the queue itself, publishing, cancelling
//! - [`layout`]: the names of its directories
//! - [`view`]: what lies where, for whoever decides what to do next
//! - `aside`: putting files aside into `rejected/` and `done/`, with a reason
//! - [`claim`]: the worker's side, from the slot lock to the claimed job
//! - [`recover`]: finishing a job, and what a dead run left
//! - [`outcomes`]: leaving outcomes and retiring them
//! - [`intake`]: files dropped by hand
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::files::read::{Read, open_regular_nofollow};
use super::files::{
    DirError, FileError, check_owned_dir, create_dirs_private, exists, remove_durable, rename_noreplace,
    stage, sync_dir, write_new_durable,
};
use super::lock::LockError;
use crate::fault_point;
use crate::model::job::{Job, JobRef, Lane, MAX_JOB_BYTES, parse_job};

mod aside;
pub mod claim;
pub mod external;
pub mod intake;
pub mod layout;
pub mod outcomes;
pub mod recover;
pub mod view;

pub use aside::{Fate, Reason, ThrownOut};
pub use layout::SlotName;

use layout::Layout;

/// Why something could not be done in the queue. It may be done again later.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A directory is not ours.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// A slot's lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A job or an outcome that is larger than its file may be.
    #[error("{name} would have {bytes} bytes, at most {limit} are written")]
    TooLarge {
        /// Name of the file.
        name: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

impl QueueError {
    fn file(&self) -> Option<&FileError> {
        match self {
            QueueError::Dir(DirError::File(error))
            | QueueError::File(error)
            | QueueError::Lock(LockError::File(error)) => Some(error),
            QueueError::Dir(DirError::Foreign { .. } | DirError::NotADirectory { .. })
            | QueueError::Lock(LockError::Busy { .. } | LockError::Order { .. })
            | QueueError::TooLarge { .. } => None,
        }
    }

    /// The disk or the quota is full.
    pub fn is_no_space(&self) -> bool {
        self.file().is_some_and(FileError::is_no_space)
    }

    /// The file system is read-only or failing.
    pub fn is_read_only(&self) -> bool {
        self.file().is_some_and(FileError::is_read_only)
    }
}

/// What publishing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The file is new.
    New,
    /// The same job lay there already, from before a crash.
    AlreadyThere,
}

/// The queue of one state directory.
#[derive(Debug, Clone)]
pub struct Queue {
    layout: Layout,
}

impl Queue {
    /// Opens the queue. With `create`, missing directories are made.
    ///
    /// # Errors
    /// [`QueueError::Dir`] if a directory is missing, or if somebody else owns it.
    pub fn open(state_dir: &Path, create: bool) -> Result<Queue, QueueError> {
        let queue = Queue { layout: Layout::new(state_dir) };
        if create {
            queue.mend()?;
        }
        for (dir, most) in queue.layout.standing() {
            check_owned_dir(&dir, most)?;
        }
        Ok(queue)
    }

    /// The queue for whoever only looks, root for example: nothing is checked, and nothing should be written.
    pub fn look_at(state_dir: &Path) -> Queue {
        Queue { layout: Layout::new(state_dir) }
    }

    /// Makes the directories that are missing and returns them: at a first start all of them, later those that
    /// somebody removed, which is worth an alarm.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn mend(&self) -> Result<Vec<PathBuf>, QueueError> {
        let mut made = Vec::new();
        for (dir, _) in self.layout.standing() {
            if !exists(&dir)? {
                create_dirs_private(&dir)?;
                made.push(dir);
            }
        }
        Ok(made)
    }

    /// Every directory that is always there, parents first.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.layout.standing().into_iter().map(|(dir, _)| dir).collect()
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.layout.state_dir
    }

    /// `inbox/<lane>/`
    pub fn inbox_dir(&self, lane: Lane) -> PathBuf {
        self.layout.inbox(lane)
    }

    /// `outcomes/`
    pub fn outcomes_dir(&self) -> PathBuf {
        self.layout.outcomes()
    }

    /// `drop/`
    pub fn drop_dir(&self) -> PathBuf {
        self.layout.drop_dir()
    }

    /// `cancel/`
    pub fn cancel_dir(&self) -> PathBuf {
        self.layout.cancel()
    }

    /// `rejected/`
    pub fn rejected_dir(&self) -> PathBuf {
        self.layout.rejected()
    }

    /// `running/`, and below it one directory for each slot.
    pub fn running_dir(&self) -> PathBuf {
        self.layout.all_running()
    }

    /// Publishes a job durably into the inbox of its lane. May be repeated after a crash; whether the job lies
    /// further on already is the caller's to know (see [`view`]).
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] beyond [`MAX_JOB_BYTES`]; [`QueueError::File`], and then it may be repeated.
    pub fn publish(&self, job: &Job) -> Result<Published, QueueError> {
        let name = job.reference().job_file();
        let bytes = spell(&name, job, MAX_JOB_BYTES)?;
        let inbox = self.layout.inbox(job.kind.lane());
        let target = inbox.join(&name);
        fault_point!("publish.begin");
        self.mend()?;
        let temporary = stage(&self.layout.tmp(), &name, &bytes)?;
        fault_point!("publish.staged");
        let mut published = Published::New;
        let mut moved = rename_noreplace(&temporary, &target);
        if moved.as_ref().is_err_and(FileError::is_exists) {
            if self.is_same_job(&target, job)? {
                published = Published::AlreadyThere;
                moved = Ok(());
            } else {
                // Not ours: nothing of the board writes another file under this name.
                let reason = Reason::new(&name, "another file had the name of a job that was published");
                self.throw_out(&target, Fate::Rejected, &reason)?;
                moved = rename_noreplace(&temporary, &target);
            }
        }
        if moved.is_err() || published == Published::AlreadyThere {
            let _ = std::fs::remove_file(&temporary);
        }
        moved?;
        fault_point!("publish.renamed");
        sync_dir(&inbox)?;
        fault_point!("publish.synced");
        Ok(published)
    }

    fn is_same_job(&self, path: &Path, job: &Job) -> Result<bool, FileError> {
        Ok(match open_regular_nofollow(path, MAX_JOB_BYTES)? {
            Read::Bytes(file) => parse_job(&file.bytes).is_ok_and(|there| there == *job),
            // Claimed just now: it was the same.
            Read::Missing => true,
            Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied => false,
        })
    }

    /// Moves a job that is nobody's current one, or that was cancelled, from the inbox to `done/`, durably. The
    /// rename decides the race with a claim: `false` if the file was gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn inbox_to_done(&self, lane: Lane, job: JobRef, reason: &str) -> Result<bool, QueueError> {
        let name = job.job_file();
        Ok(self.throw_out(&self.layout.inbox(lane).join(&name), Fate::Done, &Reason::new(&name, reason))?)
    }

    /// Moves a job file that should not be in the inbox, for example a duplicate, to `rejected/`; `false` if it
    /// was gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn reject_inbox(&self, lane: Lane, job: JobRef, reason: &str) -> Result<bool, QueueError> {
        let (name, inbox) = (job.job_file(), self.layout.inbox(lane));
        Ok(self.throw_out(&inbox.join(&name), Fate::Rejected, &Reason::new(&name, reason))?)
    }

    /// Moves a builder's job that was handed to the external builder to `running/extern/`; `false` if it was
    /// gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn inbox_to_extern(&self, job: JobRef) -> Result<bool, QueueError> {
        let dir = self.layout.running(SlotName::Extern);
        create_dirs_private(&dir)?;
        let name = job.job_file();
        let moved = super::files::rename_sync(&self.layout.inbox(Lane::Build).join(&name), &dir.join(&name));
        gone_is_false(moved)
    }

    /// Moves the job of the external builder to `done/`, when its result is applied or it is given up; `false`
    /// if it was gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn extern_to_done(&self, job: JobRef) -> Result<bool, QueueError> {
        Ok(self.move_to_done(&self.layout.running(SlotName::Extern).join(job.job_file()))?)
    }

    /// Asks the run of a job to stop.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn ask_cancel(&self, job: Uuid) -> Result<(), QueueError> {
        let written = write_new_durable(&self.layout.tmp(), &self.layout.cancel(), &job.to_string(), b"");
        match written {
            Err(error) if error.is_exists() => Ok(sync_dir(&self.layout.cancel())?),
            other => Ok(other?),
        }
    }

    /// Takes the request to stop away, when the job has ended.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn clear_cancel(&self, job: Uuid) -> Result<(), QueueError> {
        Ok(remove_durable(&self.layout.cancel().join(job.to_string()))?)
    }

    /// Whether the run of a job is asked to stop.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn cancel_asked(&self, job: Uuid) -> Result<bool, QueueError> {
        Ok(exists(&self.layout.cancel().join(job.to_string()))?)
    }
}

/// The bytes of a job or an outcome, checked against their limit.
fn spell<T: serde::Serialize>(name: &str, value: &T, limit: u64) -> Result<Vec<u8>, QueueError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| FileError::new("spell", name, io::Error::other(error)))?;
    bytes.push(b'\n');
    let size = bytes.len() as u64;
    if size > limit {
        return Err(QueueError::TooLarge { name: name.to_owned(), bytes: size, limit });
    }
    Ok(bytes)
}

/// A move whose source is gone lost a race, which is an answer.
fn gone_is_false(moved: Result<(), FileError>) -> Result<bool, QueueError> {
    match moved {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
