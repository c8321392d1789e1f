//! The chores of the project, as a program of the workspace: `cargo xtask test`, `bench`, `dist`.
//!
//! A program and not a shell script, because the chores count, compare and report, and because whoever can
//! build the project can then run them. A command stands here only once it does something.

mod bench;
mod dist;
mod install;
mod report;
mod run;
mod skips;
mod suites;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs the test suites and ends with a table and one closing line
    Test(test::Options),
    /// Runs a benchmark by its name
    Bench(bench::Options),
    /// Makes the Debian package
    Dist(dist::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Test(options) => test::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Dist(options) => dist::run(&options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the checkout, from where the crate was built: the program is only ever run through cargo.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where cargo puts what it builds, as `cargo` itself decides it.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}
