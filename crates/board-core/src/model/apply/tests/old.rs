//! Cards from before the board are put away in one go.

use super::{Clock, id, planned, policy};
use crate::model::apply::old::{Belongs, MAX_OLD};
use crate::model::board::Board;
use crate::model::card::{Card, Source};
use crate::model::phase::Phase;
use crate::model::time::Timestamp;

fn seed(slug: &str, phase: Phase) -> Card {
    Card::new(id(slug), Source::Intent, slug, phase, Timestamp::MIN)
}

#[test]
fn what_the_board_has_moved_already_stays_and_the_rest_goes_with_one_moment_and_ids_of_its_own() {
    for (belongs, event) in [(Belongs::Deployed, "done_outside"), (Belongs::Archived, "archived")] {
        let (mut board, mut clock) = (Board::empty(), Clock(0));
        planned(&mut board, "bekannt", Source::Intent);
        let cards = [
            seed("alt", Phase::Geplant),
            seed("bekannt", Phase::Geplant),
            seed("fertig", Phase::Deployed),
            Card { source: Source::Research, ..seed("frage", Phase::Geplant) },
        ];
        let moved = board.put_old_away(&cards, belongs, "alt", &clock.stamp(), &policy(5)).unwrap();
        assert_eq!(moved, [id("alt"), id("frage")]);
        assert_eq!(board.cards[&id("alt")].phase, belongs.phase());
        assert_eq!(board.cards[&id("frage")].phase, belongs.phase());
        assert_eq!(board.cards[&id("bekannt")].phase, Phase::Geplant);
        let [one, two] = board.outbox.as_slice() else { panic!("{:?}", board.outbox) };
        assert_eq!((one.step.at, one.step.event.as_str()), (two.step.at, event));
        assert_ne!(one.step.transition, two.step.transition);
        assert!(board.put_old_away(&cards, belongs, "alt", &clock.stamp(), &policy(5)).unwrap().is_empty());
    }
}

#[test]
fn as_many_as_the_limit_go_at_once_and_the_next_call_takes_the_rest() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let cards: Vec<Card> = (0..=MAX_OLD).map(|n| seed(&format!("alt-{n}"), Phase::Geplant)).collect();
    let mut away =
        || board.put_old_away(&cards, Belongs::Archived, "", &clock.stamp(), &policy(0)).unwrap().len();
    assert_eq!((away(), away(), away()), (MAX_OLD, 1, 0));
}

#[test]
fn two_phases_are_where_old_cards_belong() {
    assert_eq!(Belongs::from_id("deployed"), Some(Belongs::Deployed));
    assert_eq!(Belongs::from_id("archiviert"), Some(Belongs::Archived));
    for phase in Phase::ALL.iter().filter(|phase| !matches!(phase, Phase::Deployed | Phase::Archiviert)) {
        assert_eq!(Belongs::from_id(phase.id()), None);
    }
}
