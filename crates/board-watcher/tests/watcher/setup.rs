//! A repository, a state directory and the operator of a test.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;

use board_core::edge::clock;
use board_core::edge::documents::{Documents, Seed};
use board_core::edge::git::{Git, GitOptions, Identity};
use board_core::edge::orders::{Orders, StartFrom};
use board_core::edge::queue::Queue;
use board_core::edge::settings::Settings;
use board_core::edge::store::Store;
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::event::Event;
use board_core::model::job::{Job, Payload};
use board_core::model::marker::draft::{ProposedIntent, Question};
use board_core::model::marker::review::Decision;
use board_core::model::marker::split::{ChildKind, ProposedChild};
use board_core::model::outcome::{Built, Outcome, Produced, RunResult};
use board_core::model::slug::Slug;
use board_watcher::{Hooks, Tick, Watcher};
use uuid::Uuid;

pub(crate) const DRAFT: Uuid = Uuid::from_u128(0xd4af7);

pub(crate) struct Setup {
    dir: tempfile::TempDir,
}

pub(crate) fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

pub(crate) fn id(text: &str) -> CardId {
    text.parse().unwrap()
}

/// The configuration of a directory made by [`Setup::new`].
pub(crate) fn settings(dir: &Path) -> Settings {
    Settings::load(&dir.join("config.toml")).unwrap()
}

/// Passes until one leaves nothing undone; at most so many that a fault shows.
pub(crate) fn settle(watcher: &mut Watcher) -> Tick {
    let mut last = Tick::default();
    for _ in 0..6 {
        last = watcher.tick();
        if !last.undone {
            // Once more: what one part did is work for another.
            last = watcher.tick();
            break;
        }
    }
    last
}

impl Setup {
    /// With the intents `one`, `two`, `three` and the question `why`, committed.
    pub(crate) fn new() -> Setup {
        let setup = Setup { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(setup.repo()).unwrap();
        setup.git(&["init", "-q", "-b", "main"]);
        for name in ["one", "two", "three"] {
            setup.write(&format!("docs/intent/{name}.md"), &format!("# Intent: {name}\n"));
        }
        setup.write("docs/research/why.md", "# Warum?\n");
        setup.git(&["add", "-A"]);
        setup.git(&["commit", "-q", "-m", "first"]);
        let config = format!(
            "[board]\nrepository = {:?}\nstate_dir = {:?}\nundo_seconds = 5\n[audit]\nquiet_seconds = 0\n\
             [runtimes.codex]\nkind = \"codex\"\nprogram = \"codex\"\n[profiles.standard]\nruntime = \"codex\"\n\
             [profiles.stark]\nruntime = \"codex\"\n\
             [roles.builder]\nprofile = \"standard\"\n[roles.reviewer]\nprofile = \"standard\"\n\
             [roles.researcher]\nprofile = \"standard\"\n[roles.planner]\nprofile = \"standard\"\n",
            setup.repo(),
            setup.state()
        );
        std::fs::write(setup.path().join("config.toml"), config).unwrap();
        Store::init(&setup.state()).unwrap();
        Queue::open(&setup.state(), true).unwrap();
        setup
    }

    /// The same with an external builder, whose directories are `out` and `results`.
    pub(crate) fn external() -> Setup {
        let setup = Setup::new();
        let (inbox, results) = (setup.path().join("out"), setup.path().join("results"));
        std::fs::create_dir(&inbox).unwrap();
        std::fs::create_dir(&results).unwrap();
        let config = setup.path().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        let more = format!("[builder]\ninbox = {inbox:?}\nresults = {results:?}\n");
        std::fs::write(&config, text + &more).unwrap();
        setup
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.state()).unwrap()
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue::open(&self.state(), false).unwrap()
    }

    pub(crate) fn watcher(&self) -> Watcher {
        Watcher::open(settings(&self.path()), Hooks::dev()).unwrap()
    }

    /// Passes until nothing is left to do.
    pub(crate) fn settle(&self) -> Tick {
        settle(&mut self.watcher())
    }

    pub(crate) fn documents(&self) -> Documents {
        let options = GitOptions {
            allow_filters: false,
            identity: Identity { name: "Board".into(), email: "board@example.org".into() },
            lock_note_dir: self.state().join("locks"),
            program: "git".into(),
        };
        Documents::new(Git::open(&self.repo(), options).unwrap(), "main")
    }

    /// A git of the operator that must succeed; its output.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env("HOME", self.path()).env("GIT_CONFIG_NOSYSTEM", "1").env_remove("XDG_CONFIG_HOME");
        for person in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{person}_NAME"), "Operator")
                .env(format!("GIT_{person}_EMAIL"), "op@x.org");
        }
        let output = command.args(args).current_dir(self.repo()).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.repo().join(path)).unwrap()
    }

    pub(crate) fn board(&self) -> Board {
        Board::clone(&self.store().read().unwrap())
    }

    pub(crate) fn card(&self, name: &str) -> Card {
        self.board().cards[&id(name)].clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Board)) {
        self.store()
            .update(|board| {
                change(board);
                Ok::<(), Infallible>(())
            })
            .unwrap();
    }

    pub(crate) fn subjects(&self) -> Vec<String> {
        self.git(&["log", "--format=%s", "main"]).lines().map(ToOwned::to_owned).collect()
    }

    /// Values of a trailer over the whole branch, oldest first.
    pub(crate) fn trailers(&self, key: &str) -> Vec<String> {
        let format = format!("--format=%(trailers:key={key},valueonly)");
        let text = self.git(&["log", "--reverse", &format, "main"]);
        text.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
    }

    fn stamp() -> Stamp {
        Stamp { park: false, ..clock::stamp("lukas") }
    }

    /// The operator's event on a card, unparked.
    pub(crate) fn event(&self, name: &str, event: Event) {
        self.event_at(name, event, &Setup::stamp());
    }

    pub(crate) fn event_at(&self, name: &str, event: Event, stamp: &Stamp) {
        let seed = self.documents().seed_card(&slug(name)).unwrap();
        let policy = settings(&self.path()).policy();
        self.store()
            .update(|board| {
                if let (false, Seed::Card(card)) = (board.cards.contains_key(&id(name)), seed) {
                    board.cards.insert(id(name), *card);
                }
                board.apply(&id(name), event, stamp, &policy)
            })
            .unwrap();
    }

    fn seeded(&self, name: &str) -> Card {
        if let Some(card) = self.board().cards.get(&id(name)) {
            return card.clone();
        }
        match self.documents().seed_card(&slug(name)).unwrap() {
            Seed::Card(card) => *card,
            other @ (Seed::Nothing | Seed::Broken(_)) => panic!("{other:?}"),
        }
    }

    pub(crate) fn start_payload(&self, name: &str) -> Payload {
        let documents = self.documents();
        Orders::new(&documents).start_payload(&self.seeded(name), StartFrom::Branch).unwrap()
    }

    pub(crate) fn start(&self, name: &str) -> Job {
        let payload = self.start_payload(name);
        self.event(name, Event::Started { payload });
        self.card(name).job.unwrap()
    }

    pub(crate) fn split(&self, name: &str) -> Job {
        let documents = self.documents();
        let payload = Orders::new(&documents).split_payload(&self.seeded(name)).unwrap();
        self.event(name, Event::SplitStarted { payload });
        self.card(name).job.unwrap()
    }

    /// A draft in its first round.
    pub(crate) fn draft(&self) -> Job {
        let policy = settings(&self.path()).policy();
        self.store()
            .update(|board| board.create_draft(DRAFT, "Eine Liste kürzen", &Setup::stamp(), &policy))
            .unwrap();
        self.board().cards[&CardId::Draft(DRAFT)].job.clone().unwrap()
    }

    pub(crate) fn leave(&self, job: &Job, result: RunResult, produced: Option<Produced>) -> Outcome {
        let mut outcome = Outcome::without_run(job, result, "Satz", clock::now());
        outcome.produced = produced;
        self.queue().leave_outcome(&outcome).unwrap();
        // As a worker does, where the job was published.
        self.queue().inbox_to_done(job.kind.lane(), job.reference(), "it ran").unwrap();
        outcome
    }

    pub(crate) fn succeed(&self, job: &Job, produced: Produced) -> Outcome {
        self.leave(job, RunResult::Succeeded, Some(produced))
    }

    /// Starts the card and leaves a check commit.
    pub(crate) fn built(&self, name: &str) -> Outcome {
        let job = self.start(name);
        let build = self.card(name).build.unwrap();
        let commit = self.git(&["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "work"]);
        self.git(&["branch", "-f", &build.branch, &commit]);
        let built = Built {
            branch: build.branch,
            base: build.base_commit,
            commit,
            files_changed: 1,
            summary: "fertig".into(),
            put_back: vec![],
        };
        self.succeed(&job, Produced::Build(built))
    }

    /// Leaves the verdict on a card that is under review.
    pub(crate) fn reviewed(&self, name: &str, decision: Decision, report: &str) -> Outcome {
        let job = self.card(name).job.unwrap();
        let Payload::Review(payload) = &job.payload else { panic!("{job:?}") };
        let commit = payload.commit.clone();
        self.succeed(&job, Produced::Review { commit, decision, report: report.into() })
    }

    /// Names in a directory of the queue, sorted.
    pub(crate) fn files(&self, dir: &str) -> Vec<String> {
        let dir = self.state().join("queue").join(dir);
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Published jobs of all lanes.
    pub(crate) fn inboxes(&self) -> Vec<String> {
        ["build", "draft", "read", "research"]
            .iter()
            .flat_map(|lane| self.files(&format!("inbox/{lane}")))
            .collect()
    }
}

pub(crate) fn intent(name: &str) -> Produced {
    Produced::Intent(ProposedIntent {
        slug: slug(name),
        profile: None,
        iterations: None,
        body: format!("# Intent: {name}\n"),
    })
}

pub(crate) fn question() -> Produced {
    Produced::Question(Question { text: "Wie viele?".into(), options: vec!["10".into(), "25".into()] })
}

pub(crate) fn children(names: &[(&str, ChildKind)]) -> Produced {
    let child = |(name, kind): &(&str, ChildKind)| ProposedChild {
        slug: slug(name),
        kind: *kind,
        profile: None,
        iterations: None,
        body: format!("# {name}\n"),
    };
    Produced::Split { children: names.iter().map(child).collect() }
}

/// What backs a card.
pub(crate) fn source_of(board: &Board, name: &str) -> Source {
    board.cards[&id(name)].source
}
