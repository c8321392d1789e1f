//! The board: the page, its fragment and its JSON.
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;

use super::{blocking, frame, html};
use minijinja::value::Serde;

use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::{Problem, etag, json_with_etag, not_modified};
use crate::view::board::{Filter, board, choices, columns};

/// The whole board: seven columns of summaries, and the files that are no cards.
#[utoipa::path(get, path = "/api/board", tag = "board", responses(
    (status = 200, body = crate::view::board::BoardJson, headers(("ETag" = String, description = "the revision in quotes"))),
    (status = 304, description = "If-None-Match names the revision"),
))]
pub(crate) async fn json(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let language = ctx.language;
    let (board, _) = blocking(&app, move |app| Ok(board(&app.world()?, &filter, language))).await?;
    json_with_etag(&ctx, board.rev, &board)
}

/// `GET /`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    render(app, ctx, filter, "board.html").await
}

/// `GET /fragment/board`: what the page's script puts in place of the columns.
pub(crate) async fn fragment(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    render(app, ctx, filter, "columns.html").await
}

async fn render(
    app: Arc<App>,
    ctx: Ctx,
    filter: Filter,
    template: &'static str,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let (board, total) = board(&world, &filter, ctx.language);
        let rev = board.rev;
        if template == "columns.html" && ctx.has(rev) {
            return Ok(not_modified(rev));
        }
        let shown: usize = board.columns.iter().map(|column| column.count).sum();
        let broken = board.broken.clone();
        let (phases, sources) = choices(ctx.language);
        let undeletable = undo_of(&ctx);
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            rev => rev,
            query => ctx.uri.query().unwrap_or_default(),
            columns => Serde(columns(&world, board, ctx.language)),
            broken => Serde(broken),
            filtered => filter.is_active(),
            filter => Serde(filter),
            shown => shown,
            total => total,
            phases => Serde(phases),
            sources => Serde(sources),
            deleted => undeletable.filter(|id| world.board.deleted.iter().any(|d| d.card.id.to_string() == *id)),
        };
        let mut response = html(app, template, context)?;
        response.headers_mut().insert(axum::http::header::ETAG, etag(rev));
        Ok(response)
    })
    .await
}

/// The card that was just deleted, for the line that offers it back.
fn undo_of(ctx: &Ctx) -> Option<String> {
    let query = ctx.uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(key, _)| key == "geloescht")
        .map(|(_, id)| id.into_owned())
}
