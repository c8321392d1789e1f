//! The benchmarks, by name. Apart from the tests because what they say depends on the machine that runs them:
//! they are run on purpose, and alone.
//!
//! Each is a program of its own, built for release (this one is not), that measures ours and a peer or a limit
//! in one run and prints lines `figure | measured | limit`; here they become one table. A ratio says the same
//! on a slow disk as on a fast one; no figure is a time.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::{root, target_dir};

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
    Bench { name: "scale", package: "loop-tests", example: "scale" },
    Bench { name: "memory", package: "loop-tests", example: "memory" },
    Bench { name: "agents", package: "agents-tests", example: "run_cost" },
    Bench { name: "agents", package: "board-worker", example: "event_rate" },
    Bench { name: "systemd", package: "systemd-tests", example: "lanes" },
];

/// One line of the table.
#[derive(Debug, PartialEq)]
struct Figure {
    name: String,
    measured: f64,
    limit: f64,
}

impl Figure {
    /// Reads `name | measured | limit`; `None` for a line that is no figure.
    fn parse(line: &str) -> Option<Figure> {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [name, measured, limit] = parts.as_slice() else { return None };
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        Some(Figure { name: (*name).to_owned(), measured: number(measured)?, limit: number(limit)? })
    }

    /// Whether it is above its limit; on the limit is within.
    fn is_above(&self) -> bool {
        self.measured > self.limit
    }
}

/// Runs the named benchmark, or all, and prints one table. Fails if a figure is above its limit.
///
/// # Errors
/// An unknown name, a benchmark that could not measure, and one that printed no figure.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = |bench: &&Bench| options.name.as_ref().is_none_or(|name| name == bench.name);
    let chosen: Vec<&Bench> = BENCHES.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let mut names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        names.dedup();
        bail!("no such benchmark; there are: {}", names.join(", "));
    }
    let programs = target_dir().join("release");
    // All before any: nothing is built beside a measurement.
    let daemons = ["--package", "boardctl", "--package", "board-trigger", "--package", "board-worker"];
    cargo(&[&["build", "--release"], &daemons[..]].concat(), &programs)?;
    if chosen.iter().any(|bench| bench.package == "systemd-tests") {
        // As it is installed.
        cargo(&["xtask", "dist"], &programs)?;
    }
    for bench in &chosen {
        cargo(&["build", "--release", "--package", bench.package, "--example", bench.example], &programs)?;
    }
    let mut figures = Vec::new();
    for bench in chosen {
        eprintln!("== {}", bench.name);
        let arguments =
            ["run", "--quiet", "--release", "--package", bench.package, "--example", bench.example];
        let printed = cargo(&arguments, &programs)?;
        let before = figures.len();
        figures.extend(printed.lines().filter_map(Figure::parse));
        ensure!(figures.len() > before, "{} printed no figure", bench.name);
    }
    print!("{}", table(&figures));
    let above = figures.iter().filter(|figure| figure.is_above()).count();
    Ok(if above == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The table and one closing line.
fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:<width$} {:>9} {:>7}\n", "figure", "measured", "limit");
    for figure in figures {
        let Figure { name, measured, limit } = figure;
        let mark = if figure.is_above() { "  above" } else { "" };
        text.push_str(&format!("{name:<width$} {measured:>9.2} {limit:>7}{mark}\n"));
    }
    let above = figures.iter().filter(|figure| figure.is_above()).count();
    text.push_str(&format!("{} figures, {above} above their limit\n", figures.len()));
    text
}

/// Runs cargo at the top of the checkout and gives its output; what it says on stderr is shown.
fn cargo(arguments: &[&str], programs: &Path) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .env("BOARD_TEST_BIN", programs)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "cargo {} failed:\n{text}", arguments.join(" "));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(measured: f64) -> Figure {
        Figure { name: "a : b".to_owned(), measured, limit: 1.5 }
    }

    #[test]
    fn a_figure_is_read_from_its_line_and_other_lines_are_none() {
        assert_eq!(Figure::parse("a : b | 1.50 | 1.5"), Some(figure(1.5)));
        for line in ["", "a : b", "a | 1", "a | 1 | 2 | 3", "a | NaN | 1", "a | many | 1"] {
            assert_eq!(Figure::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_figure_on_its_limit_is_within_and_one_beyond_is_marked() {
        assert!(!figure(1.5).is_above());
        assert!(figure(1.51).is_above());
        let text = table(&[figure(1.5), figure(1.51)]);
        assert_eq!(text.matches("above\n").count(), 1, "{text}");
        assert!(text.ends_with("2 figures, 1 above their limit\n"), "{text}");
    }
}
