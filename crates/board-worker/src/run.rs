//! One activation: recover, throw out what cannot run, claim at most one job, run it, leave its outcome.
//!
//! systemd starts the worker again while files are left, so every job has its own invocation, accounting
//! and, after a deploy, the new program. A worker that finds only what may not run now waits inside, since
//! the path unit would start it again at once, for ever.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::clock;
use board_core::edge::files::create_dirs_private;
use board_core::edge::journal::{self, Life};
use board_core::edge::lock::{Lock, LockClass, LockError, card_lock};
use board_core::edge::queue::claim::{Claim, Claimed, Inbox, MayRun, Slot, Standing};
use board_core::edge::queue::recover::RecoverError;
use board_core::edge::queue::{Queue, QueueError};
use board_core::edge::settings::Settings;
use board_core::edge::store::Store;
use board_core::edge::wake::{Wake, WatchSpec};
use board_core::model::board::Board;
use board_core::model::card::Card;
use board_core::model::job::{Job, JobRef, Lane};
use board_core::model::outcome::{Outcome, RunResult};
use nix::sys::signal::{SigSet, Signal};
use uuid::Uuid;

use crate::play::{Stage, sandbox_lock};
use crate::status::{self, Status};
use crate::stop::{self, Stop, StopWatch};
use crate::words::{Language, pick};
use crate::{leftovers, roles, space};

/// Back-off of a worker that cannot go on, from the first to the longest pause.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Pause between two tries of a lock that another worker of the slot holds.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// How long a run lasts at least before a cancel of it is watched for.
const CANCEL_WATCH_AFTER: Duration = Duration::from_millis(300);
/// Pause between two looks for a cancel where nothing can be watched.
const CANCEL_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs one activation of a slot.
///
/// # Errors
/// The state, the queue or the configuration cannot be used; the sentence says what to do.
pub fn run(settings: &Settings, lane: Lane, number: u32) -> anyhow::Result<()> {
    let (wish, stop) = stop::stop().context("a pipe")?;
    listen_to_signals(wish.clone())?;
    let state_dir = settings.board.state_dir.clone();
    let worker = Worker {
        settings,
        store: Store::open(&state_dir)?,
        queue: Queue::open(&state_dir, true)?,
        stop,
        wish,
        status: Status::new(),
    };
    worker.store.read()?;
    let Some(slot) = worker.acquire(lane, number)? else { return Ok(()) };
    worker.recover(&slot)?;
    let Some(job) = worker.claim(&slot, lane)? else { return Ok(()) };
    worker.life(&job, "angenommen");
    let Some(card) = worker.card_lock(&job)? else { return Ok(()) };
    // The moment between claim and this read may have changed everything.
    let board = worker.store.read_synced()?;
    if let Standing::Superseded(why) = standing(&board, &job) {
        worker.life(&job, &format!("nicht mehr aktuell: {why}"));
        slot.superseded(job.reference(), &why)?;
        return Ok(());
    }
    let outcome = worker.play(&slot, &job);
    worker.finish(&slot, &job, &outcome);
    if let Err(error) = card.release_and_remove() {
        tracing::warn!("{error}");
    }
    Ok(())
}

struct Worker<'a> {
    settings: &'a Settings,
    store: Store,
    queue: Queue,
    stop: StopWatch,
    wish: Stop,
    status: Status,
}

impl Worker<'_> {
    fn language(&self) -> Language {
        self.settings.board.language
    }

    fn life(&self, job: &Job, message: &str) {
        journal::life(&Life {
            job: Some(job.id),
            card: &job.card_id,
            job_type: Some(job.kind),
            phase: None,
            message,
        });
    }

    /// The slot's lock; none if a stop was asked for while another worker held it.
    fn acquire(&self, lane: Lane, number: u32) -> anyhow::Result<Option<Slot>> {
        loop {
            match Slot::try_acquire(&self.queue, lane, number) {
                Ok(slot) => return Ok(Some(slot)),
                Err(QueueError::Lock(LockError::Busy { .. })) => {
                    self.status.waits(&pick(
                        self.language(),
                        "wartet auf den Slot, den ein anderer Worker hält",
                        "waits for the slot, which another worker holds",
                    ));
                    if self.pause(LOCK_PAUSE) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The lock of the job's card; none if another run held it. The files in `running/` say who runs what, but a file
    /// that somebody took away says nothing, and two agents in one worktree would be the end of both. After the wait
    /// nothing is run: the next activation recovers this slot, and finds the other run's outcome or its ruins.
    fn card_lock(&self, job: &Job) -> anyhow::Result<Option<Lock>> {
        let path = card_lock(&self.settings.board.state_dir, &job.card_id);
        let mut waited = false;
        loop {
            match Lock::try_acquire(&path, LockClass::Card) {
                Ok(lock) => return Ok((!waited).then_some(lock)),
                Err(LockError::Busy { .. }) => {
                    if !waited {
                        self.life(job, "wartet: ein anderer Lauf dieser Karte ist noch nicht zu Ende");
                        waited = true;
                    }
                    self.status.waits(&pick(
                        self.language(),
                        "wartet auf das Ende eines anderen Laufs dieser Karte",
                        "waits for the end of another run of this card",
                    ));
                    if self.pause(LOCK_PAUSE) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What a dead run of this slot left becomes `interrupted`; nothing is run again here.
    fn recover(&self, slot: &Slot) -> anyhow::Result<()> {
        let mut back_off = BACK_OFF.0;
        loop {
            self.status.begins(&pick(
                self.language(),
                "sieht nach, was ein früherer Lauf ließ",
                "looks at what an earlier run left",
            ));
            let gone = || -> anyhow::Result<()> {
                self.end_leftovers(slot)?;
                self.wait_gone(&slot.name().to_string())
            };
            let save = |job: &Job| {
                let saves = pick(self.language(), "die Arbeit wird gesichert", "the work is being saved");
                self.status.begins(&status::of_job(job, &saves));
                roles::save(self.settings, job)
            };
            match slot.recover(gone, save) {
                Ok(recovered) => {
                    for job in recovered.interrupted {
                        tracing::warn!("{job}: unterbrochen gefunden; die Arbeit ist gesichert");
                    }
                    for out in recovered.thrown_out {
                        tracing::warn!("{}: {}", out.reason.name, out.reason.reason);
                    }
                    return Ok(());
                }
                Err(error @ (RecoverError::Work(_) | RecoverError::Queue(_))) => {
                    let sentence = format!("die Wiederherstellung kommt nicht voran: {error}");
                    tracing::error!("{sentence}");
                    self.status.waits(&sentence);
                    anyhow::ensure!(!self.pause(back_off), "{sentence}");
                    back_off = (back_off * 2).min(BACK_OFF.1);
                }
            }
        }
    }

    /// Ends processes of the earlier run that the sandbox did not take with it, which only a run without one
    /// leaves: they carry its job in their environment.
    fn end_leftovers(&self, slot: &Slot) -> anyhow::Result<()> {
        let place = slot.name().to_string();
        let view = self.queue.view_without_done(false)?;
        for file in view.running.iter().filter(|file| file.place == place) {
            leftovers::end_of_job(file.job.job)?;
        }
        Ok(())
    }

    /// Waits until the sandbox of the earlier run is gone: it keeps this lock while it lives.
    fn wait_gone(&self, slot: &str) -> anyhow::Result<()> {
        let path = sandbox_lock(&self.settings.board.state_dir, slot);
        let mut pause = Duration::from_millis(20);
        while leftovers::is_locked(&path).with_context(|| path.display().to_string())? {
            self.status.waits(&pick(
                self.language(),
                "wartet, bis der frühere Lauf ganz zu Ende ist",
                "waits until the earlier run is over",
            ));
            thread::sleep(pause);
            pause = (pause * 2).min(BACK_OFF.0);
        }
        Ok(())
    }

    /// The oldest job that may run; none if there is nothing to do or a stop was asked for.
    fn claim(&self, slot: &Slot, lane: Lane) -> anyhow::Result<Option<Job>> {
        let mut back_off = BACK_OFF.0;
        // The same wait every minute would bury everything else.
        let mut said = String::new();
        loop {
            if self.stop.asked().is_some() {
                return Ok(None);
            }
            let mut wake = None;
            // In this order: see `Inbox`.
            let seen = slot.look()?;
            let board = self.store.read_synced()?;
            let claimed = self.try_claim(slot, seen.clone(), &board)?;
            let until = match claimed {
                Claim::Job(job) => return Ok(Some(*job)),
                Claim::NothingToDo => return Ok(None),
                Claim::OnlyHeldBack(held) => {
                    let sentence = held.first().map(|(_, why)| why.clone()).unwrap_or_default();
                    self.status.waits(&pick(
                        self.language(),
                        format!("wartet: {sentence}"),
                        format!("waits: {sentence}"),
                    ));
                    if said != sentence {
                        tracing::warn!("wartet: {sentence}");
                        said = sentence;
                    }
                    wake = Some(Wake::new(&[
                        WatchSpec::file(self.store.path()),
                        WatchSpec::all(self.queue.inbox_dir(lane)),
                    ])?);
                    let end = board.next_pause_end(clock::now());
                    let wait = end.map_or(BACK_OFF.1, |end| {
                        Duration::from_secs(end.seconds_since(clock::now()).clamp(0, 60).cast_unsigned() + 1)
                    });
                    // Between the look above and the watch here something may have come.
                    if self.store.read()?.generation != board.generation || slot.look()? != seen {
                        continue;
                    }
                    wait.min(BACK_OFF.1)
                }
                Claim::CannotMove { name, error } => {
                    let sentence = format!("{name} lässt sich nicht bewegen: {error}");
                    tracing::error!("{sentence}");
                    self.status.waits(&sentence);
                    back_off = (back_off * 2).min(BACK_OFF.1);
                    back_off
                }
            };
            match wake.as_mut() {
                Some(wake) => {
                    self.wish.also_wake(wake.waker());
                    wake.wait(Some(Instant::now() + until));
                }
                None => {
                    self.pause(until);
                }
            }
        }
    }

    fn try_claim(&self, slot: &Slot, seen: Inbox, board: &Board) -> anyhow::Result<Claim> {
        let now = clock::now();
        let current: BTreeSet<JobRef> =
            board.cards.values().filter_map(Card::current_job).map(Job::reference).collect();
        let Claimed { claim, thrown_out } = slot.claim(
            seen,
            |job| current.contains(&job),
            |job| standing(board, job),
            |job| {
                if let Some(pause) = board.pause_of(job, now) {
                    return MayRun::HeldBack(pause.reason.clone());
                }
                let short = (job.kind.lane() == Lane::Build)
                    .then(|| space::short(&self.settings.board.state_dir, self.language()))
                    .flatten();
                short.map_or(MayRun::Now, MayRun::HeldBack)
            },
        )?;
        for out in thrown_out {
            tracing::warn!("{}: {}", out.reason.name, out.reason.reason);
        }
        Ok(claim)
    }

    /// Plays the role; whatever goes wrong becomes an outcome.
    fn play(&self, slot: &Slot, job: &Job) -> Outcome {
        let directory = self.settings.board.state_dir.join("runs").join(slot.name().to_string());
        let stage = Stage {
            settings: self.settings,
            slot,
            stop: &self.stop,
            status: &self.status,
            directory: directory.clone(),
        };
        let cancel = watch_cancel(self.queue.clone(), job.id, self.wish.clone());
        let outcome = cancel
            .and_then(|()| make_ready(&directory, &stage.sandbox_lock()))
            .and_then(|()| {
                self.life(job, "Lauf beginnt");
                let prepares = pick(self.language(), "wird vorbereitet", "is being prepared");
                self.status.begins(&status::of_job(job, &prepares));
                roles::play(&stage, job)
            })
            .unwrap_or_else(|error| {
                let sentence = format!("{error:#}");
                tracing::error!("{}: {sentence}", job.reference());
                Outcome::without_run(job, RunResult::Failed, sentence, clock::now())
            });
        if let Err(error) = clear(&directory) {
            tracing::warn!("{error:#}");
        }
        outcome
    }

    /// Leaves the outcome; one that cannot be written is tried again and never given up by exiting.
    fn finish(&self, slot: &Slot, job: &Job, outcome: &Outcome) {
        let mut back_off = BACK_OFF.0;
        let mut left = outcome.clone();
        loop {
            match slot.finish(&left) {
                Ok(()) => break,
                Err(QueueError::TooLarge { bytes, limit, .. }) => {
                    let sentence = format!("Das Ergebnis hat {bytes} Bytes, erlaubt sind {limit}");
                    left = Outcome::without_run(job, RunResult::InvalidReply, sentence, clock::now());
                    left.log.clone_from(&outcome.log);
                }
                Err(error) => {
                    let sentence = format!("Ergebnis lässt sich nicht schreiben, neuer Versuch: {error}");
                    tracing::error!("{sentence}");
                    self.status.waits(&status::of_job(job, &sentence));
                    thread::sleep(back_off);
                    back_off = (back_off * 2).min(BACK_OFF.1);
                }
            }
        }
        let mut ended = left.result.id().to_owned();
        if !left.sentence.is_empty() {
            ended.push_str(" – ");
            ended.push_str(&left.sentence);
        }
        self.life(job, &format!("Lauf beendet: {ended}"));
        self.status.ends(&status::of_job(job, &ended));
    }

    /// Waits; true if a stop was asked for.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while self.stop.asked().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(LOCK_PAUSE));
        }
        true
    }
}

/// Whether a job is its card's current job and attempt.
fn standing(board: &Board, job: &Job) -> Standing {
    let Some(card) = board.cards.get(&job.card_id) else {
        return Standing::Superseded("the card is gone".to_owned());
    };
    match card.current_job() {
        Some(current) if current == job && card.parked.is_none() => Standing::Current,
        Some(current) if current.reference() == job.reference() => {
            Standing::Superseded("its content is not that of the card's current job".to_owned())
        }
        Some(current) => Standing::Superseded(format!("the card's current job is {}", current.reference())),
        None => Standing::Superseded(format!("the card is in {} and has no current job", card.phase)),
    }
}

/// SIGTERM and SIGINT ask the run to end; they are waited for by a thread of their own.
fn listen_to_signals(wish: Stop) -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().context("signals")?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        while signals.wait().is_ok() {
            wish.stop();
        }
    })?;
    Ok(())
}

/// A thread that ends the run when `cancel/<job id>` appears. It looks once after its watch is set.
///
/// The watch is set when the run is not over within [`CANCEL_WATCH_AFTER`]: a process that has one takes some ten
/// milliseconds to end, which is more than all else that the board adds to a short run.
fn watch_cancel(queue: Queue, job: Uuid, wish: Stop) -> anyhow::Result<()> {
    thread::Builder::new().name("cancel".into()).spawn(move || {
        thread::sleep(CANCEL_WATCH_AFTER);
        let mut wake = match Wake::new(&[WatchSpec::all(queue.cancel_dir())]) {
            Ok(wake) => Some(wake),
            Err(error) => {
                tracing::warn!("a cancel is looked for now and then: {error}");
                None
            }
        };
        loop {
            match queue.cancel_asked(job) {
                Ok(true) => return wish.cancel(),
                Ok(false) => {}
                Err(error) => tracing::warn!("{error}"),
            }
            match wake.as_mut() {
                Some(wake) => {
                    wake.wait(None);
                }
                None => thread::sleep(CANCEL_LOOK_EVERY),
            }
        }
    })?;
    Ok(())
}

/// The slot's own directory, empty, and the sandbox's lock file.
fn make_ready(directory: &Path, lock: &Path) -> anyhow::Result<()> {
    clear(directory)?;
    create_dirs_private(directory)?;
    let logs: PathBuf = directory.ancestors().nth(2).map(|state| state.join("logs")).unwrap_or_default();
    create_dirs_private(&logs)?;
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(lock)
        .map(drop)
        .with_context(|| lock.display().to_string())
}

fn clear(directory: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| directory.display().to_string())
        }
        _ => Ok(()),
    }
}
