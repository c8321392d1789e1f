//! The trigger: serves the board over HTTP and on the control socket, and creates jobs.
//!
//! A click changes the board under its lock; what follows from that (job files, documents, commits) is made
//! by reconcile, here and in the watcher. The trigger writes the state directory only and runs no agent.
mod app;
mod audit_log;
mod auth;
mod change;
mod control;
mod handlers;
mod i18n;
mod live;
mod merged;
mod middleware;
mod openapi;
mod reply;
mod repository;
mod route;
mod server;
mod view;
mod world;

pub use server::{Address, Hooks, Stop, run};
