//! What happens to every request before it is routed and to every answer before it leaves.
//!
//! One function, in one order, that fails closed: a request that is not let through here reaches no
//! handler. Apart from the router so that no route can be added beside it.
pub(crate) mod checks;
pub(crate) mod headers;
mod rest;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use board_core::edge::settings::Language;
use tower::ServiceExt;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Identity, Peer, Role};
use crate::reply::Problem;
use crate::{i18n, view};

/// How long a request may take, its body included; streams excepted.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What a handler knows of its request.
#[derive(Debug, Clone)]
pub(crate) struct Ctx {
    /// Who asks.
    pub(crate) identity: Identity,
    /// In which language.
    pub(crate) language: Language,
    /// An id of its own, for the logs.
    pub(crate) request: Uuid,
    /// Path and query.
    pub(crate) uri: Uri,
    /// `If-None-Match`, as it came.
    if_none_match: Option<String>,
    /// `If-Match`, as it came.
    if_match: Option<String>,
    /// The header `Idempotency-Key`, where it is a UUID.
    pub(crate) key: Option<Uuid>,
}

impl Ctx {
    /// Whether the client has this revision.
    pub(crate) fn has(&self, rev: u64) -> bool {
        self.if_none_match.as_deref().is_some_and(|list| names_rev(list, rev))
    }

    /// Whether `If-Match` is absent or names this revision.
    pub(crate) fn matches(&self, rev: u64) -> bool {
        self.if_match.as_deref().is_none_or(|list| names_rev(list, rev))
    }

    /// Takes `If-Match` and `Idempotency-Key` from a form's hidden fields, which cannot send headers.
    pub(crate) fn with_form(mut self, form: &crate::reply::Form) -> Ctx {
        if self.key.is_none() {
            self.key = form.get("key").and_then(|text| Uuid::try_parse(text).ok());
        }
        self
    }

    /// Refuses somebody who may only look.
    ///
    /// # Errors
    /// 403 for a viewer.
    pub(crate) fn operator(&self) -> Result<(), Problem> {
        match self.identity.role {
            Role::Operator => Ok(()),
            Role::Viewer => Err(Problem::new(403, "viewer")
                .detail_key("problem.viewer.detail", &[("name", &self.identity.name)])),
        }
    }
}

/// Whether a list of entity tags names a revision; weak tags count as their strong ones.
fn names_rev(list: &str, rev: u64) -> bool {
    let wanted = format!("\"{rev}\"");
    list.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == wanted)
}

impl<S: Send + Sync> FromRequestParts<S> for Ctx {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only `serve` puts it there, after the checks; without it nothing was checked.
        parts.extensions.get::<Ctx>().cloned().ok_or_else(|| Problem::new(401, "no-identity"))
    }
}

/// One request from the accept loop to the answer.
pub(crate) async fn serve(app: Arc<App>, router: Router, peer: Peer, mut request: Request<Body>) -> Response {
    let began = Instant::now();
    if request.uri().path() == "/healthz" {
        let mut response = health(request.method());
        headers::add(response.headers_mut());
        return response;
    }
    let language = i18n::choose(request.headers(), app.settings.board.language);
    let uri = request.uri().clone();
    let method = request.method().clone();
    let request_id = Uuid::new_v4();
    let machine = wants_json(uri.path(), request.headers());
    let mut who = None;
    let ended;
    (request, ended) = {
        let (parts, body) = request.into_parts();
        let (body, ended) = rest::Ended::watch(body);
        (Request::from_parts(parts, body), ended)
    };
    // Not in the `match`: the request would be borrowed while it is answered.
    let verdict = checks::check(&app, peer, &request);
    let mut response = match verdict {
        Ok(checks::Verdict::Answer(response)) => response,
        Ok(checks::Verdict::Go(identity)) => {
            let ctx = Ctx {
                identity: identity.clone(),
                language,
                request: request_id,
                uri: uri.clone(),
                if_none_match: header_text(request.headers(), "if-none-match"),
                if_match: header_text(request.headers(), "if-match"),
                key: header_text(request.headers(), "idempotency-key")
                    .and_then(|text| Uuid::try_parse(text.trim_matches('"')).ok()),
            };
            who = Some(identity);
            request.extensions_mut().insert(ctx);
            let answer = router.oneshot(request);
            match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => Problem::new(503, "timeout").retry_after(5).into_response(),
            }
        }
        Err(problem) => {
            rest::read(request.into_body()).await;
            problem.into_response()
        }
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED && response.extensions().get::<Problem>().is_none()
    {
        let allow = response.headers().get(header::ALLOW).cloned();
        response = Problem::new(405, "method").into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.is_audited() {
            app.audit.denied(&peer, who.as_ref(), request_id, &method, uri.path(), problem.code);
        }
        let allow = response.headers_mut().remove(header::ALLOW);
        response = if machine {
            let body = problem.json(language, uri.path());
            problem.respond("application/problem+json", body.to_string())
        } else {
            let page = view::problem_page(&app, &problem, language, who.as_ref(), &uri);
            problem.respond("text/html; charset=utf-8", page)
        };
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    headers::add(response.headers_mut());
    ended.tell(response.headers_mut());
    tracing::debug!(
        %method, path = uri.path(), status = response.status().as_u16(),
        ms = began.elapsed().as_millis(), "request"
    );
    response
}

/// A header's text.
fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
}

/// Answered before any check and without a word about the board.
fn health(method: &Method) -> Response {
    if method == Method::GET || method == Method::HEAD {
        StatusCode::NO_CONTENT.into_response()
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response()
    }
}

/// Whether the client reads problem details: the API always, pages only for people.
fn wants_json(path: &str, headers: &HeaderMap) -> bool {
    let accepts = |kind: &str| {
        headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.contains(kind))
    };
    path.starts_with("/api/") || (accepts("json") && !accepts("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_names_a_revision_exactly() {
        assert!(names_rev("\"7\"", 7));
        assert!(names_rev("\"6\", W/\"7\"", 7));
        assert!(names_rev("*", 7));
        assert!(!names_rev("\"77\"", 7));
        assert!(!names_rev("7", 7));
    }
}
