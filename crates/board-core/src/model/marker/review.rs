//! To come.
use serde::{Deserialize, Serialize};
/// Verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Decision {
    /// Ready.
    #[serde(rename = "bereit")]
    Ready,
    /// Back.
    #[serde(rename = "zurueck")]
    Back,
}
