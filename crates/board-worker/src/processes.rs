//! Finds and ends the processes of a run, and waits until none is left.
//!
//! The worker is a *subreaper*: whatever an agent leaves behind becomes a child of the worker when its own
//! parent ends, also if it made a session of its own. With the sandbox the same holds for the first process
//! of its pid namespace, whose end means that everything in it has ended. So „no child is left" is „no
//! process of the run is left", with and without a sandbox.
//!
//! That makes every child of this process one of the run: while a run goes on, nothing else in the worker
//! starts a process, and one process does one run at a time.

use std::collections::HashMap;
use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// Makes this process the parent of whatever its descendants leave behind.
///
/// # Errors
/// The kernel refused.
pub fn become_subreaper() -> io::Result<()> {
    prctl::set_child_subreaper(true).map_err(io::Error::from)
}

/// All descendants of a process, nearest first, without itself.
pub fn descendants(of: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in table() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = vec![of.as_raw()];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        if let Some(more) = children.remove(parent) {
            found.extend(more);
        }
        at += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

/// Pids with their parents. A process that ends meanwhile is left out.
fn table() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parent_in(&stat)?))
        })
        .collect()
}

/// The parent in a line of `/proc/<pid>/stat`. The name before it may hold blanks and brackets.
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Sends a signal to every process of the run but `spare`.
pub fn signal_run(signal: Signal, spare: Option<Pid>) {
    for pid in descendants(Pid::this()) {
        if Some(pid) != spare {
            // One that is gone already is what was wanted.
            let _ = kill(pid, signal);
        }
    }
}

/// Kills what is left and waits for the last of it, however long the kernel takes.
///
/// # Errors
/// Waiting itself failed, which leaves it unknown whether something is left.
pub fn end_all() -> io::Result<()> {
    // Mostly nothing is left, and a look at every process of the host takes longer than the rest of a short run.
    while let Some(pid) = ended_child() {
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
    loop {
        if waitid(Id::All, ENDED_OR_NOT) == Err(Errno::ECHILD) {
            return Ok(());
        }
        signal_run(Signal::SIGKILL, None);
        // Each end may hand us orphans that were not there when the signal was sent, so one is waited for
        // and the rest is looked at again.
        match waitpid(None::<Pid>, None) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::EINTR) => {}
            Ok(
                WaitStatus::Stopped(..)
                | WaitStatus::PtraceEvent(..)
                | WaitStatus::PtraceSyscall(_)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive,
            ) => {}
            Err(Errno::ECHILD) => return Ok(()),
            Err(errno) => return Err(io::Error::from(errno)),
        }
    }
}

/// Reaps whoever ended in the background, so that a long run collects no zombies; never the direct child.
pub fn reap_orphans(child: Pid) {
    // Once the direct child has ended it may be told first, and the run is over anyway.
    while let Some(pid) = ended_child().filter(|pid| *pid != child) {
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
}

/// A look at the children that waits for none and reaps none.
const ENDED_OR_NOT: WaitPidFlag =
    WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// A child that has ended and is not reaped.
fn ended_child() -> Option<Pid> {
    waitid(Id::All, ENDED_OR_NOT).ok().and_then(|status| status.pid())
}

/// How often the kernel ended a process of this cgroup for want of memory; none where that is not told.
pub fn oom_kills() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let events = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.events")).ok()?;
    oom_kills_in(&events)
}

fn oom_kills_in(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_oom_kills_is_read_from_the_events_of_the_cgroup() {
        assert_eq!(oom_kills_in("low 0\noom 2\noom_kill 3\noom_group_kill 1\n"), Some(3));
        assert_eq!(oom_kills_in("low 0\n"), None);
    }

    #[test]
    fn the_parent_is_read_past_a_name_with_brackets() {
        assert_eq!(parent_in("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (sh) R 1 12"), Some(1));
        assert_eq!(parent_in("garbage"), None);
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        assert!(descendants(Pid::parent()).contains(&Pid::this()));
    }
}
