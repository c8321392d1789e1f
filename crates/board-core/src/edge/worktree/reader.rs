//! A clean tree of a commit for those that only read (review, research, split), and the proof that they did.
//!
//! Made with a private index and `read-tree -u`, since `git archive` obeys `export-ignore` and would leave out
//! what the repository's attributes name. It has no git directory.
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use sha1::{Digest, Sha1};

use crate::edge::git::{Git, GitError, Oid, Place, PrivateIndex, at};

/// Most files, links and directories that a fingerprint takes.
const MAX_ENTRIES: usize = 2_000_000;

/// One thing in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Print {
    /// A file with its permissions and the SHA-1 of its content.
    File {
        /// Permission bits.
        mode: u32,
        /// SHA-1 of the content.
        sha1: [u8; 20],
    },
    /// A file that cannot be read.
    Unreadable {
        /// Permission bits.
        mode: u32,
    },
    /// A link with its target.
    Link(PathBuf),
    /// A directory with its permissions.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A socket, a pipe, a device.
    Other,
}

/// What is in a tree, by path relative to its top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(pub BTreeMap<PathBuf, Print>);

/// A path at which two fingerprints differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It is new.
    Added(PathBuf),
    /// It is gone.
    Removed(PathBuf),
    /// Its content, permissions or kind changed.
    Changed(PathBuf),
}

/// Writes the files of a commit into `dest`, which must be missing or empty. Modes and links are kept,
/// submodules become empty directories. A repository with filters was refused when it was opened, so open it for this.
///
/// # Errors
/// It is not empty, there is no such commit, the disk is full, or git fails; `dest` may hold a part then.
pub fn readers_tree(git: &Git, commit: &Oid, dest: &Path) -> Result<(), GitError> {
    std::fs::create_dir_all(dest).map_err(at(dest))?;
    let dest = dest.canonicalize().map_err(at(dest))?;
    if std::fs::read_dir(&dest).map_err(at(&dest))?.next().is_some() {
        return Err(at(&dest)(io::ErrorKind::DirectoryNotEmpty.into()));
    }
    // The new directory is the work tree, so that attributes are the commit's and not those of a checkout.
    let place = Place { git_dir: git.common_dir().to_owned(), work_tree: dest };
    let index = PrivateIndex::new(git);
    let call = git.call_at(&place, ["read-tree", "--reset", "-u", commit.as_str()]);
    call.index(index.path()).config("core.sparseCheckout=false").success().map(drop)
}

/// Takes the fingerprint of a tree. Links are not followed.
///
/// # Errors
/// A directory cannot be read, or there are more than two million entries.
pub fn tree_fingerprint(root: &Path) -> Result<Fingerprint, GitError> {
    let mut prints = BTreeMap::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let absolute = root.join(&dir);
        for entry in std::fs::read_dir(&absolute).map_err(at(&absolute))? {
            let entry = entry.map_err(at(&absolute))?;
            let path = dir.join(entry.file_name());
            let metadata = entry.metadata().map_err(at(&entry.path()))?;
            let mode = metadata.permissions().mode() & 0o7777;
            let print = if metadata.is_dir() {
                dirs.push(path.clone());
                Print::Directory { mode }
            } else if metadata.is_symlink() {
                Print::Link(std::fs::read_link(entry.path()).map_err(at(&entry.path()))?)
            } else if metadata.is_file() {
                sha1_of(&entry.path()).map_or(Print::Unreadable { mode }, |sha1| Print::File { mode, sha1 })
            } else {
                Print::Other
            };
            prints.insert(path, print);
            if prints.len() > MAX_ENTRIES {
                return Err(at(root)(io::ErrorKind::FileTooLarge.into()));
            }
        }
    }
    Ok(Fingerprint(prints))
}

impl Fingerprint {
    /// What is otherwise in `after`, sorted by path within added or changed, then removed.
    #[must_use]
    pub fn differences(&self, after: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        for (path, print) in &after.0 {
            match self.0.get(path) {
                None => found.push(Difference::Added(path.clone())),
                Some(before) if before != print => found.push(Difference::Changed(path.clone())),
                Some(_) => {}
            }
        }
        let gone = self.0.keys().filter(|path| !after.0.contains_key(*path));
        found.extend(gone.map(|path| Difference::Removed(path.clone())));
        found
    }
}

fn sha1_of(path: &Path) -> io::Result<[u8; 20]> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha1::new(), vec![0; 64 << 10]);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::git::testing::Fixture;

    #[test]
    fn a_readers_tree_has_all_files_with_their_modes_and_no_git_directory() {
        let fixture = Fixture::with_commit();
        fixture.write(".gitattributes", "hidden export-ignore\n*.txt export-subst eol=crlf\n");
        fixture.write("hidden", "x\n");
        fixture.write("a.txt", "$Format:%H$\n");
        fixture.write("-run ü", "#!/bin/sh\n");
        std::fs::set_permissions(fixture.repo().join("-run ü"), PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("README", fixture.repo().join("link")).unwrap();
        fixture.run(&["add", "-A"]);
        fixture.run(&["commit", "-q", "-m", "all"]);
        let git = fixture.git();
        let tip = git.branch_tip("main").unwrap().unwrap();
        // Neither the attributes nor the state of the operator's checkout count.
        fixture.write(".gitattributes", "* text working-tree-encoding=UTF-16\n");
        let dest = fixture.dir().join("tree");
        readers_tree(&git, &tip, &dest).unwrap();
        let print = tree_fingerprint(&dest).unwrap();
        let names: Vec<_> = print.0.keys().map(|path| path.to_str().unwrap()).collect();
        let expected = [
            "-run ü",
            ".gitattributes",
            "README",
            "a.txt",
            "docs",
            "docs/board",
            "docs/board/a.yaml",
            "hidden",
            "link",
        ];
        assert_eq!(names, expected);
        assert_eq!(std::fs::read_to_string(dest.join("a.txt")).unwrap(), "$Format:%H$\r\n");
        assert!(matches!(print.0[Path::new("-run ü")], Print::File { mode, .. } if mode & 0o100 != 0));
        assert_eq!(print.0[Path::new("link")], Print::Link("README".into()));
        assert!(readers_tree(&git, &tip, &dest).is_err(), "it is not empty");
        assert_eq!(fixture.run(&["status", "--porcelain", "--", "README"]), "");
    }

    #[test]
    fn a_fingerprint_tells_what_a_reader_changed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["same", "content", "mode", "gone"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("/a", dir.path().join("link")).unwrap();
        let before = tree_fingerprint(dir.path()).unwrap();
        assert!(before.differences(&tree_fingerprint(dir.path()).unwrap()).is_empty());
        std::fs::write(dir.path().join("content"), "CONTENT").unwrap();
        std::fs::set_permissions(dir.path().join("mode"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::remove_file(dir.path().join("gone")).unwrap();
        std::fs::create_dir(dir.path().join("new")).unwrap();
        std::fs::remove_file(dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/b", dir.path().join("link")).unwrap();
        let changed = |name: &str| Difference::Changed(name.into());
        let found = before.differences(&tree_fingerprint(dir.path()).unwrap());
        let added = Difference::Added("new".into());
        let expected =
            [changed("content"), changed("link"), changed("mode"), added, Difference::Removed("gone".into())];
        assert_eq!(found, expected);
    }
}
