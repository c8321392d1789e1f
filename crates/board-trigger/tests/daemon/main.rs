//! The trigger as a whole: a daemon on a temporary state directory and a real repository, spoken to through
//! raw sockets, so that nothing of a client hides what is sent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod changes;
mod checks;
mod drafts;
mod edited;
mod family;
mod house;
mod merged;
mod old;
mod reach;
mod reading;
mod texts;
mod threats;
mod walk;
