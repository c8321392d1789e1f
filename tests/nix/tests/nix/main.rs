//! The NixOS module, evaluated without nixpkgs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod config;
mod hosts;
mod package;
mod page;
mod reference;
mod standin;
mod units;

use std::path::{Path, PathBuf};
use std::process::Command;

use nix_tests::{Host, eval};

/// The hosts below `tests/nix/hosts`, by name.
fn hosts() -> Vec<(String, Host)> {
    let names = eval::files("hosts").into_iter().map(|file| name_of(&file));
    names.map(|name| (name.clone(), Host::named(&name))).collect()
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// A program of the project, built before by `cargo xtask test nix`.
fn program(name: &str) -> PathBuf {
    let dir = std::env::var_os("BOARD_TEST_BIN").map(PathBuf::from);
    let dir = dir.unwrap_or_else(|| {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().to_owned()
    });
    let program = dir.join(name);
    assert!(program.exists(), "{} is not built; run `cargo xtask test nix`", program.display());
    program
}

/// Runs a command and answers whether it went well, and all that it said.
fn said(command: &mut Command) -> (bool, String) {
    let output = command.env("LC_ALL", "C").output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
