//! The one way into the board: events of the operator and outcomes of runs.

use super::board::{Board, Policy, Stamp, WrittenDocument};
use super::card::{Applying, CardId};
use super::event::{Applied, Event, Refusal};
use super::job::JobRef;
use super::outcome::Outcome;
use super::slug::Slug;

/// What an outcome is to the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Of the card's current job and attempt: to be applied.
    Current,
    /// It was applied already: finished business.
    Applied,
    /// Of another job or attempt, or of a card that is gone: kept and marked stale.
    Stale,
}

impl Board {
    /// An operator's event on a card that has an entry.
    ///
    /// # Errors
    /// A [`Refusal`]; the board is unchanged then.
    pub fn apply(
        &mut self,
        id: &CardId,
        event: Event,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let _ = (id, event, stamp, policy);
        Err(Refusal::Fault("not written yet".into()))
    }

    /// What an outcome of this job and attempt is to the board.
    pub fn standing(&self, card: &CardId, job: JobRef) -> Standing {
        let _ = (card, job);
        Standing::Stale
    }

    /// Applies an outcome whose documents, if it brings any, are written.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not current.
    pub fn apply_outcome(
        &mut self,
        outcome: &Outcome,
        documents: &[WrittenDocument],
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let _ = (outcome, documents, stamp, policy);
        Err(Refusal::Fault("not written yet".into()))
    }

    /// First step of a transition that writes documents.
    ///
    /// # Errors
    /// [`Refusal::Applying`] if the card has one already.
    pub fn begin_applying(&mut self, card: &CardId, applying: Applying) -> Result<(), Refusal> {
        let _ = (card, applying);
        Ok(())
    }

    /// Third step for a synthesis: the new card in `geplant`, unread, recorded on its parent.
    ///
    /// # Errors
    /// A [`Refusal`] if the parent is gone.
    pub fn finish_synthesis(
        &mut self,
        parent: &CardId,
        slug: &Slug,
        title: &str,
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let _ = (parent, slug, title, documents, stamp);
        Err(Refusal::Fault("not written yet".into()))
    }

    /// Parked starts that are due become real: no longer parked, outbox entry made. True if one did.
    pub fn release_due(&mut self, now: super::time::Timestamp) -> bool {
        let _ = now;
        false
    }
}
