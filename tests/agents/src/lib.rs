//! Helpers of the tests with real agents: a stand-in for the model on loopback, and worlds whose agent is the
//! real codex.
//!
//! The agent is the program that people install; only the model behind it is ours, since a test needs one that
//! does what it says, costs nothing and can fail on demand.

#![allow(clippy::panic, reason = "support of tests: a panic is how they fail")]

pub mod codex;
pub mod request;
pub mod standin;

pub use codex::Codex;
pub use request::Request;
pub use standin::{Reply, StandIn};
