//! A plain HTTP/1.1 client on loopback, one connection a request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Head, as it came.
    pub head: String,
    /// Body.
    pub body: String,
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// The board's address and token.
#[derive(Debug, Clone)]
pub struct Client {
    /// `127.0.0.1:<port>`
    pub address: String,
    /// The token of mode `open`.
    pub token: String,
}

impl Client {
    /// A request with a JSON body, or without one.
    ///
    /// # Errors
    /// If the board cannot be reached or does not speak HTTP.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{kind}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        self.raw(request.as_bytes())
    }

    /// Bytes as they are; what comes back until the connection closes.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn raw(&self, request: &[u8]) -> anyhow::Result<Answer> {
        let stream = TcpStream::connect(&self.address).with_context(|| self.address.clone())?;
        Answer::to(stream, request)
    }
}

impl Answer {
    /// What comes for a request on this connection until it closes.
    ///
    /// # Errors
    /// If the connection breaks, or what comes is no HTTP.
    pub fn to(mut stream: TcpStream, request: &[u8]) -> anyhow::Result<Answer> {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(request)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunk(body)
        } else {
            body.to_owned()
        };
        Ok(Answer { status, head: head.to_owned(), body })
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
