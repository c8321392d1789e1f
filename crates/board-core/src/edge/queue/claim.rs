//! The worker's side: the slot, and taking the oldest job that may run.
//!
//! Liveness is the kernel's lock, never a process id, a time or a heartbeat: whoever holds the slot lock knows
//! that everything in its running directory is orphaned. Two claimers race on one rename; one wins.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Fate, Queue, QueueError, Reason, SlotName, ThrownOut};
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{
    Entry, FileError, Kind, create_dirs_private, exists, list_dir, rename_noreplace, sync_dir,
};
use crate::edge::lock::{Lock, LockClass, slot_lock};
use crate::fault_point;
use crate::model::job::{Job, JobError, JobRef, Lane, MAX_JOB_BYTES, parse_job};

/// A slot under its lock, from claim to finish.
#[derive(Debug)]
#[must_use = "the slot lock is released when this is dropped"]
pub struct Slot {
    pub(super) queue: Queue,
    lane: Lane,
    number: u32,
    _lock: Lock,
}

/// What the state says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is its card's current job and attempt.
    Current,
    /// It is not; it goes to `done/` with this reason.
    Superseded(String),
}

/// Whether a job may run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MayRun {
    /// Yes.
    Now,
    /// Its lane or profile is paused, or the disk is short: a sentence.
    HeldBack(String),
}

/// What a claim brought.
#[derive(Debug)]
pub enum Claim {
    /// The oldest job that may run; it lies in the slot's running directory, durably.
    Job(Box<Job>),
    /// The inbox is empty.
    NothingToDo,
    /// There are jobs, but none may run now; each with its sentence.
    OnlyHeldBack(Vec<(JobRef, String)>),
    /// A file that can neither run nor be moved away; the worker backs off.
    CannotMove {
        /// Its name.
        name: String,
        /// Why.
        error: FileError,
    },
}

/// A claim and what was thrown out before it.
#[derive(Debug)]
pub struct Claimed {
    /// What it brought.
    pub claim: Claim,
    /// Files that cannot run and lie in `rejected/` or `done/` now.
    pub thrown_out: Vec<ThrownOut>,
}

/// What lay in an inbox at one look.
///
/// Apart from the claim, so that the state is read in between: a job is in the state before its file is published, so
/// every file of this look is known to a state that is read after it. The other way round a file that was published
/// between the two would be thrown out as nobody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox(Vec<Entry>);

/// A job file that waits for its turn.
enum Waiting {
    Closed(Entry),
    Open(Box<Job>),
}

/// What a claim met on its way.
#[derive(Default)]
struct Found {
    thrown_out: Vec<ThrownOut>,
    /// The first file that cannot be moved.
    stuck: Option<(String, FileError)>,
}

/// What is to be done with one file of the inbox.
enum Sorted {
    Runs(Box<Job>),
    Goes(Fate, Reason),
    Gone,
}

impl Slot {
    /// Takes the slot, waiting for its lock without end: a second worker of one slot waits here.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn acquire(queue: &Queue, lane: Lane, number: u32) -> Result<Slot, QueueError> {
        Slot::with(queue, lane, number, Lock::acquire)
    }

    /// Takes the slot if it is free.
    ///
    /// # Errors
    /// [`QueueError::Lock`] with the holder if it is not.
    pub fn try_acquire(queue: &Queue, lane: Lane, number: u32) -> Result<Slot, QueueError> {
        Slot::with(queue, lane, number, Lock::try_acquire)
    }

    fn with(
        queue: &Queue,
        lane: Lane,
        number: u32,
        take: impl Fn(&Path, LockClass) -> Result<Lock, crate::edge::lock::LockError>,
    ) -> Result<Slot, QueueError> {
        queue.mend()?;
        let lock = take(&slot_lock(queue.state_dir(), lane, number), LockClass::Slot)?;
        let slot = Slot { queue: queue.clone(), lane, number, _lock: lock };
        create_dirs_private(&queue.layout.running(slot.name()))?;
        Ok(slot)
    }

    /// Its name.
    pub fn name(&self) -> SlotName {
        SlotName::Slot { lane: self.lane, number: self.number }
    }

    /// Looks at the inbox; the state that [`Slot::claim`] judges by is read after this.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn look(&self) -> Result<Inbox, QueueError> {
        fault_point!("claim.begin");
        let inbox = self.queue.layout.inbox(self.lane);
        sync_dir(&inbox)?;
        Ok(Inbox(list_dir(&inbox)?))
    }

    /// Throws out what cannot run (malformed, superseded, duplicate) of what was seen, then takes at most one job:
    /// the oldest that may run now. Durable when it returns.
    ///
    /// `is_expected` tells the jobs that are some card's current one by their names. They are opened from the oldest on
    /// until one may run, everything else at once: a long queue is not read whole for each of its jobs.
    ///
    /// # Errors
    /// [`QueueError`] if the queue cannot be read, or if the claim cannot be made durable; the job may then lie
    /// in the running directory, where the next recovery finds it.
    pub fn claim(
        &self,
        seen: Inbox,
        is_expected: impl Fn(JobRef) -> bool,
        mut standing: impl FnMut(&Job) -> Standing,
        mut may_run: impl FnMut(&Job) -> MayRun,
    ) -> Result<Claimed, QueueError> {
        let inbox = self.queue.layout.inbox(self.lane);
        // After the inbox: a job that another slot claims in between is seen there.
        let running = self.running_jobs()?;
        let mut found = Found::default();
        let mut waiting = BTreeMap::new();
        for entry in seen.0.into_iter().filter(is_json) {
            match JobRef::from_job_file(&entry.name.to_string_lossy()).filter(|job| is_expected(*job)) {
                Some(job) => {
                    waiting.insert(job, Waiting::Closed(entry));
                }
                None => {
                    if let Some(job) = self.open(&inbox, &entry, &running, &mut standing, &mut found)? {
                        waiting.insert(job.reference(), Waiting::Open(job));
                    }
                }
            }
        }
        let mut held_back = Vec::new();
        for (reference, job) in waiting {
            let job = match job {
                Waiting::Open(job) => job,
                Waiting::Closed(entry) => {
                    let opened = self.open(&inbox, &entry, &running, &mut standing, &mut found)?;
                    let Some(job) = opened else { continue };
                    job
                }
            };
            match may_run(&job) {
                MayRun::HeldBack(why) => held_back.push((reference, why)),
                MayRun::Now => match self.take(&inbox, &job) {
                    Ok(true) => {
                        return Ok(Claimed { claim: Claim::Job(job), thrown_out: found.thrown_out });
                    }
                    Ok(false) => {}
                    Err(TakeError::NotMoved(error)) => {
                        found.stuck.get_or_insert((reference.job_file(), error));
                    }
                    Err(TakeError::NotDurable(error)) => return Err(error.into()),
                },
            }
        }
        let claim = match found.stuck {
            Some((name, error)) => Claim::CannotMove { name, error },
            None if held_back.is_empty() => Claim::NothingToDo,
            None => Claim::OnlyHeldBack(held_back),
        };
        Ok(Claimed { claim, thrown_out: found.thrown_out })
    }

    /// Opens one file of the inbox; none if it is gone or cannot run, and is thrown out then.
    fn open(
        &self,
        inbox: &Path,
        entry: &Entry,
        running: &BTreeSet<JobRef>,
        standing: &mut impl FnMut(&Job) -> Standing,
        found: &mut Found,
    ) -> Result<Option<Box<Job>>, QueueError> {
        let (fate, reason) = match self.sort(inbox, entry, running, standing)? {
            Sorted::Runs(job) => return Ok(Some(job)),
            Sorted::Gone => return Ok(None),
            Sorted::Goes(fate, reason) => (fate, reason),
        };
        match self.queue.throw_out(&inbox.join(&entry.name), fate, &reason) {
            Ok(true) => found.thrown_out.push(ThrownOut { fate, reason }),
            Ok(false) => {}
            // The others need not wait for it.
            Err(error) => {
                found.stuck.get_or_insert((entry.name.to_string_lossy().into_owned(), error));
            }
        }
        Ok(None)
    }

    /// Moves one job to the running directory; `false` if another slot was faster.
    fn take(&self, inbox: &Path, job: &Job) -> Result<bool, TakeError> {
        let running = self.queue.layout.running(self.name());
        let name = job.reference().job_file();
        match rename_noreplace(&inbox.join(&name), &running.join(&name)) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(TakeError::NotMoved(error)),
        }
        fault_point!("claim.renamed");
        sync_dir(&running).map_err(TakeError::NotDurable)?;
        fault_point!("claim.running_synced");
        sync_dir(inbox).map_err(TakeError::NotDurable)?;
        fault_point!("claim.inbox_synced");
        Ok(true)
    }

    fn sort(
        &self,
        inbox: &Path,
        entry: &Entry,
        running: &BTreeSet<JobRef>,
        standing: &mut impl FnMut(&Job) -> Standing,
    ) -> Result<Sorted, QueueError> {
        let name = entry.name.to_string_lossy().into_owned();
        let reject = |reason: String| Ok(Sorted::Goes(Fate::Rejected, Reason::new(&name, reason)));
        if entry.kind != Kind::File {
            return reject(format!("it is {}, a job is a regular file", entry.kind.words()));
        }
        let file = match open_regular_nofollow(&inbox.join(&entry.name), MAX_JOB_BYTES)? {
            Read::Bytes(file) => file,
            Read::Missing => return Ok(Sorted::Gone),
            Read::NotRegular(kind) => {
                return reject(format!("it is {}, a job is a regular file", kind.words()));
            }
            Read::TooLarge { size } => {
                return reject(format!("it has {size} bytes, a job has at most {MAX_JOB_BYTES}"));
            }
            Read::Denied => return reject("the service user may not read it".to_owned()),
        };
        let ours = nix::unistd::geteuid().as_raw();
        if file.uid != ours {
            return reject(format!("it belongs to uid {}, a job file to uid {ours}", file.uid));
        }
        let job = match parse_job(&file.bytes) {
            Ok(job) => job,
            Err(error) => return Ok(Sorted::Goes(Fate::Rejected, malformed(&name, &error))),
        };
        let reference = job.reference();
        if name != reference.job_file() {
            let wanted = reference.job_file();
            return reject(format!("its name is not the one of its id and attempt, {wanted}"));
        }
        if job.kind.lane() != self.lane {
            let (kind, lane) = (job.kind.id(), job.kind.lane().id());
            return reject(format!("a {kind} job belongs to the lane {lane}, not {}", self.lane.id()));
        }
        let layout = &self.queue.layout;
        let further = if running.contains(&reference) {
            Some("is running")
        } else if exists(&layout.outcomes().join(reference.outcome_file()))? {
            Some("has left its outcome")
        } else if exists(&layout.done().join(reference.job_file()))?
            || exists(&layout.done().join(reference.outcome_file()))?
        {
            Some("is done")
        } else {
            None
        };
        if let Some(further) = further {
            return reject(format!("duplicate: this attempt of this job {further} already"));
        }
        Ok(match standing(&job) {
            Standing::Current => Sorted::Runs(Box::new(job)),
            Standing::Superseded(why) => {
                Sorted::Goes(Fate::Done, Reason::new(&name, format!("superseded: {why}")))
            }
        })
    }

    /// Jobs in any running directory.
    fn running_jobs(&self) -> Result<BTreeSet<JobRef>, FileError> {
        let mut jobs = BTreeSet::new();
        for place in self.queue.layout.places()? {
            jobs.extend(super::view::files(&self.queue.layout.running(place), false, JobRef::from_job_file)?);
        }
        Ok(jobs)
    }
}

enum TakeError {
    /// The file lies in the inbox still.
    NotMoved(FileError),
    /// It moved, but a power cut may undo that.
    NotDurable(FileError),
}

/// What the path units' globs see.
pub(super) fn is_json(entry: &Entry) -> bool {
    entry.name.as_encoded_bytes().ends_with(b".json")
}

/// The reason of a job file that was not accepted, with its field.
pub(super) fn malformed(name: &str, error: &JobError) -> Reason {
    let reason = Reason::new(name, error.to_string());
    match error {
        JobError::Schema { .. } => reason.in_field("schema"),
        JobError::Value { field, .. } => reason.in_field(*field),
        JobError::Shape(sentence) => match named_field(sentence) {
            Some(field) => reason.in_field(field),
            None => reason,
        },
    }
}

/// serde names a field between backticks after one of these words.
fn named_field(sentence: &str) -> Option<&str> {
    ["unknown field `", "missing field `", "duplicate field `"].iter().find_map(|head| {
        let rest = sentence.split_once(head)?.1;
        rest.split_once('`').map(|(field, _)| field)
    })
}
