//! kill -9 of trigger, watcher, worker and agent: at every fault point, and at random moments.
//!
//! After each kill the invariants of the design hold, the card arrives, and there is one review per build.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use board_core::edge::fault::FAULT_POINTS;
use loop_tests::chance::Chance;
use loop_tests::{Options, World, processes};
use nix::sys::signal::Signal;
use serde_json::Value;

fn is_long() -> bool {
    std::env::var_os("BOARD_TEST_LONG").is_some()
}

/// What the design promises of a world at rest.
fn check(world: &World) {
    let text = std::fs::read_to_string(world.path("state/state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let running = ["in_umsetzung", "review", "recherche_laeuft", "aufteilung_laeuft", "entwurf_laeuft"];
    for (id, card) in state["cards"].as_object().unwrap() {
        let phase = card["phase"].as_str().unwrap();
        if running.contains(&phase) {
            assert!(card["job"].is_object(), "{id} in {phase} has no job");
        }
    }
    // One review per build: each commit under review has one job, whatever its attempts.
    let mut reviews: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(world.path("state/queue/done")).unwrap().flatten() {
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        let Ok(job) = serde_json::from_slice::<Value>(&bytes) else { continue };
        if job["type"] == "review" && job["payload"].is_object() {
            let commit = job["payload"]["commit"].as_str().unwrap().to_owned();
            reviews.entry(commit).or_default().insert(job["id"].as_str().unwrap().to_owned());
        }
    }
    for (commit, jobs) in reviews {
        assert_eq!(jobs.len(), 1, "reviews of {commit}: {jobs:?}");
    }
    // Each transition is one commit, and no commit is lost or doubled.
    let transitions = world.trailers("Board-Transition").unwrap();
    let once: BTreeSet<&String> = transitions.iter().collect();
    assert_eq!(once.len(), transitions.len(), "a transition was committed twice");
    world.git(&["fsck", "--no-dangling", "--no-progress"]).unwrap();
}

/// Brings a card from wherever a crash left it to `bereit_fuer_deployment`, as the operator would.
fn bring_home(world: &World, card: &str) {
    let deadline = Instant::now() + loop_tests::world::PATIENCE;
    loop {
        let phase = world.phase(card);
        let answer = match phase.as_str() {
            "bereit_fuer_deployment" => return,
            "geplant" => Some(world.move_to(card, "in_umsetzung")),
            "umsetzung_fehlgeschlagen" => {
                let reason = world.card(card)["error"]["result"].as_str().unwrap_or_default().to_owned();
                // An agent that somebody else killed has failed; every other kill is an interruption.
                assert!(
                    matches!(reason.as_str(), "interrupted" | "failed"),
                    "{card}: {reason}\n{}",
                    world.log()
                );
                let resumed = world.call(card, "resume");
                // Killed before it had a worktree there is nothing to go on with.
                Some(if resumed.status == 409 { world.call(card, "retry") } else { resumed })
            }
            "review_fehlgeschlagen" => Some(world.call(card, "retry")),
            _ => None,
        };
        if let Some(answer) = answer {
            assert!(matches!(answer.status, 202 | 409), "{phase}: {}", answer.body);
        }
        assert!(Instant::now() < deadline, "{card} is stuck in {phase}\n{}", world.log());
        loop_tests::world::wait_a_little();
    }
}

#[test]
fn killed_at_every_fault_point_the_card_arrives_and_is_reviewed_once() {
    let mut hits: BTreeMap<&str, usize> = BTreeMap::new();
    let fault = tempfile::Builder::new().prefix("board-fault-").tempdir_in("/var/tmp").unwrap();
    open_to_all(fault.path());
    let (plan, log) = (fault.path().join("plan"), fault.path().join("hits"));
    std::fs::write(&log, "").unwrap();
    open_to_all(&log);
    let env = vec![
        ("BOARD_FAULT_FILE".to_owned(), plan.display().to_string()),
        ("BOARD_FAULT_LOG".to_owned(), log.display().to_string()),
    ];
    let mut world = World::new(Options { env, ..Options::default() }).unwrap();
    let points: Vec<&str> = FAULT_POINTS.iter().copied().filter(|point| in_loop(point)).collect();
    for at in 0..points.len() {
        world.intent(&format!("ok-{at}")).unwrap();
    }
    world.start().unwrap();
    for (at, point) in points.iter().enumerate() {
        let card = format!("ok-{at}");
        let staged = fault.path().join("staged");
        std::fs::write(&staged, format!("{point}:kill")).unwrap();
        open_to_all(&staged);
        std::fs::rename(&staged, &plan).unwrap();
        bring_home(&world, &card);
        // Points that only a later pass reaches (commits, retirement) are met before the next card.
        let taken = fault.path().join("plan.taken");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !taken.exists() && Instant::now() < deadline {
            loop_tests::world::wait_a_little();
        }
        if taken.exists() {
            *hits.entry(point).or_default() += 1;
            std::fs::remove_file(&taken).unwrap();
        } else {
            let _ = std::fs::remove_file(&plan);
        }
        world.wait_committed();
        check(&world);
    }
    println!("kills per fault point: {hits:?}");
    let missed: Vec<&&str> = points.iter().filter(|point| !hits.contains_key(**point)).collect();
    assert!(missed.is_empty(), "never hit: {missed:?}");
}

/// Points that a healthy loop of one card passes; the others belong to faults that tests of the core bring about.
fn in_loop(point: &str) -> bool {
    !["reject.", "recover.", "bring_back.", "adopt.", "state.kept"]
        .iter()
        .any(|other| point.starts_with(other))
        && !OUTSIDE.contains(&point)
}

/// Points of transitions that this loop has none of.
const OUTSIDE: &[&str] = &[];

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Whom a random kill hits: the part of the command line that names it.
const VICTIMS: [(&str, &str); 4] =
    [("trigger", "run trigger"), ("watcher", "run watcher"), ("worker", "run worker"), ("agent", "agent.sh")];

#[test]
fn killed_at_random_moments_every_card_arrives_and_is_reviewed_once() {
    let kills: u32 = if is_long() { 200 } else { 30 };
    let mut chance = Chance::from_env();
    let extra = "[slots]\nbuild = 2\nread = 2\n".to_owned();
    let mut world = World::new(Options { agent_seconds: "0.3".into(), extra, ..Options::default() }).unwrap();
    let cards: Vec<String> = (0..kills.div_ceil(5)).map(|n| format!("slow-{n}")).collect();
    for card in &cards {
        world.intent(card).unwrap();
    }
    world.start().unwrap();
    let (mut done, mut claimed, mut killed) = (0_u32, 0_u32, BTreeMap::<&str, usize>::new());
    for card in &cards {
        world.move_to(card, "in_umsetzung");
        for _ in 0..5 {
            if done == kills {
                break;
            }
            let pause = Duration::from_millis(chance.below(250));
            let until = Instant::now() + pause;
            while Instant::now() < until {
                loop_tests::world::wait_a_little();
            }
            let (name, what) = VICTIMS[usize::try_from(chance.below(4)).unwrap()];
            let mut victims = world.processes(what);
            victims.retain(|process| !process.line.contains("bwrap "));
            let Some(victim) = victims.first() else { continue };
            let in_hand = is_in_hand(&world);
            processes::signal(victim.pid, Signal::SIGKILL);
            *killed.entry(name).or_default() += 1;
            claimed += u32::from(in_hand);
            done += 1;
        }
        bring_home(&world, card);
    }
    world.wait_committed();
    check(&world);
    println!("{done} kills: {killed:?}; {claimed} while a job was claimed and not yet applied");
    assert!(done * 2 > kills, "too few kills found a victim: {done} of {kills}");
    assert!(claimed * 10 >= done * 6, "only {claimed} of {done} kills hit a job in hand");
}

/// Whether a job is claimed and its outcome not applied yet.
fn is_in_hand(world: &World) -> bool {
    let holds = |dir: &std::path::Path| {
        std::fs::read_dir(dir).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(".json"))
        })
    };
    let queue = world.path("state/queue");
    holds(&queue.join("outcomes"))
        || std::fs::read_dir(queue.join("running"))
            .is_ok_and(|slots| slots.flatten().any(|slot| holds(&slot.path())))
}
