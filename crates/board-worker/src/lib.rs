//! The oneshot worker: it takes one job from its lane, runs the agent in a sandbox, leaves an outcome.
pub mod limits;
pub mod lines;
pub mod log;
pub mod processes;
pub mod redact;
pub mod runtimes;
pub mod sandbox;
pub mod stop;
pub mod supervise;
pub mod words;
