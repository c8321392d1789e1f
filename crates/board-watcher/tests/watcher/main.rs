//! The watcher in a temporary directory, with a real git.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[cfg(feature = "fault-points")]
mod crashes;
mod daemon;
mod drops;
mod external;
mod outcomes;
mod setup;
