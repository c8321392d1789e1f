//! The reply of a planner round: a question back, or the finished intent.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    KEY_ITERATIONS, KEY_PROFILE, KEY_REASON, KEY_SLUG, ReplyRules,
    block::{Block, BlockKind, only, with_line_feeds},
    error::{HeaderProblem, MarkerError, Measure, Part},
    header::{Header, is_blank, trim_end, without_blank_lines},
    print_proposal, slug,
};
use crate::model::slug::Slug;

/// Longest question, in characters, without its options.
pub const MAX_QUESTION: usize = 2_000;

/// Longest answer option, in characters.
pub const MAX_OPTION: usize = 120;

/// Most answer options of a question.
pub const MAX_OPTIONS: usize = 4;

const KEY_OPTIONS: &str = "optionen";
const NO_OPTIONS: &str = "keine";
const KEYS: [&str; 4] = [KEY_SLUG, KEY_PROFILE, KEY_REASON, KEY_ITERATIONS];

/// What a planner round ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftReply {
    /// The planner needs an answer.
    Question(Question),
    /// The planner is done.
    Intent(ProposedIntent),
}

/// A question to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question, Markdown, without blank lines around it.
    pub text: String,
    /// Up to four answers to choose from, each one line; they are buttons beside a free field.
    #[serde(default)]
    pub options: Vec<String>,
}

/// A profile that a planner asks for. It is shown to the operator, who takes it or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// The name of a configured profile.
    pub profile: String,
    /// Why this one, in one line.
    pub reason: String,
}

/// An intent that the planner proposes. Nothing in it is obeyed: the wrapper writes the file, the operator
/// takes profile and limit or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedIntent {
    /// The name of the card to be.
    pub slug: Slug,
    /// The profile it asks for.
    #[serde(default)]
    pub profile: Option<ProfileRequest>,
    /// The iteration limit it asks for.
    #[serde(default)]
    pub iterations: Option<u32>,
    /// The whole document, with one line feed at its end.
    pub body: String,
}

/// Reads the reply of a planner round.
///
/// # Errors
/// [`MarkerError`] unless the text has exactly one well-formed question or intent and no other block.
pub fn parse(text: &str, rules: &ReplyRules<'_>) -> Result<DraftReply, MarkerError> {
    let text = with_line_feeds(text);
    let block = only(&text, &[BlockKind::Question, BlockKind::Intent])?;
    if block.kind == BlockKind::Question {
        question(&block).map(DraftReply::Question)
    } else {
        intent(&block, rules).map(DraftReply::Intent)
    }
}

fn question(block: &Block<'_>) -> Result<Question, MarkerError> {
    let (content, skipped) = without_blank_lines(block.content);
    let first_line = block.line + 1 + skipped;
    let (before, last) = content.rsplit_once('\n').unwrap_or(("", content));
    let (text, options) = match last.strip_prefix(KEY_OPTIONS).and_then(|rest| rest.strip_prefix(':')) {
        // A fence is closed before the block ends, so the last line is never inside one.
        Some(value) => (trim_end(before), options(value, first_line + before.lines().count())?),
        None => (content, Vec::new()),
    };
    if is_blank(text) {
        return Err(MarkerError::Empty { part: Part::Question, line: block.line });
    }
    Measure::Question.check(text.chars().count(), first_line)?;
    Ok(Question { text: text.to_owned(), options })
}

fn options(value: &str, line: usize) -> Result<Vec<String>, MarkerError> {
    if value.trim() == NO_OPTIONS {
        return Ok(Vec::new());
    }
    let options: Vec<String> = value.split('|').map(|option| option.trim().to_owned()).collect();
    if options.iter().any(|option| is_blank(option)) {
        return Err(MarkerError::BadHeader {
            key: Some(KEY_OPTIONS.to_owned()),
            line,
            problem: HeaderProblem::EmptyOption,
        });
    }
    Measure::Options.check(options.len(), line)?;
    for option in &options {
        Measure::Option.check(option.chars().count(), line)?;
    }
    Ok(options)
}

fn intent(block: &Block<'_>, rules: &ReplyRules<'_>) -> Result<ProposedIntent, MarkerError> {
    let (header, body) = Header::with_body(block, &KEYS)?;
    Ok(ProposedIntent {
        slug: slug(&header)?,
        profile: rules.profile(&header)?,
        iterations: rules.iterations(&header)?,
        body: body.document()?,
    })
}

impl DraftReply {
    /// The block that [`parse`] reads back.
    #[must_use]
    pub fn to_block(&self) -> String {
        match self {
            Self::Question(question) => question.to_block(),
            Self::Intent(intent) => intent.to_block(),
        }
    }
}

impl Question {
    /// The block that [`parse`] reads back. The line of options is always there, so that a question whose
    /// last line looks like one keeps it.
    #[must_use]
    pub fn to_block(&self) -> String {
        let options = if self.options.is_empty() { NO_OPTIONS.to_owned() } else { self.options.join(" | ") };
        BlockKind::Question.wrap(&format!("{}\n{KEY_OPTIONS}: {options}", self.text))
    }
}

impl ProposedIntent {
    /// The block that [`parse`] reads back.
    #[must_use]
    pub fn to_block(&self) -> String {
        let header = print_proposal(&self.slug, self.profile.as_ref(), self.iterations);
        BlockKind::Intent.wrap(&format!("{header}---\n{}", self.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: u32 = 20;

    fn read(text: &str) -> Result<DraftReply, MarkerError> {
        let profiles = ["standard".to_owned(), "stark".to_owned()];
        parse(text, &ReplyRules { profiles: &profiles, iteration_cap: CAP })
    }

    fn read_question(content: &str) -> Result<Question, MarkerError> {
        match read(&format!("===DRAFT-QUESTION===\n{content}\n===END-DRAFT-QUESTION===\n"))? {
            DraftReply::Question(question) => Ok(question),
            DraftReply::Intent(intent) => panic!("{intent:?}"),
        }
    }

    fn read_intent(header: &str) -> Result<ProposedIntent, MarkerError> {
        match read(&format!("===DRAFT-INTENT===\n{header}\n---\n# Intent: A\n===END-DRAFT-INTENT===\n"))? {
            DraftReply::Intent(intent) => Ok(intent),
            DraftReply::Question(question) => panic!("{question:?}"),
        }
    }

    fn bad<T>(key: Option<&str>, line: usize, problem: HeaderProblem) -> Result<T, MarkerError> {
        Err(MarkerError::BadHeader { key: key.map(ToOwned::to_owned), line, problem })
    }

    #[test]
    fn the_examples_of_the_contract_are_read() {
        let question = read_question(
            "Wie viele Karten soll die Liste zeigen?\noptionen: 10 | 25 | alle | keine Begrenzung",
        )
        .unwrap();
        assert_eq!(question.text, "Wie viele Karten soll die Liste zeigen?");
        assert_eq!(question.options, ["10", "25", "alle", "keine Begrenzung"]);

        let intent = read_intent(
            "slug: board-kartenlimit\nprofil: stark\nbegruendung: greift in das Zustandsmodell ein\niterationen: 15",
        )
        .unwrap();
        assert_eq!(intent.slug.as_str(), "board-kartenlimit");
        let profile = ProfileRequest {
            profile: "stark".to_owned(),
            reason: "greift in das Zustandsmodell ein".to_owned(),
        };
        assert_eq!(intent.profile, Some(profile));
        assert_eq!(intent.iterations, Some(15));
        assert_eq!(intent.body, "# Intent: A\n");
    }

    #[test]
    fn a_question_without_options_has_none() {
        for content in ["Warum?", "Warum?\noptionen: keine", "\n\nWarum?\n\noptionen:keine \n\n"] {
            let question = Question { text: "Warum?".to_owned(), options: Vec::new() };
            assert_eq!(read_question(content), Ok(question), "{content:?}");
        }
    }

    #[test]
    fn options_are_only_the_last_line() {
        let question = read_question("optionen: a | b\nWelche davon?").unwrap();
        assert_eq!(question.text, "optionen: a | b\nWelche davon?");
        assert!(question.options.is_empty());
        assert!(read_question("Warum?\n optionen: a | b").unwrap().options.is_empty());
    }

    #[test]
    fn an_empty_question_is_refused() {
        for content in ["", " \n\t\n", "optionen: a | b", "\n\noptionen: keine", "\u{200b}\noptionen: a"] {
            let error = MarkerError::Empty { part: Part::Question, line: 1 };
            assert_eq!(read_question(content), Err(error), "{content:?}");
        }
    }

    #[test]
    fn an_empty_option_is_refused() {
        for options in ["", " ", "a ||b", "| a", "a |", "a | \u{200b}"] {
            let error = bad(Some("optionen"), 4, HeaderProblem::EmptyOption);
            assert_eq!(read_question(&format!("\nWarum?\noptionen:{options}")), error, "{options:?}");
        }
    }

    #[test]
    fn a_question_keeps_its_limits() {
        let too_large = |measure, line| Err(MarkerError::TooLarge { measure, line });
        let text = "ü".repeat(MAX_QUESTION);
        assert_eq!(read_question(&format!("{text}\noptionen: a")).unwrap().text, text);
        assert_eq!(read_question(&format!("{text}ü\noptionen: a")), too_large(Measure::Question, 2));
        let option = "ü".repeat(MAX_OPTION);
        assert_eq!(
            read_question(&format!("a\noptionen: {option}")).unwrap().options,
            std::slice::from_ref(&option)
        );
        assert_eq!(read_question(&format!("a\noptionen: {option}ü")), too_large(Measure::Option, 3));
        assert_eq!(read_question("a\noptionen: 1 | 2 | 3 | 4").unwrap().options.len(), MAX_OPTIONS);
        assert_eq!(read_question("a\noptionen: 1 | 2 | 3 | 4 | 5"), too_large(Measure::Options, 3));
    }

    #[test]
    fn each_bad_header_has_its_error() {
        use HeaderProblem as P;
        let range = |value: &str| P::OutOfRange { value: value.to_owned(), cap: CAP };
        let unknown = P::UnknownProfile { value: "gratis".to_owned(), known: "standard, stark".to_owned() };
        let table = [
            ("profil: stark\nbegruendung: a", Some("slug"), 1, P::MissingKey),
            ("slug: a\nphase: deployed", Some("phase"), 3, P::UnknownKey),
            ("slug: a\nSlug: b", Some("Slug"), 3, P::UnknownKey),
            ("slug: a\n iterationen: 3", Some(" iterationen"), 3, P::UnknownKey),
            ("slug: a\nmodel\u{200b}: b", Some("model\\u{200b}"), 3, P::UnknownKey),
            ("slug: a\nslug: a", Some("slug"), 3, P::Repeated),
            ("slug: a\nnur Text", None, 3, P::NotAPair),
            ("slug:", Some("slug"), 2, P::NoValue),
            ("slug: a\nprofil: stark\nbegruendung: \u{a0}", Some("begruendung"), 4, P::NoValue),
            ("slug: ../a", Some("slug"), 2, P::Slug(Slug::parse("../a").unwrap_err())),
            ("slug: a\nprofil: gratis\nbegruendung: b", Some("profil"), 3, unknown),
            ("slug: a\nprofil: stark", Some("profil"), 3, P::MissingReason),
            ("slug: a\nbegruendung: b", Some("begruendung"), 3, P::ReasonWithoutProfile),
            ("slug: a\niterationen: 0", Some("iterationen"), 3, range("0")),
            ("slug: a\niterationen: 21", Some("iterationen"), 3, range("21")),
            ("slug: a\niterationen: +5", Some("iterationen"), 3, range("+5")),
            ("slug: a\niterationen: 1.5", Some("iterationen"), 3, range("1.5")),
            ("slug: a\niterationen: viele", Some("iterationen"), 3, range("viele")),
            ("slug: a\niterationen: 99999999999", Some("iterationen"), 3, range("99999999999")),
            ("slug: a\n---\n---\na: b", None, 4, P::FrontMatter),
        ];
        for (header, key, line, problem) in table {
            assert_eq!(read_intent(header), bad(key, line, problem), "{header}");
        }
    }

    #[test]
    fn an_iteration_limit_may_be_one_or_the_cap() {
        for limit in [1, CAP] {
            assert_eq!(
                read_intent(&format!("slug: a\niterationen: {limit}")).unwrap().iterations,
                Some(limit)
            );
        }
    }

    #[test]
    fn a_reason_keeps_its_limit() {
        let header = |length| format!("slug: a\nprofil: stark\nbegruendung: {}", "ü".repeat(length));
        assert!(read_intent(&header(crate::model::marker::MAX_REASON)).is_ok());
        let error = MarkerError::TooLarge { measure: Measure::Reason, line: 4 };
        assert_eq!(read_intent(&header(crate::model::marker::MAX_REASON + 1)), Err(error));
    }

    #[test]
    fn a_header_without_end_and_a_body_without_text_are_refused() {
        let read = |content: &str| read(&format!("===DRAFT-INTENT===\n{content}===END-DRAFT-INTENT===\n"));
        assert_eq!(read("slug: a\n"), bad(None, 1, HeaderProblem::NoEnd));
        assert_eq!(read(""), bad(None, 1, HeaderProblem::NoEnd));
        assert_eq!(read("slug: a\n---\n\n"), Err(MarkerError::Empty { part: Part::Body, line: 4 }));
    }

    #[test]
    fn a_question_and_an_intent_in_one_reply_conflict() {
        let question = Question { text: "Warum?".to_owned(), options: Vec::new() }.to_block();
        let intent = read_intent("slug: a").unwrap().to_block();
        let expected = &[BlockKind::Question, BlockKind::Intent];
        assert_eq!(
            read(&format!("{question}{intent}")),
            Err(MarkerError::Conflicting { expected, found: BlockKind::Intent, line: 5 })
        );
        let review = "===REVIEW-REPORT===\n===END-REVIEW-REPORT===\n";
        for text in [format!("{review}{intent}"), format!("{intent}{review}"), review.to_owned()] {
            assert!(
                matches!(read(&text), Err(MarkerError::Conflicting { found: BlockKind::Review, .. })),
                "{text}"
            );
        }
        assert!(matches!(read(&intent.repeat(2)), Err(MarkerError::Duplicate { .. })));
    }

    #[test]
    fn json_of_a_proposal_refuses_what_it_does_not_know() {
        let json = r##"{"slug":"a","profile":null,"iterations":3,"body":"# A\n"}"##;
        let intent: ProposedIntent = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&intent).unwrap(), json);
        assert!(serde_json::from_str::<ProposedIntent>(r#"{"slug":"a","body":"b"}"#).is_ok());
        assert!(serde_json::from_str::<ProposedIntent>(&json.replace("iterations", "phase")).is_err());
        assert!(serde_json::from_str::<ProposedIntent>(&json.replace(r#""a""#, r#""../a""#)).is_err());
        assert!(serde_json::from_str::<Question>(r#"{"text":"a","options":[],"phase":"deployed"}"#).is_err());
    }
}
