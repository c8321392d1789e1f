//! The memory of trigger and worker as they run, and whether an idle trigger wakes up.
//!
//! Not against a peer: the limits are those of the design, and neither depends on how fast the machine is.

use std::process::Child;
use std::time::{Duration, Instant};

use board_core::model::card::{Card, CardId, Source};
use board_core::model::job::Lane;
use board_core::model::phase::Phase;
use board_core::model::record;
use board_core::model::slug::Slug;
use board_core::model::time::Timestamp;
use loop_tests::world::PATIENCE;
use loop_tests::{Options, World};

const CARDS: usize = 1_000;
/// How often the page and the API are asked for before the memory is read.
const VISITS: usize = 10;
/// Resident memory of the trigger, MiB.
const TRIGGER_MIB: u32 = 25;
/// Peak of a worker fed [`NOISE`] lines, MiB.
const WORKER_MIB: u32 = 32;
/// Lines that the agent prints for a `noisy-*` card.
const NOISE: &str = "150,000";
/// Threads of the last requests end after this time, which are no periodic wake-ups.
const REST: Duration = Duration::from_secs(7);
/// Longer than any period that counts as one (30 s).
const IDLE: Duration = Duration::from_secs(35);

fn main() -> anyhow::Result<()> {
    trigger()?;
    worker()
}

fn trigger() -> anyhow::Result<()> {
    let mut world = World::new(Options::default())?;
    for number in 0..CARDS {
        let slug = format!("ruht-{number}");
        let id = CardId::Slug(Slug::parse(&slug)?);
        let mut card = Card::new(id, Source::Intent, slug.clone(), Phase::Deployed, Timestamp::MIN);
        card.deployed_from = Some(Phase::BereitFuerDeployment);
        world.intent(&slug)?;
        world.write(&format!("docs/board/{slug}.yaml"), &record::render(&card))?;
    }
    world.git(&["add", "docs"])?;
    world.git(&["commit", "--quiet", "-m", "Karten"])?;
    let trigger = world.start_trigger()?;
    for _ in 0..VISITS {
        for path in ["/", "/api/board"] {
            let answer = world.client().send("GET", path, None)?;
            anyhow::ensure!(answer.status == 200, "GET {path}: {}", answer.status);
        }
    }
    eprintln!("of it {:.1} MiB are mapped from the program", mib(trigger, "RssFile")?);
    println!("trigger at {CARDS} cards, resident MiB | {:.1} | {TRIGGER_MIB}", mib(trigger, "VmRSS")?);
    wait_through(REST);
    let before = switches(trigger)?;
    wait_through(IDLE);
    let wakes = switches(trigger)?.saturating_sub(before);
    println!("trigger idle, wake-ups in {} s | {wakes} | 0", IDLE.as_secs());
    Ok(())
}

fn worker() -> anyhow::Result<()> {
    let mut world = World::new(Options::default())?;
    world.intent("noisy-1")?;
    world.start_trigger()?;
    let answer = world.move_to("noisy-1", Phase::InUmsetzung.id());
    anyhow::ensure!(answer.status == 202, "{}", answer.body);
    let mut worker = world.start_worker(Lane::Build, 1)?;
    let peak = wait_for_the_end_of(&mut worker)?;
    let mut results = Vec::new();
    for entry in std::fs::read_dir(world.path("state/queue/outcomes"))? {
        let outcome: serde_json::Value = serde_json::from_slice(&std::fs::read(entry?.path())?)?;
        results.push(outcome["result"].clone());
    }
    anyhow::ensure!(results == ["succeeded"], "the noisy build: {results:?}\n{}", world.log());
    println!("worker fed {NOISE} lines, peak MiB | {peak:.1} | {WORKER_MIB}");
    Ok(())
}

/// Waits for a process and returns the peak of its resident memory, MiB: without the agent and git, which are
/// processes of their own. The kernel keeps the peak, so that the last look before the end has it.
fn wait_for_the_end_of(worker: &mut Child) -> anyhow::Result<f64> {
    let pid = worker.id().cast_signed();
    let deadline = Instant::now() + PATIENCE;
    let mut peak = 0.0;
    while worker.try_wait()?.is_none() {
        anyhow::ensure!(Instant::now() < deadline, "the worker does not end");
        if let Ok(now) = mib(pid, "VmHWM") {
            peak = now;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(peak)
}

/// The time over which is measured: there is no event to wait for, what counts is that there is none.
fn wait_through(time: Duration) {
    std::thread::sleep(time);
}

/// A line of a process's `status` that is given in kB, in MiB.
fn mib(pid: i32, field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    let kib: Option<u32> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.map(|kib| f64::from(kib) / 1024.0).ok_or_else(|| anyhow::anyhow!("no {field}"))
}

/// How often the threads of a process gave up the processor by themselves, which they do after each wake-up.
fn switches(pid: i32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(task?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}
