//! `boardctl` as a program: what it prints where, and how it ends.
#![allow(clippy::unwrap_used, reason = "a helper of tests is no test to clippy")]
mod command_line;
mod files;
