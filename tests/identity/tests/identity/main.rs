//! The identity matrix: what reaches the board through which proxy, and as whom.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod matrix;
mod streams;
mod traefik;
