//! Tests of the queue: directory effects compared as trees, races with threads, crashes with processes.
use std::path::{Path, PathBuf};

use super::claim::{Claim, Claimed, MayRun, Slot, Standing};
use super::*;
use crate::edge::files::testing::{fill, names, on_a_small_disk, tree};
use crate::model::card::CardId;
use crate::model::job::{
    BuilderPayload, DocumentText, JobType, Payload, ResearchPayload, ReviewPayload, SplitPayload,
};
use crate::model::outcome::{Outcome, RunResult};

#[cfg(feature = "fault-points")]
mod crash;
mod ends;
mod inbox;

/// A job of this type for this card, attempt 1.
fn job(kind: JobType, card: &str) -> Job {
    let intent = DocumentText { path: "docs/intent/a.md".into(), blob: "0".into(), text: "# A\n".into() };
    let commit = "c".repeat(40);
    let payload = match kind {
        JobType::Builder => Payload::Builder(BuilderPayload {
            intent,
            base_commit: commit,
            diff_base: None,
            number: 1,
            resume: None,
            feedback: None,
        }),
        JobType::Review => Payload::Review(ReviewPayload { intent, base: commit.clone(), commit }),
        JobType::Research => Payload::Research(ResearchPayload { question: intent, commit }),
        JobType::Split => Payload::Split(SplitPayload { intent, commit }),
        JobType::Draft => Payload::Draft(crate::model::job::DraftPayload {
            round: 1,
            conversation: Vec::new(),
            revises: None,
        }),
    };
    Job {
        schema: crate::model::job::JOB_SCHEMA,
        id: Uuid::now_v7(),
        attempt: 1,
        kind,
        card_id: card.parse::<CardId>().unwrap(),
        created_at: "2026-11-30T20:00:00Z".parse().unwrap(),
        requested_by: "lukas".into(),
        profile: "standard".into(),
        iteration_limit: 20,
        guidance: None,
        payload,
    }
}

fn queue() -> (tempfile::TempDir, Queue) {
    let dir = tempfile::tempdir().unwrap();
    let queue = Queue::open(dir.path(), true).unwrap();
    (dir, queue)
}

/// All files of the queue, with the ids of these jobs spelled as letters.
fn queue_tree(queue: &Queue, jobs: &[&Job]) -> Vec<String> {
    let mut files = tree(&queue.layout.root);
    for (letter, job) in ["A", "B", "C", "D"].into_iter().zip(jobs) {
        files.iter_mut().for_each(|file| *file = file.replace(&job.id.to_string(), letter));
    }
    files
}

fn claim(slot: &Slot) -> Claimed {
    slot.claim(slot.look().unwrap(), |_| true, |_| Standing::Current, |_| MayRun::Now).unwrap()
}

fn claimed(slot: &Slot) -> Job {
    match claim(slot).claim {
        Claim::Job(job) => *job,
        other @ (Claim::NothingToDo | Claim::OnlyHeldBack(_) | Claim::CannotMove { .. }) => {
            panic!("{other:?}")
        }
    }
}

fn outcome(job: &Job) -> Outcome {
    Outcome::without_run(job, RunResult::Failed, "it failed", crate::edge::clock::now())
}

fn put(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_queue_is_private_and_a_directory_of_somebody_else_stops_it() {
    let (dir, queue) = queue();
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777;
    assert_eq!(mode(&queue.inbox_dir(Lane::Build)), 0o700);
    if !nix::unistd::geteuid().is_root() {
        crate::edge::files::testing::skip("queue-foreign-owner: needs root");
        return;
    }
    std::os::unix::fs::chown(queue.outcomes_dir(), Some(12345), None).unwrap();
    let error = Queue::open(dir.path(), true).unwrap_err();
    assert!(matches!(error, QueueError::Dir(DirError::Foreign { owner: 12345, .. })), "{error}");
}

#[test]
fn a_directory_behind_a_link_is_refused() {
    let (dir, queue) = queue();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::remove_dir(queue.outcomes_dir()).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), queue.outcomes_dir()).unwrap();
    assert!(matches!(Queue::open(dir.path(), true), Err(QueueError::Dir(DirError::NotADirectory { .. }))));
}

#[test]
fn directories_that_somebody_removed_are_made_again_and_told() {
    let (dir, queue) = queue();
    std::fs::remove_dir_all(&queue.layout.root).unwrap();
    assert!(Queue::open(dir.path(), false).is_err());
    let job = job(JobType::Review, "a");
    assert_eq!(queue.publish(&job).unwrap(), Published::New);
    std::fs::remove_dir(queue.cancel_dir()).unwrap();
    assert_eq!(queue.mend().unwrap(), [queue.cancel_dir()]);
    assert!(queue.mend().unwrap().is_empty());
    std::fs::remove_dir_all(&queue.layout.root).unwrap();
    queue.leave_outcome(&outcome(&job)).unwrap();
    assert_eq!(queue_tree(&queue, &[&job]), ["outcomes/A.1.outcome.json"]);
}

#[test]
fn a_job_is_published_once_into_the_inbox_of_its_lane() {
    let (_dir, queue) = queue();
    let job = job(JobType::Split, "a");
    assert_eq!(queue.publish(&job).unwrap(), Published::New);
    assert_eq!(queue.publish(&job).unwrap(), Published::AlreadyThere);
    assert_eq!(queue_tree(&queue, &[&job]), ["inbox/read/A.1.json"]);
}

#[test]
fn a_strange_file_under_the_name_of_a_job_gives_way_to_it() {
    let (_dir, queue) = queue();
    let (one, two) = (job(JobType::Split, "a"), job(JobType::Split, "b"));
    put(&queue.inbox_dir(Lane::Read), &one.reference().job_file(), "{}");
    std::fs::create_dir(queue.inbox_dir(Lane::Read).join(two.reference().job_file())).unwrap();
    assert_eq!(queue.publish(&one).unwrap(), Published::New);
    assert_eq!(queue.publish(&two).unwrap(), Published::New);
    assert_eq!(
        queue_tree(&queue, &[&one, &two]),
        [
            "inbox/read/A.1.json",
            "inbox/read/B.1.json",
            "rejected/A.1.json",
            "rejected/A.1.json.reason.json",
            "rejected/B.1.json.reason.json"
        ]
    );
    assert!(queue.rejected_dir().join(two.reference().job_file()).is_dir());
}

#[test]
fn a_job_of_exactly_8_mib_is_published_and_one_byte_more_is_not() {
    let (_dir, queue) = queue();
    let mut job = job(JobType::Research, "a");
    let size = |job: &Job| spell("x", job, u64::MAX).unwrap().len() as u64;
    let room = MAX_JOB_BYTES - size(&job);
    let fill = |job: &mut Job, more: u64| {
        let Payload::Research(research) = &mut job.payload else { panic!() };
        research.question.text.push_str(&"x".repeat(usize::try_from(more).unwrap()));
    };
    fill(&mut job, room);
    queue.publish(&job).unwrap();
    let slot = Slot::acquire(&queue, Lane::Research, 1).unwrap();
    assert_eq!(claimed(&slot), job);
    fill(&mut job, 1);
    let refused = queue.publish(&job).unwrap_err();
    assert!(matches!(refused, QueueError::TooLarge { limit: MAX_JOB_BYTES, .. }), "{refused}");
}

#[test]
fn the_view_tells_where_everything_lies() {
    let (_dir, queue) = queue();
    let jobs = ["a", "b", "c", "d"].map(|card| job(JobType::Research, card));
    let [done, running, cancelled, waits] = &jobs;
    queue.publish(done).unwrap();
    let slot = Slot::acquire(&queue, Lane::Research, 1).unwrap();
    claimed(&slot);
    slot.finish(&outcome(done)).unwrap();
    queue.retire_outcome(done.reference(), None).unwrap();
    queue.publish(running).unwrap();
    claimed(&slot);
    queue.leave_outcome(&outcome(cancelled)).unwrap();
    queue.ask_cancel(running.id).unwrap();
    queue.publish(waits).unwrap();
    put(&queue.inbox_dir(Lane::Research), "strange.json", "");

    let asked = jobs.each_ref().map(|job| job.reference());
    for synced in [false, true] {
        let view = queue.view(&asked, synced).unwrap();
        assert_eq!(view.inbox, [(Lane::Research, waits.reference())]);
        let file = crate::model::pending::RunningFile {
            place: "research-1".into(),
            job: running.reference(),
            card_id: Some(running.card_id.clone()),
        };
        assert_eq!(view.running, [file]);
        assert_eq!(view.outcomes, [cancelled.reference()].into());
        assert_eq!(view.done_jobs, [done.reference()].into());
        assert_eq!(view.done_outcomes, [done.reference()].into());
        assert_eq!(view.cancels, [running.id].into());
    }
    assert!(queue.view(&[], false).unwrap().done_jobs.is_empty());
    // A copy in the inbox is asked for by itself.
    put(&queue.inbox_dir(Lane::Research), &done.reference().job_file(), "copy");
    assert_eq!(queue.view(&[], false).unwrap().done_jobs, [done.reference()].into());
}

#[test]
fn a_cancel_is_asked_once_seen_and_cleared() {
    let (_dir, queue) = queue();
    let id = Uuid::now_v7();
    assert!(!queue.cancel_asked(id).unwrap());
    queue.ask_cancel(id).unwrap();
    queue.ask_cancel(id).unwrap();
    assert!(queue.cancel_asked(id).unwrap());
    queue.clear_cancel(id).unwrap();
    queue.clear_cancel(id).unwrap();
    assert!(!queue.cancel_asked(id).unwrap());
}

#[test]
fn a_cancel_in_the_inbox_races_with_the_claim_on_one_rename() {
    let (_dir, queue) = queue();
    let job = job(JobType::Research, "a");
    queue.publish(&job).unwrap();
    assert!(queue.inbox_to_done(Lane::Research, job.reference(), "cancelled").unwrap());
    assert!(!queue.inbox_to_done(Lane::Research, job.reference(), "cancelled").unwrap());
    let slot = Slot::acquire(&queue, Lane::Research, 1).unwrap();
    assert!(matches!(claim(&slot).claim, Claim::NothingToDo));
    assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.json", "done/A.1.json.reason.json"]);
}

#[test]
fn a_job_for_the_external_builder_waits_in_a_place_of_its_own() {
    let (_dir, queue) = queue();
    let job = job(JobType::Builder, "a");
    queue.publish(&job).unwrap();
    assert!(queue.inbox_to_extern(job.reference()).unwrap());
    assert!(!queue.inbox_to_extern(job.reference()).unwrap());
    assert_eq!(queue_tree(&queue, &[&job]), ["running/extern/A.1.json"]);
    assert_eq!(queue.view(&[], true).unwrap().running[0].place, "extern");
    let mut watch = recover::OrphanWatch::default();
    let now = std::time::Instant::now();
    assert!(queue.orphans(&mut watch, std::time::Duration::ZERO, now).unwrap().0.is_empty());
    assert!(queue.extern_to_done(job.reference()).unwrap());
    assert!(!queue.extern_to_done(job.reference()).unwrap());
    assert_eq!(queue_tree(&queue, &[&job]), ["done/A.1.json"]);
}

#[test]
fn on_a_full_disk_nothing_is_written_and_what_only_moves_goes_on() {
    on_a_small_disk("queue-enospc", |dir| {
        let queue = Queue::open(dir, true).unwrap();
        let (one, two) = (job(JobType::Research, "a"), job(JobType::Research, "b"));
        queue.publish(&one).unwrap();
        put(&queue.inbox_dir(Lane::Research), "bad.json", "{}");
        let slot = Slot::acquire(&queue, Lane::Research, 1).unwrap();
        fill(&dir.join("filler"));
        let full = queue.publish(&two).unwrap_err();
        assert!(full.is_no_space() && full.to_string().contains("No space left"), "{full}");
        assert_eq!(claimed(&slot), one);
        let full = slot.finish(&outcome(&one)).unwrap_err();
        assert!(full.is_no_space(), "{full}");
        assert_eq!(
            queue_tree(&queue, &[&one]),
            ["rejected/bad.json", "running/research-1/A.1.json"],
            "no reason could be written, and no temporary is left"
        );
        std::fs::remove_file(dir.join("filler")).unwrap();
        slot.finish(&outcome(&one)).unwrap();
        queue.publish(&two).unwrap();
        assert_eq!(
            queue_tree(&queue, &[&one, &two]),
            ["done/A.1.json", "inbox/research/B.1.json", "outcomes/A.1.outcome.json", "rejected/bad.json"]
        );
    });
}

#[test]
fn on_a_read_only_disk_a_claim_says_what_it_cannot_move() {
    use nix::mount::{MsFlags, mount};
    on_a_small_disk("queue-erofs", |dir| {
        let queue = Queue::open(dir, true).unwrap();
        let job = job(JobType::Research, "a");
        queue.publish(&job).unwrap();
        let slot = Slot::acquire(&queue, Lane::Research, 1).unwrap();
        // The lock is held by a file that is open for writing, so only the queue becomes read-only.
        let (root, none) = (queue.layout.root.as_path(), None::<&str>);
        mount(Some(root), root, none, MsFlags::MS_BIND, none).unwrap();
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(none, root, none, read_only, none).unwrap();
        let Claim::CannotMove { name, error } = claim(&slot).claim else { panic!() };
        assert_eq!(name, job.reference().job_file());
        assert!(error.is_read_only(), "{error}");
        assert!(queue.publish(&job).unwrap_err().is_read_only());
        nix::mount::umount(root).unwrap();
        assert_eq!(claimed(&slot), job);
    });
}
