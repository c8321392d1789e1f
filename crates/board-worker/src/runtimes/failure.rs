//! What an error message of a runtime means: the card's fault, or the login, the quota, the network.
//!
//! The agents tell errors as sentences, mostly without a status field, so sentences are what is read
//! here. A message that nobody knows is an ordinary failure: nothing is retried on a guess.

use serde_json::Value;

/// What kind of failure a runtime told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Login missing or expired.
    Auth,
    /// Quota used up, or too many requests.
    Quota,
    /// The service answered 5xx or said that it is overloaded.
    Server,
    /// The service was not reached.
    Network,
    /// The runtime's own limit of turns.
    OwnLimit,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Whether the run is `unavailable`: not the card's fault, to be tried again later.
    pub fn is_unavailable(self) -> bool {
        match self {
            FailureKind::Auth | FailureKind::Quota | FailureKind::Server | FailureKind::Network => true,
            FailureKind::OwnLimit | FailureKind::Other => false,
        }
    }
}

/// A failure as the runtime told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// The runtime's own words, the first line of them.
    pub message: String,
    /// Seconds that the runtime asked to wait.
    pub retry_after: Option<u32>,
}

/// Longest pause that is taken from a message, in seconds.
pub const MAX_RETRY_AFTER_S: u32 = 24 * 3600;

/// Longest part of a message that is kept, in characters.
const MESSAGE_CHARS: usize = 500;

impl Failure {
    /// Reads a message; a status that came beside it counts before the words.
    pub fn of(message: &str, status: Option<u16>) -> Failure {
        let kind = status
            .and_then(of_status)
            .or_else(|| status_in(message).and_then(of_status))
            .unwrap_or_else(|| of_words(message));
        let retry_after = if kind.is_unavailable() { retry_after(message) } else { None };
        Failure { kind, message: crate::words::first_line(message, MESSAGE_CHARS), retry_after }
    }

    /// A failure of a kind that is known without reading a message.
    pub fn known(kind: FailureKind, message: &str) -> Failure {
        Failure { kind, message: crate::words::first_line(message, MESSAGE_CHARS), retry_after: None }
    }
}

fn of_status(status: u16) -> Option<FailureKind> {
    match status {
        401 | 403 => Some(FailureKind::Auth),
        402 | 429 => Some(FailureKind::Quota),
        408 | 500..=599 => Some(FailureKind::Server),
        _ => None,
    }
}

/// A status that stands in the message after a word that announces one: `status 401`, `API Error: 500`,
/// `last status: 429`, `HTTP 503`. A bare number is no status.
fn status_in(message: &str) -> Option<u16> {
    const ANNOUNCED_BY: [&str; 5] = ["status", "error", "http", "code", "statuscode"];
    let words: Vec<&str> =
        message.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.windows(2).find_map(|pair| {
        let [before, number] = pair else { return None };
        let announced = ANNOUNCED_BY.iter().any(|word| before.eq_ignore_ascii_case(word));
        let status: u16 = number.parse().ok().filter(|_| number.len() == 3)?;
        (announced && (400..600).contains(&status)).then_some(status)
    })
}

/// What an error object says: its message, and whatever texts stand beside it.
pub(crate) fn told_in(error: &Value) -> String {
    let mut texts = Vec::new();
    collect(error, 0, &mut texts);
    texts.join(": ")
}

fn collect(value: &Value, depth: usize, texts: &mut Vec<String>) {
    // The deciding words stand near the top; a body that was sent back whole is not copied into a sentence.
    const DEEPEST: usize = 4;
    const MOST: usize = 8;
    if depth > DEEPEST || texts.len() >= MOST {
        return;
    }
    match value {
        Value::String(text) if !text.trim().is_empty() && !texts.contains(text) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| collect(value, depth + 1, texts)),
        Value::Object(map) => {
            for key in ["message", "name", "type", "detail", "details", "error", "errorName", "data", "cause"]
            {
                if let Some(value) = map.get(key) {
                    collect(value, depth + 1, texts);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A status as a field of an error object, under any of the names that are used for it.
pub(crate) fn status_beside(error: &Value) -> Option<u16> {
    let of = |value: &Value| {
        ["status", "statusCode", "status_code", "httpStatus", "code"].iter().find_map(|key| {
            let status = match value.get(key)? {
                Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
                Value::String(text) => text.parse().ok(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
            };
            status.filter(|status| (400..600).contains(status))
        })
    };
    of(error).or_else(|| ["data", "error"].iter().find_map(|key| status_beside(error.get(key)?)))
}

fn of_words(message: &str) -> FailureKind {
    const AUTH: [&str; 16] = [
        "unauthorized",
        "unauthenticated",
        "403 forbidden",
        "invalid authentication",
        "api key not valid",
        "api key expired",
        "authentication required",
        "failed to authenticate",
        "authentication_error",
        "authentication_failed",
        "not logged in",
        "please run /login",
        "invalid api key",
        "incorrect api key",
        "refresh token",
        "oauth token has expired",
    ];
    const QUOTA: [&str; 13] = [
        "rate limit",
        "rate-limit",
        "ratelimit",
        "resource_exhausted",
        "quota exceeded",
        "quota_exceeded",
        "rate_limit",
        "too many requests",
        "usage limit",
        "insufficient_quota",
        "exceeded your current quota",
        "credit balance is too low",
        "hit your limit",
    ];
    const SERVER: [&str; 8] = [
        "internal_server_error",
        "experiencing high demand",
        "overloaded",
        "internal server error",
        "service unavailable",
        "bad gateway",
        "gateway timeout",
        "at capacity",
    ];
    const NETWORK: [&str; 16] = [
        "econnreset",
        "unable to connect",
        "error sending request",
        "dns error",
        "failed to lookup address",
        "could not resolve",
        "name resolution",
        "connection refused",
        "connection error",
        "network is unreachable",
        "no route to host",
        "econnrefused",
        "enotfound",
        "eai_again",
        "etimedout",
        "fetch failed",
    ];
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&AUTH) {
        FailureKind::Auth
    } else if has(&QUOTA) {
        FailureKind::Quota
    } else if has(&SERVER) {
        FailureKind::Server
    } else if has(&NETWORK) {
        FailureKind::Network
    } else {
        FailureKind::Other
    }
}

/// Seconds of „try again in 1m30s", „retry after 30 seconds", „try again in 2 hours".
fn retry_after(message: &str) -> Option<u32> {
    let lower = message.to_lowercase();
    let rest = [
        "try again in ",
        "retry after ",
        "retry in ",
        "resets in ",
        "reset after ",
        "\"retrydelay\":\"",
        "retry-after: ",
    ]
    .iter()
    .find_map(|words| lower.split_once(words).map(|(_, rest)| rest))?;
    let mut seconds = 0_u64;
    let mut rest = rest.trim_start();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..digits].parse::<u64>() else { break };
        // Fractions are dropped; the pause is a hint, and one second is added below.
        let after = rest[digits..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()).trim_start();
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = match &after[..letters] {
            "ms" => 0,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            _ => break,
        };
        seconds = seconds.saturating_add(number.saturating_mul(factor));
        rest = after[letters..].trim_start_matches([',', ' ']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    match seconds {
        0 => None,
        s => Some(u32::try_from(s).unwrap_or(MAX_RETRY_AFTER_S).min(MAX_RETRY_AFTER_S)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(message: &str) -> FailureKind {
        Failure::of(message, None).kind
    }

    #[test]
    fn errors_of_login_quota_server_and_network_are_told_apart() {
        assert_eq!(
            kind("unexpected status 401 Unauthorized: bad, url: http://127.0.0.1:9/v1"),
            FailureKind::Auth
        );
        assert_eq!(kind("Failed to authenticate. API Error: 401 nope"), FailureKind::Auth);
        assert_eq!(kind("[API Error: 401 nope]"), FailureKind::Auth);
        assert_eq!(kind("exceeded retry limit, last status: 429 Too Many Requests"), FailureKind::Quota);
        assert_eq!(kind("You've hit your usage limit. Try again in 3 hours."), FailureKind::Quota);
        assert_eq!(
            kind("We’re currently experiencing high demand, which may cause temporary errors."),
            FailureKind::Server
        );
        assert_eq!(kind("API Error: 529 overloaded"), FailureKind::Server);
        assert_eq!(kind("error sending request for url (https://…)"), FailureKind::Network);
        assert_eq!(kind("getaddrinfo ENOTFOUND api.example"), FailureKind::Network);
    }

    #[test]
    fn a_cut_stream_a_wrong_model_and_bare_numbers_are_ordinary_failures() {
        assert_eq!(
            kind("stream disconnected before completion: stream closed before response.completed"),
            FailureKind::Other
        );
        assert_eq!(
            kind("API Error: API returned an empty or malformed response (HTTP 200) — check for a proxy"),
            FailureKind::Other
        );
        assert_eq!(kind("API Error: 404 model not found"), FailureKind::Other);
        assert_eq!(kind("line 500 of 503 is wrong"), FailureKind::Other);
    }

    #[test]
    fn a_status_beside_the_message_counts_before_its_words() {
        assert_eq!(Failure::of("something", Some(500)).kind, FailureKind::Server);
        assert_eq!(Failure::of("rate limit", Some(401)).kind, FailureKind::Auth);
        assert_eq!(Failure::of("something", Some(404)).kind, FailureKind::Other);
    }

    #[test]
    fn the_time_to_wait_is_read_from_the_message() {
        let wait = |message: &str| Failure::of(message, Some(429)).retry_after;
        assert_eq!(wait("Please try again in 20s"), Some(20));
        assert_eq!(wait("try again in 1m30s."), Some(90));
        assert_eq!(wait("Try again in 2 hours and 5 minutes"), Some(7500));
        assert_eq!(wait("retry after 30 seconds"), Some(30));
        assert_eq!(wait("try again in 1.898s"), Some(1));
        assert_eq!(wait("try again in 9999 days"), Some(MAX_RETRY_AFTER_S));
        assert_eq!(wait("try again later"), None);
        assert_eq!(wait("try again in a while"), None);
    }

    #[test]
    fn an_error_object_tells_its_words_and_its_status() {
        let error = serde_json::json!({
            "code": -32603, "message": "Internal error",
            "data": {"message": "unexpected status 401 Unauthorized", "details": ["x"]}
        });
        assert_eq!(told_in(&error), "Internal error: unexpected status 401 Unauthorized: x");
        assert_eq!(status_beside(&error), None);
        assert_eq!(status_beside(&serde_json::json!({"data": {"statusCode": "429"}})), Some(429));
        assert_eq!(status_beside(&serde_json::json!({"code": 401})), Some(401));
        assert_eq!(kind(&told_in(&error)), FailureKind::Auth);
        let mut deep = Value::from("x");
        for _ in 0..100 {
            deep = serde_json::json!({"error": deep});
        }
        assert_eq!(told_in(&deep), "");
    }

    #[test]
    fn only_what_is_not_the_cards_fault_is_unavailable() {
        assert!(FailureKind::Auth.is_unavailable() && FailureKind::Network.is_unavailable());
        assert!(!FailureKind::Other.is_unavailable() && !FailureKind::OwnLimit.is_unavailable());
    }
}
