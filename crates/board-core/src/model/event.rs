//! What can happen to a card: the only thing that changes a phase.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::card::CardId;
use super::job::{DocumentText, JobRef, Payload, Revision};
use super::phase::Phase;
use super::slug::Slug;
use super::time::Timestamp;

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $de:literal, $en:literal;)*) => {
        /// The kind of an event, without its data; a row of the transition table names one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $variant,)*
        }

        impl EventKind {
            /// Every kind of event.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$variant,)*];

            /// The stable id, as in the trailer `Board-Event`.
            pub fn id(self) -> &'static str {
                match self { $(EventKind::$variant => $id,)* }
            }

            /// What a button or a line of the history says, German.
            pub fn label_de(self) -> &'static str {
                match self { $(EventKind::$variant => $de,)* }
            }

            /// The same in English.
            pub fn label_en(self) -> &'static str {
                match self { $(EventKind::$variant => $en,)* }
            }
        }
    };
}

event_kinds! {
    /// An idea was typed.
    IdeaCreated = "idea_created", "Idee angelegt", "idea created";
    /// An intent or a question was written in the board's editor, or an idea as an intent.
    DocumentWritten = "document_written", "Text geschrieben", "text written";
    /// A draft was begun with a topic.
    DraftCreated = "draft_created", "Entwurf begonnen", "draft begun";
    /// An idea is worked out with the planner.
    PlannedOut = "planned_out", "Mit dem Planner ausarbeiten", "work out with the planner";
    /// The planner asked.
    Question = "question", "Rückfrage gestellt", "question asked";
    /// The planner proposed an intent, which is written.
    IntentProposed = "intent_proposed", "Intent vorgeschlagen", "intent proposed";
    /// The round failed.
    DraftFailed = "draft_failed", "Entwurf fehlgeschlagen", "draft failed";
    /// The operator answered.
    Answered = "answered", "Beantwortet", "answered";
    /// The operator had the round run again.
    DraftRetried = "draft_retried", "Entwurf erneut versuchen", "retry draft";
    /// The operator took the kept proposal under another slug.
    ProposalAccepted = "proposal_accepted", "Unter anderem Slug übernehmen", "accept under another slug";
    /// The operator started the work of a planned card.
    Started = "started", "Starten", "start";
    /// The operator had the intent split.
    SplitStarted = "split_started", "Aufteilen", "split";
    /// Done outside the board.
    DoneOutside = "done_outside", "Außerhalb erledigt", "done outside the board";
    /// A check commit is there.
    Built = "built", "Gebaut", "built";
    /// The build ended without one.
    BuildEnded = "build_ended", "Umsetzung beendet", "build ended";
    /// The operator lets the build go on in its worktree.
    Resumed = "resumed", "Fortsetzen", "resume";
    /// The operator starts in a new worktree.
    StartedAfresh = "started_afresh", "Neu beginnen", "start afresh";
    /// The operator gave the work up; it is kept as a ref.
    Discarded = "discarded", "Verwerfen", "discard";
    /// The reviewer found it ready.
    ReviewedReady = "reviewed_ready", "Review: bereit", "reviewed: ready";
    /// The reviewer sent it back.
    ReviewedBack = "reviewed_back", "Review: zurück", "reviewed: back";
    /// The review ended without a verdict.
    ReviewFailed = "review_failed", "Review fehlgeschlagen", "review failed";
    /// The operator had it reviewed again.
    ReviewRetried = "review_retried", "Review erneut versuchen", "retry review";
    /// The operator sent it back.
    SentBack = "sent_back", "Zurück zur Planung", "send back";
    /// The operator accepted it.
    AcceptedByHand = "accepted_by_hand", "Von Hand annehmen", "accept by hand";
    /// The operator planned it again after feedback.
    Replanned = "replanned", "Wieder einplanen", "replan";
    /// The operator has the intent revised with the planner.
    Revised = "revised", "Mit dem Planner überarbeiten", "revise with the planner";
    /// The operator deployed it.
    Deployed = "deployed", "Deployed", "deployed";
    /// The deployment was taken back.
    TakenBack = "taken_back", "Deployment zurücknehmen", "take back";
    /// The operator planned it again.
    PlannedAgain = "planned_again", "Erneut einplanen", "plan again";
    /// The research report is there.
    Reported = "reported", "Bericht geschrieben", "report written";
    /// The research ended without one.
    ResearchFailed = "research_failed", "Recherche fehlgeschlagen", "research failed";
    /// The operator asked the question again.
    AskedAgain = "asked_again", "Erneut recherchieren", "ask again";
    /// The children are written.
    ChildrenWritten = "children_written", "Aufgeteilt", "split into children";
    /// The split ended without children.
    SplitFailed = "split_failed", "Aufteilung fehlgeschlagen", "split failed";
    /// The operator had it split again.
    SplitRetried = "split_retried", "Aufteilung erneut versuchen", "retry split";
    /// A run that may be repeated was interrupted for the first time.
    InterruptedOnce = "interrupted_once", "Unterbrochen, läuft erneut", "interrupted, runs again";
    /// It was interrupted for the second time.
    InterruptedTwice = "interrupted_twice", "Zweimal unterbrochen", "interrupted twice";
    /// The runtime was not available before the work began.
    Unavailable = "unavailable", "Nicht verfügbar, wartet", "unavailable, waits";
    /// The operator asked to cancel.
    CancelAsked = "cancel_asked", "Abbrechen", "cancel";
    /// The run was cancelled.
    Cancelled = "cancelled", "Abgebrochen", "cancelled";
    /// The operator put the card away.
    Archived = "archived", "Archivieren", "archive";
    /// The operator brought it back.
    BroughtBack = "brought_back", "Zurückholen", "bring back";
    /// The operator deleted an idea or a draft.
    Deleted = "deleted", "Löschen", "delete";
    /// The operator brought a deleted one back.
    Restored = "restored", "Wiederherstellen", "restore";
    /// The operator took a parked start back.
    Undone = "undone", "Rückgängig", "undo";
    /// The board wrote a synthesis.
    SynthesisWritten = "synthesis_written", "Synthese geschrieben", "synthesis written";
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// An operator's event on a card, with what it needs. What has to be read from the repository was read
/// before, outside the state lock; the phase decides under the lock whether it still fits.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// [`EventKind::Started`]: the payload of a builder (intent) or researcher (question).
    Started {
        /// What the role works from.
        payload: Payload,
    },
    /// [`EventKind::SplitStarted`]
    SplitStarted {
        /// What the planner works from.
        payload: Payload,
    },
    /// [`EventKind::DoneOutside`]
    DoneOutside {
        /// Why; required.
        reason: String,
    },
    /// [`EventKind::Resumed`]
    Resumed {
        /// A builder's payload with `resume`.
        payload: Payload,
    },
    /// [`EventKind::StartedAfresh`]
    StartedAfresh {
        /// A builder's payload with the next number.
        payload: Payload,
    },
    /// [`EventKind::Discarded`]: the watcher removes the worktree afterwards.
    Discarded,
    /// [`EventKind::ReviewRetried`]
    ReviewRetried {
        /// A reviewer's payload.
        payload: Payload,
    },
    /// [`EventKind::SentBack`]
    SentBack {
        /// Note to the builder; may be empty.
        note: String,
    },
    /// [`EventKind::AcceptedByHand`]
    AcceptedByHand {
        /// Why; required.
        reason: String,
    },
    /// [`EventKind::Replanned`]
    Replanned,
    /// [`EventKind::Revised`]
    Revised {
        /// Id of the draft that it begins.
        draft: Uuid,
        /// The intent as it is.
        intent: DocumentText,
        /// Reports, newest first.
        reports: Vec<String>,
    },
    /// [`EventKind::Deployed`]
    Deployed,
    /// [`EventKind::TakenBack`]
    TakenBack {
        /// Why; required.
        reason: String,
    },
    /// [`EventKind::PlannedAgain`]
    PlannedAgain,
    /// [`EventKind::AskedAgain`]
    AskedAgain {
        /// A researcher's payload.
        payload: Payload,
    },
    /// [`EventKind::SplitRetried`]
    SplitRetried {
        /// A split's payload.
        payload: Payload,
    },
    /// [`EventKind::CancelAsked`]
    CancelAsked,
    /// [`EventKind::Archived`]
    Archived,
    /// [`EventKind::BroughtBack`]
    BroughtBack,
    /// [`EventKind::Deleted`]
    Deleted,
    /// [`EventKind::Undone`]
    Undone {
        /// Whether a file of the job is in the queue, looked up under the state lock.
        in_queue: bool,
    },
    /// [`EventKind::DocumentWritten`] on an idea: an order that the watcher carries out.
    MadeIntent {
        /// Slug of the intent.
        slug: Slug,
        /// Its text; without one the idea's title and text.
        text: Option<String>,
        /// Whether something outside the board has this slug: a file or a YAML.
        taken: bool,
    },
    /// [`EventKind::PlannedOut`]
    PlannedOut {
        /// Id of the draft that it begins.
        draft: Uuid,
    },
    /// [`EventKind::Answered`]
    Answered {
        /// The free text or note; may be empty with an option.
        answer: String,
        /// The option that was taken.
        option: Option<String>,
        /// The round that was answered; refused if it is not the current one.
        round: Option<u32>,
    },
    /// [`EventKind::DraftRetried`]
    DraftRetried {
        /// A note to the planner.
        note: Option<String>,
        /// For a revision: its intent and reports as they are now.
        revision: Option<Revision>,
    },
    /// [`EventKind::ProposalAccepted`]: an order that the watcher carries out.
    ProposalAccepted {
        /// The other slug.
        slug: Slug,
        /// Whether something outside the board has this slug.
        taken: bool,
    },
}

impl Event {
    /// Its kind.
    pub fn kind(&self) -> EventKind {
        match self {
            Event::Started { .. } => EventKind::Started,
            Event::SplitStarted { .. } => EventKind::SplitStarted,
            Event::DoneOutside { .. } => EventKind::DoneOutside,
            Event::Resumed { .. } => EventKind::Resumed,
            Event::StartedAfresh { .. } => EventKind::StartedAfresh,
            Event::Discarded => EventKind::Discarded,
            Event::ReviewRetried { .. } => EventKind::ReviewRetried,
            Event::SentBack { .. } => EventKind::SentBack,
            Event::AcceptedByHand { .. } => EventKind::AcceptedByHand,
            Event::Replanned => EventKind::Replanned,
            Event::Revised { .. } => EventKind::Revised,
            Event::Deployed => EventKind::Deployed,
            Event::TakenBack { .. } => EventKind::TakenBack,
            Event::PlannedAgain => EventKind::PlannedAgain,
            Event::AskedAgain { .. } => EventKind::AskedAgain,
            Event::SplitRetried { .. } => EventKind::SplitRetried,
            Event::CancelAsked => EventKind::CancelAsked,
            Event::Archived => EventKind::Archived,
            Event::BroughtBack => EventKind::BroughtBack,
            Event::Deleted => EventKind::Deleted,
            Event::Undone { .. } => EventKind::Undone,
            Event::MadeIntent { .. } => EventKind::DocumentWritten,
            Event::PlannedOut { .. } => EventKind::PlannedOut,
            Event::Answered { .. } => EventKind::Answered,
            Event::DraftRetried { .. } => EventKind::DraftRetried,
            Event::ProposalAccepted { .. } => EventKind::ProposalAccepted,
        }
    }
}

/// What an event did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The card, under its new id where the event changed it.
    pub card: CardId,
    /// What happened.
    pub event: EventKind,
    /// Where it stood.
    pub from: Option<Phase>,
    /// Where it stands; none if the card is gone.
    pub to: Option<Phase>,
    /// The job that the event made.
    pub job: Option<JobRef>,
    /// Until when the start can be taken back.
    pub parked_until: Option<Timestamp>,
    /// The request was carried out before; nothing was done now.
    pub repeated: bool,
}

/// Why an event was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such card.
    #[error("there is no card {0}")]
    UnknownCard(CardId),
    /// The event does not fit the phase.
    #[error("{event} does not fit a card in {phase}")]
    NotAllowed {
        /// The event.
        event: EventKind,
        /// Where the card stands.
        phase: Phase,
        /// The events that do fit.
        allowed: Vec<EventKind>,
        /// The job that an earlier click made.
        job: Option<JobRef>,
    },
    /// The card is between the steps of a transition that writes documents.
    #[error("the result is being taken over")]
    Applying,
    /// The card waits for the editor's order.
    #[error("the text is being saved")]
    Saving,
    /// An idea is inside a draft, or a card has an open revision.
    #[error("the card is being worked out in {0}")]
    InDraft(CardId),
    /// A synthesis that nobody read.
    #[error("the synthesis has not been read yet")]
    Unread,
    /// The start was published; it can be cancelled, not taken back.
    #[error("the start was published already; cancel the run instead")]
    TooLateToUndo,
    /// A draft's round was answered already.
    #[error("round {given} was answered already; the current round is {current}")]
    OldRound {
        /// What the request answered.
        given: u32,
        /// What is asked now.
        current: u32,
    },
    /// The slug is taken.
    #[error("the slug {0} is taken")]
    Taken(Slug),
    /// A value is missing, too long or otherwise not usable.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: Said,
    },
    /// A limit of the board, with what to do.
    #[error("{0}")]
    Limit(Said),
    /// A link between cards that cannot be.
    #[error("{0}")]
    Link(#[from] LinkRefusal),
    /// The start of the card can still be taken back, and with it all that would be done to it now.
    #[error("the start of the card can still be taken back; try again when it runs")]
    Parked,
    /// A synthesis that was asked for by hand and cannot be made now.
    #[error("{0}")]
    Synthesis(#[from] SynthesisRefusal),
    /// A record that was edited by hand and cannot be taken.
    #[error("{0}")]
    File(Said),
    /// A fault of the board itself, shown and logged.
    #[error("{0}")]
    Fault(String),
}

/// A sentence in both languages of the board; `Display` is the English one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// German.
    pub de: String,
    /// English.
    pub en: String,
}

impl Said {
    /// The same in German and in English.
    pub fn new(de: impl Into<String>, en: impl Into<String>) -> Said {
        Said { de: de.into(), en: en.into() }
    }

    /// A text of `chars` characters where `limit` are allowed.
    pub(crate) fn too_long(chars: usize, limit: usize) -> Said {
        Said::new(
            format!("hat {chars} Zeichen, erlaubt sind {limit}"),
            format!("has {chars} characters; at most {limit} are allowed"),
        )
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.en)
    }
}

/// Why two cards were not linked (domain.md, "Fan-out and synthesis").
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkRefusal {
    /// Unknown card.
    #[error("there is no card {0}")]
    Unknown(CardId),
    /// A card and itself.
    #[error("a card cannot be its own parent")]
    Itself,
    /// The link would close a circle.
    #[error("{0} is already below this card; the link would close a circle")]
    Cycle(Slug),
    /// The child has another parent.
    #[error("the card already has the parent {0}; unlink it first")]
    HasParent(Slug),
    /// Ideas and drafts take no part.
    #[error("{0} is an idea or a draft; only intents and research questions can be linked")]
    NotACard(CardId),
    /// More than [`super::fanout::MAX_CHILDREN`].
    #[error("a card has at most {} children", super::fanout::MAX_CHILDREN)]
    TooMany,
}

/// Why no synthesis was made by hand (domain.md, "Fan-out and synthesis").
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SynthesisRefusal {
    /// The card has none.
    #[error("the card has no children; link some first")]
    NoChildren,
    /// Children that have not ended.
    #[error("not ended yet: {}", names(.0))]
    Open(Vec<Slug>),
    /// One is being written.
    #[error("a synthesis is being written already")]
    Due,
}

/// Slugs as a list to read.
pub fn names(slugs: &[Slug]) -> String {
    slugs.iter().map(Slug::as_str).collect::<Vec<_>>().join(", ")
}
