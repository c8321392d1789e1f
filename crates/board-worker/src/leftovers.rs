//! What an earlier run of a slot may have left alive, and how to know that nothing of it is.
//!
//! The sandbox keeps a POSIX lock on a file while it lives (bubblewrap's `--lock-file`), so its end is known
//! without any process id. A run without a sandbox has none; its processes carry the job in their
//! environment.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uuid::Uuid;

/// How long killed processes are waited for before it counts as a fault.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Whether a living sandbox holds the lock of this file.
///
/// # Errors
/// The file cannot be opened or asked about; one that is missing is not locked.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut lock = libc::flock {
        l_type: i16::try_from(libc::F_WRLCK).unwrap_or_default(),
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

/// Kills every process that carries this job in its environment, and waits until none is left.
///
/// # Errors
/// Some are still there after [`PATIENCE`].
pub(crate) fn end_of_job(job: Uuid) -> io::Result<()> {
    let mark = format!("BOARD_JOB_ID={job}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = carrying(mark.as_bytes());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("processes of an earlier run do not end: {left:?}")));
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Processes of this user with this variable; zombies have no environment any more.
fn carrying(mark: &[u8]) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_of_a_job_are_found_by_their_environment_and_ended() {
        let job = Uuid::new_v4();
        let mut child =
            Command::new("sleep").arg("600").env("BOARD_JOB_ID", job.to_string()).spawn().unwrap();
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        wait_until_it_carries(job);
        end_of_job(job).unwrap();
        assert!(!reaper.join().unwrap().success());
    }

    /// The environment is there a moment after the program was started.
    fn wait_until_it_carries(job: Uuid) {
        let deadline = Instant::now() + PATIENCE;
        while carrying(format!("BOARD_JOB_ID={job}").as_bytes()).is_empty() {
            assert!(Instant::now() < deadline, "the process does not show up");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn a_lock_of_another_process_is_seen_and_a_missing_file_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!is_locked(&path).unwrap());
        std::fs::write(&path, "").unwrap();
        assert!(!is_locked(&path).unwrap());
    }
}
