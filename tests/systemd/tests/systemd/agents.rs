//! Rows 28 to 32, 45 and 46: agents that hang, shout, hide or eat, and programs that are started twice.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use systemd_tests::Board;
use systemd_tests::board::STATE;
use systemd_tests::skip::skip;

use crate::help::{building, is_alive, researching, result, wait_idle};

/// A worker started by hand, as the service's user.
const WORKER: [&str; 9] =
    ["runuser", "-u", "board-agent", "--", "/usr/bin/board-worker", "--lane", "research", "--slot", "1"];

fn wait_gone(board: &Board, what: &str) {
    board.wait(&format!("no {what}"), || board.processes_with(what).is_empty().then_some(()));
}

#[test]
fn row_28_an_agent_that_says_nothing_is_stalled_and_a_worker_that_hangs_is_ended() {
    let board = Board::start_configured(&["idle_time = \"3s\""], "");
    board.questions(&["mute-eins", "gate-zwei"]);
    board.research("mute-eins");
    let card = board.wait_phase("mute-eins", &["recherche_fehlgeschlagen"]);
    assert_eq!(result(&card), "stalled");
    wait_idle(&board, "research");
    // A worker that stands still is ended by its start timeout, which nobody extends; as soon as systemd looks.
    let board = Board::start();
    let (unit, agent) = researching(&board, "gate-zwei");
    assert_eq!(board.property(&unit, "TimeoutStartUSec"), "2min");
    let worker: i32 = board.processes_with("board-worker --lane research")[0].pid;
    board.open("gate-zwei");
    loop_tests::processes::signal(worker, Signal::SIGSTOP);
    board.wait_long("the hung worker to be ended", || (!is_alive(worker)).then_some(()));
    assert!(!is_alive(agent));
    board.wait_phase("gate-zwei", &["recherche_fertig"]);
    board.assert_paths_active();
}

#[test]
fn row_29_an_agent_that_ignores_its_end_and_hides_is_gone_with_all_it_started() {
    let board = Board::start();
    let (unit, _) = building(&board, "deaf-eins");
    board.wait("the stray", || (!board.processes_with("stray of agent.sh").is_empty()).then_some(()));
    board.systemctl(&format!("stop '{unit}'"));
    wait_gone(&board, "agent.sh");
    assert!(board.processes_of(&unit).iter().all(|process| !process.line.contains("agent.sh")));
    let card = board.wait_phase("deaf-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&card), "interrupted");
    // The slot is free: the next build takes one.
    board.open("deaf-eins");
    assert_eq!(board.call("deaf-eins", "resume").status, 202);
    board.wait_phase("deaf-eins", &["bereit_fuer_deployment"]);
    wait_gone(&board, "agent.sh");
}

#[test]
fn row_30_150000_lines_end_in_the_log_and_the_journal_has_the_life_of_the_job() {
    let board = Board::start();
    board.intents(&["lines-eins"]);
    board.build("lines-eins");
    let job = board.card("lines-eins")["job"]["id"].as_str().unwrap().to_owned();
    board.wait_phase("lines-eins", &["bereit_fuer_deployment"]);
    let log = std::fs::read_to_string(board.path(STATE).join(format!("logs/{job}.1.jsonl"))).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let out = |text: &str| {
        lines.iter().filter(|line| line["l"].as_str().is_some_and(|l| l.starts_with(text))).count()
    };
    assert_eq!(out("Zeile "), 150_000);
    assert!(lines.iter().any(|line| line["l"].as_str().is_some_and(|l| l.len() > 10_000)), "the long line");
    let story = board.journal(&format!("JOB_ID={job}"));
    assert!((3..=10).contains(&story.len()), "{story:#?}");
    assert!(board.journal("--grep='Zeile 1 von vielen'").is_empty(), "no output of an agent in the journal");
}

#[test]
fn row_31_an_agent_without_memory_is_an_outcome_and_the_worker_survives() {
    let board = Board::start();
    let controllers = board.sh("cat /sys/fs/cgroup/cgroup.controllers");
    if !controllers.split(' ').any(|name| name == "memory") {
        return skip(
            "systemd row_31",
            "needs the memory controller of cgroup v2, which the first version has here",
        );
    }
    board.sh("mkdir -p /run/systemd/system/board-agent-research@.service.d; \
         printf '[Service]\\nMemoryMax=128M\\nMemorySwapMax=0\\n' \
         >/run/systemd/system/board-agent-research@.service.d/90-memory.conf; systemctl daemon-reload");
    board.questions(&["greedy-eins", "ok-zwei"]);
    board.research("greedy-eins");
    let card = board.wait_phase("greedy-eins", &["recherche_fehlgeschlagen"]);
    assert_eq!(result(&card), "oom");
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.assert_paths_active();
}

#[test]
fn row_32_a_second_worker_of_a_slot_waits_for_the_first_and_claims_nothing() {
    let board = Board::start();
    let (_, agent) = researching(&board, "gate-eins");
    board.questions(&["ok-zwei"]);
    board.research("ok-zwei");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    let mut second = board.command(&WORKER).stderr(Stdio::piped()).spawn().unwrap();
    board.wait("the second worker", || (board.processes_outside("--lane research").len() == 1).then_some(()));
    // It waits: the first goes on, and what lies in the inbox stays there.
    assert!(second.try_wait().unwrap().is_none());
    assert_eq!(board.files("inbox/research").len(), 1);
    assert!(is_alive(agent));
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["recherche_fertig"]);
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.wait("the second worker's end", || second.try_wait().unwrap());
    assert_eq!(board.runs(), 2, "each once");
    board.assert_paths_active();
}

#[test]
fn row_45_what_an_agent_left_behind_ends_with_its_run_with_and_without_systemd() {
    let board = Board::start();
    board.questions(&["deaf-eins", "deaf-zwei"]);
    board.open("deaf-eins");
    board.open("deaf-zwei");
    board.research("deaf-eins");
    board.wait_phase("deaf-eins", &["recherche_fertig"]);
    wait_gone(&board, "agent.sh");
    // The same by hand.
    board.systemctl("stop board-agent-research@1.path");
    board.research("deaf-zwei");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    assert!(board.command(&WORKER).status().unwrap().success());
    assert_eq!(board.sh("pgrep -f '[s]tray of agent' || true"), "", "gone before the worker ends");
    board.wait_phase("deaf-zwei", &["recherche_fertig"]);
}

#[test]
fn row_46_a_second_watcher_or_trigger_refuses_and_names_who_has_the_lock() {
    let board = Board::start();
    // For programs by hand: another port, since the unit's is taken before there is a word about the lock, and the secret.
    board.sh(
        "sed 's/^listen = .*/listen = \"127.0.0.1:0\"/' /etc/board-agent/config.toml >/opt/by-hand.toml; \
         install -d -m 0755 /opt/credentials; \
         install -m 0644 /etc/credstore/board-agent.proxy-secret /opt/credentials/proxy-secret",
    );
    for program in ["board-watcher", "board-trigger"] {
        let unit = format!("{program}.service").replace("board-", "board-agent-");
        let pid = board.property(&unit, "MainPID");
        let program = format!("/usr/bin/{program}");
        let by_hand = ["runuser", "-u", "board-agent", "--", &program, "--config", "/opt/by-hand.toml"];
        let mut second = board.command(&by_hand);
        let output = second.env("CREDENTIALS_DIRECTORY", "/opt/credentials").output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success(), "{program}: {said}");
        assert!(said.contains(&pid), "{program} names the holder {pid}: {said}");
        assert_eq!(board.property(&unit, "MainPID"), pid);
    }
    // Two by hand at once beside the unit: still one run.
    board.questions(&["ok-eins"]);
    board.systemctl("stop board-agent-research@1.path");
    board.research("ok-eins");
    let workers: Vec<_> = (0..2).map(|_| board.command(&WORKER).spawn().unwrap()).collect();
    board.systemctl("start board-agent-research@1.path");
    for mut worker in workers {
        board.wait("a worker's end", || worker.try_wait().unwrap());
    }
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    assert_eq!(board.runs(), 1);
}
