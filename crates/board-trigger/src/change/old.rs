//! Cards from before the board: which there are, and putting them where they belong in one go.
use std::collections::BTreeSet;

use board_core::model::apply::old::{Belongs, MAX_OLD};
use board_core::model::card::{Card, CardId};
use board_core::model::phase::Phase;
use board_core::model::time::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::problems::repository_problem;
use super::{record_plain, stamp, store_problem, update};
use crate::app::App;
use crate::i18n::t;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::world::World;

/// Planned cards without an entry from which on a new board offers to put them away.
pub(crate) const OFFERED_FROM: usize = 8;

/// What was put away, or would be.
#[derive(Debug)]
pub(crate) struct PutAway {
    /// The cards, by their ids.
    pub(crate) cards: Vec<CardId>,
    /// How many are left for another call.
    pub(crate) more: usize,
}

/// The planned cards that the board has never moved.
fn untouched(world: &World) -> impl Iterator<Item = &Card> {
    world.cards().filter(|card| {
        card.phase == Phase::Geplant
            && card.source.has_document()
            && !world.board.cards.contains_key(&card.id)
    })
}

/// How many cards a board that has moved none yet could put away; none where that is no question.
pub(crate) fn offered(world: &World) -> Option<usize> {
    let moved = world.board.cards.values().any(|card| card.source.has_document());
    let count = if moved { 0 } else { untouched(world).count() };
    (count >= OFFERED_FROM).then_some(count)
}

/// The cards that were in the repository before `before`, in the order of their ids.
///
/// # Errors
/// The repository cannot be read.
pub(crate) fn older_than(app: &App, world: &World, before: Timestamp) -> Result<Vec<Card>, Problem> {
    let reader = app.repository.reader(&world.board).map_err(|error| repository_problem(&error))?;
    let paths: BTreeSet<String> =
        reader.older_than(before).map_err(|error| repository_problem(&error.into()))?;
    let is_old = |card: &&Card| card.document_path().is_some_and(|path| paths.contains(&path));
    let mut cards: Vec<Card> = untouched(world).filter(is_old).cloned().collect();
    cards.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(cards)
}

/// Puts them where they belong; with `dry_run` it only says which they are.
///
/// # Errors
/// Why not; nothing was changed then.
pub(crate) fn put_away(
    app: &App,
    ctx: &Ctx,
    before: &str,
    belongs: Option<&str>,
    dry_run: bool,
) -> Result<PutAway, Problem> {
    ctx.operator()?;
    let belongs = belongs.and_then(Belongs::from_id).ok_or_else(|| {
        let [one, other] = [Belongs::Deployed, Belongs::Archived].map(|belongs| belongs.phase().id());
        Problem::new(422, "invalid").field("as").detail(format!("as: {one} | {other}"))
    })?;
    let moment = moment(app, before)?;
    let world = app.world()?;
    let cards = older_than(app, &world, moment)?;
    let more = cards.len().saturating_sub(MAX_OLD);
    if dry_run {
        let cards = cards.into_iter().take(MAX_OLD).map(|card| card.id).collect();
        return Ok(PutAway { cards, more });
    }
    let mut done = Vec::new();
    let result = (|| {
        let reason = t(app.settings.board.language, "old.reason", &[("before", before.trim())]);
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let (stamp, policy) = (stamp(ctx), &app.policy);
        done = update(&mut held, |board| board.put_old_away(&cards, belongs, &reason, &stamp, policy))
            .map_err(super::Failed::plain_problem)?;
        Ok(())
    })();
    record_plain(app, ctx, "adopt", None, Some(before), &result);
    result.map(|()| PutAway { cards: done, more })
}

/// The moment that somebody means: a day begins in the board's time zone.
///
/// # Errors
/// It is neither a day nor a moment.
pub(crate) fn moment(app: &App, text: &str) -> Result<Timestamp, Problem> {
    let text = text.trim();
    let day = || {
        let zone = TimeZone::get(&app.settings.board.timezone).unwrap_or(TimeZone::UTC);
        let begin = text.parse::<Date>().ok()?.to_zoned_datetime(zone).ok()?;
        Some(Timestamp::from_millis(begin.timestamp().as_millisecond()))
    };
    let parsed = if text.len() == DAY_CHARS { day() } else { text.parse().ok() };
    parsed.ok_or_else(|| Problem::new(422, "invalid").field("before").detail_key("problem.no-day", &[]))
}

/// Characters of a day, as in `2026-09-01`.
const DAY_CHARS: usize = 10;
