//! What a card is made of: marks, builds, reports, drafts, and documents that are being written.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Card, CardId};
use crate::model::job::{JobRef, Turn};
use crate::model::marker::draft::ProposedIntent;
use crate::model::marker::review::Decision;
use crate::model::outcome::RunResult;
use crate::model::phase::Phase;
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

/// Who did something and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The operator's name, or `drop:<user>`.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A start that can still be taken back (domain.md, "Parking").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parked {
    /// When it is published, unless the clock was changed.
    pub not_before: Timestamp,
    /// Longest time that `not_before` may lie ahead, in seconds: the undo window at the time.
    pub window_s: u32,
    /// The card exactly as it was; none if it had no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Card>>,
    /// The transition that is recorded when the start is published.
    pub step: Step,
}

/// One transition, as it is recorded in the history and in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A UUID of its own, the trailer `Board-Transition`.
    pub transition: Uuid,
    /// Where the card stood; none for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Phase>,
    /// Where it stands now.
    pub to: Phase,
    /// Id of the event.
    pub event: String,
    /// Who.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// The job that it made or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRef>,
    /// The job's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A reason or note, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why an attempt is not in the queue although it is current.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Since when.
    pub since: Timestamp,
    /// The sentence of the outcome that caused it.
    pub reason: String,
}

/// Why a card failed, for people and for the fan-out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// How the run ended.
    pub result: RunResult,
    /// What happened, a sentence.
    pub sentence: String,
    /// When.
    pub at: Timestamp,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRef>,
    /// Log below `logs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Refused reply below `logs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

/// Branch and commits of a card's builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Number of the newest worktree and branch.
    pub number: u32,
    /// `board/<slug>/<n>`
    pub branch: String,
    /// Name of the worktree below `worktrees/`; none once it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Where the branch starts.
    pub base_commit: String,
    /// Where the review's diff starts.
    pub diff_base: String,
    /// The check commit of the newest successful build on this branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_commit: Option<String>,
    /// The check commit of an earlier branch, from which a build can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_check: Option<String>,
    /// The operator gave the worktree up; the watcher removes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// The intent that is built; its blob is compared with the file to say that it changed.
    pub intent_blob: String,
    /// Refs that keep work of builds that did not succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved_refs: Vec<String>,
}

/// A report in the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Path of the file; each report is a section of it.
    pub path: String,
    /// The job that wrote it.
    pub job: Uuid,
    /// When.
    pub at: Timestamp,
    /// The profile that judged.
    pub profile: String,
    /// For a review: the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// For a review: the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Headings that the prompt asked for and the report lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_headings: Vec<String>,
}

/// What the newest run used of its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Iterations used.
    pub iterations: u32,
    /// Iterations allowed.
    pub limit: u32,
    /// Duration, seconds.
    pub seconds: u64,
    /// Tokens in and out, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// What only a draft has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Number of the round that is queued, runs or was answered last.
    pub round: u32,
    /// The conversation.
    pub conversation: Vec<Turn>,
    /// The idea inside it, given back when the draft is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_idea: Option<CardId>,
    /// The card whose intent it revises, with the intent's blob at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<Revises>,
    /// A proposal that could not be written; the operator can take it under another slug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposedIntent>,
}

/// The card that a draft revises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revises {
    /// The card.
    pub card: CardId,
    /// Blob of its intent when the revision began.
    pub blob: String,
}

/// How a document is written (storage.md, "A transition that writes documents").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WriteKind {
    /// Create-new; a file that is there at the first pass is a collision.
    New,
    /// Replaces exactly the content with this blob hash.
    Replace {
        /// Hash of the content that is replaced.
        old: String,
    },
    /// A section on top of a report, found again by the job id in its head.
    Section {
        /// The job.
        job: Uuid,
    },
    /// Text at the end of a conversation, found again by this mark.
    Append {
        /// The mark that its first line contains.
        mark: String,
    },
}

/// One document of a transition that writes documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedDocument {
    /// Path in the repository.
    pub path: String,
    /// How it is written.
    pub kind: WriteKind,
    /// Hash of `text`.
    pub hash: String,
    /// The whole document, or the section.
    pub text: String,
}

/// What a transition that writes documents is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApplyingFor {
    /// The outcome of this job and attempt.
    Outcome(JobRef),
    /// The synthesis that is due on this card.
    Synthesis(Slug),
    /// The editor's order of this card.
    Order,
}

/// A transition that writes documents, between its first and its third step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Applying {
    /// Its cause.
    pub what: ApplyingFor,
    /// Since when.
    pub since: Timestamp,
    /// Its documents, with their text, so that a repetition writes the same bytes.
    pub documents: Vec<PlannedDocument>,
    /// Set once the first pass over the files is through: from then on a new file that is there is its own.
    #[serde(default)]
    pub begun: bool,
    /// Why it could not go on, for the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// What the editor ordered; carried out by the watcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The text.
    pub text: String,
    /// The document to write.
    pub path: String,
    /// Blob of the text that was edited; none for a new document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_blob: Option<String>,
    /// Who and when.
    pub mark: Mark,
    /// Why it cannot be carried out; it stays with both texts until the operator decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}
