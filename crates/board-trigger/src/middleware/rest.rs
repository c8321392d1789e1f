//! What is left of a request's body when its answer is there.
//!
//! A proxy keeps its connections and sends the next request, somebody else's, on the same one. A connection that is
//! closed under it because a body was not read gives that next one a 502. So a short rest is read, and where that does
//! not come to an end the answer says that the connection does.
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};

/// Most bytes that are read of a body that nobody wants.
const MAX_REST: usize = 64 << 10;
/// How long they may take: who sends slowly loses the connection.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// A body, and whether it was read to its end.
struct Watched {
    body: Body,
    ended: Arc<AtomicBool>,
}

/// Tells later whether a body was read to its end.
#[derive(Debug, Clone)]
pub(super) struct Ended(Arc<AtomicBool>);

impl Ended {
    /// Watches a body.
    pub(super) fn watch(body: Body) -> (Body, Ended) {
        let ended = Arc::new(AtomicBool::new(body.is_end_stream()));
        (Body::new(Watched { body, ended: Arc::clone(&ended) }), Ended(ended))
    }

    /// Says in the answer that the connection ends where the body did not.
    pub(super) fn tell(&self, answer: &mut HeaderMap) {
        if !self.0.load(Ordering::Relaxed) {
            answer.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a body that nobody wants, up to 64 KiB of it and for a second.
pub(super) async fn read(mut body: Body) {
    if body.size_hint().lower() > MAX_REST as u64 {
        return;
    }
    let all = async {
        let mut left = MAX_REST;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Too slow is the same as too long: the answer says so.
    let _ = tokio::time::timeout(REST_WITHIN, all).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(length: usize, and_read: bool) -> bool {
        let (body, ended) = Ended::watch(Body::from(vec![b'x'; length]));
        if and_read {
            read(body).await;
        }
        let mut answer = HeaderMap::new();
        ended.tell(&mut answer);
        answer.contains_key(header::CONNECTION)
    }

    #[tokio::test]
    async fn what_was_read_or_is_empty_keeps_the_connection() {
        assert!(!told(0, false).await);
        assert!(!told(MAX_REST, true).await);
        assert!(told(1, false).await);
        assert!(told(MAX_REST + 1, true).await);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let (body, ended) =
            Ended::watch(Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()));
        read(body).await;
        let mut answer = HeaderMap::new();
        ended.tell(&mut answer);
        assert_eq!(answer[header::CONNECTION], "close");
    }
}
