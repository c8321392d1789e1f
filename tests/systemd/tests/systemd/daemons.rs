//! Rows 40 to 42 and 53: restarts under load, a journal that goes away, and clocks that jump.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;
use systemd_tests::Board;

use crate::help::{attempts, researching};

#[test]
fn row_40_a_restart_of_the_trigger_under_load_refuses_nobody() {
    let board = Board::start();
    let (stop, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer =
                        board.send("GET", "/api/board", None).unwrap_or_else(|error| panic!("{error:#}"));
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..5 {
            let before = answered.load(Ordering::Relaxed);
            board.systemctl("restart board-agent-trigger.service");
            board.wait("answers", || (answered.load(Ordering::Relaxed) >= before + 20).then_some(()));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn row_41_without_a_journal_everything_goes_on() {
    let board = Board::start();
    let pids = |board: &Board| {
        ["board-agent-trigger.service", "board-agent-watcher.service"]
            .map(|unit| board.property(unit, "MainPID"))
    };
    let before = pids(&board);
    researching(&board, "gate-eins");
    board.systemctl("restart systemd-journald.service");
    board.sh("systemctl kill --signal=KILL systemd-journald.service; mkdir -p /run/systemd/journald.conf.d; \
        printf '[Journal]\\nRateLimitIntervalSec=1h\\nRateLimitBurst=1\\n' >/run/systemd/journald.conf.d/limit.conf; \
        systemctl restart systemd-journald.service");
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["recherche_fertig"]);
    board.questions(&["ok-zwei"]);
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.wait_committed();
    assert_eq!(pids(&board), before, "no daemon ended for want of a journal");
    assert_eq!(board.runs(), 2);
    // What matters is in files: the log of each run, and who did what.
    let logs = board.sh("ls /var/lib/board-agent/logs");
    assert!(logs.contains("audit.jsonl"), "{logs}");
}

/// Lets all programs of the board live by a clock of their own, which [`set_clock`] sets: the host's is everybody's.
fn with_own_clock(configured: &[&str]) -> Board {
    let board = Board::start_configured(configured, "");
    board.sh(
        "install -d -m 0755 /opt/clock; echo +0 >/opt/clock/now; mkdir -p /etc/systemd/system/board-agent-.service.d; \
         printf '[Service]\\nEnvironment=LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=/opt/clock/now FAKETIME_NO_CACHE=1 \
         FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1\\n' \"$(ls /usr/lib/*/faketime/libfaketimeMT.so.1)\" \
         >/etc/systemd/system/board-agent-.service.d/80-clock.conf; systemctl daemon-reload; \
         systemctl restart board-agent-trigger.service board-agent-watcher.service",
    );
    board
}

fn set_clock(board: &Board, offset: &str) {
    board.sh(&format!("echo '{offset}' >/opt/clock/new; mv /opt/clock/new /opt/clock/now"));
}

#[test]
fn row_42_a_clock_that_jumps_in_mid_job_ends_nothing_and_the_order_stays() {
    let board = with_own_clock(&[]);
    board.questions(&["ok-zwei", "ok-drei"]);
    researching(&board, "gate-eins");
    // Further than every limit of a run, in both directions.
    for offset in ["+9h", "-9h"] {
        set_clock(&board, offset);
        board.wait("signs of life", || (board.agents().len() == 1).then_some(()));
    }
    // Made in the past: still one after the other, and each once.
    board.research("ok-zwei");
    set_clock(&board, "-1d");
    board.research("ok-drei");
    board.open("gate-eins");
    for card in ["gate-eins", "ok-zwei", "ok-drei"] {
        board.wait_phase(card, &["recherche_fertig"]);
        assert_eq!(attempts(&board, card), 1);
    }
    assert_eq!(board.runs(), 3);
    board.wait_committed();
}

#[test]
fn row_53_a_parked_start_is_published_whatever_the_clock_does() {
    let board = with_own_clock(&["undo_seconds = 4"]);
    let cards = ["ok-vor", "ok-zurueck", "ok-gleich"];
    board.questions(&cards);
    for (card, offset) in cards.iter().zip(["+1h", "-1h", "-1h"]) {
        let answer =
            board.api("POST", &format!("/cards/{card}/move"), Some(&json!({ "to": "recherche_laeuft" })));
        assert_eq!(answer.status, 202, "{}", answer.body);
        set_clock(&board, offset);
        board.wait_phase(card, &["recherche_fertig"]);
    }
    assert_eq!(board.runs(), 3);
}
