//! Where a card stands: one enum and one table of ids, labels, columns and kinds of work.
//!
//! The ids are German because the user's documents fix them; they are stable in files and in the API.
//! People see labels, never ids. This is the only place where a phase id is spelled.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::job::JobType;

/// Where a card stands (domain.md, "Phases").
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An idea of the operator, not yet a document.
    Idee,
    /// A round of the planner is queued or runs.
    EntwurfLaeuft,
    /// The planner asked; the operator answers.
    EntwurfFrage,
    /// The round failed or its proposal could not be written.
    EntwurfFehlgeschlagen,
    /// A document that waits for the operator's start.
    Geplant,
    /// A builder is queued or runs.
    InUmsetzung,
    /// The build ended without a check commit.
    UmsetzungFehlgeschlagen,
    /// A review of the check commit is queued or runs.
    Review,
    /// The review ended without a valid verdict.
    ReviewFehlgeschlagen,
    /// Reviewed; a person decides about merge and deployment.
    BereitFuerDeployment,
    /// Sent back with a report.
    PlanungMitFeedback,
    /// A person said that it is deployed.
    Deployed,
    /// A research run is queued or runs.
    RechercheLaeuft,
    /// The report is there.
    RechercheFertig,
    /// The research ended without a report.
    RechercheFehlgeschlagen,
    /// The planner splits the intent.
    AufteilungLaeuft,
    /// The split ended without children.
    AufteilungFehlgeschlagen,
    /// The children are written and linked.
    Aufgeteilt,
    /// Put away by the operator.
    Archiviert,
}

/// A column of the board, left to right.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Ideas.
    Backlog,
    /// Planned, waiting for a start.
    Geplant,
    /// Work in progress.
    Laeuft,
    /// Needs the operator.
    BrauchtDich,
    /// Under review.
    Review,
    /// Ready for deployment.
    Bereit,
    /// Deployed.
    Deployed,
}

impl Column {
    /// All columns in the order of the board.
    pub const ALL: [Column; 7] = [
        Column::Backlog,
        Column::Geplant,
        Column::Laeuft,
        Column::BrauchtDich,
        Column::Review,
        Column::Bereit,
        Column::Deployed,
    ];

    /// The stable id of web.md, section 4.
    pub fn id(self) -> &'static str {
        match self {
            Column::Backlog => "backlog",
            Column::Geplant => "geplant",
            Column::Laeuft => "laeuft",
            Column::BrauchtDich => "braucht_dich",
            Column::Review => "review",
            Column::Bereit => "bereit",
            Column::Deployed => "deployed",
        }
    }
}

/// How a fan-out counts a card in this phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// Counts as a success.
    Success,
    /// Counts as a failure, unless its reason is one that another run ends
    /// ([`crate::model::fanout::child_state`]).
    Failure,
    /// `aufgeteilt`: a success once its own synthesis exists.
    SuccessWithSynthesis,
    /// `archiviert`: ended, labelled so.
    Ended,
}

impl Phase {
    /// Every phase, in the order of domain.md.
    pub const ALL: [Phase; 19] = [
        Phase::Idee,
        Phase::EntwurfLaeuft,
        Phase::EntwurfFrage,
        Phase::EntwurfFehlgeschlagen,
        Phase::Geplant,
        Phase::InUmsetzung,
        Phase::UmsetzungFehlgeschlagen,
        Phase::Review,
        Phase::ReviewFehlgeschlagen,
        Phase::BereitFuerDeployment,
        Phase::PlanungMitFeedback,
        Phase::Deployed,
        Phase::RechercheLaeuft,
        Phase::RechercheFertig,
        Phase::RechercheFehlgeschlagen,
        Phase::AufteilungLaeuft,
        Phase::AufteilungFehlgeschlagen,
        Phase::Aufgeteilt,
        Phase::Archiviert,
    ];

    /// The stable id, as in files and in the API.
    pub fn id(self) -> &'static str {
        match self {
            Phase::Idee => "idee",
            Phase::EntwurfLaeuft => "entwurf_laeuft",
            Phase::EntwurfFrage => "entwurf_frage",
            Phase::EntwurfFehlgeschlagen => "entwurf_fehlgeschlagen",
            Phase::Geplant => "geplant",
            Phase::InUmsetzung => "in_umsetzung",
            Phase::UmsetzungFehlgeschlagen => "umsetzung_fehlgeschlagen",
            Phase::Review => "review",
            Phase::ReviewFehlgeschlagen => "review_fehlgeschlagen",
            Phase::BereitFuerDeployment => "bereit_fuer_deployment",
            Phase::PlanungMitFeedback => "planung_mit_feedback",
            Phase::Deployed => "deployed",
            Phase::RechercheLaeuft => "recherche_laeuft",
            Phase::RechercheFertig => "recherche_fertig",
            Phase::RechercheFehlgeschlagen => "recherche_fehlgeschlagen",
            Phase::AufteilungLaeuft => "aufteilung_laeuft",
            Phase::AufteilungFehlgeschlagen => "aufteilung_fehlgeschlagen",
            Phase::Aufgeteilt => "aufgeteilt",
            Phase::Archiviert => "archiviert",
        }
    }

    /// The phase of an id; `None` for anything else.
    pub fn from_id(id: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.id() == id)
    }

    /// The German label that people see.
    pub fn label_de(self) -> &'static str {
        match self {
            Phase::Idee => "Idee",
            Phase::EntwurfLaeuft => "Planner denkt",
            Phase::EntwurfFrage => "Rückfrage",
            Phase::EntwurfFehlgeschlagen => "Entwurf fehlgeschlagen",
            Phase::Geplant => "Geplant",
            Phase::InUmsetzung => "In Umsetzung",
            Phase::UmsetzungFehlgeschlagen => "Umsetzung fehlgeschlagen",
            Phase::Review => "Review",
            Phase::ReviewFehlgeschlagen => "Review fehlgeschlagen",
            Phase::BereitFuerDeployment => "Bereit für Deployment",
            Phase::PlanungMitFeedback => "Planung mit Feedback",
            Phase::Deployed => "Deployed",
            Phase::RechercheLaeuft => "Recherche läuft",
            Phase::RechercheFertig => "Recherche fertig",
            Phase::RechercheFehlgeschlagen => "Recherche fehlgeschlagen",
            Phase::AufteilungLaeuft => "Wird aufgeteilt",
            Phase::AufteilungFehlgeschlagen => "Aufteilung fehlgeschlagen",
            Phase::Aufgeteilt => "Aufgeteilt",
            Phase::Archiviert => "Archiviert",
        }
    }

    /// The English label.
    pub fn label_en(self) -> &'static str {
        match self {
            Phase::Idee => "Idea",
            Phase::EntwurfLaeuft => "Planner is thinking",
            Phase::EntwurfFrage => "Question",
            Phase::EntwurfFehlgeschlagen => "Draft failed",
            Phase::Geplant => "Planned",
            Phase::InUmsetzung => "Building",
            Phase::UmsetzungFehlgeschlagen => "Build failed",
            Phase::Review => "Review",
            Phase::ReviewFehlgeschlagen => "Review failed",
            Phase::BereitFuerDeployment => "Ready for deployment",
            Phase::PlanungMitFeedback => "Planning with feedback",
            Phase::Deployed => "Deployed",
            Phase::RechercheLaeuft => "Researching",
            Phase::RechercheFertig => "Research done",
            Phase::RechercheFehlgeschlagen => "Research failed",
            Phase::AufteilungLaeuft => "Splitting",
            Phase::AufteilungFehlgeschlagen => "Split failed",
            Phase::Aufgeteilt => "Split",
            Phase::Archiviert => "Archived",
        }
    }

    /// The column that shows it; `None` for archived cards, which have a page of their own.
    pub fn column(self) -> Option<Column> {
        match self {
            Phase::Idee => Some(Column::Backlog),
            Phase::Geplant | Phase::Aufgeteilt => Some(Column::Geplant),
            Phase::EntwurfLaeuft | Phase::InUmsetzung | Phase::RechercheLaeuft | Phase::AufteilungLaeuft => {
                Some(Column::Laeuft)
            }
            Phase::EntwurfFrage
            | Phase::EntwurfFehlgeschlagen
            | Phase::UmsetzungFehlgeschlagen
            | Phase::ReviewFehlgeschlagen
            | Phase::PlanungMitFeedback
            | Phase::RechercheFehlgeschlagen
            | Phase::AufteilungFehlgeschlagen => Some(Column::BrauchtDich),
            Phase::Review => Some(Column::Review),
            Phase::BereitFuerDeployment | Phase::RechercheFertig => Some(Column::Bereit),
            Phase::Deployed => Some(Column::Deployed),
            Phase::Archiviert => None,
        }
    }

    /// The kind of job that is current in this phase; `None` for a waiting phase.
    pub fn work(self) -> Option<JobType> {
        match self {
            Phase::EntwurfLaeuft => Some(JobType::Draft),
            Phase::InUmsetzung => Some(JobType::Builder),
            Phase::Review => Some(JobType::Review),
            Phase::RechercheLaeuft => Some(JobType::Research),
            Phase::AufteilungLaeuft => Some(JobType::Split),
            Phase::Idee
            | Phase::EntwurfFrage
            | Phase::EntwurfFehlgeschlagen
            | Phase::Geplant
            | Phase::UmsetzungFehlgeschlagen
            | Phase::ReviewFehlgeschlagen
            | Phase::BereitFuerDeployment
            | Phase::PlanungMitFeedback
            | Phase::Deployed
            | Phase::RechercheFertig
            | Phase::RechercheFehlgeschlagen
            | Phase::AufteilungFehlgeschlagen
            | Phase::Aufgeteilt
            | Phase::Archiviert => None,
        }
    }

    /// How a fan-out counts it; `None` while it is not terminal.
    pub fn terminal(self) -> Option<Terminal> {
        match self {
            Phase::UmsetzungFehlgeschlagen
            | Phase::ReviewFehlgeschlagen
            | Phase::PlanungMitFeedback
            | Phase::RechercheFehlgeschlagen => Some(Terminal::Failure),
            Phase::BereitFuerDeployment | Phase::Deployed | Phase::RechercheFertig => Some(Terminal::Success),
            Phase::Aufgeteilt => Some(Terminal::SuccessWithSynthesis),
            Phase::Archiviert => Some(Terminal::Ended),
            Phase::Idee
            | Phase::EntwurfLaeuft
            | Phase::EntwurfFrage
            | Phase::EntwurfFehlgeschlagen
            | Phase::Geplant
            | Phase::InUmsetzung
            | Phase::Review
            | Phase::RechercheLaeuft
            | Phase::AufteilungLaeuft
            | Phase::AufteilungFehlgeschlagen => None,
        }
    }

    /// Where a card of this running phase goes when its work fails; `None` for waiting phases.
    pub fn failure(self) -> Option<Phase> {
        self.work().map(|work| match work {
            JobType::Draft => Phase::EntwurfFehlgeschlagen,
            JobType::Builder => Phase::UmsetzungFehlgeschlagen,
            JobType::Review => Phase::ReviewFehlgeschlagen,
            JobType::Research => Phase::RechercheFehlgeschlagen,
            JobType::Split => Phase::AufteilungFehlgeschlagen,
        })
    }

    /// Whether only drafts stand here.
    pub fn is_draft(self) -> bool {
        matches!(self, Phase::EntwurfLaeuft | Phase::EntwurfFrage | Phase::EntwurfFehlgeschlagen)
    }

    /// Whether a card may leave `state.json` here once its last commit is old enough (storage.md).
    pub fn is_at_rest(self) -> bool {
        matches!(self, Phase::Deployed | Phase::Archiviert | Phase::RechercheFertig | Phase::Geplant)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_what_serde_writes_and_from_id_reads() {
        for phase in Phase::ALL {
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{}\"", phase.id()));
            assert_eq!(Phase::from_id(phase.id()), Some(phase));
        }
        for column in Column::ALL {
            assert_eq!(serde_json::to_string(&column).unwrap(), format!("\"{}\"", column.id()));
        }
    }

    #[test]
    fn a_running_phase_fails_into_a_waiting_one_that_needs_the_operator() {
        for phase in Phase::ALL {
            if let Some(failure) = phase.failure() {
                assert_eq!(failure.work(), None);
                assert_eq!(failure.column(), Some(Column::BrauchtDich));
            }
        }
    }

    #[test]
    fn running_phases_are_never_terminal() {
        assert!(Phase::ALL.iter().all(|p| p.work().is_none() || p.terminal().is_none()));
    }
}
