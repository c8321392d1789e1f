//! How a build can end without a check commit, and what the operator can do then.

use loop_tests::{Options, World};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

fn error(card: &Value) -> String {
    card["error"]["result"].as_str().unwrap_or_default().to_owned()
}

fn started(slug: &str) -> World {
    let mut world = World::new(Options::default()).unwrap();
    world.intent(slug).unwrap();
    world.start().unwrap();
    let answer = world.move_to(slug, "in_umsetzung");
    assert_eq!(answer.status, 202, "{}", answer.body);
    world
}

#[test]
fn a_failed_build_keeps_its_work_under_a_ref_and_can_be_discarded() {
    let world = started("fail-eins");
    let card = world.wait_phase("fail-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(error(&card), "failed");
    let saved = card["job"].as_object().map(|job| (job["id"].clone(), job["attempt"].clone())).unwrap();
    let name = format!("refs/board/saved/{}.{}", saved.0.as_str().unwrap(), saved.1);
    let diff = world.git(&["diff", "main", &name, "--", "src/text.txt"]).unwrap();
    assert!(diff.contains("+halb"), "{diff}");
    assert!(world.path("state/worktrees/fail-eins-1").exists());

    assert_eq!(world.call("fail-eins", "discard").status, 200);
    assert_eq!(world.phase("fail-eins"), "geplant");
    world.wait("the worktree to go", || (!world.path("state/worktrees/fail-eins-1").exists()).then_some(()));
    world.wait("git to forget it", || {
        (world.git(&["worktree", "list"]).unwrap().lines().count() == 1).then_some(())
    });
    world.git(&["rev-parse", &name]).unwrap();
}

#[test]
fn a_failed_build_can_be_started_afresh_in_a_new_worktree() {
    let world = started("fail-zwei");
    world.wait_phase("fail-zwei", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(world.call("fail-zwei", "retry").status, 202);
    let card = world.wait("the second failure", || {
        let card = world.card("fail-zwei");
        (card["branch"] == "board/fail-zwei/2" && card["phase"] == "umsetzung_fehlgeschlagen").then_some(card)
    });
    assert_eq!(error(&card), "failed");
}

#[test]
fn a_build_without_a_change_says_so() {
    let world = started("nothing-eins");
    let card = world.wait_phase("nothing-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(error(&card), "no_change");
}

#[test]
fn a_build_that_never_stops_is_ended_on_the_event_after_the_last_allowed_iteration() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("loop-eins").unwrap();
    world.start().unwrap();
    let choice = json!({ "profile": "counted", "iterations": 7, "reason": "zum Zählen" });
    let answer = world.api("PATCH", "/cards/loop-eins/profile", Some(&choice));
    assert_eq!(answer.status, 200, "{}", answer.body);
    world.move_to("loop-eins", "in_umsetzung");
    let card = world.wait_phase("loop-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(error(&card), "limit");
    assert_eq!(card["iterations"]["limit"], 7);
    assert_eq!(card["iterations"]["used"], 7);
    assert!(card["error"]["sentence"].as_str().unwrap().contains('7'), "{card}");
}

#[test]
fn events_like_those_of_codex_are_counted_and_their_message_is_read() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-codex").unwrap();
    world.start().unwrap();
    world.api("PATCH", "/cards/ok-codex/profile", Some(&json!({ "profile": "counted" })));
    world.move_to("ok-codex", "in_umsetzung");
    let card = world.wait_phase("ok-codex", &["bereit_fuer_deployment"]);
    assert_eq!(card["profile"]["profile"].as_str().or(card["profile"].as_str()), Some("counted"));
}

#[test]
fn a_cancelled_build_ends_with_its_processes_and_says_cancelled() {
    let world = started("hang-eins");
    world.wait("the agent", || (!world.processes("agent.sh").is_empty()).then_some(()));
    let answer = world.call("hang-eins", "cancel");
    assert!(answer.status == 200 || answer.status == 202, "{}", answer.body);
    let card = world.wait_phase("hang-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(error(&card), "cancelled");
    world.wait("no agent", || world.processes("agent.sh").is_empty().then_some(()));
}

#[test]
fn an_interrupted_build_waits_and_goes_on_in_its_worktree_when_resumed() {
    let world = started("hang-zwei");
    world.wait("the agent's work", || {
        let text = std::fs::read_to_string(world.path("state/worktrees/hang-zwei-1/src/text.txt")).ok()?;
        text.contains("angefangen").then_some(())
    });
    for worker in world.processes("--lane build") {
        loop_tests::processes::signal(worker.pid, Signal::SIGTERM);
    }
    let card = world.wait_phase("hang-zwei", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(error(&card), "interrupted");
    let answer = world.call("hang-zwei", "resume");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let card = world.wait_phase("hang-zwei", &["bereit_fuer_deployment"]);
    assert_eq!(card["branch"], "board/hang-zwei/1");
    let text = world.git(&["show", "board/hang-zwei/1:src/text.txt"]).unwrap();
    assert_eq!(text.matches("angefangen").count(), 2, "{text}");
}

#[test]
fn a_review_without_a_verdict_fails_with_the_text_kept_and_can_be_tried_again() {
    let world = started("mute-eins");
    let card = world.wait_phase("mute-eins", &["review_fehlgeschlagen"]);
    assert_eq!(error(&card), "invalid_reply");
    let reply = card["error"]["reply"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(world.path("state/logs").join(reply)).unwrap();
    assert!(text.contains("Dazu sage ich nichts."), "{text}");
    assert_eq!(world.call("mute-eins", "retry").status, 202);
    world.wait_phase("mute-eins", &["review_fehlgeschlagen"]);
}

#[test]
fn a_run_whose_job_file_is_taken_away_is_not_run_a_second_time_beside_it() {
    let mut world = World::new(Options { agent_seconds: "3".into(), ..Options::default() }).unwrap();
    world.intent("slow-eins").unwrap();
    world.start().unwrap();
    assert_eq!(world.move_to("slow-eins", "in_umsetzung").status, 202);
    let running = world.wait("a run", || {
        ["build-1", "build-2"]
            .iter()
            .flat_map(|slot| std::fs::read_dir(world.path("state/queue/running").join(slot)))
            .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
            .find(|path| {
                path.extension().is_some_and(|it| it == "json") && !world.processes("agent.sh").is_empty()
            })
    });
    std::fs::remove_file(&running).unwrap();
    // Something that makes the queue be looked at again.
    assert_eq!(world.api("POST", "/cards", Some(&serde_json::json!({ "title": "Idee" }))).status, 201);
    world.wait("the job in a second slot", || {
        world.log().contains("ein anderer Lauf dieser Karte").then_some(())
    });
    world.wait_phase("slow-eins", &["bereit_fuer_deployment"]);
    let text = world.git(&["show", "board/slow-eins/1:src/text.txt"]).unwrap();
    assert_eq!(text.matches("langsam").count(), 1, "{text}");
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
    assert!(!world.path("state/locks/card-slow-eins.lock").exists());
}
