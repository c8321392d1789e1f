//! What is in the tree: the files that git tracks or would track, and what a rule says about one of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// A file of the project that is text.
pub(crate) struct Tracked {
    /// Relative to the top of the checkout, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A line that breaks a rule, with what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// From 1; 0 where the whole file is meant.
    line: usize,
    why: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, why: impl Into<String>) -> Self {
        Finding { path: path.to_owned(), line, why: why.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.path, self.line, self.why)
    }
}

/// All text files that are tracked, or new and not ignored: a finding should come before the commit.
pub(crate) fn tracked() -> anyhow::Result<Vec<Tracked>> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .context("cannot start git")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        // Deleted but not yet staged, a link or a submodule: not there to be read.
        let full = root.join(path);
        if !full.is_file() || full.is_symlink() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(Tracked { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
