//! Rows 26 and 27: disks that are full, or cannot be written.

use std::process::Command;

use serde_json::json;
use systemd_tests::Board;
use systemd_tests::board::STATE;

use crate::help::{assert_one_try_a_second, researching, starts};

/// Fills the disk of the state to its last block.
fn fill(board: &Board) {
    board.sh(&format!(
        "cat /dev/zero >{STATE}/filler 2>/dev/null || true; sync -f {STATE}; \
        cat /dev/zero >>{STATE}/filler 2>/dev/null || true"
    ));
}

fn make_room(board: &Board) {
    board.sh(&format!("rm {STATE}/filler"));
}

#[test]
fn row_26_on_a_full_disk_a_click_is_refused_and_a_run_keeps_its_outcome_until_there_is_room() {
    let board = Board::start_on_disks(&[STATE], Some(64 << 20));
    board.questions(&["ok-eins", "ok-zwei"]);
    researching(&board, "gate-lauf");
    board.wait_committed();
    fill(&board);
    let before = board.state();
    let answer = board.move_to("ok-eins", "recherche_laeuft");
    assert_eq!(answer.status, 507, "{}", answer.body);
    assert_eq!(board.state(), before, "nothing changed");
    // A file that is no job is still moved away: a rename needs no room.
    board.sh("mkdir /var/lib/board-agent/queue/tmp/x && mv /var/lib/board-agent/queue/tmp/x \
        /var/lib/board-agent/queue/drop/x.json || ln -s nowhere /var/lib/board-agent/queue/drop/x.json || true");
    // The run ends; its outcome cannot be written, and is not lost.
    board.open("gate-lauf");
    board.wait("no agent", || board.agents().is_empty().then_some(()));
    board.wait("the worker to tell it", || {
        let said = board.property("board-agent-research@1.service", "StatusText");
        said.contains("Ergebnis lässt sich nicht schreiben").then_some(())
    });
    assert_eq!(board.phase("gate-lauf"), "recherche_laeuft");
    make_room(&board);
    board.wait_phase("gate-lauf", &["recherche_fertig"]);
    board.research("ok-eins");
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    assert_eq!(board.runs(), 2, "the run that waited was not run again");
    board.assert_paths_active();
}

#[test]
fn row_27_on_a_disk_that_turned_read_only_nothing_loops_and_after_a_reboot_all_goes_on() {
    let mut board = Board::start_on_disks(&[STATE], Some(64 << 20));
    board.questions(&["ok-eins", "ok-zwei"]);
    board.systemctl("stop board-agent-research@1.path");
    board.research("ok-eins");
    board.wait("its file", || (board.files("inbox/research").len() == 1).then_some(()));
    board.wait_committed();
    // As the kernel does it when the disk reports an error.
    let device = board.sh(&format!("stat --format=%d {STATE}"));
    let minor = device.parse::<u64>().unwrap() & 0xff;
    board.sh(&format!("mount -o remount,errors=remount-ro {STATE}"));
    let sysfs = format!("/sys/fs/ext4/loop{minor}/trigger_fs_error");
    assert!(Command::new("sh").args(["-c", &format!("echo 1 >{sysfs}")]).status().unwrap().success());
    board.wait("it to be read-only", || {
        board.try_sh_as("root", &format!("touch {STATE}/x")).is_err().then_some(())
    });
    let answer = board.api("POST", "/cards/ok-zwei/move", Some(&json!({ "to": "recherche_laeuft" })));
    assert_eq!(answer.status, 507, "{}", answer.body);
    // The path finds the job; the worker cannot claim it.
    board.systemctl("start board-agent-research@1.path");
    board.wait("the worker to tell it", || {
        let lines = board.journal("--unit=board-agent-research@1.service --priority=err");
        (!lines.is_empty()).then_some(())
    });
    let unit = "board-agent-research@1.service";
    let tries = starts(&board, unit);
    if tries.len() >= 3 {
        assert_one_try_a_second(&tries);
    }
    board.assert_paths_active();
    assert_eq!(board.runs(), 0);
    board.reboot();
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    assert_eq!(board.runs(), 2);
}
