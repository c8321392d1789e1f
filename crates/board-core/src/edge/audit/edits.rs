//! Records that somebody edited by hand: found right before one is replaced, shown, never lost.

use std::collections::BTreeSet;

use super::Audit;
use super::history::LOOK_BACK;
use crate::edge::documents::{Bytes, Documents, Place};
use crate::edge::git::Oid;
use crate::edge::waits::Edit;
use crate::model::apply::adopted::{OVERRULED, TAKEN};
use crate::model::board::{Board, OutboxEntry};
use crate::model::card::CardId;
use crate::model::documents::RECORD_DIR;
use crate::model::hash::blob_hash;
use crate::model::record::{self, MAX_RECORD_BYTES};
use crate::model::slug::Slug;

/// Path of a card's record.
pub(super) fn path_of(card: &Slug) -> String {
    format!("{RECORD_DIR}/{card}.yaml")
}

/// The hash of the edited file that the operator was shown as he said which counts: it may be replaced.
fn shown(entry: &OutboxEntry) -> Option<String> {
    let said = [OVERRULED, TAKEN].contains(&entry.step.event.as_str());
    entry.step.note.clone().filter(|_| said)
}

/// A record that is not what the board wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// What stands in the file.
    pub file: String,
    /// Its hash.
    pub hash: String,
    /// What the board would write.
    pub board: String,
}

/// The record of a card if somebody edited it by hand, for its page and for the operator's word on it. `told` is
/// whether the watcher found that; without it only a record that was committed before is compared.
///
/// # Errors
/// If git or the disk fails.
pub fn edited(
    documents: &Documents,
    board: &Board,
    card: &Slug,
    told: bool,
) -> Result<Option<Edited>, crate::edge::documents::DocumentsError> {
    let entries = || board.outbox.iter().filter(|entry| entry.card == *card);
    if !told && !entries().any(|entry| entry.committed.is_some()) {
        return Ok(None);
    }
    let (Some(file), Some(board)) = (documents.record_text(card)?, recorded_text(board, card)) else {
        return Ok(None);
    };
    let hash = blob_hash(file.as_bytes());
    let known = entries().any(|e| blob_hash(e.record.as_bytes()) == hash || shown(e).as_ref() == Some(&hash));
    Ok((!known).then_some(Edited { file, hash, board }))
}

/// What the board would write for this card now, to be shown beside an edited file.
pub fn recorded_text(board: &Board, card: &Slug) -> Option<String> {
    let newest = board.outbox.iter().rev().find(|entry| entry.card == *card);
    let of_card = || board.cards.get(&CardId::Slug(card.clone())).map(record::render);
    newest.map(|entry| entry.record.clone()).or_else(of_card)
}

/// A record as it is on the branch and in the work tree, and what the board wrote of it.
#[derive(Debug)]
pub(super) struct Seen {
    path: String,
    /// On the branch.
    tip: Bytes,
    pub(super) tip_blob: Option<Oid>,
    /// In the work tree; the same as on the branch where that is not checked out.
    file: Bytes,
    /// Whether there is a work tree to look at.
    checked_out: bool,
    /// Hashes of what the board wrote or may replace.
    ours: BTreeSet<String>,
    /// Whether a commit of the board is remembered; without one the card was read from the branch as it is.
    remembered: bool,
}

impl Audit<'_> {
    pub(super) fn look(
        &self,
        board: &Board,
        card: &Slug,
        place: &Place,
        tip: Option<&Oid>,
    ) -> anyhow::Result<Seen> {
        let path = path_of(card);
        let on_branch = match tip {
            Some(tip) => self.documents.bytes_at(&Place::Commit(tip.clone()), &path, MAX_RECORD_BYTES)?,
            None => Bytes::Missing,
        };
        let tip_blob = match &on_branch {
            Bytes::There(bytes, _) => Some(self.documents.git().hash_blob(bytes)?),
            Bytes::Broken(_) | Bytes::Missing => None,
        };
        let checked_out = matches!(place, Place::WorkTree(_));
        let file = match place {
            Place::WorkTree(_) => self.documents.bytes_at(place, &path, MAX_RECORD_BYTES)?,
            Place::Commit(_) | Place::Nowhere => on_branch.clone(),
        };
        let entries = || board.outbox.iter().filter(|entry| entry.card == *card);
        let mut ours: BTreeSet<String> = entries().map(|e| blob_hash(e.record.as_bytes())).collect();
        ours.extend(entries().filter_map(shown));
        let remembered = entries().any(|entry| entry.committed.is_some());
        if let (true, Bytes::There(bytes, _), Some(blob)) = (remembered, &on_branch, &tip_blob)
            && !ours.contains(&blob_hash(bytes))
            && self.is_of_a_later_life(&path, bytes, blob)?
        {
            ours.insert(blob_hash(bytes));
        }
        Ok(Seen { path, tip: on_branch, tip_blob, file, checked_out, ours, remembered })
    }
}

impl Audit<'_> {
    /// Whether a record on the branch is what one of the board's own commits wrote, of which this state knows nothing:
    /// an earlier state was brought back, and what came after it is history now.
    fn is_of_a_later_life(&self, path: &str, bytes: &[u8], blob: &Oid) -> anyhow::Result<bool> {
        let read = record::parse(bytes).ok();
        let Some(transition) = read.and_then(|record| record.transition) else { return Ok(false) };
        let git = self.documents.git();
        let name = transition.to_string();
        for (commit, transitions) in git.transitions(self.documents.branch(), LOOK_BACK)? {
            if transitions.iter().any(|found| found.trim() == name) {
                let there = git.read_path(&commit, path, MAX_RECORD_BYTES)?;
                return Ok(there.is_some_and(|there| there.oid == *blob));
            }
        }
        Ok(false)
    }
}

impl Seen {
    /// What somebody else wrote there, if somebody did.
    pub(super) fn edit(&self) -> Option<Edit> {
        let edit = |hash: Option<String>, what: &str| {
            let reason = format!("{} {what}; das Board überschreibt das nicht von selbst.", self.path);
            Some(Edit { path: self.path.clone(), hash, reason })
        };
        match &self.tip {
            Bytes::There(bytes, _) => {
                let hash = blob_hash(bytes);
                if self.remembered && !self.ours.contains(&hash) {
                    return edit(Some(hash), "wurde auf dem Branch von Hand geändert");
                }
            }
            Bytes::Broken(_) => return edit(None, "ist auf dem Branch keine lesbare Datei"),
            Bytes::Missing => {}
        }
        match &self.file {
            Bytes::There(bytes, _) => {
                let hash = blob_hash(bytes);
                let committed = matches!(&self.tip, Bytes::There(tip, _) if tip == bytes);
                if committed || self.ours.contains(&hash) {
                    None
                } else {
                    edit(Some(hash), "wurde von Hand geändert")
                }
            }
            Bytes::Broken(_) => edit(None, "ist keine lesbare Datei"),
            // Somebody removed it; the board writes it again, nothing is lost by that.
            Bytes::Missing => None,
        }
    }

    /// Whether the file in the work tree needs no write.
    pub(super) fn file_is(&self, record: &str) -> bool {
        !self.checked_out || matches!(&self.file, Bytes::There(bytes, _) if bytes == record.as_bytes())
    }
}

/// The hand-edited record of a card in the work tree or on the branch, if what stands there is neither the
/// branch's nor the board's: for the card's page.
impl Documents {
    /// The text of a card's record where it is read and written now, for people to compare.
    ///
    /// # Errors
    /// If git or the disk fails.
    pub fn record_text(&self, card: &Slug) -> Result<Option<String>, crate::edge::documents::DocumentsError> {
        self.text_of(&path_of(card))
    }
}
