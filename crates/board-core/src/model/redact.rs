//! Takes known secrets out of what an agent printed, reported or left, before it is kept anywhere.
//!
//! Only literal secrets are looked for, in the spellings that programs give them inside JSON; one in base64, or in
//! two halves, is not found (docs/agent.md says so). Which texts are secrets is found out where files are read.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};

/// Shortest secret that is looked for, in characters; shorter ones would tear holes into plain text.
pub const MIN_SECRET_CHARS: usize = 8;

/// Shortest line of a secret with several lines that is looked for by itself, in characters: a log has lines.
const MIN_LINE_CHARS: usize = 20;

/// How many times one in another JSON strings are looked into: a login is JSON, a tool shows it as a string, and an event
/// holds what the tool showed.
const DEPTH: usize = 3;

/// What stands in place of a secret.
pub const REDACTED: &str = "[entfernt]";

/// The secrets of one run.
#[derive(Clone, Default)]
pub struct Redactor {
    /// In every spelling, sorted.
    needles: Vec<String>,
    /// None without needles.
    search: Option<AhoCorasick>,
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
            needles.extend(spellings(secret));
            let lines = secret.lines().map(str::trim).filter(|line| *line != secret);
            for line in lines.filter(|line| line.chars().count() >= MIN_LINE_CHARS && !is_armour(line)) {
                needles.extend(spellings(line));
            }
        }
        needles.sort();
        needles.dedup();
        // The longest first, so that a secret that contains another goes as a whole. A set too large to be built is
        // beyond what files of a login can hold.
        let mut builder = AhoCorasick::builder();
        let builder = builder.match_kind(MatchKind::LeftmostLongest);
        let search = if needles.is_empty() { None } else { builder.build(&needles).ok() };
        Redactor { needles, search }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// Whether a secret stands in these bytes.
    pub fn finds(&self, bytes: &[u8]) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_match(bytes))
    }

    /// The text without its secrets.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                let replacements = vec![REDACTED; self.needles.len()];
                Cow::Owned(search.replace_all(text, &replacements))
            }
            Some(_) | None => Cow::Borrowed(text),
        }
    }

    /// The bytes without their secrets; none if there are none in them.
    pub fn clean_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let search = self.search.as_ref().filter(|search| search.is_match(bytes))?;
        Some(search.replace_all_bytes(bytes, &vec![REDACTED; self.needles.len()]))
    }
}

/// The lines that begin and end a key of several lines; they are no secret.
fn is_armour(line: &str) -> bool {
    line.starts_with("-----")
}

/// A secret as it is, and as it stands within JSON strings, one in another, by programs that
/// escape no more than they must, those that escape all that is not ASCII, and those that escape the slash.
fn spellings(secret: &str) -> Vec<String> {
    let mut all = vec![secret.to_owned()];
    for _ in 0..DEPTH {
        let escaped: Vec<String> = all
            .iter()
            .flat_map(|text| {
                let plain = json(text);
                [ascii(&plain), plain.replace('/', "\\/"), plain]
            })
            .collect();
        all.extend(escaped);
        all.sort();
        all.dedup();
    }
    all
}

/// Within a JSON string, without its quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_in_every_spelling() {
        let redactor = Redactor::new(["pass\"wörd\\1/2"]);
        for text in [
            "pass\"wörd\\1/2",
            r#"pass\"wörd\\1/2"#,
            r#"pass\"w\u00f6rd\\1/2"#,
            r#"pass\"wörd\\1\/2"#,
            r#"pass\\\"wörd\\\\1/2"#,
            r#"pass\\\"w\\u00f6rd\\\\1/2"#,
        ] {
            assert_eq!(redactor.clean(&format!("x {text} y")), "x [entfernt] y", "{text}");
            assert!(redactor.finds(text.as_bytes()));
        }
        assert_eq!(redactor.clean("nothing"), "nothing");
        let value = serde_json::json!({ "k": serde_json::json!({ "k": "pass\"wörd\\1/2" }).to_string() });
        assert!(!redactor.clean(&value.to_string()).contains("pass"), "{value}");
    }

    #[test]
    fn secrets_shorter_than_eight_characters_are_left_alone() {
        assert_eq!(Redactor::new(["1234567"]).clean("a 1234567 b"), "a 1234567 b");
        assert_eq!(Redactor::new(["12345678"]).clean("a 12345678 b"), "a [entfernt] b");
        assert!(Redactor::new(["1234567"]).is_empty());
    }

    #[test]
    fn the_longer_secret_goes_first() {
        let redactor = Redactor::new(["abcdefgh", "abcdefgh-ijkl"]);
        assert_eq!(redactor.clean("abcdefgh-ijkl"), "[entfernt]");
        assert_eq!(redactor.clean("abcdefgh-ijk"), "[entfernt]-ijk");
    }

    #[test]
    fn of_a_key_with_several_lines_each_goes_by_itself_and_its_armour_stays() {
        let line = "MIIEvQIBADANBgkqhkiG9w0B";
        let redactor = Redactor::new([format!("-----BEGIN PRIVATE KEY-----\n{line}\nshort\n")]);
        assert_eq!(redactor.clean(&format!("> {line}")), "> [entfernt]");
        assert_eq!(redactor.clean("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(redactor.clean("short"), "short");
    }

    #[test]
    fn bytes_that_are_no_text_are_cleaned_as_well() {
        let redactor = Redactor::new(["abcdefgh"]);
        assert_eq!(redactor.clean_bytes(b"\xff abcdefgh \x00").unwrap(), b"\xff [entfernt] \x00");
        assert_eq!(redactor.clean_bytes(b"\xff"), None);
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert_eq!(format!("{:?}", Redactor::new(["abcdefgh"])), "Redactor(1 needles)");
    }
}
