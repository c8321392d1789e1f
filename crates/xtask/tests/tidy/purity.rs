//! `model` is a function of its arguments: no files, processes, network, environment, clock, chance or log.

use crate::source::Source;
use crate::tree::Finding;

/// What must not be named in `model`, and what to do instead.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "take the text or bytes as an argument"),
    ("std::process", "let edge start it"),
    ("std::net", "let edge speak to it"),
    ("std::os", "let edge do it"),
    ("std::env", "take the value as an argument"),
    ("std::thread", "let the caller decide what runs beside what"),
    ("nix::", "let edge do it"),
    ("SystemTime", "take the time as an argument (jiff::Timestamp)"),
    ("Instant", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    ("TimeZone::system", "take the time zone as an argument"),
    ("Uuid::now_v7", "take the id as an argument"),
    ("Uuid::new_v4", "take the id as an argument"),
    ("RandomState", "the order must not depend on chance: BTreeMap"),
    ("tracing::", "return what happened, the caller logs it"),
    ("print!", "return it"),
    ("println!", "return it"),
    ("eprint!", "return it"),
    ("eprintln!", "return it"),
];

/// Nothing impure in `model`; its tests may read examples from files.
pub(crate) fn model_is_pure(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("crates/board-core/src/model") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (path, instead) in IMPURE {
        let why = format!("{} in model: {instead}", path.trim_end_matches("::"));
        let lines = source.mentions_outside_tests(path);
        findings.extend(lines.into_iter().map(|line| Finding::new(&source.path, line, why.clone())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        model_is_pure(&Source::parse(path, text)).len()
    }

    #[test]
    fn everything_impure_is_found() {
        let path = "crates/board-core/src/model/card.rs";
        for (name, _) in IMPURE {
            let text = format!("fn a() {{ {name}{} }}", if name.ends_with("::") { "b()" } else { "(b)" });
            assert_eq!(found(path, &text), 1, "{text}");
        }
        assert_eq!(found(path, "use std::{collections::BTreeMap, fs, time::Duration};"), 1);
        assert_eq!(found(path, "use uuid::Uuid;\nfn a() -> Uuid { Uuid::now_v7() }"), 1);
    }

    #[test]
    fn tests_comments_and_other_places_are_not_meant() {
        assert_eq!(found("crates/board-core/src/edge/files.rs", "use std::fs;"), 0);
        let path = "crates/board-core/src/model/card.rs";
        assert_eq!(found(path, "//! No std::fs.\nuse jiff::Timestamp;\nuse std::time::Duration;"), 0);
        assert_eq!(found(path, "#[cfg(test)]\nmod tests {\n    use std::fs;\n}"), 0);
    }
}
