//! How the git program is started: one place for its environment, its options, its limits and its end.
//!
//! Apart from everything that knows what git is asked, so that no call can leave out a part of it. Nothing here
//! goes through a shell, and nothing of the operator's configuration or of a repository's hooks runs.
use std::{
    ffi::{OsStr, OsString},
    io::{self, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    GitError,
    process::{Running, Watchdog, cut, group_of, read_stderr},
    session::Session,
};

/// Longest time of one call, in seconds. A checkout of a large repository on a slow disk stays well below.
pub const CALL_SECONDS: u64 = 600;
/// Most bytes of standard output of a call that names no limit of its own.
pub(crate) const OUTPUT_LIMIT: usize = 64 << 20;

/// Given to every call. Each line takes away a way in which configuration runs a program, waits for a person, or
/// changes what is written.
const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgsign=false",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // git alone syncs neither loose objects of a commit nor refs.
    "core.fsync=all",
    // The files in the home of the user are read even without a global configuration.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    // A shared index would be left in the git directory by every private index.
    "core.splitIndex=false",
    // git would run `git status` inside a submodule, under the configuration found there.
    "diff.ignoreSubmodules=all",
    "submodule.recurse=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
];

/// The environment of every call; all other `GIT_*` are removed.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    // What is checked must be what is there: no replace refs, no fetch from a promisor remote.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("LC_ALL", "C"),
];

/// The git directory and the work tree of a call, named explicitly so that no `.git` file is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `GIT_DIR`: the repository's, or the one of a linked worktree below `worktrees/`.
    pub(crate) git_dir: PathBuf,
    /// `GIT_WORK_TREE` and the current directory.
    pub(crate) work_tree: PathBuf,
}

/// What is done when git prints more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Refuse,
    Cut,
}

/// One call of git, not started yet.
#[derive(Debug)]
pub(crate) struct Call {
    program: PathBuf,
    place: Option<Place>,
    current_dir: PathBuf,
    config: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    limit: usize,
    overflow: Overflow,
    timeout: Duration,
}

/// A call that came to its end with an exit code.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Whether `stdout` was cut at the limit; the code is 0 then.
    pub(crate) cut: bool,
    repository: PathBuf,
    command: String,
}

impl Call {
    /// A call in `current_dir` in which git itself looks for the repository; only for opening one.
    pub(crate) fn discover(program: &Path, current_dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            place: None,
            current_dir: current_dir.to_owned(),
            config: CONFIG.iter().map(OsString::from).collect(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            limit: OUTPUT_LIMIT,
            overflow: Overflow::Refuse,
            timeout: Duration::from_secs(CALL_SECONDS),
        }
    }

    /// A call for a repository and work tree that are known.
    pub(crate) fn at(program: &Path, place: &Place) -> Self {
        Self { place: Some(place.clone()), ..Self::discover(program, &place.work_tree) }
    }

    /// One more `-c name=value`.
    pub(crate) fn config(mut self, setting: impl Into<OsString>) -> Self {
        self.config.push(setting.into());
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    /// Another index than that of the git directory.
    pub(crate) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    /// Marks a call that only reads: git takes no lock to refresh the index by the way.
    pub(crate) fn read(self) -> Self {
        self.env("GIT_OPTIONAL_LOCKS", "0")
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Output beyond `limit` bytes is an error.
    pub(crate) fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Output beyond `limit` bytes is cut; git is stopped then.
    pub(crate) fn cut_at(mut self, limit: usize) -> Self {
        self.overflow = Overflow::Cut;
        self.limit(limit)
    }

    #[cfg(test)]
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn start(&self) -> Result<Running, GitError> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command.envs(ENVIRONMENT.iter().copied());
        if let Some(place) = &self.place {
            command.env("GIT_DIR", &place.git_dir).env("GIT_WORK_TREE", &place.work_tree);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.arg("--no-pager");
        for setting in &self.config {
            command.arg("-c").arg(setting);
        }
        command.args(&self.args).current_dir(&self.current_dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: a call that takes too long is stopped with the programs that it started.
        command.process_group(0);
        let summary = self.summary();
        let repository = self.current_dir.clone();
        let mut child = match command.spawn() {
            Ok(child) => child,
            // A missing directory and a missing program are the same error of spawn.
            Err(source) if !self.current_dir.is_dir() => {
                return Err(GitError::Io { path: self.current_dir.clone(), source });
            }
            Err(source) => return Err(GitError::Start { program: self.program.clone(), source }),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            let source = io::Error::other("a standard stream is missing");
            return Err(GitError::Start { program: self.program.clone(), source });
        };
        let watchdog = Watchdog::start(group_of(&child), self.timeout);
        let stderr = std::thread::spawn(move || read_stderr(stderr));
        Ok(Running {
            child,
            stdin: Some(stdin),
            stdout: BufReader::new(stdout),
            stderr,
            watchdog,
            summary,
            repository,
        })
    }

    /// Runs the call to its end.
    ///
    /// # Errors
    /// If it cannot be started, is killed, takes too long or prints too much; an exit code is no error here.
    pub(crate) fn run(mut self) -> Result<Reply, GitError> {
        let mut running = self.start()?;
        let (stdin, bytes) = (running.stdin.take(), std::mem::take(&mut self.stdin));
        // Fed from a thread: git may print before it has read everything. A git that ends early closes the
        // pipe; its exit code tells why.
        let feeder = match (stdin, bytes.is_empty()) {
            (Some(mut stdin), false) => Some(std::thread::spawn(move || drop(stdin.write_all(&bytes)))),
            (Some(_) | None, _) => None,
        };
        let mut stdout = Vec::new();
        let ceiling = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut running.stdout).take(ceiling).read_to_end(&mut stdout);
        let over = stdout.len() > self.limit;
        if over || read.is_err() {
            running.kill();
        }
        let (repository, command) = (running.repository.clone(), running.summary.clone());
        let seconds = self.timeout.as_secs();
        let end = running.end();
        if let Some(feeder) = feeder {
            let _ = feeder.join();
        }
        let end = end?;
        if over {
            return match self.overflow {
                Overflow::Refuse => Err(GitError::TooLarge { repository, command, limit: self.limit }),
                Overflow::Cut => {
                    stdout.truncate(self.limit);
                    Ok(Reply { code: 0, stdout, stderr: end.stderr, cut: true, repository, command })
                }
            };
        }
        if end.timed_out {
            return Err(GitError::Timeout { repository, command, seconds });
        }
        let Some(code) = end.status.code() else {
            return Err(end.failure(repository, command));
        };
        Ok(Reply { code, stdout, stderr: end.stderr, cut: false, repository, command })
    }

    /// Runs the call and takes only exit code 0.
    pub(crate) fn success(self) -> Result<Vec<u8>, GitError> {
        self.run()?.success()
    }

    /// Starts a call that answers questions one by one.
    pub(crate) fn session(self) -> Result<Session, GitError> {
        Ok(Session { running: Some(self.start()?), limit: self.limit })
    }

    fn summary(&self) -> String {
        let words = self.args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>();
        cut(&format!("git {}", words.join(" ")))
    }
}

impl Reply {
    /// Standard output, if the exit code is 0.
    pub(crate) fn success(self) -> Result<Vec<u8>, GitError> {
        if self.code == 0 { Ok(self.stdout) } else { Err(self.failure()) }
    }

    /// The error for an exit code that the caller has no use for.
    pub(crate) fn failure(self) -> GitError {
        let status = format!("exit code {}", self.code);
        GitError::Failed {
            repository: self.repository,
            command: self.command,
            status,
            stderr: cut(&self.stderr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git() -> Call {
        Call::discover(Path::new("git"), Path::new("/"))
    }

    #[test]
    fn output_is_taken_up_to_the_limit_and_refused_or_cut_beyond_it() {
        let call = || git().args(["hash-object", "--stdin"]).stdin("x");
        assert_eq!(call().limit(41).success().unwrap().len(), 41);
        assert!(matches!(call().limit(40).success(), Err(GitError::TooLarge { limit: 40, .. })));
        let reply = call().cut_at(40).run().unwrap();
        assert!(reply.cut);
        assert_eq!(reply.stdout.len(), 40);
        assert!(!call().cut_at(41).run().unwrap().cut);
    }

    #[test]
    fn a_call_that_takes_too_long_is_stopped_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("slow");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let call = Call::discover(&program, dir.path()).arg("version").timeout(Duration::from_millis(50));
        assert!(matches!(call.run(), Err(GitError::Timeout { .. })));
    }

    #[test]
    fn an_exit_code_and_what_git_said_are_in_the_error() {
        let error = git().args(["rev-parse", "--verify", "HEAD"]).success().unwrap_err().to_string();
        assert!(error.contains("git rev-parse --verify HEAD") && error.contains("exit code 128"), "{error}");
        assert!(error.contains("not a git repository"), "{error}");
    }

    #[test]
    fn a_missing_program_and_a_missing_directory_are_told_apart() {
        let missing = Call::discover(Path::new("/nonexistent/git"), Path::new("/")).run();
        assert!(matches!(missing, Err(GitError::Start { .. })));
        let missing = Call::discover(Path::new("git"), Path::new("/nonexistent")).run();
        assert!(matches!(missing, Err(GitError::Io { .. })));
    }
}
