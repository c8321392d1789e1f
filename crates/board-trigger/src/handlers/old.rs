//! Cards from before the board: the call and the page that put them where they belong.
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use board_core::model::phase::Phase;
use minijinja::value::Serde;
use serde::{Deserialize, Serialize};

use super::{Failed, blocking, frame, html_with};
use crate::app::App;
use crate::change::old;
use crate::middleware::Ctx;
use crate::reply::{FormBody, JsonBody, Problem, json_response, see_other};
use crate::view::{family, phase_label};

/// Which cards are put away, and where.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AdoptBody {
    /// Those that were in the repository before this day (`2026-09-01`, in the board's time zone) or moment.
    before: String,
    /// `deployed` or `archiviert`.
    #[serde(rename = "as")]
    belongs: Option<String>,
    /// Only say which they are.
    dry_run: bool,
}

/// What was put away.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Adopted {
    /// Ids of the cards.
    cards: Vec<String>,
    /// How many are left for another call.
    more: usize,
    /// Nothing was changed.
    dry_run: bool,
}

/// Puts planned cards from before the board where they belong.
#[utoipa::path(post, path = "/api/board/adopt", tag = "cards", request_body = AdoptBody, responses(
    (status = 200, body = Adopted), (status = 422, description = "invalid"), (status = 503, description = "fault"),
))]
pub(crate) async fn adopt(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    JsonBody(body): JsonBody<AdoptBody>,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let done = old::put_away(app, &ctx, &body.before, body.belongs.as_deref(), body.dry_run)?;
        let cards = done.cards.iter().map(ToString::to_string).collect();
        json_response(StatusCode::OK, &Adopted { cards, more: done.more, dry_run: body.dry_run })
    })
    .await
}

/// What the address of the page may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OldQuery {
    /// The day before which they were there.
    vor: Option<String>,
}

/// `GET /altbestand`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(query): Query<OldQuery>,
) -> Result<Response, Problem> {
    let before = query.vor.filter(|text| !text.trim().is_empty());
    blocking(&app, move |app| render(app, &ctx, before.as_deref(), None)).await
}

fn render(app: &App, ctx: &Ctx, before: Option<&str>, failed: Option<Problem>) -> Result<Response, Problem> {
    ctx.operator()?;
    let world = app.world()?;
    let looked = match (before, &failed) {
        (Some(text), None) => {
            old::moment(app, text).and_then(|at| old::older_than(app, &world, at)).map(Some)
        }
        _ => Ok(None),
    };
    let (found, failed) = match looked {
        Ok(found) => (found, failed),
        Err(problem) if Failed::is_for(&problem) => (None, Some(problem)),
        Err(problem) => return Err(problem),
    };
    let links = found.map(|cards| {
        let link =
            |card: board_core::model::card::Card| family::CardLink::new(&world, &card.id, ctx.language);
        cards.into_iter().map(link).collect::<Vec<_>>()
    });
    let belongs: Vec<(&str, &str)> =
        [Phase::Deployed, Phase::Archiviert].map(|to| (to.id(), phase_label(to, ctx.language))).to_vec();
    let context = minijinja::context! {
        frame => Serde(frame(app, ctx, &world)),
        before => before,
        cards => links.map(Serde),
        belongs => Serde(belongs),
        failed => failed.as_ref().map(|problem| Serde(Failed::new(problem, ctx.language))),
    };
    html_with(app, failed.as_ref().map_or(StatusCode::OK, Failed::status), "old.html", context)
}

/// `POST /altbestand`
pub(crate) async fn put_away(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    form: FormBody,
) -> Result<Response, Problem> {
    let FormBody(form) = form;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        let before = form.get("vor").unwrap_or_default();
        match old::put_away(app, &ctx, before, form.get("als"), false) {
            Ok(_) => Ok(see_other("/")),
            Err(problem) if Failed::is_for(&problem) => render(app, &ctx, Some(before), Some(problem)),
            Err(problem) => Err(problem.form(form.0.clone())),
        }
    })
    .await
}
