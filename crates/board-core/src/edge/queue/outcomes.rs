//! Outcomes: left once, applied at most once, kept.
use super::{Fate, Queue, QueueError, Reason, ThrownOut, gone_is_false, spell};
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{
    Entry, FileError, Kind, exists, list_dir, rename_noreplace, rename_sync, stage, sync_dir,
};
use crate::fault_point;
use crate::model::job::JobRef;
use crate::model::outcome::{MAX_OUTCOME_BYTES, Outcome, parse_outcome};

/// What leaving an outcome did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is new.
    New,
    /// One of this job and attempt was there first, in `outcomes/` or in `done/`; that one counts.
    AnotherWasFirst,
}

/// The outcomes that wait to be applied.
#[derive(Debug, Default)]
pub struct FoundOutcomes {
    /// Those that can be read, oldest job first.
    pub outcomes: Vec<Outcome>,
    /// Files that are none; they lie in `rejected/` now.
    pub thrown_out: Vec<ThrownOut>,
    /// Files that are none and cannot be moved away.
    pub stuck: Vec<FileError>,
}

impl Queue {
    /// Leaves an outcome durably: temporary file, sync, rename without replacing, sync of `outcomes/`. May be
    /// repeated.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] beyond [`MAX_OUTCOME_BYTES`]; [`QueueError::File`], and then it may be
    /// repeated: an outcome that cannot be written is never given up.
    pub fn leave_outcome(&self, outcome: &Outcome) -> Result<Left, QueueError> {
        let name = outcome.reference().outcome_file();
        let bytes = spell(&name, outcome, MAX_OUTCOME_BYTES)?;
        fault_point!("outcome.begin");
        // Not even a removed queue may cost an outcome.
        self.mend()?;
        let (outcomes, done) = (self.layout.outcomes(), self.layout.done());
        if exists(&done.join(&name))? {
            sync_dir(&done)?;
            return Ok(Left::AnotherWasFirst);
        }
        let target = outcomes.join(&name);
        let temporary = stage(&self.layout.tmp(), &name, &bytes)?;
        fault_point!("outcome.staged");
        let mut moved = rename_noreplace(&temporary, &target);
        if moved.as_ref().is_err_and(FileError::is_exists) {
            let regular = std::fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_file());
            if regular {
                let _ = std::fs::remove_file(&temporary);
                sync_dir(&outcomes)?;
                return Ok(Left::AnotherWasFirst);
            }
            // A directory or a link cannot be the outcome that was there first.
            let reason = Reason::new(&name, "something else had the name of an outcome");
            self.throw_out(&target, Fate::Rejected, &reason)?;
            moved = rename_noreplace(&temporary, &target);
        }
        if moved.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        moved?;
        fault_point!("outcome.renamed");
        sync_dir(&outcomes)?;
        fault_point!("outcome.synced");
        Ok(Left::New)
    }

    /// Reads all outcomes, after a sync of their directory. What is none is moved to `rejected/`: a job without
    /// an outcome is then found by reconcile.
    ///
    /// # Errors
    /// [`QueueError::File`] if the directory cannot be read.
    pub fn read_outcomes(&self) -> Result<FoundOutcomes, QueueError> {
        let dir = self.layout.outcomes();
        sync_dir(&dir)?;
        let mut found = FoundOutcomes::default();
        for entry in list_dir(&dir)? {
            match self.read_outcome(&entry) {
                Ok(Some(Ok(outcome))) => found.outcomes.push(outcome),
                Ok(None) => {}
                Ok(Some(Err(reason))) => {
                    match self.throw_out(&dir.join(&entry.name), Fate::Rejected, &reason) {
                        Ok(true) => found.thrown_out.push(ThrownOut { fate: Fate::Rejected, reason }),
                        Ok(false) => {}
                        Err(error) => found.stuck.push(error),
                    }
                }
                Err(error) => found.stuck.push(error),
            }
        }
        found.outcomes.sort_by_key(Outcome::reference);
        Ok(found)
    }

    /// One outcome, or why it is none; `None` if it is gone.
    fn read_outcome(&self, entry: &Entry) -> Result<Option<Result<Outcome, Reason>>, FileError> {
        let name = entry.name.to_string_lossy().into_owned();
        let none = |why: String| Ok(Some(Err(Reason::new(&name, why))));
        if entry.kind != Kind::File {
            return none(format!("it is {}, an outcome is a regular file", entry.kind.words()));
        }
        let file = match open_regular_nofollow(&self.layout.outcomes().join(&entry.name), MAX_OUTCOME_BYTES)?
        {
            Read::Bytes(file) => file,
            Read::Missing => return Ok(None),
            Read::NotRegular(kind) => {
                return none(format!("it is {}, an outcome is a regular file", kind.words()));
            }
            Read::TooLarge { size } => {
                return none(format!("it has {size} bytes, an outcome has at most {MAX_OUTCOME_BYTES}"));
            }
            Read::Denied => return none("the service user may not read it".to_owned()),
        };
        let ours = nix::unistd::geteuid().as_raw();
        if file.uid != ours {
            return none(format!("it belongs to uid {}, an outcome to uid {ours}", file.uid));
        }
        match parse_outcome(&file.bytes) {
            Err(error) => none(error.to_string()),
            Ok(outcome) if outcome.reference().outcome_file() == name => Ok(Some(Ok(outcome))),
            Ok(outcome) => {
                let wanted = outcome.reference().outcome_file();
                none(format!("its name is not the one of its job and attempt, {wanted}"))
            }
        }
    }

    /// Moves an outcome to `done/`, when it is applied or, with a reason, when it is stale; `false` if it was
    /// gone.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn retire_outcome(&self, job: JobRef, stale: Option<&str>) -> Result<bool, QueueError> {
        fault_point!("retire.begin");
        let name = job.outcome_file();
        let from = self.layout.outcomes().join(&name);
        let moved = match stale {
            Some(why) => self.throw_out(&from, Fate::Done, &Reason::new(&name, format!("stale: {why}")))?,
            None => self.move_to_done(&from)?,
        };
        fault_point!("retire.moved");
        Ok(moved)
    }

    /// Brings an outcome back from `done/`, when its card says that it was not applied; `false` if there is
    /// none. One that waits already counts.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn bring_back(&self, job: JobRef) -> Result<bool, QueueError> {
        let name = job.outcome_file();
        let (from, to) = (self.layout.done().join(&name), self.layout.outcomes().join(&name));
        let moved = match rename_sync(&from, &to) {
            Err(error) if error.is_exists() => Ok(true),
            other => gone_is_false(other),
        };
        fault_point!("bring_back.moved");
        moved
    }
}
