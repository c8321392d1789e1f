//! The processes of one world, found by their command lines below its directory.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process and its command line.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Arguments, joined by blanks.
    pub line: String,
}

/// Every process whose command line names something below `dir`.
pub fn below(dir: &Path) -> Vec<Process> {
    let dir = dir.to_string_lossy();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let bytes = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
        if line.contains(dir.as_ref()) && pid != std::process::id().cast_signed() {
            found.push(Process { pid, line });
        }
    }
    found
}

/// Sends a signal; a process that is gone is no fault.
pub fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}
