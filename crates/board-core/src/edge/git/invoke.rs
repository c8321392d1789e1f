//! How the git program is started: one place for its environment, its options, its limits and its end.
//!
//! Apart from everything that knows what git is asked, so that no call can leave out a part of it. Nothing here
//! goes through a shell, and nothing of the operator's configuration or of a repository's hooks runs.
use std::{
    ffi::{OsStr, OsString},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::GitError;

/// Longest time of one call, in seconds. A checkout of a large repository on a slow disk stays well below.
pub const CALL_SECONDS: u64 = 600;
/// Most bytes of standard output of a call that names no limit of its own.
pub(crate) const OUTPUT_LIMIT: usize = 64 << 20;
/// Most bytes of standard error that are kept.
const STDERR_LIMIT: usize = 64 << 10;
/// Most characters of a command or of its stderr in an error.
const SUMMARY_LIMIT: usize = 400;

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

/// A git that answers questions on its standard input, such as `cat-file --batch`.
#[derive(Debug)]
pub(crate) struct Session {
    running: Option<Running>,
    limit: usize,
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

/// A started git.
#[derive(Debug)]
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: JoinHandle<String>,
    watchdog: Watchdog,
    summary: String,
    repository: PathBuf,
}

/// How a git ended.
#[derive(Debug)]
struct End {
    status: ExitStatus,
    stderr: String,
    timed_out: bool,
}

impl Running {
    fn kill(&self) {
        let _ = killpg(group_of(&self.child), Signal::SIGKILL);
    }

    fn end(mut self) -> Result<End, GitError> {
        drop(self.stdin.take());
        // Waits without reaping, so that the watchdog cannot hit a process that got the number meanwhile.
        let id = || Id::Pid(group_of(&self.child));
        while waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
        let timed_out = self.watchdog.stop();
        let status = self.child.wait().map_err(|source| GitError::Start { program: "git".into(), source })?;
        let stderr = self.stderr.join().unwrap_or_default();
        Ok(End { status, stderr, timed_out })
    }
}

impl End {
    fn failure(self, repository: PathBuf, command: String) -> GitError {
        let status = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".to_owned(),
        };
        GitError::Failed { repository, command, status, stderr: cut(&self.stderr) }
    }
}

/// Kills a process group when its time is over.
#[derive(Debug)]
struct Watchdog {
    done: mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    fn start(group: Pid, timeout: Duration) -> Self {
        let (done, over) = mpsc::channel();
        let thread = std::thread::spawn(move || match over.recv_timeout(timeout) {
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => false,
            Err(mpsc::RecvTimeoutError::Timeout) => killpg(group, Signal::SIGKILL).is_ok(),
        });
        Self { done, thread }
    }

    fn stop(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(false)
    }
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn read_stderr(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let _ = (&mut stderr).take(STDERR_LIMIT as u64).read_to_end(&mut kept);
    // The rest is read and dropped: a git that waits for its reader would never end.
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).trim().to_owned()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SUMMARY_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
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
