//! `boardctl prompt` prints what a run is given, before the run and after it.

use loop_tests::{Options, World};

/// A running world with these cards.
fn world(cards: &[&str]) -> World {
    let mut world = World::new(Options::default()).unwrap();
    for card in cards {
        world.intent(card).unwrap();
    }
    world.start().unwrap();
    world
}

/// What `boardctl prompt` prints.
fn printed(world: &World, card: &str, role: &str) -> String {
    let output = world.boardctl(&["prompt", card, role]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the one run whose prompt has this text was given on its stdin, by its log, which is written at most a second
/// later.
fn given(world: &World, text: &str) -> String {
    let told = |log: String| {
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let lines = lines.filter(|line| line["s"] == "in");
        lines.filter_map(|line| line["l"].as_str().map(str::to_owned)).collect::<Vec<_>>().join("\n")
    };
    world.wait(&format!("the log of a run that is told of {text}"), || {
        let logs = std::fs::read_dir(world.path("state/logs")).ok()?.flatten();
        let logs = logs.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).map(told);
        logs.into_iter().find(|prompt| prompt.contains(text))
    })
}

#[test]
fn what_is_printed_for_a_builder_and_a_reviewer_is_what_their_runs_are_given() {
    let world = world(&["told-eins"]);
    let before = printed(&world, "told-eins", "builder");
    assert!(before.contains("# Intent: told-eins"), "{before}");
    assert_eq!(world.move_to("told-eins", "in_umsetzung").status, 202);
    world.wait_phase("told-eins", &["bereit_fuer_deployment"]);
    assert_eq!(before, given(&world, "Du bist der Builder"));
    assert_eq!(printed(&world, "told-eins", "reviewer"), given(&world, "===REVIEW-REPORT==="));
}

#[test]
fn while_a_run_waits_or_works_its_own_job_is_what_is_printed() {
    let world = world(&["hang-eins"]);
    assert_eq!(world.move_to("hang-eins", "in_umsetzung").status, 202);
    world.wait("the agent", || (!world.processes("agent.sh").is_empty()).then_some(()));
    // Another text in the file does not change what runs.
    world.write("docs/intent/hang-eins.md", "# Intent: etwas anderes\n").unwrap();
    assert_eq!(printed(&world, "hang-eins", "builder"), given(&world, "Du bist der Builder"));
}

#[test]
fn a_draft_shows_its_last_round_and_a_question_its_own_job() {
    let world = world(&[]);
    let topic = serde_json::json!({ "topic": "frage wie-viele" });
    let draft = world.api("POST", "/drafts", Some(&topic)).json()["id"].as_str().unwrap().to_owned();
    world.wait_phase(&draft, &["entwurf_frage"]);
    assert_eq!(printed(&world, &draft, "planner"), given(&world, "===DRAFT-QUESTION==="));
    let question = serde_json::json!({ "kind": "recherche", "title": "Wie viele?", "slug": "wie-viele" });
    assert_eq!(world.api("POST", "/cards", Some(&question)).status, 201);
    let told = printed(&world, "wie-viele", "researcher");
    assert!(told.contains("===RESEARCH-REPORT===") && told.contains("# Wie viele?"), "{told}");
}

#[test]
fn a_role_that_has_nothing_to_do_on_a_card_says_why() {
    let world = world(&["ok-eins"]);
    for (card, role, why) in [
        ("ok-eins", "reviewer", "Prüfcommit"),
        ("ok-eins", "researcher", "kennt diese Arbeit nicht"),
        ("nicht-da", "builder", "gibt es nicht"),
    ] {
        let output = world.boardctl(&["prompt", card, role]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && output.stdout.is_empty() && said.contains(why), "{said}");
    }
    let split = printed(&world, "ok-eins", "planner");
    assert!(split.contains("===SPLIT") && split.contains("# Intent: ok-eins"), "{split}");
}
