//! The pure part of the board: no files, no processes, no clocks, no randomness, no logging.
//!
//! Everything here is a function of its arguments, so each rule of the design can be tested as a table
//! or as a property. What touches the outside lives in [`crate::edge`], which may use this module;
//! the reverse would let a rule depend on a clock or a disk and is refused by the tidy test.
pub mod apply;
pub mod board;
pub mod card;
pub mod documents;
pub mod draft;
pub mod event;
pub mod fanout;
pub mod hash;
pub mod job;
pub mod json;
pub mod marker;
pub mod outcome;
pub mod pending;
pub mod phase;
pub mod profile;
pub mod record;
pub mod redact;
pub mod slug;
pub mod synthesis;
pub mod time;
pub mod transition;
