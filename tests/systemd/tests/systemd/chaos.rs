//! Row 50: kill -9 at random moments of the whole loop, and what must hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use loop_tests::chance::Chance;
use loop_tests::processes::Process;
use nix::sys::signal::Signal;
use serde_json::Value;
use systemd_tests::container::signal;
use systemd_tests::{Board, is_long};

use crate::help::wait_until;

/// Phases in which a run goes on.
const RUNNING: [&str; 5] =
    ["in_umsetzung", "review", "recherche_laeuft", "aufteilung_laeuft", "entwurf_laeuft"];

/// What the design promises of a board at rest.
fn check(board: &Board) {
    let state = board.state();
    for (id, card) in state["cards"].as_object().unwrap() {
        if RUNNING.contains(&card["phase"].as_str().unwrap()) {
            assert!(card["job"].is_object(), "{id} runs without a job: {card}");
        }
    }
    // One review per build: each commit under review has one job, whatever its attempts.
    let mut reviews: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for place in ["inbox/build", "inbox/read", "inbox/research", "outcomes", "done", "rejected"] {
        for name in board.files(place) {
            let Ok(bytes) = std::fs::read(board.queue_dir(place).join(&name)) else { continue };
            let Ok(job) = serde_json::from_slice::<Value>(&bytes) else { continue };
            if !job["payload"].is_object() || name.contains(".outcome.") {
                continue;
            }
            places.entry(name).or_default().push(place);
            if job["type"] == "review" {
                let commit = job["payload"]["commit"].as_str().unwrap().to_owned();
                reviews.entry(commit).or_default().insert(job["id"].as_str().unwrap().to_owned());
            }
        }
    }
    for (commit, jobs) in reviews {
        assert_eq!(jobs.len(), 1, "reviews of {commit}: {jobs:?}");
    }
    for (name, places) in places {
        assert!(places.len() == 1 && places[0] == "done", "{name} lies in {places:?}");
    }
    // No outcome lost: each job that is done has one.
    let done = board.files("done");
    for name in done
        .iter()
        .filter(|name| name.ends_with(".json") && !name.contains(".outcome.") && !name.contains(".reason."))
    {
        let stem = name.trim_end_matches(".json");
        let told =
            done.contains(&format!("{stem}.outcome.json")) || done.contains(&format!("{name}.reason.json"));
        assert!(told, "{name} is done without an outcome");
    }
    let transitions = board.trailers("Board-Transition");
    let once: BTreeSet<&String> = transitions.iter().collect();
    assert_eq!(once.len(), transitions.len(), "a transition was committed twice");
    board.op("git fsck --no-dangling --no-progress");
    assert_eq!(board.op("git status --porcelain --untracked-files=no"), "");
    board.assert_paths_active();
}

/// Whom a random kill may hit: every process of a unit of the board.
fn victims(board: &Board) -> Vec<(String, Process)> {
    let units = board.processes().into_iter().filter(|(unit, _)| unit.starts_with("board-agent"));
    let mut found: Vec<(String, Process)> =
        units.flat_map(|(unit, all)| all.into_iter().map(move |process| (unit.clone(), process))).collect();
    found.sort_by_key(|(unit, process)| (unit.clone(), process.pid));
    found
}

/// Whether a job is claimed and its outcome not applied yet.
fn is_in_hand(board: &Board) -> bool {
    let holds = |dir: &str| board.files(dir).iter().any(|name| name.ends_with(".json"));
    ["outcomes", "running/build-1", "running/build-2", "running/read-1", "running/read-2"]
        .into_iter()
        .any(holds)
}

#[test]
fn row_50_killed_at_random_moments_every_card_comes_home_and_is_reviewed_once() {
    let rounds: u32 = if is_long() { 500 } else { 40 };
    let mut chance = Chance::from_env();
    println!("seed {}", std::env::var("BOARD_TEST_SEED").unwrap_or_else(|_| "1".to_owned()));
    let board = Board::start();
    let cards: Vec<String> = (0..rounds.div_ceil(4)).map(|n| format!("slow-{n}")).collect();
    board.intents(&cards);
    board.op("git add docs; git commit --quiet -m Intents");
    let (mut killed, mut done, mut in_hand) = (BTreeMap::<String, usize>::new(), 0, 0);
    for pair in cards.chunks(2) {
        for card in pair {
            board.move_to(card, "in_umsetzung");
        }
        let kills = if pair.len() == 2 { 8 } else { 4 };
        for _ in 0..kills {
            if done == rounds {
                break;
            }
            wait_until(Instant::now() + Duration::from_millis(50 + chance.below(250)));
            // Whoever was killed is back after a second.
            let all = board.wait("a victim", || Some(victims(&board)).filter(|all| !all.is_empty()));
            let at = usize::try_from(chance.below(u64::try_from(all.len()).unwrap())).unwrap();
            let (unit, process) = &all[at];
            // Sometimes the whole unit, as a power cut of it.
            if chance.below(4) == 0 {
                let _ = board.try_sh_as("root", &format!("systemctl kill --signal=KILL '{unit}'"));
            } else {
                signal(process, Signal::SIGKILL);
            }
            *killed.entry(unit.clone()).or_default() += 1;
            in_hand += u32::from(is_in_hand(&board));
            done += 1;
        }
        for card in pair {
            board.bring_home(card);
        }
    }
    println!("{done} kills, {in_hand} of them while a job was in hand: {killed:?}");
    assert_eq!(done, rounds);
    assert!(in_hand * 2 >= done, "only {in_hand} of {done} kills met a job in hand");
    board.wait_committed();
    board.wait("nothing to be left in the queue", || {
        let left: usize =
            ["inbox/build", "inbox/read", "outcomes"].iter().map(|dir| board.files(dir).len()).sum();
        (left == 0).then_some(())
    });
    for lane in ["build", "read"] {
        crate::help::wait_idle(&board, lane);
    }
    check(&board);
}
