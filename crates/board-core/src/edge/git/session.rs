//! A git that is asked question by question, so that many need one program only.
use std::{
    io::{self, BufRead, Read, Write},
    path::PathBuf,
};

use super::{
    GitError,
    invoke::CALL_SECONDS,
    process::{Running, STDERR_LIMIT},
};

/// A git that answers questions on its standard input, such as `cat-file --batch`.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) running: Option<Running>,
    pub(super) limit: usize,
}

impl Session {
    /// Sends a question. The whole of it must be read by git before it answers.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        let sent = match self.running.as_mut().and_then(|running| running.stdin.as_mut()) {
            Some(stdin) => stdin.write_all(bytes).and_then(|()| stdin.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|source| self.broken(&source.to_string()))
    }

    /// One line of the answer, without its end.
    pub(crate) fn line(&mut self) -> Result<String, GitError> {
        let mut line = Vec::new();
        let read = match self.running.as_mut() {
            Some(running) => (&mut running.stdout).take(STDERR_LIMIT as u64).read_until(b'\n', &mut line),
            None => Ok(0),
        };
        match read {
            Ok(_) if line.pop() == Some(b'\n') => {
                String::from_utf8(line).map_err(|_| self.broken("a line that is not UTF-8"))
            }
            Ok(_) => Err(self.broken("it ended early")),
            Err(source) => Err(self.broken(&source.to_string())),
        }
    }

    /// Exactly `length` bytes of the answer.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<Vec<u8>, GitError> {
        let limit = self.limit;
        if length > limit {
            return Err(match self.running.as_ref() {
                Some(running) => GitError::TooLarge {
                    repository: running.repository.clone(),
                    command: running.summary.clone(),
                    limit,
                },
                None => self.broken("it ended early"),
            });
        }
        let mut bytes = vec![0; length];
        let read = match self.running.as_mut() {
            Some(running) => running.stdout.read_exact(&mut bytes),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        read.map(|()| bytes).map_err(|source| self.broken(&source.to_string()))
    }

    /// Ends the session; an exit code other than 0 is an error.
    pub(crate) fn finish(mut self) -> Result<(), GitError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        drop(running.stdin.take());
        let (repository, command) = (running.repository.clone(), running.summary.clone());
        let end = running.end()?;
        if end.status.success() { Ok(()) } else { Err(end.failure(repository, command)) }
    }

    /// The error for an answer that is not understood. What git said on stderr before it ended explains it best.
    pub(crate) fn broken(&mut self, what: &str) -> GitError {
        let Some(mut running) = self.running.take() else {
            let (repository, command) = (PathBuf::new(), "git".to_owned());
            return GitError::Unreadable { repository, command, what: what.to_owned() };
        };
        let (repository, command) = (running.repository.clone(), running.summary.clone());
        drop(running.stdin.take());
        running.kill();
        match running.end() {
            Ok(end) if end.timed_out => GitError::Timeout { repository, command, seconds: CALL_SECONDS },
            Ok(end) if !end.stderr.is_empty() => end.failure(repository, command),
            Ok(_) => GitError::Unreadable { repository, command, what: what.to_owned() },
            Err(error) => error,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Left half-way because of an error; nobody waits for what it still has to say.
        if let Some(running) = self.running.take() {
            running.kill();
            let _ = running.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Call, Place, *};

    #[test]
    fn a_session_answers_question_by_question_and_explains_its_end() {
        let dir = tempfile::tempdir().unwrap();
        Call::discover(Path::new("git"), dir.path()).args(["init", "-q"]).success().unwrap();
        let place = Place { git_dir: dir.path().join(".git"), work_tree: dir.path().to_owned() };
        let mut session = Call::at(Path::new("git"), &place).args(["cat-file", "--batch"]).session().unwrap();
        for _ in 0..3 {
            session.send(b"HEAD\n").unwrap();
            assert_eq!(session.line().unwrap(), "HEAD missing");
        }
        session.finish().unwrap();
        let mut session = Call::at(Path::new("git"), &place).args(["no-such-command"]).session().unwrap();
        assert!(matches!(session.line(), Err(GitError::Failed { .. } | GitError::Unreadable { .. })));
    }
}
