//! Answers: problem details (RFC 9457), and bodies that are read within limits.
//!
//! Apart from the handlers, which return a value or a [`Problem`]. How a problem looks, as JSON or as a
//! page, is decided where language and client are known (`middleware`).
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::edge::settings::Language;
use board_core::model::phase::Phase;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::i18n::t;
use crate::middleware::Ctx;

/// Largest body of a request, in bytes.
pub(crate) const BODY_CAP: usize = 64 * 1024;
/// Largest body of a call that carries a card's text, in bytes.
pub(crate) const TEXT_BODY_CAP: usize = 1024 * 1024;
/// How long a body may take to arrive; a little less than a whole request, so that the answer says which.
const BODY_TIMEOUT: Duration = Duration::from_millis(9_500);

/// Every problem code; `urn:board:problem:<code>` is its type. A test holds the list and its users together.
pub(crate) const CODES: &[&str] = &[
    "applying",
    "bad-json",
    "bad-request",
    "body-timeout",
    "conflict",
    "content-encoding",
    "content-type",
    "cross-site",
    "disk-failing",
    "disk-full",
    "fault",
    "file",
    "forbidden",
    "gone",
    "header-alias",
    "header-value",
    "in-draft",
    "internal",
    "invalid",
    "limit",
    "link",
    "locked",
    "method",
    "misdirected",
    "no-identity",
    "no-proxy-secret",
    "no-token",
    "not-allowed",
    "not-found",
    "old-round",
    "parked",
    "precondition",
    "renamed",
    "saving",
    "several-events",
    "synthesis",
    "synthesis-unread",
    "taken",
    "timeout",
    "too-large",
    "too-late",
    "too-many-streams",
    "untrusted-peer",
    "viewer",
];

/// A sentence of a problem.
#[derive(Debug, Clone)]
enum Sentence {
    /// Of the catalogue.
    Key(&'static str, Vec<(String, String)>),
    /// Of the model, in German and in English.
    Both(String, String),
    /// As it is.
    Plain(String),
}

/// The value of an argument as people read it: a phase comes as its id and is said by its label.
fn in_words<'v>(name: &str, value: &'v str, language: Language) -> &'v str {
    match Phase::from_id(value) {
        Some(phase) if name == "phase" => crate::view::phase_label(phase, language),
        Some(_) | None => value,
    }
}

/// What else a problem says.
#[derive(Debug, Clone, Default)]
struct More {
    detail: Option<Sentence>,
    rev: Option<u64>,
    allowed: Vec<&'static str>,
    calls: Option<Value>,
    job: Option<Uuid>,
    retry_after: Option<u32>,
    current: Option<Value>,
    yours: Option<String>,
    location: Option<String>,
    audited: bool,
    form: Vec<(String, String)>,
    /// For a viewer's name on the page; never the reason of a decision.
    field: Option<&'static str>,
}

/// Why a request was not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// The status.
    pub(crate) status: u16,
    /// One of [`CODES`].
    pub(crate) code: &'static str,
    more: Box<More>,
}

impl Problem {
    /// A problem of this status and code.
    pub(crate) fn new(status: u16, code: &'static str) -> Problem {
        debug_assert!(CODES.contains(&code), "{code}");
        Problem { status, code, more: Box::default() }
    }

    /// With a sentence of the catalogue.
    pub(crate) fn detail_key(mut self, key: &'static str, args: &[(&str, &str)]) -> Self {
        let args = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.more.detail = Some(Sentence::Key(key, args));
        self
    }

    /// With a sentence of the model, in German and in English.
    pub(crate) fn said(mut self, de: String, en: String) -> Self {
        self.more.detail = Some(Sentence::Both(de, en));
        self
    }

    /// With a sentence of the system.
    pub(crate) fn detail(mut self, text: impl Into<String>) -> Self {
        self.more.detail = Some(Sentence::Plain(text.into()));
        self
    }

    /// With the revision that is true now.
    pub(crate) fn rev(mut self, rev: u64) -> Self {
        self.more.rev = Some(rev);
        self
    }

    /// With the phases that a move may lead to, and all calls that fit.
    pub(crate) fn allowed(mut self, phases: Vec<&'static str>, calls: Value) -> Self {
        self.more.allowed = phases;
        self.more.calls = Some(calls);
        self
    }

    /// With the job that is in the way.
    pub(crate) fn job(mut self, job: Option<Uuid>) -> Self {
        self.more.job = job;
        self
    }

    /// With a time after which it may be tried again, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.more.retry_after = Some(seconds);
        self
    }

    /// With what is there now (412).
    pub(crate) fn current(mut self, value: Value) -> Self {
        self.more.current = Some(value);
        self
    }

    /// What is there now.
    pub(crate) fn what_is_there(&self) -> Option<&Value> {
        self.more.current.as_ref()
    }

    /// With what was sent, beside what is there now.
    pub(crate) fn yours(mut self, text: String) -> Self {
        self.more.yours = Some(text);
        self
    }

    /// With where it is found now (308).
    pub(crate) fn location(mut self, location: String) -> Self {
        self.more.location = Some(location);
        self
    }

    /// A line of the audit log is due.
    pub(crate) fn audited(mut self) -> Self {
        self.more.audited = true;
        self
    }

    /// Whether a line of the audit log is due.
    pub(crate) fn is_audited(&self) -> bool {
        self.more.audited
    }

    /// About this field.
    pub(crate) fn field(mut self, field: &'static str) -> Self {
        self.more.field = Some(field);
        self
    }

    /// With what was typed, so that the page can show it again.
    pub(crate) fn form(mut self, form: Vec<(String, String)>) -> Self {
        self.more.form = form;
        self
    }

    /// What was typed.
    pub(crate) fn typed(&self) -> &[(String, String)] {
        &self.more.form
    }

    /// The title in a language.
    pub(crate) fn title(&self, language: Language) -> String {
        t(language, &format!("problem.{}.title", self.code), &[])
    }

    /// The sentence in a language.
    pub(crate) fn sentence(&self, language: Language) -> Option<String> {
        match self.more.detail.as_ref()? {
            Sentence::Plain(text) => Some(text.clone()),
            Sentence::Both(de, en) => Some(match language {
                Language::De => de.clone(),
                Language::En => en.clone(),
            }),
            Sentence::Key(key, args) => {
                let args: Vec<(&str, &str)> = args
                    .iter()
                    .map(|(name, value)| (name.as_str(), in_words(name, value, language)))
                    .collect();
                Some(t(language, key, &args))
            }
        }
    }

    /// The field that it is about.
    pub(crate) fn wrong_field(&self) -> Option<&'static str> {
        self.more.field
    }

    /// The job that is in the way.
    pub(crate) fn blocking_job(&self) -> Option<Uuid> {
        self.more.job
    }

    /// The body of RFC 9457.
    pub(crate) fn json(&self, language: Language, instance: &str) -> Value {
        let mut body = json!({
            "type": format!("urn:board:problem:{}", self.code),
            "title": self.title(language),
            "status": self.status,
            "instance": instance,
            "code": self.code,
        });
        if let Value::Object(map) = &mut body {
            let more = &self.more;
            let mut put = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    map.insert(key.to_owned(), value);
                }
            };
            put("detail", self.sentence(language).map(Value::from));
            put("rev", more.rev.map(Value::from));
            put("job", more.job.map(|job| Value::from(job.to_string())));
            put("field", more.field.map(Value::from));
            put("current", more.current.clone());
            put("yours", more.yours.clone().map(Value::from));
            if let Some(calls) = &more.calls {
                put("allowed", Some(Value::from(more.allowed.clone())));
                put("calls", Some(calls.clone()));
            }
        }
        body
    }

    /// The answer with a body; `Retry-After` and `Allow` where they belong.
    pub(crate) fn respond(&self, content_type: &'static str, body: impl Into<Body>) -> Response {
        let mut response = Response::new(body.into());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.more.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(Ok(location)) = self.more.location.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::LOCATION, location);
        }
        response
    }
}

impl IntoResponse for Problem {
    /// Carried to the outermost layer, which knows language and client.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

impl From<anyhow::Error> for Problem {
    /// A fault of the board: told in the log in full, to the client in one word.
    fn from(error: anyhow::Error) -> Self {
        tracing::error!("{error:#}");
        Problem::new(500, "internal")
    }
}

/// The JSON body of a request, within `CAP` bytes; an empty one is `T::default()`.
pub(crate) struct JsonBody<T, const CAP: usize = BODY_CAP>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default, const CAP: usize> FromRequest<S> for JsonBody<T, CAP> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = read_body(request, CAP).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(JsonBody(T::default()));
        }
        board_core::model::json::object(&bytes).map(JsonBody).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Problem::new(422, "invalid").detail(error.to_string()),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => Problem::new(400, "bad-json").detail(error.to_string()),
        })
    }
}

/// The fields of a posted form, within `CAP` bytes.
pub(crate) struct FormBody<const CAP: usize = BODY_CAP>(pub(crate) Form);

/// The fields of a form, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form(pub(crate) Vec<(String, String)>);

/// Most fields of a form.
const MAX_FIELDS: usize = 64;

impl Form {
    /// The value of a field, line ends as the board writes them.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field without blanks around it; none if there is nothing.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    }
}

impl<S: Send + Sync, const CAP: usize> FromRequest<S> for FormBody<CAP> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = read_body(request, CAP).await?;
        let fields: Vec<(String, String)> = form_urlencoded::parse(&bytes)
            .take(MAX_FIELDS + 1)
            .map(|(key, value)| (key.into_owned(), value.replace("\r\n", "\n")))
            .collect();
        if fields.len() > MAX_FIELDS {
            return Err(Problem::new(400, "bad-request"));
        }
        Ok(FormBody(Form(fields)))
    }
}

/// Reads a body of at most `cap` bytes within [`BODY_TIMEOUT`].
async fn read_body(request: Request, cap: usize) -> Result<Bytes, Problem> {
    let told = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    if told.is_some_and(|told| told > cap as u64) {
        return Err(too_large(cap));
    }
    let read = Limited::new(request.into_body(), cap).collect();
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large(cap)),
        Ok(Err(_)) => Err(Problem::new(400, "bad-request")),
        Err(_) => Err(Problem::new(408, "body-timeout")),
    }
}

fn too_large(cap: usize) -> Problem {
    Problem::new(413, "too-large")
        .detail_key("problem.too-large.detail", &[("kib", &(cap / 1024).to_string())])
}

/// A JSON answer.
pub(crate) fn json_response(status: StatusCode, value: &impl serde::Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).map_err(anyhow::Error::from)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// A JSON answer with a strong `ETag`, or 304 where the client has it.
pub(crate) fn json_with_etag(
    ctx: &Ctx,
    rev: u64,
    value: &impl serde::Serialize,
) -> Result<Response, Problem> {
    if ctx.has(rev) {
        return Ok(not_modified(rev));
    }
    let mut response = json_response(StatusCode::OK, value)?;
    response.headers_mut().insert(header::ETAG, etag(rev));
    Ok(response)
}

/// 304 with the `ETag`.
pub(crate) fn not_modified(rev: u64) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, etag(rev))]).into_response()
}

/// `"<rev>"`
pub(crate) fn etag(rev: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{rev}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// 303 to an address of the board.
pub(crate) fn see_other(to: &str) -> Response {
    match HeaderValue::from_str(to) {
        Ok(location) => (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response(),
        Err(_) => (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        #[serde(default)]
        a: u32,
    }

    #[test]
    fn a_problem_speaks_the_language_of_who_asks() {
        let problem = Problem::new(409, "not-allowed")
            .detail_key("problem.not-allowed.detail", &[("phase", "geplant")]);
        assert!(problem.sentence(Language::De).unwrap().contains("Geplant"));
        assert!(problem.sentence(Language::En).unwrap().contains("Planned"));
        let of_model = Problem::new(422, "invalid").said("leer".into(), "empty".into());
        assert_eq!(of_model.sentence(Language::De).as_deref(), Some("leer"));
        assert_eq!(of_model.sentence(Language::En).as_deref(), Some("empty"));
    }

    async fn read(body: &str) -> Result<Small, (u16, &'static str)> {
        let request = Request::builder().body(Body::from(body.to_owned())).unwrap();
        JsonBody::<Small, 16>::from_request(request, &()).await.map(|b| b.0).map_err(|p| (p.status, p.code))
    }

    #[tokio::test]
    async fn a_body_is_read_strictly() {
        assert_eq!(read(r#"{"a":1}"#).await, Ok(Small { a: 1 }));
        assert_eq!(read("").await, Ok(Small { a: 0 }));
        assert_eq!(read(r#"{"a":1"#).await, Err((400, "bad-json")));
        assert_eq!(read(r#"{"b":1}"#).await, Err((422, "invalid")));
        assert_eq!(read(r#"{"a":1,"a":2}"#).await, Err((422, "invalid")));
        assert_eq!(read(r#"{"a":1.5}"#).await, Err((422, "invalid")));
    }

    #[tokio::test]
    async fn a_body_of_the_cap_is_read_and_one_byte_more_is_not() {
        assert_eq!(read(r#"{"a":1}         "#).await, Ok(Small { a: 1 }));
        assert_eq!(read(r#"{"a":1}          "#).await, Err((413, "too-large")));
    }

    #[test]
    fn a_problem_has_the_members_of_rfc_9457_and_ours() {
        let problem = Problem::new(409, "not-allowed").rev(7).allowed(vec!["geplant"], json!([]));
        let body = problem.json(Language::De, "/api/board/cards/x/move");
        assert_eq!(body["type"], "urn:board:problem:not-allowed");
        assert_eq!((&body["status"], &body["rev"]), (&json!(409), &json!(7)));
        assert_eq!(body["allowed"], json!(["geplant"]));
        assert_ne!(body["title"], body["code"]);
    }
}
