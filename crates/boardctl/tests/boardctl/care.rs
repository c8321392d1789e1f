//! `doctor`, `sweep`, `alarm` and `drop-ins` on a board that does not run, where no systemd is needed.
use std::fs;

use board_core::edge::alarms;
use board_core::edge::queue::Queue;
use board_core::model::job::Lane;
use serde_json::Value;

use super::files::Board;

fn checks(board: &Board) -> (Option<i32>, Vec<Value>) {
    let (code, out, _) = board.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    (code, report["checks"].as_array().unwrap().clone())
}

fn found<'a>(checks: &'a [Value], what: &str) -> Vec<&'a Value> {
    checks.iter().filter(|check| check["what"] == what).collect()
}

#[test]
fn the_doctor_says_what_is_good_and_fails_with_a_remedy_for_what_is_not() {
    let board = Board::new();
    let (code, all) = checks(&board);
    assert_eq!(code, Some(1), "no board answers");
    assert_eq!(found(&all, "Board")[0]["level"], "fail");
    for what in ["Konfiguration", "Warteschlange", "git", "Eigentümer", "runtime script"] {
        assert_eq!(found(&all, what)[0]["level"], "ok", "{what}: {all:#?}");
    }
    let (code, out, _) = board.run(&["doctor", "--language", "en"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("ok    configuration") && out.contains("failures"), "{out}");
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_configuration() {
    let board = Board::new();
    let config = fs::read_to_string(board.config()).unwrap();
    fs::write(board.config(), config.replace("kind = \"command\"", "kind = \"comand\"")).unwrap();
    let (code, out, _) = board.run(&["doctor"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("runtimes.script.kind") && out.contains("check-config"), "{out}");
}

#[test]
fn an_alarm_is_seen_by_the_doctor_and_may_be_raised_twice() {
    let board = Board::new();
    for _ in 0..2 {
        let (code, ..) = board.run(&["alarm", "board-agent-build@1.path"]);
        assert_eq!(code, Some(0));
    }
    let raised = alarms::all(&board.state());
    assert_eq!(raised.keys().collect::<Vec<_>>(), ["board-agent-build@1.path"]);
    let (_, all) = checks(&board);
    assert!(found(&all, "Alarm")[0]["found"].as_str().unwrap().contains("board-agent-build@1.path"));
    let (code, ..) = board.run(&["alarm", "../state"]);
    assert_eq!(code, Some(1));
}

#[test]
fn a_sweep_finds_nothing_on_a_quiet_board_and_makes_again_what_somebody_removed() {
    let board = Board::new();
    let swept = || {
        let (code, out, err) = board.run(&["sweep", "--json"]);
        assert_eq!(code, Some(0), "{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        report["done"].as_array().unwrap().clone()
    };
    assert_eq!(swept(), Vec::<Value>::new());
    let inbox = Queue::look_at(&board.state()).inbox_dir(Lane::Build);
    fs::remove_dir(&inbox).unwrap();
    let done = swept();
    assert!(done[0].as_str().unwrap().contains(&inbox.display().to_string()), "{done:?}");
    assert!(inbox.is_dir());
    assert_eq!(swept(), Vec::<Value>::new());
}

#[test]
fn drop_ins_name_the_checkout_and_the_state() {
    let board = Board::new();
    let (code, out, _) = board.run(&["drop-ins"]);
    assert_eq!(code, Some(0));
    let repository = board.path().join("repository");
    assert!(out.contains("# /etc/systemd/system/board-agent-watcher.service.d/50-host.conf"), "{out}");
    assert!(out.contains(&format!("ReadWritePaths={}/.git", repository.display())), "{out}");
    assert!(out.contains(&format!("PathExistsGlob={}/queue/inbox/read/*.json", board.state().display())));
}
