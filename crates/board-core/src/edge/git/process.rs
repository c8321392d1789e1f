//! A git that runs: its end is always waited for, and comes at the latest when its time is over.
//!
//! Apart from how it is started, because a call and a session end in the same way.
use std::{
    io::{self, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, ExitStatus},
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

/// Most bytes of standard error that are kept.
pub(super) const STDERR_LIMIT: usize = 64 << 10;
/// Most characters of a command or of its stderr in an error.
const SUMMARY_LIMIT: usize = 400;

/// A started git.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: BufReader<ChildStdout>,
    pub(super) stderr: JoinHandle<String>,
    pub(super) watchdog: Watchdog,
    pub(super) summary: String,
    pub(super) repository: PathBuf,
}

/// How a git ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: ExitStatus,
    pub(super) stderr: String,
    pub(super) timed_out: bool,
}

impl Running {
    pub(super) fn kill(&self) {
        let _ = killpg(group_of(&self.child), Signal::SIGKILL);
    }

    pub(super) fn end(mut self) -> Result<End, GitError> {
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
    pub(super) fn failure(self, repository: PathBuf, command: String) -> GitError {
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
pub(super) struct Watchdog {
    done: mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    pub(super) fn start(group: Pid, timeout: Duration) -> Self {
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

pub(super) fn group_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

pub(super) fn read_stderr(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let _ = (&mut stderr).take(STDERR_LIMIT as u64).read_to_end(&mut kept);
    // The rest is read and dropped: a git that waits for its reader would never end.
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).trim().to_owned()
}

pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SUMMARY_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
