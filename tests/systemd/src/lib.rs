//! Helpers of the tests on systemd: a Debian root with the package installed, a container of its own for each test
//! with a real PID 1, and the board in it.
//!
//! - [`nixos`]: a host of NixOS in it, with the units of the module
//! - [`root`]: the Debian root and the layer with the package, made once and shared read-only
//! - [`container`]: one booted systemd above them; nothing of it is left when it is dropped
//! - [`board`]: the installed board in it, used as operators and clients do
//! - [`disk`]: disks of the container that lose power
//! - [`skip`]: what this machine cannot carry

#![allow(clippy::panic, reason = "support of tests: a panic is how they fail")]

pub mod board;
pub mod container;
pub mod disk;
pub mod nixos;
pub mod root;
pub mod skip;

pub use board::Board;
pub use container::Container;

/// How long a test waits for anything. A limit against hanging, no measure of speed.
pub use loop_tests::world::{PATIENCE, wait_a_little};

/// Whether the full numbers are asked for.
pub fn is_long() -> bool {
    std::env::var_os("BOARD_TEST_LONG").is_some()
}
