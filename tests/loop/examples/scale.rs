//! What a start costs on a board with 10,000 deployed cards at rest, against one with 100.
//!
//! The whole click, from the request to the answer: the card has no entry in the state yet, so it is looked up
//! in the repository, its order is read there, the state is written and the job file is published. Only the
//! trigger runs, so nothing else reads the repository meanwhile. Both boards take turns.

use std::time::{Duration, Instant};

use board_core::model::card::{Card, CardId, Source};
use board_core::model::phase::Phase;
use board_core::model::record;
use board_core::model::slug::Slug;
use board_core::model::time::Timestamp;
use loop_tests::{Options, World};

const FEW: usize = 100;
const MANY: usize = 10_000;
/// Clicks on each board, each on a card of its own.
const CLICKS: usize = 100;
/// The first ones open the repository and fill caches.
const WARM_UP: usize = 5;
/// The limit of the design: how many times as long the click on the large board may take.
const LIMIT: f64 = 1.3;

fn main() -> anyhow::Result<()> {
    let (small, large) = (world_of(FEW)?, world_of(MANY)?);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + CLICKS {
        let (short, long) = (click(&small, number), click(&large, number));
        if number >= WARM_UP {
            few.push(short);
            many.push(long);
        }
    }
    for world in [&small, &large] {
        let published = std::fs::read_dir(world.path("state/queue/inbox/build"))?.count();
        anyhow::ensure!(published == WARM_UP + CLICKS, "{published} job files");
    }
    let (few, many) = (median(few), median(many));
    eprintln!("median of {CLICKS} starts: {FEW} cards {few:?}, {MANY} cards {many:?}");
    println!(
        "start at {MANY} deployed cards : at {FEW} | {:.2} | {LIMIT}",
        many.as_secs_f64() / few.as_secs_f64()
    );
    Ok(())
}

/// A trigger over a repository with so many deployed cards, and one planned card with a record for each click.
fn world_of(cards: usize) -> anyhow::Result<World> {
    let mut world = World::new(Options::default())?;
    let at_rest = (0..cards).map(|number| (format!("ruht-{number}"), Phase::Deployed));
    let planned = (0..WARM_UP + CLICKS).map(|number| (format!("geplant-{number}"), Phase::Geplant));
    for (slug, phase) in at_rest.chain(planned) {
        let id = CardId::Slug(Slug::parse(&slug)?);
        let mut card = Card::new(id, Source::Intent, slug.clone(), phase, Timestamp::MIN);
        card.deployed_from = Some(Phase::BereitFuerDeployment).filter(|_| phase == Phase::Deployed);
        world.intent(&slug)?;
        world.write(&format!("docs/board/{slug}.yaml"), &record::render(&card))?;
    }
    world.git(&["add", "docs"])?;
    world.git(&["commit", "--quiet", "-m", "Karten"])?;
    world.start_trigger()?;
    Ok(world)
}

fn click(world: &World, number: usize) -> Duration {
    let card = format!("geplant-{number}");
    let begin = Instant::now();
    let answer = world.move_to(&card, Phase::InUmsetzung.id());
    let time = begin.elapsed();
    assert_eq!(answer.status, 202, "{}", answer.body);
    time
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
