//! Helpers of the loop tests: a world of its own for each test, with a real repository, the real programs
//! under `boardctl dev` as an unprivileged user, and a scripted agent.
//!
//! The agent is a shell script, named so: it really edits files and really answers, but what it does follows
//! from the card's id and not from a model.

#![allow(clippy::panic, reason = "support of tests: a panic is how they fail")]

pub mod chance;
pub mod http;
pub mod processes;
pub mod world;

pub use world::{Options, World};
