//! Rows 33 and 34: who writes the state at the same time, and a state that is broken.

use serde_json::json;
use systemd_tests::board::STATE;
use systemd_tests::{Board, is_long};

use crate::help::order;

#[test]
fn row_33_what_trigger_watcher_and_workers_do_at_the_same_time_is_all_there() {
    let board = Board::start();
    let writers = 4;
    let changes = if is_long() { 250 } else { 50 };
    let cards: Vec<String> = (0..writers).map(|n| format!("ok-karte-{n}")).collect();
    let asked: Vec<String> = (0..20).map(|n| format!("ok-{n}")).collect();
    board.intents(&cards);
    board.questions(&asked);
    let generation = board.state()["generation"].as_u64().unwrap();
    std::thread::scope(|scope| {
        let board = &board;
        for card in &cards {
            // Clicks, each on top of the one before.
            scope.spawn(move || {
                for n in 1..=changes {
                    let body = json!({ "profile": "standard", "iterations": n % 19 + 1, "reason": format!("{card} {n}") });
                    let answer = board.api("PATCH", &format!("/cards/{card}/profile"), Some(&body));
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    let shown = board.card(card);
                    assert_eq!(shown["profile_reason"], format!("{card} {n}"), "lost at once");
                }
            });
        }
        // Meanwhile the watcher adopts, workers run and the watcher applies.
        for card in &asked {
            board.drop_file(&format!("{card}.json"), &order("research", card));
        }
        for card in &asked {
            board.wait_phase(card, &["recherche_fertig"]);
        }
    });
    for card in &cards {
        assert_eq!(board.card(card)["profile_reason"], format!("{card} {changes}"));
    }
    assert_eq!(board.runs(), asked.len());
    let written = board.state()["generation"].as_u64().unwrap() - generation;
    assert!(written >= writers * changes + 2 * u64::try_from(asked.len()).unwrap(), "{written} writes");
    board.wait_committed();
}

#[test]
fn row_34_a_broken_state_is_refused_with_what_to_do_and_after_a_restore_all_is_there() {
    let board = Board::start();
    board.intents(&["ok-eins"]);
    board.questions(&["ok-zwei"]);
    board.build("ok-eins");
    board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    board.wait_committed();
    let path = board.path(STATE).join("state.json");
    let good = std::fs::read(&path).unwrap();
    let newer = String::from_utf8(good.clone()).unwrap().replacen("\"schema\":1", "\"schema\":99", 1);
    let cases =
        [b"".to_vec(), good[..good.len() / 2].to_vec(), b"\xff\xfe garbage".to_vec(), newer.into_bytes()];
    for (at, broken) in cases.iter().enumerate() {
        board.systemctl("stop board-agent-trigger.service board-agent-watcher.service");
        std::fs::write(&path, broken).unwrap();
        board.sh("systemctl start --no-block board-agent-trigger.service board-agent-watcher.service");
        for (unit, program) in [("trigger", "board-trigger"), ("watcher", "board-watcher")] {
            board.wait(&format!("{program} to refuse it"), || {
                let unit = format!("--unit=board-agent-{unit}.service --priority=err");
                let lines = board.journal(&format!("{unit} --grep='state.json'"));
                (lines.len() > at).then_some(())
            });
        }
        let said = board.journal("--unit=board-agent-watcher.service --grep='state restore'");
        assert!(!said.is_empty(), "it says what to do");
        assert_eq!(&std::fs::read(&path).unwrap(), broken, "nothing is written");
        // As the service's user, in any moment: the units come up by themselves then.
        board.sh_as("board-agent", "boardctl state restore");
        board.wait("the board", || {
            board.send("GET", "/healthz", None).ok().filter(|answer| answer.status / 100 == 2)
        });
        board.wait("the card", || (board.phase("ok-eins") == "bereit_fuer_deployment").then_some(()));
    }
    let kept = std::fs::read_dir(board.path(STATE)).unwrap().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().contains("broken")).count();
    assert_eq!(kept, cases.len(), "each broken file is kept");
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.assert_paths_active();
}
