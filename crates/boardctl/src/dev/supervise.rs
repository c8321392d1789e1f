//! The children of `dev`: started, watched, started again, stopped in order.
//!
//! One thread for each child, which lives as long as the child: "die with your parent" means, for the kernel,
//! the thread that made it. Children have process groups of their own, so that Ctrl-C reaches this process
//! alone and the order of the stop is ours.
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::wake::Waker;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::{Sink, open_log};
use crate::output::{Out, complain};
use crate::words;

/// Pause after a failure, as `RestartSec` of the units.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// What is to be stopped so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Asked {
    /// Nothing.
    #[default]
    Nothing,
    /// The workers.
    Workers,
    /// Trigger and watcher too.
    Everything,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Asked,
    /// Children that run, by what stops them.
    children: Vec<(Asked, Pid)>,
    wakers: Vec<Waker>,
}

/// The wish to stop, shared by all supervisors.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<(Mutex<Shared>, Condvar)>);

impl Stop {
    /// Nothing is asked yet.
    pub(super) fn new() -> Stop {
        Stop::default()
    }

    /// Stops the workers.
    pub(super) fn workers(&self) {
        self.ask(Asked::Workers);
    }

    /// Stops trigger and watcher too.
    pub(super) fn daemons(&self) {
        self.ask(Asked::Everything);
    }

    /// Kills what still runs.
    pub(super) fn at_once(&self) {
        for (_, child) in &self.lock().children {
            // One that has ended already is still ours to reap, so its number is nobody else's.
            let _ = kill(*child, Signal::SIGKILL);
        }
    }

    /// Whether so much is to be stopped.
    pub(super) fn asked(&self, what: Asked) -> bool {
        self.lock().asked >= what
    }

    /// Wakes this as well when something is to stop.
    pub(super) fn also_wake(&self, waker: Waker) {
        self.lock().wakers.push(waker);
    }

    /// Waits so long; `true` if so much is to be stopped.
    pub(super) fn wait(&self, what: Asked, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut shared = self.lock();
        loop {
            if shared.asked >= what {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            shared = self.0.1.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ask(&self, asked: Asked) {
        let mut shared = self.lock();
        shared.asked = shared.asked.max(asked);
        for (by, child) in &shared.children {
            if *by <= asked {
                let _ = kill(*child, Signal::SIGTERM);
            }
        }
        for waker in &shared.wakers {
            waker.wake();
        }
        drop(shared);
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child to start: one of the daemons in this executable.
#[derive(Debug)]
pub(super) struct Program {
    /// This executable, looked up once: a build in its place is started from then on, as after a deploy.
    pub(super) executable: PathBuf,
    /// The configuration file.
    pub(super) config: PathBuf,
    /// What stands behind `run`.
    pub(super) arguments: Vec<String>,
    /// A listening socket that it inherits.
    pub(super) listener: Option<OwnedFd>,
    /// Where its output goes.
    pub(super) sink: Sink,
}

impl Program {
    /// Runs it once; `None` if the stop came before.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn once(&self, stop: &Stop, by: Asked) -> anyhow::Result<Option<ExitStatus>> {
        let mut child = {
            // Under the lock: the stop finds the child, or the child is never made.
            let mut shared = stop.lock();
            if shared.asked >= by {
                return Ok(None);
            }
            let child = self.spawn()?;
            shared.children.push((by, pid(&child)));
            child
        };
        let number = pid(&child);
        let waited = wait_ended(number);
        stop.lock().children.retain(|(_, known)| *known != number);
        waited?;
        Ok(Some(child.wait().context("child")?))
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.executable);
        command.arg("run").args(&self.arguments).arg("--config").arg(&self.config);
        command.arg("--parent").arg(std::process::id().to_string());
        command.process_group(0);
        for name in ["LISTEN_FDS", "LISTEN_FDS_FIRST_FD", "LISTEN_PID", "LISTEN_FDNAMES"] {
            // What systemd may have handed to `dev` itself is not for its children.
            command.env_remove(name);
        }
        match &self.listener {
            // As descriptor 0, the one place that can be filled without `unsafe`; listenfd is told to look
            // there.
            Some(listener) => {
                command.stdin(Stdio::from(listener.try_clone().context("listener")?));
                command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", "0").env("LISTEN_PID", "");
            }
            None => {
                command.stdin(Stdio::null());
            }
        }
        if let Sink::File(path) = &self.sink {
            let log = open_log(path)?;
            command.stdout(log.try_clone().context("log")?).stderr(log);
        }
        command.spawn().with_context(|| self.executable.display().to_string())
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Waits without reaping, so that the number is nobody else's while it is on the list of what is stopped.
fn wait_ended(child: Pid) -> anyhow::Result<()> {
    loop {
        match waitid(Id::Pid(child), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("child"),
        }
    }
}

/// How a child ended, for people.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(number)) => {
            Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
        }
        (None, None) => status.to_string(),
    }
}

/// Keeps a daemon running until everything is to stop.
pub(super) fn keep_running(name: &'static str, program: Program, stop: Stop, out: Out) -> JoinHandle<()> {
    std::thread::spawn(move || {
        loop {
            let how = match program.once(&stop, Asked::Everything) {
                Ok(None) => return,
                Ok(Some(status)) => ended(status),
                Err(error) => format!("{error:#}"),
            };
            if stop.asked(Asked::Everything) {
                return;
            }
            complain(&words::starts_again(out.language, name, &how));
            if stop.wait(Asked::Everything, PAUSE) {
                return;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_said_by_code_or_by_signal() {
        assert_eq!(ended(ExitStatus::from_raw(0)), "exit 0");
        assert_eq!(ended(ExitStatus::from_raw(3 << 8)), "exit 3");
        assert_eq!(ended(ExitStatus::from_raw(9)), "SIGKILL");
    }

    #[test]
    fn workers_stop_before_daemons_and_a_pause_ends_with_the_stop() {
        let stop = Stop::new();
        assert!(!stop.asked(Asked::Workers));
        stop.workers();
        assert!(stop.asked(Asked::Workers) && stop.wait(Asked::Workers, PAUSE));
        assert!(!stop.wait(Asked::Everything, Duration::ZERO));
        stop.daemons();
        assert!(stop.wait(Asked::Everything, Duration::ZERO));
    }

    #[test]
    fn nothing_is_started_after_the_stop() {
        let stop = Stop::new();
        stop.workers();
        let program = Program {
            executable: "/nonexistent".into(),
            config: "/nonexistent".into(),
            arguments: vec!["worker".into()],
            listener: None,
            sink: Sink::Terminal,
        };
        assert!(program.once(&stop, Asked::Workers).unwrap().is_none());
    }
}
