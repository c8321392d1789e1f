//! What a whole run of a one-line agent costs, through worker, sandbox and outcome, against bubblewrap with the same
//! arguments and agent plus writing and syncing the same files.
//!
//! A round of a draft, since it is the board's work alone: no git of a reader's tree, no check commit. Both take turns,
//! each first in every other round, as the same unprivileged user; medians are compared. The peer is this process: it
//! starts the sandbox, gives it the prompt, reads what it prints, and then makes the file operations that a queue
//! cannot do without.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::model::job::Lane;
use board_worker::sandbox::{Bind, HostRoot, Mode, Network, SandboxPlan};
use loop_tests::{Options, World};
use serde_json::json;

const ROUNDS: usize = 60;
/// The limit of the design: ours may take so many times what the peer takes.
const LIMIT: f64 = 1.5;

/// The agent: it prints its answer.
const AGENT: &str =
    "printf '%s\\n' '===DRAFT-INTENT===' 'slug: kurz' '---' '# Intent: kurz' '===END-DRAFT-INTENT==='";

fn main() -> anyhow::Result<()> {
    let mut world = World::new(Options {
        profile: "kurz".into(),
        extra: format!(
            "[runtimes.kurz]\nkind = \"command\"\nargv = [\"/bin/sh\", \"-c\", {}]\n\
             [profiles.kurz]\nruntime = \"kurz\"\ndescription = \"eine Zeile\"\n",
            json!(AGENT)
        ),
        ..Options::default()
    })?;
    world.start_trigger()?;
    let peer = Peer::new(&world)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let answer = world.api("POST", "/drafts", Some(&json!({ "topic": format!("Thema {round}") })));
        anyhow::ensure!(answer.status == 202 || answer.status == 201, "{}", answer.body);
        let (mut own, mut other) = (Duration::ZERO, Duration::ZERO);
        for turn in [round % 2, 1 - round % 2] {
            if turn == 0 { own = run(&world)? } else { other = peer.run()? }
        }
        // The first round fills caches.
        if round > 0 {
            ours.push(own);
            theirs.push(other);
        }
    }
    check(&world)?;
    let (ours, theirs) = (median(ours), median(theirs));
    eprintln!("a run takes {:.1} ms, the same by hand {:.1} ms", millis(ours), millis(theirs));
    println!(
        "a run of a one-line agent : bubblewrap and its files | {:.2} | {LIMIT}",
        millis(ours) / millis(theirs)
    );
    Ok(())
}

/// One activation of the worker.
fn run(world: &World) -> anyhow::Result<Duration> {
    let mut command = world.worker(Lane::Draft, 1)?;
    let began = Instant::now();
    let status = command.spawn()?.wait()?;
    let taken = began.elapsed();
    anyhow::ensure!(status.success(), "{status}: {}", world.log());
    Ok(taken)
}

/// Each round left a good outcome.
fn check(world: &World) -> anyhow::Result<()> {
    let mut good = 0;
    for entry in fs::read_dir(world.path("state/queue/outcomes"))? {
        let outcome: serde_json::Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        anyhow::ensure!(outcome["result"] == "succeeded", "{outcome}");
        good += 1;
    }
    anyhow::ensure!(good == ROUNDS + 1, "{good} outcomes");
    Ok(())
}

/// The same without a board.
struct Peer<'w> {
    world: &'w World,
    directory: PathBuf,
    sandbox: Vec<OsString>,
    prompt: Vec<u8>,
}

impl Peer<'_> {
    fn new(world: &World) -> anyhow::Result<Peer<'_>> {
        let directory = world.path("home/peer");
        for name in ["home", "view", "inbox", "running", "done", "outcomes", "tmp", "logs"] {
            let made = world.command("mkdir").arg("-p").arg(directory.join(name)).status()?;
            anyhow::ensure!(made.success(), "{name}");
        }
        anyhow::ensure!(world.command("touch").arg(directory.join("lock")).status()?.success(), "lock");
        let view = directory.join("view");
        let plan = SandboxPlan {
            mode: Mode::Bubblewrap("/usr/bin/bwrap".into()),
            network: Network::Host,
            host: HostRoot::read(),
            read: Vec::new(),
            home: directory.join("home"),
            write: Vec::new(),
            view: vec![Bind::same(&view)],
            directory: view,
            lock_file: Some(directory.join("lock")),
        };
        let sandbox = plan.command_line(&["/bin/sh".into(), "-c".into(), AGENT.into()]);
        // Of the length of a draft's.
        let prompt = "Eine Zeile, wie sie in einem Prompt steht, mit dem üblichen Umfang.\n".repeat(30);
        Ok(Peer { world, directory, sandbox, prompt: prompt.into_bytes() })
    }

    /// The run and its files: the job is claimed, the log written, the outcome left, the job done.
    fn run(&self) -> anyhow::Result<Duration> {
        let at = |name: &str| self.directory.join(name);
        let job = vec![b'j'; 1_500];
        durable(&at("tmp/job"), &at("inbox/job"), &job)?;
        let began = Instant::now();
        moved(&at("inbox/job"), &at("running/job"))?;
        let mut command = self.world.command(&self.sandbox[0]);
        command.args(&self.sandbox[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("stdin")?.write_all(&self.prompt).or_else(|error| {
            // The agent reads none of it.
            if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
        })?;
        let mut printed = Vec::new();
        child.stdout.take().context("stdout")?.read_to_end(&mut printed)?;
        let status = child.wait()?;
        anyhow::ensure!(status.success() && printed.starts_with(b"===DRAFT"), "{status}");
        File::create(at("logs/log"))?.write_all(&[self.prompt.as_slice(), &printed].concat())?;
        durable(&at("tmp/outcome"), &at("outcomes/outcome"), &vec![b'o'; 900])?;
        moved(&at("running/job"), &at("done/job"))?;
        Ok(began.elapsed())
    }
}

/// Writes a file so that it is there whole or not at all.
fn durable(temporary: &Path, target: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, target)?;
    sync(target)
}

/// Moves a file durably.
fn moved(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to)?;
    sync(to)?;
    sync(from)
}

fn sync(file: &Path) -> anyhow::Result<()> {
    Ok(File::open(file.parent().context("no directory")?)?.sync_all()?)
}

fn median(mut taken: Vec<Duration>) -> Duration {
    taken.sort();
    taken[taken.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
