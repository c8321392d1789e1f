//! Reading a file that somebody else may have put there: never through a link, never a fifo, never without a
//! limit.
//!
//! Apart from the rest because here what is found is a value to decide on, not an error: a queue full of
//! strange files must go on.
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{FileError, Kind};
use crate::model::time::Timestamp;

/// A regular file, read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regular {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its owner.
    pub uid: u32,
    /// Number of its names; more than one means that somebody else can reach it elsewhere.
    pub links: u64,
    /// When it was last written.
    pub modified: Timestamp,
}

/// What was found under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A regular file within the limit.
    Bytes(Regular),
    /// Something else; it was not opened.
    NotRegular(Kind),
    /// A regular file beyond the limit; it was not read.
    TooLarge {
        /// Its size in bytes, as far as it is known.
        size: u64,
    },
    /// The service user may not read it.
    Denied,
    /// Nothing, or no longer.
    Missing,
}

/// Reads a regular file of at most `limit` bytes, without following a link and without ever waiting.
///
/// # Errors
/// [`FileError`] for what the system refuses otherwise, for example EIO.
pub fn open_regular_nofollow(path: &Path, limit: u64) -> Result<Read, FileError> {
    // Looked at before it is opened: opening a device can do something already.
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => return Ok(Read::NotRegular(Kind::of(meta.file_type()))),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Missing),
        Err(error) => return Err(FileError::new("look at", path, error)),
    }
    // And again by descriptor afterwards: it may have been swapped in between.
    let opened = OpenOptions::new().read(true).custom_flags(flags().bits()).open(path);
    match opened {
        Ok(file) => read_opened(file, path, limit),
        Err(error) => found_instead(&error).ok_or_else(|| FileError::new("open", path, error)),
    }
}

/// No link, no waiting for a fifo's other end, no controlling terminal, no descriptor for children.
pub(super) fn flags() -> OFlag {
    OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

/// What an error of opening tells about the file.
pub(super) fn found_instead(error: &io::Error) -> Option<Read> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => Some(Read::Missing),
        Some(Errno::ELOOP) => Some(Read::NotRegular(Kind::Link)),
        Some(Errno::ENXIO | Errno::ENODEV) => Some(Read::NotRegular(Kind::Special)),
        Some(Errno::EACCES | Errno::EPERM) => Some(Read::Denied),
        Some(_) | None => None,
    }
}

pub(super) fn read_opened(file: File, path: &Path, limit: u64) -> Result<Read, FileError> {
    let failed = FileError::at("read", path);
    let meta = file.metadata().map_err(&failed)?;
    if !meta.is_file() {
        return Ok(Read::NotRegular(Kind::of(meta.file_type())));
    }
    if meta.len() > limit {
        return Ok(Read::TooLarge { size: meta.len() });
    }
    // One byte more than allowed, for a file that grows while it is read.
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(&failed)?;
    let size = bytes.len() as u64;
    if size > limit {
        return Ok(Read::TooLarge { size });
    }
    let millis = meta.mtime().saturating_mul(1000).saturating_add(meta.mtime_nsec() / 1_000_000);
    Ok(Read::Bytes(Regular {
        bytes,
        uid: meta.uid(),
        links: meta.nlink(),
        modified: Timestamp::from_millis(millis),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_read_up_to_its_limit_and_not_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "12345").unwrap();
        let Read::Bytes(file) = open_regular_nofollow(&path, 5).unwrap() else { panic!() };
        assert_eq!((file.bytes.as_slice(), file.links), (b"12345".as_slice(), 1));
        assert_eq!(file.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(open_regular_nofollow(&path, 4).unwrap(), Read::TooLarge { size: 5 });
        assert_eq!(open_regular_nofollow(&dir.path().join("y"), 4).unwrap(), Read::Missing);
    }

    #[test]
    fn links_directories_fifos_sockets_and_devices_are_told_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("dir")).unwrap();
        let kind = |path: &Path| match open_regular_nofollow(path, 10).unwrap() {
            Read::NotRegular(kind) => kind,
            other @ (Read::Bytes(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) => {
                panic!("{path:?}: {other:?}")
            }
        };
        assert_eq!(kind(&at("link")), Kind::Link);
        assert_eq!(kind(&at("dangling")), Kind::Link);
        assert_eq!(kind(&at("fifo")), Kind::Special);
        assert_eq!(kind(&at("socket")), Kind::Special);
        assert_eq!(kind(&at("dir")), Kind::Directory);
        assert_eq!(kind(Path::new("/dev/null")), Kind::Special);
    }
}
