//! What is under way in a checkout: reasons for a commit of ours to wait, and a lock that a killed git left.
use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use crate::edge::files::replace_durable;

use super::{Checkout, CommitInfo, Git, GitError, Head, Oid, at, branch_ref};

/// Something of several steps that the operator has begun in a checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `git rebase` or `git am`.
    Rebase,
    /// `git merge`.
    Merge,
    /// `git cherry-pick`.
    CherryPick,
    /// `git revert`.
    Revert,
    /// `git bisect`.
    Bisect,
}

/// A lock file of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLock {
    /// The file.
    pub path: PathBuf,
    /// When it was made.
    pub since: SystemTime,
}

/// Why a commit on the branch has to wait. The work goes on; the board says since when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitBlock {
    /// A git of the operator holds the index where the branch is checked out, or a killed one left its lock.
    IndexLocked(IndexLock),
    /// An operation is under way where the branch is checked out, or was until it began.
    Operation {
        /// Which.
        operation: Operation,
        /// Since when.
        since: SystemTime,
        /// The checkout.
        worktree: PathBuf,
    },
    /// The newest commit is the operator's and so young that he may still amend it.
    TipIsOperatorsAndYoung {
        /// When the wait ends.
        until: SystemTime,
    },
}

/// What became of a lock file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaped {
    /// There is none.
    Nothing,
    /// It was left by us, nobody has it open, it is removed.
    Removed(PathBuf),
    /// It is not known to be ours, or is in use; it stays.
    Kept(IndexLock),
}

/// Files of a git directory that tell an operation, in the order in which they are believed: a rebase and a
/// sequence of picks stop with the marks of a single pick as well.
const OPERATION_FILES: [(&str, Operation); 7] = [
    ("rebase-merge", Operation::Rebase),
    ("rebase-apply", Operation::Rebase),
    ("MERGE_HEAD", Operation::Merge),
    ("CHERRY_PICK_HEAD", Operation::CherryPick),
    ("REVERT_HEAD", Operation::Revert),
    ("sequencer", Operation::CherryPick),
    ("BISECT_LOG", Operation::Bisect),
];

impl Git {
    /// The operation under way in a work tree of the repository.
    ///
    /// # Errors
    /// It is no work tree of the repository, or its git directory cannot be read.
    pub fn operation_in_progress(&self, worktree: &Path) -> Result<Option<Operation>, GitError> {
        let checkout = self.checkout_at(worktree)?;
        Ok(operation_of(&checkout)?.map(|(operation, _)| operation))
    }

    /// The lock of the index of a work tree of the repository.
    ///
    /// # Errors
    /// It is no work tree of the repository, or its git directory cannot be read.
    pub fn index_lock(&self, worktree: &Path) -> Result<Option<IndexLock>, GitError> {
        index_lock_at(&self.checkout_at(worktree)?.git_dir.join("index.lock"))
    }

    /// Why a commit on the branch has to wait now, if it has to.
    ///
    /// `quiet` is the age below which the operator's newest commit is left alone. A tip from the future by more
    /// than that tells of a clock that was set, and holds up nothing.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn commit_block(
        &self,
        branch: &str,
        quiet: Duration,
        now: SystemTime,
    ) -> Result<Option<CommitBlock>, GitError> {
        branch_ref(branch)?;
        for checkout in self.checkouts()? {
            if !is_home(&checkout, branch) {
                continue;
            }
            if let Some((operation, since)) = operation_of(&checkout)? {
                return Ok(Some(CommitBlock::Operation { operation, since, worktree: checkout.path }));
            }
            if let Some(lock) = index_lock_at(&checkout.git_dir.join("index.lock"))? {
                return Ok(Some(CommitBlock::IndexLocked(lock)));
            }
        }
        let young = self.tip_info(branch)?.and_then(|tip| self.young_until(&tip, quiet, now));
        Ok(young.map(|until| CommitBlock::TipIsOperatorsAndYoung { until }))
    }

    fn young_until(&self, tip: &CommitInfo, quiet: Duration, now: SystemTime) -> Option<SystemTime> {
        let identity = self.identity();
        if tip.committer == identity.name && tip.committer_email == identity.email {
            return None;
        }
        let committed = UNIX_EPOCH + Duration::from_secs(u64::try_from(tip.committed).ok()?);
        let distance = now.duration_since(committed).unwrap_or_else(|error| error.duration());
        (distance < quiet).then(|| committed + quiet)
    }

    /// Removes the lock of the index of a work tree if a note of ours says that we made this very file and nobody
    /// has it open. The caller holds the repository lock, so none of our processes is using it.
    ///
    /// # Errors
    /// It is no work tree of the repository, or the lock cannot be looked at or removed.
    pub fn reap_stale_index_lock(&self, worktree: &Path) -> Result<Reaped, GitError> {
        let path = self.checkout_at(worktree)?.git_dir.join("index.lock");
        let note = LockNote::new(self.note_dir(), &path);
        let Some(lock) = index_lock_at(&path)? else {
            note.remove();
            return Ok(Reaped::Nothing);
        };
        let metadata = std::fs::symlink_metadata(&path).map_err(at(&path))?;
        let ours = metadata.is_file()
            && metadata.uid() == nix::unistd::geteuid().as_raw()
            && note.read().is_some_and(|content| content.is_about(&path, &metadata));
        if !ours || is_open_somewhere(&metadata)? {
            return Ok(Reaped::Kept(lock));
        }
        std::fs::remove_file(&path).map_err(at(&path))?;
        note.remove();
        Ok(Reaped::Removed(path))
    }

    fn checkout_at(&self, worktree: &Path) -> Result<Checkout, GitError> {
        let path = worktree.canonicalize().map_err(at(worktree))?;
        let found = self.checkouts()?.into_iter().find(|checkout| checkout.path == path);
        found.ok_or_else(|| GitError::NotARepository {
            path,
            reason: format!("it is no work tree of {}", self.common_dir().display()),
        })
    }
}

/// Whether the branch is checked out there, or will be again when the rebase or bisect under way ends.
fn is_home(checkout: &Checkout, branch: &str) -> bool {
    match &checkout.head {
        Head::Branch(name) | Head::Unborn(name) => name == branch,
        Head::Detached(_) => {
            let names = |file: &str| {
                let text = std::fs::read_to_string(checkout.git_dir.join(file)).unwrap_or_default();
                let text = text.trim();
                text.strip_prefix("refs/heads/").unwrap_or(text) == branch
            };
            ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].into_iter().any(names)
        }
    }
}

fn operation_of(checkout: &Checkout) -> Result<Option<(Operation, SystemTime)>, GitError> {
    for (file, operation) in OPERATION_FILES {
        let path = checkout.git_dir.join(file);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) => return Ok(Some((operation, metadata.modified().map_err(at(&path))?))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&path)(error)),
        }
    }
    Ok(None)
}

pub(crate) fn index_lock_at(path: &Path) -> Result<Option<IndexLock>, GitError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => {
            let since = metadata.modified().map_err(at(path))?;
            Ok(Some(IndexLock { path: path.to_owned(), since }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// Whether a process has the file open. The descriptors of other users' processes are hidden, but a lock that is
/// ours was opened by a process of ours.
pub(super) fn is_open_somewhere(file: &Metadata) -> Result<bool, GitError> {
    let proc = Path::new("/proc");
    for process in std::fs::read_dir(proc).map_err(at(proc))? {
        let descriptors = process.map_err(at(proc))?.path().join("fd");
        // No process, ended meanwhile, or another user's.
        let Ok(descriptors) = std::fs::read_dir(&descriptors) else { continue };
        for descriptor in descriptors.flatten() {
            let same = |open: Metadata| open.dev() == file.dev() && open.ino() == file.ino();
            if std::fs::metadata(descriptor.path()).is_ok_and(same) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The file in which we say that we are about to lock an index.
#[derive(Debug)]
pub(crate) struct LockNote {
    file: PathBuf,
    lock: PathBuf,
}

/// What the note says; one JSON object.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NoteContent {
    lock: PathBuf,
    pid: u32,
    /// Of the lock file, once it was made.
    made: Option<FileIdentity>,
}

impl LockNote {
    pub(crate) fn new(note_dir: &Path, lock: &Path) -> Self {
        let hash = Oid::from_raw(&Sha1::digest(lock.as_os_str().as_encoded_bytes()));
        let file = note_dir.join(format!("index-lock-{}.json", &hash.as_str()[..16]));
        Self { file, lock: lock.to_owned() }
    }

    /// Written before the lock is made (`None`) and once more when it is there. Synced: after a power cut the lock may be
    /// on the disk, and without its note nobody but the operator could remove it.
    pub(crate) fn write(&mut self, made: Option<&Metadata>) -> Result<(), GitError> {
        let made = made.map(identity_of);
        let content = NoteContent { lock: self.lock.clone(), pid: std::process::id(), made };
        let json = serde_json::to_vec(&content).map_err(|error| at(&self.file)(error.into()))?;
        replace_durable(&self.file, &json).map_err(|error| at(&error.path)(error.source))
    }

    fn read(&self) -> Option<NoteContent> {
        // A note that is torn or missing proves nothing: the lock is reported then.
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl NoteContent {
    /// Killed between making the lock and noting which file it is, we left an empty one; a lock that the operator
    /// made in that moment has content unless his git has it open.
    fn is_about(&self, lock: &Path, metadata: &Metadata) -> bool {
        self.lock == lock
            && match self.made {
                Some(made) => made == identity_of(metadata),
                None => metadata.len() == 0,
            }
    }
}

/// Inode and time of birth of a file. Both, because the number of an inode is used again as soon as it is free. Not the
/// device, which may have another number after a reboot.
pub(super) type FileIdentity = (u64, Option<u128>);

pub(super) fn identity_of(metadata: &Metadata) -> FileIdentity {
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (metadata.ino(), born.map(|age| age.as_nanos()))
}
