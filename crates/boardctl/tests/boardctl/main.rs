//! `boardctl` as a program: what it prints where, and how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of tests is no test to clippy"
)]
mod command_line;
mod demo;
mod dev;
mod files;
