//! Habits that a reader relies on: nothing undone, reasons given, files of a size, tests without sleeps.

use crate::source::{Source, has_words};
use crate::tree::Finding;

/// The hard stop for a file that people read.
const MAX_LINES: usize = 600;

/// Kinds of files to which it applies; data and prose may be as long as they need.
const READ_BY_PEOPLE: &[&str] = &["rs", "html", "css", "js", "mjs", "nix", "sh", "py"];

/// A function that may sleep in a test: it looks again and again until a deadline.
const WAITERS: &[&str] = &["wait", "until", "poll", "eventually"];

/// `todo!`, `unimplemented!` and `dbg!` stand nowhere, and no module with code says that it is to come.
pub(crate) fn nothing_is_left_undone(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        for name in ["todo!", "unimplemented!", "dbg!"] {
            if has_words(line, name) {
                findings.push(Finding::new(&source.path, number, format!("{name} is left over")));
            }
        }
    }
    let first = source.text.lines().next().unwrap_or_default();
    let placeholder = first.starts_with("//! To come") || first.starts_with("//! Placeholder");
    let only_modules = |line: &str| line.trim().is_empty() || has_words(line, "mod");
    if placeholder && !source.code.iter().all(|line| only_modules(line)) {
        findings.push(Finding::new(&source.path, 1, "the module is there, its documentation is not"));
    }
    findings
}

/// `#[ignore]` says why.
pub(crate) fn ignored_tests_give_a_reason(source: &Source) -> Vec<Finding> {
    let why = "an ignored test gives its reason: #[ignore = \"…\"]";
    source
        .lines()
        .filter(|(_, line)| line.contains("#[ignore]") || line.contains("#[ignore = \"\"]"))
        .map(|(number, _)| Finding::new(&source.path, number, why))
        .collect()
}

/// Tests wait with a deadline; only a function made for that sleeps between two looks.
pub(crate) fn tests_wait_with_a_deadline(source: &Source) -> Vec<Finding> {
    let mut function = String::new();
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| has_words(line, "fn")) {
            function = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        }
        let sleeps =
            has_words(line, "thread::sleep(") || has_words(line, "time::sleep(") || has_words(line, "sleep(");
        if source.is_test(number) && sleeps && !WAITERS.iter().any(|name| function.starts_with(name)) {
            let why = "a test waits with a deadline: look again in a function named wait_… that gives up";
            findings.push(Finding::new(&source.path, number, why));
        }
    }
    findings
}

/// The first thing in a file says what it is.
pub(crate) fn a_module_says_what_it_is(source: &Source) -> Vec<Finding> {
    let first = source.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if first.is_some_and(|line| line.trim_start_matches("//!").trim().len() > 1 && line.starts_with("//!")) {
        return Vec::new();
    }
    vec![Finding::new(&source.path, 1, "begins with `//!`: what the module is and why it is apart")]
}

/// Nobody scrolls through a thousand lines to find one.
pub(crate) fn files_can_be_read_in_a_sitting(path: &str, text: &str) -> Vec<Finding> {
    let kind = path.rsplit_once('.').map_or("", |(_, kind)| kind);
    let count = text.lines().count();
    if !READ_BY_PEOPLE.contains(&kind) || count <= MAX_LINES {
        return Vec::new();
    }
    vec![Finding::new(
        path,
        count,
        format!("{count} lines, {MAX_LINES} are the limit: what could stand apart?"),
    )]
}

/// Every crate takes the lints of the workspace.
pub(crate) fn crates_share_the_lints(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let shared = toml::from_str::<toml::Table>(text)
        .ok()
        .and_then(|manifest| manifest.get("lints")?.get("workspace")?.as_bool())
        .unwrap_or(false);
    if shared { Vec::new() } else { vec![Finding::new(path, 0, "lacks `[lints] workspace = true`")] }
}

/// Pages are named `.html`, so that they are escaped, and only `md.html` hands on text that is HTML already
/// (ammonia has cleaned it).
pub(crate) fn templates_are_escaped(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with("crates/board-trigger/") || !path.contains("/templates/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !path.ends_with(".html") {
        findings.push(Finding::new(path, 0, "a template is named .html, or it is not escaped"));
    }
    for (index, line) in text.lines().enumerate() {
        let dense: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
        let raw = has_words(&dense, "|safe")
            || dense.contains("autoescapefalse")
            || dense.contains("autoescape\"none\"");
        if raw && !path.ends_with("/md.html") {
            findings.push(Finding::new(path, index + 1, "unescaped output outside md.html"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(path, text)
    }

    #[test]
    fn what_is_left_undone_is_found() {
        for name in ["todo!", "unimplemented!", "dbg!"] {
            let text = format!("//! A.\nfn a() {{ {name}() }}");
            assert_eq!(nothing_is_left_undone(&source("crates/a/src/a.rs", &text)).len(), 1, "{name}");
        }
        let found = |text: &str| nothing_is_left_undone(&source("crates/a/src/a.rs", text)).len();
        assert_eq!(found("//! To come.\nfn a() {}\n"), 1);
        assert_eq!(found("//! To come.\npub mod a;\n"), 0);
        assert_eq!(found("//! No todo!() here.\nfn a() { my_todo!() }"), 0);
    }

    #[test]
    fn an_ignored_test_without_a_reason_is_found() {
        let found = |text: &str| ignored_tests_give_a_reason(&source("crates/a/src/a.rs", text)).len();
        assert_eq!(found("#[test]\n#[ignore]\nfn a() {}"), 1);
        assert_eq!(found("#[test]\n#[ignore = \"\"]\nfn a() {}"), 1);
    }

    #[test]
    fn a_sleep_in_a_test_is_found_but_for_waiters() {
        let found = |path: &str, text: &str| tests_wait_with_a_deadline(&source(path, text)).len();
        let sleeps = "#[test]\nfn a() {\n    std::thread::sleep(B);\n}";
        assert_eq!(found("tests/loop/tests/main.rs", sleeps), 1);
        assert_eq!(found("crates/a/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{sleeps}\n}}")), 1);
        assert_eq!(found("crates/a/src/a.rs", "fn back_off() { std::thread::sleep(B); }"), 0);
        assert_eq!(found("tests/loop/src/lib.rs", "fn wait_for(c: D) {\n    thread::sleep(B);\n}"), 0);
    }

    #[test]
    fn a_module_without_a_word_on_itself_is_found() {
        let found = |text: &str| a_module_says_what_it_is(&source("crates/a/src/a.rs", text)).len();
        assert_eq!(found("use a::b;\n"), 1);
        assert_eq!(found("//!\nuse a::b;\n"), 1);
        assert_eq!(found(""), 1);
        assert_eq!(found("#![allow(a)]\n\n//! What it is.\n"), 0);
    }

    #[test]
    fn a_file_of_one_line_too_many_is_found() {
        assert_eq!(files_can_be_read_in_a_sitting("a/b.rs", &"x\n".repeat(MAX_LINES)), []);
        assert_eq!(files_can_be_read_in_a_sitting("a/b.rs", &"x\n".repeat(MAX_LINES + 1)).len(), 1);
        assert_eq!(files_can_be_read_in_a_sitting("a/b.md", &"x\n".repeat(MAX_LINES + 1)), []);
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        assert_eq!(crates_share_the_lints("crates/a/Cargo.toml", "[lints]\nworkspace = true\n"), []);
        assert_eq!(
            crates_share_the_lints("crates/a/Cargo.toml", "[lints.rust]\nmissing_docs = \"allow\"\n").len(),
            1
        );
        assert_eq!(crates_share_the_lints("Cargo.toml", ""), []);
    }

    #[test]
    fn an_unescaped_page_is_found() {
        let found = |path: &str, text: &str| templates_are_escaped(path, text).len();
        assert_eq!(found("crates/board-trigger/templates/card.html", "{{ body | safe }}"), 1);
        assert_eq!(found("crates/board-trigger/templates/card.html", "{% autoescape false %}"), 1);
        assert_eq!(found("crates/board-trigger/templates/md.html", "{{ body|safe }}"), 0);
        assert_eq!(found("crates/board-trigger/templates/card.txt", "{{ body }}"), 1);
        assert_eq!(found("crates/board-trigger/templates/card.html", "{{ body|safe_slug }}"), 0);
        assert_eq!(found("crates/board-worker/templates/build.de.md", "{{ body }}"), 0);
    }
}
