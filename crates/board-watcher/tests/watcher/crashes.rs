//! The watcher killed at every fault point and run again: everything once, nothing lost.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use board_core::edge::fault::FAULT_POINTS;
use board_core::model::board::OutboxEntry;
use board_core::model::card::{CardId, Source};
use board_core::model::marker::review::Decision;
use board_core::model::marker::split::ChildKind;
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use board_watcher::{Hooks, Watcher};
use nix::sys::signal::Signal;

use crate::setup::{DRAFT, Setup, children, id, intent, settings, settle};

/// Hits of one point at which the watcher is killed, at most: the later ones are the same step for the next card.
const HITS: u32 = 3;

/// Names the directory of a test to [`the_watcher_of_a_crash_test`].
const DIRECTORY: &str = "BOARD_TEST_DIRECTORY";

/// Not a test of its own: what the others start as a process that may be killed.
#[test]
#[ignore = "run by the crash tests as their own process"]
fn the_watcher_of_a_crash_test() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let mut watcher = Watcher::open(settings(dir.as_ref()), Hooks::dev()).unwrap();
    settle(&mut watcher);
}

fn run(setup: &Setup, fault: Option<&str>) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crashes::the_watcher_of_a_crash_test", "--ignored", "--nocapture"]);
    command.env(DIRECTORY, setup.path()).env_remove("BOARD_FAULT_FILE").env("BOARD_AGENT_LOG", "off");
    match fault {
        Some(fault) => command.env("BOARD_FAULT", fault),
        None => command.env_remove("BOARD_FAULT"),
    };
    let output = command.output().unwrap();
    let killed = output.status.signal() == Some(Signal::SIGKILL as i32);
    assert!(killed || output.status.success(), "{fault:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status
}

/// One of everything: a finished draft, a built card, a verdict, children, a report, a dropped file, a synthesis.
fn everything() -> Setup {
    let setup = Setup::new();
    setup.built("three");
    setup.settle();
    let draft = setup.draft();
    setup.succeed(&draft, intent("limit"));
    setup.built("one");
    setup.reviewed("three", Decision::Back, "# Umfang\n\nBericht\n");
    let split = setup.split("two");
    setup.succeed(&split, children(&[("a", ChildKind::Intent), ("b", ChildKind::Research)]));
    std::fs::write(setup.state().join("queue/drop/x.json"), r#"{"type":"research","card_id":"why"}"#)
        .unwrap();
    // The operator's own work, of all kinds.
    setup.write("staged.txt", "s");
    setup.git(&["add", "staged.txt"]);
    setup.write("README", "unstaged");
    setup
}

fn transitions(outbox: &[OutboxEntry]) -> BTreeMap<Slug, usize> {
    let mut found = BTreeMap::new();
    for entry in outbox {
        *found.entry(entry.card.clone()).or_default() += 1;
    }
    found
}

fn check(setup: &Setup, status: &str) {
    let board = setup.board();
    let phase = |name: &str| board.cards[&id(name)].phase;
    let expected = [
        ("limit", Phase::Geplant),
        ("one", Phase::Review),
        ("two", Phase::Aufgeteilt),
        ("three", Phase::PlanungMitFeedback),
        ("a", Phase::Geplant),
        ("b", Phase::Geplant),
        ("why", Phase::RechercheLaeuft),
    ];
    for (name, wanted) in expected {
        assert_eq!(phase(name), wanted, "{name}");
    }
    assert!(!board.cards.contains_key(&CardId::Draft(DRAFT)));
    assert_eq!(board.cards[&id("b")].source, Source::Research);
    assert_eq!(board.cards[&id("two")].children.len(), 2);
    assert!(board.cards.values().all(|card| card.applying.is_none()));
    // Exactly the review and the research are published.
    let jobs = ["one", "why"].map(|name| board.cards[&id(name)].job.clone().unwrap().reference().job_file());
    let mut published = setup.inboxes();
    let mut wanted = jobs.to_vec();
    published.sort();
    wanted.sort();
    assert_eq!(published, wanted);
    assert!(setup.files("outcomes").is_empty() && setup.files("drop").is_empty());
    assert!(setup.files("rejected").is_empty(), "{:?}", setup.files("rejected"));
    // One commit per transition: no trailer twice, none pending.
    let mut trailers = setup.trailers("Board-Transition");
    assert_eq!(trailers.len(), 3 + 1 + 2 + 3 + 1 + 1, "{:?}", setup.subjects());
    trailers.sort();
    trailers.dedup();
    assert_eq!(trailers.len(), 11);
    assert!(board.outbox.iter().all(|entry| entry.committed.is_some()));
    assert!(transitions(&board.outbox).values().all(|count| *count == 1));
    // Documents as they should be, each section once.
    let report = setup.read("docs/review/three.md");
    assert_eq!(report.matches("Bericht\n").count(), 1, "{report}");
    assert_eq!(setup.read("docs/intent/limit.md"), "# Intent: limit\n");
    assert_eq!(setup.read("docs/board/limit.entwurf.md").matches("# Entwurf draft-").count(), 1);
    for path in ["docs/intent/a.md", "docs/research/b.md", "docs/board/one.yaml", "docs/review/three.md"] {
        assert_eq!(setup.git(&["show", &format!("main:{path}")]), setup.read(path).trim_end(), "{path}");
    }
    // The operator's work as it was, and nothing of ours left lying around.
    assert_eq!(setup.git(&["status", "--porcelain"]), status);
    assert!(setup.files("tmp").is_empty() || setup.files("tmp").iter().all(|name| name.ends_with(".tmp")));
}

#[test]
fn killed_at_every_step_and_run_again_everything_is_done_once() {
    let mut hits: BTreeMap<&str, u32> = BTreeMap::new();
    for point in FAULT_POINTS {
        for nth in 1..=HITS {
            let setup = everything();
            let status = setup.git(&["status", "--porcelain"]);
            if run(&setup, Some(&format!("{point}:{nth}"))).success() {
                break;
            }
            *hits.entry(point).or_default() += 1;
            run(&setup, None);
            check(&setup, &status);
        }
    }
    let wanted = [
        "complete.found",
        "complete.applied",
        "complete.published",
        "applying.begun",
        "documents.blob",
        "documents.file",
        "applying.written",
        "adopt.renamed",
        "adopt.state",
        "adopt.ordered",
        "audit.files",
        "audit.committed",
        "audit.marked",
        "retire.moved",
        "publish.renamed",
        "state.renamed",
    ];
    for point in wanted {
        assert!(hits.contains_key(point), "{point} was not hit: {hits:?}");
    }
}
