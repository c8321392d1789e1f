//! Figures of the programs as they run: a click on a large board against one on a small board, the memory of
//! trigger and worker, and whether an idle trigger wakes up.

use std::time::{Duration, Instant};

use board_core::model::card::{Card, CardId, Source};
use board_core::model::phase::Phase;
use board_core::model::record;
use board_core::model::slug::Slug;
use board_core::model::time::Timestamp;
use loop_tests::{Options, World};

const CLICKS: usize = 40;

fn main() -> anyhow::Result<()> {
    let (small, large) = (world_of(100)?, world_of(10_000)?);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..CLICKS {
        few.push(click(&small));
        many.push(click(&large));
    }
    let (few, many) = (median(few), median(many));
    eprintln!("median of {CLICKS} clicks: 100 cards {few:?}, 10,000 cards {many:?}");
    println!(
        "transition at 10,000 deployed cards : at 100 | {:.2} | 1.3",
        many.as_secs_f64() / few.as_secs_f64()
    );
    drop((small, large));

    let world = world_of(1_000)?;
    for _ in 0..10 {
        world.client().send("GET", "/", None)?;
        world.client().send("GET", "/api/board", None)?;
    }
    let trigger = world.processes("run trigger").first().map(|process| process.pid);
    let trigger = trigger.ok_or_else(|| anyhow::anyhow!("no trigger"))?;
    println!("trigger at 1,000 cards, resident MiB | {} | 25", kib(trigger, "VmRSS")? / 1024);
    // Longer than the shortest period that would be one.
    wait_through(Duration::from_secs(6));
    let before = switches(trigger)?;
    wait_through(Duration::from_secs(35));
    println!("idle trigger, wake-ups in 35 s | {} | 1", switches(trigger)?.saturating_sub(before));
    drop(world);

    let mut world = World::new(Options::default())?;
    world.intent("noisy-1")?;
    world.start()?;
    world.move_to("noisy-1", "in_umsetzung");
    let mut peak = 0;
    world.wait("the noisy build", || {
        for worker in world.processes("--lane build") {
            peak = peak.max(kib(worker.pid, "VmHWM").unwrap_or(0));
        }
        let phase = world.phase("noisy-1");
        (phase == "bereit_fuer_deployment").then_some(())
    });
    println!("worker fed 150,000 lines, peak MiB | {} | 32", peak / 1024);
    Ok(())
}

/// A world with so many deployed cards at rest, and one planned card.
fn world_of(cards: usize) -> anyhow::Result<World> {
    let mut world = World::new(Options { quiet_seconds: 600, ..Options::default() })?;
    for n in 0..cards {
        let slug = Slug::parse(&format!("ruht-{n}"))?;
        let mut card = Card::new(
            CardId::Slug(slug),
            Source::Intent,
            format!("Ruht {n}"),
            Phase::Deployed,
            Timestamp::MIN,
        );
        card.deployed_from = Some(Phase::BereitFuerDeployment);
        world.intent(&format!("ruht-{n}"))?;
        world.write(&format!("docs/board/ruht-{n}.yaml"), &record::render(&card))?;
    }
    world.intent("eine")?;
    world.git(&["add", "docs"])?;
    world.git(&["commit", "--quiet", "-m", "Karten"])?;
    world.start()?;
    Ok(world)
}

/// One transition through the API: archived and, not timed, brought back.
fn click(world: &World) -> Duration {
    let begin = Instant::now();
    let answer = world.call("eine", "archive");
    let time = begin.elapsed();
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(world.call("eine", "restore").status, 200);
    time
}

/// The time over which is measured: there is no event to wait for, what counts is that there is none.
fn wait_through(time: Duration) {
    std::thread::sleep(time);
}

fn kib(pid: i32, field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| anyhow::anyhow!("no {field}"))
}

/// How often the threads of a process were woken so far.
fn switches(pid: i32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(task?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
