//! The end of a run: finished by its worker, or recovered by whoever finds the slot lock free.
//!
//! Nothing is moved back and nothing is run again here: an orphan becomes the outcome `interrupted`, and the
//! completion decides whether there is a next attempt.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::claim::{Slot, is_json, malformed};
use super::{Fate, Queue, QueueError, Reason, SlotName, ThrownOut};
use crate::edge::clock;
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{FileError, Kind, exists, list_dir, replace_volatile, sync_dir};
use crate::edge::lock::{Lock, LockClass, LockError, slot_lock};
use crate::fault_point;
use crate::model::job::{Job, JobRef, Lane, MAX_JOB_BYTES, parse_job};
use crate::model::outcome::{Outcome, RunResult, SavedWork};
use crate::model::time::Timestamp;

/// Largest progress file, bytes.
const MAX_PROGRESS_BYTES: u64 = 64 * 1024;

/// How far a run is; lost by a crash, and nothing is decided on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The job and attempt that run.
    pub job: JobRef,
    /// Iterations so far.
    pub iterations: u32,
    /// When the agent last gave a sign of life.
    pub last_activity: Timestamp,
    /// What it does, where the runtime tells, one short line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
}

/// Why a recovery is not through. It may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError<E> {
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The earlier run is not gone, or its work could not be saved.
    #[error("{0}")]
    Work(E),
}

impl<E> From<FileError> for RecoverError<E> {
    fn from(error: FileError) -> Self {
        RecoverError::Queue(error.into())
    }
}

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Jobs that became `interrupted`.
    pub interrupted: Vec<JobRef>,
    /// Jobs whose outcome was there already.
    pub finished: Vec<JobRef>,
    /// Files that are no jobs.
    pub thrown_out: Vec<ThrownOut>,
}

impl Slot {
    /// Leaves the outcome durably and only then moves the job to `done/`. May be repeated after an error: an
    /// outcome that cannot be written is retried by the worker, which does not exit with it.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn finish(&self, outcome: &Outcome) -> Result<(), QueueError> {
        self.queue.leave_outcome(outcome)?;
        fault_point!("finish.outcome_left");
        self.end(outcome.reference())
    }

    /// Puts a claimed job aside that turned out to be nobody's current one: no run, no outcome.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn superseded(&self, job: JobRef, why: &str) -> Result<(), QueueError> {
        let name = job.job_file();
        let from = self.queue.layout.running(self.name()).join(&name);
        self.queue.throw_out(&from, Fate::Done, &Reason::new(&name, format!("superseded: {why}")))?;
        Ok(())
    }

    /// Moves a job whose outcome is durable to `done/`.
    fn end(&self, job: JobRef) -> Result<(), QueueError> {
        let layout = &self.queue.layout;
        let _ = std::fs::remove_file(layout.progress(self.name()));
        self.queue.move_to_done(&layout.running(self.name()).join(job.job_file()))?;
        fault_point!("finish.job_done");
        Ok(())
    }

    /// Deals with what a dead run left, before anything is claimed. First `gone` waits until no process of the
    /// earlier run is left. Then each job whose outcome lies in `outcomes/` or `done/` goes to `done/`; for each
    /// other one `save` keeps the work of a build, the outcome `interrupted` is left, and it goes to `done/`.
    ///
    /// # Errors
    /// [`RecoverError::Work`] with what the closures say; [`RecoverError::Queue`]. It may be repeated.
    pub fn recover<E>(
        &self,
        gone: impl FnOnce() -> Result<(), E>,
        mut save: impl FnMut(&Job) -> Result<Option<SavedWork>, E>,
    ) -> Result<Recovered, RecoverError<E>> {
        gone().map_err(RecoverError::Work)?;
        fault_point!("recover.begin");
        let layout = &self.queue.layout;
        let dir = layout.running(self.name());
        let mut recovered = Recovered::default();
        sync_dir(&dir)?;
        for entry in list_dir(&dir)?.into_iter().filter(is_json) {
            let name = entry.name.to_string_lossy().into_owned();
            let job = match read_job(&dir, &entry.name, entry.kind)? {
                Found::Job(job) => job,
                Found::Gone => continue,
                Found::NoJob(reason) => {
                    self.queue.throw_out(&dir.join(&entry.name), Fate::Rejected, &reason)?;
                    recovered.thrown_out.push(ThrownOut { fate: Fate::Rejected, reason });
                    continue;
                }
            };
            let reference = job.reference();
            if name != reference.job_file() {
                let reason = Reason::new(&name, "its name is not the one of its id and attempt");
                self.queue.throw_out(&dir.join(&entry.name), Fate::Rejected, &reason)?;
                recovered.thrown_out.push(ThrownOut { fate: Fate::Rejected, reason });
                continue;
            }
            let outcome = reference.outcome_file();
            if exists(&layout.outcomes().join(&outcome))? || exists(&layout.done().join(&outcome))? {
                // The run died between its two renames; the first one may not be durable yet.
                sync_dir(&layout.outcomes())?;
                sync_dir(&layout.done())?;
                self.end(reference)?;
                recovered.finished.push(reference);
                continue;
            }
            let saved = save(&job).map_err(RecoverError::Work)?;
            fault_point!("recover.saved");
            let sentence = "the run ended before it could leave an outcome: a stop, a crash or a power cut";
            let mut left = Outcome::without_run(&job, RunResult::Interrupted, sentence, clock::now());
            left.saved = saved;
            self.finish(&left)?;
            recovered.interrupted.push(reference);
        }
        let _ = std::fs::remove_file(layout.progress(self.name()));
        Ok(recovered)
    }

    /// Writes how far the run is, atomically for readers and without a sync. At most once a second, please.
    ///
    /// # Errors
    /// [`QueueError::File`]; no reason to stop a run.
    pub fn write_progress(&self, progress: &Progress) -> Result<(), QueueError> {
        let bytes = super::spell("progress", progress, MAX_PROGRESS_BYTES)?;
        Ok(replace_volatile(&self.queue.layout.progress(self.name()), &bytes)?)
    }
}

/// What a file in a running directory is.
enum Found {
    Job(Box<Job>),
    NoJob(Reason),
    Gone,
}

fn read_job(dir: &std::path::Path, name: &std::ffi::OsStr, kind: Kind) -> Result<Found, FileError> {
    let shown = name.to_string_lossy();
    let none = |why: String| Ok(Found::NoJob(Reason::new(&shown, why)));
    if kind != Kind::File {
        return none(format!("it is {}, a job is a regular file", kind.words()));
    }
    match open_regular_nofollow(&dir.join(name), MAX_JOB_BYTES)? {
        Read::Bytes(file) => match parse_job(&file.bytes) {
            Ok(job) => Ok(Found::Job(Box::new(job))),
            Err(error) => Ok(Found::NoJob(malformed(&shown, &error))),
        },
        Read::Missing => Ok(Found::Gone),
        Read::NotRegular(kind) => none(format!("it is {}, a job is a regular file", kind.words())),
        Read::TooLarge { size } => none(format!("it has {size} bytes, a job has at most {MAX_JOB_BYTES}")),
        Read::Denied => none("the service user may not read it".to_owned()),
    }
}

/// Since when each running job was seen under a free slot lock, in the memory of the one who looks.
#[derive(Debug, Default)]
pub struct OrphanWatch {
    seen: BTreeMap<(Lane, u32, JobRef), Instant>,
}

impl Queue {
    /// How far the run of a slot is; `None` if it tells nothing that can be read.
    pub fn read_progress(&self, slot: SlotName) -> Option<Progress> {
        match open_regular_nofollow(&self.layout.progress(slot), MAX_PROGRESS_BYTES) {
            Ok(Read::Bytes(file)) => serde_json::from_slice(&file.bytes).ok(),
            Ok(Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) | Err(_) => None,
        }
    }

    /// Slots whose running directory holds a job while their lock was free at every look for at least
    /// `min_free`: taken away, masked, or stopped. Whoever wants to recover one takes it with
    /// [`Slot::try_acquire`] and calls [`Slot::recover`]. The second value tells whether some are free but not
    /// for long enough, so that another look is due.
    ///
    /// # Errors
    /// [`QueueError`]; a lock that is busy is none.
    pub fn orphans(
        &self,
        watch: &mut OrphanWatch,
        min_free: Duration,
        now: Instant,
    ) -> Result<(Vec<(Lane, u32)>, bool), QueueError> {
        let mut seen = BTreeMap::new();
        let mut ripe = Vec::new();
        for place in self.layout.places()? {
            let SlotName::Slot { lane, number } = place else { continue };
            let jobs = super::view::files(&self.layout.running(place), false, JobRef::from_job_file)?;
            if jobs.is_empty() {
                continue;
            }
            match Lock::try_acquire(&slot_lock(self.state_dir(), lane, number), LockClass::Slot) {
                Ok(lock) => drop(lock),
                Err(LockError::Busy { .. }) => continue,
                Err(error @ (LockError::Order { .. } | LockError::File(_))) => return Err(error.into()),
            }
            for job in jobs {
                let key = (lane, number, job);
                let since = watch.seen.get(&key).copied().unwrap_or(now);
                seen.insert(key, since);
                if now.saturating_duration_since(since) >= min_free && !ripe.contains(&(lane, number)) {
                    ripe.push((lane, number));
                }
            }
        }
        let waiting = seen.keys().any(|(lane, number, _)| !ripe.contains(&(*lane, *number)));
        watch.seen = seen;
        Ok((ripe, waiting))
    }
}
