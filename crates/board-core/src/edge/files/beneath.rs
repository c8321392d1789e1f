//! Reading and writing below a root that an agent, or somebody in the shared group, can reach.
//!
//! Every step is taken from a directory that is already open, and the kernel refuses to leave the root or to
//! follow any link (openat2). A link that is swapped in between a check and a write therefore changes nothing:
//! there is no second look-up of a path.
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, RenameFlags, ResolveFlag, open, openat, openat2, renameat, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use uuid::Uuid;

use super::FileError;
use super::read::{Read, flags, found_instead, read_opened};

/// How the names of our temporary files in a checkout end; strays are removed at start (storage.md).
pub const TEMPORARY_SUFFIX: &str = ".board-agent.tmp";

/// Tries of an openat2 that a rename somewhere on the way disturbed (EAGAIN).
const DISTURBED_TRIES: u32 = 32;

/// Opens `path` below `root` for reading. Only whole names lead on: no `..`, no link on the way or at the end.
///
/// # Errors
/// [`FileError`]; ELOOP for a link, EXDEV for a path that leaves the root.
pub fn open_beneath(root: &Path, path: &Path) -> Result<File, FileError> {
    let root_fd = open_root(root)?;
    let fd = resolve(&root_fd, path, OFlag::O_RDONLY | flags())
        .map_err(|errno| FileError::new("open", root.join(path), errno))?;
    Ok(File::from(fd))
}

/// Reads a regular file of at most `limit` bytes below `root`. What is not one is a value, as in
/// [`super::read::open_regular_nofollow`]; a link on the way counts as a link.
///
/// # Errors
/// [`FileError`] for what the system refuses otherwise.
pub fn read_beneath(root: &Path, path: &Path, limit: u64) -> Result<Read, FileError> {
    match open_beneath(root, path) {
        Ok(file) => read_opened(file, &root.join(path), limit),
        Err(error) => found_instead(&error.source).ok_or(error),
    }
}

/// Writes a new file below `root`, with its missing directories: temporary file in the opened directory, sync,
/// rename without replacing, sync of the directory. Its permissions are those that the umask leaves.
///
/// # Errors
/// [`FileError`]; [`FileError::is_exists`] if the name is taken, and then nothing is changed.
pub fn write_beneath_new(root: &Path, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let place = Place::open(root, path)?;
    place.write(bytes, None, |dir, temporary, name| {
        renameat2(dir, temporary, dir, name, RenameFlags::RENAME_NOREPLACE)
    })
}

/// Replaces a file below `root`, or makes it, with its missing directories. Readers see the old bytes or the
/// new ones. A link of that name is replaced, not followed; the permissions of a regular file are kept.
///
/// # Errors
/// [`FileError`]; the old file is then still there.
pub fn replace_beneath(root: &Path, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let place = Place::open(root, path)?;
    let old = resolve(&place.dir, Path::new(&place.name), OFlag::O_RDONLY | flags());
    let mode = old.ok().and_then(|fd| File::from(fd).metadata().ok()).filter(|meta| meta.is_file());
    let mode = mode.map(|meta| meta.mode() & 0o777);
    place.write(bytes, mode, |dir, temporary, name| renameat(dir, temporary, dir, name))
}

/// A name in an opened directory below a root.
struct Place {
    dir: OwnedFd,
    name: OsString,
    shown: PathBuf,
}

impl Place {
    /// Opens the directory of `path`, making what is missing of it.
    fn open(root: &Path, path: &Path) -> Result<Place, FileError> {
        let shown = root.join(path);
        let bad =
            |what: &str| FileError::new("write", &shown, io::Error::new(io::ErrorKind::InvalidInput, what));
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
                    return Err(bad("the path is not one of whole names below the root"));
                }
            }
        }
        let name = names.pop().ok_or_else(|| bad("the path is empty"))?.to_owned();
        let mut dir = open_root(root)?;
        for step in names {
            dir =
                enter(&dir, step).map_err(|errno| FileError::new("open the directory of", &shown, errno))?;
        }
        Ok(Place { dir, name, shown })
    }

    fn write(
        &self,
        bytes: &[u8],
        mode: Option<u32>,
        rename: impl Fn(&OwnedFd, &OsStr, &OsStr) -> nix::Result<()>,
    ) -> Result<(), FileError> {
        let temporary = OsString::from(format!(".{}{TEMPORARY_SUFFIX}", Uuid::new_v4().simple()));
        let failed = |op| move |source: io::Error| FileError::new(op, &self.shown, source);
        let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.dir, temporary.as_os_str(), create, Mode::from_bits_truncate(0o666))
            .map_err(|errno| failed("create")(errno.into()))?;
        let mut file = File::from(fd);
        let permissions = || match mode {
            Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode)),
            None => Ok(()),
        };
        let done = permissions()
            .and_then(|()| file.write_all(bytes))
            .map_err(failed("write"))
            .and_then(|()| file.sync_all().map_err(failed("sync")))
            .and_then(|()| {
                rename(&self.dir, &temporary, &self.name).map_err(|errno| failed("write")(errno.into()))
            });
        if let Err(error) = done {
            // Best effort; a stray is removed at the next start.
            let _ = unlinkat(&self.dir, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
            return Err(error);
        }
        nix::unistd::fsync(self.dir.as_fd()).map_err(|errno| failed("sync the directory of")(errno.into()))
    }
}

fn open_root(root: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(root, flags, Mode::empty()).map_err(|errno| FileError::new("open", root, errno))
}

/// Opens a directory of the opened one, made if it is missing.
fn enter(dir: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match resolve(dir, Path::new(name), flags) {
        Err(Errno::ENOENT) => {
            match mkdirat(dir, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) => nix::unistd::fsync(dir.as_fd())?,
                // Another writer was faster.
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
            resolve(dir, Path::new(name), flags)
        }
        other => other,
    }
}

fn resolve(dir: &OwnedFd, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    let mut tries = 0;
    loop {
        match openat2(dir, path, how) {
            // The kernel saw a rename on the way and does not vouch for what it found.
            Err(Errno::EAGAIN) if tries < DISTURBED_TRIES => tries += 1,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::edge::files::{Kind, list_dir};

    #[test]
    fn a_new_file_is_written_with_its_directories_and_leaves_no_temporary() {
        let root = tempfile::tempdir().unwrap();
        write_beneath_new(root.path(), Path::new("docs/intent/x.md"), b"one").unwrap();
        let again = write_beneath_new(root.path(), Path::new("docs/intent/x.md"), b"two").unwrap_err();
        assert!(again.is_exists(), "{again}");
        replace_beneath(root.path(), Path::new("docs/intent/x.md"), b"three").unwrap();
        let Read::Bytes(file) = read_beneath(root.path(), Path::new("docs/intent/x.md"), 5).unwrap() else {
            panic!()
        };
        assert_eq!(file.bytes, b"three");
        assert_eq!(list_dir(&root.path().join("docs/intent")).unwrap().len(), 1);
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        std::fs::write(&path, "one").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        replace_beneath(root.path(), Path::new("x"), b"two").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o664);
    }

    #[test]
    fn no_path_and_no_link_leads_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path(), root.path().join("way")).unwrap();
        symlink(outside.path().join("secret"), root.path().join("leaf")).unwrap();
        for bad in ["../x", "/etc/x", "a/../../x", "", ".", "way/x", "way/../x"] {
            assert!(write_beneath_new(root.path(), Path::new(bad), b"x").is_err(), "{bad}");
            assert!(replace_beneath(root.path(), Path::new(bad), b"x").is_err(), "{bad}");
        }
        for bad in ["way/secret", "leaf"] {
            let found = read_beneath(root.path(), Path::new(bad), 10).unwrap();
            assert_eq!(found, Read::NotRegular(Kind::Link), "{bad}");
        }
        assert!(open_beneath(root.path(), Path::new("../secret")).is_err());
        replace_beneath(root.path(), Path::new("leaf"), b"mine").unwrap();
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"s");
        assert_eq!(list_dir(outside.path()).unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_regular_file_is_told_and_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&root.path().join("fifo"), Mode::S_IRWXU).unwrap();
        let read = |name: &str| read_beneath(root.path(), Path::new(name), 10).unwrap();
        assert_eq!(read("fifo"), Read::NotRegular(Kind::Special));
        assert_eq!(read("."), Read::NotRegular(Kind::Directory));
        assert_eq!(read("none/such"), Read::Missing);
    }

    #[test]
    fn a_link_swapped_in_during_writes_never_lets_one_escape() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let (dir, link) = (root.path().join("docs"), root.path().join("link"));
        std::fs::create_dir(&dir).unwrap();
        symlink(outside.path(), &link).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let at = nix::fcntl::AT_FDCWD;
                    renameat2(at, &dir, at, &link, RenameFlags::RENAME_EXCHANGE).unwrap();
                }
            });
            for round in 0..500 {
                // Refused or written inside; both are fine.
                let _ = replace_beneath(root.path(), Path::new("docs/x.md"), format!("{round}").as_bytes());
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(list_dir(outside.path()).unwrap().is_empty());
    }
}
