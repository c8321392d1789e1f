//! One order to a role: the job and the file it travels in.
//!
//! A job is self-contained: the text that the role works from is in it, also where the file is not
//! committed yet, so what runs is what was ordered, whatever happens to the checkout meanwhile.

use std::fmt;
use std::str::FromStr;

use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::card::CardId;
use super::profile::RoleName;

/// Version of the job file format.
pub const JOB_SCHEMA: u32 = 1;

/// Largest job file, in bytes (queue.md).
pub const MAX_JOB_BYTES: u64 = 8 * 1024 * 1024;

/// Reports in a payload together, in bytes; newest first, cut with a sentence (queue.md).
pub const MAX_FEEDBACK_BYTES: usize = 512 * 1024;

/// Which attempts a job may have: every interruption and every pause makes one more.
pub const MAX_ATTEMPT: u32 = 9_999;

/// What a job asks for; the field `type` of its file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobType {
    /// Build an intent.
    Builder,
    /// Review a check commit.
    Review,
    /// Answer a research question.
    Research,
    /// Split an intent into children.
    Split,
    /// One round of a draft.
    Draft,
}

impl JobType {
    /// All types.
    pub const ALL: [JobType; 5] =
        [JobType::Builder, JobType::Review, JobType::Research, JobType::Split, JobType::Draft];

    /// The stable id.
    pub fn id(self) -> &'static str {
        match self {
            JobType::Builder => "builder",
            JobType::Review => "review",
            JobType::Research => "research",
            JobType::Split => "split",
            JobType::Draft => "draft",
        }
    }

    /// The lane whose slots run it.
    pub fn lane(self) -> Lane {
        match self {
            JobType::Builder => Lane::Build,
            JobType::Review | JobType::Split => Lane::Read,
            JobType::Research => Lane::Research,
            JobType::Draft => Lane::Draft,
        }
    }

    /// The role that plays it.
    pub fn role(self) -> RoleName {
        match self {
            JobType::Builder => RoleName::Builder,
            JobType::Review => RoleName::Reviewer,
            JobType::Research => RoleName::Researcher,
            JobType::Split | JobType::Draft => RoleName::Planner,
        }
    }
}

/// Jobs of one privilege and one measure of concurrency.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Draft rounds: no repository.
    Draft,
    /// Review and split: a clean read-only tree.
    Read,
    /// Research: the same, one at a time.
    Research,
    /// Builds: a worktree of their own.
    Build,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Lane; 4] = [Lane::Draft, Lane::Read, Lane::Research, Lane::Build];

    /// The stable id, also the name of its inbox directory and of its units.
    pub fn id(self) -> &'static str {
        match self {
            Lane::Draft => "draft",
            Lane::Read => "read",
            Lane::Research => "research",
            Lane::Build => "build",
        }
    }

    /// The lane of an id.
    pub fn from_id(id: &str) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| lane.id() == id)
    }
}

/// A job and one of its attempts: the name of a file without its ending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct JobRef {
    /// Id of the job, a UUIDv7, so that names sort by age.
    pub job: Uuid,
    /// The n-th file of this job, from 1.
    pub attempt: u32,
}

impl JobRef {
    /// `<job id>.<attempt>.json`
    pub fn job_file(self) -> String {
        format!("{self}.json")
    }

    /// `<job id>.<attempt>.outcome.json`
    pub fn outcome_file(self) -> String {
        format!("{self}.outcome.json")
    }

    /// `<job id>.<attempt>.reply.md`: what a role said that was refused, beside the log
    pub fn reply_file(self) -> String {
        format!("{self}.reply.md")
    }

    /// The job and attempt of a job file's name; `None` if it is not exactly such a name.
    pub fn from_job_file(name: &str) -> Option<JobRef> {
        let parsed: JobRef = name.strip_suffix(".json")?.parse().ok()?;
        (parsed.job_file() == name).then_some(parsed)
    }

    /// The job and attempt of an outcome file's name.
    pub fn from_outcome_file(name: &str) -> Option<JobRef> {
        let parsed: JobRef = name.strip_suffix(".outcome.json")?.parse().ok()?;
        (parsed.outcome_file() == name).then_some(parsed)
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

/// A text that is not `<uuid>.<attempt>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected <job id>.<attempt>")]
pub struct NotAJobRef;

impl FromStr for JobRef {
    type Err = NotAJobRef;

    fn from_str(text: &str) -> Result<Self, NotAJobRef> {
        let (id, attempt) = text.split_once('.').ok_or(NotAJobRef)?;
        let job = Uuid::try_parse(id).map_err(|_| NotAJobRef)?;
        let attempt: u32 = attempt.parse().map_err(|_| NotAJobRef)?;
        let parsed = JobRef { job, attempt };
        // The one spelling only: no upper case, no leading zeros, no attempt 0.
        if (1..=MAX_ATTEMPT).contains(&attempt) && parsed.to_string() == text {
            Ok(parsed)
        } else {
            Err(NotAJobRef)
        }
    }
}

/// A document as it was when the job was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentText {
    /// Path in the repository.
    pub path: String,
    /// [`crate::model::hash::blob_hash`] of the text.
    pub blob: String,
    /// The text itself.
    pub text: String,
}

/// What an earlier run left for one that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Number of the worktree and branch to go on in.
    pub number: u32,
    /// What happened before, as a sentence for the prompt.
    pub before: String,
}

/// How the builder's branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// The operator's note to the builder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Review reports, newest first, cut at [`MAX_FEEDBACK_BYTES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<String>,
}

/// One entry of a draft's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Who spoke.
    pub who: Speaker,
    /// When.
    pub at: Timestamp,
    /// The text.
    pub text: String,
    /// Options that the planner offered with a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The option that the operator took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
}

/// Who spoke in a draft's conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The operator.
    Operator,
    /// The planner.
    Planner,
    /// The board itself, for example about a slug that is taken.
    Board,
}

/// What the role works from, by type of job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Payload {
    /// For a builder.
    Builder(BuilderPayload),
    /// For a reviewer.
    Review(ReviewPayload),
    /// For a researcher.
    Research(ResearchPayload),
    /// For the planner that splits.
    Split(SplitPayload),
    /// For the planner that drafts.
    Draft(DraftPayload),
}

/// What the builder works from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuilderPayload {
    /// The intent.
    pub intent: DocumentText,
    /// The commit that the branch starts from.
    pub base_commit: String,
    /// The commit that the review's diff starts from, where the branch goes on from an earlier check commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base: Option<String>,
    /// Number of the branch `board/<slug>/<n>` and of its worktree.
    pub number: u32,
    /// Set when the run goes on in a worktree that is there.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// Reports and a note of an earlier round.
    #[serde(default)]
    pub feedback: Option<Feedback>,
}

/// What the reviewer works from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewPayload {
    /// The intent as it was built.
    pub intent: DocumentText,
    /// The commit under review, full hash.
    pub commit: String,
    /// Where its diff starts.
    pub base: String,
}

/// What the researcher works from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResearchPayload {
    /// The question.
    pub question: DocumentText,
    /// The commit whose tree is shown.
    pub commit: String,
}

/// What the planner works from when it splits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitPayload {
    /// The intent to split.
    pub intent: DocumentText,
    /// The commit whose tree is shown.
    pub commit: String,
}

/// What the planner works from when it drafts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DraftPayload {
    /// Number of the round, from 1.
    pub round: u32,
    /// The whole conversation so far.
    pub conversation: Vec<Turn>,
    /// The card that this draft revises, with its intent and reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<Revision>,
}

/// The card that a draft revises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// The card.
    pub card: CardId,
    /// Its intent when the revision began.
    pub intent: DocumentText,
    /// Its reports, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<String>,
}

/// One order to a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Version of the format, [`JOB_SCHEMA`].
    pub schema: u32,
    /// A UUIDv7.
    pub id: Uuid,
    /// The n-th file of this job.
    pub attempt: u32,
    /// What is asked for.
    #[serde(rename = "type")]
    pub kind: JobType,
    /// The card.
    pub card_id: CardId,
    /// When the job was made.
    pub created_at: Timestamp,
    /// Who asked for it.
    pub requested_by: String,
    /// The configured profile that runs, frozen.
    pub profile: String,
    /// Iterations that this run may use.
    pub iteration_limit: u32,
    /// The role's description in the repository as it was when the job was made; quoted into the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<DocumentText>,
    /// What the role works from.
    pub payload: Payload,
}

impl Job {
    /// This job's current file.
    pub fn reference(&self) -> JobRef {
        JobRef { job: self.id, attempt: self.attempt }
    }
}

/// The job as it is read: the payload's shape follows from `type`, so that an error names its field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob<P> {
    schema: u32,
    id: Uuid,
    attempt: u32,
    #[serde(rename = "type")]
    kind: JobType,
    card_id: CardId,
    created_at: Timestamp,
    requested_by: String,
    profile: String,
    iteration_limit: u32,
    #[serde(default)]
    guidance: Option<DocumentText>,
    payload: P,
}

impl<P> RawJob<P> {
    fn finish(self, wrap: fn(P) -> Payload) -> Job {
        Job {
            schema: self.schema,
            id: self.id,
            attempt: self.attempt,
            kind: self.kind,
            card_id: self.card_id,
            created_at: self.created_at,
            requested_by: self.requested_by,
            profile: self.profile,
            iteration_limit: self.iteration_limit,
            guidance: self.guidance,
            payload: wrap(self.payload),
        }
    }
}

/// Why a job file was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Not JSON, or not of this shape; the sentence names field, line and column.
    #[error("{0}")]
    Shape(String),
    /// A newer or unknown format.
    #[error("schema is {found}; this version reads schema {JOB_SCHEMA}")]
    Schema {
        /// What stands in the file.
        found: u64,
    },
    /// A value that no job of ours has.
    #[error("{field}: {problem}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Deserialize)]
struct Head {
    schema: u64,
    #[serde(rename = "type")]
    kind: JobType,
}

/// Reads a job file. Unknown fields and duplicate keys are errors.
///
/// # Errors
/// The first fault, as a sentence that names the field.
pub fn parse_job(bytes: &[u8]) -> Result<Job, JobError> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        JobError::Shape(format!("not UTF-8 at byte {}; a job file is a JSON object", e.valid_up_to()))
    })?;
    let shape = |e: serde_json::Error| JobError::Shape(e.to_string());
    let head: Head = super::json::object(bytes).map_err(shape)?;
    if head.schema != u64::from(JOB_SCHEMA) {
        return Err(JobError::Schema { found: head.schema });
    }
    let job = match head.kind {
        JobType::Builder => {
            serde_json::from_str::<RawJob<BuilderPayload>>(text).map_err(shape)?.finish(Payload::Builder)
        }
        JobType::Review => {
            serde_json::from_str::<RawJob<ReviewPayload>>(text).map_err(shape)?.finish(Payload::Review)
        }
        JobType::Research => {
            serde_json::from_str::<RawJob<ResearchPayload>>(text).map_err(shape)?.finish(Payload::Research)
        }
        JobType::Split => {
            serde_json::from_str::<RawJob<SplitPayload>>(text).map_err(shape)?.finish(Payload::Split)
        }
        JobType::Draft => {
            serde_json::from_str::<RawJob<DraftPayload>>(text).map_err(shape)?.finish(Payload::Draft)
        }
    };
    if !(1..=MAX_ATTEMPT).contains(&job.attempt) {
        return Err(JobError::Value {
            field: "attempt",
            problem: format!("{} is not between 1 and {MAX_ATTEMPT}", job.attempt),
        });
    }
    let cap = super::profile::ITERATION_CAP;
    if !(1..=cap).contains(&job.iteration_limit) {
        return Err(JobError::Value {
            field: "iteration_limit",
            problem: format!("{} is not between 1 and {cap}", job.iteration_limit),
        });
    }
    Ok(job)
}

impl<'de> Deserialize<'de> for Job {
    /// Through a value, for jobs inside `state.json`; files are read by [`parse_job`].
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = serde_json::to_vec(&value).map_err(serde::de::Error::custom)?;
        parse_job(&text).map_err(serde::de::Error::custom)
    }
}
