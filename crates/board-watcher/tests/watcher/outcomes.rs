//! Outcomes become transitions, documents and commits.

use board_core::edge::audit::try_lock_repository;
use board_core::edge::waits::Waits;
use board_core::model::card::{CardId, Source};
use board_core::model::event::Event;
use board_core::model::job::Payload;
use board_core::model::marker::review::Decision;
use board_core::model::marker::split::ChildKind;
use board_core::model::outcome::{Outcome, Produced, RunResult};
use board_core::model::phase::Phase;

use crate::setup::{DRAFT, Setup, children, id, intent, question, source_of};

#[test]
fn a_build_gives_exactly_one_review_of_its_commit_and_the_commits_tell_the_story() {
    let setup = Setup::new();
    let built = setup.built("one");
    let tick = setup.settle();
    assert!(!tick.undone, "{tick:?}");
    let card = setup.card("one");
    assert_eq!(card.phase, Phase::Review);
    let review = card.job.unwrap();
    let Payload::Review(payload) = &review.payload else { panic!() };
    let Some(Produced::Build(produced)) = &built.produced else { panic!() };
    assert_eq!(payload.commit, produced.commit);
    assert_eq!(setup.inboxes(), [review.reference().job_file()]);
    assert_eq!(setup.files("done"), [built.reference().outcome_file()]);
    assert_eq!(setup.files("outcomes"), Vec::<String>::new());
    let (planned, building) = (Phase::Geplant, Phase::InUmsetzung);
    assert_eq!(
        setup.subjects(),
        [
            format!("board: one {building} → {}", Phase::Review),
            format!("board: one {planned} → {building}"),
            "first".into()
        ]
    );
    assert_eq!(setup.git(&["status", "--porcelain"]), "");
    assert_eq!(setup.trailers("Board-Actor"), ["lukas", "board"]);
}

#[test]
fn reviews_are_written_newest_first_and_a_repeated_pass_adds_none() {
    let setup = Setup::new();
    setup.built("one");
    setup.settle();
    setup.reviewed("one", Decision::Back, "# Umfang\n\nerster Bericht\n");
    setup.settle();
    assert_eq!(setup.card("one").phase, Phase::PlanungMitFeedback);
    assert_eq!(setup.card("one").reports[0].missing_headings.len(), 4);
    setup.event("one", Event::Replanned);
    setup.built("one");
    setup.settle();
    let outcome = setup.reviewed("one", Decision::Ready, "# Umfang\n\nzweiter Bericht\n");
    setup.settle();
    assert_eq!(setup.card("one").phase, Phase::BereitFuerDeployment);
    let report = setup.read("docs/review/one.md");
    assert!(report.find("zweiter").unwrap() < report.find("erster").unwrap(), "{report}");
    // The same outcome once more, as after a crash before it was put away.
    setup.queue().bring_back(outcome.reference()).unwrap();
    let commits = setup.subjects().len();
    setup.settle();
    assert_eq!(setup.read("docs/review/one.md"), report);
    assert_eq!((setup.subjects().len(), setup.files("outcomes").len()), (commits, 0));
    assert_eq!(setup.git(&["show", "main:docs/review/one.md"]), report.trim_end());
}

#[test]
fn an_outcome_of_an_old_job_is_kept_marked_stale_and_changes_nothing() {
    let setup = Setup::new();
    let job = setup.start("one");
    setup.settle();
    let mut late = Outcome::without_run(&job, RunResult::Failed, "spät", job.created_at);
    late.attempt = 7;
    setup.queue().leave_outcome(&late).unwrap();
    let mut unknown = Outcome::without_run(&job, RunResult::Failed, "fremd", job.created_at);
    unknown.job_id = uuid::Uuid::from_u128(5);
    unknown.card_id = id("nobody");
    setup.queue().leave_outcome(&unknown).unwrap();
    let before = setup.board();
    setup.settle();
    assert_eq!(setup.board().cards, before.cards);
    let done = setup.files("done");
    for outcome in [late, unknown] {
        let file = outcome.reference().outcome_file();
        assert!(done.contains(&file) && done.contains(&format!("{file}.reason.json")), "{done:?}");
    }
}

#[test]
fn a_question_needs_no_repository_and_is_applied_while_somebody_else_has_it() {
    let setup = Setup::new();
    let draft = setup.draft();
    setup.succeed(&draft, question());
    setup.built("one");
    setup.settle();
    assert_eq!(setup.board().cards[&CardId::Draft(DRAFT)].phase, Phase::EntwurfFrage);
    setup.reviewed("one", Decision::Ready, "# Umfang\n");
    setup.leave(&setup.start("two"), RunResult::Failed, None);
    let (state, git) = (setup.state(), setup.documents().git().clone());
    let (ready, held) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _lock = try_lock_repository(&state, &git).unwrap();
            ready.send(()).unwrap();
            let _ = released.recv();
        });
        held.recv().unwrap();
        let tick = setup.watcher().tick();
        drop(release);
        assert!(tick.undone);
    });
    assert_eq!(setup.card("two").phase, Phase::UmsetzungFehlgeschlagen);
    assert_eq!(setup.card("one").phase, Phase::Review);
    let waits = Waits::read(&setup.state());
    assert!(waits.cards[&id("one")].reason.contains("Repository"), "{waits:?}");
    setup.settle();
    assert_eq!(setup.card("one").phase, Phase::BereitFuerDeployment);
    assert_eq!(Waits::read(&setup.state()), Waits::default());
}

#[test]
fn a_finished_draft_becomes_a_card_with_its_conversation_in_one_commit() {
    let setup = Setup::new();
    let draft = setup.draft();
    let outcome = setup.succeed(&draft, intent("limit"));
    setup.settle();
    let board = setup.board();
    assert_eq!(board.redirects[&CardId::Draft(DRAFT)], id("limit"));
    assert_eq!(board.cards[&id("limit")].phase, Phase::Geplant);
    assert_eq!(setup.read("docs/intent/limit.md"), "# Intent: limit\n");
    let files = setup.git(&["show", "--name-only", "--format=", "main"]);
    assert_eq!(files, "docs/board/limit.entwurf.md\ndocs/board/limit.yaml\ndocs/intent/limit.md");
    assert!(setup.inboxes().is_empty());
    // A late copy is finished business of the card under its new name.
    setup.queue().bring_back(outcome.reference()).unwrap();
    setup.settle();
    assert_eq!(setup.files("done"), [outcome.reference().outcome_file()]);
}

#[test]
fn a_taken_slug_overwrites_nothing_and_the_text_is_kept() {
    let setup = Setup::new();
    setup.write("docs/research/limit.md", "# nicht eingecheckt\n");
    let draft = setup.draft();
    setup.succeed(&draft, intent("limit"));
    setup.settle();
    let card = setup.board().cards[&CardId::Draft(DRAFT)].clone();
    assert_eq!(card.phase, Phase::EntwurfFehlgeschlagen);
    assert_eq!(card.draft.unwrap().proposal.unwrap().body, "# Intent: limit\n");
    assert!(card.error.unwrap().sentence.contains("„limit“ ist vergeben"));
    assert!(!setup.repo().join("docs/intent/limit.md").exists());
    assert_eq!(setup.read("docs/research/limit.md"), "# nicht eingecheckt\n");
}

#[test]
fn children_are_written_all_or_none_and_with_their_parent_in_one_commit() {
    let setup = Setup::new();
    setup.write("docs/intent/b.md", "# schon da\n");
    let job = setup.split("one");
    setup.succeed(&job, children(&[("a", ChildKind::Intent), ("b", ChildKind::Intent)]));
    setup.settle();
    let card = setup.card("one");
    assert_eq!(card.phase, Phase::AufteilungFehlgeschlagen);
    let kept = setup.state().join("logs").join(card.error.unwrap().reply.unwrap());
    let kept = std::fs::read_to_string(kept).unwrap();
    assert_eq!(kept.matches("===CHILD===").count(), 2, "{kept}");
    assert!(!setup.repo().join("docs/intent/a.md").exists());
    let documents = setup.documents();
    let payload =
        board_core::edge::orders::Orders::new(&documents).split_payload(&setup.card("one")).unwrap();
    setup.event("one", Event::SplitRetried { payload });
    let job = setup.card("one").job.unwrap();
    setup.settle();
    setup.succeed(&job, children(&[("a", ChildKind::Intent), ("c", ChildKind::Research)]));
    let commits = setup.subjects().len();
    setup.settle();
    let board = setup.board();
    assert_eq!(board.cards[&id("one")].phase, Phase::Aufgeteilt);
    assert_eq!(source_of(&board, "c"), Source::Research);
    assert_eq!(setup.subjects().len(), commits + 1);
    let files = setup.git(&["show", "--name-only", "--format=", "main"]);
    assert_eq!(
        files,
        "docs/board/a.yaml\ndocs/board/c.yaml\ndocs/board/one.yaml\ndocs/intent/a.md\ndocs/research/c.md"
    );
}

#[test]
fn a_state_that_was_lost_knows_its_families_again_and_the_synthesis_comes_once_and_not_early() {
    let setup = Setup::new();
    setup.event("one", Event::Archived);
    setup.event("one", Event::BroughtBack);
    setup.change(|board| {
        let stamp = board_core::edge::clock::stamp("lukas");
        let new = |name: &str, source| {
            board_core::model::card::Card::new(id(name), source, name, Phase::Geplant, stamp.now)
        };
        board.cards.insert(id("two"), new("two", Source::Intent));
        board.cards.insert(id("why"), new("why", Source::Research));
        for child in ["one", "why"] {
            board.link(&id(child), Some(&id("two")), &stamp).unwrap();
        }
    });
    setup.settle();
    assert!(setup.git(&["show", "main:docs/board/two.yaml"]).contains("one"));
    std::fs::remove_file(setup.state().join("state.json")).unwrap();
    let _ = std::fs::remove_dir_all(setup.state().join("snapshots"));
    board_core::edge::store::Store::init(&setup.state()).unwrap();
    setup.settle();
    let known: Vec<String> = setup.board().cards.keys().map(ToString::to_string).collect();
    assert_eq!(known, ["one", "two", "why"]);
    setup.event("one", Event::DoneOutside { reason: "x".into() });
    setup.settle();
    assert!(!setup.repo().join("docs/intent/two-synthese.md").exists(), "why is open");
    let job = setup.start("why");
    setup.succeed(&job, Produced::Research { report: "# Darum\n".into() });
    setup.settle();
    assert!(setup.read("docs/intent/two-synthese.md").contains("`why`"));
    setup.settle();
    assert!(!setup.repo().join("docs/intent/two-synthese-2.md").exists());
}

#[test]
fn a_report_of_a_research_and_the_synthesis_that_its_end_makes_due_come_in_one_pass() {
    let setup = Setup::new();
    let job = setup.start("why");
    setup.event("one", Event::DoneOutside { reason: "x".into() });
    setup.change(|board| {
        let stamp = board_core::edge::clock::stamp("lukas");
        let parent =
            board_core::model::card::Card::new(id("two"), Source::Intent, "two", Phase::Geplant, stamp.now);
        board.cards.insert(id("two"), parent);
        for child in ["one", "why"] {
            board.link(&id(child), Some(&id("two")), &stamp).unwrap();
        }
    });
    setup.succeed(&job, Produced::Research { report: "# Antwort\n\nDarum.\n".into() });
    setup.settle();
    assert!(setup.read("docs/research-report/why.md").contains("### Antwort\n\nDarum.\n"));
    let synthesis = setup.read("docs/intent/two-synthese.md");
    assert!(synthesis.contains("docs/research-report/why.md"), "{synthesis}");
    assert!(setup.card("two-synthese").unread);
    assert_eq!(setup.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_interrupted_review_runs_once_more_and_an_interrupted_build_waits_for_the_operator() {
    let setup = Setup::new();
    setup.built("one");
    setup.settle();
    let first = setup.card("one").job.unwrap();
    setup.leave(&first, RunResult::Interrupted, None);
    let build = setup.start("two");
    setup.leave(&build, RunResult::Interrupted, None);
    setup.settle();
    let second = setup.card("one").job.unwrap();
    assert_eq!((second.id, second.attempt), (first.id, 2));
    assert_eq!(setup.inboxes(), [second.reference().job_file()]);
    assert_eq!(setup.card("two").phase, Phase::UmsetzungFehlgeschlagen);
    assert_eq!(setup.card("two").error.unwrap().result, RunResult::Interrupted);
}

#[test]
fn an_outcome_that_does_not_fit_its_job_fails_the_run_and_is_not_tried_for_ever() {
    let setup = Setup::new();
    setup.built("one");
    setup.settle();
    let job = setup.card("one").job.unwrap();
    let foreign =
        Produced::Review { commit: "0".repeat(40), decision: Decision::Ready, report: "# x\n".into() };
    setup.succeed(&job, foreign);
    let tick = setup.settle();
    assert!(!tick.undone, "{tick:?}");
    assert_eq!(setup.card("one").phase, Phase::ReviewFehlgeschlagen);
}

#[test]
fn an_edit_of_the_intent_during_its_build_changes_nothing_of_the_run() {
    let setup = Setup::new();
    setup.built("one");
    setup.write("docs/intent/one.md", "# Intent: anders\n");
    setup.settle();
    let Payload::Review(payload) = setup.card("one").job.unwrap().payload else { panic!() };
    assert_eq!(payload.intent.text, "# Intent: one\n");
    let board = setup.board();
    let build = board.cards[&id("one")].build.as_ref().unwrap();
    let Ok(Some(text)) = setup.documents().text_of("docs/intent/one.md") else { panic!() };
    assert_ne!(build.intent_blob, board_core::model::hash::blob_hash(text.as_bytes()));
}

#[test]
fn a_pass_that_finds_nothing_to_do_writes_nothing() {
    let setup = Setup::new();
    setup.built("one");
    let mut watcher = setup.watcher();
    crate::setup::settle(&mut watcher);
    let before = setup.board().generation;
    let head = setup.git(&["rev-parse", "main"]);
    for _ in 0..3 {
        let tick = watcher.tick();
        assert!(!tick.undone && tick.trouble.is_none() && tick.next.is_none(), "{tick:?}");
    }
    assert_eq!((setup.board().generation, setup.git(&["rev-parse", "main"])), (before, head));
}

#[test]
fn a_parked_start_is_published_when_it_is_due_and_has_no_commit_before() {
    let setup = Setup::new();
    let payload = setup.start_payload("one");
    let now = board_core::edge::clock::now();
    let mut stamp = board_core::edge::clock::stamp("lukas");
    stamp.now = now;
    setup.event_at("one", Event::Started { payload }, &stamp);
    let mut watcher = setup.watcher();
    let tick = watcher.tick();
    assert_eq!(tick.next, Some(now.plus_seconds(5)));
    assert!(setup.inboxes().is_empty() && setup.subjects().len() == 1);
    // As if the five seconds were over.
    setup.change(|board| {
        let card = board.cards.get_mut(&id("one")).unwrap();
        card.parked.as_mut().unwrap().not_before = now;
    });
    watcher.tick();
    assert_eq!(setup.inboxes().len(), 1);
    assert_eq!(setup.subjects().len(), 2);
}

/// Publishes the job of a card and claims it for a slot whose worker is then gone.
fn claimed(setup: &Setup, lane: board_core::model::job::Lane) {
    use board_core::edge::queue::claim::{Claim, MayRun, Slot, Standing};
    let queue = setup.queue();
    let slot = Slot::acquire(&queue, lane, 1).unwrap();
    let claim = slot.claim(slot.look().unwrap(), |_| true, |_| Standing::Current, |_| MayRun::Now).unwrap();
    assert!(matches!(claim.claim, Claim::Job(_)));
}

#[test]
fn a_run_whose_worker_is_gone_for_good_becomes_interrupted_and_its_work_is_kept() {
    use board_core::edge::git::Oid;
    use board_core::edge::worktree::Worktrees;
    use board_core::model::job::Lane;
    let setup = Setup::new();
    let draft = setup.draft();
    let build = setup.start("one");
    setup.settle();
    claimed(&setup, Lane::Draft);
    claimed(&setup, Lane::Build);
    let git = setup.documents().git().clone();
    let worktrees = Worktrees::new(&setup.state().join("worktrees"), git).unwrap();
    let base = Oid::parse(&setup.card("one").build.unwrap().base_commit).unwrap();
    let made = worktrees.create(&crate::setup::slug("one"), 1, &base).unwrap();
    std::fs::write(made.path.join("work.txt"), "half done").unwrap();
    // Not before the lock was free for a while.
    setup.settle();
    assert_eq!(setup.files("running/build-1"), [build.reference().job_file()]);
    let mut hooks = board_watcher::Hooks::dev();
    hooks.orphan_after = std::time::Duration::ZERO;
    let mut watcher = board_watcher::Watcher::open(crate::setup::settings(&setup.path()), hooks).unwrap();
    crate::setup::settle(&mut watcher);
    let card = setup.card("one");
    assert_eq!(card.phase, Phase::UmsetzungFehlgeschlagen);
    let saved = card.build.unwrap().saved_refs;
    assert_eq!(saved, [format!("refs/board/saved/{}", build.reference())]);
    assert_eq!(setup.git(&["show", &format!("{}:work.txt", saved[0])]), "half done");
    let again = setup.board().cards[&CardId::Draft(DRAFT)].job.clone().unwrap();
    assert_eq!((again.id, again.attempt), (draft.id, 2));
    assert_eq!(setup.inboxes(), [again.reference().job_file()]);
}

#[test]
fn while_its_sandbox_lives_a_run_is_not_taken_for_an_orphan() {
    use board_core::model::job::Lane;
    let setup = Setup::new();
    setup.draft();
    setup.settle();
    claimed(&setup, Lane::Draft);
    let path = setup.state().join("locks/sandbox-draft-1.lock");
    let holder = std::fs::File::create(&path).unwrap();
    // The sandbox holds a lock of its process, which does not stand in the way of the same process; one of the
    // open file does, and is seen by the same question.
    let lock =
        nix::libc::flock { l_type: nix::libc::F_WRLCK as _, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    nix::fcntl::fcntl(&holder, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    let mut hooks = board_watcher::Hooks::dev();
    hooks.orphan_after = std::time::Duration::ZERO;
    let mut watcher = board_watcher::Watcher::open(crate::setup::settings(&setup.path()), hooks).unwrap();
    assert!(watcher.tick().undone);
    assert_eq!(setup.files("running/draft-1").len(), 1);
    drop(holder);
    crate::setup::settle(&mut watcher);
    assert!(setup.files("running/draft-1").is_empty());
}
