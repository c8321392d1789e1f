//! Rows 35 to 38, 48, 54 and 55: the operator at work in the same checkout, as another user.

use systemd_tests::Board;
use systemd_tests::board::STATE;

use crate::help::{building, result, wait_idle};

/// A research as the smallest transition with a document.
fn transition(board: &Board, card: &str) {
    board.questions(&[card]);
    board.research(card);
    board.wait_phase(card, &["recherche_fertig"]);
}

/// Every transition is on the branch once, in order of its card.
fn assert_all_once(board: &Board, transitions: usize) {
    board.wait_committed();
    let found = board.trailers("Board-Transition");
    let once: std::collections::BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (transitions, transitions), "{found:?}");
    board.op("git fsck --no-dangling --no-progress");
}

#[test]
fn row_35_commits_wait_for_what_the_operator_has_begun_and_touch_none_of_it() {
    let board = Board::start();
    // Staged, changed and new.
    board.op("echo zwei >>src/text.txt; echo neu >src/neu.txt; git add src/neu.txt; echo lose >lose.txt");
    let in_hand =
        "git ls-files --stage src README.md; cat src/text.txt src/neu.txt lose.txt; git diff --cached src";
    let before = board.op(in_hand);
    transition(&board, "ok-eins");
    assert_all_once(&board, 2);
    assert_eq!(board.op(in_hand), before);
    // His git holds the index.
    board.op(": >.git/index.lock");
    transition(&board, "ok-zwei");
    board.wait("the wait to be told", || {
        let told = board.told();
        told["commit"]["reason"].as_str().is_some_and(|reason| reason.contains("index.lock")).then_some(())
    });
    assert_eq!(board.trailers("Board-Transition").len(), 2);
    board.op("rm .git/index.lock");
    assert_all_once(&board, 4);
    assert_eq!(board.op(in_hand), before);
    board.op("git commit --quiet -m 'Eigenes'; git checkout --quiet -- src; rm lose.txt");
    // A merge and a rebase that stopped at a conflict.
    board.op("git checkout --quiet -b seite HEAD~1; echo drei >src/neu.txt; git add src/neu.txt; \
         git commit --quiet -m Drei; git checkout --quiet main");
    for (n, (begin, end)) in
        [("git merge seite", "git merge --abort"), ("git rebase seite", "git rebase --abort")]
            .iter()
            .enumerate()
    {
        board.op(&format!("{begin} && exit 1 || true"));
        let tip = board.op("git rev-parse refs/heads/main");
        let card = format!("ok-warten-{n}");
        board.questions(&[&card]);
        board.op("git status --short | head -3 >/dev/null");
        let was = board.trailers("Board-Transition").len();
        // While the branch is not checked out as it is, the documents are those of its commit.
        if board.move_to(&card, "recherche_laeuft").status == 202 {
            board.wait_phase(&card, &["recherche_fertig"]);
            assert_eq!(board.op("git rev-parse refs/heads/main"), tip);
            board.op(end);
            assert_all_once(&board, was + 2);
        } else {
            board.op(end);
        }
    }
    // A detached head: commits go onto the branch, the checkout is not touched.
    board.op("git add docs; git commit --quiet -m Fragen; git checkout --quiet --detach");
    let head = board.op("git rev-parse HEAD; git status --porcelain");
    let was = board.trailers("Board-Transition").len();
    board.op("git show main:docs/research/ok-eins.md >/dev/null");
    board.call("ok-eins", "retry");
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    board.wait("both commits", || (board.trailers("Board-Transition").len() == was + 2).then_some(()));
    assert_eq!(board.op("git rev-parse HEAD; git status --porcelain"), head);
}

#[test]
fn row_36_the_lock_of_a_git_of_ours_that_was_killed_goes_and_the_index_is_right() {
    let board = Board::start();
    board.arm();
    board.questions(&["ok-eins"]);
    board.plan("git.ref_moved:kill");
    board.research("ok-eins");
    board.wait_fault();
    board.wait_phase("ok-eins", &["recherche_fertig"]);
    assert_all_once(&board, 2);
    let said = board.journal("--unit=board-agent-watcher.service --grep='index.lock'");
    assert!(!said.is_empty(), "it is told");
    assert_eq!(board.op("ls .git/index.lock 2>/dev/null || true"), "");
    assert_eq!(board.op("git status --porcelain docs/board docs/research-report"), "");
}

#[test]
fn row_37_hooks_signatures_and_a_missing_identity_do_not_stop_a_commit() {
    let board = Board::start();
    board.op(
        "for hook in pre-commit commit-msg post-commit reference-transaction prepare-commit-msg post-checkout; do \
         printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/$hook; chmod +x .git/hooks/$hook; done; \
         git config commit.gpgsign true; git config gpg.program /bin/false; git config --unset user.name; \
         git config --unset user.email",
    );
    board.sh(
        "mkdir -p /run/systemd/system/board-agent-.service.d; \
         printf '[Service]\\nEnvironment=HOME=/nonexistent\\n' >/run/systemd/system/board-agent-.service.d/90-home.conf; \
         systemctl daemon-reload; systemctl restart board-agent-watcher.service board-agent-trigger.service",
    );
    board.intents(&["ok-eins"]);
    board.build("ok-eins");
    board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    assert_all_once(&board, 3);
    assert_eq!(board.op("git log -1 --format='%an <%ae> %G?' main"), "board-agent <board@example.invalid> N");
}

#[test]
fn row_38_worktrees_that_are_gone_in_use_or_half_made_stop_no_build() {
    let board = Board::start();
    // Gone.
    let (unit, _) = building(&board, "gate-eins");
    board.systemctl(&format!("stop '{unit}'"));
    let card = board.wait_phase("gate-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&card), "interrupted");
    wait_idle(&board, "build");
    board.sh(&format!("rm -r {STATE}/worktrees/gate-eins-1"));
    board.open("gate-eins");
    let resumed = board.call("gate-eins", "resume");
    assert!(matches!(resumed.status, 202 | 409), "{}", resumed.body);
    let card = board.wait_phase("gate-eins", &["umsetzung_fehlgeschlagen", "bereit_fuer_deployment"]);
    if card["phase"] == "umsetzung_fehlgeschlagen" {
        assert_eq!(board.call("gate-eins", "retry").status, 202);
        board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    }
    // Its branch is in use by the operator, and one is half made: locked while it is initialised.
    let (unit, _) = building(&board, "gate-zwei");
    board.systemctl(&format!("stop '{unit}'"));
    board.wait_phase("gate-zwei", &["umsetzung_fehlgeschlagen"]);
    wait_idle(&board, "build");
    board.op("git worktree add --quiet --force ~/dort board/gate-zwei/1; mkdir -p .git/worktrees/halb; \
         echo initializing >.git/worktrees/halb/locked; echo /nirgends/.git >.git/worktrees/halb/gitdir");
    board.open("gate-zwei");
    assert_eq!(board.call("gate-zwei", "retry").status, 202);
    let card = board.wait_phase("gate-zwei", &["bereit_fuer_deployment"]);
    assert_eq!(card["branch"], "board/gate-zwei/2");
    board.systemctl("start board-agent-sweep.service");
    assert_eq!(board.op("cat ~/dort/src/text.txt"), "eins", "the operator's stays");
}

#[test]
fn row_48_a_build_goes_on_with_the_intent_that_it_was_started_with() {
    let board = Board::start();
    for (card, change) in [
        ("gate-eins", "echo Mehr. >>docs/intent/gate-eins.md"),
        (
            "gate-zwei",
            "git mv -k docs/intent/gate-zwei.md docs/intent/anders.md 2>/dev/null; mv docs/intent/gate-zwei.md docs/intent/anders.md",
        ),
        ("gate-drei", "rm docs/intent/gate-drei.md"),
    ] {
        building(&board, card);
        board.op(change);
        board.open(card);
        board.wait_phase(card, &["bereit_fuer_deployment"]);
        let page = board.send("GET", &format!("/karten/{card}"), None).unwrap().body;
        let told = ["geändert", "nicht mehr da", "fehlt"].iter().any(|word| page.contains(word));
        assert!(told, "{card}: the page says that the intent is another one, or gone");
        wait_idle(&board, "read");
    }
    board.wait_committed();
}

#[test]
fn row_54_what_the_operator_does_to_the_history_loses_and_doubles_no_transition() {
    let board = Board::start();
    board.op("git checkout --quiet -b fremd; echo fremd >fremd.txt; git add fremd.txt; git commit --quiet -m Fremdes; \
        git checkout --quiet main");
    transition(&board, "ok-eins");
    assert_all_once(&board, 2);
    let steps = [
        // Amends his own commit on top of the board's.
        "echo a >a.txt; git add a.txt; git commit --quiet -m A; echo b >>a.txt; git commit --quiet -a --amend -m B",
        // Rebases the board's commits onto others.
        "git stash --quiet -u; git rebase --quiet --force-rebase fremd; git stash pop --quiet",
        // Takes the newest commit of the board back.
        "git reset --quiet --hard HEAD~1",
        // Pulls others'.
        "git fetch --quiet . fremd; git merge --quiet --no-edit fremd",
    ];
    for (n, step) in steps.iter().enumerate() {
        board.op(step);
        let card = format!("ok-nach-{n}");
        transition(&board, &card);
        board.wait_committed();
        board.wait(&format!("all transitions after {step}"), || {
            (board.trailers("Board-Transition").len() == 2 * (n + 2)).then_some(())
        });
        assert_all_once(&board, 2 * (n + 2));
        let record = board.op(&format!("git show main:docs/board/{card}.yaml"));
        assert!(record.contains("recherche_fertig"), "{record}");
        assert_eq!(board.phase("ok-eins"), "recherche_fertig", "no event by a file");
    }
}

#[test]
fn row_55_operator_and_service_are_two_users_and_neither_locks_the_other_out() {
    let board = Board::start();
    assert_ne!(board.sh("id -u op"), board.sh("id -u board-agent"));
    for round in 0..2 {
        let card = format!("ok-{round}");
        board.intents(&[&card]);
        board.build(&card);
        board.wait_phase(&card, &["bereit_fuer_deployment"]);
        board.wait_committed();
        // All that an operator does with a checkout.
        board.op(&format!(
            "echo {round} >>src/text.txt; git commit --quiet -am 'Runde {round}'; git commit --quiet --amend -m Neu; \
             git gc --quiet; git checkout --quiet -b zweig-{round}; git checkout --quiet main; \
             echo mehr >>docs/board/notiz.txt; git add docs/board/notiz.txt; git commit --quiet -m Notiz; \
             git merge --quiet --no-edit board/{card}/1; rm -f docs/review/{card}.md; git checkout docs; \
             echo Nachtrag >>docs/review/{card}.md; git commit --quiet -am Nachtrag; git fsck --no-progress"
        ));
    }
    assert_eq!(board.trailers("Board-Transition").len(), 6);
    board.sh_as("board-agent", "boardctl doctor >/dev/null || true; cd /srv/repo; git -c safe.directory=/srv/repo fsck --no-progress");
}
