//! Trees and blobs, read and written without a work tree.
//!
//! One `git cat-file --batch` answers all questions of a method: starting a program costs more than reading.
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    Git, GitError, Oid, at,
    parse::{self, RawEntry},
    refs::understood,
    session::Session,
};

/// Largest tree object that is read, in bytes: some 200,000 entries in one directory.
const TREE_LIMIT: usize = 16 << 20;

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file (100644, 100755); the only kind that the board reads.
    File {
        /// 100755.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// 120000: refused as a document, since its content is a path that somebody chose.
    Symlink,
    /// 160000: a submodule; refused, its files are in another repository.
    Submodule,
    /// A mode that git does not write today.
    Unknown,
}

/// An entry of a directory of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Its object.
    pub oid: Oid,
    /// Size in bytes, of files.
    pub size: Option<u64>,
    /// Name without the directory.
    pub name: PathBuf,
}

/// A file at a path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobAt {
    /// Its object.
    pub oid: Oid,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl EntryKind {
    pub(crate) fn of_mode(mode: &str) -> Self {
        match mode {
            "100644" | "100664" => Self::File { executable: false },
            "100755" => Self::File { executable: true },
            "40000" | "040000" => Self::Directory,
            "120000" => Self::Symlink,
            "160000" => Self::Submodule,
            _ => Self::Unknown,
        }
    }
}

/// A `git cat-file --batch` that is asked object by object.
#[derive(Debug)]
pub(crate) struct Objects {
    session: Session,
    raw_length: usize,
}

/// An object as it is stored.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) oid: Oid,
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
}

impl Objects {
    /// Objects larger than `limit` bytes (trees: [`TREE_LIMIT`], if that is more) are an error.
    pub(crate) fn open(git: &Git, limit: usize) -> Result<Self, GitError> {
        let session = git.call(["cat-file", "--batch"]).read().limit(limit.max(TREE_LIMIT)).session()?;
        Ok(Self { session, raw_length: git.digits / 2 })
    }

    /// The object of a name without line ends, or nothing.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Object>, GitError> {
        self.session.send(format!("{name}\n").as_bytes())?;
        let line = self.session.line()?;
        if line == format!("{name} missing") {
            return Ok(None);
        }
        let words: Vec<&str> = line.split(' ').collect();
        let header = match words[..] {
            [oid, kind, size] => {
                Oid::parse(oid).ok().zip(size.parse::<usize>().ok()).map(|(oid, size)| (oid, kind, size))
            }
            _ => None,
        };
        let Some((oid, kind, size)) = header else { return Err(self.session.broken(&line)) };
        let mut bytes = self.session.bytes(size + 1)?;
        bytes.pop();
        Ok(Some(Object { oid, kind: kind.to_owned(), bytes }))
    }

    /// The entries of a tree, by any name that leads to one.
    pub(crate) fn tree(&mut self, name: &str) -> Result<Option<Vec<RawEntry>>, GitError> {
        let Some(object) = self.object(name)?.filter(|object| object.kind == "tree") else { return Ok(None) };
        match parse::parse_tree(&object.bytes, self.raw_length) {
            Ok(entries) => Ok(Some(entries)),
            Err(what) => Err(self.session.broken(&what)),
        }
    }

    /// The entry at a path of a commit or tree. Nothing is followed: a symlink on the way is no directory.
    pub(crate) fn entry(&mut self, root: &Oid, path: &str) -> Result<Option<RawEntry>, GitError> {
        let mut tree = format!("{root}^{{tree}}");
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let Some(object) = self.object(&tree)?.filter(|object| object.kind == "tree") else {
                return Ok(None);
            };
            let entry = parse::find_in_tree(&object.bytes, self.raw_length, part.as_bytes())
                .map_err(|what| self.session.broken(&what))?;
            let Some(entry) = entry else { return Ok(None) };
            if parts.peek().is_none() {
                return Ok(Some(entry));
            }
            if EntryKind::of_mode(&entry.mode) != EntryKind::Directory {
                return Ok(None);
            }
            tree = entry.oid.to_string();
        }
        Ok(None)
    }

    pub(crate) fn finish(self) -> Result<(), GitError> {
        self.session.finish()
    }
}

impl Git {
    /// The entries of a directory of a commit (`""`: the root), in git's order; none if there is no such directory.
    ///
    /// # Errors
    /// A path that leaves the tree, or git fails.
    pub fn ls_tree(&self, commit: &Oid, dir: &str) -> Result<Vec<TreeEntry>, GitError> {
        let call = self.call(["ls-tree", "-z", "-l", "--full-tree", "--end-of-options", commit.as_str()]);
        let call = match dir {
            "" => call,
            _ => {
                plain_path(dir)?;
                call.args([format!("{dir}/")])
            }
        };
        let entries = understood(self, "git ls-tree", parse::parse_ls_tree(&call.read().success()?))?;
        let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
        let entry = |(raw, size): (RawEntry, Option<u64>)| TreeEntry {
            kind: EntryKind::of_mode(&raw.mode),
            oid: raw.oid,
            size,
            name: parse::path_of(raw.name.get(skip..).unwrap_or_default()),
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    /// The bytes of a blob.
    ///
    /// # Errors
    /// There is no such blob, it is larger than `limit`, or git fails.
    pub fn read_blob(&self, blob: &Oid, limit: usize) -> Result<Vec<u8>, GitError> {
        let mut found = self.read_blobs(std::slice::from_ref(blob), limit)?;
        let missing = || GitError::BadName { what: "blob of this repository", name: blob.to_string() };
        found.remove(blob).ok_or_else(missing)
    }

    /// The bytes of many blobs with one call; what is missing, or no blob, is left out.
    ///
    /// # Errors
    /// One is larger than `limit`, or git fails.
    pub fn read_blobs(&self, blobs: &[Oid], limit: usize) -> Result<BTreeMap<Oid, Vec<u8>>, GitError> {
        let mut objects = Objects::open(self, limit)?;
        let mut found = BTreeMap::new();
        for blob in blobs {
            if let Some(object) = objects.object(blob.as_str())?.filter(|object| object.kind == "blob") {
                self.check_size(blob.as_str(), object.bytes.len(), limit)?;
                found.insert(blob.clone(), object.bytes);
            }
        }
        objects.finish()?;
        Ok(found)
    }

    /// The regular file at a path of a commit; nothing if there is none, or something else.
    ///
    /// # Errors
    /// A path that leaves the tree, a file larger than `limit`, or git fails.
    pub fn read_path(&self, commit: &Oid, path: &str, limit: usize) -> Result<Option<BlobAt>, GitError> {
        plain_path(path)?;
        let mut objects = Objects::open(self, limit)?;
        let found = match objects.entry(commit, path)? {
            Some(entry) if matches!(EntryKind::of_mode(&entry.mode), EntryKind::File { .. }) => objects
                .object(entry.oid.as_str())?
                .map(|object| BlobAt { oid: entry.oid, bytes: object.bytes }),
            Some(_) | None => None,
        };
        objects.finish()?;
        if let Some(blob) = &found {
            self.check_size(path, blob.bytes.len(), limit)?;
        }
        Ok(found)
    }

    fn check_size(&self, object: &str, size: usize, limit: usize) -> Result<(), GitError> {
        if size <= limit {
            return Ok(());
        }
        Err(GitError::TooLarge { repository: self.top_level.clone(), command: object.to_owned(), limit })
    }

    /// Writes a blob so that it is still there after a power cut, and gives its name.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        let blob = self.store_blob(bytes)?;
        self.sync()?;
        Ok(blob)
    }

    /// Name of the blob that these bytes would be.
    ///
    /// # Errors
    /// If git fails.
    pub fn hash_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        let output = self.call(["hash-object", "--no-filters", "--stdin"]).stdin(bytes).success()?;
        understood(self, "git hash-object", parse::parse_oid(&output))
    }

    pub(crate) fn store_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        let output = self.call(["hash-object", "-w", "--no-filters", "--stdin"]).stdin(bytes).success()?;
        understood(self, "git hash-object", parse::parse_oid(&output))
    }

    /// Writes several blobs with one call, in order.
    pub(crate) fn store_blobs(&self, contents: &[&[u8]]) -> Result<Vec<Oid>, GitError> {
        match contents {
            [] => return Ok(Vec::new()),
            [one] => return Ok(vec![self.store_blob(one)?]),
            _ => {}
        }
        // hash-object reads many only from files; the directory goes with the value, also on an error.
        let dir = ScratchDir::new(self.note_dir())?;
        let mut list = Vec::new();
        for (position, content) in contents.iter().enumerate() {
            let file = dir.0.join(position.to_string());
            std::fs::write(&file, content).map_err(at(&file))?;
            list.extend(file.as_os_str().as_encoded_bytes());
            list.push(b'\n');
        }
        let output =
            self.call(["hash-object", "-w", "--no-filters", "--stdin-paths"]).stdin(list).success()?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let oids = text.lines().map(|line| parse::parse_oid(line.as_bytes())).collect::<Result<Vec<_>, _>>();
        let oids = understood(self, "git hash-object", oids)?;
        let all =
            if oids.len() == contents.len() { Ok(oids) } else { Err("not one name per file".to_owned()) };
        understood(self, "git hash-object", all)
    }
}

/// What the name of a scratch directory begins with.
const SCRATCH: &str = "blobs-";

/// Removes what a crash left; nothing lasts longer than a call, so a day is a crash.
fn remove_strays(parent: &std::path::Path) {
    const STRAY: Duration = Duration::from_secs(24 * 3600);
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().filter(|age| *age > STRAY);
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) && old().is_some() {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory below ours that is removed with the value.
pub(super) struct ScratchDir(pub(super) PathBuf);

impl ScratchDir {
    pub(super) fn new(parent: &std::path::Path) -> Result<Self, GitError> {
        remove_strays(parent);
        let dir = parent.join(format!("{SCRATCH}{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&dir).map_err(at(&dir))?;
        Ok(Self(dir))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Refuses a path that we may not write or that would break the questions to git.
pub(crate) fn plain_path(path: &str) -> Result<(), GitError> {
    if parse::is_plain_path(path) {
        return Ok(());
    }
    Err(GitError::BadName { what: "path in the repository", name: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_with_its_value_and_what_a_crash_left_a_day_later() {
        let dir = tempfile::tempdir().unwrap();
        let now = std::time::SystemTime::now();
        for (name, hours) in [("blobs-young", 23), ("blobs-old", 25), ("other", 25)] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            let file = std::fs::File::open(dir.path().join(name)).unwrap();
            file.set_modified(now - Duration::from_secs(hours * 3600)).unwrap();
        }
        let scratch = ScratchDir::new(dir.path()).unwrap();
        assert!(scratch.0.exists());
        drop(scratch);
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["blobs-young", "other"]);
    }
}
