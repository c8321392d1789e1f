//! Syntheses, orders and given-up worktrees in a temporary repository.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::edge::git::testing::Fixture;
use crate::model::card::Mark;
use crate::model::card::{Build, Order};

struct Setup {
    fixture: Fixture,
    store: Store,
    queue: Queue,
    documents: Documents,
    worktrees: Worktrees,
    policy: Policy,
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

fn id(text: &str) -> CardId {
    CardId::Slug(slug(text))
}

fn now() -> Timestamp {
    "2026-11-30T20:00:00Z".parse().unwrap()
}

impl Setup {
    fn new() -> Setup {
        let fixture = Fixture::new();
        for name in ["parent", "one", "two"] {
            fixture.write(&format!("docs/intent/{name}.md"), format!("# Intent: {name}\n"));
        }
        fixture.run(&["add", "-A"]);
        fixture.run(&["commit", "-q", "-m", "first"]);
        let state = fixture.dir().join("state");
        let (store, _) = Store::init(&state).unwrap();
        let queue = Queue::open(&state, true).unwrap();
        let documents = Documents::new(fixture.git(), "main");
        let worktrees = Worktrees::new(&state.join("worktrees"), fixture.git()).unwrap();
        let policy = Policy {
            undo_seconds: 5,
            profiles: BTreeMap::new(),
            roles: BTreeMap::new(),
            iteration_cap: 20,
            external_builder: false,
            guidance: BTreeMap::new(),
        };
        Setup { fixture, store, queue, documents, worktrees, policy }
    }

    fn pass(&self) -> Pass {
        let desk = Desk {
            store: &self.store,
            queue: &self.queue,
            documents: &self.documents,
            worktrees: &self.worktrees,
            policy: &self.policy,
        };
        let lock = desk.try_lock().unwrap();
        pass(&desk, &lock, now()).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Board)) {
        self.store
            .update(|board| {
                change(board);
                Ok::<(), Infallible>(())
            })
            .unwrap();
    }

    fn board(&self) -> Board {
        Board::clone(&self.store.read().unwrap())
    }

    /// `parent` with the children `one` and `two`, in these phases.
    fn family(&self, one: Phase, two: Phase) {
        self.change(|board| {
            for (name, phase) in [("parent", Phase::Geplant), ("one", one), ("two", two)] {
                let mut card = Card::new(id(name), Source::Intent, name, phase, now());
                if name == "parent" {
                    card.children = vec![slug("one"), slug("two")];
                } else {
                    card.parent = Some(slug("parent"));
                }
                board.cards.insert(id(name), card);
            }
            board.note_terminal(&id("two"), now());
        });
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.fixture.repo().join(path)).unwrap()
    }

    fn order(&self, card: &str, text: &str, base_blob: Option<String>) {
        let mark = Mark { by: "lukas".into(), at: now() };
        let path = format!("docs/intent/{card}.md");
        self.change(|board| {
            let mut entry = Card::new(id(card), Source::Intent, card, Phase::Geplant, now());
            entry.order = Some(Order { text: text.into(), path, base_blob, mark, conflict: None });
            board.cards.insert(id(card), entry);
        });
    }
}

#[test]
fn a_synthesis_that_is_due_is_written_once_unread_and_recorded_on_its_parent() {
    let setup = Setup::new();
    setup.family(Phase::Deployed, Phase::BereitFuerDeployment);
    assert!(is_due(&setup.board()));
    assert_eq!(setup.pass().applied.len(), 1);
    assert!(setup.pass().applied.is_empty());
    let board = setup.board();
    assert_eq!(board.cards[&id("parent")].synthesis, Some(slug("parent-synthese")));
    let card = &board.cards[&id("parent-synthese")];
    assert!(card.unread && card.phase == Phase::Geplant && card.title == "Synthese zu parent");
    assert!(setup.read("docs/intent/parent-synthese.md").contains("### two\n"));
    assert!(!is_due(&board));
    let entry = board.outbox.iter().find(|entry| entry.card.as_str() == "parent-synthese").unwrap();
    assert_eq!(entry.documents[0].path, "docs/intent/parent-synthese.md");
}

#[test]
fn a_taken_name_gives_the_synthesis_a_number() {
    let setup = Setup::new();
    setup.fixture.write("docs/research/parent-synthese.md", "# somebody's\n");
    setup.family(Phase::Deployed, Phase::Archiviert);
    setup.pass();
    assert_eq!(setup.board().cards[&id("parent")].synthesis, Some(slug("parent-synthese-2")));
}

#[test]
fn a_synthesis_edited_between_its_file_and_its_state_is_taken_as_it_is() {
    let setup = Setup::new();
    setup.family(Phase::Deployed, Phase::Deployed);
    let board = setup.board();
    let document = synthesis::plan(&slug("parent-synthese"), &board.cards[&id("parent")], &[]);
    let applying = Applying {
        what: ApplyingFor::Synthesis(slug("parent-synthese")),
        since: now(),
        documents: vec![document],
        begun: false,
        blocked: None,
    };
    setup.change(|board| board.begin_applying(&id("parent"), applying).unwrap());
    setup.fixture.write("docs/intent/parent-synthese.md", "# von Hand\n");
    assert_eq!(setup.pass().applied.len(), 1);
    assert_eq!(setup.read("docs/intent/parent-synthese.md"), "# von Hand\n");
    assert_eq!(setup.board().cards[&id("parent")].synthesis, Some(slug("parent-synthese")));
}

#[test]
fn a_child_whose_file_is_gone_for_good_ends_the_fan_out_and_one_that_is_only_put_aside_does_not() {
    let setup = Setup::new();
    setup.family(Phase::Deployed, Phase::Geplant);
    std::fs::remove_file(setup.fixture.repo().join("docs/intent/two.md")).unwrap();
    assert!(setup.pass().applied.is_empty());
    assert!(!setup.board().cards[&id("two")].file_missing);
    setup.fixture.run(&["commit", "-q", "-am", "removed"]);
    assert_eq!(setup.pass().applied.len(), 1);
    assert!(setup.board().cards[&id("two")].file_missing);
    assert!(setup.read("docs/intent/parent-synthese.md").contains("Grund: Datei fehlt"));
}

#[test]
fn an_order_replaces_exactly_the_text_that_was_edited() {
    let setup = Setup::new();
    let base = crate::model::hash::blob_hash(b"# Intent: one\n");
    setup.order("one", "# Intent: eins\n", Some(base.clone()));
    assert_eq!(setup.pass().applied.len(), 1);
    assert_eq!(setup.read("docs/intent/one.md"), "# Intent: eins\n");
    assert_eq!(setup.board().cards[&id("one")].order, None);
    setup.order("one", "# Intent: drei\n", Some(base));
    let pass = setup.pass();
    assert!(pass.applied.is_empty() && !pass.undone, "{pass:?}");
    let card = setup.board().cards[&id("one")].clone();
    assert!(card.applying.is_none());
    assert!(card.order.unwrap().conflict.unwrap().contains("inzwischen geändert"));
    assert_eq!(setup.read("docs/intent/one.md"), "# Intent: eins\n");
    assert!(setup.pass().applied.is_empty());
}

#[test]
fn an_idea_becomes_an_intent_and_a_taken_name_is_a_conflict_that_stays() {
    let setup = Setup::new();
    let idea = CardId::Idea(uuid::Uuid::from_u128(1));
    let with_path = |path: &str| {
        let mark = Mark { by: "lukas".into(), at: now() };
        let path = path.to_owned();
        setup.change(|board| {
            let mut card = Card::new(idea.clone(), Source::Idea, "Idee", Phase::Idee, now());
            card.order = Some(Order { text: "# Idee\n".into(), path, base_blob: None, mark, conflict: None });
            board.cards.insert(idea.clone(), card);
        });
    };
    with_path("docs/intent/one.md");
    assert!(setup.pass().applied.is_empty());
    let conflict = setup.board().cards[&idea].order.clone().unwrap().conflict.unwrap();
    assert!(conflict.contains("„one“ ist vergeben"), "{conflict}");
    with_path("docs/intent/new.md");
    assert_eq!(setup.pass().applied[0].card, id("new"));
    assert_eq!(setup.read("docs/intent/new.md"), "# Idee\n");
    assert_eq!(setup.board().redirects[&idea], id("new"));
}

#[test]
fn a_document_that_cannot_be_written_is_tried_again_and_the_card_says_why() {
    let setup = Setup::new();
    setup.order("one", "# Intent: eins\n", Some(crate::model::hash::blob_hash(b"# Intent: one\n")));
    let objects = setup.fixture.repo().join(".git/objects");
    let aside = setup.fixture.repo().join(".git/aside");
    std::fs::rename(&objects, &aside).unwrap();
    let desk = Desk {
        store: &setup.store,
        queue: &setup.queue,
        documents: &setup.documents,
        worktrees: &setup.worktrees,
        policy: &setup.policy,
    };
    let lock = desk.try_lock().unwrap();
    let outcome = pass(&desk, &lock, now());
    drop(lock);
    std::fs::rename(&aside, &objects).unwrap();
    assert!(outcome.is_err() || outcome.is_ok_and(|pass| pass.undone));
    assert_eq!(setup.pass().applied.len(), 1);
    assert_eq!(setup.read("docs/intent/one.md"), "# Intent: eins\n");
}

#[test]
fn a_worktree_that_was_given_up_goes_and_its_work_is_kept_as_a_ref() {
    let setup = Setup::new();
    let base = setup.fixture.run(&["rev-parse", "HEAD"]);
    let made = setup.worktrees.create(&slug("one"), 1, &Oid::parse(&base).unwrap()).unwrap();
    std::fs::write(made.path.join("work.txt"), "work").unwrap();
    setup.change(|board| {
        let mut card = Card::new(id("one"), Source::Intent, "one", Phase::Geplant, now());
        card.build = Some(Build {
            number: 1,
            branch: made.branch.clone(),
            worktree: Some("one-1".into()),
            base_commit: base.clone(),
            diff_base: base,
            check_commit: None,
            earlier_check: None,
            given_up: true,
            intent_blob: String::new(),
            saved_refs: vec![],
        });
        board.cards.insert(id("one"), card);
    });
    assert!(is_due(&setup.board()));
    let pass = setup.pass();
    assert!(pass.waits.is_empty(), "{pass:?}");
    assert!(!made.path.exists());
    let build = setup.board().cards[&id("one")].build.clone().unwrap();
    assert_eq!((build.worktree, build.given_up), (None, false));
    assert_eq!(setup.fixture.run(&["show", &format!("{}:work.txt", build.saved_refs[0])]), "work");
    assert!(!is_due(&setup.board()));
}

#[test]
fn strays_of_a_crash_are_removed_and_nothing_else() {
    let setup = Setup::new();
    setup.fixture.write("docs/intent/.0123.board-agent.tmp", "half");
    setup.fixture.write("docs/intent/.own.tmp", "mine");
    assert_eq!(setup.documents.remove_strays().unwrap(), 1);
    assert!(setup.fixture.repo().join("docs/intent/.own.tmp").exists());
}

#[test]
fn a_new_file_is_taken_back_only_while_it_is_what_was_written() {
    let setup = Setup::new();
    let hash = crate::model::hash::blob_hash(b"# Intent: one\n");
    assert!(!setup.documents.remove_own("docs/intent/two.md", &hash).unwrap());
    assert!(setup.documents.remove_own("docs/intent/one.md", &hash).unwrap());
    assert!(!setup.documents.remove_own("docs/intent/one.md", &hash).unwrap());
}
