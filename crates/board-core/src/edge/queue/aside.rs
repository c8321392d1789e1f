//! Putting files aside: to `rejected/` what could not be accepted, to `done/` what is over.
//!
//! Nothing is ever overwritten or removed here. A file is renamed without being opened, so this works for
//! directories, links and fifos as well, and on a full disk. The reason is written first: a crash in between
//! leaves a reason too many, never a file without one.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Queue;
use crate::edge::clock;
use crate::edge::files::read::{Read, open_regular_nofollow};
use crate::edge::files::{
    FileError, exists, parent_of, remove_durable, rename_noreplace, replace_durable, sync_dir,
};
use crate::fault_point;
use crate::model::job::MAX_JOB_BYTES;
use crate::model::time::Timestamp;

/// Longest part of a name that is kept, bytes; room for `.reason.json` and a temporary's ending.
const MAX_NAME_BYTES: usize = 180;
/// What the name of a rejected directory ends with that could not be moved away.
const KEPT_ENDING: &str = ".rejected";
/// Files of one name in one directory, at most.
const MAX_SAME_NAME: u32 = 10_000;

/// Where a file was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// `rejected/`: it could not be accepted.
    Rejected,
    /// `done/`: it is over, for example superseded.
    Done,
}

/// Why a file was put aside: the content of `<name>.reason.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The file's name as it was found; what is not UTF-8 in it is replaced.
    pub name: String,
    /// A sentence.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// The field that is at fault, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Reason {
    /// A reason that no single field is at fault for, now.
    pub fn new(name: &str, reason: impl Into<String>) -> Reason {
        Reason { name: name.to_owned(), reason: reason.into(), at: clock::now(), field: None }
    }

    /// The same with the field at fault.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Reason {
        self.field = Some(field.into());
        self
    }
}

/// A file that was put aside, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrownOut {
    /// Where to.
    pub fate: Fate,
    /// Its name and why.
    pub reason: Reason,
}

impl Queue {
    /// Puts a file aside with a reason; `false` if it was gone.
    pub(super) fn throw_out(&self, from: &Path, fate: Fate, reason: &Reason) -> Result<bool, FileError> {
        let dir = match fate {
            Fate::Rejected => self.layout.rejected(),
            Fate::Done => self.layout.done(),
        };
        put_aside(from, &dir, Some(reason))
    }

    /// Moves a file whose end needs no reason to `done/`; `false` if it was gone.
    pub(super) fn move_to_done(&self, from: &Path) -> Result<bool, FileError> {
        put_aside(from, &self.layout.done(), None)
    }
}

fn put_aside(from: &Path, dir: &Path, reason: Option<&Reason>) -> Result<bool, FileError> {
    let name = cut(from.file_name().unwrap_or_default());
    for n in 1..=MAX_SAME_NAME {
        let target = dir.join(numbered(&name, n));
        if exists(&target)? {
            if reason.is_none() && same_bytes(from, &target)? {
                // The move of a crash, or a copy of a file that was put here already.
                remove_durable(from)?;
                return Ok(true);
            }
            continue;
        }
        if !exists(from)? {
            return Ok(false);
        }
        let reason_path = target.with_file_name(with_ending(&target, ".reason.json"));
        if let Some(reason) = reason {
            write_reason(&reason_path, reason)?;
            fault_point!("reject.reason");
        }
        match rename_noreplace(from, &target) {
            Ok(()) => {
                fault_point!("reject.moved");
                sync_dir(dir)?;
                sync_dir(parent_of(from))?;
                return Ok(true);
            }
            // Somebody was faster with this name.
            Err(error) if error.is_exists() => {}
            Err(error) if error.is_denied() && reason.is_some() && out_of_the_way(from, &name)? => {
                return Ok(true);
            }
            Err(error) => {
                // Whoever was faster with this very file needs the reason.
                if reason.is_some() && !exists(&target)? {
                    let _ = std::fs::remove_file(&reason_path);
                }
                return if error.is_not_found() && exists(dir)? { Ok(false) } else { Err(error) };
            }
        }
    }
    Err(FileError::new("move", from, std::io::Error::other("too many files of this name are kept already")))
}

/// A directory of somebody else can be renamed but not moved elsewhere, since its `..` would change. It stays where it
/// is under a name that nothing looks for, and its reason lies in `rejected/`. `false` for anything else.
fn out_of_the_way(from: &Path, name: &OsStr) -> Result<bool, FileError> {
    if !std::fs::symlink_metadata(from).is_ok_and(|there| there.is_dir()) {
        return Ok(false);
    }
    for n in 1..=MAX_SAME_NAME {
        let mut kept = name.to_owned();
        kept.push(KEPT_ENDING);
        match rename_noreplace(from, &from.with_file_name(numbered(&kept, n))) {
            Ok(()) => {
                sync_dir(parent_of(from))?;
                return Ok(true);
            }
            Err(error) if error.is_exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// On a full disk the move counts, and the journal has the reason.
fn write_reason(path: &Path, reason: &Reason) -> Result<(), FileError> {
    let text = serde_json::to_vec(reason).unwrap_or_default();
    match replace_durable(path, &text) {
        Err(error) if error.is_no_space() => {
            tracing::warn!("{error}; the reason was: {}: {}", reason.name, reason.reason);
            Ok(())
        }
        other => other,
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool, FileError> {
    let read = |path| open_regular_nofollow(path, MAX_JOB_BYTES);
    Ok(match (read(one)?, read(other)?) {
        (Read::Bytes(one), Read::Bytes(other)) => one.bytes == other.bytes,
        _ => false,
    })
}

fn cut(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    OsString::from_vec(bytes.get(..MAX_NAME_BYTES).unwrap_or(bytes).to_vec())
}

fn numbered(name: &OsStr, n: u32) -> OsString {
    let mut numbered = name.to_owned();
    if n > 1 {
        numbered.push(format!(".{n}"));
    }
    numbered
}

fn with_ending(path: &Path, ending: &str) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::files::testing::names;

    #[test]
    fn nothing_is_overwritten_and_each_file_has_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        for text in ["one", "two"] {
            std::fs::write(from.join("x.json"), text).unwrap();
            assert!(put_aside(&from.join("x.json"), &to, Some(&Reason::new("x.json", text))).unwrap());
        }
        assert!(!put_aside(&from.join("x.json"), &to, Some(&Reason::new("x.json", "none"))).unwrap());
        assert_eq!(names(&to), ["x.json", "x.json.2", "x.json.2.reason.json", "x.json.reason.json"]);
        let reason: Reason =
            serde_json::from_slice(&std::fs::read(to.join("x.json.2.reason.json")).unwrap()).unwrap();
        assert_eq!((reason.name.as_str(), reason.reason.as_str()), ("x.json", "two"));
    }

    #[test]
    fn a_directory_that_may_be_renamed_but_not_moved_stays_under_a_name_that_nothing_looks_for() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for path in [&from, &to] {
            std::fs::create_dir_all(path).unwrap();
        }
        let nobody = nix::unistd::Uid::from_raw(65_534);
        let is_root = nix::unistd::geteuid().is_root();
        if is_root {
            for path in [dir.path(), &from, &to] {
                std::os::unix::fs::chown(path, Some(nobody.as_raw()), None).unwrap();
            }
        }
        for text in ["one", "two"] {
            std::fs::create_dir(from.join("x.json")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
            std::fs::set_permissions(from.join("x.json"), mode).unwrap();
            let put = || {
                if is_root {
                    // Root may move everything; the user of file access is that of a thread.
                    nix::unistd::setfsuid(nobody);
                }
                put_aside(&from.join("x.json"), &to, Some(&Reason::new("x.json", text)))
            };
            let put = std::thread::scope(|scope| scope.spawn(put).join().unwrap());
            assert!(put.unwrap());
        }
        assert_eq!(names(&from), ["x.json.rejected", "x.json.rejected.2"]);
        assert_eq!(names(&to), ["x.json.reason.json"]);
    }

    #[test]
    fn a_file_that_lies_there_already_is_only_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        for _ in 0..2 {
            std::fs::write(from.join("x.json"), "same").unwrap();
            assert!(put_aside(&from.join("x.json"), &to, None).unwrap());
        }
        assert_eq!((names(&from).len(), names(&to)), (0, vec!["x.json".to_owned()]));
    }

    #[test]
    fn a_name_of_any_bytes_and_of_full_length_can_be_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        let name = OsString::from_vec([&[0xff; 250][..], b".json"].concat());
        std::fs::create_dir(from.join(&name)).unwrap();
        assert!(put_aside(&from.join(&name), &to, Some(&Reason::new("odd", "a directory"))).unwrap());
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2);
    }
}
