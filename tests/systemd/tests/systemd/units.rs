//! Rows 19 to 21, 39, 43, 51 and 52: units and directories that are missing, masked, failed or changed.

use systemd_tests::Board;
use systemd_tests::board::{SLOTS, STATE};

use crate::help::{
    assert_one_try_a_second, attempts, building, is_alive, order, researching, result, starts, wait_idle,
};

const RESEARCH: &str = "board-agent-research@1.service";
const PATH: &str = "board-agent-research@1.path";

/// Both lines of the sweep, two minutes from now: what waits is old then.
fn sweep_later(board: &Board) {
    let later =
        "LD_PRELOAD=$(ls /usr/lib/*/faketime/libfaketime.so.1) FAKETIME=+2m NO_FAKE_STAT=1 boardctl sweep";
    board.sh_as("board-agent", later);
    board.sh(later);
}

fn sweep(board: &Board) {
    board.systemctl("start board-agent-sweep.service");
}

/// The alarms by name; each is a banner on the board.
fn alarms(board: &Board) -> Vec<String> {
    let entries = std::fs::read_dir(board.path(STATE).join("alarms")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn wait_alarm(board: &Board, name: &str) {
    board
        .wait(&format!("the alarm {name}"), || alarms(board).iter().any(|alarm| alarm == name).then_some(()));
    let page = board.send("GET", "/", None).unwrap();
    let shown = |banner: &str| page.body.contains(banner);
    assert!(shown(name.trim_start_matches("backlog-")), "the board shows {name}");
}

fn wait_no_alarm(board: &Board) {
    board.wait("no alarm", || {
        sweep(board);
        alarms(board).is_empty().then_some(())
    });
}

#[test]
fn row_19_a_missing_program_is_tried_once_a_second_told_by_age_and_heals_by_itself() {
    let board = Board::start();
    board.questions(&["ok-eins"]);
    board.sh("mv /usr/bin/board-worker /usr/bin/gone-worker");
    board.research("ok-eins");
    let begins = board.wait("four tries", || Some(starts(&board, RESEARCH)).filter(|all| all.len() >= 4));
    assert_one_try_a_second(&begins);
    board.assert_paths_active();
    sweep_later(&board);
    wait_alarm(&board, "backlog-research");
    board.sh("mv /usr/bin/gone-worker /usr/bin/board-worker");
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    wait_no_alarm(&board);
    board.assert_paths_active();
    assert_eq!(board.runs(), 1);
}

#[test]
fn row_20_a_failed_path_unit_is_told_and_revived_by_the_sweep() {
    let board = Board::start();
    board.questions(&["ok-eins", "ok-zwei"]);
    // What systemd does without our settings.
    board.sh(
        "mkdir -p /run/systemd/system/board-agent-research@.service.d; \
         printf '[Unit]\\nStartLimitIntervalSec=60s\\nStartLimitBurst=3\\n[Service]\\nExecStart=\\nExecStart=/bin/false\\n\
         Restart=no\\n' >/run/systemd/system/board-agent-research@.service.d/90-limit.conf; systemctl daemon-reload",
    );
    board.research("ok-eins");
    board.wait("the path unit to fail", || (board.property(PATH, "ActiveState") == "failed").then_some(()));
    assert_eq!(board.property(PATH, "Result"), "unit-start-limit-hit");
    wait_alarm(&board, PATH);
    board.sh(
        "rm /run/systemd/system/board-agent-research@.service.d/90-limit.conf; systemctl daemon-reload; \
         systemctl reset-failed board-agent-research@1.service",
    );
    board.drop_file("b.json", &order("research", "ok-zwei"));
    sweep(&board);
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    wait_no_alarm(&board);
    board.assert_paths_active();
}

#[test]
fn row_21_a_masked_worker_is_a_backlog_that_the_sweep_tells() {
    let board = Board::start();
    board.questions(&["ok-eins"]);
    board.systemctl(&format!("mask --runtime {RESEARCH}"));
    board.research("ok-eins");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    sweep(&board);
    assert!(!alarms(&board).iter().any(|name| name == "backlog-research"), "not before it is old");
    sweep_later(&board);
    wait_alarm(&board, "backlog-research");
    board.systemctl(&format!("unmask --runtime {RESEARCH}"));
    sweep(&board);
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    wait_no_alarm(&board);
    board.assert_paths_active();
}

#[test]
fn row_39_directories_of_the_queue_that_go_away_are_made_again_and_told() {
    let board = Board::start();
    for slot in SLOTS {
        let unit = format!("board-agent-{slot}.path");
        assert!(board.property(&unit, "RequiresMountsFor").contains(STATE), "a mounted queue is there first");
    }
    board.questions(&["gate-eins", "ok-zwei", "ok-drei"]);
    // In the middle of a run, and with a job that waits.
    board.research("gate-eins");
    board.wait_agent();
    board.research("ok-zwei");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    board.sh("cd /var/lib/board-agent; mv queue queue.away");
    board.wait("the queue", || {
        sweep(&board);
        board.queue_dir("inbox/research").is_dir().then_some(())
    });
    let told = board.journal("--unit=board-agent-sweep.service --grep='war weg und ist neu angelegt'");
    assert!(!told.is_empty());
    // Published again from the state, both of them. The run that goes on cannot leave its outcome in what is not there
    // any more, and is ended by hand.
    board.wait("both jobs", || (board.files("inbox/research").len() == 2).then_some(()));
    board.open("gate-eins");
    board.wait("the worker to tell it", || {
        board.property(RESEARCH, "StatusText").contains("Ergebnis lässt sich nicht schreiben").then_some(())
    });
    board.systemctl(&format!("kill --signal=KILL {RESEARCH}"));
    for card in ["gate-eins", "ok-zwei"] {
        board.wait_phase(card, &["recherche_fertig"]);
    }
    // Deleted while nothing runs.
    wait_idle(&board, "research");
    board.sh("rm -r /var/lib/board-agent/queue");
    board.wait("the queue", || {
        sweep(&board);
        board.queue_dir("inbox/research").is_dir().then_some(())
    });
    board.research("ok-drei");
    board.wait_phase("ok-drei", &["recherche_fertig"]);
    board.assert_paths_active();
}

#[test]
fn row_43_a_path_unit_without_an_inotify_instance_is_told_and_the_sweep_drains_its_lane() {
    let board = Board::start();
    board.questions(&["ok-eins", "ok-zwei"]);
    // Takes away descriptors of PID 1 until it gets no instance any more, which is the same answer of the kernel.
    let pid = board.init().to_string();
    let limit = |soft: &str| {
        let mut prlimit = std::process::Command::new("prlimit");
        let done = prlimit.args(["--pid", &pid, &format!("--nofile={soft}:")]).output().unwrap();
        assert!(done.status.success(), "{soft}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let usual = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let usual = usual.split_whitespace().next().unwrap().to_owned();
    board.systemctl(&format!("stop {PATH}"));
    let mut failed = false;
    // So many are left: for the question itself some, for what is asked not enough.
    for left in 1..12 {
        limit(&first_above(&board, left).to_string());
        // Without a descriptor for the question there is no answer.
        let _ = board.run(&["timeout", "3", "systemctl", "start", PATH]);
        limit(&usual);
        if board.property(PATH, "Result") == "resources" {
            failed = true;
            break;
        }
        board.systemctl(&format!("stop {PATH}"));
    }
    assert!(failed, "no limit made it fail");
    let asked = board
        .sh("journalctl --quiet --output=cat --grep='board-agent-research@1.path: Triggering OnFailure='");
    assert!(!asked.is_empty());
    // Other than without inotify instances, the alarm could not be started without descriptors either.
    board.sh_as("board-agent", &format!("boardctl alarm {PATH}"));
    wait_alarm(&board, PATH);
    board.research("ok-eins");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    sweep_later(&board);
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    wait_no_alarm(&board);
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.assert_paths_active();
}

/// The limit below which PID 1 has so many descriptors left.
fn first_above(board: &Board, left: usize) -> usize {
    let used = std::fs::read_dir(format!("/proc/{}/fd", board.init())).unwrap();
    let used: Vec<usize> =
        used.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    (0..).filter(|number| !used.contains(number)).nth(left).unwrap()
}

#[test]
fn row_51_a_slot_that_is_taken_away_in_mid_job_is_recovered_by_the_watcher() {
    let board = Board::start();
    // Stopped and masked: the worker itself leaves the outcome.
    let (unit, agent) = building(&board, "gate-eins");
    let path = unit.replace(".service", ".path");
    board.systemctl(&format!("disable --now {path}"));
    board.systemctl(&format!("mask --runtime --now {unit}"));
    let card = board.wait_phase("gate-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&card), "interrupted");
    assert!(!is_alive(agent));
    // Orphaned: killed with nobody who would start it again.
    let (unit, agent) = researching(&board, "gate-zwei");
    board.systemctl(&format!("stop {PATH}"));
    board.systemctl(&format!("mask --runtime {unit}"));
    board.systemctl(&format!("kill --signal=KILL {unit}"));
    board
        .wait("the watcher to recover it", || (board.card("gate-zwei")["job"]["attempt"] == 2).then_some(()));
    assert!(!is_alive(agent));
    board.systemctl(&format!("unmask --runtime {unit}"));
    board.systemctl(&format!("start {PATH}"));
    board.open("gate-zwei");
    board.wait_phase("gate-zwei", &["recherche_fertig"]);
    assert_eq!(attempts(&board, "gate-zwei"), 2);
    assert_eq!(board.runs(), 3);
}

#[test]
fn row_52_a_run_outlives_a_restart_of_the_target_and_an_upgrade_and_the_next_job_uses_the_new_program() {
    let board = Board::start();
    let (unit, agent) = building(&board, "gate-eins");
    let worker = board.property(&unit, "MainPID");
    board.systemctl("restart board-agent.target");
    assert_eq!(board.property(&unit, "MainPID"), worker);
    // The same package with a higher version.
    let package = board.path("/root/board-agent.deb");
    std::fs::copy(systemd_tests::root::package().unwrap(), package).unwrap();
    board.sh(
        "cd /root; dpkg-deb -R board-agent.deb newer; sed -i 's/^Version: .*/&.newer/' newer/DEBIAN/control; \
         dpkg-deb -b --root-owner-group -Znone newer newer.deb >/dev/null; dpkg --install newer.deb >/dev/null",
    );
    assert!(board.sh("dpkg-query -W board-agent").ends_with(".newer"));
    assert_eq!(board.property(&unit, "MainPID"), worker, "the upgrade ended the run");
    assert!(is_alive(agent));
    let program = |pid: &str| board.sh(&format!("readlink /proc/{pid}/exe"));
    assert!(program(&worker).ends_with("(deleted)"), "the run goes on with the old program");
    board.intents(&["gate-zwei"]);
    board.build("gate-zwei");
    board.wait("the second agent", || (board.agents().len() >= 2).then_some(()));
    let other = if unit.contains("@1") { unit.replace("@1", "@2") } else { unit.replace("@2", "@1") };
    let newer = board.property(&other, "MainPID");
    assert_eq!(program(&newer), "/usr/bin/board-worker");
    for card in ["gate-eins", "gate-zwei"] {
        board.open(card);
        board.wait_phase(card, &["bereit_fuer_deployment"]);
    }
    assert_eq!(board.runs(), 4);
    board.assert_paths_active();
}
