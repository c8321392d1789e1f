//! The pages of a conversation with the planner: the topic, the transcript, the question, the ways out.
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use board_core::model::card::{Card, CardId, Source};
use board_core::model::draft::{MAX_ANSWER_CHARS, MAX_ROUNDS};
use board_core::model::event::EventKind;
use board_core::model::job::Speaker;
use board_core::model::phase::Phase;
use minijinja::value::Serde;
use serde::Serialize;

use super::card_pages::{refused_reply, shown};
use super::cards::moved;
use super::{Failed, blocking, card_id, frame, html_with};
use crate::app::App;
use crate::change;
use crate::middleware::Ctx;
use crate::reply::{Form, FormBody, Problem, see_other};
use crate::route::page_of;
use crate::view::{card as view, family, markdown, text};
use crate::world::World;

/// What a draft's page shows besides its card.
#[derive(Debug, Serialize)]
struct DraftPage {
    /// Turns, rendered; none where one is shown as it is.
    turns: Vec<Option<String>>,
    /// Options of the open question; none if nothing is asked.
    options: Option<Vec<String>>,
    /// The kept proposal, rendered.
    proposal: Option<String>,
    /// The idea or the card that it belongs to.
    origin: Option<family::CardLink>,
    /// What the planner said that is no answer.
    reply: Option<String>,
    max_rounds: u32,
    max_chars: usize,
    /// There is no round left to answer in.
    full: bool,
    /// A round runs.
    running: bool,
    /// The last round failed.
    failed: bool,
}

fn draft_page(app: &App, ctx: &Ctx, world: &World, card: &Card) -> DraftPage {
    let draft = card.draft.as_ref();
    let conversation = draft.map(|draft| draft.conversation.as_slice()).unwrap_or_default();
    let asked = conversation.iter().rev().find(|turn| turn.who == Speaker::Planner);
    let origin = draft.and_then(|draft| {
        draft.from_idea.as_ref().or_else(|| draft.revises.as_ref().map(|revises| &revises.card))
    });
    DraftPage {
        turns: conversation.iter().map(|turn| markdown::render(&turn.text)).collect(),
        options: asked.filter(|_| card.phase == Phase::EntwurfFrage).map(|turn| turn.options.clone()),
        proposal: draft
            .and_then(|draft| draft.proposal.as_ref())
            .and_then(|proposal| markdown::render(&proposal.body)),
        origin: origin.map(|id| family::CardLink::new(world, id, ctx.language)),
        reply: refused_reply(app, card).map(|reply| text::visible(&reply)),
        max_rounds: MAX_ROUNDS,
        max_chars: MAX_ANSWER_CHARS,
        full: draft.is_some_and(|draft| draft.round >= MAX_ROUNDS),
        running: card.phase.work().is_some(),
        failed: card.phase == Phase::EntwurfFehlgeschlagen,
    }
}

fn render(
    app: &App,
    ctx: &Ctx,
    world: &World,
    card: &Card,
    form: &Form,
    failed: Option<&Problem>,
) -> Result<Response, Problem> {
    let context = minijinja::context! {
        frame => Serde(frame(app, ctx, world)),
        page => Serde(view::page(world, card, &app.policy, ctx.language, Vec::new())),
        draft => Serde(draft_page(app, ctx, world, card)),
        conflict => Serde(super::text_pages::conflict(None, card)),
        answer => form.get("answer"),
        chosen => form.get("antwort"),
        failed => failed.map(|problem| Serde(Failed::new(problem, ctx.language))),
    };
    let status = failed.map_or(StatusCode::OK, Failed::status);
    html_with(app, status, "draft.html", context)
}

/// `GET /entwuerfe/{id}`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world_of(&[&id])?;
        if let Some(moved) = moved(&world, &id, "/karten") {
            return Ok(moved);
        }
        let card = shown(&world, &id)?;
        if card.source != Source::Draft {
            return Ok(see_other(&page_of(&id)));
        }
        // What stands before it in the queue, and the card that it belongs to, are of the whole board.
        let world = app.world()?;
        let card = shown(&world, &id)?;
        render(app, &ctx, &world, card, &Form::default(), None)
    })
    .await
}

/// The page of a draft whose answer was refused, with what was typed, as long as its question is open.
///
/// # Errors
/// If state or queue cannot be read.
pub(super) fn again(
    app: &App,
    ctx: &Ctx,
    id: &CardId,
    form: &Form,
    failed: &Problem,
) -> Result<Option<Response>, Problem> {
    let told_on_the_page = matches!(failed.code, "invalid" | "limit" | "precondition");
    if form.get("event") != Some(EventKind::Answered.id()) || !told_on_the_page {
        return Ok(None);
    }
    let world = app.world()?;
    match world.card(id) {
        Some(card) if card.phase == Phase::EntwurfFrage => {
            render(app, ctx, &world, card, form, Some(failed)).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// `GET /entwuerfe/neu`
pub(crate) async fn new(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    blocking(&app, move |app| render_new(app, &ctx, &Form::default(), None)).await
}

fn render_new(app: &App, ctx: &Ctx, form: &Form, failed: Option<&Problem>) -> Result<Response, Problem> {
    let context = minijinja::context! {
        frame => Serde(frame(app, ctx, &app.world()?)),
        topic => form.get("topic"),
        max_chars => MAX_ANSWER_CHARS,
        max_rounds => MAX_ROUNDS,
        failed => failed.map(|problem| Serde(Failed::new(problem, ctx.language))),
    };
    html_with(app, failed.map_or(StatusCode::OK, Failed::status), "draft-new.html", context)
}

/// `POST /entwuerfe/neu`
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| match change::create_draft(app, &ctx, form.get("topic").unwrap_or_default()) {
        Ok(done) => Ok(see_other(&page_of(&done.applied.card))),
        Err(problem) if Failed::is_for(&problem) => render_new(app, &ctx, &form, Some(&problem)),
        Err(problem) => Err(problem.form(form.0.clone())),
    })
    .await
}
