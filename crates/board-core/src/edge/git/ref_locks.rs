//! Locks of refs that a git left which was killed, or lost its power, while it moved a branch.
//!
//! git makes them itself, so there is no note of ours about them as about that of the index. Instead: the file is
//! ours, nobody has it open, and it was the very same for a while. A git that lives holds such a lock for
//! milliseconds. One that is left would stop every commit on its branch for ever.
use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    Git, GitError, at,
    state::{FileIdentity, identity_of, is_open_somewhere},
};

/// How long a lock must lie there unchanged and unused.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// What ends the name of a lock.
const ENDING: &str = "lock";

/// The locks that were seen, and since when.
#[derive(Debug, Default)]
pub struct RefLocks(BTreeMap<PathBuf, (FileIdentity, Instant)>);

impl RefLocks {
    /// Whether one was there at the last look.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Git {
    /// Removes locks of refs that were left; gives those that it removed. One that may still be in use is remembered,
    /// to be looked at again. The caller holds the repository lock, so none of our processes is using one.
    ///
    /// # Errors
    /// If the git directory cannot be read, or a lock cannot be removed.
    pub fn reap_ref_locks(&self, seen: &mut RefLocks, now: Instant) -> Result<Vec<PathBuf>, GitError> {
        let mut found = BTreeMap::new();
        let mut removed = Vec::new();
        for path in self.ref_locks()? {
            let metadata = match std::fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(at(&path)(error)),
            };
            // What is another user's is his to remove.
            if !metadata.is_file() || metadata.uid() != nix::unistd::geteuid().as_raw() {
                continue;
            }
            let identity = identity_of(&metadata);
            let since = match seen.0.get(&path) {
                Some((known, since)) if *known == identity => *since,
                Some(_) | None => now,
            };
            if now.duration_since(since) >= STALE_AFTER && !is_open_somewhere(&metadata)? {
                std::fs::remove_file(&path).map_err(at(&path))?;
                removed.push(path);
            } else {
                found.insert(path, (identity, since));
            }
        }
        seen.0 = found;
        Ok(removed)
    }

    /// All of them: of the refs, of what is packed, and of the heads of work trees.
    fn ref_locks(&self) -> Result<Vec<PathBuf>, GitError> {
        let common = self.common_dir();
        let mut locks = vec![common.join("HEAD.lock"), common.join("packed-refs.lock")];
        for worktree in entries(&common.join("worktrees"))? {
            locks.push(worktree.join("HEAD.lock"));
        }
        let mut todo = vec![common.join("refs")];
        while let Some(dir) = todo.pop() {
            for path in entries(&dir)? {
                // A link is not followed: it may lead anywhere.
                if std::fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
                    todo.push(path);
                } else if path.extension().is_some_and(|ending| ending == ENDING) {
                    locks.push(path);
                }
            }
        }
        Ok(locks)
    }
}

/// What a directory holds; none there is nothing.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, GitError> {
    match std::fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at(dir)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::git::testing::Fixture;

    #[test]
    fn a_lock_that_was_left_goes_once_it_was_the_same_for_long_enough_and_nobody_has_it_open() {
        let fixture = Fixture::with_commit();
        let git = fixture.git();
        let git_dir = fixture.repo().join(".git");
        let locks =
            ["refs/heads/main.lock", "HEAD.lock", "refs/heads/board/x/1.lock"].map(|at| git_dir.join(at));
        for lock in &locks {
            std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
            std::fs::write(lock, "").unwrap();
        }
        let open = std::fs::File::open(&locks[2]).unwrap();
        let (mut seen, begin) = (RefLocks::default(), Instant::now());
        assert!(git.reap_ref_locks(&mut seen, begin).unwrap().is_empty());
        let just_before = begin + STALE_AFTER - Duration::from_millis(1);
        assert!(git.reap_ref_locks(&mut seen, just_before).unwrap().is_empty());
        // Another file of the same name begins anew.
        std::fs::remove_file(&locks[1]).unwrap();
        std::fs::write(&locks[1], "other").unwrap();
        assert_eq!(git.reap_ref_locks(&mut seen, begin + STALE_AFTER).unwrap(), [locks[0].clone()]);
        assert!(locks[1].exists() && locks[2].exists() && !seen.is_empty());
        drop(open);
        let later = begin + STALE_AFTER * 2;
        assert_eq!(git.reap_ref_locks(&mut seen, later).unwrap().len(), 2);
        assert!(git.reap_ref_locks(&mut seen, later).unwrap().is_empty() && seen.is_empty());
        fixture.run(&["commit", "--allow-empty", "-m", "moves again"]);
    }
}
