//! Worktrees made, made again after a crash, removed and found, with a real git.
use std::{os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::edge::git::testing::Fixture;

fn slug() -> Slug {
    Slug::parse("card-7").unwrap()
}

fn worktrees(fixture: &Fixture) -> (Worktrees, Oid) {
    let git = fixture.git();
    let base = git.branch_tip("main").unwrap().unwrap();
    (Worktrees::new(&fixture.dir().join("work trees"), git).unwrap(), base)
}

fn kinds(worktrees: &Worktrees) -> Vec<(String, StrayKind)> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    worktrees.strays().unwrap().into_iter().map(|stray| (name(&stray.path), stray.kind)).collect()
}

#[test]
fn a_worktree_is_made_locked_on_its_branch_and_once() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    fixture.write("untracked", "x\n");
    let made = worktrees.create(&slug(), 1, &base).unwrap();
    assert_eq!(made.branch, "board/card-7/1");
    assert_eq!(made.path.file_name().unwrap(), "card-7-1");
    let list = fixture.run(&["worktree", "list", "--porcelain"]);
    assert!(list.contains(&format!("locked {LOCK_REASON}")), "{list}");
    assert_eq!(std::fs::read_to_string(made.path.join("README")).unwrap(), "one\n");
    std::fs::write(made.path.join("work"), "x").unwrap();
    assert_eq!(worktrees.create(&slug(), 1, &base).unwrap(), made);
    assert!(made.path.join("work").exists(), "what is there is not made again");
    assert!(kinds(&worktrees).is_empty());
    assert_eq!(fixture.run(&["status", "--porcelain"]), "?? untracked");
    worktrees.verify(&made, &base).unwrap();
}

#[test]
fn numbers_go_on_behind_branches_and_directories() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    assert_eq!(worktrees.next_number(&slug()).unwrap(), 1);
    fixture.run(&["branch", "board/card-7/3"]);
    fixture.run(&["branch", "board/card-7/x"]);
    fixture.run(&["branch", "board/card/9"]);
    assert_eq!(worktrees.next_number(&slug()).unwrap(), 4);
    worktrees.create(&slug(), 11, &base).unwrap();
    assert_eq!(worktrees.next_number(&slug()).unwrap(), 12);
    assert_eq!(worktrees.next_number(&Slug::parse("card").unwrap()).unwrap(), 10);
    let parsed = worktrees.parse(&worktrees.root().join("card-7-11")).unwrap();
    assert_eq!((parsed.slug, parsed.number), (slug(), 11));
    for name in ["card", "card-", "card-0", "card-01", "-1", "card-x", "a/card-1"] {
        assert_eq!(worktrees.parse(&worktrees.root().join(name)), None, "{name}");
    }
}

#[test]
fn half_made_ones_are_made_again_wherever_the_crash_was() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    let path = worktrees.root().join("card-7-1");
    let marker = worktrees.root().join(".making-card-7-1");
    let head = fixture.repo().join(".git/worktrees/card-7-1/HEAD");
    let crashes: [&dyn Fn(); 7] = [
        &|| std::fs::write(&marker, "").unwrap(),
        &|| drop(fixture.run(&["branch", "board/card-7/1", base.as_str()])),
        &|| std::fs::create_dir_all(path.join("half")).unwrap(),
        &|| {
            std::fs::remove_dir_all(&path).unwrap();
            fixture.run(&["worktree", "add", "-q", "--lock", path.to_str().unwrap(), "board/card-7/1"]);
            std::fs::write(path.join("README"), "on").unwrap();
            let admin = fixture.repo().join(".git/worktrees/card-7-1/locked");
            std::fs::write(admin, "initializing").unwrap();
        },
        &|| std::fs::remove_dir_all(&path).unwrap(),
        // git itself was killed while it wrote what is checked out.
        &|| std::fs::write(&head, "").unwrap(),
        // Or before: it begins with zeros.
        &|| std::fs::write(&head, format!("{}\n", "0".repeat(40))).unwrap(),
    ];
    // Each crash comes on top of the ones before.
    for count in 1..=crashes.len() {
        std::fs::write(&marker, "").unwrap();
        for crash in &crashes[..count] {
            crash();
        }
        assert!(kinds(&worktrees).contains(&("card-7-1".to_owned(), StrayKind::HalfMade)), "{count}");
        let made = worktrees.create(&slug(), 1, &base).unwrap();
        worktrees.verify(&made, &base).unwrap();
        assert_eq!(fixture.run_in(&made.path, &["status", "--porcelain"]), "");
        assert!(!marker.exists() && kinds(&worktrees).is_empty(), "{:?}", kinds(&worktrees));
        worktrees.remove(&made, &base, &[]).unwrap();
        fixture.run(&["branch", "-q", "-D", "board/card-7/1"]);
    }
}

#[test]
fn work_that_is_there_is_never_made_again_over() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    // A branch that somebody worked on.
    fixture.run(&["checkout", "-q", "-b", "board/card-7/1"]);
    fixture.run(&["commit", "-q", "--allow-empty", "-m", "work"]);
    fixture.run(&["checkout", "-q", "main"]);
    assert!(matches!(worktrees.create(&slug(), 1, &base), Err(WorktreeError::BranchInUse { .. })));
    // A directory that git does not know.
    let path = worktrees.root().join("card-7-2");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("x"), "x").unwrap();
    assert!(matches!(worktrees.create(&slug(), 2, &base), Err(WorktreeError::Occupied { .. })));
    std::fs::remove_file(path.join("x")).unwrap();
    worktrees.create(&slug(), 2, &base).unwrap();
    // A branch that the operator has checked out.
    fixture.run(&["checkout", "-q", "-b", "board/card-7/3"]);
    assert!(worktrees.create(&slug(), 3, &base).is_err());
}

#[test]
fn a_worktree_goes_only_when_its_work_is_on_a_kept_ref() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    let made = worktrees.create(&slug(), 1, &base).unwrap();
    std::fs::write(made.path.join("work"), "x\n").unwrap();
    let kept = "refs/board/saved/0b.1";
    assert!(matches!(worktrees.remove(&made, &base, &[kept]), Err(WorktreeError::NotKept { .. })));
    worktrees.save(&made, &base, kept, "saved").unwrap().unwrap();
    std::fs::write(made.path.join("later"), "x\n").unwrap();
    assert!(matches!(worktrees.remove(&made, &base, &[kept]), Err(WorktreeError::NotKept { .. })));
    std::fs::remove_file(made.path.join("later")).unwrap();
    assert!(matches!(worktrees.remove(&made, &base, &[]), Err(WorktreeError::NotKept { .. })));
    worktrees.remove(&made, &base, &[kept]).unwrap();
    assert!(!made.path.exists());
    let git = worktrees.git();
    assert_eq!(git.branch_tip(&made.branch).unwrap(), Some(base.clone()), "the branch stays");
    assert_eq!(git.checkouts().unwrap().len(), 1);
    worktrees.remove(&made, &base, &[kept]).unwrap();
    assert!(matches!(worktrees.verify(&made, &base), Err(WorktreeError::Missing { .. })));
}

#[test]
fn files_without_the_right_to_write_are_removed_and_links_are_not_followed() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "cache/\n");
    let fixture = fixture.and_commit();
    let (worktrees, base) = worktrees(&fixture);
    let made = worktrees.create(&slug(), 1, &base).unwrap();
    let deep = made.path.join("cache/a/b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("x"), "x").unwrap();
    std::os::unix::fs::symlink(fixture.repo(), deep.join("link")).unwrap();
    for dir in [&deep, deep.parent().unwrap()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o500)).unwrap();
    }
    worktrees.remove(&made, &base, &[]).unwrap();
    assert!(!made.path.exists() && fixture.repo().join("README").exists());
}

#[test]
fn a_link_in_the_place_of_a_worktree_is_not_followed() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    let made = worktrees.create(&slug(), 1, &base).unwrap();
    let moved = fixture.dir().join("moved");
    std::fs::rename(&made.path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &made.path).unwrap();
    assert!(matches!(worktrees.verify(&made, &base), Err(WorktreeError::Missing { .. })));
    assert!(worktrees.remove(&made, &base, &[]).is_err());
    assert!(moved.join("README").exists());
}

#[test]
fn the_sweep_names_what_lies_around_and_prunes_only_what_is_empty_of_work() {
    let fixture = Fixture::with_commit();
    let (worktrees, base) = worktrees(&fixture);
    let root = worktrees.root().to_owned();
    let add = |name: &str, options: &[&str]| {
        let path = root.join(name);
        fixture.run(&[&["worktree", "add", "-q", "--detach"], options, &[path.to_str().unwrap()]].concat());
    };
    let gone = worktrees.create(&slug(), 1, &base).unwrap();
    std::fs::remove_dir_all(&gone.path).unwrap();
    let locked = worktrees.create(&slug(), 2, &base).unwrap();
    std::fs::write(fixture.repo().join(".git/worktrees/card-7-2/locked"), "initializing").unwrap();
    worktrees.create(&slug(), 3, &base).unwrap();
    add("by-hand", &[]);
    std::fs::create_dir(root.join("empty")).unwrap();
    std::fs::create_dir_all(root.join("unknown/x")).unwrap();
    std::fs::write(root.join(".making-card-7-8"), "").unwrap();
    std::fs::create_dir_all(root.join(".removing-card-7-9/x")).unwrap();
    let found = kinds(&worktrees);
    let expected = [
        ("card-7-8", StrayKind::HalfMade),
        ("card-7-9", StrayKind::HalfRemoved),
        ("by-hand", StrayKind::NotOurs),
        ("card-7-2", StrayKind::LockedOtherwise { reason: "initializing".to_owned() }),
        ("empty", StrayKind::Unknown),
        ("unknown", StrayKind::Unknown),
        ("card-7-1", StrayKind::DirectoryGone),
    ];
    assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    let mut pruned = Vec::new();
    for stray in worktrees.strays().unwrap() {
        if worktrees.prune(&stray).unwrap() {
            pruned.push(stray.path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert_eq!(pruned, ["card-7-8", "card-7-9", "empty", "card-7-1"]);
    let left: Vec<_> = kinds(&worktrees).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["by-hand", "card-7-2", "unknown"]);
    assert!(locked.path.join("README").exists());
}
