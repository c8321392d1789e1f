//! `logs/audit.jsonl`: one line for every mutation and for every attempt to be somebody else (web.md, 5.4).
//!
//! Its fault never stops a request: the transition itself is recorded in the state and in the commits.
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::http::Method;
use board_core::edge::clock::now;
use serde_json::json;
use uuid::Uuid;

use crate::auth::{Identity, Peer};

/// Size at which the log is put aside as `audit.jsonl.1`, in bytes; one older one is kept.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Longest text of an operator in a line, in characters.
const MAX_TEXT: usize = 200;

/// The log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

/// One mutation.
#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    /// What was asked for: the id of an event or of a setting.
    pub(crate) action: &'a str,
    /// The card, where there is one.
    pub(crate) card: Option<String>,
    /// Where it stood.
    pub(crate) from: Option<&'a str>,
    /// Where it stands.
    pub(crate) to: Option<&'a str>,
    /// `ok`, `repeated` or a problem's code.
    pub(crate) result: &'a str,
    /// A reason or note.
    pub(crate) text: Option<&'a str>,
}

impl AuditLog {
    /// The log below a state directory; opened by its first line.
    pub(crate) fn new(state_dir: &Path) -> AuditLog {
        AuditLog { path: state_dir.join("logs").join("audit.jsonl"), file: Mutex::new(None) }
    }

    /// A mutation that was carried out or refused.
    pub(crate) fn record(&self, who: &Identity, request: Uuid, entry: &Entry<'_>) {
        self.line(&json!({
            "time": now().to_string(),
            "user": cut(&who.name),
            "role": who.role.id(),
            "source": who.source.id(),
            "request": request.to_string(),
            "action": entry.action,
            "card": entry.card,
            "from": entry.from,
            "to": entry.to,
            "result": entry.result,
            "text": entry.text.map(cut),
        }));
    }

    /// A request that the checks refused.
    pub(crate) fn denied(
        &self,
        peer: &Peer,
        who: Option<&Identity>,
        request: Uuid,
        method: &Method,
        path: &str,
        code: &str,
    ) {
        let peer = match peer {
            Peer::Tcp(address) => address.ip().to_string(),
            Peer::Unix { uid } | Peer::Control { uid } => format!("uid {uid}"),
        };
        self.line(&json!({
            "time": now().to_string(),
            "user": who.map(|who| cut(&who.name)),
            "peer": peer,
            "request": request.to_string(),
            "action": "denied",
            "method": method.as_str(),
            "path": cut(path),
            "result": code,
        }));
    }

    fn line(&self, value: &serde_json::Value) {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.write(&mut held, value.to_string()) {
            *held = None;
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }

    fn write(&self, held: &mut Option<File>, mut line: String) -> std::io::Result<()> {
        if held.as_ref().map(File::metadata).transpose()?.is_some_and(|about| about.len() >= MAX_BYTES) {
            *held = None;
            std::fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        }
        let file = match held {
            Some(file) => file,
            None => {
                if let Some(dir) = self.path.parent() {
                    std::fs::DirBuilder::new().recursive(true).create(dir)?;
                }
                let options = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .custom_flags(nix::libc::O_NOFOLLOW)
                    .open(&self.path)?;
                held.insert(options)
            }
        };
        line.push('\n');
        // One write, so that lines of two processes do not mix.
        file.write_all(line.as_bytes())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthSource, Role};

    #[test]
    fn t29_a_line_stays_one_line_whatever_stands_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::new(dir.path());
        let who =
            Identity { name: "lu\nkas\u{1b}[2J".into(), role: Role::Operator, source: AuthSource::Proxy };
        let entry =
            Entry { action: "started", text: Some("a\r\n\u{202e}b"), result: "ok", ..Entry::default() };
        log.record(&who, Uuid::nil(), &entry);
        let long = "x".repeat(MAX_TEXT + 1);
        log.record(&who, Uuid::nil(), &Entry { text: Some(&long), ..entry });
        let text = std::fs::read_to_string(dir.path().join("logs/audit.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["text"], "a\r\n\u{202e}b");
        assert_eq!(lines[1]["text"].as_str().unwrap().len(), MAX_TEXT);
        assert!(!text.contains('\u{1b}'));
    }
}
