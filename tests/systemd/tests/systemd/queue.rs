//! Rows 7 to 12: files that cannot be read yet, or at all, and jobs that must not run twice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use systemd_tests::Board;

use crate::help::{
    assert_one_try_a_second, into_inbox, order, owner, researching, starts, wait_idle, wait_until, works,
};

const RESEARCH: &str = "board-agent-research@1.service";

#[test]
fn row_07_an_unreadable_file_is_moved_away_and_nothing_loops() {
    let board = Board::start();
    board.questions(&["ok-eins"]);
    for place in ["drop", "inbox/research"] {
        board.sh(&format!(
            "cd /var/lib/board-agent/queue; echo '{{}}' >tmp/x; chmod 0000 tmp/x; chown op: tmp/x; \
             mv tmp/x {place}/unreadable-{}.json",
            &place[..4]
        ));
    }
    for name in ["unreadable-drop.json", "unreadable-inbo.json"] {
        board.wait_rejected(name);
    }
    wait_idle(&board, "research");
    let before = starts(&board, RESEARCH).len();
    assert!(before <= 2, "{before} starts for one file");
    works(&board, "ok-eins");
    wait_idle(&board, "research");
    assert!(starts(&board, RESEARCH).len() <= before + 2);
}

#[test]
fn row_08_a_file_that_is_still_being_written_is_not_rejected() {
    let board = Board::start();
    board.questions(&["ok-eins"]);
    let path = board.queue_dir("drop").join("slow.json");
    let text = order("research", "ok-eins");
    let begin = Instant::now();
    for (at, part) in text.chunks(5).enumerate() {
        wait_until(begin + Duration::from_millis(300) * u32::try_from(at).unwrap());
        let mut file = std::fs::File::options().create(true).append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, part).unwrap();
    }
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    assert!(board.files("rejected").is_empty(), "{:?}", board.files("rejected"));
    // One that never gets whole is.
    std::fs::write(board.queue_dir("drop").join("half.json"), &text[..10]).unwrap();
    board.wait_rejected("half.json");
}

#[test]
fn row_09_what_is_no_job_of_its_name_lane_and_schema_is_rejected() {
    let board = Board::start();
    board.questions(&["ok-eins", "ok-zwei"]);
    // A job as the board itself writes it.
    board.systemctl("stop board-agent-research@1.path");
    board.research("ok-zwei");
    let name = board.wait("its file", || board.files("inbox/research").into_iter().next());
    let job: Value =
        serde_json::from_slice(&std::fs::read(board.queue_dir("inbox/research").join(&name)).unwrap())
            .unwrap();
    let with = |field: &str, value: Value| {
        let mut job = job.clone();
        job[field] = value;
        job.to_string().into_bytes()
    };
    let id = uuid::Uuid::now_v7();
    let cases = [
        (format!("{id}.1.json"), with("type", json!("research"))),
        ("frei.json".to_owned(), with("type", json!("research"))),
        (format!("{}.2.json", job["id"].as_str().unwrap()), with("attempt", json!(1))),
        (format!("{}.3.json", job["id"].as_str().unwrap()), {
            let mut wrong = job.clone();
            wrong["attempt"] = json!(3);
            wrong["schema"] = json!(2);
            wrong.to_string().into_bytes()
        }),
    ];
    for (name, bytes) in &cases {
        into_inbox(&board, "research", name, bytes);
    }
    // The right file in the wrong lane.
    into_inbox(&board, "build", &name, &with("type", json!("research")));
    // And by hand.
    for (name, order) in [
        ("type.json", json!({ "type": "deploy", "card_id": "ok-eins" })),
        ("path.json", json!({ "type": "research", "card_id": "../../etc/passwd" })),
        ("field.json", json!({ "type": "research", "card_id": "ok-eins", "phase": "deployed" })),
    ] {
        board.drop_file(name, order.to_string().as_bytes());
    }
    board.systemctl("start board-agent-research@1.path");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    // Who finds one first decides: the worker, that it is no job, or the watcher, that it is nobody's.
    for (name, _) in &cases {
        board.wait_aside(name);
    }
    board.wait_aside(&name);
    for name in ["type.json", "path.json", "field.json"] {
        board.wait_rejected(name);
    }
    assert_eq!(board.runs(), 1);
    works(&board, "ok-eins");
}

#[test]
fn row_10_a_second_drop_and_a_copied_job_run_nothing() {
    let board = Board::start();
    let (_, _) = researching(&board, "gate-eins");
    board.drop_file("again.json", &order("research", "gate-eins"));
    let reason = board.wait_rejected("again.json");
    assert!(!reason.is_empty());
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["recherche_fertig"]);
    let job = board
        .wait("the job in done", || board.files("done").into_iter().find(|name| name.ends_with(".1.json")));
    let bytes = std::fs::read(board.queue_dir("done").join(&job)).unwrap();
    into_inbox(&board, "research", &job, &bytes);
    let reason = board.wait_rejected(&job);
    assert!(reason.contains("duplicate"), "{reason}");
    wait_idle(&board, "research");
    assert_eq!(board.runs(), 1);
    assert_eq!(board.phase("gate-eins"), "recherche_fertig");
    let mode = std::fs::metadata(board.queue_dir("rejected").join(&job)).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&mode), owner(&board).0);
    board.assert_paths_active();
}

#[test]
fn row_11_fifty_clicks_at_once_are_one_job() {
    let board = Board::start();
    board.intents(&["gate-eins"]);
    let body = json!({ "to": "in_umsetzung" });
    let answers: Vec<_> = std::thread::scope(|scope| {
        let send = || board.send("POST", "/api/board/cards/gate-eins/move", Some(&body)).unwrap();
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let accepted = answers.iter().filter(|answer| answer.status == 202);
    assert_eq!(accepted.count(), 1, "{answers:?}");
    let card = board.card("gate-eins");
    let job = card["job"]["id"].as_str().unwrap();
    let refused = answers.iter().filter(|answer| answer.status == 409 && answer.body.contains(job));
    assert_eq!(refused.count(), 49, "{answers:?}");
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    assert_eq!(board.runs(), 2, "one build and its review");
}

#[test]
fn row_12_a_worker_that_panics_before_its_claim_is_tried_once_a_second() {
    let board = Board::start();
    board.arm();
    board.questions(&["ok-eins"]);
    board.sh("mkdir -p /etc/systemd/system/board-agent-research@.service.d; \
         printf '[Service]\\nEnvironment=BOARD_FAULT=claim.begin:panic\\n' \
         >/etc/systemd/system/board-agent-research@.service.d/80-panic.conf; systemctl daemon-reload");
    board.research("ok-eins");
    let begins =
        board.wait("five tries", || Some(starts(&board, RESEARCH)).filter(|begins| begins.len() >= 5));
    assert_one_try_a_second(&begins);
    assert_eq!(board.files("inbox/research").len(), 1, "the job is where it was");
    board.assert_paths_active();
    assert_eq!(board.phase("ok-eins"), "recherche_laeuft");
    // It heals by itself.
    board.sh("rm /etc/systemd/system/board-agent-research@.service.d/80-panic.conf; systemctl daemon-reload");
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    assert_eq!(board.runs(), 1);
}
