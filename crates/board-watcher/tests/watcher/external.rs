//! Jobs for an external builder and what it answers, with a stand-in that does what docs/builder.md asks for.

use std::path::{Path, PathBuf};

use board_core::model::event::Event;
use board_core::model::job::{Job, Payload, parse_job};
use board_core::model::outcome::{Built, Outcome, Produced, RunResult};
use board_core::model::phase::Phase;
use serde_json::{Value, json};

use crate::setup::Setup;

/// The stand-in: it claims a job by a rename out of its inbox.
struct Builder<'s> {
    setup: &'s Setup,
    out: PathBuf,
    results: PathBuf,
}

impl Builder<'_> {
    fn of(setup: &Setup) -> Builder<'_> {
        Builder { setup, out: setup.path().join("out"), results: setup.path().join("results") }
    }

    /// The names in its inbox.
    fn waiting(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn claim(&self) -> Job {
        let [name] = &self.waiting()[..] else { panic!("{:?}", self.waiting()) };
        let mine = self.setup.path().join(name);
        std::fs::rename(self.out.join(name), &mine).unwrap();
        parse_job(&std::fs::read(mine).unwrap()).unwrap()
    }

    /// A commit on the branch of the build, with this file; made without a checkout.
    fn commit(&self, job: &Job, path: &str, text: &str) -> String {
        let Payload::Builder(payload) = &job.payload else { panic!() };
        let tree = self.setup.path().join(format!("tree-{}", job.id));
        let (at, base) = (tree.display().to_string(), &payload.base_commit);
        if !tree.exists() {
            self.setup.git(&["worktree", "add", "-q", "--detach", &at, base]);
        }
        std::fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
        std::fs::write(tree.join(path), text).unwrap();
        self.setup.git(&["-C", &at, "add", "-A"]);
        self.setup.git(&["-C", &at, "commit", "-q", "-m", "gebaut"]);
        let commit = self.setup.git(&["-C", &at, "rev-parse", "HEAD"]);
        self.setup.git(&["branch", "-f", &self.branch(job), &commit]);
        commit
    }

    fn branch(&self, job: &Job) -> String {
        self.setup.card(&job.card_id.to_string()).build.unwrap().branch
    }

    fn result(&self, job: &Job, commit: &str) -> Outcome {
        let Payload::Builder(payload) = &job.payload else { panic!() };
        let mut outcome = Outcome::without_run(job, RunResult::Succeeded, "gebaut", job.created_at);
        outcome.log = Some("../../../etc/passwd".into());
        outcome.produced = Some(Produced::Build(Built {
            branch: "../boese".into(),
            base: payload.base_commit.clone(),
            commit: commit.to_owned(),
            files_changed: 900,
            summary: "fertig".into(),
            put_back: vec!["../x".into()],
        }));
        outcome
    }

    fn leave(&self, outcome: &Outcome) {
        self.leave_as(&outcome.reference().outcome_file(), &serde_json::to_vec(outcome).unwrap());
    }

    fn leave_as(&self, name: &str, bytes: &[u8]) {
        let staged = self.results.join(format!(".{name}.part"));
        std::fs::write(&staged, bytes).unwrap();
        std::fs::rename(staged, self.results.join(name)).unwrap();
    }
}

/// Why a result lies in `rejected/`.
fn rejected(setup: &Setup, name: &str) -> String {
    let path = setup.state().join("queue/rejected").join(format!("{name}.reason.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let reason: Value = serde_json::from_str(&text).unwrap();
    reason["reason"].as_str().unwrap().to_owned()
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_job_goes_out_by_copy_and_its_result_becomes_a_review() {
    let setup = Setup::external();
    let builder = Builder::of(&setup);
    let started = setup.start("one");
    setup.settle();
    assert_eq!(builder.waiting(), [started.reference().job_file()]);
    assert_eq!(setup.files("running/extern"), [started.reference().job_file()]);
    assert!(setup.inboxes().is_empty());
    let job = builder.claim();
    assert_eq!(job, started);
    // It is never taken for an orphan, and not copied once more.
    setup.settle();
    assert!(builder.waiting().is_empty());
    let commit = builder.commit(&job, "src/neu.txt", "neu\n");
    builder.leave(&builder.result(&job, &commit));
    setup.settle();
    let card = setup.card("one");
    assert_eq!(card.phase, Phase::Review);
    let Payload::Review(review) = &card.job.as_ref().unwrap().payload else { panic!() };
    assert_eq!(review.commit, commit);
    assert!(is_empty(&builder.results));
    assert!(setup.files("running/extern").is_empty());
    assert!(setup.files("done").contains(&job.reference().job_file()));
    let kept = setup.state().join("queue/done").join(job.reference().outcome_file());
    let kept: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!((&kept["log"], &kept["runtime"]), (&Value::Null, &json!("extern")));
    assert_eq!(kept["produced"]["build"]["files_changed"], 1);
    assert_eq!(kept["produced"]["build"]["branch"], json!(card.build.unwrap().branch));
}

#[test]
fn a_crash_between_copy_and_move_copies_it_once_more_under_the_same_name() {
    let setup = Setup::external();
    let builder = Builder::of(&setup);
    let job = setup.start("one");
    setup.settle();
    let name = job.reference().job_file();
    let queue = setup.state().join("queue");
    std::fs::rename(queue.join("running/extern").join(&name), queue.join("inbox/build").join(&name)).unwrap();
    setup.settle();
    assert_eq!(builder.waiting(), std::slice::from_ref(&name));
    assert_eq!(setup.files("running/extern"), [name]);
}

#[test]
fn row_44_a_result_that_comes_twice_or_for_an_unknown_card_is_kept_and_changes_nothing() {
    let setup = Setup::external();
    let builder = Builder::of(&setup);
    setup.start("one");
    setup.settle();
    let job = builder.claim();
    let commit = builder.commit(&job, "src/neu.txt", "neu\n");
    let result = builder.result(&job, &commit);
    builder.leave(&result);
    setup.settle();
    let (card, commits) = (setup.card("one"), setup.subjects());
    // The same once more.
    builder.leave(&result);
    setup.settle();
    let name = result.reference().outcome_file();
    assert!(rejected(&setup, &name).contains("has an outcome already"), "{}", rejected(&setup, &name));
    // For a card that nobody knows.
    let mut unknown = result.clone();
    unknown.job_id = uuid::Uuid::from_u128(7);
    unknown.card_id = "nirgends".parse().unwrap();
    builder.leave(&unknown);
    setup.settle();
    assert!(rejected(&setup, &unknown.reference().outcome_file()).contains("no such card"));
    assert!(is_empty(&builder.results));
    assert_eq!((setup.card("one"), setup.subjects()), (card, commits));
}

#[test]
fn what_is_no_result_of_this_job_is_kept_with_its_reason_and_the_card_waits() {
    let setup = Setup::external();
    let builder = Builder::of(&setup);
    setup.start("one");
    setup.settle();
    let job = builder.claim();
    let commit = builder.commit(&job, "src/neu.txt", "neu\n");
    let good = builder.result(&job, &commit);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(&good).unwrap();
        change(&mut value);
        serde_json::to_vec(&value).unwrap()
    };
    let name = good.reference().outcome_file();
    let old = |bytes: &[u8], name: &str| {
        builder.leave_as(name, bytes);
        let file = std::fs::File::options().write(true).open(builder.results.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).unwrap();
    };
    for (bytes, name, why) in [
        (b"{".to_vec(), name.as_str(), "EOF"),
        (with(&|value| value["schema"] = json!(9)), &name, "schema is 9"),
        (with(&|value| value["neu"] = json!(1)), &name, "unknown field"),
        (with(&|value| value["attempt"] = json!(2)), &name, "its name is not the one"),
        (with(&|value| value["produced"]["build"]["commit"] = json!("--upload-pack=x")), &name, ""),
        (serde_json::to_vec(&good).unwrap(), "anders.json", "its name is not the one"),
    ] {
        old(&bytes, name);
        setup.settle();
        let said = rejected(&setup, name);
        assert!(said.contains(why), "{said}");
        assert!(is_empty(&builder.results), "{why}");
        assert_eq!(setup.card("one").phase, Phase::InUmsetzung, "{why}");
        for file in setup.files("rejected") {
            std::fs::remove_file(setup.state().join("queue/rejected").join(file)).unwrap();
        }
    }
    // What is no regular file is taken away without being read.
    std::os::unix::fs::symlink("/etc/passwd", builder.results.join(&name)).unwrap();
    setup.settle();
    assert!(rejected(&setup, &name).contains("regular file"));
    assert!(is_empty(&builder.results));
    // And the right one still counts.
    builder.leave(&good);
    setup.settle();
    assert_eq!(setup.card("one").phase, Phase::Review);
}

#[test]
fn a_commit_that_ours_would_be_refused_for_fails_the_card_with_the_reason() {
    for (path, text, words) in [
        ("docs/board/one.yaml", "phase: deployed\n", "was dem Board gehört"),
        ("docs/review/one.md", "gut\n", "was dem Board gehört"),
        ("gross.bin", &"x".repeat((10 << 20) + 1), "Bytes in einer Datei"),
    ] {
        let setup = Setup::external();
        let builder = Builder::of(&setup);
        setup.start("one");
        setup.settle();
        let job = builder.claim();
        let commit = builder.commit(&job, path, text);
        builder.leave(&builder.result(&job, &commit));
        setup.settle();
        let card = setup.card("one");
        assert_eq!(card.phase, Phase::UmsetzungFehlgeschlagen, "{path}");
        let sentence = card.error.unwrap().sentence;
        assert!(sentence.contains(words), "{path}: {sentence}");
    }
    // One that is not there, is not on the branch, does not come from the base, or changes nothing.
    for (which, words) in
        ["gibt es im Repository nicht", "der Branch board/", "stammt nicht von", "nichts geändert"]
            .iter()
            .enumerate()
    {
        let setup = Setup::external();
        let builder = Builder::of(&setup);
        setup.start("one");
        setup.settle();
        let job = builder.claim();
        let Payload::Builder(payload) = &job.payload else { panic!() };
        let made = builder.commit(&job, "src/neu.txt", "neu\n");
        let on_branch = |commit: String| {
            setup.git(&["branch", "-f", &builder.branch(&job), &commit]);
            commit
        };
        let commit = match which {
            0 => "1".repeat(40),
            1 => payload.base_commit.clone(),
            2 => on_branch(setup.git(&["commit-tree", &format!("{made}^{{tree}}"), "-m", "fremd"])),
            _ => on_branch(payload.base_commit.clone()),
        };
        builder.leave(&builder.result(&job, &commit));
        setup.settle();
        let card = setup.card("one");
        assert_eq!(card.phase, Phase::UmsetzungFehlgeschlagen, "{words}");
        let sentence = card.error.unwrap().sentence;
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn a_build_that_was_given_up_ends_at_once_and_its_late_result_changes_nothing() {
    let setup = Setup::external();
    let builder = Builder::of(&setup);
    setup.start("one");
    setup.settle();
    let job = builder.claim();
    setup.event("one", Event::CancelAsked);
    let card = setup.card("one");
    assert_eq!(card.phase, Phase::UmsetzungFehlgeschlagen);
    assert!(card.error.unwrap().sentence.contains("arbeitet vielleicht noch"));
    setup.settle();
    assert!(setup.files("running/extern").is_empty());
    // The next one goes out although the old one may still be going on.
    let payload = setup.start_payload("one");
    setup.event("one", Event::StartedAfresh { payload });
    setup.settle();
    let next = builder.claim();
    assert_ne!(next.reference(), job.reference());
    let commit = builder.commit(&job, "src/alt.txt", "alt\n");
    let late = builder.result(&job, &commit);
    builder.leave(&late);
    setup.settle();
    assert!(rejected(&setup, &late.reference().outcome_file()).contains("too late"));
    assert_eq!(setup.card("one").phase, Phase::InUmsetzung);
    let commit = builder.commit(&next, "src/neu.txt", "neu\n");
    builder.leave(&builder.result(&next, &commit));
    setup.settle();
    assert_eq!(setup.card("one").phase, Phase::Review);
}

#[test]
fn the_result_that_the_page_for_builders_shows_is_one() {
    let page = include_str!("../../../../docs/builder.md");
    let shown = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let outcome = board_core::model::outcome::parse_outcome(shown.as_bytes()).unwrap();
    assert!(matches!(outcome.produced, Some(Produced::Build(_))));
}
