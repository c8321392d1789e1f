//! All documents and records of the board, for its page.
//!
//! A scan looks at every name and reads only what changed since the last one: a file of a work tree is
//! known by its times, size and inode, a file of a commit by its object. What is kept of a document is its
//! title, not its text, so a board of ten thousand cards stays small.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nix::dir::Dir;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};

use super::{
    Document, Documents, DocumentsError, Place, Seed, as_document, bytes_of, not_a_file, not_regular, seed,
};
use crate::edge::files::beneath::{TEMPORARY_SUFFIX, open_beneath, read_beneath};
use crate::edge::files::{FileError, Kind};
use crate::edge::git::{Oid, TreeEntry};
use crate::model::board::Board;
use crate::model::card::{CardId, MAX_DOCUMENT_BYTES, Source};
use crate::model::documents::document_path;
use crate::model::documents::{INTENT_DIR, RECORD_DIR, RESEARCH_DIR};
use crate::model::record::{self, MAX_RECORD_BYTES, Record};
use crate::model::slug::{Slug, excerpt};

/// Bytes of blobs that are asked of git at once, so that a first scan does not hold all texts in memory.
const BATCH: usize = 256;

/// A file that cannot be a card, shown in a strip above the board; it never stops the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Path in the repository; what is not UTF-8 in it is replaced.
    pub path: String,
    /// A German sentence.
    pub reason: String,
}

/// What a scan found.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Where documents were read.
    pub place: Place,
    /// The commit of the branch.
    pub tip: Option<Oid>,
    /// Documents by card.
    pub documents: BTreeMap<Slug, Arc<Document>>,
    /// What is none, by path.
    pub broken: Vec<Broken>,
    /// Records on the branch's commit, those that cannot be read left out (they are in `broken`).
    pub records: BTreeMap<Slug, Arc<Record>>,
}

impl Documents {
    /// These cards alone, as [`Documents::scan`] gives all: what a click needs must not cost more because there
    /// are ten thousand others. Of two documents of one slug the one of the card's entry counts, else that of its
    /// record, else the intent.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn look_at(&self, board: &Board, slugs: &[Slug]) -> Result<Catalogue, DocumentsError> {
        let mut seen = Catalogue {
            place: self.place()?,
            tip: self.tip()?,
            documents: BTreeMap::new(),
            broken: Vec::new(),
            records: BTreeMap::new(),
        };
        for slug in slugs {
            let entry = board.cards.get(&CardId::Slug(slug.clone())).map(|card| card.source);
            // An entry wins over the record, and finding one among ten thousand is what costs.
            let record = if entry.is_some() { None } else { self.record(slug)? };
            match record {
                Some(Ok(record)) => drop(seen.records.insert(slug.clone(), Arc::new(record))),
                Some(Err(reason)) => {
                    seen.broken.push(Broken { path: format!("{RECORD_DIR}/{slug}.yaml"), reason });
                }
                None => {}
            }
            let known = entry.or_else(|| seen.records.get(slug).map(|record| record.source));
            let sources = known.map_or_else(|| vec![Source::Intent, Source::Research], |source| vec![source]);
            for source in sources {
                match self.load_at(&seen.place, source, slug)? {
                    super::Found::Document(loaded) => {
                        seen.documents.insert(slug.clone(), Arc::new(loaded.document));
                        break;
                    }
                    super::Found::Broken(reason) => {
                        let path = document_path(source, slug).unwrap_or_default();
                        seen.broken.push(Broken { path, reason });
                    }
                    super::Found::Missing => {}
                }
            }
        }
        Ok(seen)
    }
}

impl Catalogue {
    /// The card of a slug without an entry in the state.
    pub fn seed_card(&self, slug: &Slug) -> Seed {
        let record = self.records.get(slug).map(AsRef::as_ref);
        let document = self.documents.get(slug).map(AsRef::as_ref);
        let fits = |document: &&Document| record.is_none_or(|record| record.source == document.source);
        seed(slug, record, document.filter(fits))
    }

    /// Every slug that a document or a record has.
    pub fn slugs(&self) -> impl Iterator<Item = &Slug> {
        let only_recorded = self.records.keys().filter(|slug| !self.documents.contains_key(*slug));
        self.documents.keys().chain(only_recorded)
    }
}

/// By what a file of a work tree is known: change time, modification time, size, inode.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp([i64; 4], i64, u64);

impl Stamp {
    fn of(stat: &FileStat) -> Stamp {
        let times = [stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec];
        Stamp(times, stat.st_size, stat.st_ino)
    }
}

/// What earlier scans read. It belongs to one repository; a fresh one is always right, only slower.
#[derive(Debug, Default)]
pub struct Cache {
    files: BTreeMap<String, (Stamp, Result<Arc<Document>, String>)>,
    blobs: BTreeMap<(String, Oid), Result<Arc<Document>, String>>,
    records: BTreeMap<(Slug, Oid), Result<Arc<Record>, String>>,
}

/// One directory's findings.
#[derive(Default)]
struct Found {
    documents: Vec<Arc<Document>>,
    broken: Vec<Broken>,
}

impl Documents {
    /// Looks at all documents and records. The board decides which of two files of one slug is the card.
    ///
    /// # Errors
    /// If git or the disk fails; a file that cannot be read is an entry in `broken`.
    pub fn scan(&self, board: &Board, cache: &mut Cache) -> Result<Catalogue, DocumentsError> {
        let tip = self.tip()?;
        let place = self.place()?;
        let mut found = Found::default();
        match &place {
            Place::WorkTree(root) => {
                let old = std::mem::take(&mut cache.files);
                for (source, dir) in [(Source::Intent, INTENT_DIR), (Source::Research, RESEARCH_DIR)] {
                    scan_dir(root, source, dir, &old, &mut cache.files, &mut found)?;
                }
                cache.blobs.clear();
            }
            Place::Commit(commit) => {
                let old = std::mem::take(&mut cache.blobs);
                for (source, dir) in [(Source::Intent, INTENT_DIR), (Source::Research, RESEARCH_DIR)] {
                    self.scan_tree(commit, source, dir, &old, &mut cache.blobs, &mut found)?;
                }
                cache.files.clear();
            }
            Place::Nowhere => {}
        }
        let mut broken = found.broken;
        let records = match &tip {
            Some(tip) => self.scan_records(tip, cache, &mut broken)?,
            None => BTreeMap::new(),
        };
        let source_of = |slug: &Slug| {
            let entry = board.cards.get(&CardId::Slug(slug.clone())).map(|card| card.source);
            entry.or_else(|| records.get(slug).map(|record| record.source))
        };
        let documents = one_per_slug(found.documents, source_of, &mut broken);
        broken.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Catalogue { place, tip, documents, broken, records })
    }

    fn scan_tree(
        &self,
        commit: &Oid,
        source: Source,
        dir: &str,
        old: &BTreeMap<(String, Oid), Result<Arc<Document>, String>>,
        new: &mut BTreeMap<(String, Oid), Result<Arc<Document>, String>>,
        found: &mut Found,
    ) -> Result<(), DocumentsError> {
        let mut unread: Vec<(Slug, String, Oid)> = Vec::new();
        let mut known = Vec::new();
        for entry in self.git.ls_tree(commit, dir)? {
            let Some(name) = shown_name(entry.name.as_os_str().as_bytes()) else { continue };
            let path = format!("{dir}/{name}");
            match usable_entry(&entry, &name) {
                Err(reason) => found.broken.push(Broken { path, reason }),
                Ok(slug) => match old.get(&(path.clone(), entry.oid.clone())) {
                    Some(document) => known.push((path, entry.oid, document.clone())),
                    None => unread.push((slug, path, entry.oid)),
                },
            }
        }
        for batch in unread.chunks(BATCH) {
            let oids: Vec<Oid> = batch.iter().map(|(_, _, oid)| oid.clone()).collect();
            let mut blobs = self.git.read_blobs(&oids, MAX_DOCUMENT_BYTES)?;
            for (slug, path, oid) in batch {
                let bytes = blobs.remove(oid).unwrap_or_default();
                let document = as_document(source, slug, path.clone(), bytes, None);
                known.push((path.clone(), oid.clone(), document.map(|loaded| Arc::new(loaded.document))));
            }
        }
        for (path, oid, document) in known {
            match &document {
                Ok(document) => found.documents.push(Arc::clone(document)),
                Err(reason) => found.broken.push(Broken { path: path.clone(), reason: reason.clone() }),
            }
            new.insert((path, oid), document);
        }
        Ok(())
    }

    fn scan_records(
        &self,
        tip: &Oid,
        cache: &mut Cache,
        broken: &mut Vec<Broken>,
    ) -> Result<BTreeMap<Slug, Arc<Record>>, DocumentsError> {
        let mut wanted = Vec::new();
        for entry in self.git.ls_tree(tip, RECORD_DIR)? {
            let Some(name) = entry.name.to_str().and_then(|name| name.strip_suffix(".yaml")) else {
                continue;
            };
            let path = format!("{RECORD_DIR}/{name}.yaml");
            let fault = not_a_file(entry.kind).map(ToOwned::to_owned);
            let large = entry.size.is_some_and(|size| size > MAX_RECORD_BYTES as u64);
            match (Slug::parse(name), fault) {
                (Err(error), _) => broken.push(Broken { path, reason: error.sentence_de() }),
                (_, Some(reason)) => broken.push(Broken { path, reason }),
                (_, None) if large => {
                    broken.push(Broken { path, reason: super::too_large(MAX_RECORD_BYTES, entry.size) });
                }
                (Ok(slug), None) => wanted.push((slug, entry.oid)),
            }
        }
        let unread: Vec<&(Slug, Oid)> =
            wanted.iter().filter(|key| !cache.records.contains_key(*key)).collect();
        let mut fresh = Vec::new();
        for batch in unread.chunks(BATCH) {
            let oids: Vec<Oid> = batch.iter().map(|(_, oid)| oid.clone()).collect();
            let blobs = self.git.read_blobs(&oids, MAX_RECORD_BYTES)?;
            for (slug, oid) in batch {
                let bytes = blobs.get(oid).map(Vec::as_slice).unwrap_or_default();
                let record = record::parse(bytes).map(Arc::new).map_err(|error| error.to_string());
                fresh.push(((*slug).clone(), oid.clone(), record));
            }
        }
        cache.records.extend(fresh.into_iter().map(|(slug, oid, record)| ((slug, oid), record)));
        if cache.records.len() > wanted.len() {
            let wanted: std::collections::BTreeSet<&(Slug, Oid)> = wanted.iter().collect();
            cache.records.retain(|key, _| wanted.contains(key));
        }
        let mut records = BTreeMap::new();
        for ((slug, _), record) in &cache.records {
            match record {
                Ok(record) => {
                    records.insert(slug.clone(), Arc::clone(record));
                }
                Err(reason) => {
                    broken.push(Broken { path: format!("{RECORD_DIR}/{slug}.yaml"), reason: reason.clone() });
                }
            }
        }
        Ok(records)
    }
}

/// Of two documents of one slug the one of the card's source is the card, the other is broken.
fn one_per_slug(
    found: Vec<Arc<Document>>,
    source_of: impl Fn(&Slug) -> Option<Source>,
    broken: &mut Vec<Broken>,
) -> BTreeMap<Slug, Arc<Document>> {
    let mut documents: BTreeMap<Slug, Arc<Document>> = BTreeMap::new();
    for document in found {
        let slug = document.slug.clone();
        let Some(other) = documents.remove(&slug) else {
            documents.insert(slug, document);
            continue;
        };
        let wanted = source_of(&slug).unwrap_or(Source::Intent);
        let (card, extra) = if document.source == wanted { (document, other) } else { (other, document) };
        broken.push(Broken {
            path: extra.path.clone(),
            reason: format!("Der Slug „{slug}“ ist schon der von {}.", card.path),
        });
        documents.insert(slug, card);
    }
    documents
}

/// The name of an entry that could be a document; `README.md` and names that begin with `_` or `.` are not.
fn shown_name(name: &[u8]) -> Option<String> {
    let ignored = name == b"README.md" || name.starts_with(b"_") || name.starts_with(b".");
    (!ignored && !name.ends_with(TEMPORARY_SUFFIX.as_bytes()))
        .then(|| String::from_utf8_lossy(name).into_owned())
}

fn slug_of(name: &str) -> Result<Slug, String> {
    let Some(stem) = name.strip_suffix(".md") else {
        return Err(format!("„{}“ endet nicht auf .md.", excerpt(name)));
    };
    Slug::parse(stem).map_err(|error| format!("{}.", error.sentence_de()))
}

fn usable_entry(entry: &TreeEntry, name: &str) -> Result<Slug, String> {
    if let Some(reason) = not_a_file(entry.kind) {
        return Err(reason.into());
    }
    if let Some(size) = entry.size.filter(|size| *size > MAX_DOCUMENT_BYTES as u64) {
        return Err(super::too_large(MAX_DOCUMENT_BYTES, Some(size)));
    }
    slug_of(name)
}

fn scan_dir(
    root: &Path,
    source: Source,
    dir: &str,
    old: &BTreeMap<String, (Stamp, Result<Arc<Document>, String>)>,
    new: &mut BTreeMap<String, (Stamp, Result<Arc<Document>, String>)>,
    found: &mut Found,
) -> Result<(), DocumentsError> {
    let shown = root.join(dir);
    let failed = |errno: nix::errno::Errno| FileError::new("list", &shown, errno);
    let opened = match open_beneath(root, Path::new(dir)) {
        Ok(opened) => opened,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => {
            // A link or a file where the directory should be is no reason to have no board.
            let reason = format!("Das Verzeichnis kann nicht gelesen werden: {}", error.source);
            found.broken.push(Broken { path: dir.into(), reason });
            return Ok(());
        }
    };
    let listed = match Dir::from_fd(opened.into()) {
        Ok(listed) => listed,
        Err(_) => {
            let reason = "Das ist kein Verzeichnis.".into();
            found.broken.push(Broken { path: dir.into(), reason });
            return Ok(());
        }
    };
    let mut listed = listed;
    let names: Vec<Vec<u8>> = listed
        .iter()
        .map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    for raw in names {
        let Some(name) = shown_name(&raw) else { continue };
        let path = format!("{dir}/{name}");
        let Ok(stat) = fstatat(&listed, raw.as_slice(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
        if let Some(reason) = irregular(&stat) {
            found.broken.push(Broken { path, reason: reason.into() });
            continue;
        }
        let slug = match slug_of(&name) {
            Ok(slug) => slug,
            Err(reason) => {
                found.broken.push(Broken { path, reason });
                continue;
            }
        };
        let stamp = Stamp::of(&stat);
        let document = match old.get(&path).filter(|(seen, _)| *seen == stamp) {
            Some((_, document)) => document.clone(),
            None => {
                let read = read_beneath(root, Path::new(&path), MAX_DOCUMENT_BYTES as u64)?;
                match bytes_of(read, MAX_DOCUMENT_BYTES) {
                    // Removed since it was listed.
                    super::Bytes::Missing => continue,
                    super::Bytes::Broken(reason) => Err(reason),
                    super::Bytes::There(bytes, modified) => {
                        as_document(source, &slug, path.clone(), bytes, modified)
                            .map(|loaded| Arc::new(loaded.document))
                    }
                }
            }
        };
        match &document {
            Ok(document) => found.documents.push(Arc::clone(document)),
            Err(reason) => found.broken.push(Broken { path: path.clone(), reason: reason.clone() }),
        }
        new.insert(path, (stamp, document));
    }
    Ok(())
}

fn irregular(stat: &FileStat) -> Option<&'static str> {
    match stat.st_mode & nix::libc::S_IFMT {
        nix::libc::S_IFREG => None,
        nix::libc::S_IFDIR => Some(not_regular(Kind::Directory)),
        nix::libc::S_IFLNK => Some(not_regular(Kind::Link)),
        _ => Some(not_regular(Kind::Special)),
    }
}
