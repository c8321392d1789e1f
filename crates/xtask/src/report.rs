//! The end of a test run: a table of the suites, what failed and what was skipped by name, and the closing
//! line that machines read.

use std::fmt::Write;
use std::time::Duration;

use crate::run::Tally;
use crate::skips::Allowed;

/// What one suite came to.
pub(crate) struct Row {
    /// Its name.
    pub(crate) suite: &'static str,
    /// Its counts.
    pub(crate) tally: Tally,
    /// What it took, with its builds.
    pub(crate) time: Duration,
    /// What its short form may take; `None` where there is no such measure (`--long`).
    pub(crate) budget: Option<Duration>,
}

/// In CI, a skip that nobody has agreed to is a failure: takes it over from one column to the other.
pub(crate) fn refuse_unlisted(row: &mut Row, allowed: &Allowed) {
    let (listed, unlisted) = std::mem::take(&mut row.tally.skipped)
        .into_iter()
        .partition::<Vec<_>, _>(|skip| allowed.contains(skip));
    row.tally.skipped = listed;
    for skip in unlisted {
        let sentence = format!("{}: skipped, and not in tests/skips.toml ({})", skip.id, skip.reason);
        row.tally.add(Tally::failure(sentence));
    }
}

/// The whole report; its last line is `N passed, N failed, N skipped`, alone.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut total = Tally::default();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n{:10}{:>9}{:>9}{:>9}{:>9}", "suite", "passed", "failed", "skipped", "minutes");
    for row in rows {
        let late = row.budget.is_some_and(|budget| row.time > budget);
        let _ = writeln!(
            text,
            "{:10}{:>9}{:>9}{:>9}{:>9.1}{}",
            row.suite,
            row.tally.passed,
            row.tally.failed,
            row.tally.skipped.len(),
            row.time.as_secs_f64() / 60.0,
            if late { "  over its budget" } else { "" },
        );
        total.add(row.tally.clone());
    }
    if !total.skipped.is_empty() {
        text.push_str("\nskipped:\n");
        total.skipped.iter().for_each(|skip| {
            let _ = writeln!(text, "  {}: {}", skip.id, skip.reason);
        });
    }
    if !total.failures.is_empty() {
        text.push_str("\nfailed:\n");
        total.failures.iter().for_each(|name| {
            let _ = writeln!(text, "  {name}");
        });
    }
    let _ =
        writeln!(text, "\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skips::Skip;

    fn row(passed: usize, failed: usize, skipped: &[&str]) -> Row {
        let skip = |id: &&str| Skip { id: (*id).to_owned(), reason: "no cgroup v2".to_owned() };
        let tally =
            Tally { passed, failed, skipped: skipped.iter().map(skip).collect(), failures: Vec::new() };
        Row { suite: "core", tally, time: Duration::from_secs(90), budget: Some(Duration::from_secs(60)) }
    }

    #[test]
    fn the_last_line_is_the_sum_alone_on_its_line() {
        let text = render(&[row(3, 1, &["oom"]), row(4, 0, &[])]);
        assert_eq!(text.lines().last(), Some("7 passed, 1 failed, 1 skipped"));
        assert!(text.contains("  oom: no cgroup v2\n"), "{text}");
    }

    #[test]
    fn a_suite_over_its_budget_is_marked() {
        assert!(render(&[row(1, 0, &[])]).contains("1.5  over its budget"));
        let mut in_time = row(1, 0, &[]);
        in_time.time = Duration::from_secs(60);
        assert!(!render(&[in_time]).contains("over its budget"));
    }

    #[test]
    fn a_skip_that_is_not_listed_becomes_a_failure() {
        let mut refused = row(3, 0, &["oom"]);
        refuse_unlisted(&mut refused, &Allowed::default());
        assert_eq!((refused.tally.passed, refused.tally.failed, refused.tally.skipped.len()), (3, 1, 0));
        assert!(refused.tally.failures[0].contains("tests/skips.toml"));
    }
}
