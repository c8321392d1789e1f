//! The benchmarks, by name. Apart from the tests because a number is compared by a person, not asserted.

use std::process::ExitCode;

use anyhow::bail;

/// What `cargo xtask bench` is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which benchmark; without one, all of them
    name: Option<String>,
}

/// A benchmark: its name on the command line and what it does.
struct Bench {
    name: &'static str,
    run: fn() -> anyhow::Result<()>,
}

/// Every benchmark there is, in the order in which they run.
const BENCHES: &[Bench] = &[];

/// Runs the named benchmark, or all.
///
/// # Errors
/// An unknown name, a benchmark that could not measure, and an empty list: a run that measured nothing is no
/// success.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = |bench: &&Bench| options.name.as_ref().is_none_or(|name| name == bench.name);
    let chosen: Vec<&Bench> = BENCHES.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        match names.as_slice() {
            [] => bail!("no benchmark has been written yet, so nothing was measured"),
            _ => bail!("no such benchmark; there are: {}", names.join(", ")),
        }
    }
    for bench in chosen {
        println!("== {}", bench.name);
        (bench.run)()?;
    }
    Ok(ExitCode::SUCCESS)
}
