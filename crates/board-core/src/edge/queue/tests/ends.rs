//! Finishing, recovery, outcomes, and files dropped by hand.
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use super::outcomes::Left;
use super::recover::{OrphanWatch, Progress, RecoverError};
use super::*;
use crate::edge::files::read::Read;
use crate::model::outcome::SavedWork;

/// A queue with one claimed job of the lane `build`, whose worker is gone.
fn orphan() -> (tempfile::TempDir, Queue, Job) {
    let (dir, queue) = queue();
    let job = job(JobType::Builder, "a");
    queue.publish(&job).unwrap();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    claimed(&slot);
    (dir, queue, job)
}

/// Recovers the slot; returns for which jobs work was saved.
fn recover(slot: &Slot) -> (recover::Recovered, Vec<JobRef>) {
    let mut saved = Vec::new();
    let save = |job: &Job| {
        saved.push(job.reference());
        Ok::<_, &str>(Some(SavedWork { reference: Some("refs/board/saved/x".into()), worktree: true }))
    };
    let recovered = slot.recover(|| Ok(()), save).unwrap();
    (recovered, saved)
}

#[test]
fn a_finished_job_has_its_outcome_before_it_leaves_running() {
    let (_dir, queue, job) = orphan();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    slot.finish(&outcome(&job)).unwrap();
    let finished = ["done/A.1.json", "outcomes/A.1.outcome.json"];
    assert_eq!(queue_tree(&queue, &[&job]), finished);
    slot.finish(&outcome(&job)).unwrap();
    assert_eq!(queue_tree(&queue, &[&job]), finished);
}

#[test]
fn an_orphan_becomes_interrupted_with_its_work_saved() {
    let (_dir, queue, job) = orphan();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    let (recovered, saved) = recover(&slot);
    assert_eq!((recovered.interrupted, saved), (vec![job.reference()], vec![job.reference()]));
    let found = queue.read_outcomes().unwrap().outcomes;
    assert_eq!(found[0].result, RunResult::Interrupted);
    assert!(found[0].saved.as_ref().unwrap().worktree);
    assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.json", "outcomes/A.1.outcome.json"]);
    let (again, saved) = recover(&slot);
    assert!(again.interrupted.is_empty() && saved.is_empty());
}

#[test]
fn a_run_that_died_between_its_two_renames_is_only_put_away() {
    for retired in [false, true] {
        let (_dir, queue, job) = orphan();
        queue.leave_outcome(&outcome(&job)).unwrap();
        if retired {
            queue.retire_outcome(job.reference(), None).unwrap();
        }
        let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
        let (recovered, saved) = recover(&slot);
        assert_eq!((recovered.finished, saved.len()), (vec![job.reference()], 0));
        let place = if retired { "done/A.1.outcome.json" } else { "outcomes/A.1.outcome.json" };
        assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.json", place]);
    }
}

#[test]
fn work_that_cannot_be_saved_yet_leaves_the_orphan_for_a_later_pass() {
    let (_dir, queue, job) = orphan();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    let busy = slot.recover(|| Ok(()), |_| Err("repository is busy")).unwrap_err();
    assert!(matches!(busy, RecoverError::Work("repository is busy")));
    let alive = slot.recover(|| Err("a process is left"), |_| Ok(None)).unwrap_err();
    assert_eq!(alive.to_string(), "a process is left");
    assert_eq!(queue_tree(&queue, &[&job]), ["running/build-1/A.1.json"]);
    assert_eq!(recover(&slot).0.interrupted, [job.reference()]);
}

#[test]
fn what_is_no_job_in_a_running_directory_is_rejected_by_the_recovery() {
    let (_dir, queue, job) = orphan();
    let running = queue.layout.running(SlotName::Slot { lane: Lane::Build, number: 1 });
    put(&running, "bad.json", "{");
    put(&running, "copy.json", serde_json::to_vec(&job).unwrap());
    std::fs::create_dir(running.join("dir.json")).unwrap();
    nix::unistd::mkfifo(&running.join("fifo.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    assert_eq!(recover(&slot).0.thrown_out.len(), 4);
    assert!(names(&running).is_empty());
    assert_eq!(names(&queue.rejected_dir()).len(), 8);
}

#[test]
fn progress_is_replaced_read_and_gone_with_its_run() {
    let (_dir, queue, job) = orphan();
    let slot = Slot::acquire(&queue, Lane::Build, 1).unwrap();
    assert_eq!(queue.read_progress(slot.name()), None);
    for iterations in 1..=2 {
        let last_activity = "2026-11-30T20:00:00Z".parse().unwrap();
        let progress = Progress { job: job.reference(), iterations, last_activity, doing: None };
        slot.write_progress(&progress).unwrap();
        assert_eq!(queue.read_progress(slot.name()), Some(progress));
    }
    assert_eq!(queue_tree(&queue, &[&job]), ["running/build-1/A.1.json", "running/build-1/progress"]);
    slot.finish(&outcome(&job)).unwrap();
    assert_eq!(queue.read_progress(slot.name()), None);
}

#[test]
fn a_job_under_a_free_slot_lock_is_an_orphan_after_its_time_and_not_before() {
    let (_dir, queue, job) = orphan();
    let (mut watch, limit, start) = (OrphanWatch::default(), Duration::from_secs(30), Instant::now());
    let mut look = |seconds| queue.orphans(&mut watch, limit, start + Duration::from_secs(seconds)).unwrap();
    assert_eq!(look(0), (vec![], true));
    assert_eq!(look(29), (vec![], true));
    assert_eq!(look(30), (vec![(Lane::Build, 1)], false));
    std::thread::scope(|scope| {
        let (held, go) = std::sync::mpsc::channel();
        let (end, stop) = std::sync::mpsc::channel::<()>();
        let queue = &queue;
        scope.spawn(move || {
            let _slot = Slot::acquire(queue, Lane::Build, 1).unwrap();
            held.send(()).unwrap();
            stop.recv().unwrap();
        });
        go.recv().unwrap();
        assert_eq!(look(31), (vec![], false), "somebody took it");
        end.send(()).unwrap();
    });
    assert_eq!(look(40), (vec![], true), "the time begins anew");
    let slot = Slot::try_acquire(&queue, Lane::Build, 1).unwrap();
    assert_eq!(recover(&slot).0.interrupted, [job.reference()]);
    drop(slot);
    assert_eq!(look(100), (vec![], false));
}

#[test]
fn the_outcome_that_was_there_first_counts() {
    let (_dir, queue) = queue();
    let job = job(JobType::Review, "a");
    let first = outcome(&job);
    let second = Outcome::without_run(&job, RunResult::Cancelled, "cancelled", crate::edge::clock::now());
    assert_eq!(queue.leave_outcome(&first).unwrap(), Left::New);
    assert_eq!(queue.leave_outcome(&second).unwrap(), Left::AnotherWasFirst);
    queue.retire_outcome(job.reference(), None).unwrap();
    assert_eq!(queue.leave_outcome(&second).unwrap(), Left::AnotherWasFirst);
    assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.outcome.json"]);
    assert!(queue.bring_back(job.reference()).unwrap());
    assert!(!queue.bring_back(job.reference()).unwrap());
    assert_eq!(queue.read_outcomes().unwrap().outcomes, [first]);
}

#[test]
fn an_outcome_copied_back_is_kept_as_stale_or_recognised_as_the_same() {
    let (_dir, queue) = queue();
    let job = job(JobType::Review, "a");
    queue.leave_outcome(&outcome(&job)).unwrap();
    let (name, done) = (job.reference().outcome_file(), queue.layout.done());
    queue.retire_outcome(job.reference(), None).unwrap();
    std::fs::copy(done.join(&name), queue.outcomes_dir().join(&name)).unwrap();
    assert!(queue.retire_outcome(job.reference(), None).unwrap());
    assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.outcome.json"]);
    std::fs::copy(done.join(&name), queue.outcomes_dir().join(&name)).unwrap();
    assert!(queue.retire_outcome(job.reference(), Some("another attempt is current")).unwrap());
    assert!(!queue.retire_outcome(job.reference(), Some("another attempt is current")).unwrap());
    assert_eq!(
        queue_tree(&queue, &[&job]),
        ["done/A.1.outcome.json", "done/A.1.outcome.json.2", "done/A.1.outcome.json.2.reason.json"]
    );
}

#[test]
fn what_is_no_outcome_is_rejected_and_does_not_hide_the_others() {
    let (_dir, queue) = queue();
    let (one, two) = (job(JobType::Review, "a"), job(JobType::Review, "b"));
    queue.leave_outcome(&outcome(&two)).unwrap();
    queue.leave_outcome(&outcome(&one)).unwrap();
    let dir = queue.outcomes_dir();
    put(&dir, "bad.outcome.json", "{");
    put(&dir, "copy.outcome.json", serde_json::to_vec(&outcome(&one)).unwrap());
    let large = std::fs::File::create(dir.join("large.outcome.json")).unwrap();
    large.set_len(crate::model::outcome::MAX_OUTCOME_BYTES + 1).unwrap();
    std::fs::create_dir(dir.join("dir.outcome.json")).unwrap();
    nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let found = queue.read_outcomes().unwrap();
    assert_eq!(
        found.outcomes.iter().map(Outcome::reference).collect::<Vec<_>>(),
        [one.reference(), two.reference()]
    );
    assert_eq!((found.thrown_out.len(), found.stuck.len()), (5, 0));
    assert_eq!(names(&dir).len(), 2);
}

#[test]
fn a_directory_under_the_name_of_an_outcome_gives_way_to_it() {
    let (_dir, queue) = queue();
    let job = job(JobType::Review, "a");
    std::fs::create_dir(queue.outcomes_dir().join(job.reference().outcome_file())).unwrap();
    assert_eq!(queue.leave_outcome(&outcome(&job)).unwrap(), Left::New);
    assert_eq!(queue.read_outcomes().unwrap().outcomes.len(), 1);
}

#[test]
fn a_dropped_file_is_taken_under_a_key_and_removed_in_the_end() {
    let (_dir, queue) = queue();
    put(&queue.drop_dir(), "b.json", "{\"type\":\"research\"}");
    put(&queue.drop_dir(), "half.json.part", "not yet");
    nix::unistd::mkfifo(&queue.drop_dir().join("a.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let drops = queue.read_drops().unwrap();
    assert_eq!(
        drops.iter().map(|drop| drop.name.to_str().unwrap()).collect::<Vec<_>>(),
        ["a.json", "b.json"]
    );
    assert!(matches!(drops[0].read, Read::NotRegular(_)));
    let Read::Bytes(file) = &drops[1].read else { panic!() };
    assert_eq!((file.uid, file.links), (nix::unistd::geteuid().as_raw(), 1));

    assert!(queue.reject_drop(&drops[0].name, "a fifo", None).unwrap());
    assert!(!queue.reject_drop(&drops[0].name, "a fifo", None).unwrap());
    let key = queue.take_drop(&drops[1].name).unwrap().unwrap();
    assert_eq!(queue.take_drop(OsStr::new("b.json")).unwrap(), None);
    let adopted = queue.adopted().unwrap();
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].key, key);
    assert!(matches!(&adopted[0].read, Read::Bytes(taken) if taken.bytes == file.bytes));
    queue.remove_adopted(key).unwrap();
    queue.remove_adopted(key).unwrap();
    assert!(queue.adopted().unwrap().is_empty());

    put(&queue.drop_dir(), "c.json", "{\"type\":\"draft\"}");
    let key = queue.take_drop(OsStr::new("c.json")).unwrap().unwrap();
    assert!(queue.reject_adopted(key, None, "a draft is begun on the board", Some("type")).unwrap());
    assert_eq!(names(&queue.drop_dir()), ["half.json.part"]);
    let reason = queue.rejected_dir().join(format!("{key}.adopt.reason.json"));
    let reason: Reason = serde_json::from_slice(&std::fs::read(reason).unwrap()).unwrap();
    assert_eq!(reason.field.as_deref(), Some("type"));
}

#[test]
fn a_dropped_file_is_read_up_to_its_limit_and_not_beyond() {
    let (_dir, queue) = queue();
    let limit = usize::try_from(intake::MAX_DROP_BYTES).unwrap();
    put(&queue.drop_dir(), "a.json", "x".repeat(limit));
    put(&queue.drop_dir(), "b.json", "x".repeat(limit + 1));
    let drops = queue.read_drops().unwrap();
    assert!(matches!(drops[0].read, Read::Bytes(_)));
    assert_eq!(drops[1].read, Read::TooLarge { size: intake::MAX_DROP_BYTES + 1 });
}

#[test]
fn what_is_old_is_removed_unless_its_job_is_needed() {
    let (_dir, queue) = queue();
    let jobs = ["a", "b"].map(|card| job(JobType::Review, card));
    for job in &jobs {
        queue.leave_outcome(&outcome(job)).unwrap();
        queue.retire_outcome(job.reference(), None).unwrap();
    }
    std::fs::create_dir(queue.rejected_dir().join("dir.json")).unwrap();
    assert_eq!(queue.remove_old(Some(Duration::from_secs(3600)), None, |_| false).unwrap(), 0);
    assert_eq!(queue.remove_old(None, None, |_| false).unwrap(), 0);
    // An age below zero seconds cannot be asked for; the files are of this second, so a deadline is waited for.
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut removed = 0;
    while removed < 2 && Instant::now() < deadline {
        removed += queue
            .remove_old(Some(Duration::ZERO), Some(Duration::ZERO), |job| job == jobs[0].reference())
            .unwrap();
        std::thread::yield_now();
    }
    assert_eq!(queue_tree(&queue, &[&jobs[0]]), ["done/A.1.outcome.json"]);
}
