//! The documents of the repository, as pages show them, looked at again with every request.
//!
//! A repository that cannot be read does not stop the board: what was read last is shown with the fault
//! above it, and what needs the repository is refused.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use board_core::edge::documents::{Cache, Catalogue, Documents as Reader, Place, Seed};
use board_core::edge::git::{Git, GitOptions, Head, Identity};
use board_core::edge::settings::Settings;
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId};

use crate::merged::Merged;
use crate::view::board::Broken;

/// The repository of a running board.
#[derive(Debug)]
pub(crate) struct Repository {
    path: PathBuf,
    options: GitOptions,
    configured_branch: Option<String>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    reader: Option<Reader>,
    cache: Cache,
    merged: Merged,
    last: Arc<Documents>,
}

/// What the repository says.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    catalogue: Option<Catalogue>,
    seeds: BTreeMap<CardId, Card>,
    broken: Vec<Broken>,
    /// Cards whose check commit is in the branch.
    merged: BTreeSet<CardId>,
    /// Why it could not be read just now.
    pub(crate) trouble: Option<String>,
    /// The branch on which the board lives.
    pub(crate) branch: Option<String>,
}

impl Documents {
    /// The card of a document or a record without an entry.
    pub(crate) fn seed(&self, id: &CardId) -> Option<&Card> {
        self.seeds.get(id)
    }

    /// All of them.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = &Card> {
        self.seeds.values()
    }

    /// The title of a card's document.
    pub(crate) fn title(&self, id: &CardId) -> Option<&str> {
        Some(self.document(id)?.title.as_str())
    }

    /// The content hash of a card's document.
    pub(crate) fn blob(&self, id: &CardId) -> Option<&str> {
        Some(self.document(id)?.blob.as_str())
    }

    /// Whether the repository was read and has no document of this card.
    pub(crate) fn is_missing(&self, id: &CardId) -> bool {
        self.catalogue.is_some() && self.document(id).is_none()
    }

    /// Whether a card's check commit is in the branch already.
    pub(crate) fn is_merged(&self, id: &CardId) -> bool {
        self.merged.contains(id)
    }

    /// Files that are no cards.
    pub(crate) fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// Whether documents are those of a commit because the checkout is on another branch.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.catalogue.as_ref().is_some_and(|catalogue| match catalogue.place {
            Place::Commit(_) => true,
            Place::WorkTree(_) | Place::Nowhere => false,
        })
    }

    fn document(&self, id: &CardId) -> Option<&board_core::edge::documents::Document> {
        self.catalogue.as_ref()?.documents.get(id.slug()?).map(AsRef::as_ref)
    }
}

impl Repository {
    /// The configured repository; it is opened by the first look.
    pub(crate) fn new(settings: &Settings) -> Repository {
        let options = GitOptions {
            allow_filters: settings.board.allow_filters,
            identity: Identity { name: settings.audit.name.clone(), email: settings.audit.email.clone() },
            lock_note_dir: settings.board.state_dir.join("locks"),
            program: PathBuf::from("git"),
        };
        Repository {
            path: settings.board.repository.clone(),
            options,
            configured_branch: settings.board.branch.clone(),
            inner: Mutex::default(),
        }
    }

    /// Looks at all documents; blocking.
    pub(crate) fn look(&self, board: &Board) -> Arc<Documents> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match self.scan(&mut inner, board) {
            Ok(documents) => inner.last = Arc::new(documents),
            Err(error) => {
                // Opened again the next time: it may have been moved back.
                inner.reader = None;
                let trouble = Some(format!("{error:#}"));
                if inner.last.trouble != trouble {
                    tracing::warn!("the repository cannot be read: {error:#}");
                    let last = &inner.last;
                    inner.last = Arc::new(Documents {
                        catalogue: last.catalogue.clone(),
                        seeds: last.seeds.clone(),
                        broken: last.broken.clone(),
                        merged: last.merged.clone(),
                        branch: last.branch.clone(),
                        trouble,
                    });
                }
            }
        }
        inner.last.clone()
    }

    /// Looks at the documents of these cards alone; blocking. Nothing of it is kept.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub(crate) fn look_at(&self, board: &Board, ids: &[&CardId]) -> anyhow::Result<Arc<Documents>> {
        let reader = self.reader(board)?;
        let slugs: Vec<_> = ids.iter().filter_map(|id| id.slug()).cloned().collect();
        let catalogue = reader.look_at(board, &slugs)?;
        has_branch(&catalogue, &reader)?;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = inner.merged.look(reader.git(), catalogue.tip.as_ref(), board, Some(ids));
        drop(inner);
        Ok(Arc::new(Documents { merged, ..documents_of(&reader, catalogue, board) }))
    }

    /// For reading single documents and for orders; blocking.
    ///
    /// # Errors
    /// If the repository cannot be opened, or has no branch yet.
    pub(crate) fn reader(&self, board: &Board) -> anyhow::Result<Reader> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.opened(&mut inner, board).cloned()
    }

    fn opened<'a>(&self, inner: &'a mut Inner, board: &Board) -> anyhow::Result<&'a Reader> {
        let fixed = board.branch.as_ref().or(self.configured_branch.as_ref());
        let stale = inner.reader.as_ref().is_none_or(|r| fixed.is_some_and(|branch| branch != r.branch()));
        if stale {
            let git = Git::open(&self.path, self.options.clone())?;
            let branch = match fixed {
                Some(branch) => branch.clone(),
                None => match git.head_state()? {
                    Head::Branch(branch) | Head::Unborn(branch) => branch,
                    Head::Detached(_) => anyhow::bail!("the checkout is on no branch; set board.branch"),
                },
            };
            inner.reader = Some(Reader::new(git, branch));
        }
        inner.reader.as_ref().context("the repository is not open")
    }

    fn scan(&self, inner: &mut Inner, board: &Board) -> anyhow::Result<Documents> {
        let reader = self.opened(inner, board)?.clone();
        let catalogue = reader.scan(board, &mut inner.cache)?;
        has_branch(&catalogue, &reader)?;
        let merged = inner.merged.look(reader.git(), catalogue.tip.as_ref(), board, None);
        Ok(Documents { merged, ..documents_of(&reader, catalogue, board) })
    }
}

/// A branch that is gone is no empty board: it was renamed, or its name is wrong in the configuration.
fn has_branch(catalogue: &Catalogue, reader: &Reader) -> anyhow::Result<()> {
    match catalogue.place {
        Place::WorkTree(_) | Place::Commit(_) => Ok(()),
        Place::Nowhere => anyhow::bail!(
            "Den Branch „{}“ gibt es nicht (board.branch). Lege ihn wieder an, oder nenne den richtigen.",
            reader.branch()
        ),
    }
}

/// What a catalogue says, with the cards that have no entry.
fn documents_of(reader: &Reader, catalogue: Catalogue, board: &Board) -> Documents {
    let mut broken: Vec<Broken> = catalogue
        .broken
        .iter()
        .map(|broken| Broken { path: broken.path.clone(), reason: broken.reason.clone() })
        .collect();
    let mut seeds = BTreeMap::new();
    for slug in catalogue.slugs() {
        let id = CardId::Slug(slug.clone());
        if board.cards.contains_key(&id) {
            continue;
        }
        match catalogue.seed_card(slug) {
            Seed::Card(card) => {
                seeds.insert(id, *card);
            }
            Seed::Nothing => {}
            Seed::Broken(reason) => {
                broken.push(Broken { path: format!("docs/board/{slug}.yaml"), reason });
            }
        }
    }
    let branch = Some(reader.branch().to_owned());
    Documents { catalogue: Some(catalogue), seeds, broken, merged: BTreeSet::new(), trouble: None, branch }
}
