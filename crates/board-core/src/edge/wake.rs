//! Turns events of the file system into „look again".
//!
//! The one module that knows `notify`. What happened is deliberately not told: whoever is woken looks at
//! everything that is there, so an event that was missed, doubled or merged with others changes nothing.
//! Events only set flags; a burst is one wake-up and takes no memory. Nothing is polled: without an event
//! and without a deadline [`Wake::wait`] sleeps for ever.
//!
//! A watched directory may go away and come back. The kernel drops the watch with the directory; until it
//! is there again the nearest directory above it that exists is watched instead.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// A directory to watch, itself and not what is below its subdirectories, and which names in it count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSpec {
    path: PathBuf,
    names: Names,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    All,
    One(PathBuf),
    Ending(&'static str),
}

impl WatchSpec {
    /// Every name in `directory`. Not for a directory that temporary files are written into.
    pub fn all(directory: impl Into<PathBuf>) -> Self {
        Self { path: directory.into(), names: Names::All }
    }

    /// One file, watched through its directory: so it may be replaced by a rename, or not be there yet,
    /// and the temporary files beside it wake nobody.
    pub fn file(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let path = file.parent().unwrap_or(Path::new("/")).to_owned();
        Self { path, names: Names::One(file.file_name().unwrap_or_default().into()) }
    }

    /// Names in `directory` with this ending, as in `".json"`.
    pub fn ending(directory: impl Into<PathBuf>, ending: &'static str) -> Self {
        Self { path: directory.into(), names: Names::Ending(ending) }
    }

    fn counts(&self, name: &OsStr) -> bool {
        match &self.names {
            Names::All => true,
            Names::One(file) => file == Path::new(name),
            Names::Ending(ending) => name.as_encoded_bytes().ends_with(ending.as_bytes()),
        }
    }
}

/// Why [`Wake::wait`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something happened, or a [`Waker`] called: look at everything.
    Event,
    /// The deadline came first.
    Deadline,
    /// A watched directory went away or could not be watched. Look at everything; the next `wait` tries
    /// to watch it again. A caller that gets this sets a deadline, since it may be deaf meanwhile.
    Lost,
}

/// Watches directories and waits for what happens in them.
#[derive(Debug)]
pub struct Wake {
    specs: Arc<[WatchSpec]>,
    shared: Arc<Shared>,
    watcher: RecommendedWatcher,
    /// For each spec whether its directory is watched now.
    watched: Vec<bool>,
    /// What is watched in place of directories that are gone.
    stand_ins: Vec<PathBuf>,
    /// The journal was told of a directory that cannot be watched, once until all are again.
    complained: bool,
}

/// Wakes a [`Wake`] from another thread, for a stop or for work that no file tells of.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// Makes the current or the next [`Wake::wait`] return [`Woken::Event`]. Takes a lock, so it is for
    /// threads and not for signal handlers themselves.
    pub fn wake(&self) {
        self.0.note(|pending| pending.event = true);
    }
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Pending {
    /// Something that counts happened.
    event: bool,
    /// A watched directory is gone.
    lost: bool,
    /// A directory that was gone may be there again.
    recheck: bool,
}

impl Shared {
    fn note(&self, set: impl FnOnce(&mut Pending)) {
        set(&mut self.lock());
        self.changed.notify_all();
    }

    /// Flags cannot be left half-set, so a panic elsewhere does not spoil them.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is pending, cleared; waits for it until `deadline`.
    fn take(&self, deadline: Option<Instant>) -> Option<Pending> {
        let mut pending = self.lock();
        while *pending == Pending::default() {
            pending = match deadline {
                None => self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left =
                        deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
                    self.changed.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Some(std::mem::take(&mut *pending))
    }
}

impl Wake {
    /// Watches these directories, all of which must be there.
    ///
    /// What happened before this call is not told: look at everything once after it.
    ///
    /// # Errors
    /// A directory that is not there or not readable, or the kernel's limits on inotify.
    pub fn new(specs: &[WatchSpec]) -> Result<Self> {
        let absolute = |spec: &WatchSpec| {
            let path = std::path::absolute(&spec.path)
                .with_context(|| format!("{} cannot be watched", spec.path.display()))?;
            Ok(WatchSpec { path, names: spec.names.clone() })
        };
        let specs: Arc<[WatchSpec]> = specs.iter().map(absolute).collect::<Result<_>>()?;
        let shared = Arc::new(Shared::default());
        let watcher = {
            let (specs, shared) = (Arc::clone(&specs), Arc::clone(&shared));
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
                Ok(event) => {
                    let found = classify(&specs, &event);
                    if found != Pending::default() {
                        shared.note(|pending| {
                            pending.event |= found.event;
                            pending.lost |= found.lost;
                            pending.recheck |= found.recheck;
                        });
                    }
                }
                // What was missed is unknown, so everything is watched anew.
                Err(_) => shared.note(|pending| pending.lost = true),
            })
        }
        .context(
            "inotify cannot be used; where many programs watch files, raise fs.inotify.max_user_instances",
        )?;
        let watched = vec![false; specs.len()];
        let mut wake = Self { specs, shared, watcher, watched, stand_ins: Vec::new(), complained: false };
        for at in 0..wake.specs.len() {
            let path = wake.specs[at].path.clone();
            wake.watch(&path)?;
            wake.watched[at] = true;
        }
        Ok(wake)
    }

    /// A handle that wakes this from another thread.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Waits until something happens, a [`Waker`] calls, or the deadline comes. What happened since the
    /// last call is told by one return, however much it was.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Woken {
        // Left over from a `Lost`: perhaps it can be watched by now.
        if self.is_deaf() && self.watch_again() {
            return Woken::Event;
        }
        loop {
            let Some(pending) = self.shared.take(deadline) else { return Woken::Deadline };
            if pending.lost {
                // Which one is not worth knowing: to watch all of them anew loses nothing, since
                // whoever is woken looks at everything.
                self.watched.fill(false);
                self.watch_again();
                return Woken::Lost;
            }
            let back = pending.recheck && self.is_deaf() && self.watch_again();
            if pending.event || back {
                return Woken::Event;
            }
        }
    }

    fn is_deaf(&self) -> bool {
        self.watched.contains(&false)
    }

    /// Tries to watch what is not watched, or else the nearest directory above it; whether one that was
    /// gone is watched again.
    fn watch_again(&mut self) -> bool {
        for path in std::mem::take(&mut self.stand_ins) {
            if !self.specs.iter().zip(&self.watched).any(|(spec, watched)| *watched && spec.path == path) {
                // An error means that it is gone as well, which is as good.
                let _ = self.watcher.unwatch(&path);
            }
        }
        let mut back = false;
        for at in 0..self.specs.len() {
            if self.watched[at] {
                continue;
            }
            let path = self.specs[at].path.clone();
            // A directory that was moved away keeps its watch, under the name that it no longer has.
            let _ = self.watcher.unwatch(&path);
            let error = match self.watch(&path) {
                Ok(()) => None,
                Err(error) => (!self.watch_above(&path)).then_some(error),
            };
            self.watched[at] = error.is_none();
            back |= error.is_none();
            if let Some(error) = error.filter(|_| !self.complained) {
                tracing::warn!("{error:#}; until it can be, its events are missed");
                self.complained = true;
            }
        }
        self.complained &= self.is_deaf();
        back
    }

    /// Watches the nearest directory above `path` that can be watched. `path` itself may come back
    /// between the attempt to watch it and the watch above it, and so may one between: what is below is
    /// tried again after each, which ends since each is nearer. True if `path` is watched after all.
    fn watch_above(&mut self, path: &Path) -> bool {
        let mut nearest = None;
        loop {
            let nearer = path.ancestors().take_while(|above| Some(*above) != nearest);
            let mut found = nearer.filter(|above| self.watch(above).is_ok());
            let Some(found) = found.next() else { return false };
            if found == path {
                return true;
            }
            self.stand_ins.push(found.to_owned());
            nearest = Some(found);
        }
    }

    fn watch(&mut self, path: &Path) -> Result<()> {
        self.watcher.watch(path, RecursiveMode::NonRecursive).map_err(|error| {
            let context = match error.kind {
                ErrorKind::MaxFilesWatch => {
                    format!("{} cannot be watched; raise fs.inotify.max_user_watches", path.display())
                }
                ErrorKind::PathNotFound
                | ErrorKind::Generic(_)
                | ErrorKind::Io(_)
                | ErrorKind::WatchNotFound
                | ErrorKind::InvalidConfig(_) => format!("{} cannot be watched", path.display()),
            };
            anyhow::Error::new(error).context(context)
        })
    }
}

/// What an event means for these directories.
fn classify(specs: &[WatchSpec], event: &notify::Event) -> Pending {
    let mut found = Pending::default();
    // The kernel's queue ran over: anything may have happened.
    if event.need_rescan() {
        return Pending { event: true, ..found };
    }
    let goes = match event.kind {
        // A pass that only reads must not wake itself.
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => return found,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => true,
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => false,
    };
    for path in &event.paths {
        for spec in specs {
            if spec.path == *path {
                found.lost |= goes;
                found.recheck |= !goes;
            } else if path.parent() == Some(&spec.path)
                && path.file_name().is_some_and(|name| spec.counts(name))
            {
                found.event = true;
            } else if spec.path.starts_with(path) {
                // A directory above: it is only heard of where it stands in, or is a spec itself.
                found.lost |= goes;
                found.recheck |= !goes;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Far off: a test that comes to it has failed.
    fn soon() -> Option<Instant> {
        Some(Instant::now() + LIMIT)
    }

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("directory");
        for name in names {
            fs::create_dir_all(root.path().join(name)).expect(name);
        }
        root
    }

    /// What is told of each event that `act` causes in `inbox`, by a watcher of notify's own; a link made
    /// after it marks the end, since the kernel keeps the order.
    fn told(specs: &[WatchSpec], inbox: &Path, act: impl FnOnce()) -> Vec<Pending> {
        let end = inbox.join("end-of-test");
        let (send, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let _ = send.send(event.expect("event"));
        })
        .expect("watcher");
        watcher.watch(inbox, RecursiveMode::NonRecursive).expect("watched");
        act();
        fs::hard_link(inbox.join("there.json"), &end).expect("link");
        let mut told = Vec::new();
        loop {
            let event = events.recv_timeout(LIMIT).expect("event");
            if event.paths.contains(&end) {
                return told;
            }
            told.push(classify(specs, &event));
        }
    }

    #[test]
    fn a_rename_into_the_directory_wakes() {
        let root = tree(&["inbox", "tmp"]);
        let (inbox, tmp) = (root.path().join("inbox"), root.path().join("tmp"));
        let mut wake = Wake::new(&[WatchSpec::all(&inbox)]).expect("watched");
        assert_eq!(wake.wait(Some(Instant::now())), Woken::Deadline);
        fs::write(tmp.join("a"), "1").expect("file");
        fs::rename(tmp.join("a"), inbox.join("a")).expect("rename");
        assert_eq!(wake.wait(soon()), Woken::Event);
    }

    #[test]
    fn a_removal_and_a_rename_out_of_the_directory_wake() {
        let root = tree(&["inbox"]);
        let inbox = root.path().join("inbox");
        for name in ["a", "b"] {
            fs::write(inbox.join(name), "").expect("file");
        }
        let mut wake = Wake::new(&[WatchSpec::all(&inbox)]).expect("watched");
        fs::remove_file(inbox.join("a")).expect("remove");
        assert_eq!(wake.wait(soon()), Woken::Event);
        let mut wake = Wake::new(&[WatchSpec::all(&inbox)]).expect("watched");
        fs::rename(inbox.join("b"), root.path().join("b")).expect("rename");
        assert_eq!(wake.wait(soon()), Woken::Event);
    }

    #[test]
    fn reading_and_changing_times_and_modes_wakes_nobody() {
        let root = tree(&["inbox"]);
        let inbox = root.path().join("inbox");
        let file = inbox.join("there.json");
        fs::write(&file, "{}").expect("file");
        let told = told(&[WatchSpec::all(&inbox)], &inbox, || {
            for entry in fs::read_dir(&inbox).expect("directory") {
                fs::read(entry.expect("entry").path()).expect("read");
            }
            fs::File::open(&inbox).expect("open").sync_all().expect("sync");
            fs::set_permissions(&file, fs::metadata(&file).expect("metadata").permissions()).expect("mode");
        });
        assert!(!told.is_empty(), "the kernel tells of reading");
        assert!(told.iter().all(|told| *told == Pending::default()), "{told:?}");
    }

    #[test]
    fn only_names_that_were_asked_for_wake() {
        let root = tree(&["state"]);
        let state = root.path().join("state");
        fs::write(state.join("there.json"), "{}").expect("file");
        let event = Pending { event: true, ..Pending::default() };
        let cases = [
            (WatchSpec::file(state.join("state.json")), true),
            (WatchSpec::file(state.join("other.json")), false),
            (WatchSpec::ending(&state, ".json"), true),
            (WatchSpec::ending(&state, ".tmp"), true),
            (WatchSpec::ending(&state, ".adopt"), false),
            (WatchSpec::all(&state), true),
            (WatchSpec::all(root.path()), false),
        ];
        for (spec, wakes) in cases {
            let told = told(std::slice::from_ref(&spec), &state, || {
                fs::write(state.join("state.json.1.tmp"), "{}").expect("temporary");
                fs::rename(state.join("state.json.1.tmp"), state.join("state.json")).expect("rename");
            });
            assert_eq!(told.contains(&event), wakes, "{spec:?} {told:?}");
            fs::remove_file(state.join("end-of-test")).expect("end");
        }
    }

    #[test]
    fn many_events_are_one_wake() {
        let shared = Shared::default();
        for _ in 0..10_000 {
            shared.note(|pending| pending.event = true);
        }
        let event = Pending { event: true, ..Pending::default() };
        assert_eq!(shared.take(Some(Instant::now())), Some(event));
        assert_eq!(shared.take(Some(Instant::now())), None);
    }

    #[test]
    fn a_queue_that_ran_over_and_an_error_are_told() {
        let specs = [WatchSpec::all("/inbox")];
        let rescan = notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        assert!(classify(&specs, &rescan).event);
    }

    #[test]
    fn a_waker_wakes_from_another_thread_and_before_the_wait() {
        let root = tree(&["inbox"]);
        let mut wake = Wake::new(&[WatchSpec::all(root.path().join("inbox"))]).expect("watched");
        let waker = wake.waker();
        waker.wake();
        waker.wake();
        assert_eq!(wake.wait(soon()), Woken::Event);
        assert_eq!(wake.wait(Some(Instant::now())), Woken::Deadline);
        let (ready, go) = mpsc::channel();
        let waiting = thread::spawn(move || {
            ready.send(()).expect("ready");
            wake.wait(None)
        });
        go.recv().expect("ready");
        waker.wake();
        assert_eq!(waiting.join().expect("thread"), Woken::Event);
    }

    #[test]
    fn an_event_wakes_a_thread_that_waits() {
        let root = tree(&["inbox"]);
        let inbox = root.path().join("inbox");
        let mut wake = Wake::new(&[WatchSpec::all(&inbox)]).expect("watched");
        let waiting = thread::spawn(move || wake.wait(soon()));
        fs::write(inbox.join("a"), "").expect("file");
        assert_eq!(waiting.join().expect("thread"), Woken::Event);
    }

    #[test]
    fn a_directory_that_goes_and_comes_back_is_watched_again() {
        let root = tree(&["queue/inbox", "other"]);
        let (queue, inbox) = (root.path().join("queue"), root.path().join("queue/inbox"));
        let specs = [WatchSpec::ending(&inbox, ".json"), WatchSpec::all(root.path().join("other"))];
        let mut wake = Wake::new(&specs).expect("watched");
        type Way<'w> = &'w dyn Fn();
        let removed: Way<'_> = &|| fs::remove_dir_all(&inbox).expect("remove");
        let with_its_parent: Way<'_> = &|| fs::remove_dir_all(&queue).expect("remove");
        let moved: Way<'_> = &|| {
            fs::rename(&inbox, root.path().join("moved")).expect("move");
            fs::remove_dir_all(root.path().join("moved")).expect("remove");
        };
        for (number, go) in [removed, with_its_parent, moved, removed].into_iter().enumerate() {
            go();
            assert_eq!(wake.wait(soon()), Woken::Lost, "{number}");
            fs::create_dir_all(&inbox).expect("create");
            // Several are lost one after the other where the parent went too.
            while wake.is_deaf() {
                assert_ne!(wake.wait(soon()), Woken::Deadline, "{number}");
            }
            while wake.wait(Some(Instant::now())) != Woken::Deadline {}
            fs::write(inbox.join("a.json"), "").expect("file");
            assert_ne!(wake.wait(soon()), Woken::Deadline, "{number}");
            fs::write(root.path().join("other/a"), "").expect("file");
            assert_ne!(wake.wait(soon()), Woken::Deadline, "{number}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_at_the_start_is_an_error_with_its_path() {
        let root = tree(&[]);
        let error = Wake::new(&[WatchSpec::all(root.path().join("inbox"))]).expect_err("refused");
        let said = format!("{error:#}");
        assert!(said.contains("/inbox cannot be watched: "), "{said}");
    }
}
