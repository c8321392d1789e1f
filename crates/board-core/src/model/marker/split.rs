//! The reply of a split: the children that an intent is divided into, all or none.
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    KEY_ITERATIONS, KEY_JOB, KEY_PROFILE, KEY_REASON, KEY_SLUG, ReplyRules,
    block::{Block, BlockKind, only, with_line_feeds},
    bound_to,
    draft::ProfileRequest,
    error::{HeaderProblem, MarkerError, Measure, Part},
    header::Header,
    print_proposal, slug,
};
use crate::model::slug::{Slug, excerpt};

/// Most children of one split.
pub const MAX_CHILDREN: usize = 12;

const KEY_KIND: &str = "art";
const KEYS: [&str; 5] = [KEY_SLUG, KEY_KIND, KEY_PROFILE, KEY_REASON, KEY_ITERATIONS];

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChildKind {
    /// An order to build.
    #[serde(rename = "intent")]
    Intent,
    /// A question to research.
    #[serde(rename = "recherche")]
    Research,
}

impl ChildKind {
    const WORDS: [&str; 2] = ["intent", "recherche"];

    /// The word of the header line, which is also the name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Research => "recherche",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        [Self::Intent, Self::Research].into_iter().find(|kind| kind.word() == word)
    }
}

/// A child that a split proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedChild {
    /// The name of the card to be.
    pub slug: Slug,
    /// Intent or research question.
    pub kind: ChildKind,
    /// The profile it asks for; never with a research question.
    #[serde(default)]
    pub profile: Option<ProfileRequest>,
    /// The iteration limit it asks for; never with a research question.
    #[serde(default)]
    pub iterations: Option<u32>,
    /// The whole document, with one line feed at its end.
    pub body: String,
}

/// Reads the reply of the split `job`: 1 to [`MAX_CHILDREN`] children with slugs of their own.
///
/// # Errors
/// [`MarkerError`] unless the text has exactly one well-formed split of this job and no other block; one bad
/// child refuses them all.
pub fn parse(text: &str, job: &Uuid, rules: &ReplyRules<'_>) -> Result<Vec<ProposedChild>, MarkerError> {
    let text = with_line_feeds(text);
    let block = only(&text, &[BlockKind::Split])?;
    let mut outside = block.outside.iter();
    if let Some(head) = outside.next() {
        let header = Header::alone(*head, block.line, &[KEY_JOB])?;
        bound_to(&header, KEY_JOB, &job.to_string())?;
    }
    if let Some(stray) = outside.find(|passage| !passage.text.trim().is_empty()) {
        let blank_lines = stray.text.lines().take_while(|line| line.trim().is_empty()).count();
        return Err(MarkerError::BadHeader {
            key: None,
            line: stray.line + blank_lines,
            problem: HeaderProblem::TextBetweenChildren,
        });
    }
    if block.children.is_empty() {
        return Err(MarkerError::Empty { part: Part::Children, line: block.line });
    }
    Measure::Children.check(block.children.len(), block.line)?;
    let mut taken = BTreeSet::new();
    let mut children = Vec::with_capacity(block.children.len());
    for block in &block.children {
        let child = child(block, &mut taken, rules)?;
        children.push(child);
    }
    Ok(children)
}

fn child(
    block: &Block<'_>,
    taken: &mut BTreeSet<Slug>,
    rules: &ReplyRules<'_>,
) -> Result<ProposedChild, MarkerError> {
    let (header, body) = Header::with_body(block, &KEYS)?;
    let slug = slug(&header)?;
    if !taken.insert(slug.clone()) {
        return Err(header.require(KEY_SLUG)?.bad(HeaderProblem::SlugTwice));
    }
    let kind = match header.get(KEY_KIND) {
        None => ChildKind::Intent,
        Some(entry) => ChildKind::of_word(entry.value).ok_or_else(|| {
            entry
                .bad(HeaderProblem::UnknownChoice { value: excerpt(entry.value), allowed: &ChildKind::WORDS })
        })?,
    };
    if kind == ChildKind::Research
        && let Some(entry) =
            [KEY_PROFILE, KEY_REASON, KEY_ITERATIONS].into_iter().find_map(|key| header.get(key))
    {
        return Err(entry.bad(HeaderProblem::NotForResearch));
    }
    Ok(ProposedChild {
        slug,
        kind,
        profile: rules.profile(&header)?,
        iterations: rules.iterations(&header)?,
        body: body.document()?,
    })
}

/// The block that [`parse`] reads back for the same job.
#[must_use]
pub fn to_block(job: &Uuid, children: &[ProposedChild]) -> String {
    let children: String = children.iter().map(ProposedChild::to_block).collect();
    BlockKind::Split.wrap(&format!("{KEY_JOB}: {job}\n{children}"))
}

impl ProposedChild {
    /// The part of a split that is this child.
    #[must_use]
    pub fn to_block(&self) -> String {
        let header = print_proposal(&self.slug, self.profile.as_ref(), self.iterations);
        let kind = self.kind.word();
        BlockKind::Child.wrap(&format!("{header}{KEY_KIND}: {kind}\n---\n{}", self.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Uuid = Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0001);

    fn read(text: &str) -> Result<Vec<ProposedChild>, MarkerError> {
        let profiles = ["stark".to_owned()];
        parse(text, &JOB, &ReplyRules { profiles: &profiles, iteration_cap: 20 })
    }

    fn child(header: &str) -> String {
        format!("===CHILD===\n{header}\n---\n# A\n===END-CHILD===\n")
    }

    fn split(children: &str) -> String {
        format!("===SPLIT===\njob: {JOB}\n{children}===END-SPLIT===\n")
    }

    fn bad(
        key: Option<&str>,
        line: usize,
        problem: HeaderProblem,
    ) -> Result<Vec<ProposedChild>, MarkerError> {
        Err(MarkerError::BadHeader { key: key.map(ToOwned::to_owned), line, problem })
    }

    #[test]
    fn children_of_both_kinds_are_read_in_order() {
        let text = split(
            &[
                child("slug: b\nart: intent\nprofil: stark\nbegruendung: c\niterationen: 5"),
                "\n".to_owned(),
                child("slug: a\nart: recherche"),
                child("slug: c"),
            ]
            .concat(),
        );
        let children = read(&text).unwrap();
        let found: Vec<_> = children.iter().map(|child| (child.slug.as_str(), child.kind)).collect();
        let expected = [("b", ChildKind::Intent), ("a", ChildKind::Research), ("c", ChildKind::Intent)];
        assert_eq!(found, expected);
        assert_eq!(children[0].iterations, Some(5));
        assert_eq!(children[0].profile.as_ref().map(|profile| profile.profile.as_str()), Some("stark"));
    }

    #[test]
    fn twelve_children_are_a_split_and_none_or_thirteen_are_not() {
        let children =
            |count| (0..count).map(|number| child(&format!("slug: a-{number}"))).collect::<String>();
        assert_eq!(read(&split(&children(MAX_CHILDREN))).unwrap().len(), MAX_CHILDREN);
        let error = MarkerError::TooLarge { measure: Measure::Children, line: 1 };
        assert_eq!(read(&split(&children(MAX_CHILDREN + 1))), Err(error));
        let error = MarkerError::Empty { part: Part::Children, line: 1 };
        assert_eq!(read(&split("")), Err(error));
    }

    #[test]
    fn each_bad_split_has_its_error() {
        use HeaderProblem as P;
        let good = child("slug: a");
        let choice = P::UnknownChoice { value: "idee".to_owned(), allowed: &["intent", "recherche"] };
        let table = [
            (split(&format!("{good}{}", child("slug: a"))), Some("slug"), 9, P::SlugTwice),
            (split(&child("slug: a\nart: idee")), Some("art"), 5, choice),
            (
                split(&child("slug: a\nart: recherche\niterationen: 3")),
                Some("iterationen"),
                6,
                P::NotForResearch,
            ),
            (
                split(&child("slug: a\nart: recherche\nprofil: stark\nbegruendung: b")),
                Some("profil"),
                6,
                P::NotForResearch,
            ),
            (split(&child("slug: a\nparent: b")), Some("parent"), 5, P::UnknownKey),
            (split(&child("art: intent")), Some("slug"), 3, P::MissingKey),
            (split(&format!("{good}\nDann:\n{}", child("slug: b"))), None, 9, P::TextBetweenChildren),
            (split(&format!("{good}Ende.\n")), None, 8, P::TextBetweenChildren),
            (split(&format!("---\n{good}")), None, 3, P::NotAPair),
            (split(&format!("Die Kinder\n{good}")), None, 3, P::NotAPair),
            (split(&format!("slug: b\n{good}")), Some("slug"), 3, P::UnknownKey),
            (format!("===SPLIT===\n{good}===END-SPLIT===\n"), Some("job"), 1, P::MissingKey),
        ];
        for (text, key, line, problem) in table {
            assert_eq!(read(&text), bad(key, line, problem), "{text}");
        }
    }

    #[test]
    fn a_split_of_another_job_does_not_count() {
        let text = split(&child("slug: a"));
        let simple = JOB.simple().to_string();
        for other in [Uuid::nil().to_string(), JOB.to_string().to_uppercase(), simple, "x".to_owned()] {
            let text = text.replace(&JOB.to_string(), &other);
            assert!(
                matches!(
                    read(&text),
                    Err(MarkerError::BadHeader { problem: HeaderProblem::Mismatch { .. }, .. })
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn children_outside_of_a_split_are_no_reply() {
        let stray = format!("{}{}", child("slug: a"), split(&child("slug: b")));
        assert!(matches!(read(&stray), Err(MarkerError::Conflicting { found: BlockKind::Child, .. })));
    }

    #[test]
    fn json_names_the_kind_as_the_header_does() {
        for kind in [ChildKind::Intent, ChildKind::Research] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
            assert!(ChildKind::WORDS.contains(&kind.word()));
        }
    }
}
