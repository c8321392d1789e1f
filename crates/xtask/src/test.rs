//! `cargo xtask test`: which suites are run, what is installed for them, and what the end of it is.
//!
//! CI does what a newcomer does: it calls this. The two differences are told by `CI=true`: missing tools are
//! installed, and a skip that `tests/skips.toml` does not list is a failure.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::builder::PossibleValuesParser;

use crate::install::{self, Tool};
use crate::report::{self, Row};
use crate::run::{self, Form, Tally};
use crate::skips::{Allowed, Skip};
use crate::suites::{SUITES, Suite, Work};

/// What random choices start from in the short form, so that two runs of one commit do the same.
const SHORT_SEED: u64 = 1;

/// What `cargo xtask test` is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which suites; without one, all of them
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name)))]
    suites: Vec<String>,
    /// The full numbers instead of a seeded subset
    #[arg(long)]
    long: bool,
    /// Install missing tools (as CI does); else what needs them is skipped by name
    #[arg(long)]
    install: bool,
    /// What random choices start from; the short form always takes the same, --long draws one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which Debian the tests on systemd boot: systemd 252 or 257
    #[arg(long, value_name = "SUITE", default_value = "bookworm", value_parser = ["bookworm", "trixie"])]
    suite: String,
}

/// Runs the suites, prints the report, and says by the exit code whether all was well.
///
/// # Errors
/// What keeps the run from counting at all: the list of skips, an installation, a program that cannot be
/// started.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let allowed = Allowed::load(&crate::root().join("tests/skips.toml"))?;
    let wanted =
        |suite: &&Suite| options.suites.is_empty() || options.suites.iter().any(|name| name == suite.name);
    let suites: Vec<&Suite> = SUITES.iter().filter(wanted).collect();
    if in_ci || options.install {
        install::install(&suites.iter().flat_map(|suite| tools(suite)).collect())?;
    }
    let form = Form {
        long: options.long,
        seed: options.seed.unwrap_or_else(|| seed(options.long)),
        suite: &options.suite,
    };
    println!("seed {} (repeat with --seed {0})", form.seed);

    let mut rows = Vec::new();
    for suite in suites {
        let begin = Instant::now();
        let tally = run_suite(suite, form)?;
        let budget = (!form.long).then(|| Duration::from_secs(60 * u64::from(suite.minutes)));
        let mut row = Row { suite: suite.name, tally, time: begin.elapsed(), budget };
        if in_ci {
            report::refuse_unlisted(&mut row, &allowed);
        }
        rows.push(row);
    }
    print!("{}", report::render(&rows));
    let failed = rows.iter().any(|row| row.tally.failed > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_suite(suite: &Suite, form: Form<'_>) -> anyhow::Result<Tally> {
    if let Some(reason) = missing(suite.root && !install::is_root(), suite.tools) {
        return Ok(skipped(suite.name, reason));
    }
    let mut tally = Tally::default();
    for step in suite.steps {
        let id = format!("{}/{}", suite.name, step.name);
        if let Some(reason) = missing(false, step.tools) {
            tally.add(skipped(&id, reason));
            continue;
        }
        let done = run::step(suite.name, step, form)?;
        let broken = step.carries_the_rest && done.failed > 0;
        tally.add(done);
        if broken {
            break;
        }
    }
    Ok(tally)
}

fn skipped(id: &str, reason: String) -> Tally {
    println!("== {id}: skipped, {reason}");
    Tally { skipped: vec![Skip { id: id.to_owned(), reason }], ..Tally::default() }
}

/// What is missing, in one sentence with the line that would enable it.
fn missing(root: bool, tools: &[Tool]) -> Option<String> {
    if root {
        return Some("needs root, to start its programs as an unprivileged user: run it as root".to_owned());
    }
    let absent: Vec<&Tool> = tools.iter().filter(|tool| !tool.is_there()).collect();
    if absent.is_empty() {
        return None;
    }
    let names: Vec<&str> = absent.iter().map(|tool| tool.program()).collect();
    let lines: Vec<String> = absent.iter().map(|tool| tool.how()).collect();
    Some(format!("needs {}: {}, or `cargo xtask test --install`", names.join(" and "), lines.join("; ")))
}

/// Everything that a suite would use, nextest among it although `cargo test` could stand in.
fn tools(suite: &Suite) -> BTreeSet<Tool> {
    let mut tools: BTreeSet<Tool> = suite.tools.iter().chain(suite.wishes).copied().collect();
    for step in suite.steps {
        tools.extend(step.tools);
        if matches!(step.work, Work::Tests(_)) {
            tools.insert(Tool::Nextest);
        }
    }
    tools
}

/// The short form must not flicker; the long one is to find what the last run did not.
fn seed(long: bool) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(SHORT_SEED, |age| age.as_secs());
    if long { now } else { SHORT_SEED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_missing_is_no_reason_to_skip() {
        assert_eq!(missing(false, &[]), None);
    }

    #[test]
    fn without_root_the_reason_says_so_first() {
        assert!(missing(true, &[Tool::Bubblewrap]).unwrap().starts_with("needs root"));
    }

    #[test]
    fn a_suite_with_tests_brings_the_runner() {
        let has_tests = |suite: &&Suite| suite.steps.iter().any(|step| matches!(step.work, Work::Tests(_)));
        for suite in SUITES.iter().filter(has_tests) {
            assert!(tools(suite).contains(&Tool::Nextest), "{}", suite.name);
        }
    }

    #[test]
    fn the_short_form_always_starts_from_the_same_seed() {
        assert_eq!(seed(false), SHORT_SEED);
    }
}
