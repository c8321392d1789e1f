//! What git said before, beside the files that it said it from: as long as these hold the same bytes, no process is
//! started for the same answer. A pass of the watcher asks for the tip and the checkouts many times.
//!
//! Only what git itself answered is kept, so nothing here reads a format on its own.
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::{Checkout, Git, GitError, Head, Oid, at};

/// Largest file that is compared, bytes: a ref or a path. A larger one is asked about every time.
const MAX_BYTES: u64 = 8192;
/// Most refs that are remembered.
const MAX_REFS: usize = 256;

/// Shared by all that a repository was cloned into.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Commits that git found under a ref, with the bytes of the ref's file.
    tips: BTreeMap<String, (Vec<u8>, Oid)>,
    checkouts: Option<(Stamp, Vec<Checkout>)>,
}

/// The files that `git worktree list` looks into, with their bytes.
pub(super) type Stamp = Vec<(PathBuf, Option<Vec<u8>>)>;

impl Git {
    /// The commit that git found under this ref, if the ref's file is as it was then.
    pub(super) fn known_tip(&self, name: &str, file: &[u8]) -> Option<Oid> {
        let known = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.tips.get(name).filter(|(bytes, _)| bytes == file).map(|(_, tip)| tip.clone())
    }

    /// Remembers a commit that git found. A ref that moved in between, and one that names another, is asked for again.
    pub(super) fn remember_tip(&self, name: &str, file: Vec<u8>, tip: &Oid) {
        if file.strip_suffix(b"\n") != Some(tip.as_str().as_bytes()) {
            return;
        }
        let mut known = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.tips.len() >= MAX_REFS {
            known.tips.clear();
        }
        known.tips.insert(name.to_owned(), (file, tip.clone()));
    }

    /// The bytes of a ref's own file; none where it has none.
    pub(super) fn ref_file(&self, name: &str) -> Option<Vec<u8>> {
        bytes_of(&self.common_dir.join(name)).ok().flatten()
    }

    /// What tells whether the work trees are those that git listed before.
    pub(super) fn checkouts_stamp(&self) -> Result<Stamp, GitError> {
        let mut files = vec![self.common_dir.join("HEAD"), self.common_dir.join("config")];
        let parent = self.common_dir.join("worktrees");
        match std::fs::read_dir(&parent) {
            Ok(entries) => {
                for entry in entries {
                    let git_dir = entry.map_err(at(&parent))?.path();
                    files.extend(["HEAD", "gitdir", "locked"].map(|name| git_dir.join(name)));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&parent)(error)),
        }
        files.sort();
        let read = |path: PathBuf| bytes_of(&path).map(|bytes| (path.clone(), bytes)).map_err(at(&path));
        let mut stamp: Stamp = files.into_iter().map(read).collect::<Result<_, _>>()?;
        // Whether a branch that is checked out has a commit.
        let refs: Vec<PathBuf> =
            stamp.iter().filter_map(|(_, bytes)| self.ref_of(bytes.as_deref()?)).collect();
        for path in refs {
            stamp.push(read(path)?);
        }
        Ok(stamp)
    }

    /// The file of the ref that a `HEAD` names.
    fn ref_of(&self, head: &[u8]) -> Option<PathBuf> {
        let name = std::str::from_utf8(head.strip_prefix(b"ref: ")?).ok()?;
        Some(self.common_dir.join(name.trim_end()))
    }

    /// The work trees that git listed when everything was as it is now.
    pub(super) fn known_checkouts(&self, stamp: &Stamp) -> Option<Vec<Checkout>> {
        let known = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.checkouts.as_ref().filter(|(then, _)| then == stamp).map(|(_, checkouts)| checkouts.clone())
    }

    /// Remembers what git listed, if each branch that is checked out has a file of its own: one that is packed comes and
    /// goes unseen.
    pub(super) fn remember_checkouts(&self, stamp: Stamp, checkouts: &[Checkout]) {
        let is_loose = |checkout: &Checkout| match &checkout.head {
            Head::Branch(name) => self.ref_file(&format!("refs/heads/{name}")).is_some(),
            Head::Detached(_) => true,
            Head::Unborn(_) => false,
        };
        if !checkouts.iter().all(is_loose) {
            return;
        }
        let mut known = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.checkouts = Some((stamp, checkouts.to_vec()));
    }
}

/// The bytes of a small file; none if there is none.
fn bytes_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;

    #[test]
    fn what_is_remembered_is_what_git_says_whatever_the_operator_does() {
        let fixture = Fixture::with_commit();
        let git = fixture.git();
        let check = |what: &str| {
            // A fresh one remembers nothing.
            let fresh = fixture.git();
            for branch in ["main", "other", "third"] {
                let tips = (git.branch_tip(branch).unwrap(), fresh.branch_tip(branch).unwrap());
                assert_eq!(tips.0, tips.1, "{branch} after {what}");
            }
            assert_eq!(git.checkouts().unwrap(), fresh.checkouts().unwrap(), "after {what}");
        };
        check("nothing");
        let linked = fixture.dir().join("linked");
        let linked = linked.to_str().unwrap();
        let moved = fixture.dir().join("moved");
        let steps: &[&[&str]] = &[
            &["commit", "-q", "--allow-empty", "-m", "one"],
            &["branch", "other"],
            &["commit", "-q", "--allow-empty", "-m", "two"],
            &["pack-refs", "--all"],
            &["worktree", "add", "-q", linked, "other"],
            &["worktree", "lock", "--reason", "why", linked],
            &["worktree", "unlock", linked],
            &["symbolic-ref", "refs/heads/third", "refs/heads/main"],
            &["commit", "-q", "--allow-empty", "-m", "three"],
            &["checkout", "-q", "--detach"],
            &["update-ref", "refs/heads/main", "HEAD~1"],
            &["checkout", "-q", "main"],
            &["worktree", "move", linked, moved.to_str().unwrap()],
            &["update-ref", "-d", "refs/heads/other"],
            &["worktree", "remove", "--force", moved.to_str().unwrap()],
            &["checkout", "-q", "--orphan", "empty"],
            &["commit", "-q", "--allow-empty", "-m", "four"],
        ];
        for step in steps {
            fixture.run(step);
            check(&step.join(" "));
        }
        std::fs::remove_dir_all(fixture.dir().join("linked")).ok();
        check("a directory that is gone");
    }
}
