//! The name of a git object.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Digits of an object name in a SHA-1 repository.
const SHA1_DIGITS: usize = 40;
/// Digits of an object name in a SHA-256 repository.
const SHA256_DIGITS: usize = 64;

/// A full object name: 40 (SHA-1) or 64 (SHA-256) lowercase hexadecimal digits.
///
/// Safe as an argument of git: it can be read neither as an option nor as another revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// A text that is no full object name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not an object name of 40 or 64 lowercase hexadecimal digits")]
pub struct OidError(pub String);

impl Oid {
    /// Takes a full object name.
    ///
    /// # Errors
    /// Anything else, abbreviations and upper case too.
    pub fn parse(text: &str) -> Result<Self, OidError> {
        let digits = matches!(text.len(), SHA1_DIGITS | SHA256_DIGITS);
        if digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text.to_owned()))
        } else {
            Err(OidError(text.chars().take(SHA256_DIGITS + 1).collect()))
        }
    }

    /// The name that git uses for "no object", of `digits` digits.
    pub(crate) fn zero(digits: usize) -> Self {
        Self("0".repeat(digits))
    }

    /// The bytes that its digits stand for, as trees hold them.
    pub(crate) fn to_raw(&self) -> Vec<u8> {
        let half = |digit: u8| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        self.0
            .as_bytes()
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | half(*digit)))
            .collect()
    }

    /// From the bytes of a raw tree entry.
    pub(crate) fn from_raw(raw: &[u8]) -> Self {
        // Not by `write!`: a scan does this for ten thousand entries.
        let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
        Self(raw.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first ten digits, for a line that a person reads.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Oid {
    type Error = OidError;

    fn try_from(text: String) -> Result<Self, OidError> {
        Self::parse(&text)
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl AsRef<str> for Oid {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<std::ffi::OsStr> for Oid {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_lowercase_names_are_object_names() {
        for good in ["a".repeat(40), "0123456789abcdef".repeat(4)] {
            assert_eq!(Oid::parse(&good).unwrap().as_str(), good);
        }
        let bad = ["", "HEAD", "--all", &"a".repeat(39), &"a".repeat(41), &"a".repeat(63), &"a".repeat(65)];
        for text in
            bad.iter().copied().chain([&*"A".repeat(40), &*"g".repeat(40), &*format!("{}\n", "a".repeat(39))])
        {
            assert!(Oid::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn digits_become_their_raw_bytes() {
        let raw: Vec<u8> = (0..20).map(|n| n * 13).collect();
        assert_eq!(Oid::from_raw(&raw).to_raw(), raw);
    }

    #[test]
    fn raw_bytes_become_their_digits() {
        assert_eq!(Oid::from_raw(&[0, 255, 16]).as_str(), "00ff10");
    }
}
