//! One commit on a branch that touches its own paths only, and nothing that the operator has under way.
//!
//! The new tree is built from the trees of the branch's tip (only the directories on the way to the paths are read
//! and written, so the cost does not grow with the repository), the branch is moved only from the tip that was
//! read, and the operator's index is held locked across the move so that he never sees our change reversed.
//!
//! A crash before the branch moves leaves loose objects, at most. A crash right after it leaves the commit and an
//! old index under a lock with our note: [`Git::reap_stale_index_lock`] removes the lock, [`Git::repair_index`]
//! does the index again.
use std::collections::BTreeMap;

use thiserror::Error;

use crate::fault_point;

use super::{
    EntryKind, Git, GitError, IndexLock, Oid, branch_ref,
    index::{IndexUpdate, PathUpdate},
    objects::{Objects, plain_path},
    parse::{self, RawEntry},
    refs::understood,
    trees::TreeEditor,
};

/// How often a commit is built anew because the branch moved meanwhile.
const MAX_TRIES: u32 = 8;

/// What a path becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A blob that was written before, with [`Git::write_blob`].
    Blob(Oid),
    /// Nothing. A path that is not there stays so.
    Removed,
}

/// A path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the top level, with `/`.
    pub path: String,
    /// What it becomes. A file that is there keeps its mode, a new one gets 100644.
    pub content: Content,
}

/// What must be at a path of the tip for the commit to be made; looked at again when the branch moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The path from the top level.
    pub path: String,
    /// The blob, or `None` for nothing there.
    pub blob: Option<Oid>,
}

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct CommitRequest<'a> {
    /// The branch, without `refs/heads/`.
    pub branch: &'a str,
    /// What changes.
    pub files: Vec<FileChange>,
    /// The whole message with trailers.
    pub message: &'a str,
    /// What must not have changed.
    pub expected: Vec<Expectation>,
}

/// A commit that is made, and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOutcome {
    /// The commit.
    pub oid: Oid,
    /// The tip that it was made on.
    pub parent: Option<Oid>,
    /// Paths whose index entry is a version that the operator staged; it stays, and the card says so.
    pub left_staged: Vec<String>,
}

/// Why no commit was made. Nothing has changed then.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The branch has no commit, and is not the unborn branch of the checkout.
    #[error("the branch {branch:?} does not exist")]
    BranchMissing {
        /// The branch.
        branch: String,
    },
    /// A path is not what the request expects.
    #[error("{path} on the branch is not what was expected")]
    Changed {
        /// The path.
        path: String,
        /// The blob found, if it is one.
        found: Option<Oid>,
    },
    /// Something at the path, or on the way to it, is no regular file or directory.
    #[error("{path} cannot be written on the branch: {what} is in the way")]
    InTheWay {
        /// The path.
        path: String,
        /// What is there.
        what: &'static str,
    },
    /// The operator's git holds the index where the branch is checked out.
    #[error("the index is locked by {}", .0.path.display())]
    IndexLocked(IndexLock),
    /// The branch moved each time.
    #[error("the branch {branch:?} moved {tries} times while a commit was made")]
    KeepsMoving {
        /// The branch.
        branch: String,
        /// How often it was tried.
        tries: u32,
    },
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What a path becomes, with its blob written.
#[derive(Debug, Clone)]
enum Target {
    Blob(Oid),
    Removed,
}

/// Mode and object of a file in a tree or an index.
pub(crate) type Entry = (String, Oid);

impl Git {
    /// Makes one commit on a branch, durable when this returns. The caller holds the repository lock.
    ///
    /// The branch may be checked out anywhere or nowhere; work trees are not touched.
    ///
    /// # Errors
    /// See [`CommitError`]; the branch and the index are as before then.
    pub fn commit_on_branch(&self, request: &CommitRequest<'_>) -> Result<CommitOutcome, CommitError> {
        let name = branch_ref(request.branch)?;
        let targets = self.write_targets(&request.files)?;
        for _ in 0..MAX_TRIES {
            if let Some(outcome) = self.try_commit(request, &name, &targets)? {
                return Ok(outcome);
            }
        }
        Err(CommitError::KeepsMoving { branch: request.branch.to_owned(), tries: MAX_TRIES })
    }

    fn write_targets(&self, files: &[FileChange]) -> Result<BTreeMap<String, Target>, GitError> {
        let mut contents: Vec<&[u8]> = Vec::new();
        for file in files {
            plain_path(&file.path)?;
            if let Content::Bytes(bytes) = &file.content {
                contents.push(bytes);
            }
        }
        let mut blobs = self.store_blobs(&contents)?.into_iter();
        let mut targets = BTreeMap::new();
        for file in files {
            let target = match &file.content {
                Content::Bytes(_) => blobs.next().map_or(Target::Removed, Target::Blob),
                Content::Blob(oid) => Target::Blob(oid.clone()),
                Content::Removed => Target::Removed,
            };
            targets.insert(file.path.clone(), target);
        }
        Ok(targets)
    }

    /// One try; `None` if the branch moved meanwhile.
    fn try_commit(
        &self,
        request: &CommitRequest<'_>,
        name: &str,
        targets: &BTreeMap<String, Target>,
    ) -> Result<Option<CommitOutcome>, CommitError> {
        let checkout = self.checkout_of(request.branch)?;
        let mut objects = Objects::open(self, 0)?;
        let tip = objects.object(name)?.map(|object| object.oid);
        if tip.is_none() && checkout.is_none() {
            return Err(CommitError::BranchMissing { branch: request.branch.to_owned() });
        }
        check_expectations(&mut objects, tip.as_ref(), &request.expected)?;
        let mut updates = Vec::new();
        for (path, target) in targets {
            updates.push(path_update(&mut objects, tip.as_ref(), path, target)?);
        }
        let tree = self.edit_tree(&mut objects, tip.as_ref(), &updates)?;
        objects.finish()?;
        let commit = self.store_commit(&tree, tip.as_ref().as_slice(), request.message)?;
        let index = match &checkout {
            Some(checkout) => Some(IndexUpdate::prepare(self, checkout, updates)?),
            None => None,
        };
        let subject = request.message.lines().next().unwrap_or_default();
        if !self.update_ref(name, &commit, tip.as_ref(), &format!("commit: {subject}"))? {
            return Ok(None);
        }
        // From here the commit is on the branch, and the index and its lock are as before.
        fault_point!("git.ref_moved");
        let left_staged = index.map_or_else(|| Ok(Vec::new()), IndexUpdate::finish)?;
        self.sync()?;
        Ok(Some(CommitOutcome { oid: commit, parent: tip, left_staged }))
    }

    /// Writes a commit object by the technical identity; nothing points at it yet.
    pub(crate) fn store_commit(&self, tree: &Oid, parents: &[&Oid], message: &str) -> Result<Oid, GitError> {
        let identity = self.identity();
        let mut call = self.call(["commit-tree", "--no-gpg-sign", "-F", "-"]);
        for parent in parents {
            call = call.args(["-p", parent.as_str()]);
        }
        let output = call
            .args(["--end-of-options", tree.as_str()])
            .env("GIT_AUTHOR_NAME", &identity.name)
            .env("GIT_AUTHOR_EMAIL", &identity.email)
            .env("GIT_COMMITTER_NAME", &identity.name)
            .env("GIT_COMMITTER_EMAIL", &identity.email)
            .stdin(format!("{}\n", message.trim_end()))
            .success()?;
        understood(self, "git commit-tree", parse::parse_oid(&output))
    }

    fn edit_tree(
        &self,
        objects: &mut Objects,
        tip: Option<&Oid>,
        updates: &[PathUpdate],
    ) -> Result<Oid, CommitError> {
        let root = match tip {
            Some(tip) => objects.tree(&format!("{tip}^{{tree}}"))?.unwrap_or_default(),
            None => Vec::new(),
        };
        let changes: Vec<(&str, &PathUpdate)> =
            updates.iter().map(|update| (update.path.as_str(), update)).collect();
        let mut editor = TreeEditor::new(self, objects)?;
        let entries = editor.edit(root, &changes)?;
        let tree = editor.write(entries)?;
        editor.finish()?;
        Ok(tree)
    }

    /// Refreshes the operator's index for the paths of a commit of ours that is on the branch already, after a
    /// crash between the two. Entries that are neither what was before the commit nor what the tip has stay.
    ///
    /// # Errors
    /// The index is locked, or git fails.
    pub fn repair_index(&self, branch: &str, commit: &Oid) -> Result<Vec<String>, CommitError> {
        let (Some(checkout), Some(tip)) = (self.checkout_of(branch)?, self.branch_tip(branch)?) else {
            return Ok(Vec::new());
        };
        let parent = self.log_of(commit, 1)?.pop().and_then(|info| info.parents.into_iter().next());
        let call = self.call_without_index([
            "diff-tree",
            "-r",
            "-z",
            "--root",
            "--no-commit-id",
            "--name-only",
            "--no-renames",
        ]);
        let paths =
            super::parse_nul_paths(&call.args(["--end-of-options", commit.as_str()]).read().success()?);
        let mut objects = Objects::open(self, 0)?;
        let mut updates = Vec::new();
        for path in paths.iter().filter_map(|path| path.to_str()) {
            let old =
                parent.as_ref().map_or(Ok(None), |parent| objects.entry(parent, path))?.map(mode_and_oid);
            let new = objects.entry(&tip, path)?.map(mode_and_oid);
            updates.push(PathUpdate { path: path.to_owned(), old, new });
        }
        objects.finish()?;
        IndexUpdate::prepare(self, &checkout, updates)?.finish().map_err(CommitError::Git)
    }
}

fn mode_and_oid(entry: RawEntry) -> Entry {
    (entry.mode, entry.oid)
}

fn check_expectations(
    objects: &mut Objects,
    tip: Option<&Oid>,
    expected: &[Expectation],
) -> Result<(), CommitError> {
    for expectation in expected {
        plain_path(&expectation.path)?;
        let found = tip.map_or(Ok(None), |tip| objects.entry(tip, &expectation.path))?.map(|entry| entry.oid);
        if found != expectation.blob {
            return Err(CommitError::Changed { path: expectation.path.clone(), found });
        }
    }
    Ok(())
}

fn path_update(
    objects: &mut Objects,
    tip: Option<&Oid>,
    path: &str,
    target: &Target,
) -> Result<PathUpdate, CommitError> {
    let old = tip.map_or(Ok(None), |tip| objects.entry(tip, path))?.map(mode_and_oid);
    let new = match target {
        Target::Removed => None,
        Target::Blob(oid) => {
            // Asked for by mode and size only; a blob that a power cut took must not get into a tree.
            let there = objects.object(&format!("{oid}^{{blob}}"))?.is_some();
            if !there {
                return Err(
                    GitError::BadName { what: "blob of this repository", name: oid.to_string() }.into()
                );
            }
            let mode = match old.as_ref().map(|(mode, _)| EntryKind::of_mode(mode)) {
                Some(EntryKind::File { executable: true }) => "100755",
                Some(EntryKind::File { executable: false }) | None => "100644",
                Some(EntryKind::Symlink) => return Err(in_the_way(path, "a symbolic link")),
                Some(EntryKind::Directory) => return Err(in_the_way(path, "a directory")),
                Some(EntryKind::Submodule | EntryKind::Unknown) => {
                    return Err(in_the_way(path, "a submodule"));
                }
            };
            Some((mode.to_owned(), oid.clone()))
        }
    };
    Ok(PathUpdate { path: path.to_owned(), old, new })
}

pub(super) fn in_the_way(path: &str, what: &'static str) -> CommitError {
    CommitError::InTheWay { path: path.to_owned(), what }
}
