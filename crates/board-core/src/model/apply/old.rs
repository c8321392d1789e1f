//! Cards from before the board: the intents of a repository with a history do not all stand in Geplant
//! (domain.md, "Cards and their sources"). Put where they belong in one write, which becomes one commit.

use super::derived_id;
use crate::model::board::{Board, Policy, Stamp};
use crate::model::card::{Card, CardId};
use crate::model::event::{Event, Refusal};
use crate::model::phase::Phase;

/// Cards that one call moves at most, so that the state and the commit stay of a size; the next call moves more.
pub const MAX_OLD: usize = 1_000;

/// Where cards from before the board belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs {
    /// What they asked for is there.
    Deployed,
    /// They are of no interest any more.
    Archived,
}

impl Belongs {
    /// Where that is.
    pub fn phase(self) -> Phase {
        match self {
            Belongs::Deployed => Phase::Deployed,
            Belongs::Archived => Phase::Archiviert,
        }
    }

    /// By the id of the phase; `None` for any other.
    pub fn from_id(id: &str) -> Option<Belongs> {
        [Belongs::Deployed, Belongs::Archived].into_iter().find(|belongs| belongs.phase().id() == id)
    }
}

impl Board {
    /// Moves planned cards that the board has no entry of to where they belong, [`MAX_OLD`] at most, and returns
    /// their ids. A card that got an entry meanwhile is left where it is.
    ///
    /// # Errors
    /// A [`Refusal`] for the reason; the caller throws this board away then, as `Held::update` does.
    pub fn put_old_away(
        &mut self,
        cards: &[Card],
        belongs: Belongs,
        reason: &str,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Vec<CardId>, Refusal> {
        let mut moved = Vec::new();
        for card in cards.iter().filter(|card| card.phase == Phase::Geplant) {
            if self.cards.contains_key(&card.id) || moved.len() == MAX_OLD {
                continue;
            }
            self.take_in(card);
            // Of one write and one kind, so that they share a commit; each with an id of its own.
            let transition = derived_id(stamp, &card.id.to_string());
            let own = Stamp { transition, request: None, ..stamp.clone() };
            let event = match belongs {
                Belongs::Deployed => Event::DoneOutside { reason: reason.to_owned() },
                Belongs::Archived => Event::Archived,
            };
            self.apply(&card.id, event, &own, policy)?;
            moved.push(card.id.clone());
        }
        Ok(moved)
    }
}
