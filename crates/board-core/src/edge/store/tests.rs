//! Tests of the store in a directory, with processes of their own where locks and crashes are meant.
use std::convert::Infallible;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::edge::files::testing::{argument, child, fill, names, on_a_small_disk};
use crate::model::card::{Card, CardId, Source};
use crate::model::phase::Phase;

fn id(slug: &str) -> CardId {
    slug.parse().unwrap()
}

fn card(slug: &str) -> Card {
    let at = "2026-11-30T20:00:00Z".parse().unwrap();
    Card::new(id(slug), Source::Intent, slug, Phase::Geplant, at)
}

/// A fresh store with the card `a` in generation 1.
fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let (store, made) = Store::init(dir.path()).unwrap();
    assert!(made);
    add(&store, "a");
    (dir, store)
}

fn add(store: &Store, slug: &str) {
    let change = |board: &mut Board| {
        board.cards.insert(id(slug), card(slug));
        Ok::<(), Infallible>(())
    };
    store.update(change).unwrap();
}

/// Counts in the rank of the card `a`.
fn count(store: &Store) {
    let change = |board: &mut Board| {
        let card = board.cards.get_mut(&id("a")).unwrap();
        card.rank = Some(card.rank.unwrap_or(0) + 1);
        Ok::<(), Infallible>(())
    };
    store.update(change).unwrap();
}

fn counted(store: &Store) -> i64 {
    store.read().unwrap().cards[&id("a")].rank.unwrap_or(0)
}

#[test]
fn the_first_start_makes_an_empty_state_and_the_second_keeps_it() {
    let (dir, store) = store();
    let (again, made) = Store::init(dir.path()).unwrap();
    assert!(!made);
    assert_eq!(again.read().unwrap(), store.read().unwrap());
    assert_eq!(std::fs::metadata(store.path()).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_state_that_was_there_once_is_never_made_anew() {
    let (dir, store) = store();
    count(&store);
    std::fs::remove_file(store.path()).unwrap();
    let lost = Store::init(dir.path()).unwrap_err();
    assert!(matches!(lost, StoreError::Lost { .. }), "{lost}");
    assert!(lost.to_string().contains("boardctl state restore"), "{lost}");
    assert!(matches!(store.read(), Err(StoreError::Missing { .. })));
    assert!(matches!(store.hold(), Err(StoreError::Missing { .. })));

    // Without a snapshot the queue tells.
    std::fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
    let queue = crate::edge::queue::Queue::open(dir.path(), true).unwrap();
    std::fs::write(queue.outcomes_dir().join("x"), "").unwrap();
    assert!(matches!(Store::init(dir.path()), Err(StoreError::Lost { .. })));
    std::fs::remove_file(queue.outcomes_dir().join("x")).unwrap();
    assert!(Store::init(dir.path()).unwrap().1);
}

#[test]
fn a_write_raises_the_generation_and_the_revision_of_the_changed_cards_alone() {
    let (_dir, store) = store();
    add(&store, "b");
    count(&store);
    let board = store.read().unwrap();
    assert_eq!(board.generation, 3);
    assert_eq!((board.cards[&id("a")].rev, board.cards[&id("b")].rev), (3, 2));
}

#[test]
fn what_changes_nothing_and_what_is_refused_writes_nothing() {
    let (_dir, store) = store();
    let before = std::fs::metadata(store.path()).unwrap().ino();
    let same = store.update(|board| Ok::<u64, Infallible>(board.generation)).unwrap();
    assert_eq!(same, 1);
    let refused = store.update(|board| {
        board.cards.clear();
        Err::<(), &str>("no")
    });
    assert!(matches!(refused, Err(UpdateError::Refused("no"))));
    assert_eq!(std::fs::metadata(store.path()).unwrap().ino(), before);
    assert_eq!(store.read().unwrap().cards.len(), 1);
}

#[test]
fn one_hold_carries_several_updates_and_shows_each() {
    let (_dir, store) = store();
    let mut held = store.hold().unwrap();
    for slug in ["b", "c"] {
        let change = |board: &mut Board| {
            board.cards.insert(id(slug), card(slug));
            Ok::<(), Infallible>(())
        };
        held.update(change).unwrap();
        assert!(held.board().cards.contains_key(&id(slug)));
    }
    assert_eq!(held.board().generation, 3);
    assert_eq!(*held.board(), *store.read().unwrap());
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place_and_left_untouched() {
    let (_dir, store) = store();
    let good = std::fs::read_to_string(store.path()).unwrap();
    let newer = good.replacen("\"schema\":1", "\"schema\":2", 1);
    let line = good.lines().position(|line| line.contains("\"title\"")).unwrap() + 1;
    let bad: [(&str, Vec<u8>, usize); 11] = [
        ("empty", b"".to_vec(), 0),
        ("garbage", b"\0\0\0\0".to_vec(), 1),
        ("not UTF-8", b"{\"schema\":1,\n\"branch\":\"\xff\"}".to_vec(), 2),
        ("null", b"null".to_vec(), 1),
        ("cut", good.as_bytes()[..good.len() - 3].to_vec(), good.lines().count() - 1),
        ("two", format!("{good}{good}").into_bytes(), good.lines().count() + 1),
        ("old", good.replacen("\"schema\":1", "\"schema\":0", 1).into_bytes(), 0),
        ("field", good.replacen("\"title\"", "\"titel\"", 1).into_bytes(), line),
        ("phase", good.replacen("\"geplant\"", "\"geplannt\"", 1).into_bytes(), line),
        ("twice", good.replacen("\"title\":\"a\"", "\"title\":\"a\",\"title\":\"b\"", 1).into_bytes(), line),
        ("key", good.replacen("\"a\":{", "\"b\":{", 1).into_bytes(), 0),
    ];
    for (what, bytes, at) in bad {
        std::fs::write(store.path(), &bytes).unwrap();
        let error = store.read().unwrap_err();
        let StoreError::Corrupt { line, .. } = &error else { panic!("{what}: {error}") };
        assert_eq!(*line, at, "{what}: {error}");
        let sentence = error.to_string();
        assert!(sentence.contains("state.json") && sentence.contains("boardctl state restore"), "{sentence}");
        let update = store.update(|board| {
            board.cards.clear();
            Ok::<(), Infallible>(())
        });
        assert!(matches!(update, Err(UpdateError::Store(StoreError::Corrupt { .. }))), "{what}");
        assert!(matches!(Store::init(store.dir()), Err(StoreError::Corrupt { .. })), "{what}");
        assert_eq!(std::fs::read(store.path()).unwrap(), bytes, "{what}");
    }
    std::fs::write(store.path(), newer).unwrap();
    let error = store.read().unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, .. }), "{error}");
}

#[test]
fn a_state_that_is_no_regular_file_or_too_large_is_refused() {
    let (dir, store) = store();
    let moved = dir.path().join("moved");
    std::fs::rename(store.path(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, store.path()).unwrap();
    assert!(store.read().unwrap_err().to_string().contains("a symbolic link"));
    std::fs::remove_file(store.path()).unwrap();
    std::fs::create_dir(store.path()).unwrap();
    assert!(store.read().unwrap_err().to_string().contains("a directory"));
    std::fs::remove_dir(store.path()).unwrap();
    for (bytes, words) in [(MAX_STATE_BYTES, "expected value"), (MAX_STATE_BYTES + 1, "at most")] {
        std::fs::File::create(store.path()).unwrap().set_len(bytes).unwrap();
        let error = store.read().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn temporary_files_of_dead_writers_are_removed_by_the_next_write() {
    let (dir, store) = store();
    std::fs::write(dir.path().join("state.json.0123.tmp"), "half").unwrap();
    std::fs::write(dir.path().join("other.tmp"), "mine").unwrap();
    count(&store);
    assert_eq!(names(dir.path()), ["other.tmp", "snapshots", "state.json", "state.lock"]);
}

#[test]
fn a_snapshot_comes_back_and_the_broken_state_is_kept() {
    let (dir, store) = store();
    count(&store);
    let snapshots = store.snapshots().unwrap();
    // At most one a minute: the first write kept the empty board, the second is too soon.
    assert_eq!(snapshots.iter().map(|s| s.generation).collect::<Vec<_>>(), [0]);
    std::fs::write(store.path(), "garbage").unwrap();
    let newest = store.newest_readable_snapshot().unwrap().unwrap();
    let restored = store.restore(&newest).unwrap();
    assert!(restored.generation > 2);
    let broken = restored.broken.unwrap();
    assert_eq!(std::fs::read_to_string(&broken).unwrap(), "garbage");
    assert!(broken.to_string_lossy().contains("state.json.broken-"));
    assert!(store.read().unwrap().cards.is_empty());
    add(&store, "c");

    std::fs::remove_file(store.path()).unwrap();
    std::fs::write(&newest.path, "bad").unwrap();
    assert!(matches!(store.restore(&newest), Err(StoreError::Corrupt { .. })));
    assert!(matches!(Store::init(dir.path()), Err(StoreError::Lost { .. })));
    let put_back = store.put_back(Board::empty()).unwrap();
    assert!(put_back.broken.is_none() && store.read().is_ok());
}

#[test]
fn a_process_of_the_lost_update_test() {
    let Some(dir) = argument() else { return };
    let store = Store::open(&dir).unwrap();
    let times: u32 = std::env::var("BOARD_TEST_TIMES").unwrap().parse().unwrap();
    (0..times).for_each(|_| count(&store));
}

#[test]
fn three_processes_and_two_threads_lose_no_update() {
    let (dir, store) = store();
    let times: i64 = if std::env::var_os("BOARD_TEST_LONG").is_some() { 1_000 } else { 100 };
    let test = "edge::store::tests::a_process_of_the_lost_update_test";
    let mut children: Vec<_> = (0..3)
        .map(|_| child(test, dir.path()).env("BOARD_TEST_TIMES", times.to_string()).spawn().unwrap())
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..10).for_each(|_| count(&store)));
        }
    });
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(counted(&store), times * 3 + 20);
    assert_eq!(store.read().unwrap().generation, 1 + u64::try_from(times).unwrap() * 3 + 20);
}

#[test]
fn a_full_disk_is_told_from_one_that_cannot_be_written() {
    let of = |errno: nix::errno::Errno| StoreError::Io(FileError::new("write", "/x", errno));
    assert!(of(nix::errno::Errno::ENOSPC).is_no_space() && !of(nix::errno::Errno::ENOSPC).is_read_only());
    for errno in [nix::errno::Errno::EROFS, nix::errno::Errno::EIO] {
        assert!(of(errno).is_read_only() && !of(errno).is_no_space());
    }
}

#[test]
fn a_full_disk_refuses_an_update_and_changes_nothing() {
    on_a_small_disk("store-enospc", |dir| {
        let (store, _) = Store::init(dir).unwrap();
        add(&store, "a");
        fill(&dir.join("filler"));
        let before = std::fs::read(store.path()).unwrap();
        let full = store.update(|board| {
            board.cards.insert(id("b"), card("b"));
            Ok::<(), Infallible>(())
        });
        let Err(UpdateError::Store(error)) = full else { panic!("{full:?}") };
        assert!(error.is_no_space(), "{error}");
        assert_eq!(std::fs::read(store.path()).unwrap(), before);
        assert!(names(dir).iter().all(|name| !name.ends_with(".tmp")));
        std::fs::remove_file(dir.join("filler")).unwrap();
        add(&store, "b");
    });
}

#[cfg(feature = "fault-points")]
#[test]
fn a_writer_killed_at_any_step_leaves_the_old_state_or_the_new_one() {
    for (point, new) in [
        ("state.locked", false),
        ("state.written", false),
        ("state.kept", false),
        ("state.renamed", true),
        ("state.synced", true),
    ] {
        let (dir, store) = store();
        let test = "edge::store::tests::a_process_of_the_lost_update_test";
        let mut writer = child(test, dir.path());
        writer.env("BOARD_TEST_TIMES", "1").env("BOARD_FAULT", point);
        assert!(!writer.status().unwrap().success(), "{point}");
        assert_eq!(counted(&store), i64::from(new), "{point}");
        count(&store);
        assert_eq!(counted(&store), i64::from(new) + 1, "{point}");
        assert!(names(dir.path()).iter().all(|name| !name.ends_with(".tmp")), "{point}");
    }
}
