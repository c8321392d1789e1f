//! Parents and children: linking, what blocks a parent, and when its synthesis is due.

use super::board::{Board, Request, Stamp};
use super::card::{Card, CardId};
use super::event::{LinkRefusal, Refusal, SynthesisRefusal};
use super::phase::{Phase, Terminal};
use super::slug::Slug;
use super::time::Timestamp;

/// Event of a record that tells of a new link.
const LINKED: &str = "linked";
/// Event of a record that tells of a link that was taken away.
const UNLINKED: &str = "unlinked";

/// Event of a record that tells that the operator asked for a synthesis.
pub const SYNTHESIS_ASKED: &str = "synthesis_asked";

/// Children of one parent at most.
pub const MAX_CHILDREN: usize = 64;

/// How a fan-out counts a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Not ended yet.
    Open,
    /// Ended well.
    Success,
    /// Ended badly.
    Failure,
    /// Archived.
    Ended,
}

/// How a card counts as a child, whatever backs it. A child whose file is gone counts as failed.
pub fn child_state(card: &Card) -> ChildState {
    if card.file_missing && card.phase != Phase::Archiviert {
        return ChildState::Failure;
    }
    match card.phase.terminal() {
        None => ChildState::Open,
        Some(Terminal::Success) => ChildState::Success,
        Some(Terminal::Ended) => ChildState::Ended,
        Some(Terminal::SuccessWithSynthesis) if card.synthesis.is_some() => ChildState::Success,
        Some(Terminal::SuccessWithSynthesis) => ChildState::Open,
        // A deploy must not make a synthesis: what another run ends is not ended yet.
        Some(Terminal::Failure)
            if card.error.as_ref().is_some_and(|error| error.result.leaves_card_open()) =>
        {
            ChildState::Open
        }
        Some(Terminal::Failure) => ChildState::Failure,
    }
}

/// The children of a card that are not terminal yet; derived, never stored. A child without an entry is
/// at rest, and only `geplant` of those phases is open; the caller says which these are.
pub fn blocked_by(board: &Board, parent: &Card, open_without_entry: impl Fn(&Slug) -> bool) -> Vec<Slug> {
    parent
        .children
        .iter()
        .filter(|child| match board.cards.get(&CardId::Slug((*child).clone())) {
            Some(card) => child_state(card) == ChildState::Open,
            None => open_without_entry(child),
        })
        .cloned()
        .collect()
}

impl Board {
    /// Links a child to a parent, or unlinks it. Both cards have an entry by now. Never makes a synthesis
    /// due. Both ends are recorded, so that the board can be rebuilt from git alone.
    ///
    /// # Errors
    /// [`LinkRefusal`] as domain.md lists them.
    pub fn link(
        &mut self,
        child: &CardId,
        parent: Option<&CardId>,
        stamp: &Stamp,
    ) -> Result<(), LinkRefusal> {
        let child_slug = child.slug().ok_or_else(|| LinkRefusal::NotACard(child.clone()))?.clone();
        let current =
            self.cards.get(child).ok_or_else(|| LinkRefusal::Unknown(child.clone()))?.parent.clone();
        let Some(parent) = parent else {
            if let Some(old) = current {
                let old = CardId::Slug(old);
                if let Some(card) = self.cards.get_mut(&old) {
                    card.children.retain(|c| *c != child_slug);
                }
                if let Some(card) = self.cards.get_mut(child) {
                    card.parent = None;
                }
                self.record_change(&old, UNLINKED, stamp);
                self.record_change(child, UNLINKED, stamp);
            }
            return Ok(());
        };
        let parent_slug = parent.slug().ok_or_else(|| LinkRefusal::NotACard(parent.clone()))?.clone();
        if child == parent {
            return Err(LinkRefusal::Itself);
        }
        if !self.cards.contains_key(parent) {
            return Err(LinkRefusal::Unknown(parent.clone()));
        }
        match current {
            Some(current) if current == parent_slug => return Ok(()),
            Some(current) => return Err(LinkRefusal::HasParent(current)),
            None => {}
        }
        if self.is_below(&parent_slug, &child_slug) {
            return Err(LinkRefusal::Cycle(parent_slug));
        }
        if let Some(card) = self.cards.get_mut(parent) {
            if card.children.len() >= MAX_CHILDREN {
                return Err(LinkRefusal::TooMany);
            }
            card.children.push(child_slug);
        }
        if let Some(card) = self.cards.get_mut(child) {
            card.parent = Some(parent_slug);
        }
        self.record_change(parent, LINKED, stamp);
        self.record_change(child, LINKED, stamp);
        Ok(())
    }

    /// Whether `below` stands somewhere under `above`. Follows parents, at most as many as there are cards.
    fn is_below(&self, below: &Slug, above: &Slug) -> bool {
        let mut at = below.clone();
        for _ in 0..=self.cards.len() {
            if at == *above {
                return true;
            }
            match self.cards.get(&CardId::Slug(at)).and_then(|card| card.parent.clone()) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        true
    }

    /// The operator asks for a synthesis, the first or a further one: it is due from here on, and the watcher
    /// writes it. `open_without_entry` as for [`blocked_by`].
    ///
    /// # Errors
    /// [`Refusal::Synthesis`] without children, while one of them is open, or while one is due already;
    /// [`Refusal::Parked`]; [`Refusal::Applying`] and [`Refusal::Saving`] while its documents are written.
    pub fn ask_synthesis(
        &mut self,
        parent: &CardId,
        stamp: &Stamp,
        open_without_entry: impl Fn(&Slug) -> bool,
    ) -> Result<(), Refusal> {
        // A repeated request is answered as the first time, also when that synthesis is written by now.
        if stamp.request.is_some_and(|key| self.request(key).is_some()) {
            return Ok(());
        }
        let card = self.cards.get(parent).ok_or_else(|| Refusal::UnknownCard(parent.clone()))?;
        if card.synthesis_due.is_some() {
            return Err(SynthesisRefusal::Due.into());
        }
        if card.applying.is_some() {
            return Err(Refusal::Applying);
        }
        if card.order.is_some() {
            return Err(Refusal::Saving);
        }
        if card.parked.is_some() {
            return Err(Refusal::Parked);
        }
        if card.children.is_empty() {
            return Err(SynthesisRefusal::NoChildren.into());
        }
        let open = blocked_by(self, card, open_without_entry);
        if !open.is_empty() {
            return Err(SynthesisRefusal::Open(open).into());
        }
        if let Some(card) = self.cards.get_mut(parent) {
            card.synthesis_due = Some(stamp.now);
        }
        self.record_change(parent, SYNTHESIS_ASKED, stamp);
        if let Some(key) = stamp.request {
            let event = SYNTHESIS_ASKED.to_owned();
            self.requests.push(Request { key, at: stamp.now, card: parent.clone(), job: None, event });
        }
        Ok(())
    }

    /// Called in the write in which `child` became terminal: makes its parent's synthesis due if all
    /// children are then terminal and the parent has none yet.
    pub fn note_terminal(&mut self, child: &CardId, now: Timestamp) {
        let Some(card) = self.cards.get(child) else { return };
        if child_state(card) == ChildState::Open {
            return;
        }
        let Some(parent) = card.parent.clone().map(CardId::Slug) else { return };
        let Some(parent_card) = self.cards.get(&parent) else { return };
        if parent_card.synthesis.is_some() || parent_card.synthesis_due.is_some() {
            return;
        }
        // A child without an entry left the state at rest: all phases of rest but `geplant` are terminal,
        // and a planned child of a linked pair keeps its entry (see `Board::may_leave`).
        let all_ended = blocked_by(self, parent_card, |_| false).is_empty();
        if let Some(card) = self.cards.get_mut(&parent).filter(|_| all_ended) {
            card.synthesis_due = Some(now);
            card.changed_at = now;
        }
    }
}
