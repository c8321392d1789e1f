//! What can go wrong when git is called, with the repository and the command in every sentence.
use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A failed call of git, or a repository that is not usable.
///
/// Reasons that somebody decides on have types of their own
/// ([`CommitError`](super::CommitError), [`CommitBlock`](super::CommitBlock)).
#[derive(Debug, Error)]
pub enum GitError {
    /// The directory is in no git repository, or git refuses to use it.
    #[error("{} is not a usable git repository: {reason}", path.display())]
    NotARepository {
        /// The directory that was asked for.
        path: PathBuf,
        /// What git said.
        reason: String,
    },
    /// The repository has no work tree.
    #[error("{} is a bare repository; the board needs a checkout", path.display())]
    Bare {
        /// The directory that was asked for.
        path: PathBuf,
    },
    /// `filter.*` is configured: git would run that program outside the sandbox, on files of an agent.
    #[error(
        "{} configures {}, a program that git would run outside the sandbox on files that an agent wrote; remove it \
         or set board.allow_filters",
        path.display(), keys.join(", ")
    )]
    FiltersConfigured {
        /// The repository.
        path: PathBuf,
        /// The keys found.
        keys: Vec<String>,
    },
    /// A name that git would not take as a branch or ref, or that could be read as an option.
    #[error("{name:?} is not a valid {what}")]
    BadName {
        /// What was expected: branch, ref, path, identity.
        what: &'static str,
        /// The text.
        name: String,
    },
    /// The git program cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that belongs to a call cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// git ended with an error.
    #[error("{}: `{command}` ended with {status}: {stderr}", repository.display())]
    Failed {
        /// The repository or worktree it was called for.
        repository: PathBuf,
        /// The command, shortened.
        command: String,
        /// Exit code or signal, in words.
        status: String,
        /// The end of what it said.
        stderr: String,
    },
    /// git took too long and was killed.
    #[error("{}: `{command}` was stopped after {seconds} s", repository.display())]
    Timeout {
        /// The repository or worktree it was called for.
        repository: PathBuf,
        /// The command, shortened.
        command: String,
        /// The time it had, in seconds.
        seconds: u64,
    },
    /// git printed more than the call allows, or an object is larger than asked for.
    #[error("{}: `{command}` gave more than {limit} bytes", repository.display())]
    TooLarge {
        /// The repository or worktree it was called for.
        repository: PathBuf,
        /// The command, shortened, or the object.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// git answered in a form that is not understood.
    #[error("{}: cannot read the answer of `{command}`: {what}", repository.display())]
    Unreadable {
        /// The repository or worktree it was called for.
        repository: PathBuf,
        /// The command, shortened.
        command: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Adds the path to an I/O error; no I/O error leaves this module without it.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> GitError + '_ {
    move |source| GitError::Io { path: path.to_owned(), source }
}
