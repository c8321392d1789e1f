//! Locks between the processes of the board: who holds the kernel's lock is alive, nothing else says so.
//!
//! The only user of fs2. A lock is a file that is made once (0600) and never replaced; a kill, a crash and a
//! power cut release it. Its one line, `<pid> <program> <since>`, is for people. The order in which a thread
//! takes its locks is checked at each of them, in releases too, because a wrong order stops two daemons for
//! ever and only under load.
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{FileExt as _, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs2::FileExt as _;
use nix::fcntl::OFlag;

use super::files::read::{Read, open_regular_nofollow};
use super::files::{FileError, create_dirs_private, parent_of};
use crate::model::card::CardId;
use crate::model::job::Lane;
use crate::model::time::Timestamp;

/// Longest line of a lock file that is read, bytes.
const MAX_HOLDER_BYTES: u64 = 4096;
/// First pause between two tries of [`Lock::acquire_timeout`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a lock guards; the first five in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockClass {
    /// One watcher, one trigger.
    Singleton,
    /// One run per slot.
    Slot,
    /// One run per card, whatever became of the file that says so.
    Card,
    /// All our writes into the repository.
    Repository,
    /// `state.json`.
    State,
    /// A leaf: a runtime's login.
    Credential,
    /// A leaf: the life of a sandbox.
    Sandbox,
}

impl LockClass {
    /// Nothing is taken while a leaf is held.
    fn is_leaf(self) -> bool {
        match self {
            LockClass::Credential | LockClass::Sandbox => true,
            LockClass::Singleton
            | LockClass::Slot
            | LockClass::Card
            | LockClass::Repository
            | LockClass::State => false,
        }
    }
}

/// Who holds a lock, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; may be stale, so nothing is decided on it.
    pub pid: i32,
    /// Name of its program.
    pub program: String,
    /// Since when.
    pub since: Timestamp,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {}) since {}", self.program, self.pid, self.since)
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A mistake in the program: another order than singleton, slot, card, repository, state.
    #[error("lock order: {wanted:?} may not be taken while {held:?} is held")]
    Order {
        /// What the thread holds.
        held: LockClass,
        /// What it asked for.
        wanted: LockClass,
    },
    /// Somebody else holds it.
    #[error("{} is held by {}", path.display(), holder.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string))]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// Who, as far as the file tells.
        holder: Option<Holder>,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

thread_local! {
    /// The classes that this thread holds, in the order of taking.
    static HELD: RefCell<Vec<LockClass>> = const { RefCell::new(Vec::new()) };
}

/// A held lock; released when dropped. It stays on the thread that took it, whose order is checked.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    file: File,
    path: PathBuf,
    class: LockClass,
    stays: PhantomData<*const ()>,
}

impl Lock {
    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it is not.
    pub fn try_acquire(path: &Path, class: LockClass) -> Result<Lock, LockError> {
        check_order(class)?;
        match take(path, class, |file| file.try_lock_exclusive())? {
            Some(lock) => Ok(lock),
            None => Err(LockError::Busy { path: path.to_owned(), holder: holder(path) }),
        }
    }

    /// Takes the lock, waiting for it without end.
    ///
    /// # Errors
    /// [`LockError::Order`] or [`LockError::File`].
    pub fn acquire(path: &Path, class: LockClass) -> Result<Lock, LockError> {
        check_order(class)?;
        loop {
            if let Some(lock) = take(path, class, |file| file.lock_exclusive())? {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock, waiting for it at most so long.
    ///
    /// # Errors
    /// [`LockError::Busy`] with its holder after that time.
    pub fn acquire_timeout(path: &Path, class: LockClass, limit: Duration) -> Result<Lock, LockError> {
        // flock has no deadline of its own but a signal's; short pauses serve a lock that is held for
        // milliseconds.
        let deadline = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        loop {
            match Lock::try_acquire(path, class) {
                Err(LockError::Busy { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Releases the lock and removes its file, for a lock of which there are many. Whoever waits on the file that is
    /// gone opens the next one.
    ///
    /// # Errors
    /// If the file cannot be removed; the lock is released all the same.
    pub fn release_and_remove(self) -> Result<(), FileError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FileError::new("remove", &self.path, error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlocked by hand: a child between fork and exec still has the descriptor.
        let _ = fs2::FileExt::unlock(&self.file);
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|class| *class == self.class) {
                held.remove(at);
            }
        });
    }
}

fn check_order(wanted: LockClass) -> Result<(), LockError> {
    HELD.with_borrow(|held| {
        let against = |class: &&LockClass| class.is_leaf() || (!wanted.is_leaf() && **class >= wanted);
        match held.iter().find(against) {
            Some(held) => Err(LockError::Order { held: *held, wanted }),
            None => Ok(()),
        }
    })
}

/// Opens and locks; `None` if it is busy, or if the file was taken away meanwhile and has to be opened again.
fn take(
    path: &Path,
    class: LockClass,
    lock: impl Fn(&File) -> io::Result<()>,
) -> Result<Option<Lock>, LockError> {
    let mut file = open_lock_file(path);
    if file.as_ref().is_err_and(FileError::is_not_found) {
        create_dirs_private(parent_of(path))?;
        file = open_lock_file(path);
    }
    let file = file?;
    loop {
        match lock(&file) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                return Ok(None);
            }
            Err(error) => return Err(FileError::new("lock", path, error).into()),
        }
    }
    // Somebody removed the directory while we waited: this is a lock on a file that nobody else will open.
    let ours = file.metadata().map_err(FileError::at("look at", path))?;
    match std::fs::symlink_metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {}
        Ok(_) | Err(_) => return Ok(None),
    }
    // Best effort: on a full disk the lock counts, not the line.
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().display().to_string();
    let line = format!("{} {} {}\n", std::process::id(), program.replace(' ', "_"), super::clock::now());
    if file.write_all_at(line.as_bytes(), 0).is_ok() {
        let _ = file.set_len(line.len() as u64);
    }
    HELD.with_borrow_mut(|held| held.push(class));
    Ok(Some(Lock { file, path: path.to_owned(), class, stays: PhantomData }))
}

fn open_lock_file(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits())
        .open(path)
        .map_err(FileError::at("open", path))
}

/// Who took this lock last; `None` if the file tells nobody. Whether it is still held only the lock itself says.
pub fn holder(path: &Path) -> Option<Holder> {
    let Ok(Read::Bytes(file)) = open_regular_nofollow(path, MAX_HOLDER_BYTES) else { return None };
    let text = String::from_utf8(file.bytes).ok()?;
    let mut words = text.lines().next()?.split(' ');
    let (pid, program, since) = (words.next()?, words.next()?, words.next()?);
    Some(Holder { pid: pid.parse().ok()?, program: program.to_owned(), since: since.parse().ok()? })
}

/// The watcher's singleton lock.
pub fn watcher_lock(state_dir: &Path) -> PathBuf {
    state_dir.join("locks/watcher.lock")
}

/// The trigger's singleton lock.
pub fn trigger_lock(state_dir: &Path) -> PathBuf {
    state_dir.join("locks/trigger.lock")
}

/// The lock of a slot, held from claim to finish.
pub fn slot_lock(state_dir: &Path, lane: Lane, slot: u32) -> PathBuf {
    state_dir.join(format!("locks/{}-{slot}.lock", lane.id()))
}

/// The lock of a card's run, held by the worker from its claim to its finish.
pub fn card_lock(state_dir: &Path, card: &CardId) -> PathBuf {
    state_dir.join(format!("locks/card-{card}.lock"))
}

/// The lock of a repository; `hash` tells it from others.
pub fn repository_lock(state_dir: &Path, hash: &str) -> PathBuf {
    state_dir.join(format!("locks/repo-{hash}.lock"))
}

/// The lock of a runtime's login.
pub fn credential_lock(state_dir: &Path, runtime: &str) -> PathBuf {
    state_dir.join(format!("locks/login-{runtime}.lock"))
}

/// The lock of `state.json`.
pub fn state_lock(state_dir: &Path) -> PathBuf {
    state_dir.join("state.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: [LockClass; 7] = [
        LockClass::Singleton,
        LockClass::Slot,
        LockClass::Card,
        LockClass::Repository,
        LockClass::State,
        LockClass::Credential,
        LockClass::Sandbox,
    ];

    #[test]
    fn a_lock_whose_file_is_removed_is_held_by_one_at_a_time_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = card_lock(dir.path(), &"ok-eins".parse().unwrap());
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let lock = Lock::acquire(&path, LockClass::Card).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        lock.release_and_remove().unwrap();
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_held_lock_is_busy_and_names_its_holder_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = watcher_lock(dir.path());
        let lock = Lock::acquire(&path, LockClass::Singleton).unwrap();
        let other = std::thread::scope(|scope| {
            let job = || Lock::try_acquire(&path, LockClass::Singleton).map(drop);
            scope.spawn(job).join().unwrap()
        });
        let Err(LockError::Busy { holder: Some(holder), .. }) = &other else { panic!("{other:?}") };
        assert_eq!(holder.pid, std::process::id().cast_signed());
        assert!(other.unwrap_err().to_string().contains(&format!("(pid {})", std::process::id())));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(lock);
        drop(Lock::try_acquire(&path, LockClass::Singleton).unwrap());
    }

    #[test]
    fn every_pair_of_locks_is_taken_in_one_order_only() {
        for (i, first) in ORDER.into_iter().enumerate() {
            for (j, second) in ORDER.into_iter().enumerate() {
                let dir = tempfile::tempdir().unwrap();
                let held = Lock::acquire(&dir.path().join("a"), first).unwrap();
                let then = Lock::try_acquire(&dir.path().join("b"), second);
                let allowed = !first.is_leaf() && i < j;
                match then {
                    Ok(_) => assert!(allowed, "{first:?} then {second:?}"),
                    Err(error) => {
                        assert!(!allowed, "{first:?} then {second:?}");
                        assert!(matches!(error, LockError::Order { .. }), "{error}");
                    }
                }
                drop(held);
            }
        }
    }

    #[test]
    fn a_lock_given_back_out_of_order_frees_its_class_alone() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Lock::acquire(&dir.path().join("a"), LockClass::Slot).unwrap();
        let state = Lock::acquire(&dir.path().join("b"), LockClass::State).unwrap();
        drop(slot);
        assert!(matches!(
            Lock::try_acquire(&dir.path().join("c"), LockClass::Repository),
            Err(LockError::Order { held: LockClass::State, .. })
        ));
        drop(state);
        drop(Lock::try_acquire(&dir.path().join("c"), LockClass::Singleton).unwrap());
    }

    #[test]
    fn a_wait_ends_with_the_holder_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = state_lock(dir.path());
        let _held = Lock::acquire(&path, LockClass::State).unwrap();
        let waited = std::thread::scope(|scope| {
            let wait = || Lock::acquire_timeout(&path, LockClass::State, Duration::from_millis(20)).map(drop);
            scope.spawn(wait).join().unwrap()
        });
        assert!(matches!(waited, Err(LockError::Busy { holder: Some(_), .. })));
    }

    #[test]
    fn a_lock_whose_file_was_taken_away_is_taken_on_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = state_lock(dir.path());
        let first = Lock::acquire(&path, LockClass::State).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::thread::scope(|scope| {
            let job = || Lock::acquire(&path, LockClass::State).map(drop);
            scope.spawn(job).join().unwrap().unwrap();
        });
        drop(first);
        assert!(path.exists());
    }
}
