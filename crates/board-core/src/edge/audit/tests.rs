//! The audit pass in a temporary repository, with an operator who commits, edits, rebases and resets.

use super::*;
use crate::edge::clock;
use crate::edge::documents::Seed;
use crate::edge::git::testing::Fixture;
use crate::model::board::{Policy, WrittenDocument};
use crate::model::card::{Card, CardId};
use crate::model::event::Event;
use crate::model::phase::Phase;

/// A repository with two planned intents, a store and the settings of a test.
struct Setup {
    fixture: Fixture,
    store: Store,
    documents: Documents,
    settings: AuditSettings,
    memory: Memory,
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

fn policy() -> Policy {
    Policy {
        undo_seconds: 0,
        profiles: BTreeMap::new(),
        roles: BTreeMap::new(),
        iteration_cap: 20,
        external_builder: false,
        guidance: BTreeMap::new(),
    }
}

impl Setup {
    fn new() -> Setup {
        let fixture = Fixture::new();
        for name in ["a", "b"] {
            fixture.write(&format!("docs/intent/{name}.md"), format!("# Intent: {name}\n"));
        }
        fixture.run(&["add", "-A"]);
        fixture.run(&["commit", "-q", "-m", "first"]);
        let (store, _) = Store::init(&fixture.dir().join("state")).unwrap();
        let documents = Documents::new(fixture.git(), "main");
        let settings = AuditSettings {
            commit: true,
            name: "Board".into(),
            email: "board@example.org".into(),
            quiet_seconds: 0,
        };
        Setup { fixture, store, documents, settings, memory: Memory::default() }
    }

    fn event(&self, card: &str, event: Event) {
        let seed = self.documents.seed_card(&slug(card)).unwrap();
        self.store
            .update(|board| {
                let id = CardId::Slug(slug(card));
                if let (false, Seed::Card(card)) = (board.cards.contains_key(&id), seed) {
                    board.cards.insert(id.clone(), *card);
                }
                board.apply(&id, event, &clock::stamp("lukas"), &policy())
            })
            .unwrap();
    }

    fn done(&self, card: &str) {
        self.event(card, Event::DoneOutside { reason: "von Hand".into() });
    }

    fn pass_at(&mut self, now: Timestamp) -> AuditPass {
        let audit = Audit { store: &self.store, documents: &self.documents, settings: &self.settings };
        audit.pass(&mut self.memory, now).unwrap()
    }

    fn pass(&mut self) -> AuditPass {
        self.pass_at(clock::now())
    }

    fn subjects(&self) -> Vec<String> {
        self.fixture.run(&["log", "--format=%s", "main"]).lines().map(ToOwned::to_owned).collect()
    }

    fn status(&self) -> String {
        self.fixture.run(&["status", "--porcelain"])
    }

    fn record(&self, card: &str) -> String {
        std::fs::read_to_string(self.fixture.repo().join(format!("docs/board/{card}.yaml"))).unwrap()
    }

    fn outbox(&self) -> Vec<OutboxEntry> {
        self.store.read().unwrap().outbox.clone()
    }

    fn card(&self, name: &str) -> Card {
        self.store.read().unwrap().cards[&CardId::Slug(slug(name))].clone()
    }
}

fn done_subject(card: &str) -> String {
    format!("board: {card} {} → {}", Phase::Geplant, Phase::Deployed)
}

#[test]
fn a_transition_is_one_commit_with_its_trailers_and_the_checkout_is_clean() {
    let mut setup = Setup::new();
    setup.done("a");
    let pass = setup.pass();
    assert_eq!((pass.committed, pass.waiting, pass.undone), (1, None, false));
    assert_eq!(setup.subjects(), [done_subject("a"), "first".into()]);
    assert_eq!(setup.status(), "");
    let message = setup.fixture.run(&["log", "-1", "--format=%an <%ae> %cn%n%(trailers)"]);
    for line in [
        "Board <board@example.org> Board",
        "Board-Card: a",
        "Board-Event: done_outside",
        "Board-Actor: lukas",
    ] {
        assert!(message.lines().any(|found| found == line), "{line} in {message}");
    }
    let outbox = setup.outbox();
    assert_eq!(setup.record("a"), outbox[0].record);
    assert_eq!(outbox[0].committed.as_ref().unwrap().commit, setup.fixture.run(&["rev-parse", "HEAD"]));
    assert_eq!(setup.pass().committed, 0);
    assert_eq!(setup.subjects().len(), 2);
}

#[test]
fn only_the_newest_committed_transition_of_a_card_stays_in_the_outbox() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.event("a", Event::Archived);
    setup.done("b");
    assert_eq!(setup.pass().committed, 3);
    assert_eq!(setup.subjects().len(), 4);
    let left: Vec<(String, Phase)> = setup.outbox().iter().map(|e| (e.card.to_string(), e.step.to)).collect();
    assert_eq!(left, [("a".into(), Phase::Archiviert), ("b".into(), Phase::Deployed)]);
}

#[test]
fn a_commit_that_was_made_before_a_crash_is_found_again_and_not_repeated() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    setup
        .store
        .update(|board| {
            board.outbox[0].committed = None;
            Ok::<(), std::convert::Infallible>(())
        })
        .unwrap();
    setup.memory = Memory::default();
    assert_eq!(setup.pass().committed, 0);
    assert!(setup.outbox()[0].committed.is_some());
    assert_eq!(setup.subjects().len(), 2);
}

#[test]
fn a_file_that_was_written_before_a_crash_is_known_and_committed() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.fixture.write("docs/board/a.yaml", &setup.outbox()[0].record);
    let pass = setup.pass();
    assert!(pass.edits.is_empty() && pass.committed == 1, "{pass:?}");
}

#[test]
fn staged_unstaged_and_untracked_work_of_the_operator_stays_as_it_is() {
    let mut setup = Setup::new();
    setup.fixture.write("staged.txt", "s");
    setup.fixture.run(&["add", "staged.txt"]);
    setup.fixture.write("docs/intent/b.md", "# Intent: b, in Arbeit\n");
    setup.fixture.write("untracked.txt", "u");
    let before = setup.status();
    setup.done("a");
    assert_eq!(setup.pass().committed, 1);
    assert_eq!(setup.status(), before);
    assert_eq!(setup.fixture.run(&["show", "--name-only", "--format="]), "docs/board/a.yaml");
}

#[test]
fn on_another_branch_the_commit_lands_on_the_boards_branch_and_the_checkout_is_not_touched() {
    let mut setup = Setup::new();
    setup.fixture.run(&["checkout", "-q", "-b", "other"]);
    setup.done("a");
    assert_eq!(setup.pass().committed, 1);
    assert_eq!(setup.subjects()[0], done_subject("a"));
    assert_eq!(setup.fixture.run(&["rev-parse", "other"]), setup.fixture.run(&["rev-parse", "main~1"]));
    assert!(!setup.fixture.repo().join("docs/board/a.yaml").exists());
    setup.fixture.run(&["checkout", "-q", "--detach"]);
    setup.done("b");
    assert_eq!(setup.pass().committed, 1);
    assert_eq!(setup.status(), "");
}

#[test]
fn during_a_merge_a_held_lock_or_quiet_time_the_commit_waits_and_says_why() {
    let mut setup = Setup::new();
    setup.done("a");
    let merge = setup.fixture.repo().join(".git/MERGE_HEAD");
    std::fs::write(&merge, setup.fixture.run(&["rev-parse", "HEAD"])).unwrap();
    let pass = setup.pass();
    assert!(pass.undone && pass.waiting.unwrap().reason.starts_with("Ein Merge läuft"));
    std::fs::remove_file(merge).unwrap();
    let lock = setup.fixture.repo().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let pass = setup.pass();
    assert!(pass.undone && pass.waiting.unwrap().reason.contains("index.lock"));
    std::fs::remove_file(lock).unwrap();
    setup.settings.quiet_seconds = 30;
    let pass = setup.pass();
    assert!(pass.waiting.is_some() && !pass.undone, "{pass:?}");
    let later = pass.next.unwrap();
    assert!(later > clock::now());
    assert_eq!(setup.pass_at(later).committed, 1);
    // Its own commit on top is no operator's.
    setup.done("b");
    assert_eq!(setup.pass().committed, 1);
}

#[test]
fn while_somebody_else_has_the_repository_the_pass_waits() {
    let mut setup = Setup::new();
    setup.done("a");
    let (state, git) = (setup.store.dir().to_owned(), setup.documents.git().clone());
    let (ready, held) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _lock = try_lock_repository(&state, &git).unwrap();
            ready.send(()).unwrap();
            let _ = released.recv();
        });
        held.recv().unwrap();
        let pass = setup.pass();
        drop(release);
        assert!(pass.undone && pass.waiting.unwrap().reason.contains("belegt"));
    });
    assert_eq!(setup.pass().committed, 1);
}

#[test]
fn an_edit_by_hand_is_shown_and_only_its_card_waits() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    let edited = format!("{}rank: 5\n", setup.record("a"));
    setup.fixture.write("docs/board/a.yaml", &edited);
    setup.event("a", Event::Archived);
    setup.done("b");
    let pass = setup.pass();
    assert_eq!(pass.committed, 1);
    let edit = &pass.edits[&slug("a")];
    assert_eq!(edit.hash.as_deref(), Some(blob_of(&edited).as_str()));
    assert!(pass.undone);
    assert_eq!(setup.record("a"), edited);
    let board = setup.store.read().unwrap();
    assert!(recorded_text(&board, &slug("a")).unwrap().contains(Phase::Archiviert.id()));
    assert_eq!(setup.documents.record_text(&slug("a")).unwrap(), Some(edited.clone()));
    overrule(&setup, "a", &edited);
    assert_eq!(setup.pass().committed, 2);
    assert_ne!(setup.record("a"), edited);
    assert_eq!(setup.status(), "");
}

fn blob_of(text: &str) -> String {
    crate::model::hash::blob_hash(text.as_bytes())
}

/// The operator's „Board übernehmen“.
fn overrule(setup: &Setup, card: &str, shown: &str) {
    let stamp = clock::stamp("lukas");
    let id = CardId::Slug(slug(card));
    setup.store.update(|board| board.overrule_file(&id, &blob_of(shown), &stamp)).unwrap();
}

#[test]
fn what_the_operator_takes_of_an_edited_record_counts_and_the_file_is_written_anew() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    let phase = |phase: Phase| format!("phase: {phase}\n");
    let text = setup.record("a").replace(&phase(Phase::Deployed), &phase(Phase::Geplant));
    let text = format!("{text}rank: 7\nnote: \"bitte klein\"\nworktree: \"/etc\"\nparent: b\n");
    setup.fixture.write("docs/board/a.yaml", &text);
    let board = setup.store.read().unwrap();
    let edited = edited(&setup.documents, &board, &slug("a"), false).unwrap().unwrap();
    assert_eq!((edited.file.as_str(), edited.hash), (text.as_str(), blob_of(&text)));
    assert!(edited.board.contains(Phase::Deployed.id()));
    let record = crate::model::record::parse(text.as_bytes()).unwrap();
    let id = CardId::Slug(slug("a"));
    let take =
        |board: &mut Board| board.take_file(&id, &record, &blob_of(&text), &clock::stamp("lukas"), &policy());
    setup.store.update(take).unwrap();
    assert_eq!(setup.pass().committed, 1);
    let card = setup.store.read().unwrap().cards[&id].clone();
    assert_eq!((card.phase, card.rank, card.note.as_deref()), (Phase::Geplant, Some(7), Some("bitte klein")));
    assert!(
        card.parent.is_none() && card.build.is_none() && card.job.is_none(),
        "only what a click could set"
    );
    let written = setup.record("a");
    assert!(written.contains("event: file_taken") && written.contains("rank: 7"), "{written}");
    assert!(!written.contains("/etc"), "{written}");
}

#[test]
fn an_edit_that_the_operator_committed_is_shown_as_well() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    let edited = setup.record("a").replace(Phase::Deployed.id(), Phase::Archiviert.id());
    setup.fixture.write("docs/board/a.yaml", &edited);
    setup.fixture.run(&["commit", "-q", "-am", "by hand"]);
    setup.event("a", Event::Archived);
    let pass = setup.pass();
    assert!(pass.edits[&slug("a")].reason.contains("auf dem Branch von Hand"), "{pass:?}");
    assert_eq!(setup.record("a"), edited);
    assert_eq!(setup.card("a").phase, Phase::Archiviert);
}

#[test]
fn after_an_earlier_state_was_brought_back_its_next_transitions_are_committed() {
    let mut setup = Setup::new();
    // Known to the state that is brought back, and committed.
    setup.event("a", Event::Archived);
    setup.pass();
    let earlier = setup.store.read().unwrap();
    // What that state knows nothing of.
    setup.event("a", Event::BroughtBack);
    setup.pass();
    setup.done("a");
    setup.pass();
    setup.store.put_back(Board::clone(&earlier)).unwrap();
    setup.memory = Memory::default();
    setup.event("a", Event::BroughtBack);
    let pass = setup.pass();
    assert_eq!((pass.committed, pass.edits.len()), (1, 0), "{pass:?}");
    assert_eq!(setup.record("a"), setup.outbox()[0].record);
    assert_eq!(setup.subjects().len(), 5, "the history keeps what was");
    assert_eq!(setup.status(), "");
}

#[test]
fn a_record_where_something_else_lies_is_told_and_not_replaced() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.done("b");
    std::fs::create_dir_all(setup.fixture.repo().join("docs/board/a.yaml")).unwrap();
    let pass = setup.pass();
    assert_eq!(pass.committed, 1);
    assert_eq!(pass.edits[&slug("a")].hash, None);
}

#[test]
fn an_amended_or_squashed_board_commit_is_neither_lost_nor_doubled() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    setup.fixture.write("more.txt", "x");
    setup.fixture.run(&["add", "more.txt"]);
    setup.fixture.run(&["commit", "-q", "--amend", "--no-edit"]);
    setup.memory = Memory::default();
    assert_eq!(setup.pass().committed, 0);
    assert_eq!(
        setup.outbox()[0].committed.as_ref().unwrap().commit,
        setup.fixture.run(&["rev-parse", "HEAD"])
    );
    setup.fixture.run(&["reset", "-q", "--soft", "HEAD~1"]);
    setup.fixture.run(&["commit", "-q", "-m", "squashed, without trailers"]);
    assert_eq!(setup.pass().committed, 0);
    assert_eq!(setup.subjects(), ["squashed, without trailers", "first"]);
}

#[test]
fn a_board_commit_that_was_reset_away_is_made_again_with_its_documents() {
    let mut setup = Setup::new();
    setup.done("a");
    let blob = setup.documents.git().write_blob(b"# Bericht\n").unwrap();
    setup
        .store
        .update(|board| {
            let path = "docs/review/a.md".to_owned();
            board.outbox[0].documents.push(WrittenDocument { path, blob: blob.to_string(), replaced: None });
            Ok::<(), std::convert::Infallible>(())
        })
        .unwrap();
    setup.fixture.write("docs/review/a.md", "# Bericht, von Hand ergänzt\n");
    setup.pass();
    let text = || setup.fixture.run(&["show", "main:docs/review/a.md"]);
    assert_eq!(text(), "# Bericht, von Hand ergänzt");
    setup.fixture.run(&["reset", "-q", "--hard", "HEAD~1"]);
    let mut setup = setup;
    setup.event("a", Event::Archived);
    let pass = setup.pass();
    assert_eq!(pass.committed, 2, "{pass:?} {:?}", setup.outbox());
    assert_eq!(setup.fixture.run(&["show", "main:docs/review/a.md"]), "# Bericht");
    let archived = format!("board: a {} → {}", Phase::Deployed, Phase::Archiviert);
    assert_eq!(setup.subjects(), [archived, done_subject("a"), "first".into()]);
}

#[test]
fn a_rebase_over_board_commits_and_a_pull_of_others_lose_and_double_nothing() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    setup.fixture.run(&["checkout", "-q", "-b", "theirs", "HEAD~1"]);
    setup.fixture.write("theirs.txt", "x");
    setup.fixture.run(&["add", "-A"]);
    setup.fixture.run(&["commit", "-q", "-m", "theirs"]);
    setup.fixture.run(&["checkout", "-q", "main"]);
    setup.fixture.run(&["rebase", "-q", "theirs"]);
    setup.event("a", Event::Archived);
    assert_eq!(setup.pass().committed, 1);
    let archived = format!("board: a {} → {}", Phase::Deployed, Phase::Archiviert);
    assert_eq!(setup.subjects(), [archived, done_subject("a"), "theirs".into(), "first".into()]);
    assert_eq!(setup.status(), "");
}

#[test]
fn a_long_outbox_is_worked_off_in_few_commits() {
    let mut setup = Setup::new();
    for round in 0..6 {
        setup.event("a", if round % 2 == 0 { Event::Archived } else { Event::BroughtBack });
        setup.event("b", if round % 2 == 0 { Event::Archived } else { Event::BroughtBack });
    }
    assert_eq!(setup.pass().committed, 12);
    assert_eq!(setup.subjects().len(), 2);
    let trailers = setup.fixture.run(&["log", "-1", "--format=%(trailers:key=Board-Transition)"]);
    assert_eq!(trailers.lines().filter(|line| !line.is_empty()).count(), 12);
    assert_eq!(setup.record("a"), setup.outbox()[0].record);
}

#[test]
fn without_commits_the_records_are_files_and_switching_them_on_makes_up_for_it() {
    let mut setup = Setup::new();
    setup.settings.commit = false;
    setup.done("a");
    setup.event("a", Event::Archived);
    setup.pass();
    assert_eq!(setup.subjects(), ["first"]);
    assert!(setup.record("a").contains(Phase::Archiviert.id()));
    assert_eq!(setup.outbox().len(), 1);
    setup.settings.commit = true;
    setup.memory = Memory::default();
    assert_eq!(setup.pass().committed, 1);
    assert_eq!(setup.status(), "");
}

#[test]
fn a_card_at_rest_leaves_the_state_after_fourteen_days_and_its_record_brings_it_back() {
    let mut setup = Setup::new();
    setup.done("a");
    setup.pass();
    let card = setup.card("a");
    let committed = setup.outbox()[0].committed.as_ref().unwrap().at;
    let days = |n: i64| committed.plus_seconds(n * 24 * 3600);
    setup.memory = Memory::default();
    setup.pass_at(days(history::REST_DAYS).plus_seconds(-1));
    assert_eq!(setup.card("a"), card);
    setup.memory = Memory::default();
    setup.pass_at(days(history::REST_DAYS));
    assert!(setup.store.read().unwrap().cards.is_empty());
    assert!(setup.outbox().is_empty());
    let Seed::Card(seeded) = setup.documents.seed_card(&slug("a")).unwrap() else { panic!() };
    let mut expected = Card { rev: 0, ..card };
    expected.history[0].from = None;
    expected.history[0].note = None;
    assert_eq!(*seeded, expected);
    setup.event("a", Event::Archived);
    assert_eq!(setup.pass().committed, 1);
}
