//! What lies where in the queue: the look at the directories for `model::pending`, which decides what to do.
//!
//! Files only ever move forward, so inbox, running, outcomes and done are looked at in that order, and a file
//! that moves meanwhile is seen once or twice but never missed.
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::Deserialize;
use uuid::Uuid;

use super::layout::Layout;
use super::{Queue, QueueError};
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{FileError, Kind, exists, list_dir, sync_dir};
use crate::model::card::CardId;
use crate::model::job::{JobRef, Lane, MAX_JOB_BYTES};
use crate::model::pending::{QueueView, RunningFile};
use crate::model::time::Timestamp;

#[derive(Deserialize)]
struct OfCard {
    card_id: CardId,
}

impl Queue {
    /// Looks at everything; in `done/`, which grows, only for the jobs in `asked` and those in an inbox. With
    /// `synced` each directory is synced before it is read, so that what is seen is what a power cut leaves: for
    /// whoever acts on it.
    ///
    /// # Errors
    /// [`QueueError::File`] with the directory.
    pub fn view(&self, asked: &[JobRef], synced: bool) -> Result<QueueView, QueueError> {
        let mut view = self.view_without_done(synced)?;
        let done = self.layout.done();
        if synced {
            sync_dir(&done)?;
        }
        let inbox = view.inbox.iter().map(|(_, job)| *job);
        let asked: BTreeSet<JobRef> = asked.iter().copied().chain(inbox).collect();
        for job in asked {
            if exists(&done.join(job.job_file()))? {
                view.done_jobs.insert(job);
            }
            if exists(&done.join(job.outcome_file()))? {
                view.done_outcomes.insert(job);
            }
        }
        Ok(view)
    }

    /// Looks at everything but `done/`: for whoever wants to know what runs and what waits.
    ///
    /// # Errors
    /// As [`Queue::view`].
    pub fn view_without_done(&self, synced: bool) -> Result<QueueView, QueueError> {
        let mut view = QueueView::default();
        for lane in Lane::ALL {
            let jobs = files(&self.layout.inbox(lane), synced, JobRef::from_job_file)?;
            view.inbox.extend(jobs.into_iter().map(|job| (lane, job)));
        }
        for place in self.layout.places()? {
            let dir = self.layout.running(place);
            for job in files(&dir, synced, JobRef::from_job_file)? {
                let card_id = match open_regular_nofollow(&dir.join(job.job_file()), MAX_JOB_BYTES)? {
                    Read::Bytes(file) => serde_json::from_slice(&file.bytes).ok(),
                    // Finished between the two looks: it is seen again further on.
                    Read::Missing => continue,
                    Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied => None,
                };
                let card_id = card_id.map(|of: OfCard| of.card_id);
                view.running.push(RunningFile { place: place.to_string(), job, card_id });
            }
        }
        view.outcomes.extend(files(&self.layout.outcomes(), synced, JobRef::from_outcome_file)?);
        view.cancels.extend(files(&self.layout.cancel(), synced, |name| Uuid::try_parse(name).ok())?);
        Ok(view)
    }
}

impl Queue {
    /// Since when the file lies in the inbox of a lane that lies there longest, whatever it is: what the glob of a
    /// path unit matches waits for a worker.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn waits_since(&self, lane: Lane) -> Result<Option<Timestamp>, QueueError> {
        let inbox = self.layout.inbox(lane);
        let mut oldest = None;
        for entry in list_dir(&inbox)? {
            let name = entry.name.as_encoded_bytes();
            if !name.ends_with(b".json") || name.starts_with(b".") {
                continue;
            }
            // Claimed since; else the change of the inode, which the rename into the inbox sets.
            let Ok(about) = std::fs::symlink_metadata(inbox.join(&entry.name)) else { continue };
            let since = Timestamp::from_millis(about.ctime().saturating_mul(1000));
            oldest = Some(oldest.map_or(since, |known: Timestamp| known.min(since)));
        }
        Ok(oldest)
    }
}

/// What the path units of a lane watch, `%i` standing for the slot: the inbox, and their own running directory.
pub fn path_globs(state_dir: &Path, lane: Lane) -> [String; 2] {
    let layout = Layout::new(state_dir);
    let running = layout.all_running().join(format!("{}-%i", lane.id()));
    [layout.inbox(lane), running].map(|dir| format!("{}/*.json", dir.display()))
}

/// The regular files of a directory whose names mean something, in the order of what they mean. A running
/// directory that is taken away meanwhile is empty.
pub(super) fn files<T: Ord>(
    dir: &Path,
    synced: bool,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, FileError> {
    let listed = if synced { sync_dir(dir).and_then(|()| list_dir(dir)) } else { list_dir(dir) };
    let entries = match listed {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let regular = entries.iter().filter(|entry| entry.kind == Kind::File);
    let mut found: Vec<T> = regular.filter_map(|entry| entry.name.to_str()).filter_map(meaning).collect();
    found.sort();
    Ok(found)
}
