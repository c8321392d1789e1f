//! The name of an intent or research card, which is also the name of its files and refs.
//!
//! It is a type and never a bare string: a slug reaches the board from URLs, from file names and from what
//! an agent wrote, and it ends up in paths, git refs and unit names. Whoever holds a [`Slug`] holds text that
//! is safe in all three, because [`Slug::parse`] is the only way to make one.
use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Longest slug, in characters (all of them ASCII, so also in bytes).
pub const MAX_SLUG: usize = 80;

/// Longest piece of refused text that an error repeats, in characters.
const MAX_EXCERPT: usize = 40;

/// Prefixes that belong to the ids of ideas and drafts when a UUID follows.
const RESERVED_PREFIXES: [&str; 2] = ["idea-", "draft-"];

/// The page for a new card has the address that its card would have.
const RESERVED_WORD: &str = "neu";

/// A valid slug: `^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$` and neither `idea-<uuid>` nor `draft-<uuid>` nor `neu`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

/// Why a text is no slug. `Display` is an English sentence, [`SlugError::sentence_de`] a German one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlugError {
    /// There is no character at all.
    #[error("the slug is empty")]
    Empty,
    /// More than [`MAX_SLUG`] characters.
    #[error("the slug \"{excerpt}\" has {length} characters, at most {MAX_SLUG} are allowed")]
    TooLong {
        /// The beginning of the text, cut and escaped.
        excerpt: String,
        /// Its length in characters.
        length: usize,
    },
    /// A character outside `a-z`, `0-9` and `-`.
    #[error("the slug \"{excerpt}\" contains '{character}', only a-z, 0-9 and - are allowed")]
    BadCharacter {
        /// The beginning of the text, cut and escaped.
        excerpt: String,
        /// The first such character, escaped.
        character: String,
    },
    /// A hyphen at the beginning or at the end.
    #[error("the slug \"{excerpt}\" must begin and end with a letter or a digit")]
    BadEdge {
        /// The beginning of the text, cut and escaped.
        excerpt: String,
    },
    /// `idea-<uuid>` or `draft-<uuid>`: the id of a card that has no file.
    #[error("\"{excerpt}\" is the form of the id of an idea or a draft and cannot be a slug")]
    Reserved {
        /// The text, cut and escaped.
        excerpt: String,
    },
    /// `neu`: the address of the page for a new card.
    #[error("\"{RESERVED_WORD}\" is the address of the page for a new card and cannot be a slug")]
    ReservedWord,
}

impl SlugError {
    /// The same sentence in German, for the operator.
    #[must_use]
    pub fn sentence_de(&self) -> String {
        match self {
            Self::Empty => "Der Slug ist leer".to_owned(),
            Self::TooLong { excerpt, length } => {
                format!("Der Slug „{excerpt}“ hat {length} Zeichen, erlaubt sind höchstens {MAX_SLUG}")
            }
            Self::BadCharacter { excerpt, character } => {
                format!("Der Slug „{excerpt}“ enthält „{character}“, erlaubt sind nur a-z, 0-9 und -")
            }
            Self::BadEdge { excerpt } => {
                format!("Der Slug „{excerpt}“ muss mit einem Buchstaben oder einer Ziffer beginnen und enden")
            }
            Self::ReservedWord => {
                format!(
                    "„{RESERVED_WORD}“ ist die Adresse der Seite für eine neue Karte und kann kein Slug sein"
                )
            }
            Self::Reserved { excerpt } => {
                format!(
                    "„{excerpt}“ hat die Form der Kennung einer Idee oder eines Entwurfs und kann kein Slug sein"
                )
            }
        }
    }
}

impl Slug {
    /// Reads a slug.
    ///
    /// # Errors
    /// [`SlugError`] if the text does not match the grammar or is the id of an idea or a draft. Nothing is
    /// repaired: no trimming, no lower-casing.
    pub fn parse(text: &str) -> Result<Self, SlugError> {
        if text.is_empty() {
            return Err(SlugError::Empty);
        }
        // Characters before length: from here on bytes are characters, and the wrong letter is the better hint.
        if let Some(bad) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            return Err(SlugError::BadCharacter {
                excerpt: excerpt(text),
                character: bad.escape_debug().to_string(),
            });
        }
        if text.len() > MAX_SLUG {
            return Err(SlugError::TooLong { excerpt: excerpt(text), length: text.len() });
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(SlugError::BadEdge { excerpt: excerpt(text) });
        }
        if text == RESERVED_WORD {
            return Err(SlugError::ReservedWord);
        }
        if is_reserved(text) {
            return Err(SlugError::Reserved { excerpt: excerpt(text) });
        }
        Ok(Self(text.to_owned()))
    }

    /// A slug made of a title, for whoever gives none; none if too little is left of it.
    #[must_use]
    pub fn of_title(title: &str) -> Option<Self> {
        let mut text = String::new();
        for letter in title.chars().flat_map(char::to_lowercase) {
            let spelled = match letter {
                'ä' => "ae",
                'ö' => "oe",
                'ü' => "ue",
                'ß' => "ss",
                'a'..='z' | '0'..='9' => {
                    text.push(letter);
                    continue;
                }
                // Several in a row are one, and none stands at the beginning.
                _ if text.is_empty() || text.ends_with('-') => "",
                _ => "-",
            };
            text.push_str(spelled);
        }
        text.truncate(MAX_SLUG);
        Self::parse(text.trim_end_matches('-')).ok()
    }

    /// The text of the slug.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the text is the id of an idea or a draft. Every spelling of a UUID that fits the grammar counts,
/// so that no reader of ids, however lenient, can take a slug for one.
fn is_reserved(text: &str) -> bool {
    RESERVED_PREFIXES
        .iter()
        .filter_map(|prefix| text.strip_prefix(prefix))
        .any(|rest| Uuid::try_parse(rest).is_ok())
}

/// The beginning of a refused text, fit for a log line and a page: cut, control and invisible characters
/// escaped.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_EXCERPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_EXCERPT).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for Slug {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        Self::parse(&text)
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

impl JsonSchema for Slug {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Slug".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::Slug").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The name of an intent or research card.",
            "maxLength": MAX_SLUG,
            "pattern": "^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$",
            "not": {
                "pattern": "^(?:neu|(?:idea|draft)-(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))$"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_title_makes_a_slug_that_can_be_read() {
        let made = |title: &str| Slug::of_title(title).map(|slug| slug.to_string());
        assert_eq!(
            made("Größere Übersicht: 10 – 20 Karten!").as_deref(),
            Some("groessere-uebersicht-10-20-karten")
        );
        assert_eq!(made(" -- Éclair "), Some("clair".into()));
        let long = made(&"wort ".repeat(40)).unwrap();
        assert!(long.len() <= MAX_SLUG && long.ends_with("wort"), "{long}");
        assert_eq!((made("日本"), made(""), made("neu")), (None, None, None));
    }

    const UUID: &str = "01920000-0000-7000-8000-000000000001";

    #[test]
    fn names_of_the_grammar_are_slugs() {
        for good in ["a", "7", "a-b", "a--b", "board-kartenlimit", "idea-box", "draft-2", "idea", "con"] {
            assert_eq!(Slug::parse(good).map(String::from), Ok(good.to_owned()));
        }
        assert!(Slug::parse(&format!("my-idea-{UUID}")).is_ok());
        assert!(Slug::parse(&format!("idea-{UUID}-2")).is_ok());
    }

    #[test]
    fn eighty_characters_are_a_slug_and_eighty_one_are_not() {
        assert!(Slug::parse(&"a".repeat(MAX_SLUG)).is_ok());
        let long = Slug::parse(&"a".repeat(MAX_SLUG + 1)).unwrap_err();
        assert_eq!(long, SlugError::TooLong { excerpt: format!("{}…", "a".repeat(MAX_EXCERPT)), length: 81 });
    }

    #[test]
    fn everything_that_could_leave_a_directory_or_be_an_option_is_refused() {
        let bad = [
            "",
            "-",
            "-a",
            "a-",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "..%5c",
            "%2e%2e%2f",
            "/etc",
            ".git",
            "a.md",
            "a\0",
            "a\n",
            "\na",
            " a",
            "a ",
            "A",
            "CON",
            "ä",
            "a_b",
            "a\u{200b}",
            "\u{feff}a",
            "ａ",
            "a\u{2024}b",
            "а",
            "--upload-pack",
            "a\u{202e}b",
        ];
        for text in bad {
            assert!(Slug::parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn the_ids_of_ideas_and_drafts_are_no_slugs() {
        for id in [format!("idea-{UUID}"), format!("draft-{UUID}"), format!("idea-{}", UUID.replace('-', ""))]
        {
            assert!(matches!(Slug::parse(&id), Err(SlugError::Reserved { .. })), "{id} was taken");
        }
    }

    #[test]
    fn the_address_of_the_page_for_a_new_card_is_no_slug() {
        assert_eq!(Slug::parse("neu"), Err(SlugError::ReservedWord));
        assert!(SlugError::ReservedWord.sentence_de().contains("„neu“"));
        assert!(!schema_accepts("neu"));
        assert!(Slug::parse("neues").is_ok() && schema_accepts("neues"));
    }

    #[test]
    fn an_error_shows_the_text_cut_and_escaped() {
        let text = format!("\u{1b}[31m\n\u{200b}\u{202e}{}", "x".repeat(5_000));
        let error = Slug::parse(&text).unwrap_err();
        for sentence in [error.to_string(), error.sentence_de()] {
            assert!(sentence.contains("\\u{1b}[31m\\n\\u{200b}\\u{202e}xx"), "{sentence}");
            assert!(sentence.chars().count() < 200, "{sentence}");
            assert!(!sentence.chars().any(char::is_control));
        }
    }

    #[test]
    fn json_carries_a_slug_as_text_and_checks_it() {
        let slug = Slug::parse("board-api").unwrap();
        assert_eq!(serde_json::to_string(&slug).unwrap(), "\"board-api\"");
        assert_eq!(serde_json::from_str::<Slug>("\"board-api\"").unwrap(), slug);
        assert!(serde_json::from_str::<Slug>("\"../etc\"").unwrap_err().to_string().contains("only a-z"));
    }

    fn schema_accepts(text: &str) -> bool {
        let schema = serde_json::to_value(schemars::schema_for!(Slug)).unwrap();
        jsonschema::validator_for(&schema).unwrap().is_valid(&serde_json::Value::from(text))
    }

    #[test]
    fn the_schema_refuses_the_ids_of_ideas_and_drafts() {
        assert!(schema_accepts("idea-box"));
        assert!(!schema_accepts(&format!("idea-{UUID}")));
        assert!(!schema_accepts(&format!("draft-{}", UUID.replace('-', ""))));
    }

    proptest! {
        #[test]
        fn a_slug_reads_back_as_itself(text in "[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?") {
            prop_assume!(text != RESERVED_WORD);
            let slug: Slug = text.parse().unwrap();
            prop_assert_eq!(slug.as_str(), &text);
            prop_assert_eq!(slug.to_string(), text);
        }

        #[test]
        fn parser_and_schema_agree(text in "[a-z0-9A-Zä./-]{0,6}|[a-z-]{78,83}|\\PC{0,8}") {
            prop_assert_eq!(Slug::parse(&text).is_ok(), schema_accepts(&text));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = Slug::parse(&text).map_err(|error| (error.to_string(), error.sentence_de()));
        }
    }
}
