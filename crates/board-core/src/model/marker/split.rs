//! To come.
use super::draft::ProfileRequest;
use crate::model::slug::Slug;
use serde::{Deserialize, Serialize};
/// Kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildKind {
    /// Intent.
    Intent,
    /// Research.
    #[serde(rename = "recherche")]
    Research,
}
/// Child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedChild {
    /// Slug.
    pub slug: Slug,
    /// Kind.
    pub kind: ChildKind,
    /// Profile.
    #[serde(default)]
    pub profile: Option<ProfileRequest>,
    /// Iterations.
    #[serde(default)]
    pub iterations: Option<u32>,
    /// Body.
    pub body: String,
}
