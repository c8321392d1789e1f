//! The check commit: what an agent left, committed by us after it passed the limits. And the saved commit: what
//! an agent left at any other end, kept whatever it is.
use std::{
    collections::HashSet,
    fmt::Write,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{
    Worktree, WorktreeError, Worktrees,
    snapshot::{Change, Now, Planted, Snapshot},
};
use crate::edge::git::{DiffEntry, GitError, Objects, Oid, parse_diff, understood};
use crate::model::redact::Redactor;

/// Directories that belong to the board; what an agent changed there is put back to the base commit.
pub const PUT_BACK: [&str; 3] = ["docs/board", "docs/review", "docs/research-report"];

/// Most paths that a refusal names.
pub(super) const MAX_NAMED: usize = 50;
/// Longest summary in a message, in bytes; the rest is cut.
const MAX_SUMMARY: usize = 16 << 10;
/// Largest file that a saved commit is searched for secrets, in bytes.
const MAX_SCANNED: usize = 64 << 20;
/// Most bytes of a list of differences.
const DIFF_LIMIT: usize = 256 << 20;

/// What a check commit may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLimits {
    /// Changed files.
    pub files: usize,
    /// Bytes of all changed files together.
    pub total: u64,
    /// Bytes of one changed file.
    pub blob: u64,
    /// Files and directories that are looked at in a work tree.
    pub entries: usize,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self { files: 5_000, total: 50 << 20, blob: 10 << 20, entries: 1_000_000 }
    }
}

/// A check commit to be made.
#[derive(Debug, Clone)]
pub struct CheckCommitRequest<'a> {
    /// The commit that the build began with, as the job says.
    pub base: &'a Oid,
    /// What the role says of its work: subject, and maybe more. Text of an agent.
    pub summary: &'a str,
    /// Trailers, name and value, in order.
    pub trailers: &'a [(&'a str, &'a str)],
    /// Known secrets, which must be neither in a file, nor in its name, nor in the message.
    pub secrets: &'a Redactor,
    /// The ref that keeps what is put back, `refs/board/saved/<job>.<attempt>`; set only if something is.
    pub saved_ref: &'a str,
}

/// A check commit that is made, and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckCommit {
    /// The commit, on the branch of the worktree.
    pub oid: Oid,
    /// Files that differ from the base.
    pub files_changed: usize,
    /// Paths that were put back to the base. They are on the saved ref of the request.
    pub reverted: Vec<PathBuf>,
}

/// Why there is no check commit. The work tree is as the agent left it.
#[derive(Debug, Error)]
pub enum CheckRefusal {
    /// Nothing differs from the base, apart from what belongs to the board.
    #[error("nothing was changed")]
    NoChange {
        /// What was changed in the board's directories.
        reverted: Vec<PathBuf>,
    },
    /// Too many files.
    #[error("{count} files were changed, at most {limit} are taken; the first are {}", named(first))]
    TooManyFiles {
        /// How many.
        count: usize,
        /// How many are allowed.
        limit: usize,
        /// The first of them.
        first: Vec<PathBuf>,
    },
    /// Too many bytes in all.
    #[error(
        "the changed files have {bytes} bytes, at most {limit} are taken; the largest are {}",
        sized(largest)
    )]
    TooLarge {
        /// How many.
        bytes: u64,
        /// How many are allowed.
        limit: u64,
        /// The largest files with their sizes.
        largest: Vec<(PathBuf, u64)>,
    },
    /// Single files that are too large.
    #[error("at most {limit} bytes in one file are taken; these have more: {}", sized(files))]
    BlobTooLarge {
        /// How many bytes are allowed.
        limit: u64,
        /// The files with their sizes.
        files: Vec<(PathBuf, u64)>,
    },
    /// A known secret is in files or in their names.
    #[error("a known secret is in {}", named(files))]
    SecretInFile {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// A known secret is in the message.
    #[error("a known secret is in the commit message")]
    SecretInMessage,
    /// A reference to a commit of another repository.
    #[error("submodules are not taken: {}", named(paths))]
    Submodule {
        /// The paths.
        paths: Vec<PathBuf>,
    },
    /// The worktree is not what the job says, a repository was planted in it, or git fails.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
}

impl From<GitError> for CheckRefusal {
    fn from(error: GitError) -> Self {
        Self::Worktree(error.into())
    }
}

impl Worktrees {
    /// Commits what an agent left on the branch of its worktree. Once more after a crash gives the same commit.
    ///
    /// # Errors
    /// See [`CheckRefusal`].
    pub fn check_commit(
        &self,
        worktree: &Worktree,
        request: &CheckCommitRequest<'_>,
    ) -> Result<CheckCommit, CheckRefusal> {
        let (git, limits) = (&self.git, &self.limits);
        let place = self.place_of(worktree)?;
        let tip = self.tip_from(worktree, request.base)?;
        let snapshot = Snapshot::take(git, &place, request.base, Planted::Refuse, limits.entries)?;
        // What is put back counts too: it is kept on the saved ref.
        check_limits(&snapshot.changes, limits)?;
        let belongs_to_board = |change: &Change| is_put_back(&change.path);
        let reverted: Vec<&Change> =
            snapshot.changes.iter().filter(|change| belongs_to_board(change)).collect();
        let reverted_paths: Vec<PathBuf> = reverted.iter().map(|change| change.path.clone()).collect();
        let base_tree = git.tree_of(request.base)?;
        let tree = snapshot.tree(|change| !belongs_to_board(change))?;
        if tree == base_tree {
            return Err(CheckRefusal::NoChange { reverted: reverted_paths });
        }
        let message = message_of(request);
        if request.secrets.finds(message.as_bytes()) {
            return Err(CheckRefusal::SecretInMessage);
        }
        let entries = self.differences(&base_tree, &tree)?;
        self.check_content(&entries, request.secrets)?;
        let oid = if git.tree_of(&tip)? == tree {
            tip.clone()
        } else {
            git.store_commit(&tree, &[&tip], &message)?
        };
        if !reverted.is_empty() {
            self.keep_reverted(&snapshot, &oid, request)?;
            // The index is back at the tree of the commit now.
            snapshot.reset(&oid)?;
        }
        if oid != tip {
            self.move_branch(worktree, &oid, &tip)?;
        }
        snapshot.put_back(&reverted)?;
        snapshot.install_index()?;
        git.sync()?;
        Ok(CheckCommit { oid, files_changed: entries.len(), reverted: reverted_paths })
    }

    /// Keeps what is in a worktree on a ref, with the files of repositories that were planted inside and without
    /// known secrets. `None` if there is nothing that the branch does not have already.
    ///
    /// Once more for the same ref gives the same commit, or one that has the earlier as a parent.
    ///
    /// # Errors
    /// The worktree is not what the job says, or git fails.
    pub fn save(
        &self,
        worktree: &Worktree,
        base: &Oid,
        saved_ref: &str,
        message: &str,
    ) -> Result<Option<Oid>, WorktreeError> {
        let git = &self.git;
        // Also if the agent replaced the file `.git`: git never reads it here.
        let place = self.registered(worktree)?.place();
        let tip = self.tip_from(worktree, base)?;
        let snapshot = Snapshot::take(git, &place, base, Planted::TakeFiles, self.limits.entries)?;
        let tree = self.clean_tree(&snapshot, base, &self.secrets.redactor())?;
        if tree == git.tree_of(&tip)? {
            return Ok(None);
        }
        let oid = self.keep(&tree, &tip, saved_ref, message)?;
        git.sync()?;
        Ok(Some(oid))
    }

    /// The tip of the branch of a worktree, which must come from the base.
    fn tip_from(&self, worktree: &Worktree, base: &Oid) -> Result<Oid, WorktreeError> {
        let wrong =
            || WorktreeError::WrongBranch { path: worktree.path.clone(), branch: worktree.branch.clone() };
        let tip = self.git.branch_tip(&worktree.branch)?.ok_or_else(wrong)?;
        if self.git.is_ancestor(base, &tip)? { Ok(tip) } else { Err(wrong()) }
    }

    fn move_branch(&self, worktree: &Worktree, new: &Oid, old: &Oid) -> Result<(), WorktreeError> {
        let name = format!("refs/heads/{}", worktree.branch);
        if self.git.update_ref(&name, new, Some(old), "check commit")? {
            return Ok(());
        }
        // Under the repository lock only the operator moves it.
        Err(WorktreeError::BranchInUse { branch: worktree.branch.clone(), tip: old.clone() })
    }

    fn keep_reverted(
        &self,
        snapshot: &Snapshot<'_>,
        commit: &Oid,
        request: &CheckCommitRequest<'_>,
    ) -> Result<(), GitError> {
        let whole = self.clean_tree(snapshot, request.base, request.secrets)?;
        let message = "board: changes below the board's directories, put back by the check commit\n";
        self.keep(&whole, commit, request.saved_ref, message).map(drop)
    }

    /// The tree of all that was left, with known secrets replaced. A file whose name holds one is left out, and one of
    /// more than [`MAX_SCANNED`] bytes is kept as it is.
    pub(super) fn clean_tree(
        &self,
        snapshot: &Snapshot<'_>,
        base: &Oid,
        secrets: &Redactor,
    ) -> Result<Oid, GitError> {
        let tree = snapshot.tree(|_| true)?;
        if secrets.is_empty() {
            return Ok(tree);
        }
        let large: HashSet<&Path> = snapshot
            .changes
            .iter()
            .filter(|change| size_of(change) > MAX_SCANNED as u64)
            .map(|change| change.path.as_path())
            .collect();
        // A change of the encoding may make an object some times as large as its file.
        let mut objects = Objects::open(&self.git, MAX_SCANNED.saturating_mul(4))?;
        let mut replaced = Vec::new();
        for entry in self.differences(&self.git.tree_of(base)?, &tree)? {
            let is_file = entry.mode != "000000" && entry.mode != "160000";
            if !is_file || large.contains(entry.path.as_path()) {
                continue;
            }
            if secrets.finds(entry.path.as_os_str().as_encoded_bytes()) {
                replaced.push((entry.path, None));
            } else if let Some(object) = objects.object(entry.oid.as_str())?
                && let Some(clean) = secrets.clean_bytes(&object.bytes)
            {
                replaced.push((entry.path, Some((entry.mode, self.git.store_blob(&clean)?))));
            }
        }
        objects.finish()?;
        if replaced.is_empty() { Ok(tree) } else { snapshot.replace(&replaced) }
    }

    /// Points a ref at a commit of a tree, without losing what the ref has.
    fn keep(&self, tree: &Oid, parent: &Oid, name: &str, message: &str) -> Result<Oid, GitError> {
        loop {
            let old = self.git.ref_tip(name)?;
            if let Some(old) = &old
                && self.git.tree_of(old)? == *tree
            {
                return Ok(old.clone());
            }
            let parents: Vec<&Oid> = std::iter::once(parent).chain(&old).collect();
            let commit = self.git.store_commit(tree, &parents, message)?;
            if self.git.update_ref(name, &commit, old.as_ref(), "saved")? {
                return Ok(commit);
            }
        }
    }

    pub(super) fn differences(&self, base: &Oid, tree: &Oid) -> Result<Vec<DiffEntry>, GitError> {
        let call = self.git.call_without_index([
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            "--end-of-options",
        ]);
        let output = call.args([base, tree]).read().limit(DIFF_LIMIT).success()?;
        understood(&self.git, "git diff-tree", parse_diff(&output))
    }

    /// Looks at the objects that would be committed, not at the files: attributes may make them differ.
    pub(super) fn check_content(
        &self,
        entries: &[DiffEntry],
        secrets: &Redactor,
    ) -> Result<(), CheckRefusal> {
        let modules = entries.iter().filter(|entry| entry.mode == "160000").map(|entry| entry.path.clone());
        let modules: Vec<PathBuf> = modules.take(MAX_NAMED).collect();
        if !modules.is_empty() {
            return Err(CheckRefusal::Submodule { paths: modules });
        }
        // A change of the encoding may make an object some times as large as its file.
        let limit = usize::try_from(self.limits.blob.saturating_mul(4)).unwrap_or(usize::MAX);
        let mut objects = Objects::open(&self.git, limit)?;
        let mut files = Vec::new();
        for entry in entries {
            let name = entry.path.as_os_str().as_encoded_bytes();
            let mut found = secrets.finds(name);
            if entry.mode != "000000" && !found {
                let object = objects.object(entry.oid.as_str())?;
                found = object.is_some_and(|object| secrets.finds(&object.bytes));
            }
            if found {
                files.push(entry.path.clone());
            }
        }
        objects.finish()?;
        if files.is_empty() { Ok(()) } else { Err(CheckRefusal::SecretInFile { files }) }
    }
}

/// Whether a path is in a directory of the board, is one, or stands where one should be.
pub(super) fn is_put_back(path: &Path) -> bool {
    PUT_BACK.iter().map(Path::new).any(|dir| path.starts_with(dir) || dir.starts_with(path))
}

fn check_limits(changes: &[Change], limits: &CheckLimits) -> Result<(), CheckRefusal> {
    let sizes = changes.iter().map(|change| (change.path.clone(), size_of(change))).collect();
    check_sizes(changes.len(), sizes, limits)
}

fn size_of(change: &Change) -> u64 {
    match change.now {
        Now::Gone => 0,
        Now::There(size) => size,
    }
}

/// Whether so many changed files of these sizes are within the limits.
pub(super) fn check_sizes(
    count: usize,
    mut sizes: Vec<(PathBuf, u64)>,
    limits: &CheckLimits,
) -> Result<(), CheckRefusal> {
    if count > limits.files {
        let first = sizes.into_iter().take(MAX_NAMED).map(|(path, _)| path).collect();
        return Err(CheckRefusal::TooManyFiles { count, limit: limits.files, first });
    }
    sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let bytes = sizes.iter().fold(0, |sum: u64, (_, size)| sum.saturating_add(*size));
    sizes.truncate(MAX_NAMED);
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > limits.blob).cloned().collect();
    if !large.is_empty() {
        return Err(CheckRefusal::BlobTooLarge { limit: limits.blob, files: large });
    }
    if bytes > limits.total {
        return Err(CheckRefusal::TooLarge { bytes, limit: limits.total, largest: sizes });
    }
    Ok(())
}

/// The message: the agent's summary, and our trailers as the last paragraph, which alone counts as trailers.
fn message_of(request: &CheckCommitRequest<'_>) -> String {
    let mut end = request.summary.len().min(MAX_SUMMARY);
    while !request.summary.is_char_boundary(end) {
        end -= 1;
    }
    let plain = |character: &char| *character == '\n' || !character.is_control();
    let summary: String = request.summary[..end].chars().filter(plain).collect();
    let summary = summary.trim();
    let mut message = if summary.is_empty() { "build".to_owned() } else { summary.to_owned() };
    message.push_str("\n\n");
    for (name, value) in request.trailers {
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(message, "{name}: {}", value.trim());
    }
    message
}

pub(super) fn named(paths: &[PathBuf]) -> String {
    super::list(paths)
}

pub(super) fn sized(files: &[(PathBuf, u64)]) -> String {
    files.iter().map(|(path, size)| format!("{} ({size})", path.display())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_paragraph_holds_trailers_and_it_is_ours() {
        let base = Oid::parse(&"1".repeat(40)).unwrap();
        let request = CheckCommitRequest {
            base: &base,
            summary: "subject\r\n\nBoard-Job: forged\u{1b}[2J\n\n",
            trailers: &[("Board-Job", "real\nBoard-Card: x"), ("Board-Card", "a")],
            secrets: &Redactor::default(),
            saved_ref: "refs/board/saved/x.1",
        };
        let expected = "subject\n\nBoard-Job: forged[2J\n\nBoard-Job: real Board-Card: x\nBoard-Card: a\n";
        assert_eq!(message_of(&request), expected);
        let empty = CheckCommitRequest { summary: " \n\0", ..request.clone() };
        assert!(message_of(&empty).starts_with("build\n\nBoard-Job"));
        for length in [MAX_SUMMARY, MAX_SUMMARY + 1] {
            let long = "x".repeat(length);
            let message =
                message_of(&CheckCommitRequest { summary: &long, trailers: &[], ..request.clone() });
            assert_eq!(message.trim_end().len(), MAX_SUMMARY);
        }
        let umlauts = format!("x{}", "ü".repeat(MAX_SUMMARY));
        let cut = CheckCommitRequest { summary: &umlauts, trailers: &[], ..request };
        assert_eq!(message_of(&cut).trim_end().len(), MAX_SUMMARY - 1);
    }

    #[test]
    fn the_boards_directories_and_what_stands_in_their_way_are_put_back() {
        for path in
            ["docs/board/a.yaml", "docs/board", "docs/review/x/y", "docs", "docs/research-report/r.md"]
        {
            assert!(is_put_back(Path::new(path)), "{path}");
        }
        for path in ["docs/boards/a", "docs/x.md", "src/docs/board/a", "document"] {
            assert!(!is_put_back(Path::new(path)), "{path}");
        }
    }
}
