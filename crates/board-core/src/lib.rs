//! The core of board-agent: a sync library without a runtime and without a network.
//!
//! Direction of use: [`model`] ← [`edge`] ← the daemons. `ARCHITECTURE.md` tells the rest.
pub mod edge;
pub mod model;
