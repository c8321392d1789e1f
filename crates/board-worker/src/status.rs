//! What systemd is told of a worker: one line for `systemctl status`, and that it is alive.
//!
//! A oneshot has no watchdog; its start timeout is one, which is extended while the worker's own loop turns. A step
//! that turns no loop, because git has the word (a checkout, a commit), is extended by a ticker, for a limited time: a
//! worker that is stopped as a whole is then still found within a minute, one that hangs in git after the limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use board_core::model::job::Job;
use sd_notify::NotifyState;

use crate::words::{Language, pick};

/// How long systemd is to wait for the next sign of a loop that turns once a second.
const NEXT_TURN: Duration = Duration::from_secs(60);
/// The same of a loop that waits, at most a minute at a time.
const NEXT_LOOK: Duration = Duration::from_secs(180);
/// Pause of the ticker; a third of [`NEXT_TURN`].
const TICK: Duration = Duration::from_secs(20);
/// How long a step without a loop may take.
const LONGEST_STEP: Duration = Duration::from_secs(30 * 60);

/// Tells systemd; clones speak for the same worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Until when the ticker extends the time; none while a loop turns.
    step_ends: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Status {
    /// Starts to speak for this process, if somebody listens.
    pub(crate) fn new() -> Status {
        let status = Status::default();
        if std::env::var_os("NOTIFY_SOCKET").is_some() {
            let ticker = status.clone();
            let started = thread::Builder::new().name("ticker".into()).spawn(move || ticker.tick());
            if let Err(error) = started {
                tracing::warn!("no ticker: {error}; a long step may be taken for a hang");
            }
        }
        status
    }

    /// A loop turned, which it does once a second.
    pub(crate) fn turned(&self, line: &str) {
        self.say(line, NEXT_TURN, None);
    }

    /// A loop waits, at most a minute until it looks again.
    pub(crate) fn waits(&self, line: &str) {
        self.say(line, NEXT_LOOK, None);
    }

    /// A step begins that turns no loop.
    pub(crate) fn begins(&self, line: &str) {
        self.say(line, NEXT_TURN, Some(Instant::now() + LONGEST_STEP));
    }

    /// The last line, which stays when the worker has ended.
    pub(crate) fn ends(&self, line: &str) {
        notify(&[NotifyState::Status(line)]);
    }

    fn say(&self, line: &str, next: Duration, step_ends: Option<Instant>) {
        *self.lock() = step_ends;
        self.0.changed.notify_all();
        notify(&[NotifyState::Status(line), extend(next)]);
    }

    fn tick(&self) {
        let mut step_ends = self.lock();
        loop {
            step_ends = match *step_ends {
                Some(ends) if Instant::now() < ends => {
                    notify(&[extend(NEXT_TURN)]);
                    self.0.changed.wait_timeout(step_ends, TICK).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) | None => self.0.changed.wait(step_ends).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.step_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a job: its card, its role, and what is done.
pub(crate) fn of_job(job: &Job, doing: &str) -> String {
    format!("{} ({}): {doing}", job.card_id, job.kind.id())
}

/// How far a run is, with what its agent does where it says so.
pub(crate) fn iteration(language: Language, number: u32, limit: u32, activity: &str) -> String {
    let mut line =
        pick(language, format!("Iteration {number} von {limit}"), format!("iteration {number} of {limit}"));
    if !activity.is_empty() {
        line.push_str(", ");
        line.push_str(activity);
    }
    line
}

fn extend(by: Duration) -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(by.as_micros()).unwrap_or(u32::MAX))
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("sd_notify: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_extended_until_a_loop_turns_again() {
        let status = Status::default();
        status.begins("x");
        assert!(status.lock().is_some_and(|ends| ends > Instant::now()));
        status.turned("y");
        assert!(status.lock().is_none());
    }

    #[test]
    fn the_ticker_is_faster_than_what_it_extends() {
        assert!(TICK * 2 < NEXT_TURN && NEXT_TURN < NEXT_LOOK);
        // As microseconds in 32 bits, which is what the protocol's crate takes.
        assert!(u32::try_from(NEXT_LOOK.as_micros()).is_ok());
    }

    #[test]
    fn a_line_says_the_iteration_and_what_the_agent_does() {
        assert_eq!(iteration(Language::De, 3, 20, ""), "Iteration 3 von 20");
        assert_eq!(iteration(Language::En, 3, 20, "reads a.rs"), "iteration 3 of 20, reads a.rs");
    }
}
