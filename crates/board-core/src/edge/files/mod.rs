//! Files that survive a power cut: the few primitives that everything durable is made of.
//!
//! Apart, because the order of write, sync and rename is the whole of crash safety and must be looked at in
//! one place. Each error carries its path. All descriptors are close-on-exec, so that no agent inherits one.
//!
//! - here: the error, directories, and what syncs and renames
//! - [`read`]: reading what somebody else may have put there
//! - [`beneath`]: reading and writing below a root that an agent can reach
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use uuid::Uuid;

pub mod beneath;
pub mod read;
#[cfg(test)]
pub(crate) mod testing;

/// An error of the file system, with what was tried on which path.
#[derive(Debug)]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// What was tried, as a verb: "write", "sync".
    pub op: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// Puts an error of the system together with its path.
    pub fn new(op: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> FileError {
        FileError { path: path.into(), op, source: source.into() }
    }

    /// For `map_err`: puts the error together with `path`.
    pub fn at(op: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
        move |source| FileError::new(op, path, source)
    }

    fn errno(&self) -> Option<Errno> {
        self.source.raw_os_error().map(Errno::from_raw)
    }

    /// The disk or the quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.errno(), Some(Errno::ENOSPC | Errno::EDQUOT))
    }

    /// The file system is mounted read-only, or the device fails; writing may work again later.
    pub fn is_read_only(&self) -> bool {
        matches!(self.errno(), Some(Errno::EROFS | Errno::EIO))
    }

    /// There is no such file.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// The name is taken.
    pub fn is_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// The service user may not do this.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {} {}: {}", self.op, self.path.display(), self.source)
    }
}

/// Its message holds the cause already, so it names none again.
impl std::error::Error for FileError {}

/// A directory that the service cannot work in.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Somebody else owns it, so somebody else decides what is in it.
    #[error("{} belongs to uid {owner}, but this program runs as uid {ours}; chown it or change the user of the service", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who we are.
        ours: u32,
    },
    /// Something else lies there, for example a symbolic link.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be looked at or made.
    #[error(transparent)]
    File(#[from] FileError),
}

impl DirError {
    /// Whether the disk is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            DirError::Foreign { .. } | DirError::NotADirectory { .. } => false,
            DirError::File(error) => error.is_no_space(),
        }
    }

    /// Whether the file system is read-only or failing.
    pub fn is_read_only(&self) -> bool {
        match self {
            DirError::Foreign { .. } | DirError::NotADirectory { .. } => false,
            DirError::File(error) => error.is_read_only(),
        }
    }
}

/// Makes the entries of a directory durable.
///
/// # Errors
/// [`FileError`] if it cannot be opened or synced.
pub fn sync_dir(dir: &Path) -> Result<(), FileError> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(FileError::at("sync", dir))
}

/// Makes a directory and its missing parents, each for its owner alone (0700), and syncs what they were
/// made in. Those that are there stay as they are.
///
/// # Errors
/// [`FileError`] with the path that could not be made.
pub fn create_dirs_private(dir: &Path) -> Result<(), FileError> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_dirs_private(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => sync_dir(parent),
            None => Ok(()),
        },
        // Another process of ours was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(FileError::new("make the directory", dir, error)),
    }
}

/// Checks that a directory is one, is ours, and opens no more than the permission bits in `most`; bits beyond
/// are taken away, since what is ours we may close.
///
/// # Errors
/// [`DirError`] if it belongs to somebody else or is no directory; symbolic links are not followed.
pub fn check_owned_dir(dir: &Path, most: u32) -> Result<(), DirError> {
    let meta = std::fs::symlink_metadata(dir).map_err(FileError::at("look at", dir))?;
    if !meta.is_dir() {
        return Err(DirError::NotADirectory { path: dir.to_owned() });
    }
    let ours = nix::unistd::geteuid().as_raw();
    if meta.uid() != ours {
        return Err(DirError::Foreign { path: dir.to_owned(), owner: meta.uid(), ours });
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o777 & !most != 0 {
        let closed = std::fs::Permissions::from_mode(mode & (most | 0o7000));
        std::fs::set_permissions(dir, closed).map_err(FileError::at("close to others", dir))?;
    }
    Ok(())
}

/// A name for a temporary file that nobody else has: `<name>.<random>.tmp`.
pub fn temporary_name(name: &OsStr) -> OsString {
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", Uuid::new_v4().simple()));
    temporary
}

/// Writes a new file (0600) with create-new and syncs it. What was written is removed again on an error.
///
/// # Errors
/// [`FileError`]; [`FileError::is_exists`] if the name is taken.
pub fn write_new_synced(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(FileError::at("create", path))?;
    let written = file.write_all(bytes).map_err(FileError::at("write", path));
    let synced = written.and_then(|()| file.sync_all().map_err(FileError::at("sync", path)));
    if synced.is_err() {
        // Best effort: on a full disk the space is what the next attempt needs.
        let _ = std::fs::remove_file(path);
    }
    synced
}

/// Writes a new file `name` into `dir` by way of `staging` on the same file system: temporary file, sync,
/// rename without replacing, sync of `dir`. Readers see the whole file or none, also after a power cut.
///
/// # Errors
/// [`FileError`]; [`FileError::is_exists`] if the name is taken, and then nothing is changed.
pub fn write_new_durable(staging: &Path, dir: &Path, name: &str, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = stage(staging, name, bytes)?;
    let target = dir.join(name);
    if let Err(error) = rename_noreplace(&temporary, &target) {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    sync_dir(dir)
}

/// The first half of [`write_new_durable`]: the synced temporary file, ready to be renamed.
///
/// # Errors
/// [`FileError`].
pub fn stage(staging: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
    let temporary = staging.join(temporary_name(OsStr::new(name)));
    write_new_synced(&temporary, bytes)?;
    Ok(temporary)
}

/// Replaces a file, or makes it: temporary file in the same directory, sync, rename, sync of the directory.
/// Readers see the old bytes or the new ones.
///
/// # Errors
/// [`FileError`]; the old file is then still there.
pub fn replace_durable(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    replace_unsynced_dir(path, bytes)?;
    sync_dir(parent_of(path))
}

fn replace_unsynced_dir(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_file_name(temporary_name(path.file_name().unwrap_or_default()));
    write_new_synced(&temporary, bytes)?;
    std::fs::rename(&temporary, path).map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        FileError::new("replace", path, error)
    })
}

/// Replaces a file atomically for readers, but without any sync: for what a crash may take, like progress.
///
/// # Errors
/// [`FileError`]; the old file is then still there.
pub fn replace_volatile(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_file_name(temporary_name(path.file_name().unwrap_or_default()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        FileError::new("replace", path, error)
    })
}

/// Renames within one file system; a file that has the new name is never replaced.
///
/// # Errors
/// [`FileError`]; [`FileError::is_exists`] names the target, [`FileError::is_not_found`] the source.
pub fn rename_noreplace(from: &Path, to: &Path) -> Result<(), FileError> {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE).map_err(|errno| {
        let path = if errno == Errno::EEXIST { to } else { from };
        FileError::new("move", path, errno)
    })
}

/// [`rename_noreplace`], then sync of the directory that the file came to, then of the one that it left: a
/// power cut may leave it in both, never in neither.
///
/// # Errors
/// As [`rename_noreplace`]; also if a directory cannot be synced, and then the file has moved.
pub fn rename_sync(from: &Path, to: &Path) -> Result<(), FileError> {
    rename_noreplace(from, to)?;
    let (source, target) = (parent_of(from), parent_of(to));
    sync_dir(target)?;
    if source != target { sync_dir(source) } else { Ok(()) }
}

/// Removes a file and syncs its directory; a file that is gone already counts as removed.
///
/// # Errors
/// [`FileError`].
pub fn remove_durable(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_dir(parent_of(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new("remove", path, error)),
    }
}

/// The directory of a path; `.` for a bare name.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// What lies under a name, looked at without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, also a dangling one.
    Link,
    /// A fifo, a socket or a device.
    Special,
}

impl Kind {
    pub(crate) fn of(kind: std::fs::FileType) -> Kind {
        if kind.is_file() {
            Kind::File
        } else if kind.is_dir() {
            Kind::Directory
        } else if kind.is_symlink() {
            Kind::Link
        } else {
            Kind::Special
        }
    }

    /// In words, with its article.
    pub fn words(self) -> &'static str {
        match self {
            Kind::File => "a regular file",
            Kind::Directory => "a directory",
            Kind::Link => "a symbolic link",
            Kind::Special => "a fifo, a socket or a device",
        }
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, which need not be UTF-8.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
}

/// The entries of a directory by name, none of them opened.
///
/// # Errors
/// [`FileError`]; [`FileError::is_not_found`] if there is no such directory.
pub fn list_dir(dir: &Path) -> Result<Vec<Entry>, FileError> {
    let failed = FileError::at("list", dir);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        match entry.file_type() {
            Ok(kind) => entries.push(Entry { name: entry.file_name(), kind: Kind::of(kind) }),
            // Moved away between the two calls.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::new("look at", entry.path(), error)),
        }
    }
    entries.sort();
    Ok(entries)
}

/// Whether something has this name, links not followed.
///
/// # Errors
/// [`FileError`] if that cannot be told.
pub fn exists(path: &Path) -> Result<bool, FileError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::new("look at", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::names;
    use super::*;

    #[test]
    fn a_new_file_is_whole_private_and_never_replaces_another() {
        let dir = tempfile::tempdir().unwrap();
        let (staging, target) = (dir.path().join("tmp"), dir.path().join("a/b"));
        create_dirs_private(&staging).unwrap();
        create_dirs_private(&target).unwrap();
        write_new_durable(&staging, &target, "x", b"one").unwrap();
        let taken = write_new_durable(&staging, &target, "x", b"two").unwrap_err();
        assert!(taken.is_exists() && taken.to_string().contains("a/b/x"), "{taken}");
        assert_eq!(std::fs::read(target.join("x")).unwrap(), b"one");
        assert_eq!(std::fs::metadata(target.join("x")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(dir.path().join("a")).unwrap().mode() & 0o777, 0o700);
        assert!(names(&staging).is_empty());
    }

    #[test]
    fn a_replaced_file_leaves_no_temporary_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        replace_durable(&path, b"one").unwrap();
        replace_durable(&path, b"two").unwrap();
        replace_volatile(&path, b"three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(names(dir.path()), ["x"]);
        let lost = replace_durable(&dir.path().join("gone/x"), b"").unwrap_err();
        assert!(lost.is_not_found() && lost.to_string().contains("gone/x."), "{lost}");
    }

    #[test]
    fn a_move_does_not_replace_and_names_what_is_missing_or_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, "a").unwrap();
        std::fs::write(&b, "b").unwrap();
        assert!(rename_sync(&a, &b).unwrap_err().is_exists());
        remove_durable(&b).unwrap();
        remove_durable(&b).unwrap();
        rename_sync(&a, &b).unwrap();
        let gone = rename_sync(&a, &b).unwrap_err();
        assert!(gone.is_not_found() && gone.path == a);
    }

    #[test]
    fn a_listing_tells_kinds_without_opening_anything() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let kinds: Vec<Kind> = list_dir(dir.path()).unwrap().into_iter().map(|e| e.kind).collect();
        assert_eq!(kinds, [Kind::Directory, Kind::Special, Kind::File, Kind::Link]);
        assert!(exists(&dir.path().join("link")).unwrap());
        assert!(!exists(&dir.path().join("nowhere")).unwrap());
    }

    #[test]
    fn an_open_directory_of_ours_is_closed_and_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2775)).unwrap();
        check_owned_dir(&path, 0o711).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o2711);
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        let link = check_owned_dir(&dir.path().join("link"), 0o700);
        assert!(matches!(link, Err(DirError::NotADirectory { .. })));
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_with_both_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = if nix::unistd::geteuid().is_root() {
            let path = dir.path().join("d");
            std::fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            path
        } else {
            PathBuf::from("/")
        };
        let error = check_owned_dir(&path, 0o700).unwrap_err();
        assert!(matches!(error, DirError::Foreign { .. }));
        assert!(error.to_string().contains("belongs to uid"), "{error}");
    }

    #[test]
    fn errors_tell_a_full_disk_from_a_read_only_one() {
        let of = |errno: Errno| FileError::new("write", "/x", errno);
        assert!(of(Errno::ENOSPC).is_no_space() && of(Errno::EDQUOT).is_no_space());
        assert!(of(Errno::EROFS).is_read_only() && of(Errno::EIO).is_read_only());
        assert!(!of(Errno::EACCES).is_no_space() && of(Errno::EACCES).is_denied());
        assert!(of(Errno::ENOSPC).to_string().starts_with("cannot write /x: No space left"));
    }
}
