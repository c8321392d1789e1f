//! What an agent is told on its stdin: the prompt, and in a conversation what follows.
//!
//! Apart from the supervisor because it is the one stream that goes the other way: written when the agent
//! reads, never waited for, and with a limit on what it leaves unread.

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;

use crate::limits::MAX_UNREAD_BYTES;
use crate::runtimes::Opening;

/// Whether a line was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is written, or will be when the agent reads.
    Yes,
    /// The agent reads no more: its end is closed.
    Closed,
    /// The agent does not read; said once, and the line is dropped.
    TooMuch,
    /// The same again.
    StillTooMuch,
}

/// The stdin of an agent.
#[derive(Debug)]
pub(crate) struct Told {
    stdin: Option<ChildStdin>,
    bytes: Vec<u8>,
    written: usize,
    stays_open: bool,
    too_much: bool,
}

impl Told {
    /// Will write the opening when the agent reads.
    pub(crate) fn new(stdin: Option<ChildStdin>, opening: Opening) -> Told {
        Told { stdin, bytes: opening.bytes, written: 0, stays_open: opening.stays_open, too_much: false }
    }

    /// Whether the agent may still be told something.
    pub(crate) fn is_open(&self) -> bool {
        self.stdin.is_some()
    }

    /// The descriptor, while there is something to write: without, it would always be ready.
    pub(crate) fn wants(&self) -> Option<BorrowedFd<'_>> {
        let idle = self.rest().is_empty() && self.stays_open;
        self.stdin.as_ref().filter(|_| !idle).map(AsFd::as_fd)
    }

    /// Writes what the pipe takes, and closes it when everything is written and nothing will follow.
    pub(crate) fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        if self.written < self.bytes.len() {
            match stdin.write(&self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return;
                }
                // The agent does not want more of it: some read no prompt at all.
                Err(_) => return self.stdin = None,
            }
        }
        if self.rest().is_empty() {
            self.bytes.clear();
            self.written = 0;
            if !self.stays_open {
                self.stdin = None;
            }
        }
    }

    /// One more line, with its end.
    pub(crate) fn push(&mut self, line: &[u8]) -> Taken {
        if self.stdin.is_none() {
            return Taken::Closed;
        }
        let unread = self.rest().len();
        // A prompt alone may be longer than the limit.
        if unread > 0 && unread + line.len() > MAX_UNREAD_BYTES {
            let again = std::mem::replace(&mut self.too_much, true);
            return if again { Taken::StillTooMuch } else { Taken::TooMuch };
        }
        self.bytes.drain(..self.written);
        self.written = 0;
        self.bytes.extend_from_slice(line);
        self.feed();
        Taken::Yes
    }

    /// Nothing will follow.
    pub(crate) fn end(&mut self) {
        self.stays_open = false;
        self.feed();
    }

    /// Nothing more is written, whatever is left.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that never reads, and its stdin.
    fn deaf() -> (Child, Option<ChildStdin>) {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        (child, stdin)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn without_more_to_come_it_is_closed_when_all_is_written() {
        let (child, stdin) = deaf();
        let mut told = Told::new(stdin, Opening { bytes: b"do it".to_vec(), stays_open: false });
        assert!(told.wants().is_some());
        told.feed();
        assert!(!told.is_open() && told.wants().is_none());
        assert_eq!(told.push(b"more\n"), Taken::Closed);
        end(child);
    }

    #[test]
    fn what_is_left_unread_may_reach_the_limit_and_not_pass_it() {
        let (child, stdin) = deaf();
        let most = vec![b'x'; MAX_UNREAD_BYTES];
        let mut told = Told::new(stdin, Opening { bytes: most[..10].to_vec(), stays_open: true });
        assert_eq!(told.push(&most[9..]), Taken::TooMuch);
        assert_eq!(told.push(&most[9..]), Taken::StillTooMuch);
        assert_eq!(told.rest().len(), 10);
        let flags = nix::fcntl::OFlag::O_NONBLOCK;
        nix::fcntl::fcntl(told.wants().unwrap(), nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
        assert_eq!(told.push(&most[10..]), Taken::Yes);
        assert!(!told.rest().is_empty(), "no pipe takes as much");
        end(child);
    }
}
