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
pub(crate) fn check(world: &World) {
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
    for (at, point) in points.iter().enumerate() {
        world.intent(&card_for(point, at)).unwrap();
    }
    world.start().unwrap();
    for (at, point) in points.iter().enumerate() {
        let card = card_for(point, at);
        let staged = fault.path().join("staged");
        std::fs::write(&staged, format!("{point}:kill")).unwrap();
        open_to_all(&staged);
        std::fs::rename(&staged, &plan).unwrap();
        provoke(&world, point, &card);
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

/// Every point but the one that only a lost write of the watcher reaches; the core's own tests kill there.
fn in_loop(point: &str) -> bool {
    point != "bring_back.moved"
}

/// A card whose way leads past the point.
fn card_for(point: &str, at: usize) -> String {
    let kind = match point.split('.').next() {
        Some("recover") => "slow",
        Some("worktree") => "fail",
        _ => "ok",
    };
    format!("{kind}-{at}")
}

/// Does what leads past the point, and brings the card to where it should end.
fn provoke(world: &World, point: &str, card: &str) {
    match point.split('.').next() {
        Some("adopt") => {
            let order = format!("{{\"type\":\"builder\",\"card_id\":\"{card}\"}}");
            crate::drops::drop_file(world, &format!("{card}.json"), order.as_bytes());
            world.wait_phase(card, &["in_umsetzung", "review", "bereit_fuer_deployment"]);
        }
        Some("reject") => crate::drops::drop_file(world, &format!("{card}.json"), b"{}"),
        Some("recover") => {
            world.move_to(card, "in_umsetzung");
            world.wait("the agent", || (!world.processes("agent.sh").is_empty()).then_some(()));
            for worker in world.processes("--lane build") {
                processes::signal(worker.pid, Signal::SIGKILL);
            }
        }
        Some("worktree") => {
            world.move_to(card, "in_umsetzung");
            world.wait_phase(card, &["umsetzung_fehlgeschlagen"]);
            assert_eq!(world.call(card, "discard").status, 200);
            let worktree = world.path("state/worktrees").join(format!("{card}-1"));
            return world.wait("the worktree to go", || (!worktree.exists()).then_some(()));
        }
        _ => {}
    }
    bring_home(world, card);
}

pub(crate) fn open_to_all(path: &std::path::Path) {
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
    let mut world = World::new(Options { agent_seconds: "1".into(), extra, ..Options::default() }).unwrap();
    let cards: Vec<String> = (0..kills.div_ceil(2)).map(|n| format!("slow-{n}")).collect();
    for card in &cards {
        world.intent(card).unwrap();
    }
    world.start().unwrap();
    let (mut done, mut claimed, mut killed) = (0_u32, 0_u32, BTreeMap::<&str, usize>::new());
    for card in &cards {
        if done == kills {
            break;
        }
        world.move_to(card, "in_umsetzung");
        for _ in 0..5 {
            if done == kills {
                break;
            }
            let until = Instant::now() + Duration::from_millis(50 + chance.below(250));
            while Instant::now() < until {
                loop_tests::world::wait_a_little();
            }
            let mut victims: Vec<(&str, i32)> = Vec::new();
            for (name, what) in VICTIMS {
                let found =
                    world.processes(what).into_iter().find(|process| !process.line.contains("bwrap "));
                victims.extend(found.map(|process| (name, process.pid)));
            }
            if victims.is_empty() {
                continue;
            }
            let at = chance.below(u64::try_from(victims.len()).unwrap());
            let (name, pid) = victims[usize::try_from(at).unwrap()];
            claimed += u32::from(is_in_hand(&world));
            processes::signal(pid, Signal::SIGKILL);
            *killed.entry(name).or_default() += 1;
            done += 1;
        }
        bring_home(&world, card);
    }
    world.wait_committed();
    check(&world);
    println!("{done} kills: {killed:?}; {claimed} while a job was claimed and not yet applied");
    assert_eq!(done, kills, "too few kills found a victim");
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
