//! Whether a finished build is in the branch already: somebody merged it outside, and the card offers `deployed`.
//!
//! Asked when the documents are looked at, and only about what is not known for this tip of the branch: cards in
//! `bereit_fuer_deployment` with a check commit. No timer and no card moved by itself; a tip that nobody looks
//! at costs nothing.
use std::collections::{BTreeMap, BTreeSet};

use board_core::edge::git::{Git, Oid};
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId};
use board_core::model::phase::Phase;

/// Commits that one look asks git about; the others come with the next one.
const ASKED_AT_ONCE: usize = 20;

/// What is known for one tip of the branch.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    tip: Option<Oid>,
    /// By check commit: whether the tip contains it.
    known: BTreeMap<String, bool>,
}

impl Merged {
    /// The cards whose check commit the tip contains, as far as that is known. `of` are the cards that matter
    /// to the look, or all.
    pub(crate) fn look(
        &mut self,
        git: &Git,
        tip: Option<&Oid>,
        board: &Board,
        of: Option<&[&CardId]>,
    ) -> BTreeSet<CardId> {
        let Some(tip) = tip else { return BTreeSet::new() };
        if self.tip.as_ref() != Some(tip) {
            self.moved(git, tip);
        }
        let waiting = || board.cards.values().filter_map(|card| Some((card, waits_with(card)?)));
        let matters = |card: &Card| of.is_none_or(|ids| ids.contains(&&card.id));
        let asked: BTreeSet<&str> = waiting()
            .filter(|(card, commit)| matters(card) && !self.known.contains_key(*commit))
            .map(|(_, commit)| commit)
            .take(ASKED_AT_ONCE)
            .collect();
        for commit in asked {
            // A commit that git does not have, or a name that is none, is in no branch.
            let there = Oid::parse(commit).is_ok_and(|oid| git.is_ancestor(&oid, tip).unwrap_or(false));
            self.known.insert(commit.to_owned(), there);
        }
        waiting()
            .filter(|(_, commit)| self.known.get(*commit) == Some(&true))
            .map(|(card, _)| card.id.clone())
            .collect()
    }

    /// What the old tip contained the new one contains as well, unless the branch was rewritten.
    fn moved(&mut self, git: &Git, tip: &Oid) {
        self.known.retain(|_, there| *there);
        let goes_on = || self.tip.as_ref().is_some_and(|old| git.is_ancestor(old, tip).unwrap_or(false));
        if !self.known.is_empty() && !goes_on() {
            self.known.clear();
        }
        self.tip = Some(tip.clone());
    }
}

/// The check commit of a card that waits to be deployed.
fn waits_with(card: &Card) -> Option<&str> {
    let build = card.build.as_ref().filter(|_| card.phase == Phase::BereitFuerDeployment)?;
    build.check_commit.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_core::edge::git::{GitOptions, Identity};
    use board_core::model::card::{Build, Source};
    use board_core::model::time::Timestamp;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;

    fn run(repository: &Path, args: &[&str]) -> String {
        let who =
            ["-c", "user.name=lukas", "-c", "user.email=lukas@example.org", "-c", "commit.gpgsign=false"];
        let done = Command::new("git")
            .current_dir(repository)
            .args(who)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A repository whose git tells how often it was asked about ancestors.
    struct Counted {
        dir: tempfile::TempDir,
        git: Git,
    }

    impl Counted {
        fn new() -> Counted {
            let dir = tempfile::tempdir().unwrap();
            let (repository, program) = (dir.path().join("repo"), dir.path().join("git"));
            std::fs::create_dir(&repository).unwrap();
            run(&repository, &["init", "-q", "-b", "main"]);
            run(&repository, &["commit", "-q", "--allow-empty", "-m", "anfang"]);
            let log = dir.path().join("asked");
            std::fs::write(&log, "").unwrap();
            let script = format!(
                "#!/bin/sh\ncase \"$*\" in *is-ancestor*) echo >>'{}' ;; esac\nexec git \"$@\"\n",
                log.display()
            );
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let options = GitOptions {
                allow_filters: false,
                identity: Identity { name: "board".into(), email: "board@example.org".into() },
                lock_note_dir: dir.path().to_owned(),
                program,
            };
            Counted { git: Git::open(&repository, options).unwrap(), dir }
        }

        fn run(&self, args: &[&str]) -> String {
            run(&self.dir.path().join("repo"), args)
        }

        fn asked(&self) -> usize {
            std::fs::read_to_string(self.dir.path().join("asked")).unwrap().len()
        }

        fn look(&self, merged: &mut Merged, board: &Board) -> Vec<String> {
            let tip = self.git.branch_tip("main").unwrap();
            merged.look(&self.git, tip.as_ref(), board, None).iter().map(ToString::to_string).collect()
        }
    }

    fn card(board: &mut Board, slug: &str, phase: Phase, commit: &str) {
        let id: CardId = slug.parse().unwrap();
        let mut card = Card::new(id.clone(), Source::Intent, slug, phase, Timestamp::MIN);
        card.build = Some(Build {
            number: 1,
            branch: format!("board/{slug}/1"),
            worktree: None,
            base_commit: commit.to_owned(),
            diff_base: commit.to_owned(),
            check_commit: Some(commit.to_owned()),
            earlier_check: None,
            given_up: false,
            intent_blob: String::new(),
            saved_refs: Vec::new(),
        });
        board.cards.insert(id, card);
    }

    #[test]
    fn git_is_asked_once_per_tip_and_never_again_about_what_the_branch_has() {
        let house = Counted::new();
        let mut board = Board::empty();
        let main = house.run(&["rev-parse", "HEAD"]);
        house.run(&["checkout", "-q", "-b", "work"]);
        house.run(&["commit", "-q", "--allow-empty", "-m", "gebaut"]);
        let built = house.run(&["rev-parse", "HEAD"]);
        house.run(&["checkout", "-q", "main"]);
        card(&mut board, "offen", Phase::BereitFuerDeployment, &built);
        card(&mut board, "fremd", Phase::BereitFuerDeployment, &"0".repeat(40));
        card(&mut board, "geplant", Phase::Geplant, &main);
        let mut merged = Merged::default();
        for _ in 0..3 {
            assert_eq!(house.look(&mut merged, &board), Vec::<String>::new());
        }
        assert_eq!(house.asked(), 2, "of the two that wait, once each");
        house.run(&["merge", "-q", "--no-ff", "-m", "von Hand", "work"]);
        for _ in 0..3 {
            assert_eq!(house.look(&mut merged, &board), ["offen"]);
        }
        assert_eq!(house.asked(), 4);
        house.run(&["commit", "-q", "--allow-empty", "-m", "weiter"]);
        assert_eq!(house.look(&mut merged, &board), ["offen"]);
        assert_eq!(house.asked(), 6, "whether the branch goes on, and of the one it has not");
        // Rewritten: what was known of it counts no more.
        house.run(&["reset", "-q", "--hard", &main]);
        assert_eq!(house.look(&mut merged, &board), Vec::<String>::new());
    }

    #[test]
    fn one_look_asks_about_so_many_and_the_next_about_the_others() {
        let house = Counted::new();
        let mut board = Board::empty();
        for n in 0..=ASKED_AT_ONCE {
            house.run(&["commit", "-q", "--allow-empty", "-m", &format!("gebaut {n}")]);
            let built = house.run(&["rev-parse", "HEAD"]);
            card(&mut board, &format!("k-{n}"), Phase::BereitFuerDeployment, &built);
        }
        let mut merged = Merged::default();
        assert_eq!(house.look(&mut merged, &board).len(), ASKED_AT_ONCE);
        assert_eq!(house.asked(), ASKED_AT_ONCE);
        assert_eq!(house.look(&mut merged, &board).len(), ASKED_AT_ONCE + 1);
        assert_eq!(house.asked(), ASKED_AT_ONCE + 1);
        // A look at one card asks about that one alone.
        let tip = house.git.branch_tip("main").unwrap();
        let one: CardId = "k-3".parse().unwrap();
        assert!(Merged::default().look(&house.git, tip.as_ref(), &board, Some(&[&one])).contains(&one));
        assert_eq!(house.asked(), ASKED_AT_ONCE + 2);
    }
}
