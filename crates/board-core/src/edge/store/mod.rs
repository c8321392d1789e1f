//! `state.json`: the one live truth, changed under one lock and read without any.
//!
//! [`Store::update`] is the only way to change it: lock, read, apply to a copy, temporary file, sync, rename,
//! sync of the directory. A power cut leaves the old state or the new one, never an empty one, and what cannot
//! be read stops the program instead of becoming an empty board that is saved at once.
//!
//! - here: the store, its hold and its errors
//! - `format`: the bytes, one card on a line, so that an error's line tells the card
//! - `snapshot`: earlier states that are kept, and which of them
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clock;
use super::files::read::{Read, open_regular_nofollow};
use super::files::{
    self, DirError, FileError, check_owned_dir, create_dirs_private, list_dir, sync_dir, temporary_name,
    write_new_synced,
};
use super::lock::{Holder, Lock, LockClass, LockError, state_lock};
use super::queue::layout::first_trace;
use crate::fault_point;
use crate::model::board::{Board, STATE_SCHEMA};

mod format;
mod restore;
mod snapshot;

pub use restore::Restored;
pub use snapshot::Snapshot;

/// Name of the state's file.
const STATE_FILE: &str = "state.json";
/// Largest state, bytes: drafts hold 8 MiB at most, a card at rest leaves.
pub const MAX_STATE_BYTES: u64 = 64 * 1024 * 1024;
/// Largest state, bytes, that is kept parsed: a thousand cards at work.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// How long a request waits for the state lock.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Most that the state directory may be open to others: passing through, for the group that drops files.
const STATE_DIR_MODE: u32 = 0o711;

/// Why the state could not be read or written. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Truncated, empty, garbage or not of this shape.
    #[error("{}:{line}:{column}: the state cannot be read: {reason}. Nothing was changed. `boardctl state restore` brings an earlier state back", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Line of the fault, from 1; 0 if the whole file is meant.
        line: usize,
        /// Column of the fault, from 1; 0 if the whole line or file is meant.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// Written by a newer version of the program.
    #[error("{}: the state has schema {found}, this version reads schema {STATE_SCHEMA}. Nothing was changed. Start the newer version, or bring an earlier state back with `boardctl state restore`", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// There is none yet: the first start makes it.
    #[error("{}: there is no state yet; the first start of the trigger or the watcher makes one", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is none, although there was one.
    #[error("{}: the state is gone, but {} shows that there was one. No empty one was made. `boardctl state restore` brings an earlier state back", path.display(), trace.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// What an earlier life left.
        trace: PathBuf,
    },
    /// The new state would be larger than [`MAX_STATE_BYTES`].
    #[error("the state would have {bytes} bytes, at most {MAX_STATE_BYTES} are written; nothing was changed")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// Somebody else holds the state lock for longer than [`PATIENCE`].
    #[error("the state is held by {}", holder.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string))]
    Busy {
        /// Who, as far as the lock's file tells.
        holder: Option<Holder>,
    },
    /// The lock cannot be taken at all.
    #[error(transparent)]
    Lock(LockError),
    /// The state directory is not ours.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
}

impl StoreError {
    /// The disk or the quota is full: the request is refused with 507.
    pub fn is_no_space(&self) -> bool {
        self.of_the_disk(FileError::is_no_space, DirError::is_no_space)
    }

    /// The file system is read-only or failing: refused with 507 as well.
    pub fn is_read_only(&self) -> bool {
        self.of_the_disk(FileError::is_read_only, DirError::is_read_only)
    }

    fn of_the_disk(&self, file: fn(&FileError) -> bool, dir: fn(&DirError) -> bool) -> bool {
        match self {
            StoreError::Io(error) | StoreError::Lock(LockError::File(error)) => file(error),
            StoreError::Dir(error) => dir(error),
            StoreError::Corrupt { .. }
            | StoreError::Newer { .. }
            | StoreError::Missing { .. }
            | StoreError::Lost { .. }
            | StoreError::TooLarge { .. }
            | StoreError::Busy { .. }
            | StoreError::Lock(LockError::Busy { .. } | LockError::Order { .. }) => false,
        }
    }
}

impl From<LockError> for StoreError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Busy { holder, .. } => StoreError::Busy { holder },
            LockError::File(error) => StoreError::Io(error),
            LockError::Order { .. } => StoreError::Lock(error),
        }
    }
}

/// Why an update changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError<E> {
    /// The closure refused.
    #[error("{0}")]
    Refused(E),
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of one state directory.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    path: PathBuf,
    /// What was read last, so that the same bytes are not parsed again: one pass of the watcher reads several times.
    last: Arc<Mutex<Option<Parsed>>>,
}

/// A state as bytes and as a board.
#[derive(Debug)]
struct Parsed {
    bytes: Vec<u8>,
    board: Arc<Board>,
}

impl Store {
    /// The store of a state directory that is there. The state itself is not read yet.
    ///
    /// # Errors
    /// [`StoreError::Dir`] if the directory is missing or somebody else's.
    pub fn open(state_dir: &Path) -> Result<Store, StoreError> {
        check_owned_dir(state_dir, STATE_DIR_MODE)?;
        Ok(Store::look_at(state_dir))
    }

    /// The store for whoever only reads, root for example: nothing is checked, and nothing should be written.
    pub fn look_at(state_dir: &Path) -> Store {
        Store { dir: state_dir.to_owned(), path: state_dir.join(STATE_FILE), last: Arc::default() }
    }

    /// The first start: makes the state directory and an empty state if neither is there. Returns whether it
    /// made the state.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if there is no state but something that an earlier life left; as [`Store::read`] if
    /// the state that is there cannot be read.
    pub fn init(state_dir: &Path) -> Result<(Store, bool), StoreError> {
        create_dirs_private(state_dir)?;
        let store = Store::open(state_dir)?;
        let _lock = store.lock()?;
        match store.read() {
            Ok(_) => Ok((store, false)),
            Err(StoreError::Missing { path }) => match store.trace()? {
                Some(trace) => Err(StoreError::Lost { path, trace }),
                None => {
                    store.write(&Arc::new(Board::empty()), None)?;
                    Ok((store, true))
                }
            },
            Err(error) => Err(error),
        }
    }

    /// The state directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of the state.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the state, without any lock.
    ///
    /// # Errors
    /// [`StoreError`] with path, line and what to do; nothing is defaulted.
    pub fn read(&self) -> Result<Arc<Board>, StoreError> {
        let bytes = read_bytes(&self.path)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.bytes == bytes) {
            return Ok(Arc::clone(&known.board));
        }
        let board = Arc::new(format::parse(&self.path, &bytes)?);
        if bytes.len() <= MAX_KEPT_BYTES {
            *last = Some(Parsed { bytes, board: Arc::clone(&board) });
        }
        Ok(board)
    }

    /// Syncs the state directory and reads: what is seen is then what a power cut leaves. For whoever acts on
    /// it outside of the state lock.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read_synced(&self) -> Result<Arc<Board>, StoreError> {
        sync_dir(&self.dir)?;
        self.read()
    }

    /// Takes the state lock, waiting for it without end, and reads the state durably.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn hold(&self) -> Result<Held<'_>, StoreError> {
        let lock = self.lock()?;
        self.held(lock)
    }

    /// Takes the state lock within [`PATIENCE`], for a request that somebody waits for.
    ///
    /// # Errors
    /// [`StoreError::Busy`] with the holder; otherwise as [`Store::read`].
    pub fn hold_patiently(&self) -> Result<Held<'_>, StoreError> {
        let lock = Lock::acquire_timeout(&state_lock(&self.dir), LockClass::State, PATIENCE)?;
        self.held(lock)
    }

    /// Holds the state for one update.
    ///
    /// # Errors
    /// As [`Store::hold`] and [`Held::update`].
    pub fn update<T, E>(&self, change: impl FnOnce(&mut Board) -> Result<T, E>) -> Result<T, UpdateError<E>> {
        self.hold()?.update(change)
    }

    fn lock(&self) -> Result<Lock, StoreError> {
        Ok(Lock::acquire(&state_lock(&self.dir), LockClass::State)?)
    }

    fn held(&self, lock: Lock) -> Result<Held<'_>, StoreError> {
        // A writer may have died between its rename and its sync.
        let board = self.read_synced()?;
        fault_point!("state.locked");
        Ok(Held { store: self, board, _lock: lock })
    }

    /// Something that an earlier life of this state directory left.
    fn trace(&self) -> Result<Option<PathBuf>, StoreError> {
        if let Some(snapshot) = self.snapshots()?.into_iter().next() {
            return Ok(Some(snapshot.path));
        }
        let broken = list_dir(&self.dir)?;
        let broken = broken.into_iter().find(|entry| entry.name.to_string_lossy().contains(restore::BROKEN));
        match broken {
            Some(entry) => Ok(Some(self.dir.join(entry.name))),
            None => Ok(first_trace(&self.dir)?),
        }
    }

    /// Writes a state; under the lock. `before` is kept as a snapshot if one is due.
    fn write(&self, board: &Arc<Board>, before: Option<&Board>) -> Result<(), StoreError> {
        let bytes = format::to_bytes(board).map_err(|error| {
            StoreError::Io(FileError::new("spell the state for", &self.path, std::io::Error::other(error)))
        })?;
        if bytes.len() as u64 > MAX_STATE_BYTES {
            return Err(StoreError::TooLarge { bytes: bytes.len() as u64 });
        }
        self.remove_leftovers();
        let temporary = self.dir.join(temporary_name(STATE_FILE.as_ref()));
        write_new_synced(&temporary, &bytes)?;
        fault_point!("state.written");
        if let Some(before) = before {
            self.keep(before.generation);
        }
        fault_point!("state.kept");
        if let Err(error) = std::fs::rename(&temporary, &self.path) {
            let _ = std::fs::remove_file(&temporary);
            return Err(FileError::new("replace", &self.path, error).into());
        }
        fault_point!("state.renamed");
        sync_dir(&self.dir)?;
        fault_point!("state.synced");
        if bytes.len() <= MAX_KEPT_BYTES {
            let written = Parsed { bytes, board: Arc::clone(board) };
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
        }
        Ok(())
    }

    /// Temporary files of writers that died. Best effort: they only cost space.
    fn remove_leftovers(&self) {
        for entry in list_dir(&self.dir).unwrap_or_default() {
            let name = entry.name.to_string_lossy();
            if entry.kind == files::Kind::File && name.starts_with("state.json.") && name.ends_with(".tmp") {
                let _ = std::fs::remove_file(self.dir.join(&entry.name));
            }
        }
    }
}

/// Reads a state file or a snapshot.
fn read_state(path: &Path) -> Result<Board, StoreError> {
    format::parse(path, &read_bytes(path)?)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    let whole = |reason: String| StoreError::Corrupt { path: path.to_owned(), line: 0, column: 0, reason };
    match open_regular_nofollow(path, MAX_STATE_BYTES)? {
        Read::Bytes(file) => Ok(file.bytes),
        Read::Missing => Err(StoreError::Missing { path: path.to_owned() }),
        Read::NotRegular(kind) => Err(whole(format!("it is {}", kind.words()))),
        Read::TooLarge { size } => {
            Err(whole(format!("it has {size} bytes, at most {MAX_STATE_BYTES} are read")))
        }
        Read::Denied => Err(whole("this user may not read it".to_owned())),
    }
}

/// The state under its lock.
#[derive(Debug)]
#[must_use = "the state lock is released when this is dropped"]
pub struct Held<'a> {
    store: &'a Store,
    board: Arc<Board>,
    _lock: Lock,
}

impl Held<'_> {
    /// The state as it is now.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Applies a change to a copy and writes it durably if it changed anything: the generation is raised,
    /// every changed card gets it as its revision, what is out of date is forgotten. If the change refuses, or
    /// changes nothing, nothing is written.
    ///
    /// # Errors
    /// [`UpdateError::Refused`] with what the closure said; [`UpdateError::Store`] if it could not be written.
    pub fn update<T, E>(
        &mut self,
        change: impl FnOnce(&mut Board) -> Result<T, E>,
    ) -> Result<T, UpdateError<E>> {
        let mut next = Board::clone(&self.board);
        let value = change(&mut next).map_err(UpdateError::Refused)?;
        if next == *self.board {
            return Ok(value);
        }
        next.generation = self.board.generation.saturating_add(1);
        for (id, card) in &mut next.cards {
            // A card whose revision the change set itself was given back as it was (undo): it keeps it.
            let same_rev = self.board.cards.get(id).is_none_or(|before| before.rev == card.rev);
            if same_rev && self.board.cards.get(id) != Some(card) {
                card.rev = next.generation;
            }
        }
        next.forget_old(clock::now());
        let next = Arc::new(next);
        let written = self.store.write(&next, Some(&self.board));
        match written {
            Ok(()) => {
                self.board = next;
                Ok(value)
            }
            Err(error) => {
                // The rename may have happened before a sync failed: what the file says counts.
                if let Ok(board) = self.store.read() {
                    self.board = board;
                }
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests;
