//! The completion watcher: the one place that applies what runs left.
//!
//! One thread, one pass after the other. An event, a timer or the start only wakes a pass over everything that
//! is there (queue.md, "Waking"); a pass may be repeated at any time, and one that finds nothing to do changes
//! nothing and wakes nobody. No agent ever runs here.
//!
//! - here: what the watcher holds, and one pass over everything
//! - [`complete`]: outcomes become transitions
//! - [`adopt`]: files dropped by hand become jobs
//! - [`external`]: jobs for another service that builds, and what it answers
//! - [`recover`]: runs whose worker is gone
//! - `status`: what systemd is told of it
//! - [`wake`]: what wakes a pass, timers and systemd
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::audit::{self, Audit};
use board_core::edge::clock;
use board_core::edge::documents::Documents;
use board_core::edge::git::{Git, GitOptions, Head, Identity, Oid};
use board_core::edge::lock::{Lock, LockClass, LockError, watcher_lock};
use board_core::edge::orders::Orders;
use board_core::edge::queue::Queue;
use board_core::edge::queue::recover::OrphanWatch;
use board_core::edge::reconcile::documents::{self as writing, Desk};
use board_core::edge::reconcile::families;
use board_core::edge::reconcile::queue as publishing;
use board_core::edge::secrets::Secrets;
use board_core::edge::settings::Settings;
use board_core::edge::store::{Store, UpdateError};
use board_core::edge::waits::{Wait, Waits};
use board_core::edge::wake::Waker;
use board_core::edge::worktree::Worktrees;
use board_core::model::board::{Board, Policy};
use board_core::model::time::Timestamp;

pub mod adopt;
pub mod complete;
pub mod external;
mod life;
pub mod recover;
mod status;
pub mod wake;

/// How long a slot's lock must be free before its job counts as orphaned (queue.md, "Recovery").
pub const ORPHAN_AFTER: Duration = Duration::from_secs(30);

/// Ends a running watcher.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks the watcher to end after the pass that it is in.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        if let Some(waker) = &*self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    fn wakes(&self, waker: Waker) {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
}

/// How the watcher is run.
#[derive(Debug, Clone)]
pub struct Hooks {
    /// Ends it.
    pub stop: Stop,
    /// SIGTERM and SIGINT end it, and systemd is told how it is.
    pub daemon: bool,
    /// Files dropped by its own user are accepted (`boardctl dev`).
    pub dev: bool,
    /// How long a slot's lock must be free; [`ORPHAN_AFTER`] but in tests.
    pub orphan_after: Duration,
}

impl Hooks {
    /// As a daemon of its own.
    pub fn daemon() -> Hooks {
        Hooks { stop: Stop::new(), daemon: true, dev: false, orphan_after: ORPHAN_AFTER }
    }

    /// For `boardctl dev`.
    pub fn dev() -> Hooks {
        Hooks { dev: true, ..Hooks::daemon() }
    }
}

/// Runs the watcher until it is asked to stop.
///
/// # Errors
/// It is running already, or state, queue or repository cannot be used.
pub fn run(settings: Settings, hooks: Hooks) -> anyhow::Result<()> {
    let mut watcher = Watcher::open(settings, hooks)?;
    let _singleton = watcher.singleton()?;
    wake::run(&mut watcher)
}

/// What the watcher holds.
#[derive(Debug)]
pub struct Watcher {
    settings: Settings,
    hooks: Hooks,
    store: Store,
    queue: Queue,
    documents: Documents,
    worktrees: Worktrees,
    policy: Policy,
    /// Why which description of a role is left out, as it was said last.
    unguided: Vec<String>,
    /// The commit whose descriptions of roles the policy holds.
    guided: Option<Oid>,
    memory: audit::Memory,
    orphans: OrphanWatch,
    /// Whether parents and children that only their records know were taken in, once per start.
    families_known: bool,
    /// Whether the look of the start, at strays and everything, is through.
    started: bool,
}

/// What one pass over everything left.
#[derive(Debug, Default)]
pub struct Tick {
    /// When there is something to do by itself.
    pub next: Option<Timestamp>,
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
    /// Whether a run goes on whose end no event may tell.
    pub running: bool,
    /// What went wrong, in words.
    pub trouble: Option<String>,
}

impl Tick {
    fn at(&mut self, next: Option<Timestamp>) {
        self.next = [self.next, next].into_iter().flatten().min();
    }

    fn failed(&mut self, what: &str, error: &anyhow::Error) {
        tracing::error!("{what}: {error:#}");
        self.trouble.get_or_insert_with(|| format!("{what}: {error:#}"));
        self.undone = true;
    }
}

impl Watcher {
    /// Opens state, queue and repository; the first start makes what is missing and fixes the branch.
    ///
    /// # Errors
    /// If one of them cannot be used, with what to do.
    pub fn open(settings: Settings, hooks: Hooks) -> anyhow::Result<Watcher> {
        let state_dir = settings.board.state_dir.clone();
        let (store, made) = Store::init(&state_dir)?;
        if made {
            tracing::info!("{}: the first start made an empty state", store.path().display());
        }
        let queue = Queue::open(&state_dir, true)?;
        let options = GitOptions {
            allow_filters: settings.board.allow_filters,
            identity: Identity { name: settings.audit.name.clone(), email: settings.audit.email.clone() },
            lock_note_dir: state_dir.join("locks"),
            program: "git".into(),
        };
        let git = Git::open(&settings.board.repository, options)?;
        let branch = fix_branch(&store, &git, settings.board.branch.as_deref())?;
        let worktrees = Worktrees::new(&state_dir.join("worktrees"), git.clone())?;
        let worktrees = worktrees.keeping_out(Secrets::of(&settings));
        let policy = settings.policy();
        Ok(Watcher {
            documents: Documents::new(git, branch),
            settings,
            hooks,
            store,
            queue,
            worktrees,
            policy,
            unguided: Vec::new(),
            guided: None,
            memory: audit::Memory::default(),
            orphans: OrphanWatch::default(),
            families_known: false,
            started: false,
        })
    }

    /// Takes the lock of which there is one per state directory.
    ///
    /// # Errors
    /// Another watcher has it.
    pub fn singleton(&self) -> anyhow::Result<Lock> {
        Lock::try_acquire(&watcher_lock(self.store.dir()), LockClass::Singleton)
            .context("another watcher runs on this state directory")
    }

    /// What the passes work with.
    pub fn desk(&self) -> Desk<'_> {
        Desk {
            store: &self.store,
            queue: &self.queue,
            documents: &self.documents,
            worktrees: &self.worktrees,
            policy: &self.policy,
        }
    }

    /// Reads the descriptions of roles for the jobs that this pass makes. What cannot be read keeps the last ones.
    fn read_guidance(&mut self) {
        let tip = self.documents.tip().ok().flatten();
        if tip.is_some() && tip == self.guided {
            return;
        }
        match Orders::new(&self.documents).guidance(&self.settings.roles) {
            Ok((guidance, missing)) => {
                // Once per change: a pass comes with every outcome.
                if missing != self.unguided {
                    for sentence in &missing {
                        tracing::warn!("{sentence}; die Rolle arbeitet ohne");
                    }
                    self.unguided = missing;
                }
                self.policy.guidance = guidance;
                self.guided = tip;
            }
            Err(error) => tracing::warn!("the descriptions of roles cannot be read: {error}"),
        }
    }

    /// What runs, waits and is wrong, as one line for systemd.
    fn status(&self, tick: &Tick) -> String {
        let found = || -> anyhow::Result<String> {
            let (board, queue) = (self.store.read()?, self.queue.view_without_done(false)?);
            let waits = Waits::read(self.store.dir());
            let found = status::Found {
                board: &board,
                queue: &queue,
                waits: &waits,
                trouble: tick.trouble.as_deref(),
            };
            Ok(status::line(self.settings.board.language, &found))
        };
        found().unwrap_or_else(|error| format!("{error:#}"))
    }

    /// One pass over everything. What fails for one part does not stop the others.
    pub fn tick(&mut self) -> Tick {
        let mut tick = Tick::default();
        let mut waits = Waits::default();
        let now = clock::now();
        self.read_guidance();
        if !self.families_known {
            // Before anything ends that a parent waits for.
            match families::take_in(&self.store, &self.documents) {
                Ok(taken) => {
                    self.families_known = true;
                    if !taken.is_empty() {
                        tracing::info!("{} linked cards were taken in from their records", taken.len());
                    }
                }
                Err(error) => tick.failed("linked cards cannot be looked for", &error.into()),
            }
        }
        // First: what was given up leaves `running/`, so that the next run of its card may be published.
        match external::pass(self, now) {
            Ok(found) => {
                tick.undone |= found.undone;
                tick.at(found.next);
                let wait = |reason| Wait { since: now, reason };
                waits.cards.extend(found.waits.into_iter().map(|(card, reason)| (card, wait(reason))));
            }
            Err(error) => tick.failed("the external builder cannot be reached", &error),
        }
        if let Err(error) = self.release(now, &mut tick) {
            tick.failed("the queue cannot be reconciled", &error);
        }
        match recover::pass(self, Instant::now()) {
            Ok(found) => tick.undone |= found.undone,
            Err(error) => tick.failed("orphaned runs cannot be looked for", &error),
        }
        match adopt::pass(&self.desk(), self.hooks.dev, now) {
            Ok(adopted) => {
                tick.undone |= adopted.undone;
                tick.at(adopted.next);
            }
            Err(error) => tick.failed("dropped files cannot be adopted", &error),
        }
        match complete::pass(&self.desk(), now) {
            Ok(done) => {
                tick.undone |= done.undone;
                waits
                    .cards
                    .extend(done.waits.into_iter().map(|(card, reason)| (card, Wait { since: now, reason })));
            }
            Err(error) => tick.failed("outcomes cannot be applied", &error),
        }
        if let Err(error) = self.write_documents(now, &mut tick, &mut waits) {
            tick.failed("documents cannot be written", &error);
        }
        let audit = Audit { store: &self.store, documents: &self.documents, settings: &self.settings.audit };
        match audit.pass(&mut self.memory, now) {
            Ok(pass) => {
                tick.undone |= pass.undone;
                tick.at(pass.next);
                waits.commit = pass.waiting;
                waits.edits = pass.edits;
                waits.staged = pass.staged;
            }
            Err(error) => {
                let reason = format!("Der Commit ist nicht gelungen: {error:#}");
                waits.commit = Some(Wait { since: now, reason });
                tick.failed("transitions cannot be committed", &error);
            }
        }
        if let Err(error) = waits.tell(self.store.dir()) {
            tracing::warn!("what waits cannot be told: {error}");
        }
        tick
    }

    /// Parked starts that are due become real and are published, under one hold of the state lock.
    fn release(&self, now: Timestamp, tick: &mut Tick) -> anyhow::Result<()> {
        let mut held = self.store.hold()?;
        let before: Vec<_> =
            held.board().cards.values().filter(|card| card.parked.is_some()).map(|c| c.id.clone()).collect();
        if !before.is_empty() {
            change(held.update(|board| {
                board.release_due(now);
                Ok(())
            }))?;
        }
        let pass = publishing::pass(&held, &self.queue, now)?;
        tick.at(pass.next);
        tick.at(held.board().next_due());
        tick.running = !pass.view.running.is_empty();
        for id in before {
            if let Some(card) = held.board().cards.get(&id).filter(|card| card.parked.is_none()) {
                life::released(card);
            }
        }
        drop(held);
        life::reconciled(&pass.done);
        Ok(())
    }

    fn write_documents(&mut self, now: Timestamp, tick: &mut Tick, waits: &mut Waits) -> anyhow::Result<()> {
        let board = self.store.read()?;
        if self.started && !writing::is_due(&board) {
            return Ok(());
        }
        let desk = self.desk();
        let lock = match desk.try_lock() {
            Ok(lock) => lock,
            Err(LockError::Busy { .. }) => {
                tick.undone = true;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if !self.started {
            let indexes = self.documents.git().remove_abandoned_indexes()?;
            if indexes > 0 {
                tracing::info!("{indexes} indexes of earlier runs are removed");
            }
            let strays = self.documents.remove_strays()?;
            if strays > 0 {
                tracing::info!("{strays} temporary files of an earlier run are removed from the checkout");
            }
        }
        let pass = writing::pass(&desk, &lock, now)?;
        drop(lock);
        for applied in &pass.applied {
            life::applied(applied, None);
        }
        tick.undone |= pass.undone;
        waits.cards.extend(pass.waits.into_iter().map(|(card, reason)| (card, Wait { since: now, reason })));
        self.started = true;
        Ok(())
    }
}

/// The branch on which the board lives: what the state says, else the configuration, else what is checked out;
/// written down at the first start.
fn fix_branch(store: &Store, git: &Git, configured: Option<&str>) -> anyhow::Result<String> {
    if let Some(branch) = store.read()?.branch.clone() {
        if let Some(other) = configured.filter(|configured| *configured != branch) {
            anyhow::bail!(
                "the state lives on the branch {branch}, the configuration says {other}; set board.branch back, or \
                 begin with an empty state directory"
            );
        }
        return Ok(branch);
    }
    let branch = match (configured, git.head_state()?) {
        (Some(branch), _) => branch.to_owned(),
        (None, Head::Branch(branch) | Head::Unborn(branch)) => branch,
        (None, Head::Detached(_)) => anyhow::bail!("the checkout is on no branch; set board.branch"),
    };
    change(store.update(|board: &mut Board| {
        board.branch.get_or_insert_with(|| branch.clone());
        Ok(())
    }))?;
    Ok(branch)
}

/// The result of a change that refuses nothing.
fn change<T>(result: Result<T, UpdateError<std::convert::Infallible>>) -> anyhow::Result<T> {
    result.map_err(|error| match error {
        UpdateError::Refused(never) => match never {},
        UpdateError::Store(error) => error.into(),
    })
}
