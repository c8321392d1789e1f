//! The order by hand of Backlog and Geplant.
//!
//! A card without a rank counts as 0, and among equals the newest change stands first. So a card that is put
//! on top gets a rank below 0 and one at the end a rank above, and new cards appear between them; only a place
//! amid cards without a rank needs ranks for the cards on one side of it.

use super::Refusal;
use crate::model::board::{Board, Stamp};
use crate::model::card::{Card, CardId};
use crate::model::event::Said;
use crate::model::phase::Column;

/// Cards that one move by hand may give a rank; each is a step in its card's record.
pub const MAX_RANKED: usize = 200;
/// Room between two ranks, so that most moves change one card.
const STEP: i64 = 1 << 10;
/// Event of a record that tells of a new place.
pub const RANKED: &str = "ranked";

/// Whether a column is ordered by hand.
pub fn is_by_hand(column: Column) -> bool {
    matches!(column, Column::Backlog | Column::Geplant)
}

/// The rank that a card is ordered by.
pub fn rank_of(card: &Card) -> i64 {
    card.rank.unwrap_or(0)
}

impl Board {
    /// Puts a card before another of its column, or at its end. `shown` are the column's cards in their order;
    /// what has an entry is looked up again here.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] in a column that is not ordered by hand and for a `before` that is not in it,
    /// [`Refusal::Limit`] if more than [`MAX_RANKED`] cards would have to get a rank.
    pub fn rank(
        &mut self,
        id: &CardId,
        before: Option<&CardId>,
        shown: &[&Card],
        stamp: &Stamp,
    ) -> Result<(), Refusal> {
        let column = self.card(id)?.phase.column();
        let Some(column) = column.filter(|column| is_by_hand(*column)) else {
            return Err(invalid(
                "nur in Backlog und Geplant lässt sich die Reihenfolge von Hand setzen",
                "only Backlog and Planned can be ordered by hand",
            ));
        };
        let mut others: Vec<(&Card, i64)> = Vec::with_capacity(shown.len());
        let mut now = None;
        for card in shown {
            let current = self.cards.get(&card.id).unwrap_or(card);
            if card.id == *id {
                now = Some(others.len());
            } else if current.phase.column() == Some(column) {
                others.push((card, rank_of(current)));
            }
        }
        let at = match before {
            None => others.len(),
            Some(before) => others.iter().position(|(card, _)| card.id == *before).ok_or_else(|| {
                invalid(
                    &format!("{before} ist keine andere Karte derselben Spalte"),
                    &format!("{before} is no other card of the same column"),
                )
            })?,
        };
        if now == Some(at) {
            return Ok(());
        }
        let ranks: Vec<i64> = others.iter().map(|(_, rank)| *rank).collect();
        let (own, moved) = place(&ranks, at);
        if moved.len() >= MAX_RANKED {
            return Err(Refusal::Limit(Said::new(
                format!(
                    "Dafür bekämen {} Karten einen festen Platz, höchstens {MAX_RANKED} sind es auf einmal. \
                     Setze die Karte an den Anfang oder ans Ende.",
                    moved.len() + 1
                ),
                format!(
                    "{} cards would get a place of their own, at most {MAX_RANKED} may at once. Put the card \
                     first or last.",
                    moved.len() + 1
                ),
            )));
        }
        for (index, rank) in moved {
            if let Some((card, _)) = others.get(index) {
                self.take_in(card);
                self.set_rank(&card.id, rank, stamp);
            }
        }
        self.set_rank(id, own, stamp);
        Ok(())
    }

    fn set_rank(&mut self, id: &CardId, rank: i64, stamp: &Stamp) {
        if let Some(card) = self.cards.get_mut(id) {
            card.rank = Some(rank);
            self.record_change(id, RANKED, stamp);
        }
    }
}

fn invalid(de: &str, en: &str) -> Refusal {
    Refusal::Invalid { field: "before", problem: Said::new(de, en) }
}

/// The rank of a card that comes to stand at `at` among others with these ranks, and what the ranks of others
/// become for it: as few of them as will do.
fn place(ranks: &[i64], at: usize) -> (i64, Vec<(usize, i64)>) {
    let (above, below) = ranks.split_at(at.min(ranks.len()));
    match (above.last(), below.first()) {
        (None, None) => (0, Vec::new()),
        (None, Some(first)) => (first.saturating_sub(STEP), Vec::new()),
        (Some(last), None) => (last.saturating_add(STEP), Vec::new()),
        (Some(last), Some(first)) if first.saturating_sub(*last) > 1 => {
            (last + first.saturating_sub(*last) / 2, Vec::new())
        }
        (Some(last), Some(first)) => {
            let own_down = last.saturating_add(STEP);
            let down = push(own_down, below.iter().copied().enumerate().map(|(i, r)| (at + i, r)), 1);
            let own_up = first.saturating_sub(STEP);
            let up = push(own_up, above.iter().copied().enumerate().rev(), -1);
            if up.len() < down.len() { (own_up, up) } else { (own_down, down) }
        }
    }
}

/// Moves ranks on, away from `from`, as long as they would not lie beyond the one before.
fn push(from: i64, others: impl Iterator<Item = (usize, i64)>, sign: i64) -> Vec<(usize, i64)> {
    let mut next = from;
    let mut moved = Vec::new();
    for (index, rank) in others {
        let lies_beyond = if sign > 0 { rank > next } else { rank < next };
        if lies_beyond {
            break;
        }
        next = next.saturating_add(sign * STEP);
        moved.push((index, next));
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::Source;
    use crate::model::phase::Phase;
    use crate::model::slug::Slug;
    use crate::model::time::Timestamp;
    use uuid::Uuid;

    fn id(name: &str) -> CardId {
        CardId::Slug(Slug::parse(name).unwrap())
    }

    fn stamp() -> Stamp {
        let (now, transition, job) = (Timestamp::MIN, Uuid::from_u128(1), Uuid::from_u128(2));
        Stamp { now, actor: "lukas".into(), request: None, transition, job, park: false }
    }

    /// A board of planned cards of one age, and the same cards as the repository alone would tell of them.
    fn planned(count: usize) -> (Board, Vec<Card>) {
        let card = |n| {
            let title = format!("Karte {n}");
            Card::new(id(&format!("k-{n:03}")), Source::Intent, title, Phase::Geplant, Timestamp::MIN)
        };
        (Board::empty(), (0..count).map(card).collect())
    }

    /// The column as it is shown: by rank, then by id, since all are of one age.
    fn order(board: &Board, seeds: &[Card]) -> Vec<Card> {
        let mut cards: Vec<Card> =
            seeds.iter().map(|seed| board.cards.get(&seed.id).unwrap_or(seed).clone()).collect();
        cards.sort_by(|a, b| rank_of(a).cmp(&rank_of(b)).then(a.id.cmp(&b.id)));
        cards
    }

    fn go(board: &mut Board, seeds: &[Card], what: &CardId, before: Option<&CardId>) -> Result<(), Refusal> {
        let shown = order(board, seeds);
        let refs: Vec<&Card> = shown.iter().collect();
        board.take_in(shown.iter().find(|card| card.id == *what).unwrap());
        board.rank(what, before, &refs, &stamp())
    }

    #[test]
    fn a_card_comes_to_stand_exactly_where_it_was_put_whatever_was_moved_before() {
        let (mut board, seeds) = planned(9);
        let mut wanted: Vec<CardId> = seeds.iter().map(|card| card.id.clone()).collect();
        // A fixed walk over all places, some more than once.
        for turn in 0_usize..300 {
            let (from, to) = ((turn * 7 + turn / 5) % 9, (turn * 4 + turn / 3) % 9);
            let moved = wanted.remove(from);
            let before = wanted.get(to).cloned();
            wanted.insert(to, moved.clone());
            go(&mut board, &seeds, &moved, before.as_ref()).unwrap();
            let now: Vec<CardId> = order(&board, &seeds).into_iter().map(|card| card.id).collect();
            assert_eq!(now, wanted, "turn {turn}");
        }
    }

    #[test]
    fn first_and_last_change_one_card_and_the_middle_the_smaller_side() {
        let (mut board, seeds) = planned(9);
        go(&mut board, &seeds, &id("k-005"), Some(&id("k-000"))).unwrap();
        go(&mut board, &seeds, &id("k-003"), None).unwrap();
        assert_eq!(board.cards.len(), 2, "the others are as the repository has them");
        assert_eq!(
            (board.cards[&id("k-005")].rank, board.cards[&id("k-003")].rank),
            (Some(-1024), Some(1024))
        );
        go(&mut board, &seeds, &id("k-008"), Some(&id("k-001"))).unwrap();
        assert_eq!(board.cards.len(), 4, "k-000 above and the card itself");
        let written = board.outbox.len();
        go(&mut board, &seeds, &id("k-008"), Some(&id("k-001"))).unwrap();
        assert_eq!(board.outbox.len(), written, "it stands there already");
    }

    #[test]
    fn what_cannot_be_is_refused_and_so_many_are_not_moved_at_once() {
        let (mut board, seeds) = planned(2 * MAX_RANKED + 1);
        let refused = go(&mut board, &seeds, &id("k-000"), Some(&id("nirgends")));
        assert!(matches!(refused, Err(Refusal::Invalid { field: "before", .. })), "{refused:?}");
        let itself = go(&mut board, &seeds, &id("k-000"), Some(&id("k-000")));
        assert!(matches!(itself, Err(Refusal::Invalid { .. })), "{itself:?}");
        board.cards.get_mut(&id("k-000")).unwrap().phase = Phase::Deployed;
        let elsewhere = go(&mut board, &seeds, &id("k-000"), None);
        assert!(matches!(elsewhere, Err(Refusal::Invalid { .. })), "{elsewhere:?}");
        // 399 others with one rank: 199 on the smaller side are as many as may be moved with the card, 200 are not.
        let last = id("k-400");
        let most = go(&mut board, &seeds, &last, Some(&id("k-200")));
        assert_eq!(most, Ok(()));
        let (mut board, seeds) = planned(2 * MAX_RANKED + 1);
        let refused = go(&mut board, &seeds, &last, Some(&id("k-200")));
        assert!(matches!(refused, Err(Refusal::Limit(_))), "{refused:?}");
        assert!(board.outbox.is_empty());
    }
}
