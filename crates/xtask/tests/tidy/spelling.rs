//! Names with one spelling: phase ids in `phase.rs`, queue directories in `queue.rs`, and names that stand
//! nowhere, those of a machine.

use crate::source::{Literal, Source, has_words};
use crate::tree::Finding;

/// Ids that mean nothing but a phase: found as a word anywhere in a literal.
const PHASES: &[&str] = &[
    "entwurf_laeuft",
    "entwurf_frage",
    "entwurf_fehlgeschlagen",
    "in_umsetzung",
    "umsetzung_fehlgeschlagen",
    "review_fehlgeschlagen",
    "bereit_fuer_deployment",
    "planung_mit_feedback",
    "recherche_laeuft",
    "recherche_fertig",
    "recherche_fehlgeschlagen",
    "aufteilung_laeuft",
    "aufteilung_fehlgeschlagen",
];

/// Ids that are words of a sentence too: found only where they are the whole literal.
const PHASES_THAT_ARE_WORDS: &[&str] = &["idee", "geplant", "aufgeteilt", "archiviert"];

/// Ids that are English too, a type of job or an event: no literal tells which, so these are not looked for.
const PHASES_THAT_ARE_ENGLISH: &[&str] = &["review", "deployed"];

/// The directories of the queue.
const QUEUE: &[&str] = &["inbox", "running", "outcomes", "done", "rejected", "drop", "cancel"];

/// Calls that make a path of the literal that follows.
const MAKES_A_PATH: &[&str] = &[".join(", ".push(", "Path::new(", "PathBuf::from(", ".with_file_name("];

/// Outside tests, a phase is named by its variant, not by its id.
pub(crate) fn phase_ids_are_spelled_once(source: &Source) -> Vec<Finding> {
    // Below crates only: what a test package spells is what it expects.
    if !in_crates(source) || is_module(source, "crates/board-core/src/model/phase") {
        return Vec::new();
    }
    let spelled = |literal: &&Literal| {
        PHASES
            .iter()
            .find(|id| has_words(&literal.value, id))
            .or_else(|| PHASES_THAT_ARE_WORDS.iter().find(|id| literal.value == **id))
    };
    outside_tests(source)
        .filter_map(|literal| Some((literal, spelled(&literal)?)))
        .map(|(literal, id)| {
            let why =
                format!("the phase {id} is spelled in model/phase.rs alone: use the variant, or its id");
            Finding::new(&source.path, literal.line, why)
        })
        .collect()
}

/// Pages ask the phase what it is; they do not compare its id.
pub(crate) fn templates_spell_no_phase(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with("crates/") || !path.contains("/templates/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, content) in text.lines().enumerate() {
        if let Some(id) = PHASES.iter().find(|id| has_words(content, id)) {
            let why = format!("the phase {id} in a template: let the view say what the page asks for");
            findings.push(Finding::new(path, line + 1, why));
        }
    }
    findings
}

/// Outside tests, nobody but `edge::queue` joins the name of a queue directory to a path.
pub(crate) fn queue_directories_are_spelled_once(source: &Source) -> Vec<Finding> {
    if !in_crates(source) || is_module(source, "crates/board-core/src/edge/queue") {
        return Vec::new();
    }
    let spelled = |literal: &Literal| {
        let makes_a_path = MAKES_A_PATH.iter().any(|call| literal.before.ends_with(call));
        let first = literal.value.strip_prefix("queue/").unwrap_or(&literal.value).split('/').next();
        QUEUE.iter().find(|name| makes_a_path && first == Some(**name))
    };
    outside_tests(source)
        .filter_map(|literal| Some((literal.line, spelled(literal)?)))
        .map(|(line, name)| {
            let why =
                format!("the queue directory {name} is spelled in edge/queue.rs alone: ask it for the path");
            Finding::new(&source.path, line, why)
        })
        .collect()
}

/// No path of one machine and no host of a registry: neither means anything to who reads the project
/// elsewhere. The lists of exact versions are written by their tools.
pub(crate) fn nothing_names_this_machine(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with("Cargo.lock") || path.ends_with("package-lock.json") {
        return Vec::new();
    }
    // In two parts, or this file would find itself.
    let names = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/wo", "rk/h/"),
        concat!("/wo", "rk/."),
        concat!("/ro", "ot/."),
        concat!("bash", "_jobs"),
        concat!("registry.npm", "js"),
        concat!("pythonhost", "ed"),
        concat!("pypi", ".org"),
        concat!("static.crates", ".io"),
        concat!("index.crates", ".io"),
        concat!("deb.debian", ".org"),
        concat!("security.debian", ".org"),
        concat!("proxy.gol", "ang"),
    ];
    let mut findings = Vec::new();
    for (line, content) in text.lines().enumerate() {
        if let Some(name) = names.iter().find(|name| content.contains(*name)) {
            findings.push(Finding::new(path, line + 1, format!("{name} means nothing outside one machine")));
        }
    }
    findings
}

fn in_crates(source: &Source) -> bool {
    source.path.starts_with("crates/")
}

/// Is the file this module, in one file or in a directory?
fn is_module(source: &Source, module: &str) -> bool {
    source.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn outside_tests(source: &Source) -> impl Iterator<Item = &Literal> {
    source.literals.iter().filter(|literal| !source.is_test(literal.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(path: &str, text: &str) -> usize {
        phase_ids_are_spelled_once(&Source::parse(path, text)).len()
    }

    fn queue(path: &str, text: &str) -> usize {
        queue_directories_are_spelled_once(&Source::parse(path, text)).len()
    }

    #[test]
    fn every_phase_that_can_be_told_is_found() {
        for id in PHASES.iter().chain(PHASES_THAT_ARE_WORDS) {
            assert_eq!(
                phases("crates/board-trigger/src/a.rs", &format!("fn a() {{ b(\"{id}\") }}")),
                1,
                "{id}"
            );
        }
        assert_eq!(PHASES.len() + PHASES_THAT_ARE_WORDS.len() + PHASES_THAT_ARE_ENGLISH.len(), 19);
    }

    #[test]
    fn a_phase_inside_a_longer_literal_is_found_if_it_can_be_nothing_else() {
        let path = "crates/board-core/src/edge/audit.rs";
        assert_eq!(phases(path, "const A: &str = r#\"{\"phase\":\"in_umsetzung\"}\"#;"), 1);
        assert_eq!(phases(path, "const A: &str = \"nichts geplant\";"), 0);
        assert_eq!(phases(path, "const A: &str = \"recherche_fertig_seit\";"), 0);
    }

    #[test]
    fn phases_may_be_spelled_at_home_and_in_tests() {
        let text = "fn a() { b(\"in_umsetzung\") }";
        assert_eq!(phases("crates/board-core/src/model/phase.rs", text), 0);
        assert_eq!(phases("tests/loop/src/lib.rs", text), 0);
        assert_eq!(
            phases("crates/board-core/src/model/card.rs", &format!("#[cfg(test)]\nmod tests {{ {text} }}")),
            0
        );
        assert_eq!(phases("crates/board-core/src/model/phases.rs", text), 1);
    }

    #[test]
    fn a_phase_in_a_template_is_found() {
        let text = "<p>\n{% if phase == \"in_umsetzung\" %}";
        assert_eq!(templates_spell_no_phase("crates/board-trigger/templates/card.html", text).len(), 1);
        assert_eq!(templates_spell_no_phase("docs/phases.md", text), []);
    }

    #[test]
    fn a_queue_directory_joined_to_a_path_is_found() {
        for name in QUEUE {
            let text = format!("fn a(b: &Path) {{ b.join(\"{name}\") }}");
            assert_eq!(queue("crates/board-worker/src/run.rs", &text), 1, "{name}");
        }
        assert_eq!(queue("crates/boardctl/src/a.rs", "fn a() { Path::new(\"queue/inbox/build\") }"), 1);
        assert_eq!(queue("crates/boardctl/src/a.rs", "fn a() { b.join(\n    \"running/read-1\",\n) }"), 1);
    }

    #[test]
    fn a_queue_word_that_is_no_path_is_not_meant() {
        assert_eq!(queue("crates/boardctl/src/a.rs", "fn a() { println!(\"{}\", \"done\") }"), 0);
        assert_eq!(queue("crates/board-trigger/src/a.rs", "fn a() { b.route(\"/card/{id}/cancel\", c) }"), 0);
        assert_eq!(queue("crates/board-worker/src/a.rs", "fn a() { b.join(\"done.txt\") }"), 0);
        assert_eq!(queue("crates/board-core/src/edge/queue.rs", "fn a() { b.join(\"inbox\") }"), 0);
        assert_eq!(queue("crates/board-core/src/edge/reconcile/queue.rs", "fn a() { b.join(\"inbox\") }"), 1);
    }

    #[test]
    fn a_path_of_a_machine_and_a_registry_host_are_found() {
        let path = concat!("see /wo", "rk/main/README.md");
        assert_eq!(nothing_names_this_machine("docs/a.md", &format!("a\n{path}\n")).len(), 1);
        assert_eq!(nothing_names_this_machine("docs/a.md", concat!("from static.crates", ".io")).len(), 1);
        assert_eq!(nothing_names_this_machine("Cargo.lock", concat!("from static.crates", ".io")), []);
        assert_eq!(nothing_names_this_machine("docs/a.md", "the work/main tree, crates.io, /var/lib"), []);
    }
}
