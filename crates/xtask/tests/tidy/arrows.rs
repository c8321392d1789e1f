//! Directions: model ← edge ← daemons, and the outside behind one file each.

use crate::source::Source;
use crate::tree::Finding;

const MODEL: &str = "crates/board-core/src/model";

/// Each crate of the workspace and the others of it that it may name. A new crate stands here first.
const BELOW: &[(&str, &[&str])] = &[
    ("board-core", &[]),
    ("board-trigger", &["board-core"]),
    ("board-worker", &["board-core"]),
    ("board-watcher", &["board-core"]),
    ("boardctl", &["board-core", "board-trigger", "board-worker", "board-watcher"]),
    ("xtask", &[]),
];

/// What crates from outside bring, and who alone may depend on them.
const BEHIND: &[(&[&str], &[&str], &str)] = &[
    (
        &["axum", "hyper", "hyper-util", "http-body-util", "tower", "tower-http"],
        &["board-trigger"],
        "only the trigger speaks HTTP",
    ),
    (
        &["minijinja"],
        &["board-trigger", "board-worker"],
        "templates are pages of the trigger or prompts of the worker",
    ),
    (&["notify"], &["board-core"], "watching stands behind edge/wake.rs of board-core"),
    (&["fs2"], &["board-core"], "file locks stand behind edge/lock.rs of board-core"),
    (&["tokio"], &["board-trigger", "boardctl"], "the rest is synchronous"),
];

/// One file of board-core behind which a crate stands: nobody else there names it.
const WRAPPED: &[(&str, &str)] = &[("notify", "edge/wake"), ("fs2", "edge/lock")];

/// Where a program may be started outside tests, and why there.
const STARTERS: &[(&str, &str)] = &[
    ("crates/board-core/src/edge/git", "git"),
    ("crates/board-core/src/edge/systemd", "systemctl"),
    ("crates/board-worker/src/", "the agent"),
    ("crates/board-watcher/src/notify", "the program of [notify]"),
    ("crates/boardctl/src/", "the daemons of dev and demo, and the checks of doctor"),
    ("crates/board-core/src/edge/files/testing", "tests in processes of their own"),
    ("crates/board-core/examples/", "measurements against a peer"),
    ("crates/xtask/", "the chores"),
];

/// `model` must not name `edge`, in its tests neither.
pub(crate) fn model_knows_no_edge(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(MODEL) {
        return Vec::new();
    }
    let mut lines = source.mentions("edge::");
    lines.extend(source.mentions("::edge"));
    lines.sort_unstable();
    lines.dedup();
    let why = "model must not use edge: hand it the value as an argument";
    lines.into_iter().map(|line| Finding::new(&source.path, line, why)).collect()
}

/// A crate must not name one that lies beside or above it.
pub(crate) fn crates_name_only_what_lies_below(source: &Source) -> Vec<Finding> {
    let Some((own, below)) =
        BELOW.iter().find(|(name, _)| source.path.starts_with(&format!("crates/{name}/")))
    else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (other, _) in BELOW.iter().filter(|(other, _)| other != own && !below.contains(other)) {
        let name = other.replace('-', "_");
        let mut lines = source.mentions(&format!("{name}::"));
        lines.extend(source.uses_crate(&name));
        lines.sort_unstable();
        lines.dedup();
        let why = format!("{own} must not use {other}: what both need belongs into board-core");
        findings.extend(lines.into_iter().map(|line| Finding::new(&source.path, line, why.clone())));
    }
    findings
}

/// notify and fs2 stand behind one file each.
pub(crate) fn one_file_behind_each_wrapped_crate(source: &Source) -> Vec<Finding> {
    let Some(inside) = source.path.strip_prefix("crates/board-core/src/") else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, home) in WRAPPED {
        if inside.starts_with(home) {
            continue;
        }
        let path = format!("{name}::");
        // A module of ours may have the name: `settings::notify::…`. A crate is at the beginning of a path.
        let at_beginning = |line: &str| {
            line.match_indices(&path).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
            })
        };
        let mut lines: Vec<usize> =
            source.lines().filter(|(_, line)| at_beginning(line)).map(|(number, _)| number).collect();
        lines.extend(source.uses_crate(name));
        lines.sort_unstable();
        lines.dedup();
        let why = format!("{name} stands behind {home}.rs alone");
        findings.extend(lines.into_iter().map(|line| Finding::new(&source.path, line, why.clone())));
    }
    findings
}

/// Programs are started in few places; an agent only by the worker.
pub(crate) fn programs_are_started_in_few_places(source: &Source) -> Vec<Finding> {
    if STARTERS.iter().any(|(place, _)| source.path.starts_with(place)) || !source.path.starts_with("crates/")
    {
        return Vec::new();
    }
    let mut lines: Vec<usize> =
        ["process::Command", "unistd::fork", "unistd::execv", "unistd::execve", "posix_spawn"]
            .iter()
            .flat_map(|path| source.mentions_outside_tests(path))
            .collect();
    lines.sort_unstable();
    lines.dedup();
    let places: Vec<String> = STARTERS.iter().map(|(place, what)| format!("{place} ({what})")).collect();
    let why = format!("no program is started here, only in {}", places.join(", "));
    lines.into_iter().map(|line| Finding::new(&source.path, line, why.clone())).collect()
}

/// What a crate's Cargo.toml may depend on.
pub(crate) fn manifests_point_downwards(path: &str, text: &str) -> Vec<Finding> {
    let Some(own) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
        return Vec::new();
    };
    let Some((_, below)) = BELOW.iter().find(|(name, _)| *name == own) else {
        return vec![Finding::new(path, 0, "a new crate: say in the tidy test (BELOW) what it may use")];
    };
    let manifest: toml::Table = match toml::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 0, error.to_string())],
    };
    let mut findings = Vec::new();
    for (name, in_tests) in dependencies(&manifest) {
        if BELOW.iter().any(|(other, _)| *other == name) && !below.contains(&name.as_str()) {
            findings.push(Finding::new(path, 0, format!("{own} must not depend on {name}")));
        }
        for (_, users, why) in BEHIND.iter().filter(|(names, ..)| names.contains(&name.as_str())) {
            if !users.contains(&own) && !in_tests {
                findings.push(Finding::new(path, 0, format!("{own} must not depend on {name}: {why}")));
            }
        }
    }
    findings
}

/// The packages that a manifest names, also under another name or for one target only; and whether only for
/// tests.
fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (section, in_tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        for (key, value) in manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
            let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
            found.push((package.to_owned(), in_tests));
        }
    }
    for target in manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten() {
        found.extend(target.1.as_table().into_iter().flat_map(dependencies));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(path, text)
    }

    #[test]
    fn an_arrow_from_model_to_edge_is_found() {
        let path = "crates/board-core/src/model/card.rs";
        for text in [
            "use crate::edge::files;",
            "use crate::{edge::git, model::slug};",
            "fn a() { super::super::edge::b() }",
        ] {
            assert_eq!(model_knows_no_edge(&source(path, text)).len(), 1, "{text}");
        }
        let fine = source(path, "//! See [`crate::edge`].\nfn a(edge: u8) -> u8 { edge }");
        assert_eq!(model_knows_no_edge(&fine), []);
        assert_eq!(
            model_knows_no_edge(&source("crates/board-core/src/edge/a.rs", "use crate::edge::b;")),
            []
        );
    }

    #[test]
    fn a_daemon_that_names_another_is_found() {
        let found = |path: &str, text: &str| crates_name_only_what_lies_below(&source(path, text)).len();
        assert_eq!(found("crates/board-trigger/src/a.rs", "use board_worker::run;"), 1);
        assert_eq!(found("crates/board-core/src/edge/a.rs", "fn a() { board_watcher::run() }"), 1);
        assert_eq!(found("crates/board-worker/tests/it/main.rs", "use board_watcher as b;"), 1);
        assert_eq!(found("crates/board-trigger/src/a.rs", "use board_core::model::card;"), 0);
        assert_eq!(found("crates/boardctl/src/dev.rs", "use board_trigger::run;"), 0);
    }

    #[test]
    fn a_wrapped_crate_outside_its_file_is_found() {
        let found = |path: &str, text: &str| one_file_behind_each_wrapped_crate(&source(path, text)).len();
        assert_eq!(found("crates/board-core/src/edge/store.rs", "use fs2::FileExt;"), 1);
        assert_eq!(
            found("crates/board-core/src/edge/queue.rs", "fn a() { notify::recommended_watcher(b) }"),
            1
        );
        assert_eq!(found("crates/board-core/src/edge/lock.rs", "use fs2::FileExt;"), 0);
        assert_eq!(found("crates/board-core/src/edge/wake.rs", "use notify::Watcher;"), 0);
        assert_eq!(
            found("crates/board-core/src/edge/systemd.rs", "sd_notify::a(); settings::notify::b();"),
            0
        );
    }

    #[test]
    fn a_program_started_elsewhere_is_found() {
        let found = |path: &str, text: &str| programs_are_started_in_few_places(&source(path, text)).len();
        assert_eq!(found("crates/board-trigger/src/a.rs", "use std::process::{Command, Stdio};"), 1);
        assert_eq!(found("crates/board-watcher/src/a.rs", "fn a() { std::process::Command::new(b); }"), 1);
        assert_eq!(found("crates/board-core/src/edge/git.rs", "use std::process::Command;"), 0);
        assert_eq!(found("crates/board-core/src/edge/git/invoke.rs", "use std::process::Command;"), 0);
        let only_tests = "#[cfg(test)]\nmod tests {\n    use std::process::Command;\n}";
        assert_eq!(found("crates/board-core/src/edge/lock.rs", only_tests), 0);
    }

    #[test]
    fn a_dependency_that_points_upwards_is_found() {
        let found = |path: &str, text: &str| manifests_point_downwards(path, text).len();
        let sideways = "[dependencies]\nboard-worker.workspace = true\n";
        assert_eq!(found("crates/board-trigger/Cargo.toml", sideways), 1);
        assert_eq!(found("crates/boardctl/Cargo.toml", sideways), 0);
        let hidden =
            "[target.'cfg(unix)'.dev-dependencies]\nw = { package = \"board-worker\", path = \"x\" }\n";
        assert_eq!(found("crates/board-trigger/Cargo.toml", hidden), 1);
        assert_eq!(found("crates/board-core/Cargo.toml", "[dependencies]\naxum.workspace = true\n"), 1);
        assert_eq!(found("crates/boardctl/Cargo.toml", "[dependencies]\nfs2 = \"0.4\"\n"), 1);
        assert_eq!(found("crates/boardctl/Cargo.toml", "[dev-dependencies]\nhyper = \"1\"\n"), 0);
        assert_eq!(found("crates/board-new/Cargo.toml", ""), 1);
        assert_eq!(found("crates/board-core/Cargo.toml", "= broken"), 1);
    }
}
