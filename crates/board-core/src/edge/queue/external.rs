//! The external builder: jobs copied into its inbox, results taken out of its directory (queue.md, "Builder inbox").
//!
//! Both directories may lie on another file system and belong to another user, so nothing is ever renamed between
//! them and ours: what goes out and what comes in is copied, synced, and only then removed where it came from.
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use uuid::Uuid;

use super::claim::is_json;
use super::layout::SlotName;
use super::{Queue, QueueError, Reason};
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{FileError, Kind, exists, list_dir, remove_durable, sync_dir, write_new_durable};
use crate::model::job::{JobRef, Lane, MAX_JOB_BYTES};
use crate::model::outcome::MAX_OUTCOME_BYTES;

/// How many names of one file are tried in `rejected/`.
const MAX_SAME_NAME: u32 = 1_000;

/// A file that the external builder left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its name in the directory of results, which need not be UTF-8.
    pub name: OsString,
    /// What it is.
    pub read: Read,
}

impl Queue {
    /// Copies the job to the inbox of the external builder and moves our own file to `running/extern/`; `false` if it
    /// was gone. A crash between the two copies it once more, under the same name.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn hand_over(&self, inbox: &Path, job: JobRef) -> Result<bool, QueueError> {
        let name = job.job_file();
        let Read::Bytes(file) =
            open_regular_nofollow(&self.layout.inbox(Lane::Build).join(&name), MAX_JOB_BYTES)?
        else {
            return Ok(false);
        };
        copy_out(inbox, &name, &file.bytes)?;
        self.inbox_to_extern(job)
    }

    /// The jobs that the external builder has.
    ///
    /// # Errors
    /// [`QueueError::File`].
    pub fn handed_over(&self) -> Result<Vec<JobRef>, QueueError> {
        let dir = self.layout.running(SlotName::Extern);
        if !exists(&dir)? {
            return Ok(Vec::new());
        }
        let entries = list_dir(&dir)?;
        Ok(entries.iter().filter_map(|entry| JobRef::from_job_file(entry.name.to_str()?)).collect())
    }

    /// The files `*.json` in the directory of results, by name.
    ///
    /// # Errors
    /// [`QueueError::File`] if the directory cannot be read.
    pub fn read_delivered(&self, results: &Path) -> Result<Vec<Delivered>, QueueError> {
        // A rename that is seen is not yet one that survives.
        sync_dir(results)?;
        let mut found = Vec::new();
        // A directory is nothing that could be taken away.
        let files =
            list_dir(results)?.into_iter().filter(|entry| is_json(entry) && entry.kind != Kind::Directory);
        for entry in files {
            let read = open_regular_nofollow(&results.join(&entry.name), MAX_OUTCOME_BYTES)?;
            if read != Read::Missing {
                found.push(Delivered { name: entry.name, read });
            }
        }
        Ok(found)
    }

    /// Removes a result that was taken in.
    ///
    /// # Errors
    /// [`QueueError::File`]; it is found again, and is a duplicate then.
    pub fn remove_delivered(&self, results: &Path, name: &OsStr) -> Result<(), QueueError> {
        Ok(remove_durable(&results.join(name))?)
    }

    /// Keeps a result that is not taken in `rejected/` with its reason, and removes it where it lies. What is no
    /// regular file, or too large to be one, has nothing to be kept.
    ///
    /// # Errors
    /// [`QueueError::File`]; it is found again.
    pub fn reject_delivered(
        &self,
        results: &Path,
        delivered: &Delivered,
        why: &str,
        field: Option<&str>,
    ) -> Result<(), QueueError> {
        let name = delivered.name.to_string_lossy().into_owned();
        let mut reason = Reason::new(&name, why);
        reason.field = field.map(str::to_owned);
        let bytes = match &delivered.read {
            Read::Bytes(file) => file.bytes.as_slice(),
            Read::Missing | Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied => b"",
        };
        self.keep_rejected(&name, bytes, &reason)?;
        self.remove_delivered(results, &delivered.name)
    }

    fn keep_rejected(&self, name: &str, bytes: &[u8], reason: &Reason) -> Result<(), QueueError> {
        let (staging, rejected) = (self.layout.tmp(), self.layout.rejected());
        let stem = name.trim_end_matches(".json");
        for n in 1..=MAX_SAME_NAME {
            let name = if n == 1 { name.to_owned() } else { format!("{stem}.{n}.json") };
            if exists(&rejected.join(&name))? {
                continue;
            }
            let text = serde_json::to_vec(reason).unwrap_or_default();
            match write_new_durable(&staging, &rejected, &format!("{name}.reason.json"), &text) {
                Err(error) if error.is_exists() => {}
                other => other?,
            }
            match write_new_durable(&staging, &rejected, &name, bytes) {
                Err(error) if error.is_exists() => continue,
                other => other?,
            }
            return Ok(());
        }
        Ok(())
    }
}

/// Writes a file into a directory of another service: a temporary name beside, synced, renamed. Its group is the
/// directory's, and may read it.
fn copy_out(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = dir.join(format!(".tmp-{}", Uuid::new_v4()));
    let written = (|| {
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(&temporary)?;
        // Only a member of the group may; where the directory passes its group on nothing is to be done.
        let group = std::fs::metadata(dir)?.gid();
        if file.metadata()?.gid() != group {
            let _ = fchown(&file, None, Some(group));
        }
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o640))?;
        file.write_all(bytes)?;
        file.sync_all()
    })();
    let renamed = written.map_err(FileError::at("write", &temporary)).and_then(|()| {
        std::fs::rename(&temporary, dir.join(name)).map_err(FileError::at("rename", &temporary))
    });
    if renamed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    renamed?;
    sync_dir(dir)
}
