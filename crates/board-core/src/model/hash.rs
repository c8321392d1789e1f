//! The content hash by which a document is recognised: git's own blob hash (SHA-1).
//!
//! It is computed here and not asked of git because it is needed under the state lock, where no process
//! may be started. In a repository with SHA-256 objects it stays a content hash of the board and is
//! never used as an object name.

use sha1::{Digest, Sha1};

/// Hash of `bytes` as git names a blob: SHA-1 over `blob <length>\0<bytes>`, in lower-case hexadecimal.
pub fn blob_hash(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    let mut text = String::with_capacity(40);
    for byte in hasher.finalize() {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_git_hash_object() {
        assert_eq!(blob_hash(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_hash(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
