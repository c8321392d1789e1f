//! `nix-instantiate`, which evaluates: no store, no network, nothing is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::root;

/// The program; Debian has it in `nix-bin`.
pub const PROGRAM: &str = "nix-instantiate";

/// Whether it is there.
pub fn is_there() -> bool {
    Command::new(PROGRAM).arg("--version").output().is_ok_and(|said| said.status.success())
}

/// A file of the stand-in.
pub fn file(name: &str) -> PathBuf {
    root().join("tests/nix").join(name)
}

/// The files of a directory of the stand-in, by name.
///
/// # Panics
/// If it cannot be read.
pub fn files(dir: &str) -> Vec<PathBuf> {
    let dir = file(dir);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "nix"));
    found.sort();
    found
}

fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    // A store that holds nothing and belongs to nobody, so that no user and no machine differs.
    command.args(["--store", "dummy://"]).env("HOME", "/nonexistent").env_remove("NIX_PATH");
    command
}

/// The value of a file that is an expression, with one of its arguments given as Nix.
///
/// # Errors
/// What Nix says, if it does not evaluate.
pub fn value(file: &Path, argument: Option<(&str, &str)>) -> anyhow::Result<Value> {
    let mut command = command();
    command.args(["--eval", "--strict", "--json"]).arg(file);
    if let Some((name, value)) = argument {
        command.args(["--arg", name, value]);
    }
    run(command)
}

/// The value of an expression.
///
/// # Errors
/// What Nix says, if it does not evaluate.
pub fn expression(text: &str) -> anyhow::Result<Value> {
    let mut command = command();
    command.args(["--eval", "--strict", "--json", "--expr", text]);
    run(command)
}

fn run(mut command: Command) -> anyhow::Result<Value> {
    let said =
        command.output().with_context(|| format!("cannot start {PROGRAM}: apt-get install nix-bin"))?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).context("the answer of nix-instantiate")
}

/// Whether a file parses; else what Nix says.
///
/// # Errors
/// What Nix says.
pub fn parse(file: &Path) -> anyhow::Result<()> {
    let mut command = command();
    let said =
        command.arg("--parse").arg(file).output().with_context(|| format!("cannot start {PROGRAM}"))?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}
