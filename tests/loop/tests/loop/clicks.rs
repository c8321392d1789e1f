//! Many clicks at once, and clicks that come again.

use std::thread;

use loop_tests::{Options, World};
use serde_json::json;

#[test]
fn fifty_parallel_moves_make_one_job_one_build_and_one_review() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("slow-eins").unwrap();
    world.start().unwrap();
    let client = world.client();
    let body = json!({ "to": "in_umsetzung" });
    let answers: Vec<_> = thread::scope(|scope| {
        let send = || client.send("POST", "/api/board/cards/slow-eins/move", Some(&body)).unwrap();
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(accepted.len(), 1, "{answers:?}");
    let card = world.card("slow-eins");
    let job = card["job"]["id"].as_str().unwrap();
    let refused = answers.iter().filter(|answer| answer.status == 409 && answer.body.contains(job));
    assert_eq!(refused.count(), 49, "{answers:?}");
    world.wait_phase("slow-eins", &["bereit_fuer_deployment"]);
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
    let logs = std::fs::read_dir(world.path("state/logs")).unwrap().flatten();
    let runs = logs.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.ends_with(".jsonl") && name != "audit.jsonl"
    });
    assert_eq!(runs.count(), 2, "one builder run and one review run");
}

#[test]
fn what_does_not_fit_is_refused_with_what_does() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    let answer = world.move_to("ok-eins", "bereit_fuer_deployment");
    assert_eq!(answer.status, 409, "{}", answer.body);
    assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
    assert!(
        answer.json()["allowed"].as_array().is_some_and(|allowed| !allowed.is_empty()),
        "{}",
        answer.body
    );
    assert_eq!(world.move_to("nicht-da", "in_umsetzung").status, 404);
    assert!(matches!(world.move_to("ok-eins", "irgendwo").status, 400 | 422));
    assert_eq!(world.phase("ok-eins"), "geplant");
}
