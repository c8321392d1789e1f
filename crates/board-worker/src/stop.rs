//! How a run is asked to end from outside: by the operator's cancel, or by a stop of the service.
//!
//! Apart from the supervisor because two threads raise it (signals, the watch on `cancel/`) and two loops
//! listen to it (the supervisor by a descriptor, waiting for a job by a flag).

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use board_core::edge::wake::Waker;

use crate::limits::OwnReason;

const NOTHING: u8 = 0;
const CANCELLED: u8 = 1;
const STOPPED: u8 = 2;

/// Raises the wish; may be cloned into threads.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<AtomicU8>,
    bell: Arc<PipeWriter>,
    wakers: Arc<Mutex<Vec<Waker>>>,
}

/// Listens to it.
#[derive(Debug)]
pub struct StopWatch {
    asked: Arc<AtomicU8>,
    bell: PipeReader,
}

/// A pair of both.
///
/// # Errors
/// No pipe could be made.
pub fn stop() -> io::Result<(Stop, StopWatch)> {
    let (reader, writer) = io::pipe()?;
    let asked = Arc::new(AtomicU8::new(NOTHING));
    let wakers = Arc::default();
    Ok((
        Stop { asked: Arc::clone(&asked), bell: Arc::new(writer), wakers },
        StopWatch { asked, bell: reader },
    ))
}

impl Stop {
    /// The operator wants this run to end.
    pub fn cancel(&self) {
        self.raise(CANCELLED);
    }

    /// The service is to end.
    pub fn stop(&self) {
        self.raise(STOPPED);
    }

    /// Wakes this as well, at once if something was asked for before.
    pub fn also_wake(&self, waker: Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.asked.load(Ordering::SeqCst) != NOTHING {
            waker.wake();
        }
        wakers.push(waker);
    }

    /// The first wish counts and the bell rings once, so the pipe can never be full.
    fn raise(&self, what: u8) {
        if self.asked.compare_exchange(NOTHING, what, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let _ = (&*self.bell).write_all(b"!");
            for waker in self.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                waker.wake();
            }
        }
    }
}

impl StopWatch {
    /// What was asked for, if anything was.
    pub fn asked(&self) -> Option<OwnReason> {
        match self.asked.load(Ordering::SeqCst) {
            CANCELLED => Some(OwnReason::Cancelled),
            STOPPED => Some(OwnReason::Stopped),
            _ => None,
        }
    }

    /// Readable, and stays so, once something was asked for.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wish_counts() {
        let (stop, watch) = stop().unwrap();
        assert_eq!(watch.asked(), None);
        stop.cancel();
        stop.clone().stop();
        assert_eq!(watch.asked(), Some(OwnReason::Cancelled));
    }
}
