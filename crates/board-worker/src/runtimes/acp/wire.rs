//! The messages of the Agent Client Protocol, version 1: JSON-RPC 2.0, one object a line.
//!
//! Written by hand with serde, because six messages are all that is needed and the libraries change faster
//! than the protocol. What the agent sends is read leniently; what we send is exact.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::runtimes::lax::{Lax, lax_object};

/// The version that is spoken here.
pub(super) const VERSION: u64 = 1;

/// „Method not found" of JSON-RPC.
const METHOD_NOT_FOUND: i32 = -32_601;

/// „Authentication required" of the protocol.
pub(super) const AUTH_REQUIRED: i64 = -32_000;

/// A line of the agent: an answer, a question or a notice.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming {
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default)]
    pub(super) method: Lax<String>,
    #[serde(default)]
    pub(super) params: Lax<Params>,
    #[serde(default)]
    pub(super) result: Lax<Answer>,
    #[serde(default)]
    pub(super) error: Lax<Value>,
}

/// What a question or a notice of the agent carries, of all its methods.
#[derive(Debug, Deserialize)]
pub(super) struct Params {
    #[serde(rename = "sessionId", default)]
    pub(super) session: Lax<String>,
    #[serde(default)]
    pub(super) update: Lax<Update>,
    #[serde(rename = "toolCall", default)]
    pub(super) tool_call: Lax<ToolCall>,
    #[serde(default)]
    pub(super) options: Lax<Vec<PermissionOption>>,
}

/// `session/update`
#[derive(Debug, Deserialize)]
pub(super) struct Update {
    #[serde(rename = "sessionUpdate", default)]
    pub(super) kind: Lax<String>,
    #[serde(default)]
    pub(super) content: Lax<Value>,
    #[serde(rename = "messageId", default)]
    pub(super) message_id: Lax<String>,
    #[serde(rename = "toolCallId", default)]
    pub(super) tool_call_id: Lax<String>,
    #[serde(default)]
    pub(super) title: Lax<String>,
    #[serde(rename = "kind", default)]
    pub(super) tool_kind: Lax<String>,
    #[serde(default)]
    pub(super) cost: Lax<Cost>,
}

/// Of `usage_update`: what the session has cost so far.
#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    #[serde(default)]
    pub(super) amount: Lax<f64>,
    #[serde(default)]
    pub(super) currency: Lax<String>,
}

/// The tool that a permission is asked for.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    #[serde(rename = "toolCallId", default)]
    pub(super) id: Lax<String>,
    #[serde(default)]
    pub(super) kind: Lax<String>,
}

/// One of the answers that a permission may get.
#[derive(Debug, Deserialize)]
pub(super) struct PermissionOption {
    #[serde(rename = "optionId", default)]
    pub(super) id: Lax<String>,
    #[serde(default)]
    pub(super) kind: Lax<String>,
}

/// An answer to one of our questions, of all of them.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Answer {
    #[serde(rename = "protocolVersion", default)]
    pub(super) version: Lax<u64>,
    #[serde(rename = "sessionId", default)]
    pub(super) session: Lax<String>,
    #[serde(default)]
    pub(super) models: Lax<Models>,
    #[serde(rename = "stopReason", default)]
    pub(super) stop_reason: Lax<String>,
    #[serde(default)]
    pub(super) usage: Lax<Usage>,
    #[serde(rename = "_meta", default)]
    pub(super) meta: Lax<Value>,
}

/// The models of a session, where the agent tells them.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    #[serde(rename = "currentModelId", default)]
    pub(super) current: Lax<String>,
    #[serde(rename = "availableModels", default)]
    pub(super) available: Lax<Vec<Model>>,
}

/// One of them.
#[derive(Debug, Deserialize)]
pub(super) struct Model {
    #[serde(rename = "modelId", default)]
    pub(super) id: Lax<String>,
}

/// What a prompt has used, where the agent tells it. Gemini puts the same into `_meta` under other names.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Usage {
    #[serde(rename = "inputTokens", alias = "input_tokens", default)]
    pub(super) input: Lax<u64>,
    #[serde(rename = "cachedReadTokens", alias = "cached_read_tokens", default)]
    pub(super) cached: Lax<u64>,
    #[serde(rename = "outputTokens", alias = "output_tokens", default)]
    pub(super) output: Lax<u64>,
}

lax_object!(Params, Update, Cost, ToolCall, PermissionOption, Answer, Models, Model, Usage);

/// A line with its end.
fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A question of ours.
pub(super) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// A notice of ours.
pub(super) fn notice(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Our answer to a permission: one of the options, or that the run is being ended.
pub(super) fn permission(id: &Value, option: Option<&str>) -> Vec<u8> {
    let outcome = match option {
        Some(option) => json!({"outcome": "selected", "optionId": option}),
        None => json!({"outcome": "cancelled"}),
    };
    line(&json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}))
}

/// Our answer to a question that is not for us.
pub(super) fn refusal(id: &Value) -> Vec<u8> {
    line(&json!({
        "jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": "not offered here"}
    }))
}

/// What we can do: neither files nor terminals, the agent has its own in the sandbox.
pub(super) fn initialize() -> Value {
    json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        "clientInfo": {"name": "board-agent", "version": env!("CARGO_PKG_VERSION")},
    })
}
