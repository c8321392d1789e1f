//! The documents of the board in the repository: intents, questions, reports and the cards' records.
//!
//! While the configured branch is checked out somewhere, documents are those of that work tree, so an
//! intent that is not committed yet counts; else they are those of the branch's commit (storage.md). The
//! records in `docs/board` are always read from the commit: a file edit never moves a card.
//!
//! - here: where documents are, and one document or one card at a time, since a transition must not pay for
//!   ten thousand others
//! - [`catalogue`]: all of them at once, for the board's page
//! - [`mod@write`]: the documents of a transition, step (2) of storage.md

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::beneath::read_beneath;
use super::files::read::Read;
use super::files::{FileError, Kind};
use super::git::{EntryKind, Git, GitError, Oid, TreeEntry};
use crate::model::card::{Card, MAX_DOCUMENT_BYTES, Source};
use crate::model::documents::{self, INTENT_DIR, RECORD_DIR, RESEARCH_DIR};
use crate::model::hash::blob_hash;
use crate::model::phase::Phase;
use crate::model::record::{self, MAX_RECORD_BYTES, Record};
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

pub mod catalogue;
mod present;
pub mod write;

pub use catalogue::{Broken, Cache, Catalogue};
pub use write::{WriteError, Written};

/// Largest report or conversation that is read to add to it, in bytes.
pub const MAX_REPORT_BYTES: usize = 16 * 1024 * 1024;

/// Why documents could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The file system failed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where the board's documents are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the work tree that has the branch checked out.
    WorkTree(PathBuf),
    /// In the branch's commit; the checkout is on another branch, which a banner says.
    Commit(Oid),
    /// Nowhere: the branch does not exist.
    Nowhere,
}

/// A document that can be a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Whether it is an intent or a question.
    pub source: Source,
    /// The card.
    pub slug: Slug,
    /// Path in the repository.
    pub path: String,
    /// Its first heading; the slug if it has none.
    pub title: String,
    /// Size in bytes.
    pub size: u64,
    /// [`blob_hash`] of its bytes.
    pub blob: String,
    /// When the file was last written; none where it is read from a commit.
    pub modified: Option<Timestamp>,
}

/// A document with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What it is.
    pub document: Document,
    /// Its text.
    pub text: String,
}

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A usable document.
    Document(Loaded),
    /// Something that cannot be one, with a sentence for the operator.
    Broken(String),
    /// Nothing.
    Missing,
}

/// What a card without an entry is.
#[derive(Debug, Clone, PartialEq)]
pub enum Seed {
    /// The card of its record, else a planned one.
    Card(Box<Card>),
    /// There is neither a document nor a record of this name.
    Nothing,
    /// Its record or its document cannot be used, with a sentence for the operator.
    Broken(String),
}

/// A file as it was found, before it is anybody's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// Its bytes and when it was written.
    There(Vec<u8>, Option<Timestamp>),
    /// Something else, with a sentence.
    Broken(String),
    /// Nothing.
    Missing,
}

/// The documents of one repository on one branch.
#[derive(Debug, Clone)]
pub struct Documents {
    git: Git,
    branch: String,
}

impl Documents {
    /// The documents of `branch` in this repository.
    pub fn new(git: Git, branch: impl Into<String>) -> Documents {
        Documents { git, branch: branch.into() }
    }

    /// The repository.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The branch on which the board lives.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The commit of the branch, if it has one.
    ///
    /// # Errors
    /// If git fails.
    pub fn tip(&self) -> Result<Option<Oid>, GitError> {
        self.git.branch_tip(&self.branch)
    }

    /// Where documents are now.
    ///
    /// # Errors
    /// If git fails.
    pub fn place(&self) -> Result<Place, GitError> {
        if let Some(path) = self.git.checked_out_at(&self.branch)? {
            return Ok(Place::WorkTree(path));
        }
        Ok(self.tip()?.map_or(Place::Nowhere, Place::Commit))
    }

    /// One document.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn load(&self, source: Source, slug: &Slug) -> Result<Found, DocumentsError> {
        self.load_at(&self.place()?, source, slug)
    }

    fn load_at(&self, place: &Place, source: Source, slug: &Slug) -> Result<Found, DocumentsError> {
        let Some(path) = documents::document_path(source, slug) else { return Ok(Found::Missing) };
        Ok(match self.bytes_at(place, &path, MAX_DOCUMENT_BYTES)? {
            Bytes::Missing => Found::Missing,
            Bytes::Broken(why) => Found::Broken(why),
            Bytes::There(bytes, modified) => match as_document(source, slug, path, bytes, modified) {
                Ok(loaded) => Found::Document(loaded),
                Err(why) => Found::Broken(why),
            },
        })
    }

    /// The bytes of a file of the board, for example of a report; none if there is no such regular file.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn text_of(&self, path: &str) -> Result<Option<String>, DocumentsError> {
        Ok(match self.bytes_at(&self.place()?, path, MAX_REPORT_BYTES)? {
            Bytes::There(bytes, _) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Bytes::Broken(_) | Bytes::Missing => None,
        })
    }

    pub(crate) fn bytes_at(&self, place: &Place, path: &str, limit: usize) -> Result<Bytes, DocumentsError> {
        match place {
            Place::WorkTree(root) => Ok(bytes_of(read_beneath(root, Path::new(path), limit as u64)?, limit)),
            Place::Commit(commit) => self.committed_bytes(commit, path, limit),
            Place::Nowhere => Ok(Bytes::Missing),
        }
    }

    fn committed_bytes(&self, commit: &Oid, path: &str, limit: usize) -> Result<Bytes, DocumentsError> {
        match self.git.read_path(commit, path, limit) {
            Ok(found) => Ok(found.map_or(Bytes::Missing, |blob| Bytes::There(blob.bytes, None))),
            Err(GitError::TooLarge { .. }) => Ok(Bytes::Broken(too_large(limit, None))),
            Err(error) => Err(error.into()),
        }
    }

    /// The record of a card on the branch's commit; a sentence if it cannot be read.
    ///
    /// # Errors
    /// If git fails.
    pub fn record(&self, slug: &Slug) -> Result<Option<Result<Record, String>>, DocumentsError> {
        let Some(tip) = self.tip()? else { return Ok(None) };
        let path = format!("{RECORD_DIR}/{slug}.yaml");
        Ok(match self.committed_bytes(&tip, &path, MAX_RECORD_BYTES)? {
            Bytes::Missing => None,
            Bytes::Broken(why) => Some(Err(format!("{path}: {why}"))),
            Bytes::There(bytes, _) => Some(record::parse(&bytes).map_err(|error| format!("{path}: {error}"))),
        })
    }

    /// The card of a slug without an entry in the state: as its record on the branch says, else planned.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn seed_card(&self, slug: &Slug) -> Result<Seed, DocumentsError> {
        let record = match self.record(slug)? {
            Some(Ok(record)) => Some(record),
            Some(Err(why)) => return Ok(Seed::Broken(why)),
            None => None,
        };
        let place = self.place()?;
        let sources = match &record {
            Some(record) => vec![record.source],
            None => vec![Source::Intent, Source::Research],
        };
        let mut loaded = None;
        for source in sources {
            match self.load_at(&place, source, slug)? {
                Found::Document(found) => {
                    loaded = Some(found.document);
                    break;
                }
                Found::Broken(why) => return Ok(Seed::Broken(why)),
                Found::Missing => {}
            }
        }
        Ok(seed(slug, record.as_ref(), loaded.as_ref()))
    }

    /// Whether a new card may not have this slug: a file in either directory, or a record. What the state
    /// knows is for the caller ([`crate::model::board::Board::taken_slugs`]).
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn is_taken(&self, slug: &Slug) -> Result<bool, DocumentsError> {
        let place = self.place()?;
        for source in [Source::Intent, Source::Research] {
            if self.load_at(&place, source, slug)? != Found::Missing {
                return Ok(true);
            }
        }
        self.has_record(slug)
    }

    /// Paths of the intents and questions that the branch had before a moment and whose card has no record: what is
    /// older than the board.
    ///
    /// # Errors
    /// If git fails.
    pub fn older_than(&self, at: Timestamp) -> Result<BTreeSet<String>, DocumentsError> {
        let (Some(then), Some(tip)) = (self.git.tip_before(&self.branch, at)?, self.tip()?) else {
            return Ok(BTreeSet::new());
        };
        let names = |commit: &Oid, dir: &str| -> Result<BTreeSet<String>, GitError> {
            let entries = self.git.ls_tree(commit, dir)?;
            let stem = |entry: TreeEntry| Some(entry.name.file_stem()?.to_str()?.to_owned());
            Ok(entries.into_iter().filter_map(stem).collect())
        };
        let known = names(&tip, RECORD_DIR)?;
        let mut paths = BTreeSet::new();
        for dir in [INTENT_DIR, RESEARCH_DIR] {
            let old = names(&then, dir)?.into_iter().filter(|slug| !known.contains(slug));
            paths.extend(old.map(|slug| format!("{dir}/{slug}.md")));
        }
        Ok(paths)
    }

    /// Whether the branch's commit has a record of this name.
    ///
    /// # Errors
    /// If git fails.
    pub fn has_record(&self, slug: &Slug) -> Result<bool, DocumentsError> {
        let Some(tip) = self.tip()? else { return Ok(false) };
        let path = format!("{RECORD_DIR}/{slug}.yaml");
        Ok(self.committed_bytes(&tip, &path, MAX_RECORD_BYTES)? != Bytes::Missing)
    }
}

/// The card of a record and a document, either of which may be missing.
pub(crate) fn seed(slug: &Slug, record: Option<&Record>, document: Option<&Document>) -> Seed {
    let Some(record) = record else {
        let Some(document) = document else { return Seed::Nothing };
        let at = document.modified.unwrap_or(Timestamp::MIN);
        let title = document.title.clone();
        let card = Card::new(slug.clone().into(), document.source, title, Phase::Geplant, at);
        return Seed::Card(Box::new(card));
    };
    match record.to_card(slug) {
        Ok(mut card) => {
            card.file_missing = document.is_none();
            if let Some(document) = document {
                card.title.clone_from(&document.title);
            }
            Seed::Card(Box::new(card))
        }
        Err(unknown) => Seed::Broken(format!(
            "{RECORD_DIR}/{slug}.yaml: Die Phase „{}“ kennt diese Version nicht.",
            crate::model::slug::excerpt(&unknown.0)
        )),
    }
}

fn too_large(limit: usize, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("Die Datei hat {size} Bytes, erlaubt sind höchstens {limit}."),
        None => format!("Die Datei ist größer als {limit} Bytes."),
    }
}

/// What is read below a work tree, with a sentence where it is no file that can be used.
pub(crate) fn bytes_of(read: Read, limit: usize) -> Bytes {
    match read {
        Read::Bytes(file) => Bytes::There(file.bytes, Some(file.modified)),
        Read::Missing => Bytes::Missing,
        Read::Denied => Bytes::Broken("Das Board darf die Datei nicht lesen.".into()),
        Read::TooLarge { size } => Bytes::Broken(too_large(limit, Some(size))),
        Read::NotRegular(kind) => Bytes::Broken(not_regular(kind).into()),
    }
}

pub(crate) fn not_regular(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "Die Datei kann nicht gelesen werden.",
        Kind::Directory => "Das ist ein Verzeichnis, keine reguläre Datei.",
        Kind::Link => "Das ist ein symbolischer Link, keine reguläre Datei.",
        Kind::Special => "Das ist keine reguläre Datei.",
    }
}

/// The same for an entry of a commit.
pub(crate) fn not_a_file(kind: EntryKind) -> Option<&'static str> {
    match kind {
        EntryKind::File { .. } => None,
        EntryKind::Directory => Some(not_regular(Kind::Directory)),
        EntryKind::Symlink => Some(not_regular(Kind::Link)),
        EntryKind::Submodule | EntryKind::Unknown => Some(not_regular(Kind::Special)),
    }
}

pub(crate) fn as_document(
    source: Source,
    slug: &Slug,
    path: String,
    bytes: Vec<u8>,
    modified: Option<Timestamp>,
) -> Result<Loaded, String> {
    let (size, blob) = (bytes.len() as u64, blob_hash(&bytes));
    let text = String::from_utf8(bytes).map_err(|error| {
        format!("Die Datei ist kein UTF-8 (ab Byte {}).", error.utf8_error().valid_up_to())
    })?;
    let title = documents::title(&text).unwrap_or_else(|| slug.to_string());
    let document = Document { source, slug: slug.clone(), path, title, size, blob, modified };
    Ok(Loaded { document, text })
}

#[cfg(test)]
mod tests;
