//! Which address does what. The checks stand before this ([`crate::middleware`]).
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, patch, post};
use board_core::model::card::CardId;

use crate::app::App;
use crate::handlers::{
    assets, board, card_pages, cards, draft_pages, drafts, events, jobs, old, pages, settings, text_pages,
    texts,
};
use crate::openapi;
use crate::reply::Problem;

/// Every address of the API, for the test of the OpenAPI document.
#[cfg(test)]
pub(crate) const API_PATHS: &[&str] = &[
    "/api/board",
    "/api/board/events",
    "/api/board/adopt",
    "/api/board/cards",
    "/api/board/cards/{id}",
    "/api/board/cards/{id}/move",
    "/api/board/cards/{id}/split",
    "/api/board/cards/{id}/retry",
    "/api/board/cards/{id}/resume",
    "/api/board/cards/{id}/discard",
    "/api/board/cards/{id}/cancel",
    "/api/board/cards/{id}/undo",
    "/api/board/cards/{id}/archive",
    "/api/board/cards/{id}/restore",
    "/api/board/cards/{id}/draft-retry",
    "/api/board/cards/{id}/draft-answer",
    "/api/board/cards/{id}/plan",
    "/api/board/cards/{id}/revise",
    "/api/board/cards/{id}/to-intent",
    "/api/board/cards/{id}/accept-slug",
    "/api/board/cards/{id}/text",
    "/api/board/drafts",
    "/api/board/cards/{id}/read",
    "/api/board/cards/{id}/synthesise",
    "/api/board/cards/{id}/rank",
    "/api/board/cards/{id}/adopt-file",
    "/api/board/cards/{id}/parent",
    "/api/board/cards/{id}/profile",
    "/api/board/jobs",
    "/api/board/jobs/{id}",
    "/api/board/jobs/{id}/log",
    "/api/board/roles/{role}",
    "/api/board/pause",
    "/api/board/resume-lanes",
];

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    api().merge(pages()).fallback(nothing).with_state(app)
}

fn pages() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(board::page))
        .route("/fragment/board", get(board::fragment))
        .route("/karten/neu", get(text_pages::new).post(text_pages::create))
        .route("/karten/{id}", get(card_pages::show).post(card_pages::act))
        .route("/karten/{id}/rohtext", get(card_pages::raw))
        .route("/karten/{id}/text", get(text_pages::show).post(text_pages::save))
        .route("/karten/{id}/konflikt", post(text_pages::settle))
        .route("/karten/{id}/parent", post(card_pages::parent))
        .route("/karten/{id}/profile", post(card_pages::profile))
        .route("/karten/{id}/gelesen", post(card_pages::read))
        .route("/karten/{id}/synthese", post(card_pages::synthesise))
        .route("/karten/{id}/platz", post(card_pages::rank))
        .route("/karten/{id}/datei", post(card_pages::adopt_file))
        .route("/entwuerfe/neu", get(draft_pages::new).post(draft_pages::create))
        .route("/entwuerfe/{id}", get(draft_pages::show).post(card_pages::act))
        .route("/jobs", get(pages::jobs))
        .route("/jobs/{id}", get(pages::job))
        .route("/archiv", get(pages::archive))
        .route("/altbestand", get(old::page).post(old::put_away))
        .route("/system", get(pages::system))
        .route("/system/pause", post(pages::pause))
        .route("/system/resume", post(pages::resume))
        .route("/hilfe", get(pages::help))
        .route("/sprache", post(pages::language))
        .route("/assets/{version}/{name}", get(assets::asset))
}

fn api() -> Router<Arc<App>> {
    Router::new()
        .route("/api/openapi.json", get(openapi::get))
        .route("/api/board", get(board::json))
        .route("/api/board/events", get(events::events))
        .route("/api/board/adopt", post(old::adopt))
        .route("/api/board/cards", post(texts::create))
        .route("/api/board/cards/{id}", get(cards::get).delete(cards::delete))
        .route("/api/board/cards/{id}/move", post(cards::move_to))
        .route("/api/board/cards/{id}/split", post(cards::split))
        .route("/api/board/cards/{id}/retry", post(cards::retry))
        .route("/api/board/cards/{id}/resume", post(cards::resume))
        .route("/api/board/cards/{id}/discard", post(cards::discard))
        .route("/api/board/cards/{id}/cancel", post(cards::cancel))
        .route("/api/board/cards/{id}/undo", post(cards::undo))
        .route("/api/board/cards/{id}/archive", post(cards::archive))
        .route("/api/board/cards/{id}/restore", post(cards::restore))
        .route("/api/board/cards/{id}/draft-retry", post(cards::draft_retry))
        .route("/api/board/cards/{id}/draft-answer", post(drafts::answer))
        .route("/api/board/cards/{id}/plan", post(cards::plan))
        .route("/api/board/cards/{id}/revise", post(cards::revise))
        .route("/api/board/cards/{id}/to-intent", post(texts::to_intent))
        .route("/api/board/cards/{id}/accept-slug", post(texts::accept_slug))
        .route("/api/board/cards/{id}/text", get(texts::get).put(texts::put).delete(texts::delete))
        .route("/api/board/drafts", post(drafts::create))
        .route("/api/board/cards/{id}/read", post(cards::read))
        .route("/api/board/cards/{id}/synthesise", post(cards::synthesise))
        .route("/api/board/cards/{id}/rank", post(cards::rank))
        .route("/api/board/cards/{id}/adopt-file", post(cards::adopt_file))
        .route("/api/board/cards/{id}/parent", patch(cards::parent))
        .route("/api/board/cards/{id}/profile", patch(cards::profile))
        .route("/api/board/jobs", get(jobs::list))
        .route("/api/board/jobs/{id}", get(jobs::get))
        .route("/api/board/jobs/{id}/log", get(jobs::log))
        .route("/api/board/roles/{role}", get(settings::role).put(settings::set_role))
        .route("/api/board/pause", post(settings::pause))
        .route("/api/board/resume-lanes", post(settings::resume))
}

/// Whatever has no address.
async fn nothing() -> Problem {
    Problem::new(404, "not-found")
}

/// The page of a card.
pub(crate) fn page_of(id: &CardId) -> String {
    match id {
        CardId::Slug(_) | CardId::Idea(_) => format!("/karten/{id}"),
        CardId::Draft(_) => format!("/entwuerfe/{id}"),
    }
}

/// The card of a page's address, for the way back from a problem.
pub(crate) fn card_of_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/karten/").or_else(|| path.strip_prefix("/entwuerfe/"))?;
    rest.split('/').next()?.parse().ok().map(|id| page_of(&id))
}

/// An address of the board itself, of those that content may link to and a redirect may lead to.
pub(crate) fn own_page(url: &str) -> Option<&str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let pages =
        ["/", "/jobs", "/archiv", "/altbestand", "/system", "/hilfe", "/karten/neu", "/entwuerfe/neu"];
    let of_card = path.strip_suffix("/text").unwrap_or(path);
    let id = of_card.strip_prefix("/karten/").or_else(|| of_card.strip_prefix("/entwuerfe/"));
    let known = pages.contains(&path)
        || id.is_some_and(|id| id.parse::<CardId>().is_ok())
        || path.strip_prefix("/jobs/").is_some_and(|id| uuid::Uuid::try_parse(id).is_ok());
    known.then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t31_only_addresses_of_the_board_are_its_own() {
        let draft = "/entwuerfe/draft-0b0e7a52-6a1e-4c1d-9a80-3f2f0c9b7a11";
        for own in ["/", "/?q=a", "/karten/board-limit", "/karten/neu", draft, "/jobs", "/hilfe#tasten"] {
            assert_eq!(own_page(own), Some(own));
        }
        for foreign in [
            "//evil",
            "/\\evil",
            "/%09/evil",
            "https://evil",
            "javascript:1",
            "/karten/../x",
            "/entwuerfe/x/y",
            "/karten/A",
            "",
        ] {
            assert_eq!(own_page(foreign), None, "{foreign}");
        }
    }
}
