//! Which documents are there at all, and files that a crash left beside them.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{Bytes, Documents, DocumentsError, MAX_REPORT_BYTES, Place};
use crate::edge::files::FileError;
use crate::edge::files::beneath::{TEMPORARY_SUFFIX, open_beneath};
use crate::model::card::Card;
use crate::model::documents::{INTENT_DIR, RECORD_DIR, REPORT_DIR, RESEARCH_DIR, REVIEW_DIR};
use crate::model::hash::blob_hash;

/// Directories that the board writes into.
const OURS: [&str; 5] = [INTENT_DIR, RESEARCH_DIR, RECORD_DIR, REVIEW_DIR, REPORT_DIR];

impl Documents {
    /// Which of these cards' documents are neither in the work tree nor on the branch. One that is only
    /// missing in the work tree may come back any moment: the operator's git takes files away and puts them
    /// back while it works.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn missing<'c>(
        &self,
        cards: impl Iterator<Item = &'c Card>,
    ) -> Result<BTreeSet<String>, DocumentsError> {
        let wanted: Vec<String> = cards.filter_map(Card::document_path).collect();
        if wanted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut there = BTreeSet::new();
        if let Some(tip) = self.tip()? {
            for dir in [INTENT_DIR, RESEARCH_DIR] {
                for entry in self.git.ls_tree(&tip, dir)? {
                    there.insert(format!("{dir}/{}", entry.name.display()));
                }
            }
        }
        let place = self.place()?;
        let mut missing = BTreeSet::new();
        for path in wanted.into_iter().filter(|path| !there.contains(path)) {
            let gone = match &place {
                // What cannot be read is there.
                Place::WorkTree(root) => {
                    open_beneath(root, Path::new(&path)).is_err_and(|error| error.is_not_found())
                }
                Place::Commit(_) | Place::Nowhere => true,
            };
            if gone {
                missing.insert(path);
            }
        }
        Ok(missing)
    }

    /// Removes a new file of ours again, if it still is what was written; `true` if it is gone now.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn remove_own(&self, path: &str, hash: &str) -> Result<bool, DocumentsError> {
        let place = self.place()?;
        let Place::WorkTree(root) = &place else { return Ok(false) };
        match self.bytes_at(&place, path, MAX_REPORT_BYTES)? {
            Bytes::There(bytes, _) if blob_hash(&bytes) == hash => {}
            Bytes::There(..) | Bytes::Broken(_) | Bytes::Missing => return Ok(false),
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        let opened = open_beneath(root, Path::new(dir))?;
        match unlinkat(&opened, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => {
                opened.sync_all().map_err(FileError::at("sync", &root.join(dir)))?;
                Ok(true)
            }
            Err(nix::errno::Errno::ENOENT) => Ok(false),
            Err(errno) => Err(FileError::new("remove", root.join(path), errno).into()),
        }
    }

    /// Removes temporary files that a crash left in the work tree; returns how many. Nobody else uses their
    /// ending, and the caller holds the repository lock, so none of them is in use.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn remove_strays(&self) -> Result<usize, DocumentsError> {
        let Place::WorkTree(root) = self.place()? else { return Ok(0) };
        let mut removed = 0;
        for dir in OURS {
            let opened = match open_beneath(&root, Path::new(dir)) {
                Ok(opened) => opened,
                // A link or nothing: we wrote nothing there.
                Err(_) => continue,
            };
            let Ok(mut listed) = Dir::from_fd(opened.into()) else { continue };
            let names: Vec<Vec<u8>> = listed
                .iter()
                .flatten()
                .map(|entry| entry.file_name().to_bytes().to_vec())
                .filter(|name| name.starts_with(b".") && name.ends_with(TEMPORARY_SUFFIX.as_bytes()))
                .collect();
            for name in names {
                let shown = root.join(dir).join(std::ffi::OsStr::from_bytes(&name));
                unlinkat(&listed, name.as_slice(), UnlinkatFlags::NoRemoveDir)
                    .map_err(|errno| FileError::new("remove", shown, errno))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}
