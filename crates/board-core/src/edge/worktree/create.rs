//! Making a worktree, so that a crash at any step is mended by making it once more.
//!
//! A marker file beside the worktree, written before `git worktree add` and removed when all of it is on the
//! disk, tells a half-made one from one that an agent has worked in: the first is thrown away and made again, the
//! second is never touched.
use std::{io, path::Path};

use super::{LOCK_REASON, MAKING, Worktree, WorktreeError, Worktrees};
use crate::{
    edge::git::{GitError, Oid, at, sync_file_system},
    model::slug::Slug,
};

impl Worktrees {
    /// Makes the worktree of a number from a base commit, or gives back the one that is there.
    ///
    /// # Errors
    /// Its branch is at another commit that does not come from the base, its place is taken, or git fails.
    pub fn create(&self, slug: &Slug, number: u32, base: &Oid) -> Result<Worktree, WorktreeError> {
        self.git.refuse_new_filters()?;
        let worktree = self.worktree(slug, number);
        let marker = self.root.join(format!("{MAKING}{slug}-{number}"));
        let tip = self.git.branch_tip(&worktree.branch)?;
        let half_made = marker.try_exists().map_err(at(&marker))?;
        let there = std::fs::symlink_metadata(&worktree.path).is_ok();
        let known = self.known(&worktree.path)?.is_some();
        if known && there && !half_made {
            self.place_of(&worktree)?;
            return match tip {
                Some(tip) if tip == *base || self.git.is_ancestor(base, &tip)? => Ok(worktree),
                Some(tip) => Err(WorktreeError::BranchInUse { branch: worktree.branch, tip }),
                None => Err(WorktreeError::WrongBranch { path: worktree.path, branch: worktree.branch }),
            };
        }
        if let Some(tip) = tip.clone().filter(|tip| tip != base) {
            return Err(WorktreeError::BranchInUse { branch: worktree.branch, tip });
        }
        if half_made {
            // Ours, and nobody worked in it yet.
            self.take_away(&worktree.path)?;
        } else if there {
            // Only an empty directory gives way.
            match std::fs::remove_dir(&worktree.path) {
                Ok(()) => {}
                Err(error) if is_occupied(&error) => {
                    return Err(WorktreeError::Occupied { path: worktree.path });
                }
                Err(error) => return Err(at(&worktree.path)(error).into()),
            }
        }
        if self.known(&worktree.path)?.is_some() {
            // Its directory was deleted by hand.
            self.unregister(&worktree.path)?;
        }
        write_marker(&marker)?;
        self.add(&worktree, base, tip.is_some())?;
        sync_file_system(&self.root)?;
        self.git.sync()?;
        std::fs::remove_file(&marker).map_err(at(&marker))?;
        self.place_of(&worktree)?;
        Ok(worktree)
    }

    fn add(&self, worktree: &Worktree, base: &Oid, branch_exists: bool) -> Result<(), GitError> {
        let call = self.git.call(["worktree", "add", "--quiet", "--lock", "--reason", LOCK_REASON]);
        // The operator's sparse checkout is his; a build sees all files. Paths that git may write in a relative
        // form since 2.48 stay absolute.
        let call = call.config("core.sparseCheckout=false").config("worktree.useRelativePaths=false");
        let call = if branch_exists {
            call.arg("--end-of-options").arg(&worktree.path).arg(&worktree.branch)
        } else {
            let call = call.args(["--no-track", "-b", &worktree.branch, "--end-of-options"]);
            call.arg(&worktree.path).arg(base)
        };
        call.success().map(drop)
    }

    /// Makes git forget a worktree whose directory is gone. Never `prune`, which would also forget worktrees of
    /// the operator on a disk that is not mounted.
    pub(super) fn unregister(&self, path: &Path) -> Result<(), GitError> {
        // Twice: it is locked.
        let call = self.git.call(["worktree", "remove", "--force", "--force", "--end-of-options"]).arg(path);
        call.success().map(drop)
    }
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory)
}

fn write_marker(marker: &Path) -> Result<(), GitError> {
    std::fs::File::create(marker).and_then(|file| file.sync_all()).map_err(at(marker))
}
