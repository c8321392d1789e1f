//! Runs whose worker is gone and whose slot nobody takes: a slot that was taken away, a masked unit.
//!
//! Normally the slot's own worker recovers what its predecessor left. The watcher does the same for a running
//! directory that holds a job and whose slot lock was free for a while; it only tries locks and never waits.
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use board_core::edge::git::Oid;
use board_core::edge::lock::LockError;
use board_core::edge::queue::QueueError;
use board_core::edge::queue::claim::Slot;
use board_core::edge::queue::recover::RecoverError;
use board_core::model::card::CardId;
use board_core::model::job::{Job, Lane, Payload};
use board_core::model::outcome::SavedWork;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::{Watcher, life};

/// What a look for orphans found.
#[derive(Debug, Default)]
pub struct Pass {
    /// Whether another look is due.
    pub undone: bool,
}

/// One look.
///
/// # Errors
/// If the running directories cannot be read.
pub fn pass(watcher: &mut Watcher, now: Instant) -> anyhow::Result<Pass> {
    let (ripe, waiting) = watcher.queue.orphans(&mut watcher.orphans, watcher.hooks.orphan_after, now)?;
    let mut pass = Pass { undone: waiting };
    for (lane, number) in ripe {
        let slot = match Slot::try_acquire(&watcher.queue, lane, number) {
            Ok(slot) => slot,
            // Its worker came back.
            Err(QueueError::Lock(LockError::Busy { .. })) => continue,
            Err(error) => return Err(error.into()),
        };
        let gone = || sandbox_is_gone(watcher, lane, number);
        match slot.recover(gone, |job| save(watcher, job)) {
            Ok(recovered) => {
                for job in recovered.interrupted.iter().chain(&recovered.finished) {
                    life::recovered(*job);
                }
            }
            Err(error @ (RecoverError::Queue(_) | RecoverError::Work(_))) => {
                tracing::warn!("the orphaned run in {}-{number} waits: {error}", lane.id());
                pass.undone = true;
            }
        }
    }
    Ok(pass)
}

/// The lock that the sandbox of a slot holds while it lives.
pub fn sandbox_lock(watcher: &Watcher, lane: Lane, number: u32) -> PathBuf {
    watcher.store.dir().join(format!("locks/sandbox-{}-{number}.lock", lane.id()))
}

/// Fails while a process of the earlier run is left: bubblewrap holds a POSIX read lock as long as it lives.
fn sandbox_is_gone(watcher: &Watcher, lane: Lane, number: u32) -> anyhow::Result<()> {
    let path = sandbox_lock(watcher, lane, number);
    let file = match File::options().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let mut asked = libc::flock {
        l_type: i16::try_from(libc::F_WRLCK).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_GETLK(&mut asked))
        .with_context(|| format!("{} (descriptor {})", path.display(), file.as_raw_fd()))?;
    anyhow::ensure!(
        i32::from(asked.l_type) == libc::F_UNLCK,
        "a process of the run is still alive (pid {})",
        asked.l_pid
    );
    Ok(())
}

/// Keeps the work of a build on its ref; the worktree stays.
fn save(watcher: &Watcher, job: &Job) -> anyhow::Result<Option<SavedWork>> {
    let (Payload::Builder(payload), CardId::Slug(slug)) = (&job.payload, &job.card_id) else {
        return Ok(None);
    };
    let _lock = watcher.desk().try_lock()?;
    let worktree = watcher.worktrees.worktree(slug, payload.number);
    if !worktree.path.exists() {
        return Ok(Some(SavedWork { reference: None, worktree: false }));
    }
    let base = Oid::parse(&payload.base_commit)?;
    let name = format!("refs/board/saved/{}", job.reference());
    let message = format!("board: work of an interrupted build of {slug}\n");
    let kept = watcher.worktrees.save(&worktree, &base, &name, &message)?;
    Ok(Some(SavedWork { reference: kept.map(|_| name), worktree: true }))
}
