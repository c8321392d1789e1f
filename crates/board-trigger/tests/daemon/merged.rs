//! A build that somebody merged outside the board: its card offers to be deployed, and does not move by itself.
use board_core::model::card::Build;
use board_core::model::phase::Phase;
use serde_json::json;

use crate::house::House;

/// A card that waits to be deployed, built on `board/limit/1`.
fn built(house: &House) {
    house.git(&["checkout", "-q", "-b", "board/limit/1"]);
    std::fs::write(house.repository().join("neu.txt"), "gebaut\n").unwrap();
    house.git(&["add", "neu.txt"]);
    house.git(&["commit", "-q", "-m", "gebaut"]);
    house.git(&["checkout", "-q", "main"]);
    let commit = std::fs::read_to_string(house.repository().join(".git/refs/heads/board/limit/1")).unwrap();
    let commit = commit.trim().to_owned();
    // A change by call brings the card into the state.
    assert_eq!(house.ask("PATCH /api/board/cards/limit/profile", "", r#"{"profile":"gross"}"#).status, 200);
    house.change(|board| {
        let card = board.cards.get_mut(&"limit".parse().unwrap()).unwrap();
        card.phase = Phase::BereitFuerDeployment;
        card.build = Some(Build {
            number: 1,
            branch: "board/limit/1".into(),
            worktree: None,
            base_commit: commit.clone(),
            diff_base: commit.clone(),
            check_commit: Some(commit),
            earlier_check: None,
            given_up: false,
            intent_blob: String::new(),
            saved_refs: Vec::new(),
        });
    });
}

#[test]
fn a_check_commit_that_is_in_the_branch_offers_deployed_and_moves_nothing() {
    let house = House::open();
    built(&house);
    let before = house.get("/api/board/cards/limit");
    let etag = format!("If-None-Match: {}\r\n", before.header("etag").unwrap());
    assert_eq!(before.json()["merged"], false);
    assert!(house.get("/karten/limit").text().contains("git merge --no-ff"));
    assert_eq!(house.ask("GET /api/board/cards/limit", &etag, "").status, 304);

    house.git(&["merge", "-q", "--no-ff", "-m", "von Hand", "board/limit/1"]);
    let after = house.ask("GET /api/board/cards/limit", &etag, "");
    assert_eq!((after.status, &after.json()["merged"]), (200, &json!(true)), "the revision tells");
    assert_eq!(after.json()["phase"], "bereit_fuer_deployment", "it does not move by itself");
    let page = house.get("/karten/limit").text();
    assert!(page.contains("Der Prüf-Commit ist schon im Branch enthalten."), "{page}");
    assert!(!page.contains("git merge --no-ff"), "there is nothing left to merge");
    let english = house.ask("GET /karten/limit", "Accept-Language: en\r\n", "").text();
    assert!(english.contains("The check commit is in the branch already."), "{english}");
    let board = house.get("/api/board").text();
    assert!(board.contains("Schon in main enthalten"), "{board}");

    // The branch was set back: the offer goes with it.
    house.git(&["reset", "-q", "--hard", "HEAD^"]);
    assert_eq!(house.get("/api/board/cards/limit").json()["merged"], false);
    house.git(&["merge", "-q", "--ff-only", "board/limit/1"]);
    let rev = house.get("/api/board/cards/limit").json()["rev"].to_string();
    let done = house.form("/karten/limit", &[("event", "deployed"), ("rev", &rev)]);
    assert_eq!(done.status, 303, "{}", done.text());
    let card = house.get("/api/board/cards/limit").json();
    assert_eq!((&card["phase"], &card["merged"]), (&json!("deployed"), &json!(false)));
}
