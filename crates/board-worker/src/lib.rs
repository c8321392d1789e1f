//! The oneshot worker: it takes one job from its lane, runs the agent in a sandbox, leaves an outcome.
pub mod limits;
pub mod lines;
pub mod log;
pub mod redact;
pub mod runtimes;
pub mod words;
