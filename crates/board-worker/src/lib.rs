//! The oneshot worker: it takes one job from its lane, runs the agent in a sandbox, leaves an outcome.
pub mod check;
mod credentials;
mod leftovers;
pub mod limits;
pub mod lines;
pub mod log;
pub mod login;
mod play;
pub mod processes;
pub mod prompts;
mod roles;
mod run;
pub mod runtimes;
pub mod sandbox;
mod space;
mod status;
pub mod stop;
pub mod supervise;
mod told;
pub mod words;

pub use play::PATH;
pub use roles::prompt;
pub use run::run;
