//! What a run left: the outcome file that the watcher applies.
//!
//! A worker never touches the board; it leaves this file, and the completion watcher decides what
//! follows from it. The role proposes, the wrapper applies.

use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::card::CardId;
use super::job::{Job, JobRef, JobType};
use super::marker::draft::{ProposedIntent, Question};
use super::marker::research::ResearchReply;
use super::marker::review::{Decision, ReviewReply};
use super::marker::split::{self, ProposedChild};

/// Version of the outcome file format.
pub const OUTCOME_SCHEMA: u32 = 1;

/// Largest outcome file, in bytes (queue.md).
pub const MAX_OUTCOME_BYTES: u64 = 8 * 1024 * 1024;

/// Longest sentence of an outcome, in characters; longer ones are cut.
pub const MAX_SENTENCE_CHARS: usize = 2_000;

/// How a run ended (queue.md, "Outcome file").
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// The role answered as asked; [`Outcome::produced`] holds its answer.
    Succeeded,
    /// The agent or the wrapper failed.
    Failed,
    /// The builder changed nothing.
    NoChange,
    /// A limit of iterations, output, tokens or disk.
    Limit,
    /// The wall-clock limit.
    Timeout,
    /// No sign of life for the idle limit.
    Stalled,
    /// Ended by the kernel for want of memory.
    Oom,
    /// The operator cancelled it.
    Cancelled,
    /// A stop, a deploy, a crash or a power cut: not a failure of the work.
    Interrupted,
    /// Login, quota, network or program: not the card's fault.
    Unavailable,
    /// The final message is not one well-formed answer.
    InvalidReply,
}

impl RunResult {
    /// All results.
    pub const ALL: [RunResult; 11] = [
        RunResult::Succeeded,
        RunResult::Failed,
        RunResult::NoChange,
        RunResult::Limit,
        RunResult::Timeout,
        RunResult::Stalled,
        RunResult::Oom,
        RunResult::Cancelled,
        RunResult::Interrupted,
        RunResult::Unavailable,
        RunResult::InvalidReply,
    ];

    /// The stable id.
    pub fn id(self) -> &'static str {
        match self {
            RunResult::Succeeded => "succeeded",
            RunResult::Failed => "failed",
            RunResult::NoChange => "no_change",
            RunResult::Limit => "limit",
            RunResult::Timeout => "timeout",
            RunResult::Stalled => "stalled",
            RunResult::Oom => "oom",
            RunResult::Cancelled => "cancelled",
            RunResult::Interrupted => "interrupted",
            RunResult::Unavailable => "unavailable",
            RunResult::InvalidReply => "invalid_reply",
        }
    }

    /// Whether a failure phase with this reason is left open by a fan-out: another run ends it
    /// (domain.md, "Phases").
    pub fn leaves_card_open(self) -> bool {
        match self {
            RunResult::Cancelled | RunResult::Interrupted | RunResult::Unavailable => true,
            RunResult::Succeeded
            | RunResult::Failed
            | RunResult::NoChange
            | RunResult::Limit
            | RunResult::Timeout
            | RunResult::Stalled
            | RunResult::Oom
            | RunResult::InvalidReply => false,
        }
    }
}

/// What the runtime told about its consumption.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Iterations counted by the harness.
    #[serde(default)]
    pub iterations: u32,
    /// Input tokens, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Input tokens read from a cache, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Output tokens, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Cost in US dollars, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// What a builder's success brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Built {
    /// Branch `board/<slug>/<n>`.
    pub branch: String,
    /// The commit that the run started from.
    pub base: String,
    /// The check commit.
    pub commit: String,
    /// Number of files changed.
    pub files_changed: u32,
    /// The role's summary.
    pub summary: String,
    /// Paths of the board that the agent had changed and the wrapper put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<String>,
}

/// What a successful run brought, by type of job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Produced {
    /// Of a builder.
    Build(Built),
    /// Of a reviewer.
    Review {
        /// The commit that was judged.
        commit: String,
        /// The verdict.
        decision: Decision,
        /// The report, Markdown.
        report: String,
    },
    /// Of a researcher.
    Research {
        /// The report, Markdown.
        report: String,
    },
    /// Of a split.
    Split {
        /// The children, in order.
        children: Vec<ProposedChild>,
    },
    /// A question of the planner.
    Question(Question),
    /// A finished intent of the planner.
    Intent(ProposedIntent),
}

impl Produced {
    /// The block that a report or a split came from, for when it cannot be written. None where the board keeps
    /// the proposal itself, or where nothing was proposed as a text.
    pub fn as_block(&self, job: &Uuid) -> Option<String> {
        match self {
            Produced::Review { commit, decision, report } => {
                Some(ReviewReply { decision: *decision, report: report.clone() }.to_block(commit))
            }
            Produced::Research { report } => Some(ResearchReply { report: report.clone() }.to_block(job)),
            Produced::Split { children } => Some(split::to_block(job, children)),
            Produced::Build(_) | Produced::Question(_) | Produced::Intent(_) => None,
        }
    }
}

/// Work of a build that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavedWork {
    /// Name of the ref that keeps it, `refs/board/saved/<job id>.<attempt>`; none if there was no change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether the worktree is still there.
    pub worktree: bool,
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Version of the format, [`OUTCOME_SCHEMA`].
    pub schema: u32,
    /// The job.
    pub job_id: Uuid,
    /// The attempt.
    pub attempt: u32,
    /// The card.
    pub card_id: CardId,
    /// What was asked for.
    #[serde(rename = "type")]
    pub kind: JobType,
    /// How it ended.
    pub result: RunResult,
    /// A sentence for people.
    pub sentence: String,
    /// When the run began; equal to `finished_at` where none did.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The profile of the job.
    pub profile: String,
    /// The runtime that ran, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Consumption.
    #[serde(default)]
    pub usage: Usage,
    /// CPU time of the run, milliseconds.
    #[serde(default)]
    pub cpu_ms: u64,
    /// Peak resident memory of the run's processes, bytes.
    #[serde(default)]
    pub peak_memory_bytes: u64,
    /// Name of the log below `logs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Name of the file below `logs/` that keeps a refused reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// For `unavailable`: seconds that the runtime asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    /// The work of a build that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedWork>,
    /// The answer of a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced: Option<Produced>,
}

impl Outcome {
    /// The job and attempt this belongs to.
    pub fn reference(&self) -> JobRef {
        JobRef { job: self.job_id, attempt: self.attempt }
    }

    /// An outcome without a run, for example `interrupted` after a crash or `cancelled` in the inbox.
    pub fn without_run(job: &Job, result: RunResult, sentence: impl Into<String>, now: Timestamp) -> Outcome {
        Outcome {
            schema: OUTCOME_SCHEMA,
            job_id: job.id,
            attempt: job.attempt,
            card_id: job.card_id.clone(),
            kind: job.kind,
            result,
            sentence: cut_sentence(sentence.into()),
            started_at: now,
            finished_at: now,
            profile: job.profile.clone(),
            runtime: None,
            model: None,
            usage: Usage::default(),
            cpu_ms: 0,
            peak_memory_bytes: 0,
            log: None,
            reply: None,
            retry_after_s: None,
            saved: None,
            produced: None,
        }
    }
}

/// Cuts a sentence at [`MAX_SENTENCE_CHARS`].
pub fn cut_sentence(text: String) -> String {
    match text.char_indices().nth(MAX_SENTENCE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Why an outcome file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutcomeError {
    /// Not JSON, or not of this shape.
    #[error("{0}")]
    Shape(String),
    /// A format of another version.
    #[error("schema is {found}; this version reads schema {OUTCOME_SCHEMA}")]
    Schema {
        /// What stands in the file.
        found: u64,
    },
    /// The answer is not one that this type of job and this result can have.
    #[error("produced: {0}")]
    Produced(String),
}

#[derive(Deserialize)]
struct Head {
    schema: u64,
}

/// Reads an outcome file.
///
/// # Errors
/// The first fault, as a sentence.
pub fn parse_outcome(bytes: &[u8]) -> Result<Outcome, OutcomeError> {
    let shape = |e: serde_json::Error| OutcomeError::Shape(e.to_string());
    let head: Head = super::json::object(bytes).map_err(shape)?;
    if head.schema != u64::from(OUTCOME_SCHEMA) {
        return Err(OutcomeError::Schema { found: head.schema });
    }
    let outcome: Outcome = serde_json::from_slice(bytes).map_err(shape)?;
    let fits = match (&outcome.produced, outcome.result) {
        (None, RunResult::Succeeded) => false,
        (None, _) => true,
        (Some(_), result) if result != RunResult::Succeeded => false,
        (Some(produced), _) => match produced {
            Produced::Build(_) => outcome.kind == JobType::Builder,
            Produced::Review { .. } => outcome.kind == JobType::Review,
            Produced::Research { .. } => outcome.kind == JobType::Research,
            Produced::Split { .. } => outcome.kind == JobType::Split,
            Produced::Question(_) | Produced::Intent(_) => outcome.kind == JobType::Draft,
        },
    };
    if fits {
        Ok(outcome)
    } else {
        Err(OutcomeError::Produced(format!(
            "does not fit an outcome `{}` of a {} job",
            outcome.result.id(),
            outcome.kind.id()
        )))
    }
}
