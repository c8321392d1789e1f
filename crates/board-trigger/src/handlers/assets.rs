//! The stylesheet, the script and the icon, in the binary.
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::reply::Problem;

const CSS: &str = concat!(
    include_str!("../../assets/tokens.css"),
    "\n",
    include_str!("../../assets/board.css"),
    "\n",
    include_str!("../../assets/card.css")
);
const JS: &str = include_str!("../../assets/board.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// Hash of all assets; it stands in their addresses, so that they can be kept for ever.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let all = [CSS, JS, ICON].concat();
        board_core::model::hash::blob_hash(all.as_bytes()).chars().take(12).collect()
    });
    &VERSION
}

/// `GET /assets/{version}/{name}`
pub(crate) async fn asset(Path((hash, name)): Path<(String, String)>) -> Result<Response, Problem> {
    let (kind, body) = match name.as_str() {
        "board.css" => ("text/css; charset=utf-8", CSS),
        "board.js" => ("text/javascript; charset=utf-8", JS),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return Err(Problem::new(404, "not-found")),
    };
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    // A page of an older version may still ask; what it gets must not be kept under that name.
    if hash == version() {
        let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for text in [CSS, JS] {
            for bad in ["http://", "https://", "@import", "//cdn"] {
                assert!(!text.contains(bad), "{bad}");
            }
        }
        assert!(JS.len() <= 40 * 1024, "the scripts have at most 40 kB");
    }
}
