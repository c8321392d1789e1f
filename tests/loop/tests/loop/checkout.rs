//! The operator's own work in the checkout stays byte for byte as it was; commits wait where they must.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use loop_tests::{Options, World};

/// Every file below a directory but git's own, with its bytes.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// What the operator has in hand: work tree, index and stash, apart from the board's documents.
fn in_hand(world: &World) -> (BTreeMap<String, Vec<u8>>, String, String) {
    let mut tree = files(&world.path("repo"));
    tree.retain(|path, _| !path.starts_with("docs/board/") && !path.starts_with("docs/review/"));
    let index = world.git(&["ls-files", "--stage", "--", ":!docs/board", ":!docs/review"]).unwrap();
    let stash = world.git(&["stash", "list", "--format=%H"]).unwrap();
    (tree, index, stash)
}

fn with_work_in_hand() -> World {
    let world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.write("src/text.txt", "verstaut\n").unwrap();
    world.git(&["stash", "push", "--quiet"]).unwrap();
    world.write("src/vorgemerkt.txt", "vorgemerkt\n").unwrap();
    world.git(&["add", "src/vorgemerkt.txt"]).unwrap();
    world.write("src/text.txt", "eins\ngeändert\n").unwrap();
    world.write("notizen.txt", "nicht versioniert\n").unwrap();
    world
}

fn run_through(world: &World) {
    assert_eq!(world.move_to("ok-eins", "in_umsetzung").status, 202);
    world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
}

#[test]
fn staged_unstaged_untracked_and_stashed_work_stays_as_it_was() {
    let mut world = with_work_in_hand();
    let before = in_hand(&world);
    world.start().unwrap();
    run_through(&world);
    world.wait_committed();
    assert_eq!(in_hand(&world), before);
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
    // Nothing of it went into a commit of the board.
    let touched = world.git(&["log", "--format=", "--name-only", "--author=board-agent", "main"]).unwrap();
    for path in touched.lines().filter(|line| !line.is_empty()) {
        assert!(path.starts_with("docs/"), "{path}");
    }
    // The operator's next commit takes what he staged, and nothing else.
    world.git(&["commit", "--quiet", "-m", "Eigenes"]).unwrap();
    assert_eq!(world.git(&["show", "--format=", "--name-only", "HEAD"]).unwrap(), "src/vorgemerkt.txt");
}

#[test]
fn commits_wait_for_a_rebase_and_appear_after_it() {
    let mut world = World::new(Options::default()).unwrap();
    // While a rebase goes on, the board's documents are those of the branch's commit.
    world.intent("ok-eins").unwrap();
    world.write("src/text.txt", "zwei\n").unwrap();
    world.git(&["add", "."]).unwrap();
    world.git(&["commit", "--quiet", "-m", "Zwei"]).unwrap();
    world.git(&["checkout", "--quiet", "-b", "seite", "HEAD~1"]).unwrap();
    world.write("src/text.txt", "drei\n").unwrap();
    world.git(&["commit", "--quiet", "-am", "Drei"]).unwrap();
    world.git(&["checkout", "--quiet", "main"]).unwrap();
    assert!(world.git(&["rebase", "seite"]).is_err(), "it stops at the conflict");
    let before = (in_hand(&world).1, world.git(&["rev-parse", "refs/heads/main"]).unwrap());
    world.start().unwrap();
    run_through(&world);
    assert_eq!((in_hand(&world).1, world.git(&["rev-parse", "refs/heads/main"]).unwrap()), before);
    world.git(&["rebase", "--abort"]).unwrap();
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
}

#[test]
fn on_a_detached_head_commits_go_onto_the_branch_and_the_checkout_is_not_touched() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.git(&["add", "."]).unwrap();
    world.git(&["commit", "--quiet", "-m", "Intent"]).unwrap();
    world.git(&["checkout", "--quiet", "--detach"]).unwrap();
    let before = (files(&world.path("repo")), world.git(&["rev-parse", "HEAD"]).unwrap());
    world.start().unwrap();
    run_through(&world);
    world.wait_committed();
    assert_eq!((files(&world.path("repo")), world.git(&["rev-parse", "HEAD"]).unwrap()), before);
    assert_eq!(world.git(&["status", "--porcelain"]).unwrap(), "");
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
    world.git(&["show", "main:docs/review/ok-eins.md"]).unwrap();
}

#[test]
fn a_held_index_lock_delays_the_commits_and_is_never_removed() {
    let mut world = with_work_in_hand();
    let lock = world.path("repo/.git/index.lock");
    std::fs::write(&lock, "von Hand").unwrap();
    world.start().unwrap();
    run_through(&world);
    assert_eq!(world.trailers("Board-Event").unwrap(), Vec::<String>::new());
    assert_eq!(std::fs::read(&lock).unwrap(), b"von Hand");
    std::fs::remove_file(&lock).unwrap();
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
}

#[test]
fn failing_hooks_failing_signatures_and_a_missing_identity_hinder_nothing() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    for hook in ["pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-checkout"] {
        let path = world.path("repo/.git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    world.git(&["config", "commit.gpgsign", "true"]).unwrap();
    world.git(&["config", "user.signingkey", "nicht-da"]).unwrap();
    world.git(&["config", "--unset", "user.name"]).unwrap();
    world.git(&["config", "--unset", "user.email"]).unwrap();
    world.start().unwrap();
    run_through(&world);
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["started", "built", "reviewed_ready"]);
}

#[test]
fn an_edited_record_stays_until_the_operator_says_which_counts_and_a_merge_by_hand_offers_deployed() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    world.move_to("ok-eins", "in_umsetzung");
    let built = world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    world.wait_committed();
    let record = world.git(&["show", "main:docs/board/ok-eins.yaml"]).unwrap();
    let edited = format!("{record}\nnote: \"bitte klein\"\n");
    world.write("docs/board/ok-eins.yaml", &edited).unwrap();
    let adopt = |take: &str| {
        let body = serde_json::json!({ "take": take });
        let answer = world.api("POST", "/cards/ok-eins/adopt-file", Some(&body));
        assert_eq!(answer.status, 200, "{}", answer.body);
        world.wait_committed();
        std::fs::read_to_string(world.path("repo/docs/board/ok-eins.yaml")).unwrap()
    };
    let taken = adopt("file");
    assert!(taken.contains("event: file_taken") && taken.contains("bitte klein"), "{taken}");
    world.write("docs/board/ok-eins.yaml", &taken.replace("bitte klein", "bitte gross")).unwrap();
    let overruled = adopt("board");
    assert!(overruled.contains("event: file_overruled") && overruled.contains("bitte klein"), "{overruled}");
    assert_eq!(world.git(&["show", "main:docs/board/ok-eins.yaml"]).unwrap(), overruled.trim_end());
    let card = world.card("ok-eins");
    assert_eq!((&card["phase"], &card["check_commit"]), (&built["phase"], &built["check_commit"]));

    assert_eq!(card["merged"], false);
    world.git(&["merge", "--quiet", "--no-ff", "-m", "von Hand", "board/ok-eins/1"]).unwrap();
    let card = world.card("ok-eins");
    assert_eq!((&card["merged"], &card["phase"]), (&true.into(), &"bereit_fuer_deployment".into()));
    assert_eq!(world.move_to("ok-eins", "deployed").status, 200);
    world.wait_committed();
}
