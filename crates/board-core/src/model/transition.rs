//! The transition table of domain.md as data, in one place.
//!
//! `docs/phases.md` is drawn from it and a test holds both together. An event that finds no row is
//! refused with the list of those that do; it is never ignored and never an assertion.

use super::card::Source;
use super::event::EventKind;
use super::phase::Phase;

use EventKind as E;
use Phase as P;

/// Who causes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A person.
    Operator,
    /// What a run left, applied by the watcher.
    Outcome,
    /// The board itself.
    Board,
}

/// Which cards a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Any card that can stand in the phase.
    Any,
    /// Intents only.
    Intent,
    /// Research questions only.
    Research,
    /// Cards with a document.
    Document,
}

impl Of {
    fn fits(self, source: Source) -> bool {
        match self {
            Of::Any => true,
            Of::Intent => source == Source::Intent,
            Of::Research => source == Source::Research,
            Of::Document => source.has_document(),
        }
    }
}

/// Where a row leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To this phase.
    Phase(Phase),
    /// The phase stays.
    Same,
    /// To the failure phase of the running one.
    Failure,
    /// The card is an intent in `geplant`.
    Intent,
    /// Where it stood before it was archived, or before it was deployed.
    Before,
    /// The card is gone.
    Gone,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where the card stands; empty for a card that is made.
    pub from: &'static [Phase],
    /// Which cards.
    pub of: Of,
    /// What happens.
    pub event: EventKind,
    /// Where it leads.
    pub to: To,
    /// Who causes it.
    pub who: Who,
    /// Whether a job is made in the same write.
    pub job: bool,
}

const fn row(from: &'static [Phase], of: Of, event: EventKind, to: To, who: Who, job: bool) -> Row {
    Row { from, of, event, to, who, job }
}

/// Running phases whose interrupted run is repeated by itself: nothing of it can be half done.
pub const REPEATABLE: &[Phase] = &[P::EntwurfLaeuft, P::Review, P::RechercheLaeuft, P::AufteilungLaeuft];

const RUNNING: &[Phase] =
    &[P::EntwurfLaeuft, P::InUmsetzung, P::Review, P::RechercheLaeuft, P::AufteilungLaeuft];

const WAITING_DOCUMENT: &[Phase] = &[
    P::Geplant,
    P::UmsetzungFehlgeschlagen,
    P::ReviewFehlgeschlagen,
    P::BereitFuerDeployment,
    P::PlanungMitFeedback,
    P::Deployed,
    P::RechercheFertig,
    P::RechercheFehlgeschlagen,
    P::AufteilungFehlgeschlagen,
    P::Aufgeteilt,
];

/// The table of domain.md, "Transitions", in its order.
pub const TABLE: &[Row] = &[
    row(&[], Of::Any, E::IdeaCreated, To::Phase(P::Idee), Who::Operator, false),
    row(&[], Of::Document, E::DocumentWritten, To::Phase(P::Geplant), Who::Operator, false),
    row(&[], Of::Any, E::DraftCreated, To::Phase(P::EntwurfLaeuft), Who::Operator, true),
    row(&[P::Idee], Of::Any, E::DocumentWritten, To::Intent, Who::Operator, false),
    row(&[P::Idee], Of::Any, E::PlannedOut, To::Same, Who::Operator, true),
    row(&[P::EntwurfLaeuft], Of::Any, E::Question, To::Phase(P::EntwurfFrage), Who::Outcome, false),
    row(&[P::EntwurfLaeuft], Of::Any, E::IntentProposed, To::Intent, Who::Outcome, false),
    row(&[P::EntwurfLaeuft], Of::Any, E::DraftFailed, To::Failure, Who::Outcome, false),
    row(&[P::EntwurfFrage], Of::Any, E::Answered, To::Phase(P::EntwurfLaeuft), Who::Operator, true),
    row(
        &[P::EntwurfFehlgeschlagen],
        Of::Any,
        E::DraftRetried,
        To::Phase(P::EntwurfLaeuft),
        Who::Operator,
        true,
    ),
    row(&[P::EntwurfFehlgeschlagen], Of::Any, E::ProposalAccepted, To::Intent, Who::Operator, false),
    row(&[P::Geplant], Of::Intent, E::Started, To::Phase(P::InUmsetzung), Who::Operator, true),
    row(&[P::Geplant], Of::Research, E::Started, To::Phase(P::RechercheLaeuft), Who::Operator, true),
    row(&[P::Geplant], Of::Intent, E::SplitStarted, To::Phase(P::AufteilungLaeuft), Who::Operator, true),
    row(&[P::Geplant], Of::Document, E::DoneOutside, To::Phase(P::Deployed), Who::Operator, false),
    row(&[P::InUmsetzung], Of::Intent, E::Built, To::Phase(P::Review), Who::Outcome, true),
    row(&[P::InUmsetzung], Of::Intent, E::BuildEnded, To::Failure, Who::Outcome, false),
    row(
        &[P::UmsetzungFehlgeschlagen],
        Of::Intent,
        E::Resumed,
        To::Phase(P::InUmsetzung),
        Who::Operator,
        true,
    ),
    row(
        &[P::UmsetzungFehlgeschlagen],
        Of::Intent,
        E::StartedAfresh,
        To::Phase(P::InUmsetzung),
        Who::Operator,
        true,
    ),
    row(&[P::UmsetzungFehlgeschlagen], Of::Intent, E::Discarded, To::Phase(P::Geplant), Who::Operator, false),
    row(&[P::Review], Of::Intent, E::ReviewedReady, To::Phase(P::BereitFuerDeployment), Who::Outcome, false),
    row(&[P::Review], Of::Intent, E::ReviewedBack, To::Phase(P::PlanungMitFeedback), Who::Outcome, false),
    row(&[P::Review], Of::Intent, E::ReviewFailed, To::Failure, Who::Outcome, false),
    row(&[P::ReviewFehlgeschlagen], Of::Intent, E::ReviewRetried, To::Phase(P::Review), Who::Operator, true),
    row(
        &[P::ReviewFehlgeschlagen, P::BereitFuerDeployment],
        Of::Intent,
        E::SentBack,
        To::Phase(P::PlanungMitFeedback),
        Who::Operator,
        false,
    ),
    row(
        &[P::ReviewFehlgeschlagen, P::PlanungMitFeedback],
        Of::Intent,
        E::AcceptedByHand,
        To::Phase(P::BereitFuerDeployment),
        Who::Operator,
        false,
    ),
    row(&[P::PlanungMitFeedback], Of::Intent, E::Replanned, To::Phase(P::Geplant), Who::Operator, false),
    row(&[P::PlanungMitFeedback], Of::Intent, E::Revised, To::Same, Who::Operator, true),
    row(&[P::BereitFuerDeployment], Of::Intent, E::Deployed, To::Phase(P::Deployed), Who::Operator, false),
    row(&[P::Deployed], Of::Document, E::TakenBack, To::Before, Who::Operator, false),
    row(
        &[
            P::Deployed,
            P::RechercheFertig,
            P::Aufgeteilt,
            P::AufteilungFehlgeschlagen,
            P::RechercheFehlgeschlagen,
        ],
        Of::Document,
        E::PlannedAgain,
        To::Phase(P::Geplant),
        Who::Operator,
        false,
    ),
    row(&[P::RechercheLaeuft], Of::Research, E::Reported, To::Phase(P::RechercheFertig), Who::Outcome, false),
    row(&[P::RechercheLaeuft], Of::Research, E::ResearchFailed, To::Failure, Who::Outcome, false),
    row(
        &[P::RechercheFertig, P::RechercheFehlgeschlagen],
        Of::Research,
        E::AskedAgain,
        To::Phase(P::RechercheLaeuft),
        Who::Operator,
        true,
    ),
    row(
        &[P::AufteilungLaeuft],
        Of::Intent,
        E::ChildrenWritten,
        To::Phase(P::Aufgeteilt),
        Who::Outcome,
        false,
    ),
    row(&[P::AufteilungLaeuft], Of::Intent, E::SplitFailed, To::Failure, Who::Outcome, false),
    row(
        &[P::AufteilungFehlgeschlagen],
        Of::Intent,
        E::SplitRetried,
        To::Phase(P::AufteilungLaeuft),
        Who::Operator,
        true,
    ),
    row(REPEATABLE, Of::Any, E::InterruptedOnce, To::Same, Who::Outcome, true),
    row(REPEATABLE, Of::Any, E::InterruptedTwice, To::Failure, Who::Outcome, false),
    row(RUNNING, Of::Any, E::Unavailable, To::Same, Who::Outcome, true),
    row(RUNNING, Of::Any, E::CancelAsked, To::Same, Who::Operator, false),
    row(RUNNING, Of::Any, E::Cancelled, To::Failure, Who::Outcome, false),
    row(WAITING_DOCUMENT, Of::Document, E::Archived, To::Phase(P::Archiviert), Who::Operator, false),
    row(&[P::Archiviert], Of::Document, E::BroughtBack, To::Before, Who::Operator, false),
    row(
        &[P::Idee, P::EntwurfLaeuft, P::EntwurfFrage, P::EntwurfFehlgeschlagen],
        Of::Any,
        E::Deleted,
        To::Gone,
        Who::Operator,
        false,
    ),
    row(&[], Of::Any, E::Restored, To::Before, Who::Operator, false),
    row(RUNNING, Of::Any, E::Undone, To::Before, Who::Operator, false),
    row(&[], Of::Document, E::SynthesisWritten, To::Phase(P::Geplant), Who::Board, false),
];

/// The row of an event on a card that stands in `phase`.
pub fn find(phase: Phase, source: Source, event: EventKind) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.event == event && row.from.contains(&phase) && row.of.fits(source))
}

/// The operator's events that fit a card in `phase`, in the order of the table.
pub fn allowed(phase: Phase, source: Source) -> Vec<EventKind> {
    TABLE
        .iter()
        .filter(|row| row.who == Who::Operator && row.from.contains(&phase) && row.of.fits(source))
        .map(|row| row.event)
        .collect()
}

/// The phase that a row leads to from `phase`, where the table alone decides it.
pub fn target(row: &Row, phase: Phase) -> Option<Phase> {
    match row.to {
        To::Phase(to) => Some(to),
        To::Same => Some(phase),
        To::Failure => phase.failure(),
        To::Intent => Some(P::Geplant),
        To::Before | To::Gone => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [Source; 4] = [Source::Intent, Source::Research, Source::Idea, Source::Draft];

    #[test]
    fn a_phase_and_an_event_find_at_most_one_row() {
        for phase in Phase::ALL {
            for source in SOURCES {
                for event in EventKind::ALL {
                    let rows = TABLE
                        .iter()
                        .filter(|r| r.event == *event && r.from.contains(&phase) && r.of.fits(source))
                        .count();
                    assert!(rows <= 1, "{phase} {source:?} {event}");
                }
            }
        }
    }

    #[test]
    fn every_event_has_a_row_and_every_phase_a_way_out() {
        for event in EventKind::ALL {
            assert!(TABLE.iter().any(|row| row.event == *event), "{event}");
        }
        for phase in Phase::ALL {
            assert!(TABLE.iter().any(|row| row.from.contains(&phase)), "{phase}");
        }
    }

    #[test]
    fn a_row_that_makes_a_job_leads_to_a_phase_with_that_work() {
        for row in TABLE.iter().filter(|row| row.job) {
            for phase in row.from {
                let to = target(row, *phase).unwrap();
                // A draft that begins inside an idea or beside a card is the one that runs.
                let beside = matches!(row.event, E::PlannedOut | E::Revised);
                assert!(beside || to.work().is_some(), "{row:?}");
            }
        }
    }
}
