//! `queue` and `state` on the files of a board that does not run.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use board_core::edge::lock::{Lock, LockClass, watcher_lock};
use board_core::edge::queue::Queue;
use board_core::edge::store::Store;
use board_core::model::job::{Lane, parse_job};

/// A board that does not run, and its configuration.
pub(crate) struct Board {
    dir: tempfile::TempDir,
}

impl Board {
    pub(crate) fn new() -> Board {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        fs::create_dir(at.join("repository")).unwrap();
        assert!(
            Command::new("git").args(["init", "-q"]).arg(at.join("repository")).status().unwrap().success()
        );
        let role = |name| format!("[roles.{name}]\nprofile = \"standard\"\n");
        let roles: String = ["builder", "reviewer", "researcher", "planner"].map(role).concat();
        let config = format!(
            "[board]\nrepository = {:?}\nstate_dir = {:?}\n[auth]\nmode = \"open\"\n\
             [runtimes.script]\nkind = \"command\"\nargv = [\"/bin/true\"]\n\
             [profiles.standard]\nruntime = \"script\"\ndescription = \"x\"\n{roles}",
            at.join("repository"),
            at.join("state")
        );
        fs::write(at.join("config.toml"), config).unwrap();
        Store::init(&at.join("state")).unwrap();
        Queue::open(&at.join("state"), true).unwrap();
        Board { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("config.toml")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boardctl"));
        command.arg("--config").arg(self.config()).args(arguments);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queue-schema/examples").join(name)
}

#[test]
fn the_queue_is_told_with_its_locks_and_without_taking_one() {
    let board = Board::new();
    let (code, said, _) = board.run(&["queue"]);
    assert_eq!((code, said.as_str()), (Some(0), "Die Warteschlange ist leer.\n"));
    let bytes = fs::read(example("job.review.json")).unwrap();
    let queue = Queue::open(&board.state(), false).unwrap();
    queue.publish(&parse_job(&bytes).unwrap()).unwrap();
    let _lock = Lock::try_acquire(&watcher_lock(&board.state()), LockClass::Singleton).unwrap();
    let (code, said, _) = board.run(&["queue"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("inbox/read  board-kartenlimit  review"), "{said}");
    assert!(said.contains("Sperre watcher") && !said.contains("Sperre state"), "{said}");
    let (_, said, _) = board.run(&["queue", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["locks"][0]["holder"]["pid"], std::process::id());
    assert_eq!(fs::read_dir(queue.inbox_dir(Lane::Read)).unwrap().count(), 1);
}

#[test]
fn only_what_can_be_dropped_is_dropped() {
    let board = Board::new();
    let dropped = |board: &Board| {
        let queue = Queue::open(&board.state(), false).unwrap();
        queue.read_drops().unwrap().len()
    };
    let file = |name: &str| example(name).to_str().unwrap().to_owned();
    for name in ["job.review.json", "bad/drop.path.json"] {
        assert_eq!(board.run(&["queue", "drop", &file(name)]).0, Some(1), "{name}");
    }
    assert_eq!(dropped(&board), 0);
    assert_eq!(board.run(&["queue", "drop", &file("drop.builder.json")]).0, Some(0));
    assert_eq!(dropped(&board), 1);
}

#[test]
fn a_broken_state_is_found_and_an_earlier_one_brought_back() {
    let board = Board::new();
    let store = Store::open(&board.state()).unwrap();
    let change = |branch: &str| {
        store
            .update(|b| {
                b.branch = Some(branch.to_owned());
                Ok::<_, std::convert::Infallible>(())
            })
            .unwrap();
    };
    change("main");
    assert_eq!(board.run(&["state", "check"]).0, Some(0));
    change("other");
    // Nothing to bring back: what was done since would be lost.
    let (code, _, complained) = board.run(&["state", "restore"]);
    assert!(code == Some(1) && complained.contains("--force"), "{complained}");
    assert_eq!(store.read().unwrap().branch.as_deref(), Some("other"));
    fs::write(store.path(), "{\"schema\": 1,").unwrap();
    let (code, said, complained) = board.run(&["state", "check"]);
    assert_eq!(code, Some(1));
    assert!(complained.contains("state.json") && said.contains("state-"), "{said}{complained}");
    assert_eq!(board.run(&["state", "show"]).0, Some(1));
    assert_eq!(board.run(&["state", "restore", "state-none.json"]).0, Some(1));
    let (code, said, complained) = board.run(&["state", "restore"]);
    assert_eq!(code, Some(0), "{complained}");
    assert!(said.contains("state.json.broken-"), "{said}");
    assert_eq!(board.run(&["state", "show"]).0, Some(0));
}
