//! The branch's history and the outbox: commits that are found again, commits that the operator took away,
//! and cards that need no entry any more.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::edits::path_of;
use super::{Audit, Memory};
use crate::edge::documents::{Bytes, MAX_REPORT_BYTES, Place};
use crate::edge::git::Oid;
use crate::model::board::{Board, Committed, OutboxEntry};
use crate::model::card::{Card, CardId};
use crate::model::phase::Phase;
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

/// Commits of the branch that are searched for trailers.
pub(super) const LOOK_BACK: usize = 2_000;
/// How long a card at rest keeps its entry after its last commit, days (storage.md).
pub(super) const REST_DAYS: i64 = 14;

/// Drops committed entries that a newer committed one of the same card makes needless.
pub(super) fn drop_older(board: &mut Board) {
    let mut newest: BTreeMap<Slug, Uuid> = BTreeMap::new();
    for entry in board.outbox.iter().filter(|entry| entry.committed.is_some()) {
        newest.insert(entry.card.clone(), entry.step.transition);
    }
    board
        .outbox
        .retain(|entry| entry.committed.is_none() || newest.get(&entry.card) == Some(&entry.step.transition));
}

impl Audit<'_> {
    /// Compares the outbox with the branch: a pending entry whose commit is there (a crash before it was
    /// marked) is marked; the newest committed entry of a card whose commit and content are gone (the
    /// operator rebased, squashed or reset) is pending again.
    pub(super) fn recall(&self, memory: &mut Memory, now: Timestamp) -> anyhow::Result<()> {
        let board = self.store.read_synced()?;
        let Some(tip) = self.documents.tip()? else { return Ok(()) };
        let git = self.documents.git();
        let pending = board.outbox.iter().any(|entry| entry.committed.is_none());
        let grown = match &memory.verified {
            Some(verified) => {
                *verified == tip || git.commit_exists(verified)? && git.is_ancestor(verified, &tip)?
            }
            None => false,
        };
        if grown && !pending {
            memory.verified = Some(tip);
            return Ok(());
        }
        let mut found: BTreeMap<String, Oid> = BTreeMap::new();
        for (commit, transitions) in git.transitions(self.documents.branch(), LOOK_BACK)? {
            for transition in transitions {
                found.entry(transition.trim().to_owned()).or_insert_with(|| commit.clone());
            }
        }
        let mut marks: BTreeMap<Uuid, Option<Committed>> = BTreeMap::new();
        for entry in &board.outbox {
            let on_branch = found.get(&entry.step.transition.to_string());
            match (&entry.committed, on_branch) {
                (None, Some(commit)) => {
                    // Perhaps the crash was before the operator's index was told.
                    git.repair_index(self.documents.branch(), commit)?;
                    let committed = Committed { commit: commit.to_string(), at: now };
                    marks.insert(entry.step.transition, Some(committed));
                }
                (Some(committed), Some(commit)) if committed.commit != commit.as_str() => {
                    let moved = Committed { commit: commit.to_string(), ..committed.clone() };
                    marks.insert(entry.step.transition, Some(moved));
                }
                (Some(committed), None) if !grown => {
                    if let Some(change) = self.look_for(entry, committed, &tip)? {
                        marks.insert(entry.step.transition, change);
                    }
                }
                (None, None) | (Some(_), _) => {}
            }
        }
        memory.verified = Some(tip);
        if marks.is_empty() {
            return Ok(());
        }
        self.change(|board| {
            for entry in &mut board.outbox {
                if let Some(mark) = marks.get(&entry.step.transition) {
                    entry.committed.clone_from(mark);
                }
            }
            drop_older(board);
        })
    }

    /// What becomes of the mark of an entry whose trailer is not on the branch: nothing if its commit is
    /// there all the same, the tip if its content is there, no mark if neither is.
    fn look_for(
        &self,
        entry: &OutboxEntry,
        committed: &Committed,
        tip: &Oid,
    ) -> anyhow::Result<Option<Option<Committed>>> {
        let git = self.documents.git();
        if let Ok(commit) = Oid::parse(&committed.commit)
            && git.commit_exists(&commit)?
            && git.is_ancestor(&commit, tip)?
        {
            return Ok(None);
        }
        let place = Place::Commit(tip.clone());
        let has = |path: &str, wanted: &dyn Fn(&[u8]) -> anyhow::Result<bool>| -> anyhow::Result<bool> {
            match self.documents.bytes_at(&place, path, MAX_REPORT_BYTES)? {
                Bytes::There(bytes, _) => wanted(&bytes),
                Bytes::Broken(_) | Bytes::Missing => Ok(false),
            }
        };
        let mut there = has(&path_of(&entry.card), &|bytes| Ok(bytes == entry.record.as_bytes()))?;
        for document in &entry.documents {
            there = there && has(&document.path, &|_| Ok(true))?;
        }
        if there {
            return Ok(Some(Some(Committed { commit: tip.to_string(), ..committed.clone() })));
        }
        tracing::warn!(
            CARD_ID = %entry.card,
            "the transition {} is no longer on the branch; it is committed again",
            entry.step.transition
        );
        Ok(Some(None))
    }

    /// Takes cards at rest out of the state whose last commit is old: their record says all there is.
    pub(super) fn retire(&self, now: Timestamp) -> anyhow::Result<()> {
        let board = self.store.read()?;
        let leaving: BTreeSet<Slug> =
            board.cards.values().filter_map(|card| may_leave(&board, card, now)).collect();
        if leaving.is_empty() {
            return Ok(());
        }
        self.change(|board| {
            for slug in &leaving {
                let id = CardId::Slug(slug.clone());
                // Looked at again under the lock: somebody may have clicked meanwhile.
                if board.cards.get(&id).and_then(|card| may_leave(board, card, now)).is_some() {
                    board.cards.remove(&id);
                    board.outbox.retain(|entry| entry.card != *slug);
                }
            }
        })
    }
}

/// The slug of a card that may leave the state now.
fn may_leave(board: &Board, card: &Card, now: Timestamp) -> Option<Slug> {
    let slug = card.id.slug()?;
    let newest = board.outbox.iter().rev().find(|entry| entry.card == *slug)?;
    let committed = newest.committed.as_ref().filter(|committed| !committed.commit.is_empty())?;
    let old = now.seconds_since(committed.at) >= REST_DAYS * 24 * 3600;
    let all_committed = board.outbox.iter().all(|entry| entry.card != *slug || entry.committed.is_some());
    // A parent is needed when its children end, a planned child when its parent asks what is still open.
    let linked = !card.children.is_empty() || (card.parent.is_some() && card.phase == Phase::Geplant);
    let busy = card.applying.is_some()
        || card.order.is_some()
        || card.open_draft.is_some()
        || card.parked.is_some()
        || card.synthesis_due.is_some()
        || card.unread
        || card.file_missing
        || card.build.as_ref().is_some_and(|build| build.worktree.is_some());
    let said = crate::model::record::render(card) == newest.record;
    (card.phase.is_at_rest() && old && all_committed && !linked && !busy && said).then(|| slug.clone())
}
