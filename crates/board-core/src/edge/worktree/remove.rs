//! Removing a worktree whose work is kept elsewhere, and finding what lies around.
use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    LOCK_REASON, MAKING, REMOVING, Worktree, WorktreeError, Worktrees, git_file_is_untouched,
    snapshot::{Planted, Snapshot},
};
use crate::edge::git::{Checkout, GitError, Oid, at};

/// Something in the directory of worktrees that a sweep looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Where it is, or where git thinks it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: StrayKind,
}

/// What is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StrayKind {
    /// Making it was interrupted; nobody worked in it. [`Worktrees::prune`] removes it.
    HalfMade,
    /// Its removal was interrupted; its work is kept. [`Worktrees::prune`] goes on.
    HalfRemoved,
    /// git knows it, its directory is gone. [`Worktrees::prune`] makes git forget it.
    DirectoryGone,
    /// A directory or file that git does not know. Only an empty directory is pruned.
    Unknown,
    /// A worktree of git that is not named like ours.
    NotOurs,
    /// Locked by somebody else, or by a git that was killed (`initializing`).
    LockedOtherwise {
        /// The reason that it gives.
        reason: String,
    },
    /// Its file `.git` was changed; git run inside it goes elsewhere. Never pruned.
    GitFileChanged,
}

impl Worktrees {
    /// Removes a worktree, if its branch or one of the `kept` refs has all of its work: everything that the base
    /// commit's rules do not ignore. Goes on with a removal that was interrupted. The branch stays.
    ///
    /// # Errors
    /// It has work that is kept nowhere, or it cannot be removed; after the check it may be removed in part.
    pub fn remove(&self, worktree: &Worktree, base: &Oid, kept: &[&str]) -> Result<(), WorktreeError> {
        if std::fs::symlink_metadata(&worktree.path).is_ok() {
            let place = self.registered(worktree)?.place();
            let snapshot = Snapshot::take(&self.git, &place, base, Planted::TakeFiles, self.limits.entries)?;
            let tree = snapshot.tree(|_| true)?;
            let branch = format!("refs/heads/{}", worktree.branch);
            let is_kept = |tree: &Oid| -> Result<bool, GitError> {
                for name in std::iter::once(branch.as_str()).chain(kept.iter().copied()) {
                    if let Some(tip) = self.git.ref_tip(name)?
                        && self.git.tree_of(&tip)? == *tree
                    {
                        return Ok(true);
                    }
                }
                Ok(false)
            };
            // Saved work has no secrets, so a tree with some is never kept as it is.
            if !is_kept(&tree)? && !is_kept(&self.clean_tree(&snapshot, base, &self.secrets.redactor())?)? {
                return Err(WorktreeError::NotKept { path: worktree.path.clone() });
            }
        }
        self.take_away(&worktree.path)?;
        if std::fs::symlink_metadata(&worktree.path).is_ok() || self.known(&worktree.path)?.is_some() {
            return Err(WorktreeError::StillThere { path: worktree.path.clone() });
        }
        Ok(())
    }

    /// Removes a directory without a look at its content, and makes git forget it.
    ///
    /// It is renamed first: what a crash leaves is then known as half-removed, and is never taken for work.
    pub(super) fn take_away(&self, path: &Path) -> Result<(), GitError> {
        let aside = self.aside(path);
        remove_tree(&aside)?;
        match std::fs::rename(path, &aside) {
            Ok(()) => remove_tree(&aside)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(path)(error)),
        }
        if self.known(path)?.is_some() {
            self.unregister(path)?;
        }
        Ok(())
    }

    fn aside(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.root.join(format!("{REMOVING}{name}"))
    }

    /// What lies around: half-made, half-removed, deleted, unknown or strangely locked worktrees. Changes nothing.
    ///
    /// # Errors
    /// If git fails or the directory cannot be read.
    pub fn strays(&self) -> Result<Vec<Stray>, GitError> {
        let checkouts = self.git.checkouts()?;
        let mut strays = Vec::new();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(at(&self.root))? {
            let entry = entry.map_err(at(&self.root))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for name in &names {
            let path = self.root.join(name);
            let kind = if let Some(made) = name.strip_prefix(MAKING) {
                strays.push(Stray { path: self.root.join(made), kind: StrayKind::HalfMade });
                continue;
            } else if let Some(removed) = name.strip_prefix(REMOVING) {
                strays.push(Stray { path: self.root.join(removed), kind: StrayKind::HalfRemoved });
                continue;
            } else if names.contains(&format!("{MAKING}{name}")) {
                continue;
            } else {
                match checkouts.iter().find(|checkout| checkout.path == path) {
                    None => Some(StrayKind::Unknown),
                    Some(_) if self.parse(&path).is_none() => Some(StrayKind::NotOurs),
                    Some(checkout) => kind_of(checkout)?,
                }
            };
            strays.extend(kind.map(|kind| Stray { path, kind }));
        }
        for checkout in checkouts.into_iter().filter(|checkout| checkout.path.starts_with(&self.root)) {
            let half = strays.iter().any(|stray| stray.path == checkout.path);
            if !half && std::fs::symlink_metadata(&checkout.path).is_err() {
                strays.push(Stray { path: checkout.path, kind: StrayKind::DirectoryGone });
            }
        }
        Ok(strays)
    }

    /// Removes a stray if it is empty of work; answers whether it did.
    ///
    /// # Errors
    /// If git fails or a file cannot be removed.
    pub fn prune(&self, stray: &Stray) -> Result<bool, GitError> {
        match &stray.kind {
            StrayKind::HalfMade => {
                self.take_away(&stray.path)?;
                let name = stray.path.file_name().unwrap_or_default().to_string_lossy();
                let marker = self.root.join(format!("{MAKING}{name}"));
                std::fs::remove_file(&marker).map_err(at(&marker))?;
                Ok(true)
            }
            StrayKind::HalfRemoved => {
                remove_tree(&self.aside(&stray.path))?;
                // A worktree of that name may have been made again meanwhile.
                if std::fs::symlink_metadata(&stray.path).is_err() && self.known(&stray.path)?.is_some() {
                    self.unregister(&stray.path)?;
                }
                Ok(true)
            }
            StrayKind::DirectoryGone => {
                self.unregister(&stray.path)?;
                Ok(true)
            }
            StrayKind::Unknown => Ok(std::fs::remove_dir(&stray.path).is_ok()),
            StrayKind::NotOurs | StrayKind::LockedOtherwise { .. } | StrayKind::GitFileChanged => Ok(false),
        }
    }
}

fn kind_of(checkout: &Checkout) -> Result<Option<StrayKind>, GitError> {
    if !git_file_is_untouched(checkout)? {
        return Ok(Some(StrayKind::GitFileChanged));
    }
    Ok(match &checkout.locked {
        Some(reason) if reason != LOCK_REASON => Some(StrayKind::LockedOtherwise { reason: reason.clone() }),
        Some(_) | None => None,
    })
}

/// Removes a directory of ours with all below it, also where an agent or its tools took away the right to write.
/// Links are removed, not followed.
fn remove_tree(path: &Path) -> Result<(), GitError> {
    let removed = match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path)?;
            std::fs::remove_dir_all(path)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn make_writable(path: &Path) -> Result<(), GitError> {
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).map_err(at(&dir))?;
        for entry in std::fs::read_dir(&dir).map_err(at(&dir))? {
            let entry = entry.map_err(at(&dir))?;
            if entry.file_type().map_err(at(&entry.path()))?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}
