//! Rows 22 to 25 and 56: power cuts, with state and repository on disks that forget what was not synced.

use systemd_tests::Board;
use systemd_tests::board::{REPO, STATE};

use crate::help::{attempts, researching, result, wait_idle};

/// How many runs began since the boot, by the journal.
fn runs_since_boot(board: &Board) -> usize {
    board.journal("--unit='board-agent-*' --grep='Lauf beginnt'").len()
}

/// Removes the index's lock as an operator does whom the board tells of it: a disk that lost more than the other may have
/// lost the note that says whose lock it is.
fn remove_reported_lock(board: &Board) {
    board.wait("every transition to be committed, or a lock that is told", || {
        let told = board.property("board-agent-watcher.service", "StatusText").contains("index.lock");
        if told {
            board.op("rm .git/index.lock");
        }
        (told || is_settled(board, true)).then_some(())
    });
}

/// Waits until every transition is committed. Where the state lost more than the repository, the record of a card on the
/// branch may be one that the board knows nothing of: shown as an edit, and only that card's transitions wait.
fn wait_settled(board: &Board, with_edits: bool) {
    board.wait("every transition to be committed", || is_settled(board, with_edits).then_some(()));
}

fn is_settled(board: &Board, with_edits: bool) -> bool {
    let (state, told) = (board.state(), board.told());
    let mut open =
        state["outbox"].as_array().into_iter().flatten().filter(|entry| entry["committed"].is_null());
    let edited = |card: &str| with_edits && told["edits"][card].is_object();
    open.all(|entry| edited(entry["card"].as_str().unwrap()))
}

/// What is on the disks is sound, and git finds nothing missing.
const FSCK: &str = "git fsck --no-dangling --no-progress --connectivity-only";

/// The repository as the cut left it. A worktree that was just being made may be half there: `git worktree add`
/// writes zeros into its HEAD first, and the next attempt of the card clears that away.
fn check_after_cut(board: &Board) {
    let half_made = |line: &&str| {
        line.starts_with("error: worktrees/") && line.ends_with("/HEAD: detached HEAD points at nothing")
    };
    let said = board.op(&format!("{FSCK} 2>&1 || true"));
    let wrong: Vec<&str> = said.lines().filter(|line| !half_made(line)).collect();
    assert!(wrong.is_empty(), "{said}");
    check_transitions(board);
}

fn check(board: &Board) {
    board.op(FSCK);
    check_transitions(board);
}

fn check_transitions(board: &Board) {
    let transitions = board.trailers("Board-Transition");
    let once: std::collections::BTreeSet<&String> = transitions.iter().collect();
    assert_eq!(once.len(), transitions.len(), "a transition was committed twice");
}

#[test]
fn row_22_after_a_power_cut_right_after_the_answer_the_job_is_there_and_whole() {
    let mut board = Board::start_on_disks(&[STATE], None);
    board.questions(&["ok-0", "ok-1", "ok-2"]);
    for card in ["ok-0", "ok-1", "ok-2"] {
        // Stays in the inbox, so that the cut meets nothing but what the click wrote.
        board.systemctl("stop board-agent-research@1.path");
        board.research(card);
        board.lose_power_and_boot();
        board.wait_phase(card, &["recherche_fertig"]);
        assert_eq!(attempts(&board, card), 1);
        assert_eq!(runs_since_boot(&board), 1);
    }
    assert!(board.files("rejected").is_empty());
    board.wait_committed();
    check(&board);
}

#[test]
fn row_23_a_power_cut_between_claim_and_agent_is_an_attempt_and_runs_nothing_twice() {
    let mut board = Board::start_on_disks(&[STATE], None);
    board.arm();
    board.intents(&["ok-eins"]);
    board.questions(&["ok-zwei"]);
    // A build waits for the operator.
    board.plan("claim.inbox_synced:stop");
    board.build("ok-eins");
    board.wait_fault();
    board.lose_power_and_boot();
    let card = board.wait_phase("ok-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&card), "interrupted");
    assert_eq!(card["job"]["attempt"], 1);
    wait_idle(&board, "build");
    assert_eq!((board.runs(), runs_since_boot(&board)), (0, 0), "the agent was never started");
    // A reader is run again by itself, as its second attempt.
    board.plan("claim.inbox_synced:stop");
    board.research("ok-zwei");
    board.wait_fault();
    board.lose_power_and_boot();
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    assert_eq!(attempts(&board, "ok-zwei"), 2);
    assert_eq!(runs_since_boot(&board), 1);
}

#[test]
fn row_24_a_power_cut_while_the_state_is_written_leaves_the_old_one_or_the_new_one() {
    let mut board = Board::start_on_disks(&[STATE], None);
    board.arm();
    let points = ["state.locked", "state.written", "state.kept", "state.renamed", "state.synced"];
    let cards: Vec<String> = (0..points.len()).map(|n| format!("ok-{n}")).collect();
    board.questions(&cards);
    for (point, card) in points.iter().zip(&cards) {
        board.wait_committed();
        board.plan(&format!("{point}:stop"));
        let path = format!("/api/board/cards/{card}/move");
        let body = serde_json::json!({ "to": "recherche_laeuft" });
        let disks = std::thread::scope(|scope| {
            // Nobody answers it: the trigger stands still in the middle of the write.
            let asked = scope.spawn(|| board.send("POST", &path, Some(&body)).is_ok());
            board.wait_fault();
            let disks = board.copy_disks().unwrap();
            board.kill_trigger();
            assert!(!asked.join().unwrap(), "{point}: there was an answer");
            disks
        });
        board.cut();
        board.take_disks(&disks).unwrap();
        board.boot();
        let phase = board.phase(card);
        if *point == "state.synced" {
            assert_ne!(phase, "geplant", "what was synced is there");
        }
        if phase == "geplant" {
            board.research(card);
        }
        board.wait_phase(card, &["recherche_fertig"]);
    }
    let left = board.sh("ls /var/lib/board-agent | grep 'state.json.*tmp' || true");
    assert_eq!(left, "", "temporaries of killed writes");
}

#[test]
fn row_25_a_power_cut_after_the_outcome_replays_only_the_rest() {
    let mut board = Board::start_on_disks(&[STATE], None);
    board.arm();
    let points =
        ["outcome.renamed", "outcome.synced", "finish.outcome_left", "complete.found", "complete.applied"];
    let cards: Vec<String> = (0..points.len()).map(|n| format!("ok-{n}")).collect();
    board.questions(&cards);
    for (point, card) in points.iter().zip(&cards) {
        board.plan(&format!("{point}:stop"));
        board.research(card);
        board.wait_fault();
        board.lose_power_and_boot();
        board.wait_phase(card, &["recherche_fertig"]);
        if *point == "outcome.renamed" {
            // Not synced: either it is there, or the run was interrupted and is run again.
            assert!(runs_since_boot(&board) <= 1);
        } else {
            assert_eq!(attempts(&board, card), 1, "{point}");
            assert_eq!(runs_since_boot(&board), 0, "{point}: the agent ran once");
        }
        board.wait_committed();
        let report = board.op(&format!("cat docs/research-report/{card}.md"));
        assert_eq!(report.matches("So ist es.").count(), 1, "{report}");
    }
    check(&board);
}

/// What a power cut leaves of the two disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// What was synced, of both.
    Both,
    /// The state is older than the repository.
    OldState,
    /// The repository is older than the state.
    OldRepository,
}

/// A power cut at this point of a build.
fn cut_at(point: &str, left: Left) {
    let mut board = Board::start_on_disks(&[STATE, REPO], None);
    board.arm();
    board.intents(&["ok-eins", "ok-zwei"]);
    // Versioned and safe, as the operator's own commits are.
    board.op("git add docs; git commit --quiet -m Intents; sync");
    board.build("ok-eins");
    board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    board.wait_committed();
    let before = board.copy_disks().unwrap();
    board.plan(&format!("{point}:stop"));
    board.build("ok-zwei");
    board.wait_fault();
    let after = board.copy_disks().unwrap();
    board.cut();
    let disks = match left {
        Left::Both => after,
        Left::OldState => after.with(STATE, &before),
        Left::OldRepository => after.with(REPO, &before),
    };
    board.take_disks(&disks).unwrap();
    board.boot();
    check_after_cut(&board);
    if left != Left::Both {
        remove_reported_lock(&board);
    }
    if left == Left::OldRepository {
        // What the repository lost is lost: a review of a commit that is not there fails, and nothing else does.
        board.intents(&["ok-drei"]);
        board.bring_home("ok-drei");
    } else {
        board.bring_home("ok-zwei");
    }
    wait_settled(&board, left != Left::Both);
    check(&board);
    let commit = board.card("ok-eins")["check_commit"].as_str().unwrap().to_owned();
    board.op(&format!(
        "git cat-file -e '{commit}^{{tree}}'; git branch --contains {commit} | grep -q board/ok-eins"
    ));
}

#[test]
fn row_56_after_a_power_cut_commits_are_whole_or_still_to_come() {
    for point in ["git.ref_moved", "audit.committed", "audit.marked", "outcome.synced"] {
        cut_at(point, Left::Both);
    }
}

#[test]
fn row_56_disks_that_differ_after_a_power_cut_stop_nothing() {
    cut_at("git.ref_moved", Left::OldState);
    cut_at("audit.marked", Left::OldState);
    cut_at("git.ref_moved", Left::OldRepository);
    cut_at("outcome.synced", Left::OldRepository);
}

#[test]
fn row_56_what_a_board_commit_took_out_of_the_outbox_is_on_the_disk() {
    let mut board = Board::start_on_disks(&[STATE, REPO], None);
    let (_, _) = researching(&board, "gate-eins");
    board.open("gate-eins");
    board.wait_phase("gate-eins", &["recherche_fertig"]);
    board.wait_committed();
    let events = board.trailers("Board-Event");
    board.lose_power_and_boot();
    assert_eq!(board.trailers("Board-Event"), events);
    check(&board);
}
