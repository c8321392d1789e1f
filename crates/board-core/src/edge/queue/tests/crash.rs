//! A whole life of jobs, killed at each fault point of the queue and begun again: nothing is lost, nothing is
//! done twice.
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use super::recover::Progress;
use super::*;
use crate::edge::files::testing::{argument, child};

const LIFE: &str = "edge::queue::tests::crash::a_process_of_the_crash_test";

/// What the process works on: a job that is to be published, one whose outcome was retired before it was
/// applied, and one that a dead worker left; one bad file in the inbox and one dropped file.
struct World {
    dir: tempfile::TempDir,
    queue: Queue,
    jobs: [Job; 3],
}

fn world() -> World {
    let (dir, queue) = queue();
    let jobs = ["new", "retired", "orphan"].map(|card| job(JobType::Review, card));
    let [_, retired, orphan] = &jobs;
    queue.publish(retired).unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    claimed(&slot);
    slot.finish(&outcome(retired)).unwrap();
    queue.retire_outcome(retired.reference(), None).unwrap();
    queue.publish(orphan).unwrap();
    claimed(&slot);
    drop(slot);
    put(&queue.inbox_dir(Lane::Read), "bad.json", "{");
    put(&queue.drop_dir(), "wish.json", "{}");
    put(dir.path(), "jobs", serde_json::to_vec(&jobs).unwrap());
    World { dir, queue, jobs }
}

/// Lines of a file that stands for what is outside of the queue.
fn lines(dir: &Path, name: &str) -> Vec<String> {
    std::fs::read_to_string(dir.join(name)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn note(dir: &Path, name: &str, line: &str) {
    let mut all = lines(dir, name);
    all.push(line.to_owned());
    crate::edge::files::replace_durable(&dir.join(name), all.join("\n").as_bytes()).unwrap();
}

/// One pass of everybody: reconcile, worker, completion, adoption.
#[test]
fn a_process_of_the_crash_test() {
    let Some(dir) = argument() else { return };
    let queue = Queue::open(&dir, true).unwrap();
    let jobs: Vec<Job> = serde_json::from_slice(&std::fs::read(dir.join("jobs")).unwrap()).unwrap();
    let applied = |job: &Job| lines(&dir, "applied").contains(&job.reference().to_string());

    let asked: Vec<JobRef> = jobs.iter().map(Job::reference).collect();
    let view = queue.view(&asked, true).unwrap();
    for job in jobs.iter().filter(|job| !applied(job)) {
        let at = job.reference();
        let waits = view.inbox.iter().any(|(_, there)| *there == at)
            || view.running.iter().any(|file| file.job == at)
            || view.outcomes.contains(&at);
        if waits {
            continue;
        }
        if view.done_outcomes.contains(&at) {
            queue.bring_back(at).unwrap();
        } else {
            assert!(!view.done_jobs.contains(&at), "a job is done without an outcome");
            queue.publish(job).unwrap();
        }
    }

    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    slot.recover(|| Ok::<(), std::convert::Infallible>(()), |_| Ok(None)).unwrap();
    while let Claim::Job(job) = claim(&slot).claim {
        note(&dir, "runs", &job.reference().to_string());
        let last_activity = crate::edge::clock::now();
        let progress = Progress { job: job.reference(), iterations: 1, last_activity, doing: None };
        slot.write_progress(&progress).unwrap();
        slot.finish(&outcome(&job)).unwrap();
    }
    drop(slot);

    for outcome in queue.read_outcomes().unwrap().outcomes {
        let at = outcome.reference();
        if !lines(&dir, "applied").contains(&at.to_string()) {
            note(&dir, "applied", &at.to_string());
        }
        queue.retire_outcome(at, None).unwrap();
    }

    for drop in queue.read_drops().unwrap() {
        queue.take_drop(&drop.name).unwrap();
    }
    for adopted in queue.adopted().unwrap() {
        if !lines(&dir, "wishes").contains(&adopted.key.to_string()) {
            note(&dir, "wishes", &adopted.key.to_string());
        }
        queue.remove_adopted(adopted.key).unwrap();
    }
}

fn all_is_well(world: &World, when: &str) {
    let refs: Vec<String> = world.jobs.iter().map(|job| job.reference().to_string()).collect();
    let jobs = world.jobs.each_ref();
    let files: Vec<String> =
        queue_tree(&world.queue, &jobs).into_iter().filter(|file| !file.starts_with("tmp/")).collect();
    assert_eq!(
        files,
        [
            "done/A.1.json",
            "done/A.1.outcome.json",
            "done/B.1.json",
            "done/B.1.outcome.json",
            "done/C.1.json",
            "done/C.1.outcome.json",
            "rejected/bad.json",
            "rejected/bad.json.reason.json"
        ],
        "{when}"
    );
    let mut applied = lines(world.dir.path(), "applied");
    applied.sort();
    assert_eq!(applied, refs, "{when}: each outcome is applied once");
    let runs = lines(world.dir.path(), "runs");
    assert!(runs.len() <= 1 && runs.iter().all(|run| *run == refs[0]), "{when}: {runs:?}");
    assert_eq!(lines(world.dir.path(), "wishes").len(), 1, "{when}");
}

/// Points of the queue as its sources spell them.
fn points_of_the_queue() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/edge/queue");
    let mut points = BTreeSet::new();
    for name in names(&dir).into_iter().filter(|name| name.ends_with(".rs")) {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        let used = text.split(concat!("fault_point!", "(\"")).skip(1);
        points.extend(used.map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    points
}

#[test]
fn a_life_without_a_crash_hits_every_fault_point_of_the_queue() {
    let world = world();
    let log = world.dir.path().join("hits");
    let mut life = child(LIFE, world.dir.path());
    assert!(life.env("BOARD_FAULT_LOG", &log).status().unwrap().success());
    all_is_well(&world, "no crash");
    let hits: BTreeSet<String> = lines(world.dir.path(), "hits").into_iter().collect();
    assert_eq!(hits, points_of_the_queue());
}

#[test]
fn a_life_killed_at_any_step_once_or_twice_loses_nothing_and_repeats_nothing() {
    let points = points_of_the_queue();
    let long = std::env::var_os("BOARD_TEST_LONG").is_some();
    for (n, first) in points.iter().enumerate() {
        for (m, second) in points.iter().enumerate() {
            // All pairs in a long run; otherwise each point once as the first and once as the second.
            if !long && m != (n * 7 + 3) % points.len() {
                continue;
            }
            let world = world();
            let killed = |plan: &str| {
                let status = child(LIFE, world.dir.path()).env("BOARD_FAULT", plan).status().unwrap();
                assert!(status.success() || status.signal() == Some(9), "{first}, {second}: {status}");
                !status.success()
            };
            assert!(killed(first), "{first} was not hit");
            killed(second);
            for _ in 0..2 {
                assert!(child(LIFE, world.dir.path()).status().unwrap().success(), "{first}, {second}");
            }
            all_is_well(&world, &format!("{first}, then {second}"));
        }
    }
}
