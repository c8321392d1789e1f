//! The installed board in a container: clicks over HTTP through what a proxy would send, drops, files of the queue.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use loop_tests::http::Answer;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::container::{Container, signal};
use crate::root::armed_programs;
use crate::{PATIENCE, wait_a_little};

/// Where the units keep the state.
pub const STATE: &str = "/var/lib/board-agent";
/// The checkout of operator and service.
pub const REPO: &str = "/srv/repo";
/// The slots whose path units the package enables.
pub const SLOTS: [&str; 7] = ["draft@1", "draft@2", "read@1", "read@2", "research@1", "build@1", "build@2"];
/// Where the board listens.
const PORT: u16 = 8787;
/// What the proxy proves itself with; `provision.sh` writes it.
const SECRET: &str = "secret-of-the-proxy-of-the-tests";

/// The board in a container of its own.
#[derive(Debug)]
pub struct Board {
    container: Container,
}

impl Deref for Board {
    type Target = Container;

    fn deref(&self) -> &Container {
        &self.container
    }
}

impl DerefMut for Board {
    fn deref_mut(&mut self) -> &mut Container {
        &mut self.container
    }
}

impl Board {
    /// Boots a container with the board, and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start() -> Board {
        Board::start_with(|_| {})
    }

    /// The same; before the first boot, `prepare` may write below the directory that lies above the installed root.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(prepare: impl FnOnce(&Path)) -> Board {
        let container = Container::new().unwrap_or_else(|error| panic!("{error:#}"));
        prepare(&container.dir().join("upper"));
        let mut board = Board { container };
        board.boot();
        board
    }

    /// The same with the state on a disk of its own, which can lose power, or be full: of this size, where it is given.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_on_disks(places: &[&str], size: Option<u64>) -> Board {
        let container = Container::new().unwrap_or_else(|error| panic!("{error:#}"));
        for at in places {
            container.add_disk(at, size).unwrap_or_else(|error| panic!("{error:#}"));
        }
        let mut board = Board { container };
        board.boot();
        board
    }

    /// With lines in the configuration that take the place of those that begin the same.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_configured(lines: &[&str], more: &str) -> Board {
        Board::start_with(|upper| {
            let dir = upper.join("etc/board-agent");
            let made = std::fs::create_dir_all(&dir)
                .and_then(|()| std::fs::write(dir.join("config.toml"), configuration(lines, more)));
            made.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        })
    }

    /// Boots it, for the first time or again, and waits until the board answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn boot(&mut self) {
        self.container.boot().unwrap_or_else(|error| panic!("{error:#}"));
        self.wait("the board's answer", || {
            self.send("GET", "/healthz", None).ok().filter(|answer| answer.status / 100 == 2)
        });
    }

    /// Puts the programs with fault points in the place of the installed ones. [`Board::plan`] names the next fault.
    ///
    /// # Panics
    /// If they cannot be put there.
    pub fn arm(&self) {
        let programs = armed_programs().unwrap_or_else(|error| panic!("{error:#}"));
        for name in ["board-trigger", "board-watcher", "board-worker"] {
            let staged = self.path("/usr/bin").join(format!(".{name}.new"));
            let put = std::fs::copy(programs.join(name), &staged)
                .and_then(|_| std::fs::rename(&staged, self.path("/usr/bin").join(name)));
            put.unwrap_or_else(|error| panic!("{}: {error}", staged.display()));
        }
        self.sh(
            "install -d -m 0777 /opt/faults; install -D -m 0644 /dev/stdin \
             /etc/systemd/system/board-agent-.service.d/70-faults.conf <<'END'
[Service]
Environment=BOARD_FAULT_FILE=/opt/faults/plan
ReadWritePaths=-/opt/faults
END
             systemctl daemon-reload; systemctl restart board-agent-trigger.service board-agent-watcher.service",
        );
    }

    /// Plans a fault, `<name>:<action>`: whoever comes to this point first does it.
    pub fn plan(&self, fault: &str) {
        self.sh(&format!(
            "cd /opt/faults; rm -f plan.taken; echo '{fault}' >plan.new; chmod 666 plan.new; mv plan.new plan"
        ));
    }

    /// Waits until somebody came to the planned point.
    ///
    /// # Panics
    /// If nobody does.
    pub fn wait_fault(&self) {
        let taken = self.path("/opt/faults/plan.taken");
        self.wait("the planned fault", || taken.exists().then_some(()));
    }

    /// Kills the trigger, hard.
    pub fn kill_trigger(&self) {
        for process in self.processes_of("board-agent-trigger.service") {
            signal(&process, Signal::SIGKILL);
        }
    }

    /// Brings a card from wherever a crash left it to `bereit_fuer_deployment`, as the operator would.
    ///
    /// # Panics
    /// If it gets stuck, or failed for any other reason than an interruption.
    pub fn bring_home(&self, card: &str) {
        self.wait(&format!("{card} to come home"), || {
            let shown = self.card(card);
            let phase = shown["phase"].as_str().unwrap_or_default().to_owned();
            let answer = match phase.as_str() {
                "bereit_fuer_deployment" => return Some(()),
                "geplant" => Some(self.move_to(card, "in_umsetzung")),
                "umsetzung_fehlgeschlagen" => {
                    let reason = shown["error"]["result"].as_str().unwrap_or_default();
                    // An agent that somebody else killed has failed; every other kill is an interruption.
                    assert!(matches!(reason, "interrupted" | "failed"), "{card}: {shown}");
                    let resumed = self.call(card, "resume");
                    // Killed before it had a worktree there is nothing to go on with.
                    Some(if resumed.status == 409 { self.call(card, "retry") } else { resumed })
                }
                "review_fehlgeschlagen" => Some(self.call(card, "retry")),
                _ => None,
            };
            if let Some(answer) = answer {
                assert!(matches!(answer.status, 202 | 409), "{phase}: {}", answer.body);
            }
            None
        });
    }

    /// Whether the planned fault is still to come.
    pub fn is_planned(&self) -> bool {
        self.path("/opt/faults/plan").exists()
    }

    /// Loses power, processes and disks, and boots again.
    ///
    /// # Panics
    /// If the board does not come back.
    pub fn lose_power_and_boot(&mut self) {
        self.lose_power().unwrap_or_else(|error| panic!("{error:#}"));
        self.boot();
    }

    /// Powers off and boots again.
    ///
    /// # Panics
    /// If the board does not come back.
    pub fn reboot(&mut self) {
        self.cut();
        self.boot();
    }

    /// A request as the operator's browser sends it through the proxy.
    ///
    /// # Errors
    /// If the board cannot be reached.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        self.send_with(method, path, body, "")
    }

    /// The same with further lines of the head, each ended.
    ///
    /// # Errors
    /// If the board cannot be reached.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        head: &str,
    ) -> anyhow::Result<Answer> {
        Answer::to(self.connect(PORT)?, &request(method, path, body, head))
    }

    /// A request to the API.
    ///
    /// # Panics
    /// If the board cannot be reached within [`PATIENCE`].
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.send(method, &format!("/api/board{path}"), body) {
                Ok(answer) => return answer,
                Err(error) if Instant::now() > deadline => panic!("{method} {path}: {error:#}"),
                // The trigger was killed in the middle of it.
                Err(_) => wait_a_little(),
            }
        }
    }

    /// Moves a card and returns the answer.
    pub fn move_to(&self, card: &str, to: &str) -> Answer {
        self.api("POST", &format!("/cards/{card}/move"), Some(&json!({ "to": to })))
    }

    /// A call on a card without a body.
    pub fn call(&self, card: &str, what: &str) -> Answer {
        self.api("POST", &format!("/cards/{card}/{what}"), None)
    }

    /// Starts a build of a card whose intent is there.
    ///
    /// # Panics
    /// If it is refused.
    pub fn build(&self, card: &str) {
        let answer = self.move_to(card, "in_umsetzung");
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    /// Starts a research whose question is there.
    ///
    /// # Panics
    /// If it is refused.
    pub fn research(&self, card: &str) {
        let answer = self.move_to(card, "recherche_laeuft");
        assert_eq!(answer.status, 202, "{}", answer.body);
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
    /// If it does not within [`PATIENCE`].
    pub fn wait_phase(&self, card: &str, phases: &[&str]) -> Value {
        self.wait(&format!("{card} in {phases:?}"), || {
            let found = self.card(card);
            phases.iter().any(|phase| found["phase"] == *phase).then_some(found)
        })
    }

    /// Writes intents as the operator; a card's id decides what the agent does (`agent.sh`).
    pub fn intents<S: AsRef<str>>(&self, slugs: &[S]) {
        self.documents("docs/intent", "Die Datei ergänzen.", slugs);
    }

    /// Writes research questions as the operator.
    pub fn questions<S: AsRef<str>>(&self, slugs: &[S]) {
        self.documents("docs/research", "Wie viele?", slugs);
    }

    fn documents<S: AsRef<str>>(&self, dir: &str, text: &str, slugs: &[S]) {
        let names: Vec<&str> = slugs.iter().map(AsRef::as_ref).collect();
        self.op(&format!(
            "cd {dir}; for slug in {}; do printf '# %s\\n\\n{text}\\n' \"$slug\" >\"$slug.md\"; done",
            names.join(" ")
        ));
    }

    /// Runs a script as the operator in the checkout, and returns what it said.
    ///
    /// # Panics
    /// If it fails.
    pub fn op(&self, script: &str) -> String {
        self.sh_as("op", &format!("cd {REPO}; {script}"))
    }

    /// Opens the gate that a card's agent waits for.
    pub fn open(&self, card: &str) {
        self.sh(&format!("touch /opt/gates/{card}"));
    }

    /// Drops a file as the operator does: written beside and renamed.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn drop_file(&self, name: &str, bytes: &[u8]) {
        self.drop_files(&[(name.to_owned(), bytes.to_owned())]);
    }

    /// Drops files one right after the other.
    ///
    /// # Panics
    /// If one cannot be written.
    pub fn drop_files(&self, files: &[(String, Vec<u8>)]) {
        let user = std::fs::metadata(self.path(REPO)).map_or(0, |dir| dir.uid());
        let dir = self.queue_dir("drop");
        for (name, bytes) in files {
            let staged = dir.join(format!(".{name}.part"));
            let put = std::fs::write(&staged, bytes)
                .and_then(|()| std::os::unix::fs::chown(&staged, Some(user), Some(user)))
                .and_then(|()| std::fs::rename(&staged, dir.join(name)));
            put.unwrap_or_else(|error| panic!("{}: {error}", staged.display()));
        }
    }

    /// A directory of the queue, as the host sees it.
    pub fn queue_dir(&self, name: &str) -> PathBuf {
        self.path(STATE).join("queue").join(name)
    }

    /// The files of a directory of the queue, by name.
    pub fn files(&self, name: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.queue_dir(name)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The reason with which a file was rejected, once it is there.
    ///
    /// # Panics
    /// If it does not come.
    pub fn wait_rejected(&self, name: &str) -> String {
        let path = self.queue_dir("rejected").join(format!("{name}.reason.json"));
        self.wait(&format!("the reason of {name}"), || {
            let text = std::fs::read_to_string(&path).ok()?;
            let reason: Value = serde_json::from_str(&text).ok()?;
            Some(format!("{} {}", reason["field"].as_str().unwrap_or_default(), reason["reason"].as_str()?))
        })
    }

    /// Waits until a file was put aside: rejected, or done with as nobody's current job.
    ///
    /// # Panics
    /// If it is not, or without a reason.
    pub fn wait_aside(&self, name: &str) {
        let reason = format!("{name}.reason.json");
        self.wait(&format!("{name} to be put aside"), || {
            ["rejected", "done"].iter().any(|dir| self.files(dir).contains(&reason)).then_some(())
        });
    }

    /// How many runs of agents there were, by the logs that each leaves.
    pub fn runs(&self) -> usize {
        let logs = std::fs::read_dir(self.path(STATE).join("logs")).into_iter().flatten().flatten();
        let names = logs.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".jsonl") && name != "audit.jsonl").count()
    }

    /// The agents at work: their own processes, not the sandboxes around them.
    pub fn agents(&self) -> Vec<loop_tests::processes::Process> {
        let mut found = self.processes_with("agent.sh");
        found.retain(|process| !process.line.contains("bwrap "));
        found
    }

    /// Waits until an agent works, and returns its process.
    ///
    /// # Panics
    /// If none comes.
    pub fn wait_agent(&self) -> loop_tests::processes::Process {
        self.wait("an agent", || self.agents().into_iter().next())
    }

    /// The board's state.
    ///
    /// # Panics
    /// If it cannot be read: it is whole at every moment.
    pub fn state(&self) -> Value {
        let path = self.path(STATE).join("state.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Waits until every transition is committed.
    ///
    /// # Panics
    /// If one is not.
    pub fn wait_committed(&self) {
        self.wait("an empty outbox", || self.is_committed().then_some(()));
    }

    /// What the watcher tells that it waits for.
    pub fn told(&self) -> Value {
        let text = std::fs::read_to_string(self.path(STATE).join("watcher.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Whether every transition is committed.
    pub fn is_committed(&self) -> bool {
        let state = self.state();
        state["outbox"].as_array().into_iter().flatten().all(|entry| !entry["committed"].is_null())
    }

    /// Values of a trailer on the branch, oldest commit first.
    pub fn trailers(&self, name: &str) -> Vec<String> {
        let text = self.op(&format!("git log --reverse '--format=%(trailers:key={name},valueonly)' main"));
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Every path unit of the slots is as it should be, and nothing has failed.
    ///
    /// # Panics
    /// If one is not.
    pub fn assert_paths_active(&self) {
        let units = self.systemctl("list-units --plain --no-legend --all 'board-agent-*.path'");
        let lines: Vec<&str> = units.lines().collect();
        assert_eq!(lines.len(), SLOTS.len(), "{units}");
        for line in lines {
            assert!(line.contains(" active "), "{line}");
        }
    }
}

/// A request with what a proxy adds.
pub fn request(method: &str, path: &str, body: Option<&Value>, head: &str) -> Vec<u8> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nX-Board-Proxy-Secret: {SECRET}\r\nX-User: op\r\n\
         Origin: http://127.0.0.1:{PORT}\r\n{head}{kind}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The configuration of all containers, with lines that take the place of those with the same key, and more at its end.
pub fn configuration(lines: &[&str], more: &str) -> String {
    let mut text = String::new();
    for line in include_str!("../config.toml").lines() {
        let key = line.split('=').next();
        let instead = lines.iter().find(|other| key == other.split('=').next());
        text.push_str(instead.copied().unwrap_or(line));
        text.push('\n');
    }
    text + more
}
