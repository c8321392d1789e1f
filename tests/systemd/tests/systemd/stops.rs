//! Rows 13 to 17: workers that are killed, stopped or restarted, and a systemd that reloads, in mid-job.

use nix::sys::signal::Signal;
use systemd_tests::Board;
use systemd_tests::container::signal;

use crate::help::{building, is_alive, researching, result, wait_idle};

/// The build of this card was interrupted: no agent is left, nothing runs again by itself, the work is kept.
fn interrupted(board: &Board, card: &str, runs: usize) {
    let shown = board.wait_phase(card, &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&shown), "interrupted");
    board.wait("no agent", || board.agents().is_empty().then_some(()));
    wait_idle(board, "build");
    assert_eq!(board.runs(), runs, "no second run of a builder");
    assert!(board.files("inbox/build").is_empty());
    board.assert_paths_active();
}

#[test]
fn row_13_a_killed_worker_takes_its_agent_along_and_its_job_is_recovered_at_once() {
    let board = Board::start();
    // The worker alone, as the kernel does it when memory is short.
    let (unit, agent) = building(&board, "gate-eins");
    assert_eq!(board.property(&unit, "RestartUSec"), "1s");
    board.systemctl(&format!("kill --signal=KILL --kill-who=main '{unit}'"));
    interrupted(&board, "gate-eins", 1);
    assert!(!is_alive(agent));
    // The whole unit.
    let (unit, _) = building(&board, "gate-zwei");
    board.systemctl(&format!("kill --signal=KILL '{unit}'"));
    interrupted(&board, "gate-zwei", 2);
    // A reader is run again by itself, once.
    let (unit, _) = researching(&board, "gate-drei");
    board.systemctl(&format!("kill --signal=KILL '{unit}'"));
    board.wait("the second attempt", || (board.card("gate-drei")["job"]["attempt"] == 2).then_some(()));
    board.open("gate-drei");
    board.wait_phase("gate-drei", &["recherche_fertig"]);
    assert_eq!(board.runs(), 4);
}

#[test]
fn row_14_a_stop_in_mid_job_leaves_interrupted_and_runs_only_readers_again() {
    let board = Board::start();
    let (unit, _) = building(&board, "gate-eins");
    board.systemctl(&format!("stop '{unit}'"));
    interrupted(&board, "gate-eins", 1);
    let (unit, _) = researching(&board, "gate-zwei");
    board.systemctl(&format!("stop '{unit}'"));
    board.wait("the second attempt", || (board.card("gate-zwei")["job"]["attempt"] == 2).then_some(()));
    board.open("gate-zwei");
    board.wait_phase("gate-zwei", &["recherche_fertig"]);
    assert_eq!(board.runs(), 3, "one build, and the research twice");
    // The build goes on where it was, once the operator says so.
    board.open("gate-eins");
    assert_eq!(board.call("gate-eins", "resume").status, 202);
    let card = board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    assert_eq!(card["branch"], "board/gate-eins/1");
}

#[test]
fn row_15_a_restart_in_mid_job_is_a_stop_and_a_build_is_not_run_again() {
    let board = Board::start();
    for (runs, verb, card) in [(1, "restart", "gate-eins"), (2, "try-restart", "gate-zwei")] {
        let (unit, _) = building(&board, card);
        board.systemctl(&format!("{verb} --no-block '{unit}'"));
        interrupted(&board, card, runs);
    }
}

#[test]
fn row_16_a_reload_or_reexec_of_systemd_in_mid_job_changes_nothing() {
    let board = Board::start();
    let (unit, agent) = building(&board, "gate-eins");
    let worker = board.property(&unit, "MainPID");
    for verb in ["daemon-reload", "daemon-reexec"] {
        board.systemctl(verb);
        board.wait("systemd to answer again", || {
            board.try_sh_as("root", "systemctl is-system-running").ok().filter(|said| said == "running")
        });
        assert_eq!(board.property(&unit, "MainPID"), worker, "{verb}");
        assert!(board.agents().iter().any(|process| process.pid == agent), "{verb}");
    }
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    assert_eq!(board.runs(), 2, "one build and its review");
    board.assert_paths_active();
}

#[test]
fn row_17_a_changed_unit_ends_no_run_and_is_the_next_job_s() {
    let board = Board::start();
    let (unit, _) = building(&board, "gate-eins");
    let worker = board.property(&unit, "MainPID");
    board.sh("cp /usr/bin/board-worker /usr/local/bin/newer-worker; \
         mkdir -p /etc/systemd/system/board-agent-build@.service.d; \
         printf '[Service]\\nExecStart=\\nExecStart=/usr/local/bin/newer-worker --lane build --slot %%i\\n' \
         >/etc/systemd/system/board-agent-build@.service.d/60-newer.conf; systemctl daemon-reload");
    assert_eq!(board.property(&unit, "MainPID"), worker);
    board.intents(&["gate-zwei"]);
    board.build("gate-zwei");
    board.wait("the newer program", || board.processes_with("newer-worker --lane build").into_iter().next());
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    board.open("gate-zwei");
    board.wait_phase("gate-zwei", &["bereit_fuer_deployment"]);
    assert_eq!(board.runs(), 4);
    // And a worker that is ended by hand is started as the new one.
    let (_, agent) = building(&board, "gate-drei");
    let worker = board.processes_with("newer-worker --lane build").into_iter().next().unwrap();
    signal(&worker, Signal::SIGTERM);
    interrupted(&board, "gate-drei", 5);
    assert!(!is_alive(agent));
}

#[test]
fn a_stop_of_the_target_ends_the_runs_and_starts_none_again_before_it_starts() {
    let board = Board::start();
    let (_, agent) = building(&board, "gate-eins");
    board.systemctl("stop board-agent.target");
    board.wait("the end of the run", || (!is_alive(agent)).then_some(()));
    board.wait("everything to be stopped", || {
        let active =
            "list-units --plain --no-legend --state=active,activating,deactivating 'board-agent-*.service'";
        board.systemctl(active).is_empty().then_some(())
    });
    assert!(board.agents().is_empty(), "nothing is started again");
    board.systemctl("start board-agent.target");
    interrupted(&board, "gate-eins", 1);
}
