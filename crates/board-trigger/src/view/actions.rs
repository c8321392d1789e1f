//! What can be done with a card: the list that feeds the buttons, the drop zones and the API's 409.
use board_core::edge::settings::Language;
use board_core::model::board::{Board, Policy};
use board_core::model::card::Card;
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::transition::{self, To};
use serde::Serialize;

use super::phase_label;
use crate::i18n::t;

/// Fields of a form that are not shown again as something to type.
pub(crate) const HIDDEN_FIELDS: &[&str] =
    &["event", "key", "rev", "zu", "was", "als", "round", "base_blob", "antwort"];

/// Events whose button says what will follow, for the tests of the catalogue.
#[cfg(test)]
pub(crate) const HINTED: &[EventKind] = &[
    EventKind::Started,
    EventKind::SplitStarted,
    EventKind::DoneOutside,
    EventKind::Resumed,
    EventKind::StartedAfresh,
    EventKind::Discarded,
    EventKind::ReviewRetried,
    EventKind::SentBack,
    EventKind::AcceptedByHand,
    EventKind::Replanned,
    EventKind::Deployed,
    EventKind::TakenBack,
    EventKind::PlannedAgain,
    EventKind::AskedAgain,
    EventKind::SplitRetried,
    EventKind::CancelAsked,
    EventKind::Archived,
    EventKind::BroughtBack,
    EventKind::Deleted,
    EventKind::Undone,
    EventKind::DraftRetried,
    EventKind::PlannedOut,
    EventKind::Revised,
    EventKind::DocumentWritten,
    EventKind::ProposalAccepted,
    EventKind::Answered,
];

/// What an event wants besides the click.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// A reason.
    Reason,
    /// A note, which may be empty.
    Note,
    /// The slug of the intent that it becomes.
    Slug,
    /// An answer: an option, a text, or both.
    Answer,
}

impl Needs {
    /// Whether a move to a phase says all that is needed, with a reason or a note at most.
    fn fits_a_move(self) -> bool {
        match self {
            Needs::Nothing | Needs::Reason | Needs::Note => true,
            Needs::Slug | Needs::Answer => false,
        }
    }
}

/// One thing that can be done.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct Call {
    /// Id of the event.
    pub(crate) event: &'static str,
    /// Where the card goes; none if it stays or is gone.
    pub(crate) to: Option<&'static str>,
    /// Method of the call.
    pub(crate) method: &'static str,
    /// Address of the call.
    pub(crate) path: String,
}

/// A button with its words.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Action {
    /// Id of the event, which the form sends.
    pub(crate) event: &'static str,
    /// What the button says.
    pub(crate) label: String,
    /// What will follow.
    pub(crate) hint: String,
    /// What it wants.
    pub(crate) needs: Needs,
    /// `main`, `plain` or `danger`.
    pub(crate) tone: &'static str,
}

/// What an event wants; none for those that no operator causes on a card that is there.
pub(crate) fn needs(event: EventKind) -> Option<Needs> {
    match event {
        EventKind::DoneOutside | EventKind::AcceptedByHand | EventKind::TakenBack => Some(Needs::Reason),
        EventKind::SentBack | EventKind::DraftRetried => Some(Needs::Note),
        EventKind::Started
        | EventKind::SplitStarted
        | EventKind::Resumed
        | EventKind::StartedAfresh
        | EventKind::Discarded
        | EventKind::ReviewRetried
        | EventKind::Replanned
        | EventKind::Deployed
        | EventKind::PlannedAgain
        | EventKind::AskedAgain
        | EventKind::SplitRetried
        | EventKind::CancelAsked
        | EventKind::Archived
        | EventKind::BroughtBack
        | EventKind::Deleted
        | EventKind::Undone
        | EventKind::PlannedOut
        | EventKind::Revised => Some(Needs::Nothing),
        EventKind::DocumentWritten | EventKind::ProposalAccepted => Some(Needs::Slug),
        EventKind::Answered => Some(Needs::Answer),
        EventKind::IdeaCreated
        | EventKind::DraftCreated
        | EventKind::Question
        | EventKind::IntentProposed
        | EventKind::DraftFailed
        | EventKind::Built
        | EventKind::BuildEnded
        | EventKind::ReviewedReady
        | EventKind::ReviewedBack
        | EventKind::ReviewFailed
        | EventKind::Reported
        | EventKind::ResearchFailed
        | EventKind::ChildrenWritten
        | EventKind::SplitFailed
        | EventKind::InterruptedOnce
        | EventKind::InterruptedTwice
        | EventKind::Unavailable
        | EventKind::Cancelled
        | EventKind::Restored
        | EventKind::SynthesisWritten => None,
    }
}

/// The events that have a button or a call here, in the order of the table.
pub(crate) fn events(board: &Board, card: &Card) -> Vec<EventKind> {
    board.allowed(card).into_iter().filter(|event| needs(*event).is_some()).collect()
}

/// Where an event takes a card; none if it stays where it is or is gone.
pub(crate) fn target(card: &Card, event: EventKind) -> Option<Phase> {
    let row = transition::find(card.phase, card.source, event)?;
    match row.to {
        To::Same | To::Gone => None,
        To::Before if event == EventKind::TakenBack => {
            Some(card.deployed_from.unwrap_or(Phase::BereitFuerDeployment))
        }
        To::Before if event == EventKind::BroughtBack => Some(card.archived_from.unwrap_or(Phase::Geplant)),
        To::Before => None,
        To::Phase(_) | To::Failure | To::Intent => transition::target(row, card.phase),
    }
}

/// The events by which a move leads to `to`.
pub(crate) fn moves_to(board: &Board, card: &Card, to: Phase) -> Vec<EventKind> {
    let fits = |event: &EventKind| needs(*event).is_some_and(Needs::fits_a_move);
    let events = events(board, card).into_iter().filter(fits);
    events.filter(|event| target(card, *event) == Some(to)).collect()
}

/// The phases that a move can lead to, each once, in the order of the table.
pub(crate) fn allowed(board: &Board, card: &Card) -> Vec<&'static str> {
    let mut out = Vec::new();
    for event in events(board, card) {
        if needs(event).is_some_and(Needs::fits_a_move)
            && let Some(to) = target(card, event).map(Phase::id)
            && !out.contains(&to)
        {
            out.push(to);
        }
    }
    out
}

/// The call that makes an event happen.
#[expect(clippy::wildcard_enum_match_arm, reason = "every event without a call of its own is a move")]
pub(crate) fn call(card: &Card, event: EventKind) -> Call {
    let base = format!("/api/board/cards/{}", card.id);
    let named = |name: &str| ("POST", format!("{base}/{name}"));
    let (method, path) = match event {
        EventKind::SplitStarted => named("split"),
        EventKind::Resumed => named("resume"),
        EventKind::Discarded => named("discard"),
        EventKind::CancelAsked => named("cancel"),
        EventKind::Undone => named("undo"),
        EventKind::Archived => named("archive"),
        EventKind::BroughtBack => named("restore"),
        EventKind::DraftRetried => named("draft-retry"),
        EventKind::Answered => named("draft-answer"),
        EventKind::PlannedOut => named("plan"),
        EventKind::Revised => named("revise"),
        EventKind::DocumentWritten => named("to-intent"),
        EventKind::ProposalAccepted => named("accept-slug"),
        EventKind::Deleted => ("DELETE", base),
        EventKind::StartedAfresh
        | EventKind::ReviewRetried
        | EventKind::AskedAgain
        | EventKind::SplitRetried => named("retry"),
        _ => named("move"),
    };
    Call { event: event.id(), to: target(card, event).map(Phase::id), method, path }
}

/// All calls that fit a card.
pub(crate) fn calls(board: &Board, card: &Card) -> Vec<Call> {
    events(board, card).into_iter().map(|event| call(card, event)).collect()
}

/// The event that `retry` means for a card: it follows from what failed.
pub(crate) fn retry(board: &Board, card: &Card) -> Option<EventKind> {
    const RETRIES: [EventKind; 5] = [
        EventKind::StartedAfresh,
        EventKind::ReviewRetried,
        EventKind::AskedAgain,
        EventKind::SplitRetried,
        EventKind::DraftRetried,
    ];
    let allowed = board.allowed(card);
    RETRIES.into_iter().find(|event| allowed.contains(event))
}

/// The buttons of a card's page.
pub(crate) fn buttons(board: &Board, card: &Card, policy: &Policy, language: Language) -> Vec<Action> {
    let abandons = is_with_external_builder(card, policy);
    let label = |event: EventKind| match (event, language) {
        (EventKind::CancelAsked, _) if abandons => t(language, "card.give-up", &[]),
        // Of an idea; the history says it of every text.
        (EventKind::DocumentWritten, _) => t(language, "card.as-intent", &[]),
        (_, Language::De) => event.label_de().to_owned(),
        (_, Language::En) => event.label_en().to_owned(),
    };
    let mut main = true;
    events(board, card)
        .into_iter()
        .filter_map(|event| {
            let tone = if matches!(event, EventKind::Deleted | EventKind::Discarded | EventKind::CancelAsked)
            {
                "danger"
            } else if !is_beside_the_point(event) && std::mem::take(&mut main) {
                "main"
            } else {
                "plain"
            };
            let to = target(card, event).map_or("", |phase| phase_label(phase, language));
            let seconds = policy.undo_seconds.to_string();
            let hint = match event == EventKind::CancelAsked && abandons {
                true => t(language, "hint.give-up", &[]),
                false => t(language, &format!("hint.{}", event.id()), &[("to", to), ("seconds", &seconds)]),
            };
            Some(Action { event: event.id(), label: label(event), hint, needs: needs(event)?, tone })
        })
        .collect()
}

/// Whether another service builds this card: it cannot be asked to stop, only given up (docs/builder.md).
pub(crate) fn is_with_external_builder(card: &Card, policy: &Policy) -> bool {
    policy.external_builder && card.phase == Phase::InUmsetzung && card.parked.is_none()
}

/// What is possible but not what one usually wants next.
fn is_beside_the_point(event: EventKind) -> bool {
    matches!(
        event,
        EventKind::Archived
            | EventKind::DoneOutside
            | EventKind::SplitStarted
            | EventKind::SentBack
            | EventKind::AcceptedByHand
            | EventKind::TakenBack
    )
}

/// The kind of an event by its id.
pub(crate) fn event_of(id: &str) -> Option<EventKind> {
    EventKind::ALL.iter().copied().find(|event| event.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_core::model::card::{CardId, Source};
    use board_core::model::slug::Slug;
    use board_core::model::time::Timestamp;

    fn card(phase: Phase, source: Source) -> (Board, Card) {
        let id = CardId::Slug(Slug::parse("a").unwrap());
        let card = Card::new(id.clone(), source, "A", phase, Timestamp::MIN);
        let mut board = Board::empty();
        board.cards.insert(id, card.clone());
        (board, card)
    }

    #[test]
    fn a_planned_intent_can_be_started_by_a_move_and_two_ways_back_are_told_apart() {
        let (board, planned) = card(Phase::Geplant, Source::Intent);
        assert_eq!(moves_to(&board, &planned, Phase::InUmsetzung), [EventKind::Started]);
        assert_eq!(moves_to(&board, &planned, Phase::Deployed), [EventKind::DoneOutside]);
        assert!(moves_to(&board, &planned, Phase::Review).is_empty());
        let (board, question) = card(Phase::Geplant, Source::Research);
        assert_eq!(moves_to(&board, &question, Phase::RechercheLaeuft), [EventKind::Started]);
        let (board, mut deployed) = card(Phase::Deployed, Source::Intent);
        deployed.deployed_from = Some(Phase::Geplant);
        assert_eq!(
            moves_to(&board, &deployed, Phase::Geplant),
            [EventKind::TakenBack, EventKind::PlannedAgain]
        );
    }

    #[test]
    fn every_event_with_a_button_has_a_hint_and_the_other_way_round() {
        for event in EventKind::ALL {
            assert_eq!(needs(*event).is_some(), HINTED.contains(event), "{event}");
        }
    }

    #[test]
    fn what_is_allowed_is_what_the_calls_lead_to() {
        for phase in Phase::ALL {
            for source in [Source::Intent, Source::Research, Source::Idea, Source::Draft] {
                let (board, card) = card(phase, source);
                let allowed = allowed(&board, &card);
                for to in &allowed {
                    let to = Phase::from_id(to).unwrap();
                    assert!(!moves_to(&board, &card, to).is_empty());
                }
                for call in calls(&board, &card) {
                    let moves = needs(event_of(call.event).unwrap()).is_some_and(Needs::fits_a_move);
                    assert!(!moves || call.to.is_none_or(|to| allowed.contains(&to)), "{call:?}");
                }
            }
        }
    }
}
