//! Which transitions go into the next commit.
//!
//! Each has a commit of its own, but for those that one write of the state made (a split's children and
//! their parent), which share one, and for a long outbox, which is worked off in few commits.

use crate::model::board::OutboxEntry;
use crate::model::slug::Slug;

/// From so many pending transitions on they share commits.
const MANY: usize = 9;
/// Transitions of one commit at most; what one write of the state made is never torn apart.
const MAX_PER_COMMIT: usize = 100;

/// The next transitions, in order; those of cards that wait are left out. Empty if none is pending.
pub(super) fn next(outbox: &[OutboxEntry], waits: &dyn Fn(&Slug) -> bool) -> Vec<OutboxEntry> {
    let pending: Vec<&OutboxEntry> =
        outbox.iter().filter(|entry| entry.committed.is_none() && !waits(&entry.card)).collect();
    let most = if pending.len() >= MANY { MAX_PER_COMMIT } else { 1 };
    let mut chosen: Vec<OutboxEntry> = Vec::new();
    for entry in pending {
        if chosen.len() >= most && !chosen.last().is_some_and(|last| made_together(last, entry)) {
            break;
        }
        chosen.push(entry.clone());
    }
    chosen
}

/// Whether one write of the state made both.
fn made_together(a: &OutboxEntry, b: &OutboxEntry) -> bool {
    a.step.at == b.step.at && a.step.actor == b.step.actor && a.step.event == b.step.event
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::card::Step;
    use crate::model::phase::Phase;
    use crate::model::time::Timestamp;

    fn entry(card: &str, at: i64) -> OutboxEntry {
        OutboxEntry {
            card: Slug::parse(card).unwrap(),
            step: Step {
                transition: Uuid::nil(),
                from: None,
                to: Phase::Geplant,
                event: "e".into(),
                actor: "a".into(),
                at: Timestamp::from_millis(at),
                job: None,
                profile: None,
                note: None,
            },
            record: String::new(),
            documents: vec![],
            committed: None,
        }
    }

    fn cards(chosen: &[OutboxEntry]) -> Vec<&str> {
        chosen.iter().map(|entry| entry.card.as_str()).collect()
    }

    #[test]
    fn a_transition_has_a_commit_of_its_own_and_what_was_made_together_shares_one() {
        let outbox = [entry("a", 1), entry("b", 2), entry("c", 2), entry("d", 3)];
        let none = |_: &Slug| false;
        assert_eq!(cards(&next(&outbox, &none)), ["a"]);
        assert_eq!(cards(&next(&outbox[1..], &none)), ["b", "c"]);
        assert_eq!(cards(&next(&outbox, &|card| card.as_str() != "d")), ["d"]);
        assert!(next(&[], &none).is_empty());
    }

    #[test]
    fn nine_pending_transitions_share_a_commit_of_at_most_a_hundred() {
        let outbox: Vec<OutboxEntry> = (0..250).map(|n| entry("a", n)).collect();
        let none = |_: &Slug| false;
        assert_eq!(next(&outbox[..MANY - 1], &none).len(), 1);
        assert_eq!(next(&outbox[..MANY], &none).len(), MANY);
        assert_eq!(next(&outbox, &none).len(), MAX_PER_COMMIT);
        let together: Vec<OutboxEntry> = (0..250).map(|_| entry("a", 1)).collect();
        assert_eq!(next(&together, &none).len(), 250);
    }
}
