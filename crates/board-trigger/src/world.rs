//! What a page is made from: the board, the documents of the repository and the queue, read once a request.
//!
//! Reading is blocking work. Nothing here is held under a lock: pages may be a moment old, and what is done
//! on them is decided again under the state lock.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use board_core::edge::waits::Waits;
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId};
use board_core::model::fanout::{ChildState, child_state};
use board_core::model::job::JobRef;
use board_core::model::pending::{Place, QueueView};
use board_core::model::slug::Slug;
use board_core::model::time::Timestamp;

use crate::repository::Documents;

/// How far the runs are, by job.
pub(crate) type Runs = BTreeMap<JobRef, Run>;

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Iterations so far.
    pub(crate) iterations: u32,
    /// When the agent last gave a sign of life.
    pub(crate) last_activity: Timestamp,
    /// What it does, where the runtime tells.
    pub(crate) doing: Option<String>,
}

/// Everything at one moment.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The state.
    pub(crate) board: Arc<Board>,
    /// The repository's documents.
    pub(crate) documents: Arc<Documents>,
    /// The queue.
    pub(crate) queue: QueueView,
    /// The runs.
    pub(crate) runs: Runs,
    /// What the watcher waits for.
    pub(crate) waits: Arc<Waits>,
    /// Now.
    pub(crate) now: Timestamp,
}

impl World {
    /// The card of this id: its entry, else what the repository says.
    pub(crate) fn card(&self, id: &CardId) -> Option<&Card> {
        self.board.cards.get(id).or_else(|| self.documents.seed(id))
    }

    /// All cards.
    pub(crate) fn cards(&self) -> impl Iterator<Item = &Card> {
        let reserved: BTreeSet<String> = self.board.reserved_paths();
        let seeds = self.documents.seeds().filter(move |card| {
            let written = card.document_path().is_some_and(|path| reserved.contains(&path));
            !self.board.cards.contains_key(&card.id) && !written
        });
        self.board.cards.values().chain(seeds)
    }

    /// The title: that of the document where there is one, since the card's is only as new as its last
    /// change.
    pub(crate) fn title<'a>(&'a self, card: &'a Card) -> &'a str {
        self.documents.title(&card.id).unwrap_or(&card.title)
    }

    /// Whether the document that backs a card is gone.
    pub(crate) fn is_missing(&self, card: &Card) -> bool {
        // Not written yet is not gone.
        if card.is_only_ordered() {
            return false;
        }
        card.file_missing || (card.source.has_document() && self.documents.is_missing(&card.id))
    }

    /// How many children of a card have ended, of how many.
    pub(crate) fn children(&self, card: &Card) -> Option<(usize, usize)> {
        if card.children.is_empty() {
            return None;
        }
        let ended = card.children.iter().filter(|child| self.child_state(child) != ChildState::Open).count();
        Some((ended, card.children.len()))
    }

    /// How a child counts; one that nobody knows counts as failed.
    pub(crate) fn child_state(&self, child: &Slug) -> ChildState {
        self.card(&CardId::Slug(child.clone())).map_or(ChildState::Failure, child_state)
    }

    /// Where the files of a job are.
    pub(crate) fn place(&self, job: JobRef) -> Place {
        self.queue.place(job)
    }

    /// The job before this one in its lane, with its card.
    pub(crate) fn ahead(&self, job: JobRef) -> Option<&Card> {
        let lane = self.queue.inbox.iter().find(|(_, inbox)| *inbox == job)?.0;
        let mut before = None;
        for (_, other) in self.queue.inbox.iter().filter(|(l, _)| *l == lane) {
            if *other == job {
                break;
            }
            before = Some(*other);
        }
        let running = || {
            self.queue.running.iter().map(|file| file.job).find_map(|job| {
                self.board
                    .card_of(job)
                    .filter(|card| card.job.as_ref().is_some_and(|j| j.kind.lane() == lane))
            })
        };
        match before {
            Some(before) => self.board.card_of(before),
            None => running(),
        }
    }
}
