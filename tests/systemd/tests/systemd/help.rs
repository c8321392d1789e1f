//! What several of the tests do.

use std::path::Path;
use std::time::Instant;

use loop_tests::processes::Process;
use serde_json::{Value, json};
use systemd_tests::{Board, wait_a_little};

/// A job file dropped by hand.
pub(crate) fn order(kind: &str, card: &str) -> Vec<u8> {
    json!({ "type": kind, "card_id": card }).to_string().into_bytes()
}

/// Puts a file right into an inbox, as the service itself would; nobody but root and the service can.
pub(crate) fn into_inbox(board: &Board, lane: &str, name: &str, bytes: &[u8]) {
    let staged = board.queue_dir("tmp").join(name);
    std::fs::write(&staged, bytes).unwrap();
    let (user, group) = owner(board);
    std::os::unix::fs::chown(&staged, Some(user), Some(group)).unwrap();
    std::fs::rename(&staged, board.queue_dir("inbox").join(lane).join(name)).unwrap();
}

/// The service's user and group.
pub(crate) fn owner(board: &Board) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt as _;
    let queue = std::fs::metadata(board.queue_dir("inbox")).unwrap();
    (queue.uid(), queue.gid())
}

/// Waits until the moment comes; what happens meanwhile is not looked at.
pub(crate) fn wait_until(moment: Instant) {
    while Instant::now() < moment {
        wait_a_little();
    }
}

/// A research of this card still works, and the paths are as they should be.
pub(crate) fn works(board: &Board, card: &str) {
    board.drop_file(&format!("{card}.json"), &order("research", card));
    board.wait_phase(card, &["recherche_fertig"]);
    board.assert_paths_active();
}

/// A build of this card with its agent at work; its unit, and the agent's process id on the host.
pub(crate) fn building(board: &Board, card: &str) -> (String, i32) {
    board.intents(&[card]);
    board.build(card);
    working(board)
}

/// A research of this card with its agent at work.
pub(crate) fn researching(board: &Board, card: &str) -> (String, i32) {
    board.questions(&[card]);
    board.research(card);
    working(board)
}

fn working(board: &Board) -> (String, i32) {
    let agent = board.wait_agent().pid;
    (unit_of(board, agent), agent)
}

/// The unit of a process.
pub(crate) fn unit_of(board: &Board, pid: i32) -> String {
    let units = board.processes();
    let unit = units.iter().find(|(_, all)| all.iter().any(|process: &Process| process.pid == pid));
    unit.unwrap().0.clone()
}

/// The result that the card's last run ended with.
pub(crate) fn result(card: &Value) -> &str {
    card["error"]["result"].as_str().unwrap_or_default()
}

/// Whether a process is there.
pub(crate) fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until no worker of this lane is at work.
pub(crate) fn wait_idle(board: &Board, lane: &str) {
    board.wait("no worker at work", || {
        let units =
            board.systemctl(&format!("list-units --plain --no-legend 'board-agent-{lane}@*.service'"));
        units.is_empty().then_some(())
    });
}

/// When this unit was started, by the journal, in microseconds since the boot of the host.
pub(crate) fn starts(board: &Board, unit: &str) -> Vec<u64> {
    let said = board.sh(&format!("journalctl --quiet --no-pager --output=json UNIT='{unit}' JOB_TYPE=start"));
    let entries = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let begins =
        entries.filter(|entry| entry["MESSAGE"].as_str().is_some_and(|text| text.starts_with("Starting ")));
    begins.filter_map(|entry| entry["__MONOTONIC_TIMESTAMP"].as_str()?.parse().ok()).collect()
}

/// No two starts are closer than a start a second allows, a little less for the clocks.
pub(crate) fn assert_one_try_a_second(starts: &[u64]) {
    assert!(starts.len() >= 3, "{starts:?}");
    let pauses: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| *pause > 830_000), "microseconds between starts: {pauses:?}");
}

/// The attempts of the card's newest job whose files are done.
pub(crate) fn attempts(board: &Board, card: &str) -> usize {
    let shown = board.card(card);
    let job =
        shown["history"].as_array().and_then(|history| history.last()?["job"].as_str()).unwrap_or_default();
    let done = board.files("done");
    done.iter().filter(|name| name.starts_with(job) && !name.contains(".outcome.")).count()
}
