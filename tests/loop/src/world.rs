//! One world: repository, state directory, configuration, agent, and `boardctl dev` over them, or single daemons.

use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::space;
use board_core::model::job::Lane;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::http::{Answer, Client};
use crate::processes;

/// How long a test waits for anything. A limit against hanging, no measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The unprivileged user of the daemons (`nobody`), where the tests run as root.
const NOBODY: u32 = 65_534;

const AGENT: &str = include_str!("../agent.sh");

/// What differs between worlds.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seconds that a start can be taken back.
    pub undo_seconds: u32,
    /// `audit.quiet_seconds`
    pub quiet_seconds: u32,
    /// How long a `slow-*` build takes, seconds as `sleep` reads them; one second if empty.
    pub agent_seconds: String,
    /// The profile of every role; `standard` if empty.
    pub profile: String,
    /// The lines of `[limits]`; a minute of silence and five in all if empty.
    pub limits: String,
    /// The lines of `[http]`; any port of loopback if empty.
    pub http: String,
    /// The lines of `[auth]`; mode `open` if empty.
    pub auth: String,
    /// Further lines of the configuration, each a whole table.
    pub extra: String,
    /// Environment of `dev` and so of every daemon.
    pub env: Vec<(String, String)>,
}

/// A world of its own; its processes end with it.
#[derive(Debug)]
pub struct World {
    dir: tempfile::TempDir,
    options: Options,
    dev: Option<Child>,
    client: Option<Client>,
}

impl World {
    /// Makes repository, agent and configuration; nothing runs yet.
    ///
    /// # Errors
    /// If a directory or the repository cannot be made.
    pub fn new(options: Options) -> anyhow::Result<World> {
        World::with(|_| options)
    }

    /// The same, with options that need to know the world's directory.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn with(options: impl FnOnce(&Path) -> Options) -> anyhow::Result<World> {
        // Not below the clone: its parents need not be open to the unprivileged user.
        let dir = tempfile::Builder::new().prefix("board-loop-").tempdir_in("/var/tmp")?;
        // Builds wait where the disk is short, and every test would wait in vain with them.
        anyhow::ensure!(
            space::short(dir.path()).is_none(),
            "less than {} MiB are free in /var/tmp: make room, then run the tests again",
            space::MIN_FREE >> 20
        );
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))?;
        let options = options(dir.path());
        let world = World { dir, options, dev: None, client: None };
        for name in ["repo", "state", "home", "agent", "bin"] {
            std::fs::create_dir(world.path(name))?;
        }
        std::fs::set_permissions(world.path("state"), std::fs::Permissions::from_mode(0o700))?;
        world.install("boardctl")?;
        std::fs::write(world.path("agent/agent.sh"), AGENT)?;
        std::fs::set_permissions(world.path("agent/agent.sh"), std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(world.config(), world.configuration())?;
        world.give_away()?;
        world.git(&["init", "--quiet", "--initial-branch=main"])?;
        world.git(&["config", "user.name", "Operator"])?;
        world.git(&["config", "user.email", "operator@example.invalid"])?;
        world.write("README.md", "# Versuch\n")?;
        world.write("src/text.txt", "eins\n")?;
        world.git(&["add", "."])?;
        world.git(&["commit", "--quiet", "-m", "Anfang"])?;
        Ok(world)
    }

    /// A path in this world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The world's directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    fn configuration(&self) -> String {
        format!(
            "[board]\nrepository = \"{repo}\"\nbranch = \"main\"\nstate_dir = \"{state}\"\nundo_seconds = {undo}\n\
             [http]\n{http}\n[auth]\n{auth}\n\
             [audit]\nname = \"board-agent\"\nemail = \"board@example.invalid\"\nquiet_seconds = {quiet}\n\
             [limits]\n{limits}\n\
             [runtimes.script]\nkind = \"command\"\nargv = [\"{agent}\"]\nenv = {{ AGENT_SECONDS = \"{seconds}\" }}\n\
             [runtimes.counted]\nkind = \"command\"\nargv = [\"{agent}\", \"codex\"]\nevents = \"codex\"\n\
             [profiles.standard]\nruntime = \"script\"\ndescription = \"Text\"\n\
             [profiles.counted]\nruntime = \"counted\"\ndescription = \"Ereignisse wie codex\"\n\
             [roles.builder]\nprofile = \"{profile}\"\n[roles.reviewer]\nprofile = \"{profile}\"\n\
             [roles.researcher]\nprofile = \"{profile}\"\n[roles.planner]\nprofile = \"{profile}\"\n{extra}",
            http = or(&self.options.http, "listen = \"127.0.0.1:0\""),
            auth = or(&self.options.auth, "mode = \"open\""),
            limits = or(&self.options.limits, "idle_time = \"60s\"\nwall_time = \"5m\""),
            profile = or(&self.options.profile, "standard"),
            repo = self.path("repo").display(),
            state = self.path("state").display(),
            agent = self.path("agent/agent.sh").display(),
            undo = self.options.undo_seconds,
            quiet = self.options.quiet_seconds,
            extra = self.options.extra,
            seconds = self.options.agent_seconds,
        )
    }

    /// Copies a program to where the unprivileged user can run it.
    fn install(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path("bin").join(name);
        if !path.exists() {
            std::fs::copy(program(name)?, &path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(path)
    }

    /// A daemon's own program with this world's configuration.
    fn daemon(&self, name: &str) -> anyhow::Result<Command> {
        let mut command = self.command(self.install(name)?);
        command.arg("--config").arg(self.config());
        Ok(command)
    }

    /// Gives everything to the unprivileged user.
    fn give_away(&self) -> anyhow::Result<()> {
        if is_root() {
            for name in ["repo", "state", "home"] {
                chown(self.path(name), Some(NOBODY), Some(NOBODY))?;
            }
        }
        Ok(())
    }

    /// A command as the unprivileged user, with an environment of its own.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("LANG", "C.UTF-8")
            .envs(self.options.env.iter().cloned())
            .current_dir(self.path("repo"));
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// `boardctl` with this world's configuration.
    pub fn boardctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.path("bin/boardctl"));
        command.arg("--config").arg(self.config()).args(arguments);
        command
    }

    /// Runs git as the operator and returns its output.
    ///
    /// # Errors
    /// With what git said.
    pub fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command("git").args(arguments).output().context("git")?;
        anyhow::ensure!(
            output.status.success(),
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Writes a file of the repository as the operator.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let full = self.path("repo").join(path);
        let mut dir = self.path("repo");
        for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
            dir.push(part);
            if !dir.exists() {
                std::fs::create_dir(&dir)?;
                if is_root() {
                    chown(&dir, Some(NOBODY), Some(NOBODY))?;
                }
            }
        }
        std::fs::write(&full, text)?;
        if is_root() {
            chown(&full, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    /// Makes a directory of the world that everybody may use, as those that two services share.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open_dir(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        std::fs::create_dir(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        Ok(())
    }

    /// Writes an intent; its card's id decides what the agent does (`agent.sh`).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn intent(&self, slug: &str) -> anyhow::Result<()> {
        self.write(
            &format!("docs/intent/{slug}.md"),
            &format!("# Intent: {slug}\n\n## Ziel\n\nDie Datei ergänzen.\n"),
        )
    }

    /// Starts `boardctl dev` and waits until it says that it is ready.
    ///
    /// # Errors
    /// If it ends before, or says nothing within [`PATIENCE`].
    pub fn start(&mut self) -> anyhow::Result<()> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("dev.log"))?;
        let mut child =
            self.boardctl(&["dev"]).stdout(Stdio::piped()).stderr(log).stdin(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().context("stdout")?;
        self.dev = Some(child);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    // Nobody listens any more; the pipe is kept open and read on.
                }
            }
        });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = receiver
                .recv_timeout(left)
                .with_context(|| format!("dev is not ready; its log:\n{}", self.log()))?;
            if let Some((address, token)) =
                line.split_once("http://").and_then(|(_, url)| url.trim().split_once("/?token="))
            {
                self.client = Some(Client { address: address.to_owned(), token: token.to_owned() });
                return Ok(());
            }
        }
    }

    /// Starts the trigger's own program without the other daemons, and returns its process id once it answers.
    ///
    /// # Errors
    /// If it does not answer within [`PATIENCE`].
    pub fn start_trigger(&mut self) -> anyhow::Result<i32> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let pid = self.start_trigger_on(listener.into())?;
        let deadline = Instant::now() + PATIENCE;
        let client = loop {
            anyhow::ensure!(Instant::now() < deadline, "no answer; the log:\n{}", self.log());
            // The token comes with the trigger's first start.
            let token = std::fs::read_to_string(self.path("state/open.token")).unwrap_or_default();
            let client = Client { address: address.clone(), token: token.trim().to_owned() };
            let answers =
                || client.send("GET", "/healthz", None).is_ok_and(|answer| answer.status / 100 == 2);
            if !client.token.is_empty() && answers() {
                break client;
            }
            wait_a_little();
        };
        self.client = Some(client);
        Ok(pid)
    }

    /// Starts the trigger's own program on a socket, without waiting for it.
    ///
    /// The socket is handed over as systemd does, so that its address is known; a request waits in its backlog.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_trigger_on(&mut self, listener: OwnedFd) -> anyhow::Result<i32> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("dev.log"))?;
        let mut command = self.daemon("board-trigger")?;
        command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", "0").env("LISTEN_PID", "");
        let child = command.stdin(listener).stdout(log.try_clone()?).stderr(log).spawn()?;
        let pid = child.id().cast_signed();
        self.dev = Some(child);
        Ok(pid)
    }

    /// Starts one activation of a slot, the worker's own program.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_worker(&self, lane: Lane, slot: u32) -> anyhow::Result<Child> {
        Ok(self.worker(lane, slot)?.spawn()?)
    }

    /// One activation of a slot, to be started.
    ///
    /// # Errors
    /// If the program is not built or the log cannot be written.
    pub fn worker(&self, lane: Lane, slot: u32) -> anyhow::Result<Command> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("dev.log"))?;
        let mut command = self.daemon("board-worker")?;
        command.args(["--lane", lane.id(), "--slot", &slot.to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    /// The end of what the daemons said.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.path("dev.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// The client; [`World::start`] made it.
    ///
    /// # Panics
    /// If nothing was started.
    pub fn client(&self) -> Client {
        self.client.clone().unwrap_or_else(|| panic!("start the world first"))
    }

    /// A request to the API.
    ///
    /// # Panics
    /// If the board cannot be reached within [`PATIENCE`].
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.client().send(method, &format!("/api/board{path}"), body) {
                Ok(answer) => return answer,
                Err(error) if Instant::now() > deadline => {
                    panic!("{method} {path}: {error:#}\n{}", self.log())
                }
                // The trigger is being restarted.
                Err(_) => wait_a_little(),
            }
        }
    }

    /// Moves a card and returns the answer.
    pub fn move_to(&self, card: &str, to: &str) -> Answer {
        self.api("POST", &format!("/cards/{card}/move"), Some(&serde_json::json!({ "to": to })))
    }

    /// A call on a card without a body.
    pub fn call(&self, card: &str, what: &str) -> Answer {
        self.api("POST", &format!("/cards/{card}/{what}"), None)
    }

    /// The card as the API shows it.
    pub fn card(&self, card: &str) -> Value {
        self.api("GET", &format!("/cards/{card}"), None).json()
    }

    /// Its phase.
    pub fn phase(&self, card: &str) -> String {
        self.card(card)["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the card stands in one of the phases, and returns it.
    ///
    /// # Panics
    /// If it does not within [`PATIENCE`]; the end of the log is in the message.
    pub fn wait_phase(&self, card: &str, phases: &[&str]) -> Value {
        self.wait(&format!("{card} in {phases:?}"), || {
            let found = self.card(card);
            phases.iter().any(|phase| found["phase"] == *phase).then_some(found)
        })
    }

    /// Waits for something, looking again and again.
    ///
    /// # Panics
    /// If it does not come within [`PATIENCE`].
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}; the log:\n{}", self.log());
            wait_a_little();
        }
    }

    /// Waits until every transition is committed.
    pub fn wait_committed(&self) {
        self.wait("an empty outbox", || {
            let state = std::fs::read_to_string(self.path("state/state.json")).ok()?;
            let state: Value = serde_json::from_str(&state).ok()?;
            let open = state["outbox"].as_array().into_iter().flatten().filter(|e| e["committed"].is_null());
            (open.count() == 0).then_some(())
        });
    }

    /// Values of a trailer on the branch, oldest commit first.
    ///
    /// # Errors
    /// If git fails.
    pub fn trailers(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let format = format!("--format=%(trailers:key={name},valueonly)");
        let text = self.git(&["log", "--reverse", &format, "main"])?;
        Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// The world's processes whose command line contains `what`.
    pub fn processes(&self, what: &str) -> Vec<processes::Process> {
        processes::below(self.dir()).into_iter().filter(|process| process.line.contains(what)).collect()
    }

    /// Ends `dev` as an operator would, and waits for it.
    ///
    /// # Panics
    /// If it does not end within [`PATIENCE`].
    pub fn stop(&mut self) {
        let Some(mut child) = self.dev.take() else { return };
        processes::signal(child.id().cast_signed(), Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().ok().flatten().is_none() {
            assert!(Instant::now() < deadline, "dev does not end; the log:\n{}", self.log());
            wait_a_little();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(child) = &mut self.dev {
            let _ = child.kill();
            let _ = child.wait();
        }
        for process in processes::below(self.dir()) {
            processes::signal(process.pid, Signal::SIGKILL);
        }
        if std::thread::panicking() || std::env::var_os("BOARD_TEST_KEEP").is_some() {
            let keep = std::mem::replace(
                &mut self.dir,
                tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}")),
            );
            eprintln!("kept: {}", keep.keep().display());
        }
    }
}

fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

/// Whether the tests run as root, so that the daemons get another user.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A program of the workspace, built before the tests.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    let dir = match std::env::var_os("BOARD_TEST_BIN") {
        Some(dir) => PathBuf::from(dir),
        None => std::env::current_exe()?.ancestors().nth(2).context("target directory")?.to_owned(),
    };
    let path = dir.join(name);
    anyhow::ensure!(path.exists(), "{} is not built; run `cargo xtask test loop`", path.display());
    Ok(path)
}

/// The pause between two looks.
pub fn wait_a_little() {
    std::thread::sleep(Duration::from_millis(20));
}
