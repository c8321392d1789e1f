//! Board → queue, board → documents, and what the board has to know of the repository before it decides: each a
//! pass that may be repeated at any time.
pub mod documents;
pub mod families;
pub mod queue;
