//! What wakes a pass: events, one timer, systemd.
//!
//! A pass that left something undone is repeated after 1 s, doubling to 30 s; everything else sleeps until an
//! event or a moment that the state names (queue.md, "Waking").
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::clock;
use board_core::edge::files::{Kind, list_dir};
use board_core::edge::wake::{Wake, WatchSpec, Woken};
use nix::sys::signal::{SigSet, Signal};
use sd_notify::NotifyState;

use crate::{Stop, Tick, Watcher};

/// First pause before what was left undone is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest pause before that.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// How often is looked whether a run's worker is still there: its death is no event.
const LOOK_AT_RUNS: Duration = Duration::from_secs(30);
/// How soon after a directory could not be watched everything is looked at again.
const DEAF: Duration = Duration::from_secs(5);

/// How long to wait before the next try, by how often in a row something was left undone.
#[derive(Debug, Default)]
struct Backoff(Option<Duration>);

impl Backoff {
    fn after(&mut self, undone: bool) -> Option<Duration> {
        self.0 = undone.then(|| match self.0 {
            None => FIRST_RETRY,
            Some(last) => (last * 2).min(LONGEST_RETRY),
        });
        self.0
    }
}

/// Passes until it is asked to stop.
///
/// # Errors
/// If the directories cannot be watched.
pub(crate) fn run(watcher: &mut Watcher) -> anyhow::Result<()> {
    let stop = watcher.hooks.stop.clone();
    let daemon = watcher.hooks.daemon;
    if daemon {
        on_signals(stop.clone())?;
    }
    // A third of what systemd allows between two signs of life.
    let watchdog = if daemon { sd_notify::watchdog_enabled().map(|limit| limit / 3) } else { None };
    let mut places = places(watcher)?;
    let mut wake = watch(watcher, &places)?;
    let mut backoff = Backoff::default();
    let mut ready = false;
    while !stop.is_asked() {
        let tick = watcher.tick();
        if daemon {
            tell(&watcher.status(&tick), !ready);
            ready = true;
        }
        let found = self::places(watcher)?;
        if found != places {
            // A slot came or went. What happened before it was watched is seen by one more pass.
            places = found;
            wake = watch(watcher, &places)?;
            continue;
        }
        sleep(&mut wake, deadline(&tick, backoff.after(tick.undone)), watchdog, &stop);
    }
    if daemon {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits for an event, the deadline or the stop, with signs of life for systemd in between.
fn sleep(wake: &mut Wake, deadline: Option<Instant>, watchdog: Option<Duration>, stop: &Stop) {
    while !stop.is_asked() {
        let sign = watchdog.map(|pause| Instant::now() + pause);
        match wake.wait([deadline, sign].into_iter().flatten().min()) {
            Woken::Event => return,
            Woken::Lost => {
                // Perhaps deaf for a while: everything is looked at now, and again a little later.
                let again = Instant::now() + DEAF;
                let _ = wake.wait(Some(deadline.map_or(again, |deadline| deadline.min(again))));
                return;
            }
            Woken::Deadline => {
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return;
                }
            }
        }
    }
}

/// When the next pass is due without an event.
fn deadline(tick: &Tick, retry: Option<Duration>) -> Option<Instant> {
    let (now, wall) = (Instant::now(), clock::now());
    let named = tick.next.map(|at| {
        let millis = u64::try_from(at.as_millis() - wall.as_millis()).unwrap_or(0);
        // One more, so that it is not looked at just before.
        now + Duration::from_millis(millis + 1)
    });
    let runs = tick.running.then(|| now + LOOK_AT_RUNS);
    [named, retry.map(|pause| now + pause), runs].into_iter().flatten().min()
}

/// The directories of running jobs, and that of the external builder's results; each is watched.
fn places(watcher: &Watcher) -> anyhow::Result<BTreeSet<PathBuf>> {
    let running = watcher.queue.running_dir();
    let entries = list_dir(&running)?;
    let directories = entries.into_iter().filter(|entry| entry.kind == Kind::Directory);
    let results = watcher.settings.builder.as_ref().map(|builder| builder.results.clone());
    let results = results.filter(|results| results.is_dir());
    Ok(directories.map(|entry| running.join(entry.name)).chain(results).collect())
}

fn watch(watcher: &Watcher, places: &BTreeSet<PathBuf>) -> anyhow::Result<Wake> {
    let queue = &watcher.queue;
    let mut specs = vec![
        WatchSpec::all(queue.outcomes_dir()),
        WatchSpec::ending(queue.drop_dir(), ".json"),
        WatchSpec::all(queue.running_dir()),
        WatchSpec::file(watcher.store.path()),
    ];
    // Job files only: the progress file beside them is replaced once a second.
    specs.extend(places.iter().map(|place| WatchSpec::ending(place, ".json")));
    let wake = Wake::new(&specs)?;
    watcher.hooks.stop.wakes(wake.waker());
    Ok(wake)
}

/// SIGTERM and SIGINT end the watcher after the pass that it is in. They are blocked everywhere and waited for in
/// a thread of their own, so no pass is cut in the middle.
fn on_signals(stop: Stop) -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().context("signals cannot be blocked")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if signals.wait().is_ok() {
                stop.ask();
            }
        })
        .context("the thread for signals cannot be started")?;
    Ok(())
}

fn tell(status: &str, first: bool) {
    let mut states = vec![NotifyState::Status(status), NotifyState::Watchdog];
    if first {
        states.push(NotifyState::Ready);
    }
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!("systemd cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use board_core::model::time::Timestamp;

    use super::*;

    #[test]
    fn what_is_left_undone_is_tried_after_a_second_doubling_to_thirty() {
        let mut backoff = Backoff::default();
        let seconds: Vec<u64> = (0..8).map(|_| backoff.after(true).unwrap().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(backoff.after(false), None);
        assert_eq!(backoff.after(true), Some(FIRST_RETRY));
    }

    #[test]
    fn a_pass_that_left_nothing_sets_no_timer() {
        assert_eq!(deadline(&Tick::default(), None), None);
        let past = Tick { next: Some(Timestamp::MIN), ..Tick::default() };
        assert!(deadline(&past, None).unwrap() <= Instant::now() + Duration::from_secs(1));
    }
}
