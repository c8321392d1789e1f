//! The board behind real reverse proxies: nginx, Caddy, HAProxy and Apache, each with its example of
//! `docs/identity.md`, and a stand-in for Traefik, which no package registry has.
//!
//! Board and proxies run as an unprivileged user, on loopback.

#![allow(clippy::panic, clippy::unwrap_used, reason = "support of tests: a panic is how they fail")]

pub mod board;
pub mod example;
pub mod proxy;
pub mod standin;

pub use board::Board;
pub use proxy::{Kind, Proxy};
