//! To come.
use crate::model::slug::Slug;
use serde::{Deserialize, Serialize};
/// A question of the planner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Text.
    pub text: String,
    /// Options.
    #[serde(default)]
    pub options: Vec<String>,
}
/// A requested profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// Profile.
    pub profile: String,
    /// Reason.
    pub reason: String,
}
/// A finished intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedIntent {
    /// Slug.
    pub slug: Slug,
    /// Profile.
    #[serde(default)]
    pub profile: Option<ProfileRequest>,
    /// Iterations.
    #[serde(default)]
    pub iterations: Option<u32>,
    /// Body.
    pub body: String,
}
