//! The benchmarks, by name. Apart from the tests because a number is compared by a person, not asserted.
//!
//! Each is a program of its own, built for release, that measures ours and a peer or a limit in one run and
//! prints lines `figure | measured | limit`; here they are collected into one table.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};

/// What `cargo xtask bench` is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which benchmark; without one, all of them
    name: Option<String>,
}

/// A benchmark: its name on the command line, and the example that measures it.
struct Bench {
    name: &'static str,
    package: &'static str,
    example: &'static str,
}

/// Every benchmark there is, in the order in which they run.
const BENCHES: &[Bench] = &[
    Bench { name: "transition", package: "board-core", example: "transition_cost" },
    Bench { name: "audit", package: "board-core", example: "commit_cost" },
    Bench { name: "programs", package: "loop-tests", example: "figures" },
];

/// Runs the named benchmark, or all, and prints one table.
///
/// # Errors
/// An unknown name, a benchmark that could not measure, and one that printed no figure.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = |bench: &&Bench| options.name.as_ref().is_none_or(|name| name == bench.name);
    let chosen: Vec<&Bench> = BENCHES.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!("no such benchmark; there are: {}", names.join(", "));
    }
    cargo(&["build", "--release", "--package", "boardctl"])?;
    let mut rows = Vec::new();
    for bench in chosen {
        eprintln!("== {}", bench.name);
        let printed = cargo(&["run", "--release", "--package", bench.package, "--example", bench.example])?;
        let before = rows.len();
        rows.extend(printed.lines().filter(|line| line.split(" | ").count() == 3).map(ToOwned::to_owned));
        ensure!(rows.len() > before, "{} printed no figure", bench.name);
    }
    println!("{:<64} {:>12} {:>12}", "figure", "measured", "limit");
    for row in rows {
        let mut parts = row.split(" | ");
        let mut next = || parts.next().unwrap_or_default();
        println!("{:<64} {:>12} {:>12}", next(), next(), next());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs cargo and gives its output; what it says on stderr is shown.
fn cargo(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .env("BOARD_TEST_BIN", "target/release")
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "cargo {} failed:\n{text}", arguments.join(" "));
    Ok(text)
}
