//! `dev` with real daemons: ready, a daemon that dies, the end.
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::files::Board;

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

struct Dev {
    board: Board,
    child: Child,
    address: String,
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(board: &Board) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boardctl"));
    command.arg("--config").arg(board.config()).args(["dev", "--port", "0"]);
    command
}

impl Dev {
    fn start() -> Dev {
        let board = Board::new();
        let log = fs::File::create(board.path().join("log")).unwrap();
        let mut child = command(&board).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line
            .trim()
            .strip_prefix("ready http://")
            .unwrap_or_else(|| panic!("{line}{}", fs::read_to_string(board.path().join("log")).unwrap()));
        let (address, token) = url.split_once("/?token=").expect("a token");
        assert!(token.len() >= 32, "{url}");
        Dev { board, child, address: address.to_owned(), _stdout: stdout }
    }

    fn children(&self) -> Vec<(i32, String)> {
        let pid = self.child.id();
        let path = format!("/proc/{pid}/task");
        let mut found = Vec::new();
        for task in fs::read_dir(path).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace() {
                let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
                found.push((child.parse().unwrap(), String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    fn child_named(&self, name: &str) -> Option<i32> {
        self.children()
            .into_iter()
            .find(|(_, line)| line.contains(&format!(" run {name} ")))
            .map(|(pid, _)| pid)
    }

    fn healthy(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 204"))
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn alive(pid: i32) -> bool {
    // A zombie whose parent is gone is reaped by somebody else, sooner or later.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_trigger_that_dies_is_started_again_and_no_request_is_refused() {
    let dev = Dev::start();
    assert!(dev.healthy().unwrap());
    let first = dev.child_named("trigger").unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    // Accepted by the kernel at once, answered by the next trigger.
    wait_until("an answer of the next trigger", || dev.healthy().expect("refused"));
    wait_until("the next trigger", || dev.child_named("trigger").is_some_and(|pid| pid != first));
    let log = fs::read_to_string(dev.board.path().join("log")).unwrap();
    assert!(log.contains("trigger hat unerwartet geendet (SIGKILL)"), "{log}");
}

#[test]
fn a_sigterm_ends_all_of_it_with_0() {
    let mut dev = Dev::start();
    let children = dev.children();
    assert!(children.len() >= 2, "{children:?}");
    kill(Pid::from_raw(dev.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let status = dev.child.wait().unwrap();
    let log = fs::read_to_string(dev.board.path().join("log")).unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None), "{log}");
    for (pid, line) in children {
        assert!(!alive(pid), "{line}");
    }
}

#[test]
fn a_second_dev_on_the_same_state_says_so_and_ends() {
    let dev = Dev::start();
    let second = command(&dev.board).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("läuft schon ein Board"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn nothing_outlives_a_dev_that_is_killed() {
    let mut dev = Dev::start();
    let children = dev.children();
    dev.child.kill().unwrap();
    dev.child.wait().unwrap();
    for (pid, line) in children {
        wait_until(&format!("the end of {line}"), || !alive(pid));
    }
}
