//! A commit that another service delivered, looked at as our own check commit is: same limits, same refusals.
//!
//! Apart from `check`, which makes a commit of a work tree; here is none, and nothing is written.
use std::path::PathBuf;

use thiserror::Error;

use super::check::{CheckRefusal, check_sizes, is_put_back, named};
use super::{WorktreeError, Worktrees};
use crate::edge::git::{GitError, Oid};

/// Most bytes of the answer about sizes: some 60 for each of the files that are looked at.
const SIZES_LIMIT: usize = 4 << 20;

/// Why a delivered commit is not taken.
#[derive(Debug, Error)]
pub enum DeliveryRefusal {
    /// It is not in the repository.
    #[error("there is no commit {commit} in the repository")]
    NoCommit {
        /// What was named.
        commit: Oid,
    },
    /// It is somewhere else than on the branch of the build.
    #[error("the branch {branch} is {}, not at {commit}", at(tip.as_ref()))]
    NotOnBranch {
        /// The branch of the build.
        branch: String,
        /// Where it is.
        tip: Option<Oid>,
        /// What was named.
        commit: Oid,
    },
    /// It goes on from something else.
    #[error("the commit {commit} does not come from {base}")]
    NotFromBase {
        /// What was named.
        commit: Oid,
        /// What the job says.
        base: Oid,
    },
    /// It changes directories that belong to the board.
    #[error("it changes what belongs to the board: {}", named(paths))]
    Board {
        /// The first paths.
        paths: Vec<PathBuf>,
    },
    /// What our own check commit is refused for.
    #[error(transparent)]
    Content(#[from] CheckRefusal),
}

impl From<GitError> for DeliveryRefusal {
    fn from(error: GitError) -> Self {
        Self::Content(WorktreeError::from(error).into())
    }
}

fn at(tip: Option<&Oid>) -> String {
    tip.map_or_else(|| "not there".to_owned(), |tip| format!("at {tip}"))
}

impl Worktrees {
    /// Looks at a commit that was delivered on a branch, and makes it durable; returns how many files differ from
    /// the base.
    ///
    /// # Errors
    /// See [`DeliveryRefusal`].
    pub fn check_delivered(&self, branch: &str, base: &Oid, commit: &Oid) -> Result<usize, DeliveryRefusal> {
        let git = &self.git;
        if !git.commit_exists(commit)? {
            return Err(DeliveryRefusal::NoCommit { commit: commit.clone() });
        }
        let tip = git.branch_tip(branch)?;
        if tip.as_ref() != Some(commit) {
            return Err(DeliveryRefusal::NotOnBranch {
                branch: branch.to_owned(),
                tip,
                commit: commit.clone(),
            });
        }
        if !git.is_ancestor(base, commit)? {
            return Err(DeliveryRefusal::NotFromBase { commit: commit.clone(), base: base.clone() });
        }
        let entries = self.differences(&git.tree_of(base)?, &git.tree_of(commit)?)?;
        if entries.is_empty() {
            return Err(CheckRefusal::NoChange { reverted: Vec::new() }.into());
        }
        let boards = |path: &PathBuf| is_put_back(path);
        let paths: Vec<PathBuf> = entries
            .iter()
            .map(|entry| entry.path.clone())
            .filter(boards)
            .take(super::check::MAX_NAMED)
            .collect();
        if !paths.is_empty() {
            return Err(DeliveryRefusal::Board { paths });
        }
        let there: Vec<_> =
            entries.iter().filter(|entry| !matches!(entry.mode.as_str(), "000000" | "160000")).collect();
        let asked: String = there.iter().map(|entry| format!("{}\n", entry.oid)).collect();
        let answer = git
            .call(["cat-file", "--batch-check=%(objectsize)"])
            .read()
            .limit(SIZES_LIMIT)
            .stdin(asked)
            .success()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let sizes = answer.lines().map(|line| line.trim().parse().unwrap_or(u64::MAX));
        let sized: Vec<(PathBuf, u64)> = there.iter().map(|entry| entry.path.clone()).zip(sizes).collect();
        check_sizes(entries.len(), sized, &self.limits)?;
        self.check_content(&entries, &self.secrets.redactor())?;
        git.sync()?;
        Ok(entries.len())
    }
}
