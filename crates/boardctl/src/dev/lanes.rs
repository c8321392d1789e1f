//! What stands in for the path units: one thread per slot that starts its worker while there is a file for it.
//!
//! The same glob as in the units, `inbox/<lane>/*.json` and `running/<lane>-<n>/*.json`, and the same meaning:
//! any name that matches counts, also a directory's or a link's, since the worker moves those away. Woken by
//! inotify; a board without work costs nothing.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use board_core::edge::files::{create_dirs_private, list_dir};
use board_core::edge::queue::{Queue, SlotName};
use board_core::edge::wake::{Wake, WatchSpec, Woken};
use board_core::model::job::Lane;

use super::supervise::{Asked, PAUSE, Program, Stop, ended};
use crate::output::{Out, complain};
use crate::words;

/// Starts the stand-in of one slot.
///
/// # Errors
/// Its directories cannot be made or watched.
pub(super) fn stand_in(
    queue: &Queue,
    lane: Lane,
    number: u32,
    program: Program,
    stop: Stop,
    out: Out,
) -> anyhow::Result<JoinHandle<()>> {
    let slot = SlotName::Slot { lane, number };
    let dirs = [queue.inbox_dir(lane), queue.running_dir().join(slot.to_string())];
    create_dirs_private(&dirs[1])?;
    let wake = Wake::new(&dirs.clone().map(|dir| WatchSpec::ending(dir, ".json")))?;
    stop.also_wake(wake.waker());
    Ok(std::thread::spawn(move || work(&slot.to_string(), &dirs, wake, &program, &stop, out)))
}

fn work(slot: &str, dirs: &[PathBuf; 2], mut wake: Wake, program: &Program, stop: &Stop, out: Out) {
    // A directory that went away may come back unseen.
    let mut deaf = false;
    // The same failure once a second would bury everything else.
    let mut said = String::new();
    while !stop.asked(Asked::Workers) {
        if !dirs.iter().any(|dir| matches_glob(dir)) {
            deaf = wake.wait(deaf.then(|| Instant::now() + PAUSE)) == Woken::Lost;
            continue;
        }
        let failed = match program.once(stop, Asked::Workers) {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => {
                said.clear();
                continue;
            }
            Ok(Some(status)) => ended(status),
            Err(error) => format!("{error:#}"),
        };
        if stop.asked(Asked::Workers) {
            return;
        }
        if failed != said {
            complain(&words::worker_failed(out.language, slot, &failed));
            said = failed;
        }
        if stop.wait(Asked::Workers, PAUSE) {
            return;
        }
    }
}

/// Whether `<dir>/*.json` matches, as systemd means it.
fn matches_glob(dir: &Path) -> bool {
    // A directory that is gone matches nothing.
    list_dir(dir).is_ok_and(|entries| entries.iter().any(|entry| is_match(&entry.name)))
}

fn is_match(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".json") && !name.starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_the_glob_counts_whatever_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["progress", ".x.json", "x.json.tmp"] {
            std::fs::write(path(name), "").unwrap();
        }
        assert!(!matches_glob(dir.path()));
        std::os::unix::fs::symlink("/nowhere", path("dangling.json")).unwrap();
        assert!(matches_glob(dir.path()));
        std::fs::remove_file(path("dangling.json")).unwrap();
        std::fs::create_dir(path("dir.json")).unwrap();
        assert!(matches_glob(dir.path()));
        assert!(!matches_glob(&path("nowhere")));
    }
}
