//! The main loop with codex as builder and as reviewer.

use agents_tests::codex::{Wish, ready};
use agents_tests::{Codex, Reply};

#[test]
fn codex_builds_and_reviews_a_card_until_it_is_ready_and_every_step_is_a_commit() {
    let codex =
        Codex::started("eins", Wish::default(), |request| match (request.is_review(), request.round()) {
            (false, 0) => Reply::Shell("mkdir -p src && echo eins > src/eins.txt".into()),
            (false, 1) => Reply::Write { path: "src/zwei.txt".into(), text: "zwei\n".into() },
            (false, _) => Reply::Say("Zwei Dateien\n\nGebaut und angesehen.".into()),
            // It reads what it is to judge before it does.
            (true, 0) => Reply::Shell("cat tree/src/eins.txt diff.patch intent.md".into()),
            (true, 1) => Reply::Shell("touch tree/x; touch y; ls -a; ls -a tree".into()),
            (true, _) => ready(request),
        })
        .unwrap();
    let world = &codex.world;
    let card = world
        .wait_phase("eins", &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen", "review_fehlgeschlagen"]);
    assert_eq!(card["phase"], "bereit_fuer_deployment", "{card}");
    let requests = codex.standin.requests();
    let review = requests.iter().rfind(|request| request.is_review()).unwrap();
    let seen = review.outputs();
    assert!(
        seen[0].contains("eins") && seen[0].contains("+zwei") && seen[0].contains("# Intent"),
        "{seen:?}"
    );
    // The tree has no git directory, and nothing could be written into it.
    assert!(seen[1].contains("Read-only file system") && seen[1].contains("diff.patch"), "{seen:?}");
    assert!(!seen[1].lines().any(|line| matches!(line, "x" | "y" | ".git")), "{seen:?}");

    let commit = card["check_commit"].as_str().unwrap();
    assert_eq!(review.commit(), commit);
    assert_eq!(world.move_to("eins", "deployed").status, 200);
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready", "deployed"]);
    let record = world.git(&["show", "main:docs/board/eins.yaml"]).unwrap();
    // Of the builder's run: three rounds, and what the model said that each costs.
    assert!(record.contains("codex") && record.contains(commit), "{record}");
    assert!(world.git(&["show", "main:docs/review/eins.md"]).unwrap().contains(commit));
    assert_eq!(world.git(&["status", "--porcelain"]).unwrap(), "?? docs/intent/");
}
