//! The main loop, as an operator sees it, with the real programs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod builder;
mod checkout;
mod clicks;
mod crash;
mod drafts;
mod drops;
mod ends;
mod fanout;
mod homes;
mod injected;
mod prompts;
mod replies;
mod secrets;
mod state;
mod texts;
mod whole;
