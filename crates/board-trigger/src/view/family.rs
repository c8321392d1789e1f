//! What a card's page says of other cards: links to them, and whether its children can be summed up.
use board_core::edge::settings::Language;
use board_core::model::apply::rank::is_by_hand;
use board_core::model::card::{Card, CardId};
use board_core::model::fanout::ChildState;
use serde::Serialize;

use super::board::in_order;
use super::{phase_label, text};
use crate::world::World;

/// Another card, as a link.
#[derive(Debug, Serialize)]
pub(crate) struct CardLink {
    id: String,
    title: String,
    phase_label: &'static str,
    ended: bool,
}

impl CardLink {
    /// The link to a card that may be gone.
    pub(crate) fn new(world: &World, id: &CardId, language: Language) -> CardLink {
        let card = world.card(id);
        CardLink {
            id: id.to_string(),
            title: card.map_or_else(|| id.to_string(), |card| text::excerpt(world.title(card), 120)),
            phase_label: card.map_or("–", |card| phase_label(card.phase, language)),
            ended: id.slug().is_some_and(|slug| world.child_state(slug) != ChildState::Open),
        }
    }
}

/// Cards that the field for a place proposes.
const PLACES_PROPOSED: usize = 200;

/// The other cards of a column that is ordered by hand, in its order; nothing elsewhere.
pub(crate) fn places(world: &World, card: &Card) -> Vec<(String, String)> {
    let Some(column) = card.phase.column().filter(|column| is_by_hand(*column)) else { return Vec::new() };
    in_order(world, column)
        .into_iter()
        .filter(|other| other.id != card.id)
        .take(PLACES_PROPOSED)
        .map(|other| (other.id.to_string(), text::excerpt(world.title(other), 80)))
        .collect()
}

/// Whether the operator can have a synthesis made: all children have ended, none is being written, and nothing
/// else of the card is under way. The model decides again under the lock.
pub(crate) fn synthesises(world: &World, card: &Card) -> bool {
    world.children(card).is_some_and(|(ended, all)| ended == all)
        && card.synthesis_due.is_none()
        && card.parked.is_none()
        && card.applying.is_none()
        && card.order.is_none()
}
