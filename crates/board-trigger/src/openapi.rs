//! The OpenAPI document, generated from the handlers; `docs/openapi.json` is a copy that a test compares.
use axum::response::Response;
use utoipa::OpenApi;

use crate::handlers::{board, cards, drafts, events, jobs, old, settings, texts};
use crate::reply::{Problem, json_response};

/// The API of the board.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "board-agent",
        description = "The board's API. Errors are problem details (RFC 9457) with a stable `code`; every mutation \
                       may carry `Idempotency-Key` (a UUID) and `If-Match`.",
        version = "1"
    ),
    paths(
        board::json,
        events::events,
        cards::get,
        old::adopt,
        texts::create,
        texts::get,
        texts::put,
        texts::delete,
        texts::to_intent,
        texts::accept_slug,
        drafts::create,
        drafts::answer,
        cards::plan,
        cards::revise,
        cards::move_to,
        cards::split,
        cards::retry,
        cards::resume,
        cards::discard,
        cards::cancel,
        cards::undo,
        cards::archive,
        cards::restore,
        cards::draft_retry,
        cards::delete,
        cards::read,
        cards::synthesise,
        cards::rank,
        cards::adopt_file,
        cards::parent,
        cards::profile,
        jobs::list,
        jobs::get,
        jobs::log,
        settings::role,
        settings::set_role,
        settings::pause,
        settings::resume
    )
)]
struct Api;

/// The document as it is served and kept in `docs/`.
pub(crate) fn document() -> String {
    let mut text = Api::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// `GET /api/openapi.json`
pub(crate) async fn get() -> Result<Response, Problem> {
    let value: serde_json::Value = serde_json::from_str(&document()).map_err(anyhow::Error::from)?;
    json_response(axum::http::StatusCode::OK, &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `BOARD_WRITE_OPENAPI=1 cargo test -p board-trigger openapi` writes it anew.
    #[test]
    fn the_document_in_docs_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("BOARD_WRITE_OPENAPI").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == document(),
            "docs/openapi.json is not what the handlers say; run BOARD_WRITE_OPENAPI=1 cargo test -p board-trigger openapi"
        );
    }

    #[test]
    fn every_address_of_the_api_is_in_the_document() {
        let value: serde_json::Value = serde_json::from_str(&document()).unwrap();
        assert!(value["openapi"].as_str().unwrap().starts_with("3.1"));
        let documented = value["paths"].as_object().unwrap();
        for path in crate::route::API_PATHS {
            assert!(documented.contains_key(*path), "{path}");
        }
        assert_eq!(documented.len(), crate::route::API_PATHS.len());
    }
}
