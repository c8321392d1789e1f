//! Takes known secrets out of what an agent printed, before it is written anywhere.
//!
//! Apart from the log because the sentence of an outcome and a refused reply go through it as well.
//! Only literal secrets that the worker itself handed out or could read are known here; nothing is
//! guessed from the looks of a text.

use std::borrow::Cow;

/// Shortest secret that is looked for, in characters; shorter ones would tear holes into plain text.
pub const MIN_SECRET_CHARS: usize = 8;

/// What stands in place of a secret.
pub const REDACTED: &str = "[entfernt]";

/// The secrets of one run.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another goes as a whole.
    needles: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    /// Says how many there are, never which.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} needles)", self.needles.len())
    }
}

impl Redactor {
    /// Looks for these, as they are and as JSON spells them inside a string.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Redactor {
        let mut needles = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            if secret.chars().count() < MIN_SECRET_CHARS {
                continue;
            }
            let quoted = serde_json::Value::from(secret).to_string();
            let escaped = quoted.trim_matches('"').to_owned();
            needles.push(secret.to_owned());
            needles.push(escaped);
        }
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Redactor { needles }
    }

    /// The text without its secrets.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut clean = Cow::Borrowed(text);
        for needle in &self.needles {
            if clean.contains(needle.as_str()) {
                clean = Cow::Owned(clean.replace(needle.as_str(), REDACTED));
            }
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_in_both_spellings() {
        let redactor = Redactor::new(["pass\"word\\1"]);
        assert_eq!(redactor.clean("x pass\"word\\1 y"), "x [entfernt] y");
        assert_eq!(redactor.clean(r#"{"k":"pass\"word\\1"}"#), r#"{"k":"[entfernt]"}"#);
        assert_eq!(redactor.clean("nothing"), "nothing");
    }

    #[test]
    fn secrets_shorter_than_eight_characters_are_left_alone() {
        assert_eq!(Redactor::new(["1234567"]).clean("a 1234567 b"), "a 1234567 b");
        assert_eq!(Redactor::new(["12345678"]).clean("a 12345678 b"), "a [entfernt] b");
    }

    #[test]
    fn the_longer_secret_goes_first() {
        let redactor = Redactor::new(["abcdefgh", "abcdefgh-ijkl"]);
        assert_eq!(redactor.clean("abcdefgh-ijkl"), "[entfernt]");
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert_eq!(format!("{:?}", Redactor::new(["abcdefgh"])), "Redactor(1 needles)");
    }
}
