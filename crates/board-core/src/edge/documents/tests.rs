//! Documents of a temporary repository: found, read, told when they are broken, and written.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use uuid::Uuid;

use super::*;
use crate::edge::git::testing::Fixture;
use crate::model::board::Board;
use crate::model::card::{PlannedDocument, WriteKind};
use crate::model::documents::planned;
use crate::model::outcome::RunResult;

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

/// A repository on `main` with one committed intent.
fn repository() -> (Fixture, Documents) {
    let fixture = Fixture::new();
    fixture.write("docs/intent/first.md", "# Intent: Erste\n");
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "first"]);
    let documents = Documents::new(fixture.git(), "main");
    (fixture, documents)
}

#[test]
fn what_the_branch_had_before_a_day_and_no_record_of_is_older_than_the_board() {
    let (fixture, documents) = repository();
    fixture.write("docs/research/why.md", "# Warum?\n");
    fixture.run(&["add", "-A"]);
    let tree = fixture.run(&["write-tree"]);
    let who = "Operator <op@example.org> 1577836800 +0000";
    fixture.write("old-commit", format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nold\n"));
    let old = fixture.run(&["hash-object", "-t", "commit", "-w", "old-commit"]);
    std::fs::remove_file(fixture.repo().join("old-commit")).unwrap();
    fixture.run(&["update-ref", "refs/heads/main", &old]);
    fixture.write("docs/intent/second.md", "# Zweite\n");
    fixture.write("docs/intent/first.md", "# Erste, seither geändert\n");
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "second"]);
    fixture.write("docs/intent/third.md", "# nicht eingecheckt\n");
    let older = |at: &str| -> Vec<String> {
        documents.older_than(at.parse().unwrap()).unwrap().into_iter().collect()
    };
    assert_eq!(older("2019-12-31T23:59:59Z"), Vec::<String>::new());
    assert_eq!(older("2020-01-01T00:00:01.500Z"), ["docs/intent/first.md", "docs/research/why.md"]);
    assert_eq!(older("2999-01-01T00:00:00Z").len(), 3);
    fixture.write("docs/board/first.yaml", record_of(Phase::Deployed));
    fixture.run(&["add", "docs/board"]);
    fixture.run(&["commit", "-q", "-m", "record"]);
    assert_eq!(older("2020-01-02T00:00:00Z"), ["docs/research/why.md"]);
    let elsewhere = Documents::new(fixture.git(), "nirgends");
    assert!(elsewhere.older_than(Timestamp::MIN).unwrap().is_empty());
}

fn record_of(phase: Phase) -> String {
    format!("schema: 1\nphase: {phase}\n")
}

fn scan(documents: &Documents, cache: &mut Cache) -> Catalogue {
    documents.scan(&Board::empty(), cache).unwrap()
}

fn file(fixture: &Fixture, path: &str) -> String {
    std::fs::read_to_string(fixture.repo().join(path)).unwrap()
}

#[test]
fn a_new_file_is_a_card_before_it_is_committed_and_readme_and_hidden_names_are_none() {
    let (fixture, documents) = repository();
    fixture.write("docs/intent/second.md", "no heading\n");
    fixture.write("docs/research/why.md", "---\nprofil: stark\n---\n# Warum?\n");
    for ignored in ["README.md", "_template.md", ".x.md", ".a.board-agent.tmp"] {
        fixture.write(&format!("docs/intent/{ignored}"), "# x\n");
    }
    let found = scan(&documents, &mut Cache::default());
    assert_eq!(found.place, Place::WorkTree(fixture.repo()));
    let shown: Vec<(&str, &str, Source)> =
        found.documents.values().map(|d| (d.slug.as_str(), d.title.as_str(), d.source)).collect();
    assert_eq!(
        shown,
        [
            ("first", "Erste", Source::Intent),
            ("second", "second", Source::Intent),
            ("why", "Warum?", Source::Research)
        ]
    );
    assert_eq!(found.broken, []);
    assert_eq!(found.documents[&slug("second")].blob, blob_hash(b"no heading\n"));
}

#[test]
fn what_cannot_be_a_card_is_told_and_stops_nobody() {
    let (fixture, documents) = repository();
    let intent = |name: &str| fixture.repo().join("docs/intent").join(name);
    symlink("first.md", intent("link.md")).unwrap();
    nix::unistd::mkfifo(&intent("fifo.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(intent("dir.md")).unwrap();
    fixture.write("docs/intent/Bad Name.md", "x");
    fixture.write("docs/intent/notes.txt", "x");
    fixture.write("docs/intent/latin.md", b"# \xe4\n");
    fixture.write("docs/intent/fits.md", "x".repeat(MAX_DOCUMENT_BYTES));
    fixture.write("docs/intent/large.md", "x".repeat(MAX_DOCUMENT_BYTES + 1));
    fixture.write("docs/research/first.md", "# second of this name\n");
    let found = scan(&documents, &mut Cache::default());
    let broken: Vec<(&str, &str)> =
        found.broken.iter().map(|b| (b.path.as_str(), b.reason.as_str())).collect();
    let expected = [
        ("docs/intent/Bad Name.md", "erlaubt sind nur a-z"),
        ("docs/intent/dir.md", "Verzeichnis"),
        ("docs/intent/fifo.md", "keine reguläre Datei"),
        ("docs/intent/large.md", "262145 Bytes"),
        ("docs/intent/latin.md", "kein UTF-8 (ab Byte 2)"),
        ("docs/intent/link.md", "symbolischer Link, keine reguläre Datei"),
        ("docs/intent/notes.txt", "endet nicht auf .md"),
        ("docs/research/first.md", "docs/intent/first.md"),
    ];
    assert_eq!(broken.len(), expected.len(), "{broken:?}");
    for ((path, reason), (wanted, word)) in broken.iter().zip(expected) {
        assert!(*path == wanted && reason.contains(word), "{path}: {reason}");
    }
    assert_eq!(found.documents.keys().map(Slug::as_str).collect::<Vec<_>>(), ["first", "fits"]);
    assert!(matches!(documents.load(Source::Intent, &slug("link")).unwrap(), Found::Broken(_)));
}

#[test]
fn of_two_files_of_one_slug_the_one_of_the_entry_is_the_card() {
    let (fixture, documents) = repository();
    fixture.write("docs/research/first.md", "# Frage\n");
    let mut board = Board::empty();
    let card = Card::new(slug("first").into(), Source::Research, "x", Phase::Geplant, Timestamp::MIN);
    board.cards.insert(card.id.clone(), card);
    let found = documents.scan(&board, &mut Cache::default()).unwrap();
    assert_eq!(found.documents[&slug("first")].source, Source::Research);
    assert_eq!(found.broken[0].path, "docs/intent/first.md");
}

#[test]
fn an_unreadable_file_is_told() {
    if nix::unistd::geteuid().is_root() {
        return; // root reads everything
    }
    let (fixture, documents) = repository();
    let path = fixture.repo().join("docs/intent/first.md");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    assert!(scan(&documents, &mut Cache::default()).broken[0].reason.contains("nicht lesen"));
}

#[test]
fn a_linked_directory_of_documents_is_not_followed() {
    let (fixture, documents) = repository();
    let outside = fixture.dir().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("planted.md"), "# x").unwrap();
    symlink(&outside, fixture.repo().join("docs/research")).unwrap();
    let found = scan(&documents, &mut Cache::default());
    assert_eq!(found.documents.len(), 1);
    assert_eq!(found.broken[0].path, "docs/research");
    assert!(documents.write(&new("docs/research/x.md"), false).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn on_another_branch_documents_are_those_of_the_boards_commit() {
    let (fixture, documents) = repository();
    fixture.run(&["checkout", "-q", "-b", "other"]);
    fixture.write("docs/intent/first.md", "# Anders\n");
    fixture.write("docs/intent/second.md", "# Zweite\n");
    let mut cache = Cache::default();
    let found = scan(&documents, &mut cache);
    let tip = documents.tip().unwrap().unwrap();
    assert_eq!(found.place, Place::Commit(tip));
    let titles: Vec<&str> = found.documents.values().map(|d| d.title.as_str()).collect();
    assert_eq!(titles, ["Erste"]);
    assert!(matches!(documents.load(Source::Intent, &slug("second")).unwrap(), Found::Missing));
    let linked = fixture.dir().join("linked");
    fixture.run(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    assert_eq!(scan(&documents, &mut cache).place, Place::WorkTree(linked));
}

#[test]
fn a_scan_sees_an_edit_a_new_file_and_a_removed_one() {
    let (fixture, documents) = repository();
    let mut cache = Cache::default();
    scan(&documents, &mut cache);
    fixture.write("docs/intent/first.md", "# Intent: Letzte\n");
    fixture.write("docs/intent/new.md", "# Neu\n");
    let titles = |found: &Catalogue| found.documents.values().map(|d| d.title.clone()).collect::<Vec<_>>();
    assert_eq!(titles(&scan(&documents, &mut cache)), ["Letzte", "Neu"]);
    std::fs::remove_file(fixture.repo().join("docs/intent/first.md")).unwrap();
    assert_eq!(titles(&scan(&documents, &mut cache)), ["Neu"]);
}

#[test]
fn records_are_those_of_the_commit_and_never_of_the_work_tree() {
    let (fixture, documents) = repository();
    fixture.write("docs/board/first.yaml", record_of(Phase::Deployed));
    let mut cache = Cache::default();
    assert!(scan(&documents, &mut cache).records.is_empty());
    assert!(
        matches!(documents.seed_card(&slug("first")).unwrap(), Seed::Card(c) if c.phase == Phase::Geplant)
    );
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "record"]);
    fixture.write("docs/board/first.yaml", record_of(Phase::Archiviert));
    let found = scan(&documents, &mut cache);
    for seed in [found.seed_card(&slug("first")), documents.seed_card(&slug("first")).unwrap()] {
        let Seed::Card(card) = seed else { panic!("{seed:?}") };
        assert_eq!((card.phase, card.title.as_str(), card.file_missing), (Phase::Deployed, "Erste", false));
    }
}

#[test]
fn a_record_that_cannot_be_read_is_told_with_its_line_and_makes_no_card() {
    let (fixture, documents) = repository();
    fixture.write("docs/board/first.yaml", "schema: 1\nphase: [\n");
    fixture.write("docs/board/next.yaml", "schema: 1\nphase: von_morgen\n");
    fixture.write("docs/board/first.entwurf.md", "# Entwurf x\n");
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "record"]);
    let found = scan(&documents, &mut Cache::default());
    assert_eq!(found.broken.len(), 1, "{:?}", found.broken);
    assert!(found.broken[0].reason.contains("line"), "{:?}", found.broken);
    assert!(matches!(documents.seed_card(&slug("first")).unwrap(), Seed::Broken(_)));
    let Seed::Broken(why) = found.seed_card(&slug("next")) else { panic!() };
    assert!(why.contains("„von_morgen“"), "{why}");
}

#[test]
fn a_card_is_seeded_from_its_record_even_without_its_file_and_a_run_counts_as_interrupted() {
    let (fixture, documents) = repository();
    fixture.write("docs/board/gone.yaml", record_of(Phase::InUmsetzung));
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "record"]);
    let Seed::Card(card) = documents.seed_card(&slug("gone")).unwrap() else { panic!() };
    assert!(card.file_missing);
    assert_eq!(card.phase, Phase::UmsetzungFehlgeschlagen);
    assert_eq!(card.error.unwrap().result, RunResult::Interrupted);
    assert_eq!(documents.seed_card(&slug("nobody")).unwrap(), Seed::Nothing);
    let taken = |name: &str| documents.is_taken(&slug(name)).unwrap();
    assert!(taken("gone") && taken("first") && !taken("nobody"));
}

fn new(path: &str) -> PlannedDocument {
    planned(path.into(), WriteKind::New, "# Neu\n".into())
}

fn blob_text(fixture: &Fixture, written: &Written) -> String {
    fixture.run(&["cat-file", "blob", &written.document.blob])
}

#[test]
fn a_new_document_is_a_blob_and_a_file_and_a_file_that_is_there_is_never_overwritten() {
    let (fixture, documents) = repository();
    let document = new("docs/research/new.md");
    let written = documents.write(&document, false).unwrap();
    assert!(written.changed);
    assert_eq!(file(&fixture, "docs/research/new.md"), "# Neu\n");
    assert_eq!(blob_text(&fixture, &written), "# Neu");
    assert!(matches!(documents.write(&document, false), Err(WriteError::Taken { .. })));
    fixture.write("docs/research/new.md", "edited since");
    let again = documents.write(&document, true).unwrap();
    assert!(!again.changed);
    assert_eq!(blob_text(&fixture, &again), "edited since");
    assert_eq!(file(&fixture, "docs/research/new.md"), "edited since");
}

#[test]
fn a_document_is_replaced_only_over_the_bytes_that_were_recorded() {
    let (fixture, documents) = repository();
    let old = blob_hash(b"# Intent: Erste\n");
    let document =
        planned("docs/intent/first.md".into(), WriteKind::Replace { old: old.clone() }, "# Zwei\n".into());
    let written = documents.write(&document, false).unwrap();
    assert_eq!(written.document.replaced.as_deref(), Some(old.as_str()));
    assert_eq!(file(&fixture, "docs/intent/first.md"), "# Zwei\n");
    let again = documents.write(&document, true).unwrap();
    assert!(!again.changed && again.document == written.document);
    fixture.write("docs/intent/first.md", "# Drei\n");
    let error = documents.write(&document, true).unwrap_err();
    assert!(matches!(&error, WriteError::Changed { found: Some(text), .. } if text == "# Drei\n"), "{error}");
    std::fs::remove_file(fixture.repo().join("docs/intent/first.md")).unwrap();
    assert!(matches!(documents.write(&document, true), Err(WriteError::Changed { found: None, .. })));
}

#[test]
fn a_section_and_a_conversation_are_added_once() {
    let (fixture, documents) = repository();
    let section = |n: u128| {
        let job = Uuid::from_u128(n);
        let text = format!("# Review: T\n\n## t (Auftrag {job})\n\ntext {n}\n");
        planned("docs/review/first.md".into(), WriteKind::Section { job }, text)
    };
    assert!(documents.write(&section(1), false).unwrap().changed);
    assert!(documents.write(&section(2), false).unwrap().changed);
    assert!(!documents.write(&section(1), false).unwrap().changed);
    let text = file(&fixture, "docs/review/first.md");
    assert!(text.find("text 2").unwrap() < text.find("text 1").unwrap(), "{text}");
    let talk = planned(
        "docs/board/first.entwurf.md".into(),
        WriteKind::Append { mark: "draft-1".into() },
        "# Entwurf draft-1\n".into(),
    );
    assert!(documents.write(&talk, false).unwrap().changed);
    assert!(!documents.write(&talk, true).unwrap().changed);
}

#[test]
fn on_another_branch_only_the_blob_is_written() {
    let (fixture, documents) = repository();
    fixture.run(&["checkout", "-q", "-b", "other"]);
    let written = documents.write(&new("docs/intent/new.md"), false).unwrap();
    assert_eq!(blob_text(&fixture, &written), "# Neu");
    assert!(!fixture.repo().join("docs/intent/new.md").exists());
    assert!(matches!(documents.write(&new("docs/intent/first.md"), false), Err(WriteError::Taken { .. })));
}

#[test]
fn a_link_where_a_document_should_go_is_not_followed() {
    let (fixture, documents) = repository();
    let target: PathBuf = fixture.dir().join("target");
    symlink(&target, fixture.repo().join("docs/intent/new.md")).unwrap();
    assert!(matches!(documents.write(&new("docs/intent/new.md"), false), Err(WriteError::Taken { .. })));
    assert!(!target.exists());
}
