//! What a claim takes, what it throws out and what it leaves.
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;

use super::*;
use crate::edge::lock::LockError;

/// The job as text, one part replaced.
fn spoiled(from: &str, to: &str) -> (Job, String) {
    let job = job(JobType::Review, "a");
    let text = serde_json::to_string(&job).unwrap();
    let spoiled = text.replacen(from, to, 1);
    assert_ne!(text, spoiled, "{from}");
    (job, spoiled)
}

fn reason(queue: &Queue, name: &str) -> Reason {
    let path = queue.rejected_dir().join(format!("{name}.reason.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn whatever_is_no_job_is_rejected_with_its_reason_and_the_next_job_runs() {
    let good = serde_json::to_string(&job(JobType::Review, "a")).unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = format!("{good}{}", " ".repeat(10 * 1024 * 1024));
    let table: [(&str, Vec<u8>, &str); 10] = [
        ("malformed", b"{\"schema\":1,".to_vec(), "EOF while parsing"),
        ("blank", b"\n".to_vec(), "EOF while parsing"),
        ("zero-bytes", Vec::new(), "EOF while parsing"),
        ("bom", [b"\xef\xbb\xbf", good.as_bytes()].concat(), "expected value"),
        ("nul", b"\0\0\0\0".to_vec(), "expected value"),
        ("utf-8", b"{\"schema\":\"\xff\"}".to_vec(), "not UTF-8"),
        ("huge", huge.into_bytes(), "at most 8388608"),
        ("deep", good.replacen("\"lukas\"", &deep, 1).into_bytes(), "invalid type: sequence"),
        ("array", b"[1,\"review\"]".to_vec(), "an object"),
        ("name", good.into_bytes(), "its name is not"),
    ];
    for (name, bytes, words) in table {
        let (_dir, queue) = queue();
        let name = format!("{name}.json");
        put(&queue.inbox_dir(Lane::Read), &name, bytes);
        let job = job(JobType::Review, "a");
        queue.publish(&job).unwrap();
        let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
        assert_eq!(claimed(&slot), job, "{name}");
        let found = reason(&queue, &name);
        assert!(found.reason.contains(words), "{name}: {}", found.reason);
        assert_eq!(found.name, name);
        assert_eq!(
            queue_tree(&queue, &[&job]),
            [
                format!("rejected/{name}"),
                format!("rejected/{name}.reason.json"),
                "running/read-1/A.1.json".to_owned()
            ]
        );
    }
}

#[test]
fn a_job_with_a_strange_value_is_rejected_with_the_field_at_fault() {
    let table = [
        ("\"schema\":1", "\"schema\":2", Some("schema"), "this version reads schema 1"),
        ("\"type\":\"review\"", "\"type\":\"deploy\"", None, "unknown variant `deploy`"),
        ("\"attempt\":1", "\"attempt\":0", Some("attempt"), "between 1 and"),
        ("\"attempt\":1", "\"attempt\":2", None, "its name is not"),
        ("\"iteration_limit\":20", "\"iteration_limit\":21", Some("iteration_limit"), "between 1 and 20"),
        ("\"card_id\":\"a\"", "\"card_id\":\"../../etc\"", None, "only a-z, 0-9 and -"),
        ("\"card_id\":\"a\"", "\"card_id\":\"a/..\"", None, "only a-z, 0-9 and -"),
        ("\"card_id\":\"a\"", "\"card_id\":\"\"", None, "is empty"),
        ("\"profile\":", "\"extra\":1,\"profile\":", Some("extra"), "unknown field"),
        ("\"profile\":", "\"attempt\":1,\"profile\":", Some("attempt"), "duplicate field"),
        ("\"profile\":\"standard\",", "", Some("profile"), "missing field"),
    ];
    for (from, to, field, words) in table {
        let (_dir, queue) = queue();
        let (job, text) = spoiled(from, to);
        let name = job.reference().job_file();
        put(&queue.inbox_dir(Lane::Read), &name, text);
        let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
        let claimed = claim(&slot);
        assert!(matches!(claimed.claim, Claim::NothingToDo));
        let found = reason(&queue, &name);
        assert!(found.reason.contains(words), "{to}: {}", found.reason);
        assert_eq!(found.field.as_deref(), field, "{to}: {}", found.reason);
        assert_eq!(claimed.thrown_out, [ThrownOut { fate: Fate::Rejected, reason: found }]);
    }
}

#[test]
fn directories_links_and_fifos_are_moved_away_without_being_opened() {
    let (_dir, queue) = queue();
    let inbox = queue.inbox_dir(Lane::Read);
    let target = put(queue.state_dir(), "target", serde_json::to_vec(&job(JobType::Review, "a")).unwrap());
    std::fs::create_dir(inbox.join("directory.json")).unwrap();
    std::fs::write(inbox.join("directory.json/x"), "inside").unwrap();
    symlink(&target, inbox.join("link.json")).unwrap();
    symlink("nowhere", inbox.join("dangling.json")).unwrap();
    // Opening it would wait for a writer for ever.
    nix::unistd::mkfifo(&inbox.join("fifo.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::write(inbox.join(".tmp-copy"), "not matched by the glob").unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    assert_eq!(claim(&slot).thrown_out.len(), 4);
    assert!(matches!(claim(&slot).claim, Claim::NothingToDo));
    assert_eq!(
        queue_tree(&queue, &[]),
        [
            "inbox/read/.tmp-copy",
            "rejected/dangling.json",
            "rejected/dangling.json.reason.json",
            "rejected/directory.json/x",
            "rejected/directory.json.reason.json",
            "rejected/fifo.json",
            "rejected/fifo.json.reason.json",
            "rejected/link.json",
            "rejected/link.json.reason.json"
        ]
    );
    assert!(reason(&queue, "fifo.json").reason.contains("a fifo"));
    assert!(target.exists());
}

#[test]
fn a_file_that_cannot_be_read_or_belongs_to_somebody_else_is_rejected() {
    let (_dir, queue) = queue();
    let job = job(JobType::Review, "a");
    queue.publish(&job).unwrap();
    let path = queue.inbox_dir(Lane::Read).join(job.reference().job_file());
    let words = if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        "belongs to uid 12345"
    } else {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        "may not read it"
    };
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    assert!(matches!(claim(&slot).claim, Claim::NothingToDo));
    assert!(reason(&queue, &job.reference().job_file()).reason.contains(words));
}

#[test]
fn a_job_in_the_inbox_of_another_lane_is_rejected() {
    let (_dir, queue) = queue();
    let job = job(JobType::Builder, "a");
    let name = job.reference().job_file();
    put(&queue.inbox_dir(Lane::Read), &name, serde_json::to_vec(&job).unwrap());
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    claim(&slot);
    assert!(reason(&queue, &name).reason.contains("belongs to the lane build, not read"));
}

#[test]
fn a_copy_of_a_job_that_runs_left_its_outcome_or_is_done_ends_as_a_duplicate() {
    let (_dir, queue) = queue();
    let job = job(JobType::Review, "a");
    let name = job.reference().job_file();
    queue.publish(&job).unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    claimed(&slot);
    let copy = || put(&queue.inbox_dir(Lane::Read), &name, serde_json::to_vec(&job).unwrap());
    let duplicate = |words: &str| {
        copy();
        let claimed = claim(&slot);
        assert!(matches!(claimed.claim, Claim::NothingToDo));
        let reason = &claimed.thrown_out[0].reason.reason;
        assert!(reason.starts_with("duplicate") && reason.contains(words), "{reason}");
    };
    duplicate("is running");
    slot.finish(&outcome(&job)).unwrap();
    duplicate("left its outcome");
    queue.retire_outcome(job.reference(), None).unwrap();
    duplicate("is done");
    assert_eq!(names(&queue.rejected_dir()).len(), 6);
}

#[test]
fn a_job_that_is_nobodys_current_one_ends_in_done_with_its_reason() {
    let (_dir, queue) = queue();
    let (old, new) = (job(JobType::Review, "a"), job(JobType::Review, "b"));
    queue.publish(&old).unwrap();
    queue.publish(&new).unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    let standing = |job: &Job| {
        if job.id == old.id { Standing::Superseded("the card moved on".into()) } else { Standing::Current }
    };
    let claimed = slot.claim(slot.look().unwrap(), |_| true, standing, |_| MayRun::Now).unwrap();
    assert!(matches!(claimed.claim, Claim::Job(job) if *job == new));
    slot.superseded(new.reference(), "the card moved on in between").unwrap();
    assert_eq!(
        queue_tree(&queue, &[&old, &new]),
        ["done/A.1.json", "done/A.1.json.reason.json", "done/B.1.json", "done/B.1.json.reason.json"]
    );
}

#[test]
fn jobs_are_taken_by_age_and_attempts_by_number() {
    let (_dir, queue) = queue();
    let mut jobs = ["a", "b", "c"].map(|card| job(JobType::Draft, card));
    jobs[0].attempt = 10;
    let mut ninth = jobs[0].clone();
    ninth.attempt = 9;
    for job in jobs.iter().rev() {
        queue.publish(job).unwrap();
    }
    queue.publish(&ninth).unwrap();
    let slot = Slot::acquire(&queue, Lane::Draft, 1).unwrap();
    let mut order = Vec::new();
    while let Claim::Job(job) = claim(&slot).claim {
        order.push((job.card_id.to_string(), job.attempt));
    }
    let wanted = [("a", 9), ("a", 10), ("b", 1), ("c", 1)];
    assert_eq!(order, wanted.map(|(card, attempt)| (card.to_owned(), attempt)));
}

#[test]
fn what_is_held_back_stays_and_the_next_one_runs() {
    let (_dir, queue) = queue();
    let (paused, free) = (job(JobType::Review, "a"), job(JobType::Review, "b"));
    queue.publish(&paused).unwrap();
    queue.publish(&free).unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    let may_run = |job: &Job| {
        if job.id == paused.id { MayRun::HeldBack("paused until 12:00".into()) } else { MayRun::Now }
    };
    let first = slot.claim(slot.look().unwrap(), |_| true, |_| Standing::Current, may_run).unwrap();
    assert!(matches!(first.claim, Claim::Job(job) if *job == free));
    slot.finish(&outcome(&free)).unwrap();
    let Claim::OnlyHeldBack(held) =
        slot.claim(slot.look().unwrap(), |_| true, |_| Standing::Current, may_run).unwrap().claim
    else {
        panic!()
    };
    assert_eq!(held, [(paused.reference(), "paused until 12:00".to_owned())]);
    assert_eq!(claimed(&slot), paused);
}

#[test]
fn a_long_queue_is_opened_only_as_far_as_it_runs_but_what_nobody_expects_goes_at_once() {
    let (_dir, queue) = queue();
    let jobs = ["a", "b", "c", "d"].map(|card| job(JobType::Review, card));
    for job in &jobs {
        queue.publish(job).unwrap();
    }
    let last = jobs[3].reference();
    // Damaged behind the first that runs: its turn tells.
    put(&queue.inbox_dir(Lane::Read), &jobs[1].reference().job_file(), "{");
    put(&queue.inbox_dir(Lane::Read), "zz.json", "{");
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    let mut opened = Vec::new();
    let mut next = || {
        let standing = |job: &Job| {
            opened.push(job.reference());
            if job.reference() == last { Standing::Superseded("nobody's".into()) } else { Standing::Current }
        };
        let expected = |job: JobRef| job != last;
        let claimed = slot.claim(slot.look().unwrap(), expected, standing, |_| MayRun::Now).unwrap();
        let out = claimed.thrown_out.into_iter().map(|out| out.reason.name).collect::<Vec<_>>();
        let Claim::Job(job) = claimed.claim else { panic!("{:?}", claimed.claim) };
        slot.finish(&outcome(&job)).unwrap();
        (job.reference(), out)
    };
    let [first, second, third, _] = jobs.each_ref().map(Job::reference);
    assert_eq!(next(), (first, vec![last.job_file(), "zz.json".to_owned()]));
    assert_eq!(next(), (third, vec![second.job_file()]));
    assert_eq!(opened, [last, first, third]);
}

#[test]
fn a_second_worker_of_a_slot_waits_and_is_told_for_whom() {
    let (_dir, queue) = queue();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    std::thread::scope(|scope| {
        let busy = || Slot::try_acquire(&queue, Lane::Read, 1).map(drop).unwrap_err();
        let busy = scope.spawn(busy).join().unwrap();
        assert!(matches!(busy, QueueError::Lock(LockError::Busy { holder: Some(_), .. })), "{busy}");
        assert!(scope.spawn(|| Slot::try_acquire(&queue, Lane::Read, 2).is_ok()).join().unwrap());
        let second = scope.spawn(|| Slot::acquire(&queue, Lane::Read, 1).map(drop));
        drop(slot);
        second.join().unwrap().unwrap();
    });
}

#[test]
fn claimers_that_race_get_each_job_once() {
    let (_dir, queue) = queue();
    let jobs: Vec<Job> = (0..40).map(|n| job(JobType::Review, &format!("card-{n}"))).collect();
    for (n, job) in jobs.iter().enumerate() {
        queue.publish(job).unwrap();
        put(&queue.inbox_dir(Lane::Read), &format!("bad-{n}.json"), "{");
    }
    let (all, rejected) = (Mutex::new(Vec::new()), Mutex::new(0));
    std::thread::scope(|scope| {
        for number in 1..=4 {
            let (queue, all, rejected) = (&queue, &all, &rejected);
            scope.spawn(move || {
                let slot = Slot::acquire(queue, Lane::Read, number).unwrap();
                loop {
                    let claimed = claim(&slot);
                    *rejected.lock().unwrap() += claimed.thrown_out.len();
                    let Claim::Job(job) = claimed.claim else { break };
                    slot.finish(&outcome(&job)).unwrap();
                    all.lock().unwrap().push(job.reference());
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort();
    assert_eq!(all, jobs.iter().map(Job::reference).collect::<Vec<_>>());
    assert_eq!(rejected.into_inner().unwrap(), 40);
    assert_eq!(names(&queue.outcomes_dir()).len(), 40);
    assert_eq!(names(&queue.rejected_dir()).len(), 80);
}

#[test]
fn whatever_the_glob_of_a_path_unit_matches_waits() {
    let (_dir, queue) = queue();
    assert_eq!(queue.waits_since(Lane::Read).unwrap(), None);
    for name in ["x.json.tmp", ".x.json", "notes"] {
        std::fs::write(queue.inbox_dir(Lane::Read).join(name), "").unwrap();
    }
    assert_eq!(queue.waits_since(Lane::Read).unwrap(), None);
    std::fs::create_dir(queue.inbox_dir(Lane::Read).join("dir.json")).unwrap();
    assert!(queue.waits_since(Lane::Read).unwrap().is_some());
    let [inbox, running] = view::path_globs(queue.state_dir(), Lane::Read);
    assert_eq!(inbox, format!("{}/*.json", queue.inbox_dir(Lane::Read).display()));
    assert_eq!(running, format!("{}/read-%i/*.json", queue.running_dir().display()));
}

#[test]
fn what_is_published_after_the_look_is_neither_judged_nor_thrown_out() {
    let (_dir, queue) = queue();
    let (known, newer) = (job(JobType::Review, "a"), job(JobType::Review, "b"));
    queue.publish(&known).unwrap();
    let slot = Slot::acquire(&queue, Lane::Read, 1).unwrap();
    let seen = slot.look().unwrap();
    // The state that a worker reads now knows the first job; the second is made and published after that.
    queue.publish(&newer).unwrap();
    let standing = |job: &Job| {
        if *job == known { Standing::Current } else { Standing::Superseded("nobody's".to_owned()) }
    };
    let claimed = slot.claim(seen, |_| true, standing, |_| MayRun::Now).unwrap();
    assert!(matches!(&claimed.claim, Claim::Job(job) if **job == known), "{claimed:?}");
    assert!(claimed.thrown_out.is_empty(), "{claimed:?}");
    assert_eq!(queue.view(&[], false).unwrap().inbox, [(Lane::Read, newer.reference())]);
}
