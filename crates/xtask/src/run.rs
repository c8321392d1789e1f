//! Runs one step: starts its program, passes its output on, and reads from it what was passed, failed and
//! skipped.
//!
//! The reading is pure ([`Reader`]) and beside the starting, so recorded output of the runners tests it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Context;

use crate::install::Tool;
use crate::skips::{self, Skip};
use crate::suites::{Step, Work};

/// What a step or a suite came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests and checks that ran and were right.
    pub(crate) passed: usize,
    /// Tests and checks that were not.
    pub(crate) failed: usize,
    /// What did not run, by name.
    pub(crate) skipped: Vec<Skip>,
    /// The names of what failed, as far as the runner told them.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Adds another one to this.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.failures.extend(other.failures);
    }

    /// One failure with a name.
    pub(crate) fn failure(name: impl Into<String>) -> Self {
        Tally { failed: 1, failures: vec![name.into()], ..Tally::default() }
    }
}

/// How the tests are to be run.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// The full numbers.
    pub(crate) long: bool,
    /// What random choices start from.
    pub(crate) seed: u64,
    /// Which Debian is booted.
    pub(crate) suite: &'a str,
}

/// Runs one step of the named suite.
///
/// # Errors
/// A program that cannot be started, and files of the runner that cannot be written or read. What the
/// program itself finds is counted, not an error.
pub(crate) fn step(suite: &str, step: &Step, form: Form<'_>) -> anyhow::Result<Tally> {
    let name = format!("{suite}/{}", step.name);
    let mut arguments: Vec<&str> = Vec::new();
    let program = match step.work {
        Work::NodeTests(_) => "node",
        Work::Check(_) | Work::DocTests(_) | Work::Tests(_) => "cargo",
    };
    match step.work {
        Work::Check(what) => arguments.extend(what),
        Work::DocTests(what) => {
            arguments.extend(["test", "--doc", "--no-fail-fast"]);
            arguments.extend(what);
        }
        Work::NodeTests(file) => arguments.extend(["--test", "--test-reporter=tap", file]),
        Work::Tests(what) if Tool::Nextest.is_there() => {
            arguments.extend(["nextest", "run", "--no-fail-fast", "--status-level", "skip"]);
            arguments.extend(["--profile", if form.long { "long" } else { "default" }]);
            arguments.extend(what);
        }
        Work::Tests(what) => {
            println!(
                "{} is missing, `cargo test` runs the tests ({})",
                Tool::Nextest.program(),
                Tool::Nextest.how()
            );
            arguments.extend(["test", "--all-targets", "--no-fail-fast"]);
            arguments.extend(what);
        }
    }
    println!("== {name}: {program} {}", arguments.join(" "));

    let told = crate::target_dir().join("xtask").join(format!("{}.skips", name.replace('/', "-")));
    empty_file(&told)?;
    let mut command = Command::new(program);
    command
        .args(&arguments)
        .current_dir(crate::root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .env("BOARD_TEST_SEED", form.seed.to_string())
        .env("BOARD_TEST_SUITE", form.suite)
        .env("BOARD_TEST_BIN", crate::target_dir().join("debug"))
        .env(skips::FILE_VARIABLE, &told)
        .env_remove("BOARD_TEST_LONG")
        .env_remove("NEXTEST_PROFILE")
        .stdin(Stdio::null());
    if form.long {
        command.env("BOARD_TEST_LONG", "1");
    }
    let (success, reader) =
        stream(&mut command).with_context(|| format!("{program} {}", arguments.join(" ")))?;
    let told = std::fs::read_to_string(&told).with_context(|| format!("cannot read {}", told.display()))?;
    Ok(match step.work {
        Work::Check(_) if success => Tally { passed: 1, ..Tally::default() },
        Work::Check(_) => Tally::failure(name),
        Work::DocTests(_) => reader.tally(&name, success, Empty::Fine, skips::told(&told)),
        Work::Tests(_) | Work::NodeTests(_) => reader.tally(&name, success, Empty::Wrong, skips::told(&told)),
    })
}

fn empty_file(path: &Path) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Starts the program, passes its two streams on line by line, and reads both.
fn stream(command: &mut Command) -> anyhow::Result<(bool, Reader)> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start it")?;
    let out = child.stdout.take().context("no stdout")?;
    let err = child.stderr.take().context("no stderr")?;
    let other = thread::spawn(move || pass_on(out, std::io::stdout()));
    let mut reader = pass_on(err, std::io::stderr());
    if let Ok(from_stdout) = other.join() {
        reader.merge(from_stdout);
    }
    let status = child.wait().context("cannot wait for it")?;
    Ok((status.success(), reader))
}

/// Copies a stream until its end. A line that cannot be shown (a closed terminal) is still read: the count
/// must be right even when nobody looks on.
fn pass_on(from: impl Read, mut to: impl Write) -> Reader {
    let mut reader = Reader::default();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return reader,
            Ok(_) => {
                let _ = to.write_all(&line).and_then(|()| to.flush());
                reader.line(String::from_utf8_lossy(&line).trim_end());
            }
        }
    }
}

/// Is a run without a single test right?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Fine,
    Wrong,
}

/// What the lines of nextest, libtest or Node's test runner said so far.
#[derive(Debug, Default)]
struct Reader {
    summaries: usize,
    passed: usize,
    failed: usize,
    ignored: BTreeSet<String>,
    ignored_count: usize,
    failures: BTreeSet<String>,
}

impl Reader {
    /// Takes one line of output.
    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            // libtest: `test result: ok. 3 passed; 0 failed; 1 ignored; …`, once per binary.
            self.summaries += 1;
            for (count, word) in counts(rest.split_once(". ").map_or("", |(_, counts)| counts), ';') {
                self.count(count, &word);
            }
        } else if let Some(rest) = line.strip_prefix("test ") {
            // libtest: `test a::b ... ignored, reason`.
            if let Some((name, end)) = rest.rsplit_once(" ... ") {
                if end.starts_with("ignored") {
                    self.ignored.insert(name.to_owned());
                } else if end == "FAILED" {
                    self.failures.insert(name.to_owned());
                }
            }
        } else if let Some(closing) = line.strip_prefix("# ") {
            self.node(closing);
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            if let Some((_, name)) = rest.split_once(" - ") {
                self.failures.insert(name.to_owned());
            }
        } else if let Some((_, name)) = line.strip_prefix("ok ").and_then(|rest| rest.split_once(" - ")) {
            if let Some((name, _)) = name.split_once(" # SKIP") {
                self.ignored.insert(name.to_owned());
            }
        } else if let Some((word, rest)) = line.trim_start().split_once(" [") {
            self.nextest(word.trim(), rest);
        }
    }

    /// Node closes with a line per count: `# tests 3`, `# pass 2`, `# fail 1`, `# cancelled 0`, `# skipped 0`,
    /// `# todo 0`; tests inside tests are among them.
    fn node(&mut self, closing: &str) {
        let Some((word, count)) = closing.split_once(' ') else { return };
        let Ok(count) = count.parse::<usize>() else { return };
        match word {
            "tests" => self.summaries += 1,
            "pass" => self.passed += count,
            "skipped" => self.ignored_count += count,
            // Todo: a test that may fail holds nothing.
            "fail" | "cancelled" | "todo" => self.failed += count,
            _ => {}
        }
    }

    /// nextest: `Summary [   0.1s] 3 tests run: 2 passed (1 slow), 1 failed, 1 skipped` and lines of one test
    /// each, `SKIP [         ] (───) crate path::of_test`.
    fn nextest(&mut self, word: &str, rest: &str) {
        let Some((_, rest)) = rest.split_once("] ") else { return };
        match word {
            "Summary" => {
                if let Some((_, told)) = rest.split_once("run: ") {
                    self.summaries += 1;
                    for (count, word) in counts(&without_parentheses(told), ',') {
                        self.count(count, &word);
                    }
                }
            }
            "SKIP" => {
                if let Some(name) = rest.split_whitespace().last() {
                    self.ignored.insert(name.to_owned());
                }
            }
            "FAIL" | "TIMEOUT" | "XFAIL" | "ABORT" => {
                let name = rest.split_once(") ").map_or(rest, |(_, name)| name);
                self.failures.insert(name.trim().to_owned());
            }
            _ => {}
        }
    }

    /// A word that is not known here counts as failed: a new kind of end must not pass unseen.
    fn count(&mut self, count: usize, word: &str) {
        match word {
            "passed" => self.passed += count,
            "ignored" | "skipped" => self.ignored_count += count,
            "measured" | "filtered out" => {}
            time if time.starts_with("finished") => {}
            _ => self.failed += count,
        }
    }

    fn merge(&mut self, other: Reader) {
        self.summaries += other.summaries;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored_count += other.ignored_count;
        self.ignored.extend(other.ignored);
        self.failures.extend(other.failures);
    }

    /// The result of the step. What the exit code and the counts do not agree on is a failure: a build that
    /// broke has no summary, a runner that fails without a failed test has found something else.
    fn tally(self, name: &str, success: bool, empty: Empty, told: Vec<Skip>) -> Tally {
        let mut tally = Tally {
            passed: self.passed.saturating_sub(told.len()),
            failed: self.failed,
            failures: self.failures.into_iter().map(|test| format!("{name}: {test}")).collect(),
            skipped: told,
        };
        let unnamed = self.ignored_count.saturating_sub(self.ignored.len());
        let reason = "marked #[ignore] in the source, which gives the reason";
        tally.skipped.extend(self.ignored.into_iter().map(|id| Skip { id, reason: reason.to_owned() }));
        tally.skipped.extend((0..unnamed).map(|_| Skip {
            id: format!("{name}: an ignored test without a name"),
            reason: reason.to_owned(),
        }));
        // nextest fails a run without a test, libtest does not.
        let ran_none = self.summaries > 0 && self.passed + self.failed == 0;
        let wrong = match (success, ran_none, empty) {
            (_, true, Empty::Fine) => None,
            (_, true, Empty::Wrong) => Some("no test was run"),
            (true, false, _) if self.summaries == 0 && empty == Empty::Wrong => Some("told no count"),
            (true, false, _) => None,
            (false, false, _) if self.summaries == 0 => Some("did not come to its tests"),
            (false, false, _) if self.failed == 0 => Some("ended with an error"),
            (false, false, _) => None,
        };
        if let Some(why) = wrong {
            tally.add(Tally::failure(format!("{name}: {why}")));
        }
        tally
    }
}

/// `2 passed, 1 timed out` → (2, passed), (1, timed out).
fn counts(text: &str, separator: char) -> Vec<(usize, String)> {
    let count = |part: &str| {
        let (number, word) = part.trim().split_once(' ')?;
        Some((number.parse().ok()?, word.trim().to_owned()))
    };
    text.split(separator).filter_map(count).collect()
}

/// nextest explains its counts in parentheses, with commas of their own.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            other if depth == 0 => kept.push(other),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Reader {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader
    }

    fn skip(id: &str) -> Skip {
        Skip { id: id.to_owned(), reason: "it says why".to_owned() }
    }

    const NEXTEST: &str = "\
    Starting 2 tests across 1 binary (1 test skipped)
        SKIP [         ] (───) board-core model::slug::tests::ignored_one
        PASS [   0.005s] (1/2) board-core model::slug::tests::good
        FAIL [   0.087s] (2/2) board-core model::slug::tests::bad
  stdout ───
    test model::slug::tests::bad ... FAILED
    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.08s
     Summary [   0.089s] 2 tests run: 1 passed (1 slow, 1 flaky), 1 failed, 1 skipped
        FAIL [   0.087s] (2/2) board-core model::slug::tests::bad
error: test run failed";

    #[test]
    fn nextest_is_read_with_the_names_of_what_failed_and_what_was_ignored() {
        let tally = read(NEXTEST).tally("core/tests", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert_eq!(tally.failures, ["core/tests: board-core model::slug::tests::bad"]);
        assert_eq!(tally.skipped.len(), 1);
        assert_eq!(tally.skipped[0].id, "model::slug::tests::ignored_one");
    }

    #[test]
    fn every_other_end_that_nextest_knows_is_a_failure() {
        let text =
            "     Summary [   9.1s] 5/6 tests run: 1 passed, 1 failed, 1 exec failed, 2 timed out, 0 skipped";
        let tally = read(text).tally("loop/tests", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (1, 4));
    }

    #[test]
    fn cargo_test_is_read_and_its_binaries_are_added_up() {
        let text = "\
test model::a ... ok
test model::b ... ignored, needs a moon
test model::c ... FAILED
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.11s
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let tally = read(text).tally("core/tests", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (5, 1));
        assert_eq!(tally.failures, ["core/tests: model::c"]);
        assert_eq!(tally.skipped[0].id, "model::b");
    }

    #[test]
    fn the_test_runner_of_node_is_read() {
        let text = "\
TAP version 13
# Subtest: a card is walked
not ok 1 - a card is walked
  ---
  error: 'still planned'
  ...
ok 2 - a card is seen
ok 3 - a card is printed # SKIP no printer
1..3
# tests 3
# suites 0
# pass 1
# fail 1
# cancelled 0
# skipped 1
# todo 0
# duration_ms 49488.207047";
        let tally = read(text).tally("browser/walk", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert_eq!(tally.failures, ["browser/walk: a card is walked"]);
        assert_eq!(tally.skipped[0].id, "a card is printed");
    }

    #[test]
    fn a_file_that_node_cannot_load_is_a_failure() {
        let text = "not ok 1 - walk.mjs\n# tests 1\n# pass 0\n# fail 1\n# cancelled 0";
        let tally = read(text).tally("browser/walk", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }

    #[test]
    fn a_test_that_told_its_skip_is_not_counted_as_passed() {
        let text = "     Summary [   0.1s] 3 tests run: 3 passed, 0 skipped";
        let tally = read(text).tally("core/tests", true, Empty::Wrong, vec![skip("oom")]);
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (2, 0, 1));
    }

    #[test]
    fn a_build_that_broke_is_one_failure() {
        let tally = read("error: could not compile").tally("core/tests", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (0, 1));
        assert!(tally.failures[0].ends_with("did not come to its tests"));
    }

    #[test]
    fn a_runner_that_fails_without_a_failed_test_is_one_failure() {
        let text = "     Summary [   0.1s] 3 tests run: 3 passed, 0 skipped";
        let tally = read(text).tally("core/tests", false, Empty::Wrong, Vec::new());
        assert_eq!((tally.passed, tally.failed), (3, 1));
    }

    #[test]
    fn no_test_at_all_is_a_failure_but_for_doc_tests() {
        let none =
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(read(none).tally("core/tests", true, Empty::Wrong, Vec::new()).failed, 1);
        assert_eq!(read(none).tally("core/doc-tests", true, Empty::Fine, Vec::new()), Tally::default());
        let broken = read("error: could not compile").tally("core/doc-tests", false, Empty::Fine, Vec::new());
        assert_eq!(broken.failed, 1);
    }

    #[test]
    fn a_run_that_told_no_count_is_a_failure_even_if_it_ended_well() {
        assert_eq!(read("done").tally("core/tests", true, Empty::Wrong, Vec::new()).failed, 1);
    }

    #[test]
    fn an_ignored_test_whose_name_was_not_shown_is_still_a_skip() {
        let text = "     Summary [   0.1s] 3 tests run: 3 passed, 2 skipped";
        assert_eq!(read(text).tally("core/tests", true, Empty::Wrong, Vec::new()).skipped.len(), 2);
    }
}
