//! `docs/options.md` and what it is made of.

use std::collections::BTreeSet;

use nix_tests::{reference, root};

#[test]
fn the_page_of_options_is_current() {
    let there = std::fs::read_to_string(root().join(reference::PAGE)).unwrap_or_default();
    assert!(
        there == reference::page().unwrap(),
        "{} is old: cargo run -p nix-tests --example options > {0}",
        reference::PAGE
    );
}

#[test]
fn every_option_is_described_with_a_type_and_an_example() {
    let options = reference::options().unwrap();
    assert!(options.len() > 60, "{}", options.len());
    let required: BTreeSet<&str> = options
        .iter()
        .filter(|option| option["default"].is_null())
        .map(|option| option["name"].as_str().unwrap().trim_start_matches("services.board-agent."))
        .collect();
    assert_eq!(
        required,
        BTreeSet::from(["repository", "settings.profiles.<name>.runtime", "settings.runtimes.<name>.kind"])
    );
    for option in &options {
        let name = &option["name"];
        let description = option["description"].as_str().unwrap().trim();
        assert!(description.ends_with('.') && description.len() > 10, "{name}: {description}");
        assert!(!option["type"].as_str().unwrap().is_empty(), "{name}");
        assert!(option["example"].is_string(), "{name} has no example");
        assert_ne!(option["example"], option["default"], "{name}: the example is the default");
    }
}

#[test]
fn every_typed_setting_is_a_key_that_the_programs_read() {
    let known = board_core::edge::settings::option_reference();
    for option in reference::options().unwrap() {
        let name = option["name"].as_str().unwrap();
        let Some(key) = name.strip_prefix("services.board-agent.settings.") else { continue };
        let key = ["builder", "reviewer", "researcher", "planner"]
            .iter()
            .fold(key.to_owned(), |key, role| key.replace(&format!("roles.{role}."), "roles.<role>."));
        let is_table = ["runtimes", "profiles"].contains(&key.as_str());
        assert!(
            is_table || known.contains(&format!("`{key}`")) || known.contains(&format!("`{key}.")),
            "{key}"
        );
    }
}
