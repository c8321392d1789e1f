//! Every row of the fault table on a real systemd, each test named by the number of its row.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod builder;
mod chaos;
mod checkout;
mod daemons;
mod disks;
mod drops;
mod help;
mod late;
mod nixos;
mod power;
mod queue;
mod state;
mod stops;
mod units;
mod whole;
