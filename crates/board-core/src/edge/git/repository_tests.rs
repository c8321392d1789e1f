//! What is read from a real repository, and what is under way in its checkouts.
use std::time::{Duration, SystemTime};

use super::{testing::Fixture, *};

#[test]
fn heads_are_told_apart() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    assert_eq!(git.head_state().unwrap(), Head::Branch("main".to_owned()));
    fixture.run(&["checkout", "-q", "--detach"]);
    let tip = git.branch_tip("main").unwrap().unwrap();
    assert_eq!(git.head_state().unwrap(), Head::Detached(tip.clone()));
    assert_eq!(git.branch_tip("other").unwrap(), None);
    assert!(git.commit_exists(&tip).unwrap());
    assert!(!git.commit_exists(&Oid::parse(&"1".repeat(40)).unwrap()).unwrap());
}

#[test]
fn a_directory_of_a_commit_lists_files_and_refused_kinds() {
    let fixture = Fixture::with_commit();
    std::os::unix::fs::symlink("a.yaml", fixture.repo().join("docs/board/link.yaml")).unwrap();
    fixture.write("docs/board/run", "#!/bin/sh\n");
    fixture.write("docs/board/sub/x", "x");
    fixture.run(&["add", "-A"]);
    fixture.run(&["update-index", "--chmod=+x", "docs/board/run"]);
    let tip = fixture.run(&["rev-parse", "HEAD"]);
    fixture.run(&["update-index", "--add", "--cacheinfo", &format!("160000,{tip},docs/board/module")]);
    fixture.run(&["commit", "-q", "-m", "kinds"]);
    let git = fixture.git();
    let tip = git.branch_tip("main").unwrap().unwrap();
    let list = git.ls_tree(&tip, "docs/board").unwrap();
    let kinds: Vec<_> =
        list.iter().map(|entry| (entry.name.to_str().unwrap(), entry.kind, entry.size)).collect();
    let expected = [
        ("a.yaml", EntryKind::File { executable: false }, Some(15)),
        ("link.yaml", EntryKind::Symlink, Some(6)),
        ("module", EntryKind::Submodule, None),
        ("run", EntryKind::File { executable: true }, Some(10)),
        ("sub", EntryKind::Directory, None),
    ];
    assert_eq!(kinds, expected);
    assert!(git.ls_tree(&tip, "docs/none").unwrap().is_empty());
    assert_eq!(git.ls_tree(&tip, "").unwrap().len(), 2);
    assert!(git.ls_tree(&tip, "../x").is_err());
    let blobs: Vec<Oid> = list.iter().map(|entry| entry.oid.clone()).collect();
    assert_eq!(git.read_blobs(&blobs, 100).unwrap().len(), 3, "neither the tree nor the submodule is a blob");
}

#[test]
fn a_file_is_read_up_to_the_limit_and_refused_beyond_it() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let tip = git.branch_tip("main").unwrap().unwrap();
    let blob = git.read_path(&tip, "docs/board/a.yaml", 15).unwrap().unwrap();
    assert_eq!(git.read_blob(&blob.oid, 15).unwrap(), blob.bytes);
    assert!(matches!(git.read_path(&tip, "docs/board/a.yaml", 14), Err(GitError::TooLarge { .. })));
    assert!(matches!(git.read_blob(&blob.oid, 14), Err(GitError::TooLarge { .. })));
    assert!(git.read_path(&tip, "docs/board", 99).unwrap().is_none());
    assert!(git.read_blob(&tip, 999).is_err(), "a commit is no blob");
}

#[test]
fn many_blobs_are_written_with_one_call_and_read_back() {
    let fixture = Fixture::new();
    let git = fixture.git();
    let contents: Vec<Vec<u8>> = (0..20_u8).map(|n| vec![n; usize::from(n) * 1000]).collect();
    let oids = git.store_blobs(&contents.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let read = git.read_blobs(&oids, 1 << 20).unwrap();
    for (oid, content) in oids.iter().zip(&contents) {
        assert_eq!(&read[oid], content);
        assert_eq!(&git.hash_blob(content).unwrap(), oid);
    }
}

#[test]
fn a_difference_is_cut_at_its_limit_and_follows_renames() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let base = git.branch_tip("main").unwrap().unwrap();
    fixture.write(".gitattributes", "*.yaml diff=evil\n");
    fixture.run(&["config", "diff.evil.textconv", "touch evil; cat"]);
    fixture.run(&["config", "diff.evil.command", "touch evil"]);
    fixture.run(&["config", "diff.noprefix", "true"]);
    fixture.run(&["mv", "docs/board/a.yaml", "docs/board/b.yaml"]);
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "move"]);
    let tip = git.branch_tip("main").unwrap().unwrap();
    let whole = git.diff(&base, &tip, 1 << 20).unwrap();
    let text = String::from_utf8(whole.bytes.clone()).unwrap();
    assert!(
        text.contains("rename from docs/board/a.yaml") && text.contains("+++ b/.gitattributes"),
        "{text}"
    );
    assert!(!whole.more && !fixture.repo().join("evil").exists());
    assert!(!git.diff(&base, &tip, whole.bytes.len()).unwrap().more);
    let cut = git.diff(&base, &tip, whole.bytes.len() - 1).unwrap();
    assert!(cut.more && cut.bytes.len() == whole.bytes.len() - 1);
    let log = git.log_text(&tip, 1, 1 << 20).unwrap();
    assert!(String::from_utf8(log.bytes).unwrap().contains("move"));
}

#[test]
fn history_tells_ancestors_and_finds_a_transition_among_the_newest() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let first = git.branch_tip("main").unwrap().unwrap();
    let message = "board: x\n\nBoard-Transition: u-1\nBoard-Card: x\nBoard-Transition: u-2\n";
    fixture.run(&["commit", "-q", "--allow-empty", "-m", message]);
    let second = git.branch_tip("main").unwrap().unwrap();
    fixture.run(&["commit", "-q", "--allow-empty", "-m", "says Board-Transition: u-3 in its text"]);
    assert!(git.is_ancestor(&first, &second).unwrap() && !git.is_ancestor(&second, &first).unwrap());
    assert_eq!(git.log_between(&first, &second, 9).unwrap()[0].subject, "board: x");
    for uuid in ["u-1", "u-2"] {
        assert_eq!(git.find_transition("main", uuid, 2).unwrap(), Some(second.clone()));
        assert_eq!(git.find_transition("main", uuid, 1).unwrap(), None, "only the newest are looked at");
    }
    assert_eq!(git.find_transition("main", "u-3", 9).unwrap(), None);
    assert_eq!(git.find_transition("none", "u-1", 9).unwrap(), None);
}

#[test]
fn a_merge_is_tried_without_touching_anything_and_without_a_merge_driver() {
    let fixture = Fixture::with_commit();
    fixture.run(&["checkout", "-q", "-b", "work"]);
    fixture.write("new", "x\n");
    fixture.run(&["add", "new"]);
    fixture.run(&["commit", "-q", "-m", "clean"]);
    let clean = Oid::parse(&fixture.run(&["rev-parse", "HEAD"])).unwrap();
    fixture.write("README", "theirs\n");
    fixture.write(".gitattributes", "README merge=evil\n");
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "conflict"]);
    let conflict = Oid::parse(&fixture.run(&["rev-parse", "HEAD"])).unwrap();
    fixture.run(&["checkout", "-q", "main"]);
    fixture.write("README", "ours\n");
    fixture.write(".gitattributes", "README merge=evil\n");
    fixture.run(&["add", "-A"]);
    fixture.run(&["commit", "-q", "-m", "ours"]);
    let marker = fixture.dir().join("ran");
    fixture.run(&["config", "merge.evil.driver", &format!("touch {}", marker.display())]);
    let git = fixture.git();
    assert!(git.merges_cleanly("main", &clean).unwrap());
    assert!(!git.merges_cleanly("main", &conflict).unwrap());
    assert!(!marker.exists());
    assert_eq!(fixture.run(&["status", "--porcelain"]), "");
}

#[test]
fn a_ref_is_set_and_deleted_only_from_what_was_seen() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let first = git.branch_tip("main").unwrap().unwrap();
    fixture.run(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let second = git.branch_tip("main").unwrap().unwrap();
    let name = "refs/board/saved/0b.1";
    assert!(git.update_ref(name, &first, None, "saved").unwrap());
    assert!(!git.update_ref(name, &second, None, "saved").unwrap());
    assert!(!git.update_ref(name, &second, Some(&second), "saved").unwrap());
    assert!(git.update_ref(name, &second, Some(&first), "saved").unwrap());
    assert_eq!(
        git.refs_below("refs/board/").unwrap().into_iter().collect::<Vec<_>>(),
        [(name.to_owned(), second.clone())]
    );
    assert!(!git.delete_ref(name, &first).unwrap());
    assert!(git.delete_ref(name, &second).unwrap());
    assert_eq!(git.ref_tip(name).unwrap(), None);
    assert!(git.update_ref("HEAD", &first, None, "x").is_err());
    let absent = Oid::parse(&"1".repeat(40)).unwrap();
    assert!(git.update_ref(name, &absent, None, "x").is_err(), "a ref to nothing is an error, not a move");
}

fn block(git: &Git) -> Option<CommitBlock> {
    git.commit_block("main", Duration::ZERO, SystemTime::now()).unwrap()
}

/// Two branches that conflict in README; `main` is checked out.
fn conflicting() -> Fixture {
    let fixture = Fixture::with_commit();
    for (branch, text) in [("theirs", "theirs\n"), ("main", "ours\n")] {
        if branch == "theirs" {
            fixture.run(&["checkout", "-q", "-b", branch]);
        } else {
            fixture.run(&["checkout", "-q", branch]);
        }
        fixture.write("README", text);
        fixture.run(&["commit", "-q", "-am", branch]);
    }
    fixture
}

#[test]
fn an_operation_where_the_branch_is_at_home_blocks_until_it_ends() {
    let cases: [(&[&str], &[&str], Operation); 5] = [
        (&["rebase", "theirs"], &["rebase", "--abort"], Operation::Rebase),
        (&["merge", "theirs"], &["merge", "--abort"], Operation::Merge),
        (&["cherry-pick", "theirs"], &["cherry-pick", "--abort"], Operation::CherryPick),
        (&["revert", "--no-commit", "HEAD"], &["revert", "--abort"], Operation::Revert),
        (&["bisect", "start", "HEAD", "HEAD~1"], &["bisect", "reset"], Operation::Bisect),
    ];
    for (begin, end, operation) in cases {
        let fixture = conflicting();
        let git = fixture.git();
        assert_eq!(block(&git), None);
        fixture.attempt_in(&fixture.repo(), begin);
        assert_eq!(git.operation_in_progress(&fixture.repo()).unwrap(), Some(operation));
        let found = block(&git);
        assert!(
            matches!(&found, Some(CommitBlock::Operation { operation: o, .. }) if *o == operation),
            "{begin:?} {found:?}"
        );
        assert_eq!(
            git.commit_block("theirs", Duration::ZERO, SystemTime::now()).unwrap(),
            None,
            "not its home"
        );
        fixture.run(end);
        assert_eq!(block(&git), None);
    }
}

#[test]
fn a_held_index_blocks_only_where_the_branch_is_checked_out() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let lock = fixture.repo().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    assert!(matches!(block(&git), Some(CommitBlock::IndexLocked(_))));
    assert_eq!(git.index_lock(&fixture.repo()).unwrap().unwrap().path, lock);
    std::fs::remove_file(&lock).unwrap();
    fixture.run(&["checkout", "-q", "-b", "other"]);
    std::fs::write(&lock, "").unwrap();
    assert_eq!(block(&git), None);
}

#[test]
fn a_young_tip_of_the_operator_blocks_and_ours_does_not() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let tip = git.tip_info("main").unwrap().unwrap();
    let committed = SystemTime::UNIX_EPOCH + Duration::from_secs(tip.committed.unsigned_abs());
    let quiet = Duration::from_secs(30);
    let at = |now: SystemTime| git.commit_block("main", quiet, now).unwrap();
    let waits = Some(CommitBlock::TipIsOperatorsAndYoung { until: committed + quiet });
    assert_eq!(at(committed), waits);
    assert_eq!(at(committed + Duration::from_secs(29)), waits);
    assert_eq!(at(committed + quiet), None);
    // A clock that was set back by an hour holds up nothing.
    assert_eq!(at(committed - Duration::from_secs(3600)), None);
    let message = "board: x";
    let files = vec![FileChange { path: "x".to_owned(), content: Content::Bytes(vec![1]) }];
    git.commit_on_branch(&CommitRequest { branch: "main", files, message, expected: Vec::new() }).unwrap();
    assert_eq!(at(SystemTime::now()), None);
}

/// A commit of ours killed by force while it holds the index: the lock and the note as they are left then.
fn leave_lock(git: &Git) -> PathBuf {
    let path = git.common_dir().join("index.lock");
    let mut note = state::LockNote::new(git.note_dir(), &path);
    note.write(None).unwrap();
    std::fs::write(&path, "half an index").unwrap();
    note.write(Some(&std::fs::metadata(&path).unwrap())).unwrap();
    path
}

#[test]
fn our_own_left_over_lock_is_removed_and_no_other() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    assert_eq!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Nothing);
    let path = leave_lock(&git);
    let open = File::open(&path).unwrap();
    assert!(
        matches!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Kept(_)),
        "somebody has it open"
    );
    drop(open);
    assert_eq!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Removed(path.clone()));
    assert!(!path.exists());
    // Without a note it is the operator's.
    std::fs::write(&path, "operator").unwrap();
    assert!(matches!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Kept(_)));
    std::fs::remove_file(&path).unwrap();
    // With a note about another file at the same path it is the operator's too.
    leave_lock(&git);
    std::fs::rename(&path, git.common_dir().join("other")).unwrap();
    std::fs::write(&path, "operator in his editor").unwrap();
    assert!(matches!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Kept(_)));
}

#[test]
fn killed_before_the_file_was_noted_only_an_empty_lock_is_ours() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let path = git.common_dir().join("index.lock");
    let mut note = state::LockNote::new(git.note_dir(), &path);
    note.write(None).unwrap();
    std::fs::write(&path, "operator").unwrap();
    assert!(matches!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Kept(_)));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(git.reap_stale_index_lock(&fixture.repo()).unwrap(), Reaped::Removed(_)));
}

#[test]
fn a_checkout_of_another_user_is_used_without_any_configuration_of_his() {
    let fixture = Fixture::with_commit();
    let other = nix::unistd::Uid::from_raw(54_321);
    if !nix::unistd::geteuid().is_root() {
        let reason =
            "only root can make files of another user; the container's test with two users does it too";
        testing::skip("git-checkout-of-another-user", reason);
        return;
    }
    let mut dirs = vec![fixture.repo()];
    while let Some(dir) = dirs.pop() {
        nix::unistd::chown(&dir, Some(other), None).unwrap();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false => nix::unistd::chown(&entry.path(), Some(other), None).unwrap(),
            }
        }
    }
    assert!(
        !fixture.attempt_in(&fixture.repo(), &["status"]).status.success(),
        "git itself does not trust it"
    );
    for dir in [fixture.repo(), fixture.repo().join("docs/board")] {
        let git = Git::open(&dir, fixture.options()).unwrap();
        let files = vec![FileChange { path: "x".to_owned(), content: Content::Bytes(vec![1]) }];
        let request = CommitRequest { branch: "main", files, message: "m", expected: Vec::new() };
        git.commit_on_branch(&request).unwrap();
    }
}
