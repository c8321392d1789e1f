//! What an agent left in a worktree, as a private index over the base commit.
//!
//! The rules for ignored files come from the base commit and not from the work tree, where the agent may have
//! changed them: its `.gitignore` files are given to git under a name that exists nowhere but in a second private
//! index, marked as not checked out, and git reads such files from the index.
use std::{
    collections::BTreeSet,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::WorktreeError;
use crate::edge::git::{
    Call, Git, GitError, Oid, Place, PrivateIndex, at, parse_index, parse_nul_paths, parse_oid, understood,
};

/// Most bytes of a list of paths.
const LIST_LIMIT: usize = 256 << 20;
/// Most planted repositories that an error names.
const MAX_NAMED: usize = 10;

/// What is at a changed path now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Now {
    /// Nothing that git can keep: removed, or a socket, a pipe, a device.
    Gone,
    /// A regular file or a link, with its size in bytes.
    There(u64),
}

/// A path that differs from the base commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// Whether the base commit has a file there.
    pub(super) tracked: bool,
    pub(super) now: Now,
}

/// A private index that holds the base commit, and what differs from it in the work tree.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    git: &'a Git,
    place: &'a Place,
    pub(super) index: PrivateIndex,
    /// Sorted by path.
    pub(super) changes: Vec<Change>,
}

/// What is done with a repository inside the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planted {
    /// The snapshot fails.
    Refuse,
    /// Its files are taken like any others, so that they are not lost; its own git directory is not.
    TakeFiles,
}

/// A call for a worktree: sparse checkouts are turned off, so that a file that is missing is a removed one.
fn call(git: &Git, place: &Place, index: &PrivateIndex, args: &[&str]) -> Call {
    git.call_at(place, args).index(index.path()).config("core.sparseCheckout=false")
}

/// Fails if a repository lies anywhere in the work tree where the base commit's rules ignore nothing.
pub(super) fn refuse_planted(
    git: &Git,
    place: &Place,
    base: &Oid,
    limit: usize,
) -> Result<(), WorktreeError> {
    let index = PrivateIndex::new(git);
    call(git, place, &index, &["read-tree", base.as_str()]).success()?;
    let rules = Rules::of(git, place, &index)?;
    look_for_planted(place, &rules.list(&["--ignored", "--directory"])?, limit)
}

impl<'a> Snapshot<'a> {
    pub(super) fn take(
        git: &'a Git,
        place: &'a Place,
        base: &Oid,
        planted: Planted,
        limit: usize,
    ) -> Result<Self, WorktreeError> {
        git.refuse_new_filters()?;
        let index = PrivateIndex::new(git);
        call(git, place, &index, &["read-tree", base.as_str()]).success()?;
        let rules = Rules::of(git, place, &index)?;
        // Walked in any case: git passes over a directory that cannot be read, and its files would be lost.
        match (look_for_planted(place, &rules.list(&["--ignored", "--directory"])?, limit), planted) {
            (Ok(()), _) | (Err(WorktreeError::Planted { .. }), Planted::TakeFiles) => {}
            (Err(error), _) => return Err(error),
        }
        let mut paths = BTreeSet::new();
        for path in rules.list(&[])? {
            match path.as_os_str().as_bytes().strip_suffix(b"/") {
                // git names a repository inside with a slash and leaves out its files.
                Some(dir) => walk(&place.work_tree, &super::path_of(dir), limit, &mut paths)?,
                None => drop(paths.insert(path)),
            }
        }
        // 1: something needs an update, which is what is asked next.
        let refreshed = call(git, place, &index, &["update-index", "-q", "--refresh"]).run()?;
        if refreshed.code > 1 {
            return Err(refreshed.failure().into());
        }
        // Never into submodules: git would run inside them, under the configuration found there.
        let args = ["diff-files", "--name-only", "-z", "--ignore-submodules=all", "--no-ext-diff"];
        let changed = call(git, place, &index, &args).read().limit(LIST_LIMIT).success()?;
        let tracked: BTreeSet<PathBuf> = parse_nul_paths(&changed).into_iter().collect();
        paths.extend(tracked.iter().cloned());
        let mut changes = Vec::new();
        for path in paths {
            let now = look(&place.work_tree, &path)?;
            changes.push(Change { tracked: tracked.contains(&path), now, path });
        }
        Ok(Self { git, place, index, changes })
    }

    /// Takes those changes into the index for which `wanted` says so, and gives the tree.
    pub(super) fn tree(&self, wanted: impl Fn(&Change) -> bool) -> Result<Oid, GitError> {
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for change in self.changes.iter().filter(|change| wanted(change)) {
            let list = match change.now {
                Now::Gone => &mut gone,
                Now::There(_) => &mut there,
            };
            list.extend(change.path.as_os_str().as_bytes());
            list.push(0);
        }
        // Removals first: a directory may have become a file, or a file a directory.
        for (option, list) in [("--force-remove", gone), ("--add", there)] {
            if !list.is_empty() {
                self.call(&["update-index", option, "-z", "--stdin"]).stdin(list).success()?;
            }
        }
        let output = self.call(&["write-tree"]).success()?;
        understood(self.git, "git write-tree", parse_oid(&output))
    }

    /// The tree with other objects, with their modes, in the place of files, or without them. The index is as before.
    pub(super) fn replace(&self, files: &[(PathBuf, Option<(String, Oid)>)]) -> Result<Oid, GitError> {
        let (mut list, mut paths) = (Vec::new(), Vec::new());
        for (path, object) in files {
            match object {
                Some((mode, oid)) => list.extend(format!("{mode} {oid}\t").bytes()),
                None => list.extend(format!("0 {}\t", "0".repeat(self.git.digits)).bytes()),
            }
            for list in [&mut list, &mut paths] {
                list.extend(path.as_os_str().as_bytes());
                list.push(0);
            }
        }
        self.call(&["update-index", "-z", "--index-info"]).stdin(list).success()?;
        let output = self.call(&["write-tree"]).success()?;
        self.call(&["update-index", "--add", "-z", "--stdin"]).stdin(paths).success()?;
        understood(self.git, "git write-tree", parse_oid(&output))
    }

    /// Makes the private index that of a commit.
    pub(super) fn reset(&self, commit: &Oid) -> Result<(), GitError> {
        // With `-m` the file times of entries that stay the same are kept.
        self.call(&["read-tree", "-m", commit.as_str()]).success().map(drop)
    }

    /// Makes changes undone in the work tree: what is new goes, what the base commit has comes back.
    pub(super) fn put_back(&self, changes: &[&Change]) -> Result<(), GitError> {
        let mut list = Vec::new();
        for change in changes {
            let file = self.place.work_tree.join(&change.path);
            if matches!(look(&self.place.work_tree, &change.path)?, Now::There(_)) {
                std::fs::remove_file(&file).map_err(at(&file))?;
            }
            if change.tracked {
                list.extend(change.path.as_os_str().as_bytes());
                list.push(0);
            }
        }
        if list.is_empty() {
            return Ok(());
        }
        self.call(&["checkout-index", "-f", "-u", "-q", "-z", "--stdin"]).stdin(list).success().map(drop)
    }

    /// Makes the private index the worktree's own, so that a resumed agent sees a clean tree.
    pub(super) fn install_index(&self) -> Result<(), GitError> {
        let index = self.place.git_dir.join("index");
        let new = self.place.git_dir.join("index.board-agent.tmp");
        std::fs::copy(self.index.path(), &new).map_err(at(&new))?;
        std::fs::rename(&new, &index).map_err(at(&index))
    }

    fn call(&self, args: &[&str]) -> Call {
        // Names that only other systems take for `.git`; here they are files like others, and must not be lost.
        let call = call(self.git, self.place, &self.index, args);
        call.config("core.protectNTFS=false").config("core.protectHFS=false")
    }
}

/// The base commit's rules for ignored files.
struct Rules<'a> {
    git: &'a Git,
    place: &'a Place,
    index: PrivateIndex,
    /// The name under which the index holds the rules of a directory.
    name: String,
}

impl<'a> Rules<'a> {
    fn of(git: &'a Git, place: &'a Place, base: &PrivateIndex) -> Result<Self, GitError> {
        let index = PrivateIndex::new(git);
        std::fs::copy(base.path(), index.path()).map_err(at(base.path()))?;
        let name = format!(".gitignore-{}", uuid::Uuid::new_v4());
        let args = ["ls-files", "-s", "-z", "--", ":(top,glob)**/.gitignore"];
        let listed = call(git, place, base, &args).env("GIT_LITERAL_PATHSPECS", "0").read().success()?;
        let (mut entries, mut paths) = (Vec::new(), Vec::new());
        for entry in understood(git, "git ls-files", parse_index(&listed))? {
            // git does not follow a link of that name either.
            if !entry.mode.starts_with("100") {
                continue;
            }
            let dir = entry.path.strip_suffix(b".gitignore").unwrap_or_default();
            let path = [dir, name.as_bytes(), &[0]].concat();
            entries.extend(format!("100644 {}\t", entry.oid).bytes());
            entries.extend(&path);
            paths.extend(&path);
        }
        if !paths.is_empty() {
            call(git, place, &index, &["update-index", "-z", "--index-info"]).stdin(entries).success()?;
            let call = call(git, place, &index, &["update-index", "--skip-worktree", "-z", "--stdin"]);
            call.stdin(paths).success()?;
        }
        Ok(Self { git, place, index, name })
    }

    /// Files that the index does not have, as the rules let them through.
    fn list(&self, options: &[&str]) -> Result<Vec<PathBuf>, GitError> {
        let per_directory = format!("--exclude-per-directory={}", self.name);
        let mut call =
            call(self.git, self.place, &self.index, &["ls-files", "--others", "-z", &per_directory]);
        // The operator's own rules for this repository; no agent can write them.
        let own = self.git.common_dir().join("info/exclude");
        if own.is_file() {
            call = call.arg("--exclude-from").arg(own);
        }
        let output = call.args(options).read().limit(LIST_LIMIT).success()?;
        Ok(parse_nul_paths(&output))
    }
}

/// What is at a path, without going through links on the way.
fn look(root: &Path, path: &Path) -> Result<Now, GitError> {
    let mut current = root.to_owned();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        current.push(part);
        let metadata = match std::fs::symlink_metadata(&current) {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Now::Gone);
            }
            Err(error) => return Err(at(&current)(error)),
        };
        if parts.peek().is_none() && (metadata.is_file() || metadata.is_symlink()) {
            return Ok(Now::There(metadata.len()));
        }
        if !metadata.is_dir() {
            return Ok(Now::Gone);
        }
    }
    Ok(Now::Gone)
}

/// Adds all files and links below `dir` (relative to `root`), git directories aside.
fn walk(root: &Path, dir: &Path, limit: usize, found: &mut BTreeSet<PathBuf>) -> Result<(), WorktreeError> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for (path, kind) in entries(root, &dir)? {
            if is_git_name(&path) {
                continue;
            }
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                found.insert(path);
            }
            if found.len() + dirs.len() > limit {
                return Err(WorktreeError::TooManyEntries { path: root.to_owned(), limit });
            }
        }
    }
    Ok(())
}

fn look_for_planted(place: &Place, ignored: &[PathBuf], limit: usize) -> Result<(), WorktreeError> {
    let root = &place.work_tree;
    // `dir/` and `dir` are the same path.
    let ignored: BTreeSet<&Path> = ignored.iter().map(PathBuf::as_path).collect();
    let (mut dirs, mut seen, mut found) = (vec![PathBuf::new()], 0_usize, Vec::new());
    while let Some(dir) = dirs.pop() {
        for (path, kind) in entries(root, &dir)? {
            seen += 1;
            if seen > limit {
                return Err(WorktreeError::TooManyEntries { path: root.clone(), limit });
            }
            if ignored.contains(path.as_path()) {
                continue;
            }
            if is_git_name(&path) && path != Path::new(".git") {
                found.push(path);
            } else if kind.is_dir() && path != Path::new(".git") {
                dirs.push(path);
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.sort();
    found.truncate(MAX_NAMED);
    Err(WorktreeError::Planted { path: root.clone(), found })
}

fn is_git_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// The entries of a directory with their paths relative to `root`.
fn entries(root: &Path, dir: &Path) -> Result<Vec<(PathBuf, std::fs::FileType)>, GitError> {
    let absolute = root.join(dir);
    let mut list = Vec::new();
    for entry in std::fs::read_dir(&absolute).map_err(at(&absolute))? {
        let entry = entry.map_err(at(&absolute))?;
        let kind = entry.file_type().map_err(at(&entry.path()))?;
        list.push((dir.join(entry.file_name()), kind));
    }
    Ok(list)
}
