//! The API of conversations with the planner; what a draft shares with other cards is in [`super::cards`].
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use board_core::model::event::EventKind;
use serde::Deserialize;

use super::cards::{DoneJson, answer as answered};
use super::{blocking, card_id};
use crate::app::App;
use crate::change::{self, Ask, Wanted};
use crate::middleware::Ctx;
use crate::reply::{JsonBody, Problem};

/// A new draft.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewDraft {
    /// What it is about, 1 to 4,000 characters.
    topic: String,
}

/// An answer to the planner's question.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnswerBody {
    /// The answer; with an option the note beside it, which may be empty. 4,000 characters together.
    answer: String,
    /// The option that is taken.
    option: Option<String>,
    /// The round that is answered; refused with 409 `old-round` if another one is asked by now.
    round: Option<u32>,
}

/// Begins a draft: the planner's first round is queued at once.
#[utoipa::path(post, path = "/api/board/drafts", tag = "drafts", request_body = NewDraft, responses(
    (status = 202, body = DoneJson, headers(("Location" = String))), (status = 422, description = "invalid, limit"),
))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    JsonBody(body): JsonBody<NewDraft>,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let done = change::create_draft(app, &ctx, &body.topic)?;
        let mut response = answered(app, &done)?;
        let location = format!("/api/board/cards/{}", done.applied.card);
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    })
    .await
}

/// Answers the planner's question: an option, a text, or both.
#[utoipa::path(post, path = "/api/board/cards/{id}/draft-answer", tag = "drafts", params(("id" = String, Path)), request_body = AnswerBody, responses(
    (status = 202, body = DoneJson), (status = 308, description = "renamed: the draft is an intent by now"),
    (status = 409, description = "old-round with the other answer in `current`, not-allowed, gone"),
    (status = 412, description = "precondition"), (status = 422, description = "invalid, limit"),
))]
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ask = Ask { answer: Some(body.answer), option: body.option, round: body.round, ..Ask::default() };
    blocking(&app, move |app| {
        let done = change::on_card(app, &ctx, &id, Wanted::Event(EventKind::Answered), &ask)?;
        answered(app, &done)
    })
    .await
}
