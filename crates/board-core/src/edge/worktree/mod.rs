//! The worktrees of builds: one per build, on a branch of its own, made from a recorded commit.
//!
//! **Nothing in a worktree that an agent touched is trusted.** The git directory and the work tree are named in
//! every call, the index is a private one, the rules for ignored files are the base commit's, and nothing found
//! below the work tree is run or believed. The caller of a method that writes holds the repository lock.
//!
//! | file | what |
//! | --- | --- |
//! | `create` | a new worktree, also after a crash half-way |
//! | `snapshot` | what the agent left, as a tree |
//! | `check` | the check commit and its refusals; the saved commit |
//! | `german` | the refusals in German |
//! | `delivered` | the same refusals for a commit that another service made |
//! | `remove` | removal, and what lies around |
//! | `reader` | a clean tree for those that only read |
use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::git::{Checkout, Git, GitError, Head, Oid, Place, at, work_tree_of};
use super::secrets::Secrets;
use crate::model::slug::Slug;

mod check;
#[cfg(test)]
mod check_tests;
mod create;
mod delivered;
mod german;
mod reader;
mod remove;
#[cfg(test)]
mod remove_tests;
mod snapshot;

pub use check::{CheckCommit, CheckCommitRequest, CheckLimits, CheckRefusal, PUT_BACK};
pub use delivered::DeliveryRefusal;
pub use reader::{Difference, Fingerprint, Print, readers_tree, tree_fingerprint};
pub use remove::{Stray, StrayKind};

/// Beginning of the lock reason of our worktrees, as `git worktree list` shows it.
pub const LOCK_REASON: &str = "board-agent: a build works here";

/// Beginning of the name of the file that says that a worktree is being made.
const MAKING: &str = ".making-";
/// Beginning of the name of a worktree that is being removed.
const REMOVING: &str = ".removing-";

/// The directory of all worktrees of a repository.
#[derive(Debug, Clone)]
pub struct Worktrees {
    root: PathBuf,
    git: Git,
    limits: CheckLimits,
    secrets: Secrets,
}

/// The worktree of one build: `<root>/<slug>-<n>` on branch `board/<slug>/<n>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where it is.
    pub path: PathBuf,
    /// The card.
    pub slug: Slug,
    /// The number, from 1.
    pub number: u32,
    /// The branch, without `refs/heads/`.
    pub branch: String,
}

/// What is wrong with a worktree.
#[derive(Debug, Error)]
pub enum WorktreeError {
    /// There is no directory, or git does not know it.
    #[error("{} is no worktree of this repository", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The branch is there and is not at the base commit: somebody worked on it.
    #[error("the branch {branch} exists already and is at {tip}")]
    BranchInUse {
        /// The branch.
        branch: String,
        /// Its commit.
        tip: Oid,
    },
    /// A directory that git does not know lies where the worktree should be, and it is not empty.
    #[error("{} exists already and is not a worktree of ours", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// The worktree does not have its branch checked out, or the branch does not come from the base commit.
    #[error("{} is not on its branch {branch}", path.display())]
    WrongBranch {
        /// The worktree.
        path: PathBuf,
        /// The branch it should be on.
        branch: String,
    },
    /// The file `.git` is not what git wrote.
    #[error("the file .git of {} was changed or replaced", path.display())]
    GitFileChanged {
        /// The worktree.
        path: PathBuf,
    },
    /// A repository or submodule lies inside; git would leave out its files without a word.
    #[error("a repository was planted inside {}, its files would be lost: {}", path.display(), list(found))]
    Planted {
        /// The worktree.
        path: PathBuf,
        /// The first of them, relative to the worktree.
        found: Vec<PathBuf>,
    },
    /// There are more files and directories than are looked at.
    #[error("{} has more than {limit} files and directories that are not ignored", path.display())]
    TooManyEntries {
        /// The worktree.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// What is in it is on no ref that is kept.
    #[error("{} has work that no kept ref has; it stays", path.display())]
    NotKept {
        /// The worktree.
        path: PathBuf,
    },
    /// The removal went through without an error, and yet it is there.
    #[error("{} is still there after its removal", path.display())]
    StillThere {
        /// The worktree.
        path: PathBuf,
    },
    /// git, or a file of it, failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// A few paths for a sentence.
fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Worktrees {
    /// The worktrees below `root`, which is made if it is missing.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(root: &Path, git: Git) -> Result<Self, GitError> {
        std::fs::create_dir_all(root).map_err(at(root))?;
        // git lists worktrees by their real path.
        let root = root.canonicalize().map_err(at(root))?;
        Ok(Self { root, git, limits: CheckLimits::default(), secrets: Secrets::default() })
    }

    /// With other limits than the default ones.
    #[must_use]
    pub fn with_limits(self, limits: CheckLimits) -> Self {
        Self { limits, ..self }
    }

    /// With secrets that no saved commit may hold.
    #[must_use]
    pub fn keeping_out(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// The directory that holds them.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The repository.
    #[must_use]
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The worktree of a number, whether it is there or not.
    #[must_use]
    pub fn worktree(&self, slug: &Slug, number: u32) -> Worktree {
        Worktree {
            path: self.root.join(format!("{slug}-{number}")),
            slug: slug.clone(),
            number,
            branch: format!("board/{slug}/{number}"),
        }
    }

    /// The worktree of a path as [`Self::worktree`] gives it.
    #[must_use]
    pub fn parse(&self, path: &Path) -> Option<Worktree> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?;
        let (slug, number) = name.rsplit_once('-')?;
        let found = self.worktree(&Slug::parse(slug).ok()?, number.parse().ok()?);
        (found.path == path && found.number > 0).then_some(found)
    }

    /// The first number that neither a branch nor a directory of the card has.
    ///
    /// # Errors
    /// If git fails or the directory cannot be read.
    pub fn next_number(&self, slug: &Slug) -> Result<u32, GitError> {
        let prefix = format!("refs/heads/board/{slug}/");
        let refs = self.git.refs_below(&prefix)?;
        let branches = refs.keys().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
        let mut highest = branches.max().unwrap_or(0);
        for entry in std::fs::read_dir(&self.root).map_err(at(&self.root))? {
            let path = entry.map_err(at(&self.root))?.path();
            if let Some(found) = self.parse(&path).filter(|found| found.slug == *slug) {
                highest = highest.max(found.number);
            }
        }
        Ok(highest.saturating_add(1))
    }

    /// Looks whether a worktree that an agent had is still what the job says: the same top level and branch, the
    /// file `.git` as git wrote it, no repository planted inside (`base`: its rules say what is ignored).
    ///
    /// # Errors
    /// The first of these that is not so.
    pub fn verify(&self, worktree: &Worktree, base: &Oid) -> Result<(), WorktreeError> {
        let place = self.place_of(worktree)?;
        snapshot::refuse_planted(&self.git, &place, base, self.limits.entries)
    }

    /// The explicit place of a worktree that is as it should be.
    fn place_of(&self, worktree: &Worktree) -> Result<Place, WorktreeError> {
        let checkout = self.registered(worktree)?;
        let path = &worktree.path;
        if checkout.head != Head::Branch(worktree.branch.clone()) {
            return Err(WorktreeError::WrongBranch { path: path.clone(), branch: worktree.branch.clone() });
        }
        if !git_file_is_untouched(&checkout)? {
            return Err(WorktreeError::GitFileChanged { path: path.clone() });
        }
        Ok(checkout.place())
    }

    /// What git knows of a worktree whose directory is there.
    fn registered(&self, worktree: &Worktree) -> Result<Checkout, WorktreeError> {
        let path = &worktree.path;
        let missing = || WorktreeError::Missing { path: path.clone() };
        // Not through a link: the top level must be the one of the job.
        let there = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let known = self.known(path)?.filter(|_| there).ok_or_else(missing)?;
        Ok(known)
    }

    fn known(&self, path: &Path) -> Result<Option<Checkout>, GitError> {
        Ok(self.git.checkouts()?.into_iter().find(|checkout| checkout.path == path))
    }
}

/// Whether the file `.git` of a linked worktree is a plain file that says where its git directory is, and no more.
fn git_file_is_untouched(checkout: &Checkout) -> Result<bool, GitError> {
    let file = checkout.path.join(".git");
    match std::fs::symlink_metadata(&file) {
        Ok(metadata) if metadata.is_file() && metadata.len() < 8192 => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(at(&file)(error)),
    }
    let text = std::fs::read(&file).map_err(at(&file))?;
    let named = text.strip_prefix(b"gitdir: ").and_then(|rest| rest.strip_suffix(b"\n"));
    let same = named.is_some_and(|named| checkout.path.join(path_of(named)) == checkout.git_dir);
    Ok(same && work_tree_of(&checkout.git_dir).as_deref() == Some(&*checkout.path))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
