//! What touches the outside: files, locks, the queue directories, git, the journal.
//!
//! May use [`crate::model`], never the reverse.
pub mod alarms;
pub mod audit;
pub mod clock;
pub mod documents;
pub mod fault;
pub mod files;
pub mod git;
pub mod journal;
pub mod lock;
pub mod orders;
pub mod queue;
pub mod reconcile;
pub mod secrets;
pub mod settings;
pub mod space;
pub mod store;
pub mod systemd;
pub mod waits;
pub mod wake;
pub mod worktree;
