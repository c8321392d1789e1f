//! Repository → board: parents and children that are known only from their records.
//!
//! While the state is kept they stay in it (`audit`, "retire"): a parent is needed when its children end, an open
//! child when its parent asks what is left. A state that was lost and begins anew from the records has none of
//! them, and the end of the last child would make no synthesis, or that of the first one too early. So the watcher
//! takes them in at its start. What a crash leaves is taken in at the next one.

use super::documents::ReconcileError;
use crate::edge::documents::{Cache, Documents, Seed};
use crate::edge::store::{Store, UpdateError};
use crate::model::card::{Card, CardId};

/// Gives every card with a parent or children an entry, and returns the ids of those that had none.
///
/// # Errors
/// If the repository or the state cannot be read, or the state not be written.
pub fn take_in(store: &Store, documents: &Documents) -> Result<Vec<CardId>, ReconcileError> {
    let board = store.read_synced()?;
    let found = documents.scan(&board, &mut Cache::default())?;
    let related: Vec<Card> = found
        .slugs()
        .filter(|slug| !board.cards.contains_key(&CardId::Slug((*slug).clone())))
        .filter_map(|slug| match found.seed_card(slug) {
            Seed::Card(card) => Some(*card),
            Seed::Nothing | Seed::Broken(_) => None,
        })
        .filter(|card| card.parent.is_some() || !card.children.is_empty())
        .collect();
    if related.is_empty() {
        return Ok(Vec::new());
    }
    let taken = store.update(|board| {
        related.iter().for_each(|card| board.take_in(card));
        Ok::<(), std::convert::Infallible>(())
    });
    match taken {
        Ok(()) => Ok(related.into_iter().map(|card| card.id).collect()),
        Err(UpdateError::Refused(never)) => match never {},
        Err(UpdateError::Store(error)) => Err(error.into()),
    }
}
