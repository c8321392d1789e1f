//! To come.
pub mod block;
pub mod draft;
pub mod research;
pub mod review;
pub mod split;
