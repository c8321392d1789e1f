//! Room on the disk: the limit below which no build begins, and what is left.
//!
//! The worker waits by it and the board says so; both must mean the same number.
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Less free space than this, in bytes, ends a build, and new ones wait (storage.md, "Worktrees").
pub const MIN_FREE: u64 = 1 << 30;

/// Free bytes for an ordinary user on the file system of a path; none if it cannot be told.
#[must_use]
pub fn free(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Free bytes where they are fewer than [`MIN_FREE`].
#[must_use]
pub fn short(path: &Path) -> Option<u64> {
    free(path).filter(|free| is_short(*free))
}

fn is_short(free: u64) -> bool {
    free < MIN_FREE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_below_the_limit_is_short() {
        assert!(!is_short(MIN_FREE));
        assert!(is_short(MIN_FREE - 1));
        assert!(free(Path::new("/")).is_some());
        assert_eq!(free(Path::new("/nowhere/at/all")), None);
    }
}
