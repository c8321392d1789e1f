//! What the operator sets on a card without moving it to another phase: that he read it, that its children are
//! summed up, its place in the column.
use board_core::edge::audit::{self, Edited};
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId};
use board_core::model::event::Refusal;
use board_core::model::fanout::ChildState;
use board_core::model::record;
use board_core::model::slug::{Slug, SlugError};

use super::problems::repository_problem;
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

/// Which of the two counts where a record was edited by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// What the file says.
    File,
    /// What the board knows.
    Board,
}

impl Take {
    /// As it is spelled in calls and forms.
    ///
    /// # Errors
    /// Neither of the two.
    pub(crate) fn parse(text: Option<&str>) -> Result<Take, Problem> {
        match text {
            Some("file") => Ok(Take::File),
            Some("board") => Ok(Take::Board),
            Some(_) | None => Err(Problem::new(422, "invalid").field("take").detail("take: file | board")),
        }
    }
}

/// A card's record that was edited by hand, if it was.
///
/// # Errors
/// The repository cannot be read.
pub(crate) fn edited(app: &App, world: &World, card: &Card) -> Result<Option<Edited>, Problem> {
    let Some(slug) = card.id.slug() else { return Ok(None) };
    let reader = app.repository.reader(&world.board).map_err(|error| repository_problem(&error))?;
    let told = world.waits.edits.contains_key(slug);
    audit::edited(&reader, &world.board, slug, told).map_err(|error| repository_problem(&error.into()))
}

/// Says which counts, the record that was edited by hand or the board. `shown` is the hash of the file that was
/// looked at; without one it is the file as it is now.
///
/// # Errors
/// Why not.
pub(crate) fn adopt_file(
    app: &App,
    ctx: &Ctx,
    id: &CardId,
    take: Take,
    shown: Option<&str>,
) -> Result<(), Problem> {
    ctx.operator()?;
    let world = app.world_of(&[id])?;
    let result = (|| {
        let card = changeable(ctx, &world, id)?;
        let Some(edited) = edited(app, &world, card)? else {
            return Err(Problem::new(409, "file").detail_key("problem.file.same", &[]));
        };
        if shown.is_some_and(|shown| shown != edited.hash) {
            return Err(Problem::new(412, "precondition").detail_key("problem.file.changed", &[]));
        }
        let record = match take {
            Take::Board => None,
            Take::File => Some(record::parse(edited.file.as_bytes()).map_err(|error| {
                Problem::new(409, "file")
                    .detail_key("problem.file.unreadable", &[("why", &error.to_string())])
            })?),
        };
        with_card(app, ctx, &world, id, |board, stamp| match &record {
            Some(record) => board.take_file(id, record, &edited.hash, stamp, &app.policy),
            None => board.overrule_file(id, &edited.hash, stamp),
        })
    })();
    let text = match take {
        Take::File => "file",
        Take::Board => "board",
    };
    record_plain(app, ctx, "adopt-file", Some(id), Some(text), &result);
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
