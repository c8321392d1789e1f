//! What stands between the markers of a block: a header of `key: value` lines, a line `---`, a document.
//!
//! Apart from the scanner because it knows keys and no markers, and from the kinds of reply because they share
//! it: a key that is unknown, doubled or empty is refused in the same words everywhere.
use super::{
    block::{BLANKS, Block, Passage},
    error::{HeaderProblem, MarkerError, Part},
};
use crate::model::slug::excerpt;

/// The line that ends a header.
const HEADER_END: &str = "---";

/// The `key: value` lines of a block.
#[derive(Debug)]
pub(super) struct Header<'a> {
    entries: Vec<Entry<'a>>,
    /// The line of the block, for a key that is not there.
    line: usize,
}

/// One line of a header.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) line: usize,
}

impl<'a> Header<'a> {
    /// Reads a header and the passage after its `---`.
    pub(super) fn with_body(block: &Block<'a>, allowed: &[&str]) -> Result<(Self, Passage<'a>), MarkerError> {
        let content = Passage { text: block.content, line: block.line + 1 };
        match Self::read(content, block.line, allowed)? {
            (header, Some(body)) => Ok((header, body)),
            (_, None) => {
                Err(MarkerError::BadHeader { key: None, line: block.line, problem: HeaderProblem::NoEnd })
            }
        }
    }

    /// Reads a passage that is a header and nothing else.
    pub(super) fn alone(passage: Passage<'a>, line: usize, allowed: &[&str]) -> Result<Self, MarkerError> {
        match Self::read(passage, line, allowed)? {
            (header, None) => Ok(header),
            (_, Some(body)) => Err(MarkerError::BadHeader {
                key: None,
                line: body.line.saturating_sub(1),
                problem: HeaderProblem::NotAPair,
            }),
        }
    }

    fn read(
        passage: Passage<'a>,
        block_line: usize,
        allowed: &[&str],
    ) -> Result<(Self, Option<Passage<'a>>), MarkerError> {
        let mut header = Self { entries: Vec::new(), line: block_line };
        let mut line = passage.line;
        let mut rest = passage.text;
        while !rest.is_empty() {
            let (content, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let content = content.trim_end_matches(BLANKS);
            if content == HEADER_END {
                return Ok((header, Some(Passage { text: after, line: line + 1 })));
            }
            if !content.is_empty() {
                header.add(content, line, allowed)?;
            }
            rest = after;
            line += 1;
        }
        Ok((header, None))
    }

    fn add(&mut self, content: &'a str, line: usize, allowed: &[&str]) -> Result<(), MarkerError> {
        let (key, value) = content.split_once(':').ok_or(MarkerError::BadHeader {
            key: None,
            line,
            problem: HeaderProblem::NotAPair,
        })?;
        let entry = Entry { key, value: value.trim_matches(BLANKS), line };
        if !allowed.contains(&key) {
            return Err(entry.bad(HeaderProblem::UnknownKey));
        }
        if self.get(key).is_some() {
            return Err(entry.bad(HeaderProblem::Repeated));
        }
        if is_blank(entry.value) {
            return Err(entry.bad(HeaderProblem::NoValue));
        }
        self.entries.push(entry);
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn require(&self, key: &str) -> Result<&Entry<'a>, MarkerError> {
        self.get(key).ok_or_else(|| MarkerError::BadHeader {
            key: Some(key.to_owned()),
            line: self.line,
            problem: HeaderProblem::MissingKey,
        })
    }
}

impl Entry<'_> {
    /// The error that this line is bad.
    pub(super) fn bad(&self, problem: HeaderProblem) -> MarkerError {
        MarkerError::BadHeader { key: Some(excerpt(self.key)), line: self.line, problem }
    }
}

impl Passage<'_> {
    /// The passage as the text of a document: no blank lines around it, one line feed at its end.
    pub(super) fn document(self) -> Result<String, MarkerError> {
        if is_blank(self.text) {
            return Err(MarkerError::Empty { part: Part::Body, line: self.line });
        }
        let (text, skipped) = without_blank_lines(self.text);
        let first = text.lines().next().unwrap_or_default();
        // A byte order mark hides the "---" from us but not from a reader of the file that skips the mark.
        if first.trim_start_matches('\u{feff}').trim_end() == HEADER_END {
            return Err(MarkerError::BadHeader {
                key: None,
                line: self.line + skipped,
                problem: HeaderProblem::FrontMatter,
            });
        }
        Ok(format!("{text}\n"))
    }
}

/// The text without the blanks and line feeds at its end. Not `str::trim_end`: without a no-break space behind
/// it, a line that was text would become a marker or the end of a fence.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches([' ', '\t', '\n'])
}

/// The text without blank lines around it, and how many were skipped before it.
pub(super) fn without_blank_lines(text: &str) -> (&str, usize) {
    let mut rest = text;
    let mut skipped = 0;
    while let Some((_, after)) = rest.split_once('\n').filter(|(line, _)| line.trim().is_empty()) {
        rest = after;
        skipped += 1;
    }
    (trim_end(rest), skipped)
}

/// Whether a reader would see nothing: white space, control and zero-width characters only.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|character| {
        character.is_whitespace()
            || character.is_control()
            || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_its_text_and_loses_the_blank_lines_around_it() {
        let document = |text| Passage { text, line: 7 }.document();
        assert_eq!(document("\n \n  # A\n\nb \n\n"), Ok("  # A\n\nb\n".to_owned()));
        assert_eq!(document("a\n---\nb"), Ok("a\n---\nb\n".to_owned()));
        for blank in ["", "\n", " \t\n\n", "\u{a0}", "\u{200b}\n\u{feff}", "\0"] {
            assert_eq!(document(blank), Err(MarkerError::Empty { part: Part::Body, line: 7 }), "{blank:?}");
        }
        for matter in ["---", "---\na: b\n---\n# A", "--- \t\n", "\n\n---\n", "\u{feff}---\n", "\u{a0}\n---"]
        {
            assert!(
                matches!(
                    document(matter),
                    Err(MarkerError::BadHeader { problem: HeaderProblem::FrontMatter, .. })
                ),
                "{matter:?}"
            );
        }
    }
}
