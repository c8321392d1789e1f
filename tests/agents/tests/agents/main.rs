//! The real codex, installed from npm, under the real worker and its sandbox.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod checked;
mod instructions;
mod outage;
mod runs;
mod whole;
