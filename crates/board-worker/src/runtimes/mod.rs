//! Runtimes: the command-line agents, each as three pure translations.
//!
//! A role's run becomes a command, a line of output becomes events, and an end becomes a result. Nothing
//! here starts a process or reads a clock; the one supervisor ([`crate::supervise`]) does, so every
//! recorded run is a unit test. Events that nobody knows stay in the log and are otherwise ignored.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod command;
pub mod conclude;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod gemini;
#[cfg(test)]
mod hostile;
mod lax;
pub mod opencode;
pub mod retry;

use std::path::PathBuf;

use board_core::model::outcome::Usage;
use board_core::model::profile::RoleName;

pub use conclude::{Conclusion, ExitInfo, conclude};
pub use failure::{Failure, FailureKind};

/// Longest final message that is kept, in bytes. A marker block may have 256 KiB and stands at the end
/// of the message, so of a longer message the tail is kept, from the start of a line, and
/// [`Reading::cut`] is set: a reader's reply is then refused, because a fence opened before the cut
/// would be unknown.
pub const MAX_FINAL_BYTES: usize = 1 << 20;

/// Longest sentence about the last activity, in characters.
pub const MAX_ACTIVITY_CHARS: usize = 160;

/// What a run asks of its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The program and the arguments that are configured before ours.
    pub program: Vec<String>,
    /// Further configured arguments.
    pub args: Vec<String>,
    /// Configured environment.
    pub env: Vec<(String, String)>,
    /// The role: what the agent may do.
    pub role: RoleName,
    /// The profile's model.
    pub model: Option<String>,
    /// The profile's effort.
    pub effort: Option<String>,
    /// The directory that it works in, as the agent sees it.
    pub directory: PathBuf,
    /// Its home, as the agent sees it.
    pub home: PathBuf,
    /// Whether our own sandbox stands around it.
    pub sandboxed: bool,
}

/// A command to be run in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandSpec {
    /// Program and arguments; the first is looked up in `PATH` unless it is absolute.
    pub argv: Vec<String>,
    /// Environment beyond the sandbox's own.
    pub env: Vec<(String, String)>,
    /// Directories below the home that must be there before it starts.
    pub home_directories: Vec<&'static str>,
    /// Files below the home that are written before it starts, over what is there.
    pub home_files: Vec<(&'static str, String)>,
}

/// What a line of output means.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// One countable iteration.
    Iteration,
    /// A sentence about what the agent does.
    Activity(String),
    /// Tokens that were used since the last such event, in and out together.
    Tokens(u64),
    /// Something to be written to its stdin, one line with its end.
    Send(Vec<u8>),
    /// The conversation is over; the process may go.
    Over,
}

/// What was read of a run when it has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// The final message, if there was one that is not blank.
    pub final_message: Option<String>,
    /// Whether its beginning is missing.
    pub cut: bool,
    /// A terminal error event, an error status, or a limit of the runtime's own.
    pub failure: Option<Failure>,
    /// The last error that was not terminal, for the sentence.
    pub last_error: Option<String>,
    /// Usage as the runtime told it; iterations are the harness's.
    pub usage: Usage,
    /// The model that the runtime said it uses.
    pub model: Option<String>,
    /// When the runtime said that its quota begins anew, seconds since 1970.
    pub resets_at: Option<u64>,
    /// The conversation came to its end before the process did, so its exit code says nothing more.
    pub over: bool,
}

/// What an agent is given when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// For its stdin.
    pub bytes: Vec<u8>,
    /// Whether more may follow ([`Event::Send`]); otherwise stdin is closed after these.
    pub stays_open: bool,
}

/// One runtime. Several implementations, one supervisor.
pub trait Adapter {
    /// The command of a run.
    fn command(&self, run: &RunSpec) -> CommandSpec;

    /// What is written to stdin first. Most runtimes read the prompt and nothing more.
    fn open(&mut self, prompt: &[u8]) -> Opening {
        Opening { bytes: prompt.to_vec(), stays_open: false }
    }

    /// One line of stdout. Lines that are no event are ignored.
    fn event(&mut self, line: &[u8]) -> Vec<Event>;

    /// The beginning of a line that was too long. What it was still counts.
    fn cut_event(&mut self, start: &[u8]) -> Vec<Event> {
        match lax::mend(start) {
            Some(whole) => self.event(&whole),
            None => self.event(start),
        }
    }

    /// What is written to stdin when the run is to be ended, before a signal is sent. Nothing for most.
    fn cancel(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// What was read, once the process is gone.
    fn reading(&self, exit: ExitInfo) -> Reading;

    /// Whether bytes on stderr are a sign of life. Only where there are no events to wait for.
    fn stderr_is_life(&self) -> bool {
        false
    }
}

/// Keeps the tail of a text that grows, from the start of a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    text: String,
    cut: bool,
}

impl Tail {
    /// A tail that holds this text.
    pub(crate) fn of(text: &str) -> Tail {
        let mut tail = Tail::default();
        tail.push(text);
        tail
    }

    /// Appends, and drops from the front what is too much.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // Twice the limit before anything moves, so that many short lines cost no quadratic time.
        if self.text.len() > 2 * MAX_FINAL_BYTES {
            self.trim();
        }
    }

    fn trim(&mut self) {
        if self.text.len() <= MAX_FINAL_BYTES {
            return;
        }
        self.cut = true;
        let mut from = self.text.len() - MAX_FINAL_BYTES;
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        if let Some(line_end) = self.text[from..].find('\n') {
            from += line_end + 1;
        }
        self.text.drain(..from);
    }

    /// The text if it is not blank, and whether its beginning is missing.
    pub(crate) fn finish(&self) -> (Option<String>, bool) {
        let mut whole = self.clone();
        whole.trim();
        let blank = whole.text.trim().is_empty();
        ((!blank).then_some(whole.text), whole.cut)
    }
}

/// An activity as one short line.
pub(crate) fn activity(text: &str) -> Vec<Event> {
    match crate::words::first_line(text, MAX_ACTIVITY_CHARS) {
        line if line.is_empty() => Vec::new(),
        line => vec![Event::Activity(line)],
    }
}

/// Adds numbers that may not be there.
pub(crate) fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_message_of_the_limit_is_whole_and_a_longer_one_keeps_its_tail_from_a_line() {
        let line = "x".repeat(1023) + "\n";
        let (text, cut) = Tail::of(&line.repeat(1024)).finish();
        assert_eq!((text.unwrap().len(), cut), (MAX_FINAL_BYTES, false));
        let (text, cut) = Tail::of(&format!("{}y", line.repeat(1024))).finish();
        let text = text.unwrap();
        assert!(cut && text.ends_with("\ny") && text.len() < MAX_FINAL_BYTES && text.starts_with('x'));
    }

    #[test]
    fn a_tail_stays_small_while_it_grows() {
        let mut tail = Tail::default();
        for _ in 0..100_000 {
            tail.push("äöü äöü äöü äöü äöü äöü äöü\n");
        }
        assert!(tail.text.len() <= 2 * MAX_FINAL_BYTES);
        assert!(tail.finish().1);
    }

    #[test]
    fn a_blank_message_is_none() {
        assert_eq!(Tail::of(" \n").finish(), (None, false));
    }
}
