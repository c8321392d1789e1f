//! The main loop on the installed units, by clicks over HTTP.

use systemd_tests::Board;

#[test]
fn a_card_goes_from_planned_to_deployed_by_clicks_and_its_job_tells_its_story() {
    let board = Board::start();
    board.intents(&["ok-eins"]);
    board.build("ok-eins");
    let card = board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    let commit = card["check_commit"].as_str().unwrap().to_owned();
    assert_eq!(board.op("git rev-parse board/ok-eins/1"), commit);
    assert_eq!(board.move_to("ok-eins", "deployed").status, 200);
    board.wait_committed();
    assert_eq!(board.trailers("Board-Event"), ["started", "built", "reviewed_ready", "deployed"]);
    assert!(board.op("git show main:docs/review/ok-eins.md").contains(&commit));
    assert_eq!(board.runs(), 2, "one build and one review");
    board.assert_paths_active();
}
