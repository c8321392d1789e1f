//! The stand-in for a model: a server on loopback that speaks the Responses protocol and does what a test says.
//!
//! One thread a connection, one request a connection, nothing remembered but the requests themselves.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::request::Request;

/// What the stand-in answers.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A final message.
    Say(String),
    /// A command for the agent's shell.
    Shell(String),
    /// A new file by the agent's own way of writing.
    Write {
        /// Its path, as the agent is to write it.
        path: String,
        /// Its text.
        text: String,
    },
    /// A tool by name, with its arguments.
    Tool(String, Value),
    /// An HTTP error with a message.
    Error(u16, String),
    /// The answer to an account whose quota is used up until this time, seconds since 1970.
    UsedUp(u64),
    /// An answer that begins well and then says that it failed, with a code and a message.
    Failed(String, String),
    /// Half a message, then the connection is closed.
    Cut,
    /// Half a message, then nothing more.
    Hang,
    /// The request is taken and never answered.
    Mute,
}

/// Longest request that is read, in bytes.
const MAX_BODY: usize = 16 << 20;

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

struct Inner {
    script: Box<Script>,
    requests: Mutex<Vec<Request>>,
    /// Set at the end; connections that hang wait for it.
    over: Mutex<bool>,
    ends: Condvar,
}

/// A running stand-in; it ends when it is dropped.
pub struct StandIn {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl StandIn {
    /// Listens on a port of its own on loopback.
    ///
    /// # Errors
    /// If there is none.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> anyhow::Result<StandIn> {
        let listener = TcpListener::bind("127.0.0.1:0").context("loopback")?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            script: Box::new(script),
            requests: Mutex::default(),
            over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let shared = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if *lock(&shared.over) {
                    return;
                }
                let inner = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // The agent may go away at any time, and in most of these tests it does.
                    let _ = inner.serve(stream);
                });
            }
        });
        Ok(StandIn { address, inner })
    }

    /// The base URL that an agent is configured with.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request to the model so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.inner.requests).clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        *lock(&self.inner.over) = true;
        self.inner.ends.notify_all();
        // Wakes the listener, which looks whether it is over.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn serve(&self, stream: TcpStream) -> anyhow::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let (mut length, mut line) = (0_usize, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        anyhow::ensure!(length <= MAX_BODY, "a request of {length} bytes");
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut words = first.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if method == "POST" && path.split('?').next() == Some("/v1/responses") {
            let request = {
                let mut requests = lock(&self.requests);
                let body = serde_json::from_slice(&body).context("the body is no JSON")?;
                let request = Request { number: requests.len(), body };
                requests.push(request.clone());
                request
            };
            let reply = (self.script)(&request);
            return self.reply(stream, &request, &reply);
        }
        plain(stream, 404, &json!({"error": {"message": format!("no {method} {path} here")}}))
    }

    fn reply(&self, mut stream: TcpStream, request: &Request, reply: &Reply) -> anyhow::Result<()> {
        match reply {
            Reply::Error(status, message) => {
                let kind = match status {
                    401 => "invalid_request_error",
                    429 => "rate_limit_exceeded",
                    _ => "server_error",
                };
                let body = json!({"error": {"message": message, "type": kind, "code": kind}});
                plain(stream, *status, &body)
            }
            Reply::UsedUp(until) => {
                let error = json!({
                    "type": "usage_limit_reached", "message": "The usage limit has been reached",
                    "plan_type": "plus", "resets_at": until,
                });
                plain(stream, 429, &json!({ "error": error }))
            }
            Reply::Failed(code, message) => Events::begin(&mut stream, request)?.failed(code, message),
            Reply::Mute => {
                self.wait_until_over();
                Ok(())
            }
            Reply::Cut | Reply::Hang => {
                let mut events = Events::begin(&mut stream, request)?;
                events.half()?;
                if matches!(reply, Reply::Hang) {
                    self.wait_until_over();
                }
                Ok(())
            }
            Reply::Say(_) | Reply::Shell(_) | Reply::Write { .. } | Reply::Tool(..) => {
                let item = item(request, reply);
                Events::begin(&mut stream, request)?.whole(&item)
            }
        }
    }

    fn wait_until_over(&self) {
        let mut over = lock(&self.over);
        while !*over {
            over = self.ends.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn plain(mut stream: TcpStream, status: u16, body: &Value) -> anyhow::Result<()> {
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

/// A stream of server-sent events.
struct Events<'s> {
    stream: &'s mut TcpStream,
    response: Value,
    number: u64,
}

impl Events<'_> {
    fn begin<'s>(stream: &'s mut TcpStream, request: &Request) -> anyhow::Result<Events<'s>> {
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n",
        )?;
        let response = json!({
            "id": format!("resp_{}", request.number), "object": "response", "created_at": 0,
            "model": request.body["model"], "output": [], "status": "in_progress",
        });
        let mut events = Events { stream, response: response.clone(), number: 0 };
        events.send("response.created", json!({ "response": response }))?;
        Ok(events)
    }

    fn send(&mut self, kind: &str, mut event: Value) -> anyhow::Result<()> {
        event["type"] = kind.into();
        event["sequence_number"] = self.number.into();
        self.number += 1;
        write!(self.stream, "event: {kind}\ndata: {event}\n\n")?;
        Ok(self.stream.flush()?)
    }

    fn half(&mut self) -> anyhow::Result<()> {
        let item = json!({"type": "message", "id": "msg", "role": "assistant", "status": "in_progress", "content": []});
        self.send("response.output_item.added", json!({"output_index": 0, "item": item}))?;
        self.send(
            "response.output_text.delta",
            json!({"output_index": 0, "content_index": 0, "item_id": "msg", "delta": "Half of a mess"}),
        )
    }

    fn failed(&mut self, code: &str, message: &str) -> anyhow::Result<()> {
        let mut response = std::mem::take(&mut self.response);
        response["status"] = "failed".into();
        response["error"] = json!({"code": code, "message": message});
        self.send("response.failed", json!({ "response": response }))
    }

    fn whole(&mut self, item: &Value) -> anyhow::Result<()> {
        self.send("response.output_item.done", json!({"output_index": 0, "item": item}))?;
        let mut response = std::mem::take(&mut self.response);
        response["status"] = "completed".into();
        response["output"] = json!([item]);
        response["usage"] = json!({
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120,
        });
        self.send("response.completed", json!({ "response": response }))
    }
}

/// A reply as an item of the output, in the tools that this agent offers.
fn item(request: &Request, reply: &Reply) -> Value {
    let call = |name: &str, arguments: &Value| {
        json!({
            "type": "function_call", "id": format!("fc_{}", request.number), "status": "completed",
            "call_id": format!("call_{}", request.number), "name": name, "arguments": arguments.to_string(),
        })
    };
    match reply {
        Reply::Shell(command) => {
            let offered = request.tools();
            let known: [(&str, Value); 3] = [
                ("exec_command", json!({ "cmd": command })),
                ("shell_command", json!({ "command": command })),
                ("shell", json!({"command": ["bash", "-c", command]})),
            ];
            let taken = known.iter().find(|(name, _)| offered.iter().any(|(offered, _)| offered == name));
            let (name, arguments) = taken.unwrap_or(&known[0]);
            call(name, arguments)
        }
        Reply::Write { path, text } => {
            let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch");
            match request
                .tools()
                .iter()
                .find(|(name, _)| name == "apply_patch")
                .map(|(_, kind)| kind.as_str())
            {
                Some("custom") => json!({
                    "type": "custom_tool_call", "id": format!("ctc_{}", request.number), "status": "completed",
                    "call_id": format!("call_{}", request.number), "name": "apply_patch", "input": patch,
                }),
                Some(_) => call("apply_patch", &json!({ "input": patch })),
                // An agent that does not know the model offers its shell alone, which knows the same command.
                None => item(request, &Reply::Shell(format!("apply_patch <<'EOF'\n{patch}\nEOF"))),
            }
        }
        Reply::Tool(name, arguments) => call(name, arguments),
        Reply::Say(text) => message(text),
        Reply::Error(..) | Reply::UsedUp(_) | Reply::Failed(..) | Reply::Cut | Reply::Hang | Reply::Mute => {
            message("")
        }
    }
}

fn message(text: &str) -> Value {
    json!({
        "type": "message", "id": "msg", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(address: SocketAddr, body: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn it_answers_what_its_script_says_and_keeps_what_it_was_asked() {
        let standin = StandIn::start(|request| match request.number {
            0 => Reply::Say("Done.".into()),
            1 => Reply::Error(429, "slow down".into()),
            _ => Reply::Cut,
        })
        .unwrap();
        let whole = post(standin.address, r#"{"model":"m"}"#);
        assert!(
            whole.contains("text/event-stream")
                && whole.contains("Done.")
                && whole.contains("response.completed")
        );
        let refused = post(standin.address, "{}");
        assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("slow down"));
        let cut = post(standin.address, "{}");
        assert!(cut.contains("Half") && !cut.contains("response.completed"));
        assert_eq!((standin.requests().len(), standin.requests()[0].body["model"].as_str()), (3, Some("m")));
    }
}
