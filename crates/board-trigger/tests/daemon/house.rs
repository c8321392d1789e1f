//! A running trigger in a temporary directory, and a client that sends exactly what it is told.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use board_core::edge::clock;
use board_core::edge::settings::{DirectoryCheck, Settings};
use board_core::edge::store::Store;
use board_core::model::board::{Board, Policy};
use board_core::model::card::CardId;
use board_core::model::outcome::{Outcome, Produced, RunResult};
use board_trigger::{Address, Hooks, Stop, run};
use serde_json::Value;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The secret of the proxy in mode `proxy`.
pub(crate) const SECRET: &str = "geheim-geheim-geheim";

/// A running trigger.
pub(crate) struct House {
    dir: tempfile::TempDir,
    stop: Stop,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    policy: Policy,
    pub(crate) address: Address,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.head, self.text()))
    }

    /// The one value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value);
        assert!(values.next().is_none(), "{name} stands twice: {}", self.head);
        value
    }
}

fn git(repository: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(repository)
        .args(["-c", "user.name=lukas", "-c", "user.email=lukas@example.org", "-c", "commit.gpgsign=false"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl House {
    /// With the token of mode `open`, and a long undo window so that starts stay parked.
    pub(crate) fn open() -> House {
        House::with("[auth]\nmode = \"open\"\n", 30)
    }

    /// Behind a proxy.
    pub(crate) fn proxy() -> House {
        House::with(
            "[auth]\nmode = \"proxy\"\nuser_header = \"X-Auth-Request-User\"\nsecret_file = \"@/secret\"\n\
             operators = { users = [\"lukas\"] }\nviewers = { users = [\"gast\"] }\n",
            0,
        )
    }

    /// With this `[auth]` section and undo window.
    pub(crate) fn with(auth: &str, undo_seconds: u32) -> House {
        let dir = tempfile::tempdir().unwrap();
        let (repository, state) = (dir.path().join("repo"), dir.path().join("state"));
        for path in [repository.join("docs/intent"), repository.join("docs/research"), state.clone()] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(dir.path().join("secret"), SECRET).unwrap();
        std::fs::write(repository.join("docs/intent/limit.md"), "# Intent: Kartenlimit\n\nEin *Limit*.\n")
            .unwrap();
        std::fs::write(repository.join("docs/research/frage.md"), "# Welche Datenbank?\n").unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "anfang"]);
        let text = format!(
            "[board]\nrepository = \"@/repo\"\nbranch = \"main\"\nstate_dir = \"@/state\"\nundo_seconds = {undo_seconds}\n\
             [http]\nlisten = \"127.0.0.1:0\"\n{auth}\
             [runtimes.script]\nkind = \"command\"\nargv = [\"/bin/true\"]\n\
             [profiles.klein]\nruntime = \"script\"\n[profiles.gross]\nruntime = \"script\"\niterations = 7\n\
             [roles.builder]\nprofile = \"klein\"\n[roles.reviewer]\nprofile = \"klein\"\n\
             [roles.researcher]\nprofile = \"klein\"\n[roles.planner]\nprofile = \"klein\"\n"
        )
        .replace('@', &dir.path().display().to_string());
        let settings =
            Settings::load_from_str(&dir.path().join("config.toml"), &text, DirectoryCheck::Check).unwrap();
        let policy = settings.policy();
        let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
        let hooks = Hooks::embedded(stop.clone(), move |address| tell.send(address.clone()).unwrap());
        let thread = std::thread::spawn(move || run(settings, hooks));
        let address = match told.recv_timeout(PATIENCE) {
            Ok(address) => address,
            Err(_) => panic!("the trigger did not start: {:?}", thread.join()),
        };
        House { dir, stop, thread: Some(thread), policy, address }
    }

    /// git as the operator.
    pub(crate) fn git(&self, args: &[&str]) {
        git(&self.repository(), args);
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// The directory that holds everything of this house.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The TCP address.
    pub(crate) fn tcp(&self) -> SocketAddr {
        self.address.tcp.unwrap()
    }

    /// The token of mode `open`.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.state().join("open.token")).unwrap()
    }

    /// Sends bytes to the board and reads until it closes.
    pub(crate) fn raw(&self, request: &str) -> Reply {
        exchange(TcpStream::connect(self.tcp()).unwrap(), request)
    }

    /// Sends bytes to the control socket.
    pub(crate) fn control(&self, request: &str) -> Reply {
        exchange(UnixStream::connect(&self.address.control).unwrap(), request)
    }

    /// A request of a program with the token: `line` is method and address, `headers` are whole lines.
    pub(crate) fn ask(&self, line: &str, headers: &str, body: &str) -> Reply {
        let (host, token) = (self.tcp(), self.token());
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\nContent-Type: application/json\r\n", body.len())
        };
        self.raw(&format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{length}{headers}\r\n{body}"
        ))
    }

    /// A GET with the token.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), "", "")
    }

    /// A POST of JSON with the token.
    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.ask(&format!("POST {path}"), "", body)
    }

    /// A form as a browser posts it, with the token.
    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let spell = |text: &str| -> String {
            text.bytes()
                .map(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                    _ => format!("%{byte:02X}"),
                })
                .collect()
        };
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", spell(name), spell(value))).collect();
        let body = pairs.join("&");
        let (host, token) = (self.tcp(), self.token());
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Changes the state as another daemon does.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        let (store, _) = Store::init(&self.state()).unwrap();
        store.update(|board| Ok::<_, std::convert::Infallible>(change(board))).unwrap()
    }

    /// What the configuration says, for changes that need it.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// The current run of a card ends with this answer of its role, and the watcher applies it.
    pub(crate) fn answer_of_role(&self, card: &str, produced: Produced) {
        let (id, policy): (CardId, Policy) = (card.parse().unwrap(), self.policy());
        self.change(|board| {
            let outcome = outcome(board, &id, Some(produced));
            board.apply_outcome(&outcome, &[], &clock::stamp("board"), &policy).unwrap();
        });
    }

    /// Names of all job files of a directory of the queue, at any depth.
    pub(crate) fn queued(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![self.state().join("queue")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    found.push(path.display().to_string());
                }
            }
        }
        found
    }

    /// The audit log, line by line.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.state().join("logs/audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until something is so.
    pub(crate) fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks the daemon to stop, without waiting for it.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.ask();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write + Timeouts, request: &str) -> Reply {
    stream.limit();
    // The board may answer and close before all is sent.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

/// Splits an answer, its chunks put together.
fn parse(bytes: &[u8]) -> Reply {
    let end = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = bytes[end + 4..].to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        let mut rest = std::mem::take(&mut body);
        while let Some(at) = rest.windows(2).position(|w| w == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
            if size == 0 || rest.len() < at + 2 + size {
                break;
            }
            body.extend_from_slice(&rest[at + 2..at + 2 + size]);
            rest.drain(..(at + 4 + size).min(rest.len()));
        }
    }
    Reply { status, head, body }
}

/// What the current run of a card left; without an answer it failed.
pub(crate) fn outcome(board: &Board, card: &CardId, produced: Option<Produced>) -> Outcome {
    let job = board.cards[card].current_job().unwrap();
    let result = if produced.is_some() { RunResult::Succeeded } else { RunResult::Failed };
    let mut outcome = Outcome::without_run(job, result, "so ist es", clock::now());
    outcome.produced = produced;
    outcome
}

/// Sockets that can be given up on.
trait Timeouts {
    fn limit(&self);
}

impl Timeouts for TcpStream {
    fn limit(&self) {
        self.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}

impl Timeouts for UnixStream {
    fn limit(&self) {
        self.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}
