//! How much room a run takes and how much is left.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use board_core::edge::space::{self, MIN_FREE};

use crate::limits::OwnReason;
use crate::words::{Language, about, pick, size};

/// Entries that are looked at when a worktree is measured; beyond them it counts as measured.
const MAX_ENTRIES: usize = 2_000_000;

/// The sentence for a disk that is short.
pub(crate) fn short(path: &Path, language: Language) -> Option<String> {
    let free = space::short(path)?;
    Some(pick(
        language,
        format!("Nur noch {} frei; ab {} geht es weiter", about(free), size(MIN_FREE)),
        format!("Only {} left; work goes on from {}", about(free), size(MIN_FREE)),
    ))
}

/// Whether a worktree has grown beyond its limit or the disk is short.
pub(crate) fn check(worktree: &Path, limit: u64, language: Language) -> Option<OwnReason> {
    if let Some(sentence) = short(worktree, language) {
        return Some(OwnReason::Disk(sentence));
    }
    let used = used(worktree);
    (used > limit).then(|| {
        OwnReason::Disk(pick(
            language,
            format!("Der Worktree belegt {}, erlaubt sind {}", about(used), size(limit)),
            format!("The worktree takes {}, {} are allowed", about(used), size(limit)),
        ))
    })
}

/// Bytes that a directory takes on the disk. What cannot be read counts nothing.
fn used(root: &Path) -> u64 {
    let (mut bytes, mut entries) = (0_u64, 0);
    let mut todo: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return bytes;
            }
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_takes_what_its_files_take_and_more_than_the_limit_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("below/file"), vec![b'x'; 1 << 20]).unwrap();
        let used = used(dir.path());
        assert!(used >= 1 << 20, "{used}");
        assert_eq!(check(dir.path(), used, Language::De), None);
        assert!(check(dir.path(), used - 1, Language::De).is_some());
    }
}
