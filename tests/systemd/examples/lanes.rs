//! What systemd and the board make of a job, in a booted container: against `systemctl start` of an empty oneshot, and
//! against pueue and nq with the same program.
//!
//! Lane research, a `command` agent that only prints its block, bubblewrap on, undo 0, different cards, no audit commits
//! (`cargo xtask bench audit` measures those).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot measure fails")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use board_core::model::card::{Card, CardId, Source};
use board_core::model::phase::Phase;
use board_core::model::record;
use board_core::model::slug::Slug;
use board_core::model::time::Timestamp;
use loop_tests::http::Answer;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::time::{ClockId, clock_gettime};
use systemd_tests::Board;
use systemd_tests::board::request;

/// Runs of each kind, in turn; the median counts.
const ROUNDS: usize = 30;
/// Jobs that wait when the lane starts.
const JOBS: usize = 500;
/// Cards of the idle board.
const CARDS: usize = 1_000;
/// How long it is idle.
const IDLE: Duration = Duration::from_secs(60);
/// Who asks the board while its trigger is restarted.
const CLIENTS: usize = 50;
const RESTARTS: usize = 10;

const SLOT: &str = "board-agent-research@1";
/// Says when it began, in nanoseconds, and prints its block.
const AGENT: &str = "#!/bin/sh\ndate +began:%s%N >&2\nprintf '%s\\n' '===RESEARCH-REPORT===' \"job: $BOARD_JOB_ID\" '---' \\\n\
     '# Antwort' '' 'So ist es.' '===END-RESEARCH-REPORT==='\n";

fn main() -> anyhow::Result<()> {
    let board = Board::start_with(|upper| {
        let (bin, etc) = (upper.join("usr/local/bin"), upper.join("etc"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("agent.sh"), AGENT).unwrap();
        std::fs::set_permissions(bin.join("agent.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        std::fs::create_dir_all(etc.join("board-agent")).unwrap();
        let text = systemd_tests::board::configuration(&["quiet_seconds = 0\ncommit = false"], "");
        std::fs::write(etc.join("board-agent/config.toml"), text).unwrap();
        let units = etc.join("systemd/system");
        std::fs::create_dir_all(&units).unwrap();
        let empty = "[Service]\nType=oneshot\nExecStart=/bin/true\n";
        std::fs::write(units.join("empty.service"), empty).unwrap();
    });
    first_instruction(&board)?;
    throughput(&board)?;
    restarts(&board)?;
    idle(&board)
}

/// Microseconds of `systemctl start` of an empty oneshot, so many times, measured inside by a shell.
fn starts(board: &Board, times: usize) -> Vec<u64> {
    let script = format!(
        "for i in $(seq {times}); do a=$EPOCHREALTIME; systemctl start empty.service; b=$EPOCHREALTIME; \
         echo $((${{b/./}} - ${{a/./}})); done"
    );
    let said = board.run(&["bash", "-c", &script]).unwrap();
    String::from_utf8(said.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn now(clock: ClockId) -> u64 {
    let time = Duration::from(clock_gettime(clock).unwrap());
    u64::try_from(time.as_micros()).unwrap()
}

fn first_instruction(board: &Board) -> anyhow::Result<()> {
    let cards: Vec<String> = (0..=ROUNDS).map(|n| format!("takt-{n}")).collect();
    board.questions(&cards);
    let inbox = board.queue_dir("inbox/research");
    let (mut whole, mut worker, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for (round, card) in cards.iter().enumerate() {
        let events = Inotify::init(InitFlags::empty())?;
        events.add_watch(&inbox, AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE)?;
        let seen = std::thread::spawn(move || {
            events.read_events().map(|_| (now(ClockId::CLOCK_REALTIME), now(ClockId::CLOCK_MONOTONIC)))
        });
        board.research(card);
        let (published, published_mono) = seen.join().unwrap()?;
        let shown = board.wait_phase(card, &["recherche_fertig"]);
        let job = shown["reports"][0]["job"].as_str().unwrap().to_owned();
        let log = board.sh(&format!("cat /var/lib/board-agent/logs/{job}*.jsonl"));
        let began = log.split("began:").nth(1).and_then(|rest| rest.get(..16)).unwrap().parse::<u64>()?;
        let started: u64 =
            board.property(&format!("{SLOT}.service"), "ExecMainStartTimestampMonotonic").parse()?;
        let base = starts(board, 1)[0];
        // The first one fills caches.
        if round > 0 {
            whole.push(began.saturating_sub(published));
            worker.push(started.saturating_sub(published_mono));
            peer.push(base);
        }
    }
    let (whole, worker, peer) = (median(&mut whole), median(&mut worker), median(&mut peer));
    eprintln!(
        "published → agent {whole} µs: {worker} µs until systemd has the worker, {} µs in worker and sandbox; \
         systemctl start {peer} µs",
        whole.saturating_sub(worker)
    );
    println!("published → agent : systemctl start | {:.2} | 2.5", ratio(whole, peer));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "microseconds")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

/// A figure that is to be large is printed as its reciprocal, since all limits are upper ones.
fn at_least(name: &str, ours: f64, peer: f64, limit: f64) {
    eprintln!("{name}: {:.2} of it, {limit} are wanted", ours / peer);
    println!("{name} (time per job) | {:.2} | {:.2}", peer / ours, 1.0 / limit);
}

fn throughput(board: &Board) -> anyhow::Result<()> {
    let cards: Vec<String> = (0..JOBS).map(|n| format!("viele-{n}")).collect();
    board.questions(&cards);
    board.systemctl(&format!("stop {SLOT}.path"));
    for card in &cards {
        board.research(card);
    }
    let outcomes = || board.files("done").iter().filter(|name| name.ends_with(".outcome.json")).count();
    let before = outcomes();
    let began = Instant::now();
    board.systemctl(&format!("start {SLOT}.path"));
    board.wait_long("all outcomes", || (outcomes() >= before + JOBS).then_some(()));
    let ours = per_second(began);
    let began = Instant::now();
    starts(board, JOBS);
    let systemctl = per_second(began);
    let (pueue, nq) = (pueue()?, nq()?);
    eprintln!(
        "jobs per second: ours {ours:.1}, systemctl start {systemctl:.1}, pueue {pueue:.1}, nq {nq:.1}"
    );
    at_least("500 jobs : systemctl start", ours, systemctl, 0.4);
    at_least("500 jobs : pueue", ours, pueue, 5.0);
    at_least("500 jobs : nq", ours, nq, 0.8);
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a few hundred")]
fn per_second(since: Instant) -> f64 {
    JOBS as f64 / since.elapsed().as_secs_f64()
}

fn peer(dir: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("HOME", dir)
        .env("XDG_RUNTIME_DIR", dir)
        .env("NQDIR", dir)
        .env("BOARD_JOB_ID", "x");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn ran(command: &mut Command, how: &str) -> anyhow::Result<()> {
    let status = command.status().map_err(|error| anyhow::anyhow!("{how}: {error}"))?;
    anyhow::ensure!(status.success(), "{how}: {status}");
    Ok(())
}

fn agent(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("agent.sh");
    std::fs::write(&path, AGENT)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(path.display().to_string())
}

/// Jobs per second of pueue, which all wait when it is let go.
fn pueue() -> anyhow::Result<f64> {
    const HOW: &str = "pueue (cargo install --locked pueue)";
    let dir = tempfile::tempdir()?;
    let agent = agent(dir.path())?;
    let mut daemon = peer(dir.path(), "pueued")
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| anyhow::anyhow!("{HOW}: {error}"))?;
    let measured = (|| {
        wait_for_pueued(dir.path())?;
        for _ in 0..JOBS {
            ran(peer(dir.path(), "pueue").args(["add", "--", &agent]), HOW)?;
        }
        let began = Instant::now();
        ran(peer(dir.path(), "pueue").arg("start"), HOW)?;
        ran(peer(dir.path(), "pueue").args(["wait", "--quiet"]), HOW)?;
        Ok(per_second(began))
    })();
    daemon.kill()?;
    daemon.wait()?;
    measured
}

/// Waits until the daemon of pueue answers, and has it hold back what is added.
fn wait_for_pueued(home: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !peer(home, "pueue").arg("pause").stderr(Stdio::null()).status()?.success() {
        anyhow::ensure!(Instant::now() < deadline, "the daemon of pueue does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Lets an idle board be idle.
fn wait_idle(time: Duration) {
    std::thread::sleep(time);
}

/// Jobs per second of nq.
fn nq() -> anyhow::Result<f64> {
    const HOW: &str = "nq (apt-get install nq)";
    let dir = tempfile::tempdir()?;
    let agent = agent(dir.path())?;
    let began = Instant::now();
    for _ in 0..JOBS {
        ran(peer(dir.path(), "nq").args(["-q", &agent]), HOW)?;
    }
    ran(peer(dir.path(), "nq").arg("-w"), HOW)?;
    Ok(per_second(began))
}

/// Failed and refused requests while the trigger is restarted under load.
fn restarts(board: &Board) -> anyhow::Result<()> {
    let (stop, failed, good) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let sent = board.connect(8787).and_then(|stream| {
                        Answer::to(stream, &request("GET", "/api/board/cards/takt-1", None, ""))
                    });
                    match sent {
                        Ok(answer) if answer.status == 200 => good.fetch_add(1, Ordering::Relaxed),
                        Ok(answer) => {
                            eprintln!("{}", answer.head);
                            failed.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(error) => {
                            eprintln!("{error:#}");
                            failed.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        for _ in 0..RESTARTS {
            board.systemctl("restart board-agent-trigger.service");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let good = good.into_inner();
    anyhow::ensure!(good > 0, "no request was answered");
    eprintln!("{good} requests were answered");
    println!("failed requests in {RESTARTS} restarts under {CLIENTS} clients | {} | 0", failed.into_inner());
    Ok(())
}

/// CPU time of all units of an idle board.
fn idle(board: &Board) -> anyhow::Result<()> {
    let dir = board.path("/srv/repo/docs/board");
    board.op("mkdir -p docs/board");
    let slugs: Vec<String> = (0..CARDS).map(|n| format!("ruht-{n}")).collect();
    board.intents(&slugs);
    for slug in &slugs {
        let id = CardId::Slug(Slug::parse(slug)?);
        let mut card = Card::new(id, Source::Intent, slug.clone(), Phase::Deployed, Timestamp::MIN);
        card.deployed_from = Some(Phase::BereitFuerDeployment);
        std::fs::write(dir.join(format!("{slug}.yaml")), record::render(&card))?;
    }
    board.op("git add docs; git commit -qm Karten");
    anyhow::ensure!(board.send("GET", "/", None)?.status == 200, "the page");
    // What the page began is over after this, and is no idling.
    wait_idle(Duration::from_secs(10));
    let used = || -> anyhow::Result<u64> { Ok(board.property("board-agent.slice", "CPUUsageNSec").parse()?) };
    let before = used()?;
    wait_idle(IDLE);
    let milliseconds = (used()? - before) / 1_000_000;
    println!("CPU of all units in {} s with {CARDS} cards, ms | {milliseconds} | 20", IDLE.as_secs());
    Ok(())
}
