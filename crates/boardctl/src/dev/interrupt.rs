//! SIGINT and SIGTERM, counted: the first one asks for the end, the second one for haste.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};

/// How often this process was asked to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<(Mutex<u32>, Condvar)>);

impl Interrupt {
    /// Counts from now on. Before any other thread is made: they inherit that these signals are not for them.
    ///
    /// # Errors
    /// None that this process could mend.
    pub(crate) fn catch() -> anyhow::Result<Interrupt> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        signals.thread_block().context("signals")?;
        let interrupt = Interrupt::default();
        let counted = interrupt.clone();
        std::thread::spawn(move || {
            while signals.wait().is_ok() {
                counted.count();
            }
        });
        Ok(interrupt)
    }

    /// Leaves the signals as they are: they end this process at once.
    pub(crate) fn none() -> Interrupt {
        Interrupt::default()
    }

    /// Waits until it was asked so often.
    pub(crate) fn wait(&self, times: u32) {
        let mut count = self.lock();
        while *count < times {
            count = self.0.1.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits so long; `true` if it was asked.
    pub(crate) fn wait_at_most(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut count = self.lock();
        while *count == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = self.0.1.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn count(&self) {
        *self.lock() += 1;
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_asks_for_the_end_and_the_second_for_haste() {
        let interrupt = Interrupt::none();
        assert!(!interrupt.wait_at_most(Duration::ZERO));
        interrupt.count();
        assert!(interrupt.wait_at_most(Duration::ZERO));
        interrupt.wait(1);
        let waits = interrupt.clone();
        let thread = std::thread::spawn(move || waits.wait(2));
        interrupt.count();
        thread.join().unwrap();
    }
}
