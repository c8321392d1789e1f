//! The API of texts: new cards, edits, and what becomes an intent.
//!
//! The watcher writes them; an answer waits for it a little, and says 202 where it has not come to it.
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::model::card::{CardId, Source};
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use serde::{Deserialize, Serialize};

use super::cards::{DoneJson, answer_with};
use super::{blocking, card_id};
use crate::app::App;
use crate::change::texts::{self, NewDocument, Written};
use crate::change::{self, Ask, Done, Wanted};
use crate::middleware::Ctx;
use crate::reply::{JsonBody, Problem, TEXT_BODY_CAP, etag, json_response};
use crate::view::board::card_rev;
use crate::view::card::CardJson;

/// A new card.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewCard {
    /// Its title, 1 to 200 characters; may be empty where the text has a heading.
    title: String,
    /// Its text, Markdown.
    text: String,
    /// `idee`, `intent` or `recherche`; an idea if nothing is said.
    kind: Option<String>,
    /// The slug of an intent or a question; made of the title if nothing is said.
    slug: Option<String>,
}

/// The text of a card.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TextJson {
    /// As it is, front matter included.
    text: String,
    /// What it is compared by when it is replaced.
    base_blob: String,
}

/// Another text.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TextBody {
    /// The whole text.
    text: String,
    /// What was edited; an idea's may be left out.
    base_blob: Option<String>,
    /// Another title, of an idea only.
    title: Option<String>,
}

/// What becomes an intent.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IntentBody {
    /// Its slug.
    slug: String,
    /// Its text; without one the idea's title and text.
    text: Option<String>,
}

/// Another slug.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SlugBody {
    /// The slug.
    slug: String,
}

/// The kind of a new card; none for an idea.
pub(crate) fn kind(text: Option<&str>) -> Result<Option<Source>, Problem> {
    match text {
        None => Ok(None),
        Some(idea) if idea == Phase::Idee.id() => Ok(None),
        Some("intent") => Ok(Some(Source::Intent)),
        Some("recherche") => Ok(Some(Source::Research)),
        Some(_) => Err(Problem::new(422, "invalid").field("kind").detail("kind: idee | intent | recherche")),
    }
}

/// The refusal for a text that the watcher could not write: it stays with its card, with this sentence.
fn not_written(id: &CardId, why: String) -> Problem {
    Problem::new(409, "conflict").detail(why).location(format!("/api/board/cards/{id}"))
}

/// A new idea, or an intent or a research question that the watcher writes.
#[utoipa::path(post, path = "/api/board/cards", tag = "cards", request_body = NewCard, responses(
    (status = 201, body = CardJson, headers(("Location" = String))),
    (status = 202, body = CardJson, description = "the file is not written yet", headers(("Location" = String))),
    (status = 409, description = "taken; conflict: it could not be written, and its text stays with the card"),
    (status = 422, description = "invalid"),
))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    JsonBody(body): JsonBody<NewCard, TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let kind = kind(body.kind.as_deref())?;
    blocking(&app, move |app| {
        let (done, written) = match kind {
            None => {
                let done = change::create_idea(app, &ctx, &body.title, &body.text)?;
                let id = done.applied.card.clone();
                (done, Written::Done(id))
            }
            Some(source) => {
                let new = NewDocument { source, slug: body.slug, title: body.title, text: body.text };
                let done = texts::create_document(app, &ctx, &new)?;
                let written = texts::wait(app, &done.applied.card)?;
                (done, written)
            }
        };
        let status = match written {
            Written::Done(_) => StatusCode::CREATED,
            Written::Pending => StatusCode::ACCEPTED,
            Written::Conflict(why) => return Err(not_written(&done.applied.card, why)),
        };
        let mut response = card_response(app, status, &done.applied.card)?;
        let location = format!("/api/board/cards/{}", done.applied.card);
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    })
    .await
}

/// The card as it is now.
fn card_response(app: &App, status: StatusCode, id: &CardId) -> Result<Response, Problem> {
    let world = app.world_of(&[id])?;
    let card = change::known(&world, id)?;
    let mut response = json_response(status, &crate::view::card::json(&world, card, &app.policy))?;
    response.headers_mut().insert(header::ETAG, etag(card_rev(&world, card)));
    Ok(response)
}

/// The text of a card, as it is edited.
#[utoipa::path(get, path = "/api/board/cards/{id}/text", tag = "cards", params(("id" = String, Path)), responses(
    (status = 200, body = TextJson), (status = 404, description = "not-found"), (status = 409, description = "conflict"),
))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    _: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world_of(&[&id])?;
        let card = change::known(&world, &id)?;
        if card.source == Source::Draft {
            return Err(Problem::new(404, "not-found"));
        }
        let (text, base_blob) = texts::text_of(app, &world, card)?;
        json_response(StatusCode::OK, &TextJson { text, base_blob })
    })
    .await
}

/// Replaces the text of a card, where it is still the one that was edited.
#[utoipa::path(put, path = "/api/board/cards/{id}/text", tag = "cards", params(("id" = String, Path)), request_body = TextBody, responses(
    (status = 200, body = CardJson), (status = 202, body = CardJson, description = "the file is not written yet"),
    (status = 409, description = "saving, applying, in-draft, not-allowed, conflict"),
    (status = 412, description = "precondition: the text is another by now; `current` has it, `yours` what was sent"),
    (status = 422, description = "invalid"),
))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<TextBody, TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        texts::edit(app, &ctx, &id, body.title.as_deref(), &body.text, body.base_blob.as_deref())?;
        match texts::wait(app, &id)? {
            Written::Done(_) => card_response(app, StatusCode::OK, &id),
            Written::Pending => card_response(app, StatusCode::ACCEPTED, &id),
            Written::Conflict(why) => {
                let world = app.world_of(&[&id])?;
                let card = change::known(&world, &id)?;
                let problem = Problem::new(412, "precondition").detail(why).yours(body.text);
                Err(match texts::text_of(app, &world, card) {
                    Ok((text, base_blob)) => {
                        problem.current(serde_json::json!({ "text": text, "base_blob": base_blob }))
                    }
                    Err(_) => problem,
                })
            }
        }
    })
    .await
}

/// Gives a text up that could not be written.
#[utoipa::path(delete, path = "/api/board/cards/{id}/text", tag = "cards", params(("id" = String, Path)), responses(
    (status = 204, description = "given up"), (status = 409, description = "saving, applying"),
    (status = 422, description = "invalid: there is none"),
))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        texts::drop_text(app, &ctx, &id)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// The answer to an order that makes an intent of something.
fn ordered(app: &App, mut done: Done) -> Result<Response, Problem> {
    let status = match texts::wait(app, &done.applied.card)? {
        Written::Done(id) => {
            done.applied.card = id;
            StatusCode::OK
        }
        Written::Pending => StatusCode::ACCEPTED,
        Written::Conflict(why) => return Err(not_written(&done.applied.card, why)),
    };
    let world = app.world_of(&[&done.applied.card])?;
    done.applied.to = world.card(&done.applied.card).map(|card| card.phase).or(done.applied.to);
    answer_with(app, &world, status, &done)
}

/// Writes an idea as an intent.
#[utoipa::path(post, path = "/api/board/cards/{id}/to-intent", tag = "cards", params(("id" = String, Path)), request_body = IntentBody, responses(
    (status = 200, body = DoneJson, description = "the card has the slug as its id"), (status = 202, body = DoneJson, description = "the file is not written yet"),
    (status = 409, description = "taken, not-allowed, in-draft, saving, conflict"), (status = 422, description = "invalid"),
))]
pub(crate) async fn to_intent(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<IntentBody, TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ask = Ask { slug: Some(body.slug), text: body.text, ..Ask::default() };
    blocking(&app, move |app| {
        ordered(app, change::on_card(app, &ctx, &id, Wanted::Event(EventKind::DocumentWritten), &ask)?)
    })
    .await
}

/// Takes a text under another slug: the proposal of a draft, or what could not be written.
#[utoipa::path(post, path = "/api/board/cards/{id}/accept-slug", tag = "drafts", params(("id" = String, Path)), request_body = SlugBody, responses(
    (status = 200, body = DoneJson, description = "the card has the slug as its id"), (status = 202, body = DoneJson, description = "the file is not written yet"),
    (status = 409, description = "taken, not-allowed, saving, conflict"), (status = 422, description = "invalid"),
))]
pub(crate) async fn accept_slug(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<SlugBody>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| ordered(app, accept(app, &ctx, &id, body.slug)?)).await
}

/// Takes the text of a card under another slug, whatever holds it: a proposal, or an order that failed.
pub(super) fn accept(app: &App, ctx: &Ctx, id: &CardId, slug: String) -> Result<Done, Problem> {
    match id {
        CardId::Slug(_) => texts::elsewhere(app, ctx, id, Some(&slug)),
        CardId::Draft(_) => {
            let ask = Ask { slug: Some(slug), ..Ask::default() };
            change::on_card(app, ctx, id, Wanted::Event(EventKind::ProposalAccepted), &ask)
        }
        CardId::Idea(_) => {
            // The words that failed, not those that the idea has by now.
            let text =
                app.board()?.cards.get(id).and_then(|card| card.order.as_ref()).map(|o| o.text.clone());
            let ask = Ask { slug: Some(slug), text, ..Ask::default() };
            change::on_card(app, ctx, id, Wanted::Event(EventKind::DocumentWritten), &ask)
        }
    }
}
