//! `boardctl` as a program: what it prints where, and how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of tests is no test to clippy"
)]
mod care;
mod command_line;
mod demo;
mod dev;
mod files;
mod login;
mod units;

/// Tells a run of the suites that a test did not run, and why.
fn skipped(id: &str, why: &str) {
    eprintln!("skipped {id}: {why}");
    if let Some(file) = std::env::var_os("BOARD_TEST_SKIPS") {
        let mut told = std::fs::File::options().append(true).create(true).open(file).unwrap();
        std::io::Write::write_all(&mut told, format!("{id}: {why}\n").as_bytes()).unwrap();
    }
}
