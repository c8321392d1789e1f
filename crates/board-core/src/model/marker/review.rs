//! The reply of a review: a decision and a report, bound to the commit that was reviewed.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    block::{BlockKind, only, with_line_feeds},
    bound_to,
    error::{HeaderProblem, MarkerError},
    header::Header,
};
use crate::model::slug::excerpt;

const KEY_COMMIT: &str = "commit";
const KEY_DECISION: &str = "entscheidung";

/// What a review decides. It is the only thing in an agent's text that moves a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Decision {
    /// Ready to be deployed by the operator.
    #[serde(rename = "bereit")]
    Ready,
    /// Back to planning.
    #[serde(rename = "zurueck")]
    Back,
}

impl Decision {
    const WORDS: [&str; 2] = ["bereit", "zurueck"];

    /// The word of the header line, which is also the name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "bereit",
            Self::Back => "zurueck",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        [Self::Ready, Self::Back].into_iter().find(|decision| decision.word() == word)
    }
}

/// The answer of a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewReply {
    /// Ready or back.
    pub decision: Decision,
    /// The report, Markdown, with one line feed at its end.
    pub report: String,
}

/// Reads the reply of the review of `commit` (the full hash).
///
/// # Errors
/// [`MarkerError`] unless the text has exactly one well-formed review of this commit and no other block.
pub fn parse(text: &str, commit: &str) -> Result<ReviewReply, MarkerError> {
    let text = with_line_feeds(text);
    let block = only(&text, &[BlockKind::Review])?;
    let (header, body) = Header::with_body(&block, &[KEY_COMMIT, KEY_DECISION])?;
    bound_to(&header, KEY_COMMIT, commit)?;
    let entry = header.require(KEY_DECISION)?;
    let decision = Decision::of_word(entry.value).ok_or_else(|| {
        entry.bad(HeaderProblem::UnknownChoice { value: excerpt(entry.value), allowed: &Decision::WORDS })
    })?;
    Ok(ReviewReply { decision, report: body.document()? })
}

impl ReviewReply {
    /// The block that [`parse`] reads back for the same commit.
    #[must_use]
    pub fn to_block(&self, commit: &str) -> String {
        let decision = self.decision.word();
        BlockKind::Review
            .wrap(&format!("{KEY_COMMIT}: {commit}\n{KEY_DECISION}: {decision}\n---\n{}", self.report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "4f0c2a9d1b7e3f5a6c8d0e2f4a6b8c0d1e3f5a7b";

    fn review(header: &str) -> String {
        format!("===REVIEW-REPORT===\n{header}\n---\n# Review\n===END-REVIEW-REPORT===\n")
    }

    #[test]
    fn both_decisions_are_read() {
        for decision in [Decision::Ready, Decision::Back] {
            let text = review(&format!("commit: {COMMIT}\nentscheidung: {}", decision.word()));
            let reply = ReviewReply { decision, report: "# Review\n".to_owned() };
            assert_eq!(parse(&text, COMMIT), Ok(reply));
        }
    }

    #[test]
    fn a_review_of_anything_but_this_commit_does_not_count() {
        for other in [
            "0000000000000000000000000000000000000000",
            &COMMIT[..12],
            &COMMIT.to_uppercase(),
            &format!("{COMMIT}0"),
            "HEAD",
        ] {
            let error =
                parse(&review(&format!("commit: {other}\nentscheidung: bereit")), COMMIT).unwrap_err();
            assert!(
                matches!(error, MarkerError::BadHeader { problem: HeaderProblem::Mismatch { .. }, .. }),
                "{other}: {error}"
            );
        }
    }

    #[test]
    fn the_right_commit_in_the_wrong_place_does_not_count() {
        let missing = |key: &str| {
            Err(MarkerError::BadHeader {
                key: Some(key.to_owned()),
                line: 1,
                problem: HeaderProblem::MissingKey,
            })
        };
        let in_body = review(&format!("entscheidung: bereit\n---\ncommit: {COMMIT}"));
        assert_eq!(parse(&in_body, COMMIT), missing("commit"));
        let before = format!("commit: {COMMIT}\n{}", review("entscheidung: bereit"));
        let error = parse(&before, COMMIT).unwrap_err();
        assert!(error.sentence_en().contains("commit: this header line is missing"), "{error}");
        let decision_in_body = review(&format!("commit: {COMMIT}\n---\nentscheidung: bereit"));
        assert_eq!(parse(&decision_in_body, COMMIT), missing("entscheidung"));
    }

    #[test]
    fn a_decision_is_one_of_two_words() {
        for word in ["deployed", "Bereit", "bereit.", "bereit oder zurueck", "zurück"] {
            let error =
                parse(&review(&format!("commit: {COMMIT}\nentscheidung: {word}")), COMMIT).unwrap_err();
            assert!(
                matches!(error, MarkerError::BadHeader { problem: HeaderProblem::UnknownChoice { .. }, .. }),
                "{word}: {error}"
            );
        }
        let twice = review(&format!("commit: {COMMIT}\nentscheidung: zurueck\nentscheidung: bereit"));
        assert!(matches!(
            parse(&twice, COMMIT),
            Err(MarkerError::BadHeader { problem: HeaderProblem::Repeated, line: 4, .. })
        ));
    }

    #[test]
    fn json_names_the_decision_as_the_header_does() {
        for decision in [Decision::Ready, Decision::Back] {
            assert_eq!(serde_json::to_value(decision).unwrap(), decision.word());
            assert!(Decision::WORDS.contains(&decision.word()));
        }
    }
}
