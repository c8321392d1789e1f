//! A small client of the control socket: HTTP/1.1 over a unix socket, one request per connection.
//!
//! By hand and synchronous: it speaks to one known server on the same host, and a client library would bring
//! a runtime that nothing else here needs.
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use board_core::edge::settings::Language;
use serde_json::Value;
use uuid::Uuid;

use crate::output::Ended;
use crate::words;

/// Name of the socket in a state directory.
const SOCKET: &str = "control.sock";
/// Where the packaged socket unit puts it.
const PACKAGED: &str = "/run/board-agent/control.sock";
/// How long an answer may take: more than the board's own limit of a request.
const PATIENCE: Duration = Duration::from_secs(15);
/// Largest answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// The control socket of a board.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    path: PathBuf,
    language: Language,
}

/// An answer of the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status of HTTP.
    pub(crate) status: u16,
    /// The body, or null if there is none.
    pub(crate) body: Value,
}

impl Control {
    /// The socket that was named; else the one in the state directory if it is there; else the packaged one.
    pub(crate) fn locate(named: Option<&Path>, state_dir: Option<&Path>, language: Language) -> Control {
        let of_dev = state_dir.map(|dir| dir.join(SOCKET)).filter(|path| path.exists());
        let path = named.map(Path::to_owned).or(of_dev).unwrap_or_else(|| PACKAGED.into());
        Control { path, language }
    }

    /// Asks for a value.
    ///
    /// # Errors
    /// [`Ended::Unreachable`] or [`Ended::Refused`] with the board's sentence.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.granted(self.ask("GET", path, None)?)
    }

    /// Asks for something to be done, under a key of its own.
    ///
    /// # Errors
    /// As [`Control::get`].
    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.granted(self.ask("POST", path, Some(body))?)
    }

    /// Asks for something to be changed.
    ///
    /// # Errors
    /// As [`Control::get`].
    pub(crate) fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.granted(self.ask("PATCH", path, Some(body))?)
    }

    /// Asks for something to be removed.
    ///
    /// # Errors
    /// As [`Control::get`].
    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.granted(self.ask("DELETE", path, None)?)
    }

    /// The answer to a request, whatever its status.
    ///
    /// # Errors
    /// [`Ended::Unreachable`] if nobody answers; an answer that is no HTTP.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let mut stream = UnixStream::connect(&self.path).map_err(|error| self.unreachable(&error))?;
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)))?;
        let language = self.language.id();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
             Accept-Language: {language}\r\nConnection: close\r\n"
        );
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            let (length, key) = (body.len(), Uuid::new_v4());
            request.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\nIdempotency-Key: {key}\r\n"
            ));
        }
        request.push_str("\r\n");
        request.push_str(body.as_deref().unwrap_or_default());
        stream.write_all(request.as_bytes()).map_err(|error| self.unreachable(&error))?;
        let mut bytes = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes).map_err(|error| self.unreachable(&error))?;
        parse(&bytes).with_context(|| format!("{}: {method} {path}", self.path.display()))
    }

    fn unreachable(&self, error: &io::Error) -> anyhow::Error {
        let path = self.path.display().to_string();
        let kind = error.kind();
        let sentence = if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            words::not_running(self.language, &path)
        } else if kind == io::ErrorKind::PermissionDenied {
            words::no_way_in(self.language, &path)
        } else {
            words::no_answer(self.language, &path, &error.to_string())
        };
        Ended::Unreachable(sentence).into()
    }

    fn granted(&self, answer: Answer) -> anyhow::Result<Value> {
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        Err(Ended::Refused(refusal(self.language, &answer)).into())
    }
}

/// A refusal of the board (RFC 9457) as one sentence, with what would be possible.
fn refusal(language: Language, answer: &Answer) -> String {
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str);
    let mut sentence = match (text("title"), text("detail")) {
        (Some(title), Some(detail)) => format!("{title}: {detail}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => words::refused(language, &answer.status.to_string()),
    };
    let allowed = answer.body.get("allowed").and_then(Value::as_array).into_iter().flatten();
    let allowed: Vec<String> =
        allowed.filter_map(Value::as_str).map(|id| crate::commands::target(language, id)).collect();
    if !allowed.is_empty() {
        sentence.push_str(&words::possible(language, &allowed.join(", ")));
    }
    sentence
}

fn parse(bytes: &[u8]) -> anyhow::Result<Answer> {
    let end = find(bytes, b"\r\n\r\n").context("the answer has no head")?;
    let head = std::str::from_utf8(&bytes[..end]).context("the answer's head")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let status = status.context("the answer is no HTTP")?;
    let chunked = lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked")
    });
    let body = &bytes[end + 4..];
    let body = if chunked { joined(body)? } else { body.to_vec() };
    let body = match body.as_slice() {
        [] => Value::Null,
        // What is no JSON (an old proxy, another program) is shown by its status alone.
        text => serde_json::from_slice(text).unwrap_or(Value::Null),
    };
    Ok(Answer { status, body })
}

/// The body of a chunked answer.
fn joined(mut rest: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = find(rest, b"\r\n").context("the answer was cut off")?;
        let size = std::str::from_utf8(&rest[..line])?.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("the length of a chunk")?;
        let from = line + 2;
        if size == 0 {
            return Ok(body);
        }
        let to = from.checked_add(size).context("the length of a chunk")?;
        body.extend_from_slice(rest.get(from..to).context("the answer was cut off")?);
        rest = rest.get(to + 2..).context("the answer was cut off")?;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_in_chunks() {
        let whole = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}").unwrap();
        assert_eq!((whole.status, whole.body["a"].as_i64()), (200, Some(1)));
        let chunked = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).unwrap(), Answer { status: 409, ..whole });
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().body, Value::Null);
        for broken in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab",
        ] {
            assert!(parse(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn nobody_there_is_said_with_what_to_do_next() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("control.sock");
        let control = Control::locate(Some(&missing), None, Language::En);
        let error = control.get("/api/board").unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(Ended::Unreachable(said)) if said.contains("boardctl dev"))
        );
    }

    #[test]
    fn the_socket_in_the_state_directory_comes_before_the_packaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let located = |named| Control::locate(named, Some(dir.path()), Language::De).path;
        assert_eq!(located(None), Path::new(PACKAGED));
        let _listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        assert_eq!(located(None), dir.path().join(SOCKET));
        assert_eq!(located(Some(Path::new("/x"))), Path::new("/x"));
    }

    #[test]
    fn a_request_reaches_the_server_and_a_refusal_is_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            while find(&seen, b"{\"to\":1}").is_none() {
                let mut buffer = [0; 512];
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            let body = r#"{"title":"Passt nicht","detail":"läuft schon","allowed":["cancel_asked"]}"#;
            stream.write_all(format!("HTTP/1.1 409 Conflict\r\n\r\n{body}").as_bytes()).unwrap();
            String::from_utf8(seen).unwrap()
        });
        let control = Control::locate(Some(&path), None, Language::De);
        let error = control.post("/api/board/cards/x/move", &serde_json::json!({"to": 1})).unwrap_err();
        assert_eq!(error.to_string(), "Passt nicht: läuft schon; möglich: Abbrechen");
        let seen = server.join().unwrap();
        assert!(seen.starts_with("POST /api/board/cards/x/move HTTP/1.1\r\n"), "{seen}");
        assert!(
            seen.contains("\r\nContent-Length: 8\r\n") && seen.contains("\r\nIdempotency-Key: "),
            "{seen}"
        );
    }
}
