//! What the operator sets on a card without moving it to another phase: that he read it, that its children are
//! summed up, its place in the column.
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId};
use board_core::model::event::Refusal;
use board_core::model::fanout::ChildState;
use board_core::model::slug::{Slug, SlugError};

use super::{changeable, record_plain, stamp, store_problem, update};
use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::view::board::{card_rev, in_order};
use crate::world::World;

/// The operator says that he has read a synthesis.
///
/// # Errors
/// Why not.
pub(crate) fn mark_read(app: &App, ctx: &Ctx, id: &CardId) -> Result<(), Problem> {
    ctx.operator()?;
    let world = app.world_of(&[id])?;
    let result = with_card(app, ctx, &world, id, |board, stamp| board.mark_read(id, stamp));
    record_plain(app, ctx, "read", Some(id), None, &result);
    result
}

/// The operator asks for a synthesis of a card's children; the watcher writes it.
///
/// # Errors
/// Why not.
pub(crate) fn synthesise(app: &App, ctx: &Ctx, id: &CardId) -> Result<(), Problem> {
    ctx.operator()?;
    // All of it, since the children are looked at as well.
    let world = app.world()?;
    let is_open = |child: &Slug| world.child_state(child) == ChildState::Open;
    let result = with_card(app, ctx, &world, id, |board, stamp| board.ask_synthesis(id, stamp, is_open));
    record_plain(app, ctx, "synthesise", Some(id), None, &result);
    result
}

/// Puts a card before another of its column, or at its end.
///
/// # Errors
/// Why not.
pub(crate) fn rank(app: &App, ctx: &Ctx, id: &CardId, before: Option<&CardId>) -> Result<(), Problem> {
    ctx.operator()?;
    // All of it: the place is one among the cards that are shown.
    let world = app.world()?;
    let column = world.card(id).and_then(|card| card.phase.column());
    let shown: Vec<&Card> = column.map(|column| in_order(&world, column)).unwrap_or_default();
    let result = with_card(app, ctx, &world, id, |board, stamp| board.rank(id, before, &shown, stamp));
    let text = before.map(ToString::to_string);
    record_plain(app, ctx, "rank", Some(id), text.as_deref(), &result);
    result
}

/// A change of one card that is no event: its revision is compared, the state knows it, and the change
/// is made in one write.
fn with_card(
    app: &App,
    ctx: &Ctx,
    world: &World,
    id: &CardId,
    change: impl FnOnce(&mut Board, &Stamp) -> Result<(), Refusal>,
) -> Result<(), Problem> {
    let card = changeable(ctx, world, id)?;
    if !ctx.matches(card_rev(world, card)) {
        return Err(Problem::new(412, "precondition").rev(card_rev(world, card)));
    }
    let mut held = app.store.hold_patiently().map_err(store_problem)?;
    let stamp = stamp(ctx);
    update(&mut held, |board| {
        board.take_in(card);
        change(board, &stamp)
    })
    .map_err(|e| e.problem(&held, id))
}

/// The card before which another is put, as somebody named it.
///
/// # Errors
/// It is no id of a card.
pub(crate) fn before(text: Option<&str>) -> Result<Option<CardId>, Problem> {
    let wrong = |error: SlugError| {
        Problem::new(422, "invalid").field("before").said(error.sentence_de(), error.to_string())
    };
    match text.map(str::trim).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(wrong),
    }
}
