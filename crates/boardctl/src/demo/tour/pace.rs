//! Who turns the pages of a tour: whoever sits at the terminal, or nobody.
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use board_core::edge::wake::Wake;

use crate::dev::Interrupt;

/// How a tour goes on.
pub(crate) struct Pace {
    alone: bool,
    interrupt: Interrupt,
    /// Lines that were entered and not used yet; none where nobody is asked.
    lines: Option<Arc<AtomicUsize>>,
}

impl Pace {
    /// Asks for Enter on a terminal, unless the tour is given `alone`. A line and an interrupt wake `wake`.
    pub(crate) fn new(alone: bool, interrupt: &Interrupt, wake: &Wake) -> Pace {
        let (waker, asked_to_end) = (wake.waker(), interrupt.clone());
        std::thread::spawn(move || {
            asked_to_end.wait(1);
            waker.wake();
        });
        let asks = !alone && io::stdin().is_terminal();
        let lines = asks.then(|| {
            let (lines, waker) = (Arc::new(AtomicUsize::new(0)), wake.waker());
            let counted = Arc::clone(&lines);
            // Ends with the terminal, or with the program.
            std::thread::spawn(move || {
                for _ in io::stdin().lock().lines().map_while(Result::ok) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    waker.wake();
                }
            });
            lines
        });
        Pace { alone, interrupt: interrupt.clone(), lines }
    }

    /// Whether nobody watches.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether somebody turns the pages.
    pub(crate) fn asks(&self) -> bool {
        self.lines.is_some()
    }

    /// Uses up one line, if there is one.
    pub(crate) fn entered(&self) -> bool {
        let take = |count: usize| count.checked_sub(1);
        self.lines
            .as_ref()
            .is_none_or(|lines| lines.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok())
    }

    /// Whether the program was asked to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.wait_at_most(Duration::ZERO)
    }
}
