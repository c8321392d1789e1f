//! To come.
pub mod documents;
pub mod queue;
