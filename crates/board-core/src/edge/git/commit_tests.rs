//! Commits on a branch against a real git: what they change, and above all what they leave alone.
use std::{collections::BTreeMap, path::Path};

use super::{testing::Fixture, *};

fn request<'a>(branch: &'a str, files: &[(&str, &str)], message: &'a str) -> CommitRequest<'a> {
    let change = |(path, text): &(&str, &str)| FileChange {
        path: (*path).to_owned(),
        content: Content::Bytes(text.as_bytes().to_vec()),
    };
    CommitRequest { branch, files: files.iter().map(change).collect(), message, expected: Vec::new() }
}

fn commit(git: &Git, files: &[(&str, &str)]) -> CommitOutcome {
    git.commit_on_branch(&request("main", files, "board: a\n\nBoard-Transition: u1\n")).unwrap()
}

/// Every file of a work tree with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != ".git" {
                dirs.push(entry.path());
            } else if kind.is_file() {
                found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// All that the operator has under way, as git sees it.
fn under_way(fixture: &Fixture) -> Vec<String> {
    let index = fixture.run(&["ls-files", "-s", "-t", "-v"]);
    let questions: [&[&str]; 4] =
        [&["status", "--porcelain=v2"], &["diff"], &["stash", "list", "-p"], &["diff", "--cached"]];
    std::iter::once(index).chain(questions.iter().map(|args| fixture.run(args))).collect()
}

#[test]
fn a_commit_has_its_paths_only_and_the_technical_identity() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let parent = git.branch_tip("main").unwrap().unwrap();
    let outcome = commit(&git, &[("docs/board/b.yaml", "b\n"), ("docs/new/dir/c", "c\n"), ("top", "t\n")]);
    assert_eq!(outcome.parent, Some(parent));
    assert_eq!(git.branch_tip("main").unwrap(), Some(outcome.oid.clone()));
    let shown = fixture.run(&["show", "--format=%an <%ae> %cn <%ce>|%B", "--name-status", "HEAD"]);
    let who = "Board <board@example.org> Board <board@example.org>|";
    let expected = "board: a\n\nBoard-Transition: u1\n\n\nA\tdocs/board/b.yaml\nA\tdocs/new/dir/c\nA\ttop";
    assert_eq!(shown, format!("{who}{expected}"));
    assert_eq!(git.read_path(&outcome.oid, "docs/new/dir/c", 10).unwrap().unwrap().bytes, b"c\n");
    fixture.run(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn files_that_the_board_wrote_are_clean_after_the_commit() {
    let fixture = Fixture::with_commit();
    fixture.write("docs/board/a.yaml", "phase: review\n");
    fixture.write("docs/board/b.yaml", "b\n");
    let outcome =
        commit(&fixture.git(), &[("docs/board/a.yaml", "phase: review\n"), ("docs/board/b.yaml", "b\n")]);
    assert!(outcome.left_staged.is_empty());
    assert_eq!(fixture.run(&["status", "--porcelain=v2"]), "");
    assert_eq!(fixture.run(&["diff-files"]), "", "the file times are in the index");
}

#[test]
fn a_removed_file_takes_its_empty_directories_along() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    commit(&git, &[("docs/deep/er/x", "x")]);
    let files = vec![FileChange { path: "docs/deep/er/x".to_owned(), content: Content::Removed }];
    let removal = CommitRequest { files, ..request("main", &[], "gone") };
    let outcome = git.commit_on_branch(&removal).unwrap();
    assert!(git.ls_tree(&outcome.oid, "docs/deep").unwrap().is_empty());
    assert_eq!(git.ls_tree(&outcome.oid, "docs").unwrap().len(), 1);
    assert_eq!(fixture.run(&["status", "--porcelain"]), "");
    // Once more changes nothing, and is a commit of its own: each transition has one.
    let again = git.commit_on_branch(&removal).unwrap();
    assert_ne!(again.oid, outcome.oid);
    fixture.run(&["fsck", "--strict"]);
}

#[test]
fn staged_unstaged_untracked_and_stashed_work_stays_byte_for_byte() {
    let fixture = Fixture::with_commit();
    fixture.write("stashed", "s\n");
    fixture.run(&["stash", "-u", "-q"]);
    fixture.write("staged", "staged\n");
    fixture.write("README", "staged version\n");
    fixture.run(&["add", "staged", "README"]);
    fixture.write("README", "unstaged version\n");
    fixture.write("untracked", "u\n");
    fixture.write("intended", "i\n");
    fixture.run(&["add", "-N", "intended"]);
    fixture.write("docs/board/b.yaml", "b\n");
    let git = fixture.git();
    let (before, tree) = (under_way(&fixture), files(&fixture.repo()));
    let outcome = commit(&git, &[("docs/board/b.yaml", "b\n")]);
    assert!(outcome.left_staged.is_empty());
    assert_eq!(files(&fixture.repo()), tree);
    let after = under_way(&fixture);
    // The board's own file is the one difference: it was untracked and is committed now.
    let without = |list: &[String]| -> Vec<String> {
        let lines = list.iter().flat_map(|text| text.lines());
        lines.filter(|line| !line.contains("docs/board/b.yaml")).map(str::to_owned).collect()
    };
    assert_eq!(without(&after), without(&before));
    assert!(!after[1].contains("b.yaml"), "{}", after[1]);
}

#[test]
fn a_version_that_the_operator_staged_stays_and_is_named() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    fixture.write("docs/board/a.yaml", "operator\n");
    fixture.write("docs/board/new.yaml", "operator too\n");
    fixture.run(&["add", "docs"]);
    let before = (fixture.run(&["ls-files", "-s"]), files(&fixture.repo()));
    let index = std::fs::read(fixture.repo().join(".git/index")).unwrap();
    let outcome = commit(&git, &[("docs/board/a.yaml", "board\n"), ("docs/board/new.yaml", "board\n")]);
    assert_eq!(outcome.left_staged, ["docs/board/a.yaml", "docs/board/new.yaml"]);
    assert_eq!((fixture.run(&["ls-files", "-s"]), files(&fixture.repo())), before);
    assert_eq!(std::fs::read(fixture.repo().join(".git/index")).unwrap(), index, "not written at all");
    assert_eq!(git.read_path(&outcome.oid, "docs/board/a.yaml", 99).unwrap().unwrap().bytes, b"board\n");
}

#[test]
fn a_staged_file_where_the_board_has_a_directory_leaves_the_index_alone() {
    let fixture = Fixture::with_commit();
    fixture.run(&["rm", "-r", "-q", "--cached", "docs"]);
    std::fs::remove_dir_all(fixture.repo().join("docs")).unwrap();
    fixture.write("docs", "a file\n");
    fixture.run(&["add", "docs"]);
    let before = under_way(&fixture)[0].clone();
    let outcome = commit(&fixture.git(), &[("docs/board/new.yaml", "n\n")]);
    assert_eq!(outcome.left_staged, ["docs/board/new.yaml"]);
    assert_eq!(under_way(&fixture)[0], before);
}

#[test]
fn hooks_signing_and_a_missing_identity_do_not_matter() {
    let fixture = Fixture::with_commit();
    let marker = fixture.dir().join("ran");
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "prepare-commit-msg",
    ] {
        let file = fixture.repo().join(".git/hooks").join(hook);
        std::fs::write(&file, format!("#!/bin/sh\ntouch {}\nexit 1\n", marker.display())).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let fsmonitor = format!("touch {}", marker.display());
    for (key, value) in [
        ("commit.gpgsign", "true"),
        ("gpg.program", "/bin/false"),
        ("core.fsmonitor", &fsmonitor),
        ("user.useConfigOnly", "true"),
        ("diff.external", &fsmonitor),
        ("log.showSignature", "true"),
    ] {
        fixture.run(&["config", key, value]);
    }
    let git = fixture.git();
    let outcome = commit(&git, &[("docs/board/a.yaml", "x\n")]);
    let parent = outcome.parent.unwrap();
    assert!(String::from_utf8(git.diff(&parent, &outcome.oid, 9999).unwrap().bytes).unwrap().contains("+x"));
    assert_eq!(git.log_between(&parent, &outcome.oid, 9).unwrap().len(), 1);
    assert!(!marker.exists());
    let call = git.call(["var", "GIT_COMMITTER_IDENT"]).env("HOME", "/nonexistent");
    assert!(call.run().unwrap().code != 0, "there is no identity but ours");
}

#[test]
fn on_a_detached_head_or_another_branch_the_checkout_is_not_touched() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    for args in [["checkout", "-q", "--detach"].as_slice(), &["checkout", "-q", "-b", "other"]] {
        fixture.run(args);
        let before = (
            under_way(&fixture),
            files(&fixture.repo()),
            std::fs::read(fixture.repo().join(".git/index")).unwrap(),
        );
        let outcome = commit(&git, &[("docs/board/a.yaml", args.last().unwrap())]);
        let after = (
            under_way(&fixture),
            files(&fixture.repo()),
            std::fs::read(fixture.repo().join(".git/index")).unwrap(),
        );
        assert_eq!(before, after);
        assert_eq!(git.branch_tip("main").unwrap(), Some(outcome.oid));
        assert_eq!(git.checked_out_at("main").unwrap(), None);
    }
}

#[test]
fn another_linked_worktree_that_has_the_branch_is_the_checkout() {
    let fixture = Fixture::with_commit();
    fixture.run(&["checkout", "-q", "-b", "other"]);
    let linked = fixture.dir().join("linked ü");
    fixture.run(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let git = fixture.git();
    assert_eq!(git.checked_out_at("main").unwrap(), Some(linked.clone()));
    std::fs::write(linked.join("docs/board/a.yaml"), "x\n").unwrap();
    commit(&git, &[("docs/board/a.yaml", "x\n")]);
    assert_eq!(fixture.run_in(&linked, &["status", "--porcelain"]), "");
    assert_eq!(fixture.run(&["status", "--porcelain"]), "");
}

#[test]
fn paths_with_blanks_umlauts_and_a_leading_dash_are_paths() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let names =
        ["-rf", "--all", "docs/a b.md", "docs/ü\u{1f600}.md", "docs/*", "docs/:(glob)x", "\"q\"", "-d/-e"];
    for name in names {
        fixture.write(name, "x\n");
    }
    let outcome = commit(&git, &names.map(|name| (name, "x\n")));
    for name in names {
        assert!(git.read_path(&outcome.oid, name, 9).unwrap().is_some(), "{name}");
    }
    assert_eq!(fixture.run(&["status", "--porcelain"]), "");
    for bad in ["../x", "/etc/x", ".git/hooks/x", "a\nb", "a/../../b"] {
        assert!(git.commit_on_branch(&request("main", &[(bad, "x")], "m")).is_err(), "{bad:?}");
    }
}

#[test]
fn a_sha256_repository_and_one_without_a_commit_work() {
    for options in [["--object-format=sha256"].as_slice(), &[]] {
        let fixture = Fixture::with_init(options);
        fixture.write("staged", "x");
        fixture.run(&["add", "staged"]);
        let git = fixture.git();
        assert_eq!(git.head_state().unwrap(), Head::Unborn("main".to_owned()));
        let first = commit(&git, &[("docs/a", "1\n")]);
        assert_eq!(first.parent, None);
        let second = commit(&git, &[("docs/a", "2\n")]);
        assert_eq!(second.parent, Some(first.oid));
        assert_eq!(fixture.run(&["ls-tree", "-r", "--name-only", "HEAD"]), "docs/a");
        assert!(fixture.run(&["status", "--porcelain"]).contains("A  staged"));
        fixture.run(&["fsck", "--strict"]);
    }
}

#[test]
fn a_branch_that_does_not_exist_is_not_made() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let result = git.commit_on_branch(&request("mian", &[("a", "b")], "m"));
    assert!(matches!(result, Err(CommitError::BranchMissing { .. })));
    assert!(git.commit_on_branch(&request("-f", &[("a", "b")], "m")).is_err());
}

#[test]
fn an_expectation_that_is_not_met_stops_the_commit() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let blob = git.hash_blob(b"phase: geplant\n").unwrap();
    let expect = |path: &str, blob: Option<Oid>| {
        let expected = vec![Expectation { path: path.to_owned(), blob }];
        git.commit_on_branch(&CommitRequest { expected, ..request("main", &[("x", "y")], "m") })
    };
    expect("docs/board/a.yaml", Some(blob.clone())).unwrap();
    expect("docs/board/none.yaml", None).unwrap();
    let tip = git.branch_tip("main").unwrap();
    assert!(matches!(expect("docs/board/a.yaml", None), Err(CommitError::Changed { found: Some(_), .. })));
    assert!(matches!(
        expect("docs/board/none.yaml", Some(blob)),
        Err(CommitError::Changed { found: None, .. })
    ));
    assert_eq!(git.branch_tip("main").unwrap(), tip);
}

#[test]
fn a_link_a_file_or_a_directory_in_the_way_is_refused() {
    let fixture = Fixture::with_commit();
    std::os::unix::fs::symlink("/etc", fixture.repo().join("link")).unwrap();
    fixture.run(&["add", "link"]);
    fixture.run(&["commit", "-q", "-m", "link"]);
    let git = fixture.git();
    for path in ["link", "link/passwd", "README/x", "docs"] {
        let result = git.commit_on_branch(&request("main", &[(path, "x")], "m"));
        assert!(matches!(result, Err(CommitError::InTheWay { .. })), "{path}: {result:?}");
    }
    assert!(git.read_path(&git.branch_tip("main").unwrap().unwrap(), "link", 99).unwrap().is_none());
}

#[test]
fn a_blob_written_before_is_taken_and_a_missing_one_is_refused() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let blob = git.write_blob(b"report\n").unwrap();
    let files = |oid: Oid| vec![FileChange { path: "docs/r.md".to_owned(), content: Content::Blob(oid) }];
    let outcome =
        git.commit_on_branch(&CommitRequest { files: files(blob), ..request("main", &[], "m") }).unwrap();
    assert_eq!(git.read_path(&outcome.oid, "docs/r.md", 99).unwrap().unwrap().bytes, b"report\n");
    let missing = Oid::parse(&"1".repeat(40)).unwrap();
    assert!(
        git.commit_on_branch(&CommitRequest { files: files(missing), ..request("main", &[], "m") }).is_err()
    );
}

#[test]
fn a_held_index_lock_stops_the_commit_and_nothing_has_changed() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let lock = fixture.repo().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let tip = git.branch_tip("main").unwrap();
    let result = git.commit_on_branch(&request("main", &[("x", "y")], "m"));
    assert!(matches!(result, Err(CommitError::IndexLocked(IndexLock { path, .. })) if path == lock));
    assert_eq!(git.branch_tip("main").unwrap(), tip);
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    commit(&git, &[("x", "y")]);
    assert!(!lock.exists());
    assert_eq!(
        std::fs::read_dir(fixture.dir().join("locks")).unwrap().count(),
        0,
        "notes and indexes are gone"
    );
}

#[test]
fn a_branch_that_moves_in_between_gets_the_commit_on_its_new_tip() {
    let fixture = Fixture::with_commit();
    // Moves the branch the first time that the board's git makes a commit.
    let wrapper = fixture.dir().join("git-that-races");
    let script = "#!/bin/sh\ncase \" $* \" in *\" commit-tree \"*) if mkdir \"$0.done\" 2>/dev/null; then \
                  ( unset GIT_INDEX_FILE; cd \"$GIT_WORK_TREE\" && echo x > op && git add op && git -c user.name=O -c user.email=o@x commit -q -m op ) >&2; \
                  fi;; esac\nexec git \"$@\"\n";
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = Git::open(&fixture.repo(), GitOptions { program: wrapper, ..fixture.options() }).unwrap();
    let outcome = commit(&git, &[("docs/board/a.yaml", "x\n")]);
    assert_eq!(fixture.run(&["log", "--format=%s", "main"]), "board: a\nop\nfirst");
    assert_eq!(outcome.parent.unwrap().as_str(), fixture.run(&["rev-parse", "main~1"]));
    assert_eq!(fixture.run(&["ls-files"]), "README\ndocs/board/a.yaml\nop");
    assert_eq!(fixture.run(&["diff", "--cached"]), "");
}

#[test]
fn a_git_killed_at_any_call_leaves_no_lock_and_either_all_or_nothing() {
    let commands = [
        "hash-object",
        "cat-file",
        "-t tree",
        "commit-tree",
        "ls-files",
        "update-index",
        "add",
        "update-ref",
    ];
    for command in commands {
        let fixture = Fixture::with_commit();
        fixture.write("staged", "x\n");
        fixture.run(&["add", "staged"]);
        fixture.write("docs/board/a.yaml", "x\n");
        let (before, index) = (under_way(&fixture), fixture.repo().join(".git/index"));
        let old_index = std::fs::read(&index).unwrap();
        // update-ref is killed after its work, so that the ref has moved; the others before.
        let first = if command == "update-ref" { "git \"$@\";" } else { "" };
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *\" {command} \"*) {first} kill -9 $$;; esac\nexec git \"$@\"\n"
        );
        let wrapper = fixture.dir().join("git-that-dies");
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let git = Git::open(&fixture.repo(), GitOptions { program: wrapper, ..fixture.options() }).unwrap();
        let result = git.commit_on_branch(&request("main", &[("docs/board/a.yaml", "x\n")], "m"));
        assert_eq!(result.is_ok(), command == "update-ref", "{command}: {result:?}");
        assert_eq!(std::fs::read_dir(fixture.dir().join("locks")).unwrap().count(), 0, "{command}");
        assert!(!fixture.repo().join(".git/index.lock").exists(), "{command}");
        if result.is_ok() {
            assert_eq!(fixture.run(&["status", "--porcelain"]), "A  staged");
        } else {
            assert_eq!(std::fs::read(&index).unwrap(), old_index, "{command}");
            assert_eq!(under_way(&fixture), before, "{command}");
        }
        fixture.run(&["fsck", "--strict"]);
    }
}

#[test]
fn the_index_is_done_again_after_a_crash_behind_the_move_of_the_branch() {
    let fixture = Fixture::with_commit();
    let git = fixture.git();
    let index = fixture.repo().join(".git/index");
    let old = std::fs::read(&index).unwrap();
    let outcome = commit(&git, &[("docs/board/a.yaml", "x\n"), ("docs/board/b.yaml", "y\n")]);
    std::fs::write(&index, old).unwrap();
    assert!(fixture.run(&["diff", "--cached", "--name-only"]).contains("docs/board/a.yaml"));
    assert!(git.repair_index("main", &outcome.oid).unwrap().is_empty());
    assert_eq!(fixture.run(&["diff", "--cached", "--name-only"]), "");
    // Again, and with a version of the operator's, nothing happens.
    fixture.write("docs/board/b.yaml", "operator\n");
    fixture.run(&["add", "docs/board/b.yaml"]);
    assert_eq!(git.repair_index("main", &outcome.oid).unwrap(), ["docs/board/b.yaml"]);
}

#[test]
fn in_a_shared_repository_index_and_objects_stay_writable_for_the_group() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::with_init(&["--shared=group"]).and_commit();
    let git = fixture.git();
    let outcome = commit(&git, &[("docs/board/a.yaml", "x\n")]);
    let mode =
        |path: &str| std::fs::metadata(fixture.repo().join(".git").join(path)).unwrap().permissions().mode();
    assert_eq!(mode("index") & 0o060, 0o060);
    assert_eq!(mode("refs/heads/main") & 0o060, 0o060);
    let (dir, file) = outcome.oid.as_str().split_at(2);
    assert_eq!(mode(&format!("objects/{dir}")) & 0o2070, 0o2070);
    assert_eq!(mode(&format!("objects/{dir}/{file}")) & 0o040, 0o040);
    fixture.write("README", "two\n");
    fixture.run(&["commit", "-q", "-am", "operator"]);
    fixture.run(&["gc", "-q"]);
    fixture.run(&["commit", "-q", "--amend", "-m", "amended"]);
    commit(&git, &[("docs/board/a.yaml", "y\n")]);
}
