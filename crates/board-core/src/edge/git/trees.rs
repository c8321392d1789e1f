//! Writes the trees of a commit: only the directories on the way to the changed paths, each so that it is still there
//! after a power cut.
//!
//! Not with `git mktree`, which reads no configuration and so never syncs (`core.fsync`): a power cut then leaves an
//! object with its name and no content, which every later git takes for written. `git hash-object` syncs each.
use std::{collections::BTreeMap, path::PathBuf};

use super::{
    CommitError, EntryKind, Git, GitError, Oid, at,
    commit::{Entry, in_the_way},
    index::PathUpdate,
    objects::{Objects, ScratchDir},
    parse::{self, RawEntry},
    session::Session,
};

/// Rewrites the trees on the way to the changed paths.
pub(super) struct TreeEditor<'a> {
    objects: &'a mut Objects,
    /// `hash-object`, asked with the name of a file.
    hashing: Session,
    /// That file; the directory goes with the value.
    scratch: ScratchDir,
}

impl<'a> TreeEditor<'a> {
    pub(super) fn new(git: &Git, objects: &'a mut Objects) -> Result<Self, GitError> {
        let hashing =
            git.call(["hash-object", "-t", "tree", "-w", "--no-filters", "--stdin-paths"]).session()?;
        Ok(TreeEditor { objects, hashing, scratch: ScratchDir::new(git.note_dir())? })
    }

    pub(super) fn finish(self) -> Result<(), GitError> {
        self.hashing.finish()
    }

    /// The entries of a directory after the changes below it; the paths are relative to it.
    pub(super) fn edit(
        &mut self,
        mut entries: Vec<RawEntry>,
        changes: &[(&str, &PathUpdate)],
    ) -> Result<Vec<RawEntry>, CommitError> {
        let mut below: BTreeMap<&str, Vec<(&str, &PathUpdate)>> = BTreeMap::new();
        for (path, update) in changes {
            match path.split_once('/') {
                Some((dir, rest)) => below.entry(dir).or_default().push((rest, update)),
                None => replace(&mut entries, path, update.new.clone()),
            }
        }
        for (dir, changes) in below {
            let old = entries.iter().find(|entry| entry.name == dir.as_bytes());
            let inner = match old.map(|entry| EntryKind::of_mode(&entry.mode)) {
                None => Vec::new(),
                Some(EntryKind::Directory) => {
                    let tree = old.map(|entry| entry.oid.to_string()).unwrap_or_default();
                    self.objects.tree(&tree)?.unwrap_or_default()
                }
                Some(EntryKind::File { .. }) => return Err(in_the_way(&changes[0].1.path, "a file")),
                Some(EntryKind::Symlink) => return Err(in_the_way(&changes[0].1.path, "a symbolic link")),
                Some(EntryKind::Submodule | EntryKind::Unknown) => {
                    return Err(in_the_way(&changes[0].1.path, "a submodule"));
                }
            };
            let inner = self.edit(inner, &changes)?;
            // git has no empty directories.
            let tree = if inner.is_empty() { None } else { Some(("40000".to_owned(), self.write(inner)?)) };
            replace(&mut entries, dir, tree);
        }
        Ok(entries)
    }

    /// Writes a directory and gives its name.
    pub(super) fn write(&mut self, mut entries: Vec<RawEntry>) -> Result<Oid, GitError> {
        entries.sort_by_cached_key(place);
        let mut tree = Vec::new();
        for entry in &entries {
            tree.extend(entry.mode.bytes());
            tree.push(b' ');
            tree.extend(&entry.name);
            tree.push(0);
            tree.extend(entry.oid.to_raw());
        }
        let file: PathBuf = self.scratch.0.join("tree");
        std::fs::write(&file, &tree).map_err(at(&file))?;
        let mut question = file.into_os_string().into_encoded_bytes();
        question.push(b'\n');
        self.hashing.send(&question)?;
        let line = self.hashing.line()?;
        parse::parse_oid(line.as_bytes()).map_err(|what| self.hashing.broken(&what))
    }
}

/// Where git has an entry in its directory: a directory is compared as if its name ended with a slash.
fn place(entry: &RawEntry) -> Vec<u8> {
    let mut name = entry.name.clone();
    match EntryKind::of_mode(&entry.mode) {
        EntryKind::Directory => name.push(b'/'),
        EntryKind::File { .. } | EntryKind::Symlink | EntryKind::Submodule | EntryKind::Unknown => {}
    }
    name
}

fn replace(entries: &mut Vec<RawEntry>, name: &str, new: Option<Entry>) {
    entries.retain(|entry| entry.name != name.as_bytes());
    entries.extend(new.map(|(mode, oid)| RawEntry { mode, oid, name: name.as_bytes().to_vec() }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::git::testing::Fixture;

    #[test]
    fn a_written_directory_is_the_one_that_git_itself_makes() {
        let fixture = Fixture::with_commit();
        let git = fixture.git();
        let blob = git.write_blob(b"x").unwrap();
        let mut objects = Objects::open(&git, 0).unwrap();
        let mut editor = TreeEditor::new(&git, &mut objects).unwrap();
        let entry = |mode: &str, name: &str, oid: &Oid| RawEntry {
            mode: mode.to_owned(),
            oid: oid.clone(),
            name: name.as_bytes().to_vec(),
        };
        let inner = editor.write(vec![entry("100644", "in", &blob)]).unwrap();
        // Between `a-b` and `a.txt` by the slash, not by the bare name.
        let tree = editor
            .write(vec![
                entry("40000", "a", &inner),
                entry("100755", "a0", &blob),
                entry("100644", "a.txt", &blob),
                entry("100644", "a-b", &blob),
            ])
            .unwrap();
        editor.finish().unwrap();
        objects.finish().unwrap();
        let listed = fixture.run(&["ls-tree", "--name-only", tree.as_str()]);
        assert_eq!(listed, "a-b\na.txt\na\na0");
        fixture.run(&["commit-tree", "-m", "x", tree.as_str()]);
        fixture.run(&["fsck", "--strict", "--no-dangling"]);
    }

    #[test]
    fn no_command_that_never_syncs_writes_objects() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/edge");
        let mut todo = vec![sources];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if !path.ends_with("trees.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("\"mktree\""), "{}", path.display());
            }
        }
    }
}
