//! The operator's index: brought up to our commit for the paths that he has not touched, and for no other.
//!
//! It is held by its own lock file from before the branch moves until after, as `git commit` does it: nobody can
//! commit an index in between that would take our change back. The lock is noted in a file of ours first, so that
//! a later run can tell our left-over lock from one of the operator's.
use std::{
    fs::File,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Checkout, CommitError, Git, GitError, at,
    commit::Entry,
    parse::{self, IndexEntry},
    refs::understood,
    state::{LockNote, index_lock_at},
};

/// Most paths given to one call as arguments; with more, the whole index is listed.
const MAX_ARGUMENTS: usize = 200;

/// What a commit does to one path.
#[derive(Debug, Clone)]
pub(crate) struct PathUpdate {
    pub(crate) path: String,
    /// What the old tip has.
    pub(crate) old: Option<Entry>,
    /// What the new tip has.
    pub(crate) new: Option<Entry>,
}

/// An index file of ours, removed with the value.
#[derive(Debug)]
pub(crate) struct PrivateIndex(PathBuf);

impl PrivateIndex {
    /// A name for an index that does not exist yet; git makes the file.
    pub(crate) fn new(git: &Git) -> Self {
        Self(git.note_dir().join(format!("index-{}", uuid::Uuid::new_v4())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// How old an index of ours has to be to be one that a kill left.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

impl Git {
    /// Removes indexes of ours that a kill left; returns how many. Each is as large as the repository's own.
    ///
    /// # Errors
    /// If the directory cannot be read or a file not removed.
    pub fn remove_abandoned_indexes(&self) -> Result<usize, GitError> {
        let dir = self.note_dir();
        let mut removed = 0;
        for entry in std::fs::read_dir(dir).map_err(at(dir))? {
            let entry = entry.map_err(at(dir))?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix("index-"));
            let id = id.map(|id| id.strip_suffix(".lock").unwrap_or(id));
            let is_ours = id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok());
            let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if is_ours && age().is_some_and(|age| age > ABANDONED_AFTER) {
                std::fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl Drop for PrivateIndex {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // Left by a git that was killed.
        let _ = std::fs::remove_file(self.0.with_extension("lock"));
    }
}

/// An index that is locked and prepared; dropped without [`IndexUpdate::finish`], it stays as it was.
#[derive(Debug)]
pub(crate) struct IndexUpdate {
    lock: HeldLock,
    changed: bool,
    left_staged: Vec<String>,
}

impl IndexUpdate {
    /// Locks the index of a checkout and writes the new one into the lock file.
    pub(crate) fn prepare(
        git: &Git,
        checkout: &Checkout,
        updates: Vec<PathUpdate>,
    ) -> Result<Self, CommitError> {
        let mut lock = HeldLock::take(git, checkout)?;
        let copy = PrivateIndex::new(git);
        match std::fs::copy(&lock.index, copy.path()) {
            Ok(_) => {}
            // A repository without a commit has none.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&lock.index)(error).into()),
        }
        let entries = list(git, checkout, &copy, &updates)?;
        let (mut todo, mut left_staged) = (Vec::new(), Vec::new());
        for update in updates {
            match plan(&update, &entries) {
                Plan::Replace => todo.push(update),
                Plan::Same => {}
                Plan::Leave => left_staged.push(update.path),
            }
        }
        let mut changed = !todo.is_empty();
        if changed && !apply(git, checkout, &copy, &todo)? {
            // A staged file where we need a directory. His index stays as a whole, the commit is not held up.
            left_staged.extend(todo.into_iter().map(|update| update.path));
            changed = false;
        }
        if changed {
            lock.fill(copy.path())?;
        }
        Ok(Self { lock, changed, left_staged })
    }

    /// Puts the prepared index in place, and gives the paths that stay as the operator staged them.
    pub(crate) fn finish(self) -> Result<Vec<String>, GitError> {
        if self.changed {
            self.lock.commit()?;
        }
        Ok(self.left_staged)
    }
}

/// What is to be done with an entry.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Replace,
    Same,
    Leave,
}

/// Only an entry that equals the old tip's is ours to replace; anything else is a version that somebody staged.
fn plan(update: &PathUpdate, entries: &[IndexEntry]) -> Plan {
    let inside = format!("{}/", update.path);
    let (mut staged, mut conflict) = (None, false);
    for entry in entries {
        if entry.path == update.path.as_bytes() && entry.stage == 0 {
            staged = Some((entry.mode.as_str(), &entry.oid));
        } else if entry.path == update.path.as_bytes() || entry.path.starts_with(inside.as_bytes()) {
            conflict = true;
        }
    }
    let same = |wanted: &Option<Entry>| wanted.as_ref().map(|(mode, oid)| (mode.as_str(), oid)) == staged;
    if conflict {
        Plan::Leave
    } else if same(&update.new) {
        Plan::Same
    } else if same(&update.old) {
        Plan::Replace
    } else {
        Plan::Leave
    }
}

fn list(
    git: &Git,
    checkout: &Checkout,
    copy: &PrivateIndex,
    updates: &[PathUpdate],
) -> Result<Vec<IndexEntry>, GitError> {
    let mut call =
        git.call_at(&checkout.place(), ["ls-files", "-s", "-z", "--full-name", "--"]).index(copy.path());
    if updates.len() <= MAX_ARGUMENTS {
        call = call.args(updates.iter().map(|update| &update.path));
    }
    understood(git, "git ls-files", parse::parse_index(&call.read().success()?))
}

/// Changes the entries in the copy; `false` if git refuses them because of what else is staged.
///
/// `--cacheinfo` and not `--index-info`: the latter would throw out a staged file that has the name of one of our
/// directories.
fn apply(git: &Git, checkout: &Checkout, copy: &PrivateIndex, todo: &[PathUpdate]) -> Result<bool, GitError> {
    let place = checkout.place();
    let mut present = Vec::new();
    for some in todo.chunks(MAX_ARGUMENTS) {
        let mut call = git.call_at(&place, ["update-index", "--add"]).index(copy.path());
        for update in some {
            if let Some((mode, oid)) = &update.new {
                present.extend(update.path.bytes().chain([0]));
                call = call.arg("--cacheinfo").arg(format!("{mode},{oid},{}", update.path));
            }
        }
        let removed = some.iter().filter(|update| update.new.is_none()).map(|update| &update.path);
        if call.args(["--force-remove", "--"]).args(removed).run()?.code != 0 {
            return Ok(false);
        }
    }
    if !present.is_empty() {
        // Only takes over the file times, so that git need not read the files again; git can do without.
        let call = git.call_at(&place, ["add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul"]);
        call.index(copy.path()).stdin(present).run()?;
    }
    Ok(true)
}

/// The lock file of an index, held by us. It is open as long as we hold it, which is how others see that it is
/// not left over.
#[derive(Debug)]
struct HeldLock {
    index: PathBuf,
    path: PathBuf,
    note: LockNote,
    file: File,
    /// Whether the file is still there, to be removed with the value.
    there: bool,
}

impl HeldLock {
    fn take(git: &Git, checkout: &Checkout) -> Result<Self, CommitError> {
        let index = checkout.git_dir.join("index");
        let path = checkout.git_dir.join("index.lock");
        let mut note = LockNote::new(git.note_dir(), &path);
        if let Some(lock) = index_lock_at(&path)? {
            return Err(CommitError::IndexLocked(lock));
        }
        // First the note, then the lock: a lock without a note would be the operator's to remove.
        note.write(None)?;
        let file = match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) => {
                note.remove();
                return match index_lock_at(&path)? {
                    Some(lock) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                        Err(CommitError::IndexLocked(lock))
                    }
                    Some(_) | None => Err(at(&path)(error).into()),
                };
            }
        };
        note.write(Some(&file.metadata().map_err(at(&path))?))?;
        Ok(Self { index, path, note, file, there: true })
    }

    fn fill(&mut self, from: &Path) -> Result<(), GitError> {
        let bytes = std::fs::read(from).map_err(at(from))?;
        if let Ok(old) = std::fs::metadata(&self.index) {
            // In a repository that a group shares, the index stays writable for the group.
            let mode = PermissionsExt::from_mode(old.permissions().mode() & 0o777);
            self.file.set_permissions(mode).map_err(at(&self.path))?;
        }
        self.file.write_all(&bytes).and_then(|()| self.file.sync_all()).map_err(at(&self.path))
    }

    fn commit(mut self) -> Result<(), GitError> {
        std::fs::rename(&self.path, &self.index).map_err(at(&self.index))?;
        self.there = false;
        Ok(())
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if self.there {
            let _ = std::fs::remove_file(&self.path);
        }
        self.note.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Oid, *};

    #[test]
    fn an_index_that_a_kill_left_is_removed_and_one_in_use_is_not() {
        let fixture = super::super::testing::Fixture::new();
        let git = fixture.git();
        let (old, new) = (PrivateIndex::new(&git), PrivateIndex::new(&git));
        let foreign = git.note_dir().join("index-of-somebody");
        let long_ago = std::time::SystemTime::now() - ABANDONED_AFTER - Duration::from_secs(60);
        for path in [old.path(), new.path(), &foreign] {
            let file = File::create(path).unwrap();
            if path != new.path() {
                file.set_modified(long_ago).unwrap();
            }
        }
        assert_eq!(git.remove_abandoned_indexes().unwrap(), 1);
        assert!(!old.path().exists() && new.path().exists() && foreign.exists());
    }

    fn entry(path: &str, digit: &str, stage: u8) -> IndexEntry {
        let oid = Oid::parse(&digit.repeat(40)).unwrap();
        IndexEntry { mode: "100644".to_owned(), oid, stage, path: path.as_bytes().to_vec() }
    }

    fn update(old: Option<&str>, new: Option<&str>) -> PathUpdate {
        let side = |digit: Option<&str>| {
            digit.map(|digit| ("100644".to_owned(), Oid::parse(&digit.repeat(40)).unwrap()))
        };
        PathUpdate { path: "a".to_owned(), old: side(old), new: side(new) }
    }

    #[test]
    fn only_an_entry_that_equals_the_old_tip_is_replaced() {
        let (old, new, staged) = (entry("a", "1", 0), entry("a", "2", 0), entry("a", "3", 0));
        let change = update(Some("1"), Some("2"));
        assert_eq!(plan(&change, std::slice::from_ref(&old)), Plan::Replace);
        assert_eq!(plan(&change, std::slice::from_ref(&new)), Plan::Same);
        assert_eq!(plan(&change, std::slice::from_ref(&staged)), Plan::Leave);
        // He staged the removal.
        assert_eq!(plan(&change, &[]), Plan::Leave);
        assert_eq!(plan(&change, &[entry("a", "1", 1), entry("a", "3", 2)]), Plan::Leave);
        let addition = update(None, Some("2"));
        assert_eq!(plan(&addition, &[]), Plan::Replace);
        assert_eq!(plan(&addition, std::slice::from_ref(&staged)), Plan::Leave);
        assert_eq!(plan(&addition, &[entry("a/b", "1", 0)]), Plan::Leave);
        let removal = update(Some("1"), None);
        assert_eq!(plan(&removal, &[old]), Plan::Replace);
        assert_eq!(plan(&removal, &[]), Plan::Same);
        assert_eq!(plan(&removal, &[staged]), Plan::Leave);
    }
}
