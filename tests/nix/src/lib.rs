//! The NixOS module without nixpkgs: hosts evaluated by a stand-in for the module system, and what NixOS would make of
//! them.
//!
//! - [`eval`]: `nix-instantiate`, called on `eval.nix` and `options.nix`
//! - [`host`]: one evaluated host: its units, its settings as a file
//! - [`switch`]: what a switch does with units that changed
//! - [`tree`]: the directory of units that NixOS would make
//! - [`page`]: the examples of `docs/nixos.md`
//! - [`mod@reference`]: `docs/options.md`, made from the declarations

#![allow(clippy::panic, reason = "support of tests: a panic is how they fail")]

pub mod eval;
pub mod host;
pub mod page;
pub mod reference;
pub mod switch;
pub mod tree;

pub use host::Host;

use std::path::{Path, PathBuf};

/// The top of the checkout.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
