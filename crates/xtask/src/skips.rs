//! Skips: which ones happened, and which ones `tests/skips.toml` allows in CI.
//!
//! Three things are skips: a suite or step without what it needs, a test marked `#[ignore = "…"]`, and a
//! test that finds while it runs that this machine cannot carry it. The last one says so by appending a line
//! `id: reason` to the file that the environment names in [`FILE_VARIABLE`]; a test runner would call it
//! passed, since it returned.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

/// The variable that names the file for skips found while a test runs.
pub(crate) const FILE_VARIABLE: &str = "BOARD_TEST_SKIPS";

/// Something that was not tested, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// A suite, `suite/step`, the path of an ignored test, or what the test calls itself.
    pub(crate) id: String,
    /// One sentence, with what would enable it.
    pub(crate) reason: String,
}

/// The skips that CI accepts, from `tests/skips.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    #[serde(default, rename = "skip")]
    skips: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    reason: String,
}

impl Allowed {
    /// Reads the list.
    ///
    /// # Errors
    /// A file that is not there or not of this form, and an entry that gives no reason: a skip that nobody
    /// can explain is a hole.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let allowed: Allowed = toml::from_str(text)?;
        if let Some(entry) = allowed.skips.iter().find(|entry| entry.reason.trim().is_empty()) {
            bail!("the skip {} gives no reason", entry.id);
        }
        Ok(allowed)
    }

    /// Is this skip on the list?
    pub(crate) fn contains(&self, skip: &Skip) -> bool {
        self.skips.iter().any(|entry| entry.id == skip.id)
    }
}

/// Reads what tests appended to the file of [`FILE_VARIABLE`]: one `id: reason` a line, with or without the
/// word SKIPPED before it. A line without a reason is kept and says so, since a lost skip would count as
/// passed. The same id twice is one skip.
pub(crate) fn told(text: &str) -> Vec<Skip> {
    let mut skips: Vec<Skip> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("SKIPPED ").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        // The path of a test has colons of its own, but never one before a blank.
        let (id, reason) = line.split_once(": ").unwrap_or((line, "no reason was given"));
        if !skips.iter().any(|skip| skip.id == id) {
            skips.push(Skip { id: id.to_owned(), reason: reason.to_owned() });
        }
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(id: &str, reason: &str) -> Skip {
        Skip { id: id.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn a_test_tells_its_skip_by_a_line() {
        let text = "SKIPPED oom: no memory control of cgroup v2\n\nloop::two_users: needs root\noom: again\n";
        assert_eq!(
            told(text),
            [skip("oom", "no memory control of cgroup v2"), skip("loop::two_users", "needs root")]
        );
    }

    #[test]
    fn a_skip_without_a_reason_is_not_lost() {
        assert_eq!(told("oom\n"), [skip("oom", "no reason was given")]);
    }

    #[test]
    fn only_what_is_listed_is_allowed() {
        let allowed = Allowed::parse("[[skip]]\nid = \"oom\"\nreason = \"no cgroup v2\"\n").unwrap();
        assert!(allowed.contains(&skip("oom", "whatever")));
        assert!(!allowed.contains(&skip("loop", "whatever")));
    }

    #[test]
    fn an_entry_without_a_reason_or_with_an_unknown_key_is_refused() {
        assert!(Allowed::parse("[[skip]]\nid = \"oom\"\nreason = \" \"\n").is_err());
        assert!(Allowed::parse("[[skip]]\nid = \"oom\"\nreason = \"x\"\nuntil = \"later\"\n").is_err());
    }

    #[test]
    fn the_list_of_this_project_is_readable() {
        Allowed::load(&crate::root().join("tests/skips.toml")).unwrap();
    }
}
