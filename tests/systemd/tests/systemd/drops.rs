//! Rows 1 to 6: what is dropped, when, and how broken it may be.

use std::path::Path;
use std::time::{Duration, Instant};

use systemd_tests::Board;

use crate::help::{into_inbox, order, wait_until, works};

/// What no queue may choke on, by name.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("no-json", b"{\"type\":".to_vec()),
        ("blank", b"  \n".to_vec()),
        ("zero", Vec::new()),
        ("bom", b"\xef\xbb\xbf{\"type\":\"research\",\"card_id\":\"ok-eins\"}".to_vec()),
        ("nul", b"{\"type\":\"research\",\"card_id\":\"ok\0eins\"}".to_vec()),
        ("large", vec![b' '; 10 << 20]),
        ("deep", vec![b'['; 200_000]),
        ("no-utf8", b"{\"type\":\"\xff\xfe\"}".to_vec()),
    ]
}

#[test]
fn row_01_what_is_dropped_while_the_worker_runs_is_done_after_it() {
    let board = Board::start();
    board.questions(&["gate-eins", "ok-zwei"]);
    board.drop_file("a.json", &order("research", "gate-eins"));
    board.wait_agent();
    board.drop_file("b.json", &order("research", "ok-zwei"));
    board.wait_phase("ok-zwei", &["recherche_laeuft"]);
    board.wait("it to wait in the inbox", || (board.files("inbox/research").len() == 1).then_some(()));
    assert_eq!(board.phase("gate-eins"), "recherche_laeuft");
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["recherche_fertig"]);
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    assert_eq!(board.runs(), 2);
}

#[test]
fn row_02_what_is_dropped_before_the_boot_or_before_the_path_starts_is_done_after_it() {
    let mut board = Board::start();
    board.questions(&["ok-eins", "ok-zwei", "ok-drei"]);
    // Before the path starts.
    board.systemctl("stop board-agent-research@1.path");
    board.drop_file("a.json", &order("research", "ok-eins"));
    board.wait("it to be published", || (board.files("inbox/research").len() == 1).then_some(()));
    board.systemctl("start board-agent-research@1.path");
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    // Published, and dropped, before the boot.
    board.systemctl("stop board-agent-research@1.path");
    board.drop_file("b.json", &order("research", "ok-zwei"));
    board.wait("it to be published", || (board.files("inbox/research").len() == 1).then_some(()));
    board.cut();
    let drop = board.dir().join("upper/var/lib/board-agent/queue/drop/c.json");
    std::fs::write(drop, order("research", "ok-drei")).unwrap();
    board.boot();
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.wait_phase("ok-drei", &["recherche_fertig"]);
    assert_eq!(board.runs(), 3);
    board.assert_paths_active();
}

#[test]
fn row_03_twenty_fast_jobs_are_all_done_and_the_path_stays_active() {
    let board = Board::start();
    let cards: Vec<String> = (0..20).map(|n| format!("ok-{n}")).collect();
    board.questions(&cards);
    let begin = Instant::now();
    for (at, card) in cards.iter().enumerate() {
        wait_until(begin + Duration::from_millis(120) * u32::try_from(at).unwrap());
        board.drop_file(&format!("{card}.json"), &order("research", card));
    }
    for card in &cards {
        board.wait_phase(card, &["recherche_fertig"]);
    }
    assert_eq!(board.runs(), 20);
    board.assert_paths_active();
}

#[test]
fn row_04_of_a_burst_of_500_files_the_good_half_is_done_once_and_the_rest_rejected() {
    let board = Board::start();
    let cards: Vec<String> = (0..250).map(|n| format!("ok-{n}")).collect();
    board.questions(&cards);
    let mut files = Vec::new();
    for (at, card) in cards.iter().enumerate() {
        files.push((format!("good-{at}.json"), order("research", card)));
        files.push((format!("bad-{at}.json"), b"{\"type\":\"research\"".to_vec()));
    }
    // Half of the malformed ones lie where the path unit itself looks.
    let (inbox, dropped): (Vec<_>, Vec<_>) =
        files.into_iter().enumerate().partition(|(at, (name, _))| at % 4 == 1 && name.starts_with("bad"));
    for (_, (name, bytes)) in &inbox {
        into_inbox(&board, "research", name, bytes);
    }
    let dropped: Vec<(String, Vec<u8>)> = dropped.into_iter().map(|(_, file)| file).collect();
    board.drop_files(&dropped);
    // As long as there is progress it may take what it takes.
    for done in (10..=250).step_by(10) {
        board.wait(&format!("{done} good ones to be done"), || (board.runs() >= done).then_some(()));
    }
    for card in &cards {
        board.wait_phase(card, &["recherche_fertig"]);
    }
    assert_eq!(board.runs(), 250, "each once");
    for at in 0..250 {
        board.wait_rejected(&format!("bad-{at}.json"));
    }
    assert!(board.files("drop").is_empty() && board.files("inbox/research").is_empty());
    board.assert_paths_active();
}

#[test]
fn row_05_malformed_files_are_rejected_with_a_reason_and_the_next_job_runs() {
    let board = Board::start();
    board.questions(&["ok-eins", "ok-zwei"]);
    for (name, bytes) in malformed() {
        board.drop_file(&format!("drop-{name}.json"), &bytes);
        into_inbox(&board, "research", &format!("inbox-{name}.json"), &bytes);
    }
    works(&board, "ok-zwei");
    for (name, _) in malformed() {
        for place in ["drop", "inbox"] {
            let reason = board.wait_rejected(&format!("{place}-{name}.json"));
            assert!(reason.trim().len() > 10, "{place}-{name}: {reason}");
        }
    }
    assert_eq!(board.runs(), 1);
    works(&board, "ok-eins");
}

#[test]
fn row_06_what_is_no_regular_file_is_moved_away_without_being_opened() {
    let board = Board::start();
    board.questions(&["ok-eins", "ok-zwei"]);
    for place in ["drop", "inbox/research"] {
        let prefix = place.split('/').next().unwrap();
        let dir = Path::new("/var/lib/board-agent/queue").join(place);
        // Made as root: a directory of it in the service's inbox cannot be emptied, only moved. It comes whole,
        // by its last name: an empty one is gone before anything is put into it.
        board.sh(&format!(
            "cd {}; mkdir whole; touch whole/in; mv whole {prefix}-directory.json; \
             ln -s /etc/hostname {prefix}-link.json; ln -s nowhere {prefix}-dangling.json; \
             mkfifo {prefix}-fifo.json; mknod {prefix}-device.json c 1 3",
            dir.display()
        ));
    }
    works(&board, "ok-zwei");
    for prefix in ["drop", "inbox"] {
        for name in ["directory", "link", "dangling", "fifo", "device"] {
            board.wait_rejected(&format!("{prefix}-{name}.json"));
        }
    }
    // Root's directories can be renamed by the service, not moved elsewhere; nothing looks for them any more.
    for (place, prefix) in [("drop", "drop"), ("inbox/research", "inbox")] {
        let left: Vec<String> = board.files(place).into_iter().collect();
        assert_eq!(left, [format!("{prefix}-directory.json.rejected")]);
    }
    assert_eq!(board.journal("--grep 'directory.json.*is a directory'").len(), 2, "each is told once");
    assert_eq!(board.sh("cat /etc/hostname | wc -l"), "1");
    works(&board, "ok-eins");
    assert_eq!(board.runs(), 2);
}
