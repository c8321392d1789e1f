//! What a run may use: a profile, its reason and an iteration budget.
//!
//! Text never chooses these. A planner's request is read from the headers of its marker block and
//! checked against the configured names; what is stored here was configured or chosen by the operator.

use serde::{Deserialize, Serialize};

/// Default and upper limit of iterations of one job, harness-side (agents.md, "Limits").
pub const ITERATION_CAP: u32 = 20;

/// The profile and budget of a card, where they differ from the role's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of a configured profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Why this profile: the planner's or the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Iterations per job, 1 to the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
}

/// One of the four roles an agent can play.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    /// Builds in a worktree of its own.
    Builder,
    /// Judges a check commit.
    Reviewer,
    /// Answers a research question.
    Researcher,
    /// Drafts and splits intents.
    Planner,
}

impl RoleName {
    /// All roles.
    pub const ALL: [RoleName; 4] =
        [RoleName::Builder, RoleName::Reviewer, RoleName::Researcher, RoleName::Planner];

    /// The key in `[roles.<key>]`.
    pub fn id(self) -> &'static str {
        match self {
            RoleName::Builder => "builder",
            RoleName::Reviewer => "reviewer",
            RoleName::Researcher => "researcher",
            RoleName::Planner => "planner",
        }
    }
}
