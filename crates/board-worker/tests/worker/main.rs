//! The worker against real processes: a shell script as agent, bubblewrap where it starts.
//!
//! A run takes every child of its process for its own, so these tests run one at a time ([`alone`]).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod conversed;
mod hostile;
mod supervised;

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use board_worker::sandbox::{Mode, probe};

static ALONE: Mutex<()> = Mutex::new(());

/// No other test of this binary runs while this is held.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sandbox, where it starts here; where it does not the skip is told.
fn bubblewrap() -> Option<Mode> {
    let program = Path::new("/usr/bin/bwrap");
    let why = match probe(program) {
        Ok(()) => return Some(Mode::Bubblewrap(program.to_owned())),
        Err(why) => why,
    };
    eprintln!("skipped: bubblewrap does not start here: {why}");
    if let Some(file) = std::env::var_os("BOARD_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        writeln!(file, "worker/bubblewrap: bubblewrap does not start here: {why}").unwrap();
    }
    None
}
