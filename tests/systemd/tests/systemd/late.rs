//! Rows 47, 49, 57 and 58: what comes late, twice, or at the same moment.

use serde_json::{Value, json};
use systemd_tests::Board;

use crate::help::{building, order, owner, wait_idle};

/// Puts a copy of a done outcome back to where outcomes are applied.
fn copy_back(board: &Board, name: &str) {
    let staged = board.queue_dir("tmp").join(name);
    std::fs::copy(board.queue_dir("done").join(name), &staged).unwrap();
    let (user, group) = owner(board);
    std::os::unix::fs::chown(&staged, Some(user), Some(group)).unwrap();
    std::fs::rename(&staged, board.queue_dir("outcomes").join(name)).unwrap();
    board.wait("it to be put aside", || (!board.files("outcomes").contains(name)).then_some(()));
}

#[test]
fn row_47_an_outcome_of_an_old_attempt_or_a_second_copy_of_the_current_one_changes_nothing() {
    let board = Board::start();
    let (unit, _) = building(&board, "gate-eins");
    let job = board.card("gate-eins")["job"]["id"].as_str().unwrap().to_owned();
    board.systemctl(&format!("stop '{unit}'"));
    board.wait_phase("gate-eins", &["umsetzung_fehlgeschlagen"]);
    wait_idle(&board, "build");
    let old = format!("{job}.1.outcome.json");
    board.wait("the outcome in done", || board.files("done").contains(&old).then_some(()));
    assert_eq!(board.call("gate-eins", "resume").status, 202);
    board.wait_agent();
    copy_back(&board, &old);
    assert_eq!(board.phase("gate-eins"), "in_umsetzung", "the old one is not applied");
    assert_eq!(board.agents().len(), 1);
    board.open("gate-eins");
    let card = board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    board.wait_committed();
    let (events, history) = (board.trailers("Board-Event"), card["history"].clone());
    let newest =
        board.files("done").into_iter().filter(|name| name.ends_with(".outcome.json")).collect::<Vec<_>>();
    for name in &newest {
        copy_back(&board, name);
    }
    wait_idle(&board, "read");
    assert_eq!(board.card("gate-eins")["history"], history);
    assert_eq!(board.trailers("Board-Event"), events);
    assert_eq!(board.runs(), 3, "a build, its second run, a review");
}

#[test]
fn row_49_of_answer_retry_and_delete_at_the_same_moment_one_wins() {
    let board = Board::start();
    for round in 0..3 {
        let made = board.api("POST", "/drafts", Some(&json!({ "topic": format!("frage thema-{round}") })));
        assert_eq!(made.status, 202, "{}", made.body);
        let draft = made.json()["id"].as_str().unwrap().to_owned();
        board.wait_phase(&draft, &["entwurf_frage"]);
        let path = format!("/api/board/cards/{draft}");
        let ways: [(&str, String, Option<Value>); 3] = [
            ("POST", format!("{path}/draft-answer"), Some(json!({ "answer": "25", "round": 1 }))),
            ("POST", format!("{path}/draft-retry"), Some(json!({ "note": "nochmal" }))),
            ("DELETE", path.clone(), None),
        ];
        let answers: Vec<(usize, u16)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..60)
                .map(|n| {
                    let (method, path, body) = &ways[n % 3];
                    let board = &board;
                    scope.spawn(move || (n % 3, board.send(method, path, body.as_ref()).unwrap().status))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let deleted = answers.iter().filter(|(way, status)| *way == 2 && status / 100 == 2).count();
        let started = answers.iter().filter(|(way, status)| *way < 2 && status / 100 == 2).count();
        assert!(
            answers.iter().all(|(_, status)| matches!(status, 200 | 202 | 204 | 404 | 409 | 410)),
            "{answers:?}"
        );
        assert!(started <= 1 && deleted <= 1 && started + deleted >= 1, "{answers:?}");
        // Whoever won, no job is left that belongs to nobody.
        board.wait("no draft at work", || {
            let waits = board.files("inbox/draft").len() + board.files("outcomes").len();
            let state = board.state();
            let runs =
                state["cards"].as_object().unwrap().values().any(|card| card["phase"] == "entwurf_laeuft");
            (waits == 0 && !runs).then_some(())
        });
        wait_idle(&board, "draft");
        for slot in ["running/draft-1", "running/draft-2"] {
            assert!(board.files(slot).iter().all(|name| !name.ends_with(".json")), "{slot}");
        }
    }
    board.wait_committed();
}

#[test]
fn row_57_a_document_that_is_edited_before_its_state_step_is_taken_as_it_is() {
    let board = Board::start();
    board.arm();
    board.plan("documents.file:stop");
    let made = board.api("POST", "/drafts", Some(&json!({ "topic": "sofort neu-eins" })));
    assert_eq!(made.status, 202, "{}", made.body);
    board.wait_fault();
    let path = "docs/intent/neu-eins.md";
    board.wait("the file", || board.try_sh_as("op", &format!("cat /srv/repo/{path}")).ok());
    board.op(&format!("echo 'Von Hand ergänzt.' >>{path}"));
    board.systemctl("kill --signal=KILL board-agent-watcher.service");
    // The file alone is a card already; it is the transition that counts.
    board.wait("the commit", || (board.trailers("Board-Event") == ["intent_proposed"]).then_some(()));
    assert_eq!(board.phase("neu-eins"), "geplant");
    board.wait_committed();
    let text = board.op(&format!("git show main:{path}"));
    assert_eq!(
        (text.matches("Ausgearbeitet").count(), text.matches("Von Hand ergänzt.").count()),
        (1, 1),
        "{text}"
    );
    assert_eq!(board.op("ls docs/intent"), "neu-eins.md");
    assert_eq!(board.runs(), 1);
}

#[test]
fn row_58_a_request_that_comes_again_after_a_crash_or_a_failed_run_starts_nothing() {
    let board = Board::start();
    board.arm();
    board.questions(&["fail-eins", "ok-zwei"]);
    let again = |card: &str, key: &str| {
        let head = format!("Idempotency-Key: {key}\r\n");
        let body = json!({ "to": "recherche_laeuft" });
        board.send_with("POST", &format!("/api/board/cards/{card}/move"), Some(&body), &head)
    };
    // Killed between the write of the state and the answer.
    let key = uuid::Uuid::new_v4().to_string();
    board.plan("state.synced:kill");
    assert!(again("fail-eins", &key).is_err(), "there was an answer");
    board.wait_fault();
    let repeated = board.wait("the board to be back", || again("fail-eins", &key).ok());
    assert!(matches!(repeated.status, 200 | 202), "{}", repeated.body);
    assert_eq!(repeated.json()["repeated"], true, "{}", repeated.body);
    board.wait_phase("fail-eins", &["recherche_fehlgeschlagen"]);
    assert_eq!(board.runs(), 1);
    // And once more after the run has failed.
    let repeated = again("fail-eins", &key).unwrap();
    assert_eq!(repeated.json()["repeated"], true, "{}", repeated.body);
    assert_eq!(board.phase("fail-eins"), "recherche_fehlgeschlagen");
    // A drop that the watcher was killed with, at each step.
    board.plan("adopt.state:kill");
    board.drop_file("ok-zwei.json", &order("research", "ok-zwei"));
    board.wait_fault();
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.wait("the drop to be gone", || board.files("drop").is_empty().then_some(()));
    wait_idle(&board, "research");
    assert_eq!(board.runs(), 2);
    board.assert_paths_active();
}
