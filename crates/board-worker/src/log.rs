//! `logs/<job>.<attempt>.jsonl`: what a run printed, line by line, readable while it runs.
//!
//! One object per line, `{"t": RFC 3339, "s": "out" | "err" | "in" | "note", "l": "…"}`. Redacted before
//! anything reaches the file; bytes that are no UTF-8 are replaced; control characters are escaped by
//! JSON, so the file is harmless on a terminal. Writing goes through one buffer that is flushed at least
//! once a second, so that the board's live view can follow it and 150,000 lines cost no 150,000 writes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use board_core::model::redact::Redactor;
use board_core::model::time::Timestamp;
use serde::Serialize;

use crate::limits::MAX_OUTPUT_BYTES;

/// Largest log, in bytes. Escaping makes a line longer than it was, so this is a limit of its own.
pub const MAX_LOG_BYTES: u64 = MAX_OUTPUT_BYTES;

/// How long a line may wait in the buffer.
pub const FLUSH_EVERY: Duration = Duration::from_secs(1);

const BUFFER_BYTES: usize = 64 << 10;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The agent's stdout.
    Out,
    /// The agent's stderr.
    Err,
    /// What the agent was given.
    In,
    /// A remark of the worker.
    Note,
}

#[derive(Serialize)]
struct Line<'l> {
    t: Timestamp,
    s: Stream,
    l: &'l str,
}

/// The log of one run.
#[derive(Debug)]
pub struct RunLog {
    path: PathBuf,
    file: BufWriter<File>,
    redactor: Redactor,
    written: u64,
    most: u64,
    full: bool,
    dirty_since: Option<Instant>,
    failed: Option<io::Error>,
}

impl RunLog {
    /// Opens the log, readable by the service user alone. One that is there is appended to.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(path: &Path, redactor: Redactor, most: u64) -> io::Result<RunLog> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        Ok(RunLog {
            path: path.to_owned(),
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            redactor,
            written,
            most,
            full: false,
            dirty_since: None,
            failed: None,
        })
    }

    /// The redactor of this run, for whatever else of it is kept.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Writes one line. A full disk never ends a run: the first error is kept, writing stops, and
    /// [`RunLog::finish`] tells.
    pub fn line(&mut self, at: Timestamp, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let clean = self.redactor.clean(&text);
        let Ok(mut line) = serde_json::to_vec(&Line { t: at, s: stream, l: &clean }) else { return };
        line.push(b'\n');
        if self.full || self.failed.is_some() {
            return;
        }
        if self.written.saturating_add(line.len() as u64) > self.most {
            self.full = true;
            let note = Line { t: at, s: Stream::Note, l: "log full, the rest is not kept" };
            line = serde_json::to_vec(&note).unwrap_or_default();
            line.push(b'\n');
        }
        self.written = self.written.saturating_add(line.len() as u64);
        if let Err(error) = self.file.write_all(&line) {
            self.failed = Some(error);
        }
        self.dirty_since.get_or_insert_with(Instant::now);
    }

    /// A remark of the worker.
    pub fn note(&mut self, at: Timestamp, text: &str) {
        self.line(at, Stream::Note, text.as_bytes());
    }

    /// When the buffer has to be flushed; none if there is nothing in it.
    pub fn flush_at(&self) -> Option<Instant> {
        self.dirty_since.map(|since| since + FLUSH_EVERY)
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) {
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
        self.dirty_since = None;
    }

    /// Flushes what is left and tells what went wrong.
    ///
    /// # Errors
    /// The first error of any write, with the path.
    pub fn finish(mut self) -> Result<(), (PathBuf, io::Error)> {
        self.flush();
        match self.failed {
            Some(error) => Err((self.path, error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(redactor: Redactor, most: u64, lines: &[(Stream, &[u8])]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let mut log = RunLog::open(&path, redactor, most).unwrap();
        for (stream, bytes) in lines {
            log.line(Timestamp::MIN, *stream, bytes);
        }
        assert_eq!(log.flush_at().is_some(), !lines.is_empty());
        log.finish().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn a_line_is_an_object_with_time_stream_and_text() {
        let text =
            written(Redactor::default(), MAX_LOG_BYTES, &[(Stream::Out, b"a \"b\""), (Stream::Err, b"")]);
        assert_eq!(
            text,
            "{\"t\":\"1970-01-01T00:00:00Z\",\"s\":\"out\",\"l\":\"a \\\"b\\\"\"}\n\
             {\"t\":\"1970-01-01T00:00:00Z\",\"s\":\"err\",\"l\":\"\"}\n"
        );
    }

    #[test]
    fn bytes_that_are_no_utf8_and_control_characters_are_harmless() {
        let text = written(Redactor::default(), MAX_LOG_BYTES, &[(Stream::Out, b"\xff\x1b[31m\x00")]);
        assert!(text.contains("\u{fffd}\\u001b[31m\\u0000"), "{text}");
    }

    #[test]
    fn secrets_never_reach_the_file() {
        let text = written(Redactor::new(["s3cret-key"]), MAX_LOG_BYTES, &[(Stream::In, b"key s3cret-key!")]);
        assert!(text.contains("key [entfernt]!"), "{text}");
    }

    #[test]
    fn a_full_log_says_so_once_and_keeps_nothing_more() {
        let one = "{\"t\":\"1970-01-01T00:00:00Z\",\"s\":\"out\",\"l\":\"12345\"}\n".len() as u64;
        let lines: [(Stream, &[u8]); 3] = [(Stream::Out, b"12345"); 3];
        let fits = written(Redactor::default(), 3 * one, &lines);
        assert_eq!(fits.lines().count(), 3);
        assert!(!fits.contains("log full"));
        let cut = written(Redactor::default(), 3 * one - 1, &lines);
        assert_eq!(cut.matches("12345").count(), 2);
        assert_eq!(cut.matches("log full").count(), 1);
        let early = written(Redactor::default(), one, &lines);
        assert_eq!(early.lines().count(), 2);
    }

    #[test]
    fn the_log_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        RunLog::open(&path, Redactor::default(), 10).unwrap().finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
