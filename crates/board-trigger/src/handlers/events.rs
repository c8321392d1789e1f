//! The stream of changes (web.md, 2.6): revisions, never content.
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::model::profile::RoleName;
use futures_util::stream;
use tokio::time::Instant;

use super::blocking;
use crate::app::App;
use crate::live::{Change, Stream};
use crate::middleware::Ctx;
use crate::reply::Problem;

/// A comment so often, so that proxies and clients see that the stream lives.
const PING: Duration = Duration::from_secs(15);
/// The stream is closed after this, so that the proxy asks again who it is.
const LIFE: Duration = Duration::from_secs(600);
/// After how many milliseconds a client connects again.
const RETRY_MS: u32 = 2_000;

struct Feed {
    stream: Stream,
    rev: u64,
    until: Instant,
    waiting: VecDeque<Bytes>,
}

/// Server-sent events: `rev`, `job`, `resync`, and a comment every 15 seconds.
#[utoipa::path(get, path = "/api/board/events", tag = "board", responses(
    (status = 200, content_type = "text/event-stream", body = String, description = "rev {rev, changed, columns}, job {id, state}, resync"),
    (status = 429, description = "too-many-streams"),
))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = ctx.identity.name.clone();
    let stream = blocking(&app, move |app| app.live.connect(app, &user)).await?;
    let known =
        headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse::<u64>().ok());
    let now = stream.rev();
    let mut waiting = VecDeque::from([Bytes::from(format!("retry: {RETRY_MS}\n\n"))]);
    match known.map(|known| stream.since(known)) {
        Some(Some(changes)) => waiting.extend(changes.iter().map(spell)),
        Some(None) => waiting.push_back(Bytes::from(format!("id: {now}\nevent: resync\ndata: {{}}\n\n"))),
        None => waiting.push_back(Bytes::from(format!(
            "id: {now}\nevent: rev\ndata: {{\"rev\":{now},\"changed\":[],\"columns\":[]}}\n\n"
        ))),
    }
    let feed = Feed { stream, rev: now, until: Instant::now() + LIFE, waiting };
    let body = Body::from_stream(stream::unfold(feed, next));
    let head = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, head, body).into_response())
}

/// The next piece of a feed; none when its life is over.
async fn next(mut feed: Feed) -> Option<(Result<Bytes, Infallible>, Feed)> {
    loop {
        if let Some(piece) = feed.waiting.pop_front() {
            return Some((Ok(piece), feed));
        }
        if Instant::now() >= feed.until {
            return None;
        }
        tokio::select! {
            told = feed.stream.told.changed() => {
                if told.is_err() {
                    return None;
                }
                match feed.stream.since(feed.rev) {
                    Some(changes) => feed.waiting.extend(changes.iter().map(spell)),
                    None => feed.waiting.push_back(Bytes::from_static(b"event: resync\ndata: {}\n\n")),
                }
                feed.rev = feed.stream.rev();
            }
            () = tokio::time::sleep(PING) => feed.waiting.push_back(Bytes::from_static(b": ping\n\n")),
            () = tokio::time::sleep_until(feed.until) => return None,
        }
    }
}

fn spell(change: &Change) -> Bytes {
    let data = serde_json::to_string(change).unwrap_or_default();
    let mut text = format!("id: {}\nevent: rev\ndata: {data}\n\n", change.rev);
    for (id, state) in &change.jobs {
        text.push_str(&format!("event: job\ndata: {{\"id\":\"{id}\",\"state\":\"{state}\"}}\n\n"));
    }
    Bytes::from(text)
}

/// The role of an address.
pub(crate) fn role(id: &str) -> Result<RoleName, Problem> {
    RoleName::ALL.into_iter().find(|role| role.id() == id).ok_or_else(|| Problem::new(404, "not-found"))
}
