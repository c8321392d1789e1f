//! Why a reply was refused, as values that say it in English and in German.
//!
//! Apart from the parsers because the sentences are longer than the rules. Both languages of a sentence stand
//! side by side, so that neither can be forgotten: English goes to logs, German to the card.
use thiserror::Error;

use super::{
    MAX_REASON,
    block::{BlockKind, MAX_BLOCK},
    draft::{MAX_OPTION, MAX_OPTIONS, MAX_QUESTION},
    split::MAX_CHILDREN,
};
use crate::model::slug::SlugError;

/// Why a reply was refused. Lines count from 1 at the beginning of the reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.sentence_en())]
pub enum MarkerError {
    /// There is no block at all.
    Missing {
        /// The kinds of which one was expected.
        expected: &'static [BlockKind],
        /// The line of a fence that is never closed, which may have hidden the block.
        fence: Option<usize>,
    },
    /// Two blocks of the expected kind.
    Duplicate {
        /// That kind.
        kind: BlockKind,
        /// The line of the second one.
        line: usize,
    },
    /// A block of another kind, besides the expected one or in its place.
    Conflicting {
        /// The kinds of which one was expected.
        expected: &'static [BlockKind],
        /// The one that is too much.
        found: BlockKind,
        /// Its line.
        line: usize,
    },
    /// A block without an end.
    Unclosed {
        /// Its kind.
        kind: BlockKind,
        /// The line where it begins.
        line: usize,
        /// The line of a fence that is never closed, which may have hidden the end.
        fence: Option<usize>,
    },
    /// An end without a block that it could close.
    Unopened {
        /// Its kind.
        kind: BlockKind,
        /// Its line.
        line: usize,
    },
    /// A block that begins inside another one where none may.
    Nested {
        /// The kind of the block that is open.
        outer: BlockKind,
        /// The kind of the one that begins.
        inner: BlockKind,
        /// The line where that one begins.
        line: usize,
    },
    /// A header, or what stands where a header or a body should begin, breaks a rule.
    BadHeader {
        /// The header key, cut and escaped; none if the trouble is not with one key.
        key: Option<String>,
        /// The line.
        line: usize,
        /// What is wrong there.
        problem: HeaderProblem,
    },
    /// More than a limit allows.
    TooLarge {
        /// What is too much.
        measure: Measure,
        /// The line where it stands or begins.
        line: usize,
    },
    /// Nothing where something is required.
    Empty {
        /// What has no content.
        part: Part,
        /// The line where it should be.
        line: usize,
    },
}

/// What is wrong with a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderProblem {
    /// A line that is not `key: value`.
    NotAPair,
    /// No line `---` before the end of the block.
    NoEnd,
    /// A key that this kind of block does not have.
    UnknownKey,
    /// A key that stands twice.
    Repeated,
    /// A required key that is not there.
    MissingKey,
    /// A key without a value.
    NoValue,
    /// A slug against the grammar.
    Slug(SlugError),
    /// A slug that an earlier child has.
    SlugTwice,
    /// A profile that is not configured.
    UnknownProfile {
        /// The name, cut and escaped.
        value: String,
        /// The configured ones, separated by commas.
        known: String,
    },
    /// `profil` without `begruendung`.
    MissingReason,
    /// `begruendung` without `profil`.
    ReasonWithoutProfile,
    /// An iteration limit that is no whole number from 1 to the cap.
    OutOfRange {
        /// The value, cut and escaped.
        value: String,
        /// The highest one allowed.
        cap: u32,
    },
    /// A key that a research question cannot have.
    NotForResearch,
    /// None of the allowed words.
    UnknownChoice {
        /// The value, cut and escaped.
        value: String,
        /// The allowed words.
        allowed: &'static [&'static str],
    },
    /// Bound to another commit or job than the one in hand.
    Mismatch {
        /// The value, cut and escaped.
        value: String,
        /// The one in hand.
        expected: String,
    },
    /// An answer option without text.
    EmptyOption,
    /// The body begins with `---`, which readers of the file would take for front matter.
    FrontMatter,
    /// Text in a split between or after its children.
    TextBetweenChildren,
}

/// What has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The bytes between the two marker lines, [`MAX_BLOCK`].
    Block,
    /// The characters of a question, [`MAX_QUESTION`].
    Question,
    /// The characters of one answer option, [`MAX_OPTION`].
    Option,
    /// The number of answer options, [`MAX_OPTIONS`].
    Options,
    /// The number of children of a split, [`MAX_CHILDREN`].
    Children,
    /// The characters of the reason for a profile, [`MAX_REASON`].
    Reason,
}

/// What may not be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The text of a question.
    Question,
    /// The body after a header.
    Body,
    /// The children of a split.
    Children,
}

/// One sentence in both languages.
struct Sentence {
    de: String,
    en: String,
}

impl MarkerError {
    /// What is wrong, in German, for the operator.
    #[must_use]
    pub fn sentence_de(&self) -> String {
        self.sentence().de
    }

    /// What is wrong, in English, for logs; the same as `Display`.
    #[must_use]
    pub fn sentence_en(&self) -> String {
        self.sentence().en
    }

    fn sentence(&self) -> Sentence {
        match self {
            Self::Missing { expected, fence } => Sentence {
                de: format!(
                    "Die Antwort enthält keinen Block {}{}",
                    names(expected, "oder"),
                    fence_de(*fence)
                ),
                en: format!("the reply has no block {}{}", names(expected, "or"), fence_en(*fence)),
            },
            Self::Duplicate { kind, line } => Sentence {
                de: format!(
                    "Der Block {kind} steht ein zweites Mal in Zeile {line}, erlaubt ist genau einer"
                ),
                en: format!("the block {kind} stands a second time in line {line}, exactly one is allowed"),
            },
            Self::Conflicting { expected, found, line } => Sentence {
                de: format!(
                    "Der Block {found} in Zeile {line} gehört nicht in diese Antwort, erwartet ist genau ein Block {}",
                    names(expected, "oder")
                ),
                en: format!(
                    "the block {found} in line {line} does not belong in this reply, exactly one block {} is expected",
                    names(expected, "or")
                ),
            },
            Self::Unclosed { kind, line, fence } => Sentence {
                de: format!("Der Block {kind} aus Zeile {line} hat kein Ende{}", fence_de(*fence)),
                en: format!("the block {kind} of line {line} has no end{}", fence_en(*fence)),
            },
            Self::Unopened { kind, line } => Sentence {
                de: format!("Das Ende von {kind} in Zeile {line} schließt keinen offenen Block"),
                en: format!("the end of {kind} in line {line} closes no open block"),
            },
            Self::Nested { outer, inner, line } => Sentence {
                de: format!("In Zeile {line} beginnt ein Block {inner} innerhalb von {outer}"),
                en: format!("in line {line} a block {inner} begins inside of {outer}"),
            },
            Self::BadHeader { key, line, problem } => {
                let Sentence { de, en } = problem.sentence();
                let key = key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
                Sentence {
                    de: format!("Zeile {line} der Antwort: {key}{de}"),
                    en: format!("line {line} of the reply: {key}{en}"),
                }
            }
            Self::TooLarge { measure, line } => {
                let Sentence { de, en } = measure.sentence();
                Sentence {
                    de: format!("Zeile {line} der Antwort: {de}"),
                    en: format!("line {line} of the reply: {en}"),
                }
            }
            Self::Empty { part, line } => {
                let (de, en) = match part {
                    Part::Question => ("Die Frage ist leer", "the question is empty"),
                    Part::Body => {
                        ("Der Text nach den Kopfzeilen ist leer", "the text after the header is empty")
                    }
                    Part::Children => ("Die Aufteilung enthält kein Kind", "the split has no child"),
                };
                Sentence {
                    de: format!("Zeile {line} der Antwort: {de}"),
                    en: format!("line {line} of the reply: {en}"),
                }
            }
        }
    }
}

impl HeaderProblem {
    fn sentence(&self) -> Sentence {
        let (de, en) = match self {
            Self::NotAPair => {
                ("keine Kopfzeile der Form „name: wert“", "not a header line of the form \"key: value\"")
            }
            Self::NoEnd => {
                ("nach den Kopfzeilen fehlt die Zeile „---“", "the line \"---\" after the header is missing")
            }
            Self::UnknownKey => ("diese Kopfzeile gibt es hier nicht", "there is no such header line here"),
            Self::Repeated => ("diese Kopfzeile steht doppelt", "this header line stands twice"),
            Self::MissingKey => ("diese Kopfzeile fehlt", "this header line is missing"),
            Self::NoValue => ("diese Kopfzeile hat keinen Wert", "this header line has no value"),
            Self::Slug(error) => return Sentence { de: error.sentence_de(), en: error.to_string() },
            Self::SlugTwice => {
                ("diesen Slug hat schon ein anderes Kind", "another child has this slug already")
            }
            Self::UnknownProfile { value, known } => {
                return Sentence {
                    de: format!("Das Profil „{value}“ ist nicht eingerichtet (vorhanden: {known})"),
                    en: format!("the profile \"{value}\" is not configured (there are: {known})"),
                };
            }
            Self::MissingReason => ("zu einem Profil gehört eine Begründung", "a profile needs a reason"),
            Self::ReasonWithoutProfile => ("eine Begründung ohne Profil", "a reason without a profile"),
            Self::OutOfRange { value, cap } => {
                return Sentence {
                    de: format!("„{value}“ ist keine ganze Zahl von 1 bis {cap}"),
                    en: format!("\"{value}\" is not a whole number from 1 to {cap}"),
                };
            }
            Self::NotForResearch => {
                ("das gibt es bei einer Recherche nicht", "a research question cannot have this")
            }
            Self::UnknownChoice { value, allowed } => {
                return Sentence {
                    de: format!("„{value}“ ist nicht erlaubt, möglich: {}", allowed.join(", ")),
                    en: format!("\"{value}\" is not allowed, possible: {}", allowed.join(", ")),
                };
            }
            Self::Mismatch { value, expected } => {
                return Sentence {
                    de: format!("Die Antwort nennt „{value}“, der Auftrag ist „{expected}“"),
                    en: format!("the reply names \"{value}\", the order is \"{expected}\""),
                };
            }
            Self::EmptyOption => ("eine Antwortmöglichkeit ist leer", "an answer option is empty"),
            Self::FrontMatter => {
                ("Der Text beginnt mit „---“ (Front Matter)", "the text begins with \"---\" (front matter)")
            }
            Self::TextBetweenChildren => {
                ("Text zwischen oder nach den Kindern", "text between or after the children")
            }
        };
        Sentence { de: de.to_owned(), en: en.to_owned() }
    }
}

impl Measure {
    /// The limit, in the unit of the measure.
    #[must_use]
    pub fn limit(self) -> usize {
        match self {
            Self::Block => MAX_BLOCK,
            Self::Question => MAX_QUESTION,
            Self::Option => MAX_OPTION,
            Self::Options => MAX_OPTIONS,
            Self::Children => MAX_CHILDREN,
            Self::Reason => MAX_REASON,
        }
    }

    pub(super) fn check(self, amount: usize, line: usize) -> Result<(), MarkerError> {
        if amount <= self.limit() { Ok(()) } else { Err(MarkerError::TooLarge { measure: self, line }) }
    }

    fn sentence(self) -> Sentence {
        let limit = self.limit();
        let (de, en) = match self {
            Self::Block => {
                let kib = limit / 1024;
                (format!("Der Block ist größer als {kib} KiB"), format!("the block is larger than {kib} KiB"))
            }
            Self::Question => (
                format!("Die Frage ist länger als {limit} Zeichen"),
                format!("the question is longer than {limit} characters"),
            ),
            Self::Option => (
                format!("Eine Antwortmöglichkeit ist länger als {limit} Zeichen"),
                format!("an answer option is longer than {limit} characters"),
            ),
            Self::Options => (
                format!("Es sind mehr als {limit} Antwortmöglichkeiten"),
                format!("there are more than {limit} answer options"),
            ),
            Self::Children => {
                (format!("Es sind mehr als {limit} Kinder"), format!("there are more than {limit} children"))
            }
            Self::Reason => (
                format!("Die Begründung ist länger als {limit} Zeichen"),
                format!("the reason is longer than {limit} characters"),
            ),
        };
        Sentence { de, en }
    }
}

fn names(kinds: &[BlockKind], or: &str) -> String {
    kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(&format!(" {or} "))
}

fn fence_de(line: Option<usize>) -> String {
    line.map(|line| format!("; der Codeblock aus Zeile {line} wird nie geschlossen")).unwrap_or_default()
}

fn fence_en(line: Option<usize>) -> String {
    line.map(|line| format!("; the code fence of line {line} is never closed")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_line_the_key_and_the_rule_in_both_languages() {
        let error = MarkerError::BadHeader {
            key: Some("iterationen".to_owned()),
            line: 4,
            problem: HeaderProblem::OutOfRange { value: "99".to_owned(), cap: 20 },
        };
        assert_eq!(
            error.sentence_de(),
            "Zeile 4 der Antwort: iterationen: „99“ ist keine ganze Zahl von 1 bis 20"
        );
        assert_eq!(
            error.to_string(),
            "line 4 of the reply: iterationen: \"99\" is not a whole number from 1 to 20"
        );
    }

    #[test]
    fn a_fence_that_hides_the_block_is_named() {
        let expected = &[BlockKind::Question, BlockKind::Intent];
        assert_eq!(
            MarkerError::Missing { expected, fence: Some(2) }.sentence_de(),
            "Die Antwort enthält keinen Block ===DRAFT-QUESTION=== oder ===DRAFT-INTENT===; \
             der Codeblock aus Zeile 2 wird nie geschlossen"
        );
        assert_eq!(
            MarkerError::Unclosed { kind: BlockKind::Split, line: 1, fence: None }.to_string(),
            "the block ===SPLIT=== of line 1 has no end"
        );
    }
}
