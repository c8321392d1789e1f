//! Tells the run what this machine cannot carry. `cargo xtask test` counts it, and CI refuses what its list does not
//! name.

use std::io::Write as _;

/// The variable with the file to which a skip is told, one `id: reason` a line.
const FILE_VARIABLE: &str = "BOARD_TEST_SKIPS";

/// Says that a test does not run here, and why. The test returns then.
pub fn skip(id: &str, reason: &str) {
    println!("SKIPPED {id}: {reason}");
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let told = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "SKIPPED {id}: {reason}"));
    if let Err(error) = told {
        panic!("{}: {error}", path.display());
    }
}
