//! The watcher as it runs: woken by events, ended by a signal.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use board_core::model::phase::Phase;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::setup::Setup;

/// How long something may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// A child that does not survive its test.
struct Daemon(Child);

impl Daemon {
    fn start(setup: &Setup) -> Daemon {
        let child = Command::new(env!("CARGO_BIN_EXE_board-watcher"))
            .args(["--config".as_ref(), setup.path().join("config.toml").as_os_str()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Daemon(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn an_outcome_wakes_it_and_sigterm_ends_it_cleanly() {
    let setup = Setup::new();
    let mut daemon = Daemon::start(&setup);
    wait_for("the first start", || setup.board().branch.is_some());
    setup.built("one");
    wait_for("the review", || setup.card("one").phase == Phase::Review);
    wait_for("the commits", || setup.subjects().len() == 3);
    // A second one is refused by the lock.
    let second = Command::new(env!("CARGO_BIN_EXE_board-watcher"))
        .args(["--config".as_ref(), setup.path().join("config.toml").as_os_str()])
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another watcher"));
    kill(Pid::from_raw(daemon.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    wait_for("its end", || daemon.0.try_wait().unwrap().is_some());
    assert!(daemon.0.wait().unwrap().success());
}

#[test]
fn a_bad_command_line_and_a_bad_configuration_are_told() {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_board-watcher")).args(args).output().unwrap();
    assert_eq!(run(&["--bogus"]).status.code(), Some(2));
    let missing = run(&["--config", "/nonexistent.toml"]);
    assert_eq!(missing.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent.toml"));
}
