//! The scanner: where the blocks of a reply are.
//!
//! Apart from the kinds of reply because all of them must agree on what a marker is. A marker is a line of its
//! own, exact, from its first column, with nothing but blanks behind it. Inside a sentence, quoted, indented,
//! in a CommonMark fence, or with an invisible or look-alike character it is text. Fences are followed from
//! the first line of the reply and through the bodies, so that a document may show a block without being cut
//! there. The scanner sees the lines that CommonMark sees: LF, CRLF and CR end one.
use std::{borrow::Cow, fmt};

use super::error::{MarkerError, Measure};

/// Largest block, in bytes between its two marker lines (after line ends became LF).
pub const MAX_BLOCK: usize = 256 * 1024;

/// Deepest indent of a fence, in spaces; one more makes it an indented code block.
const MAX_FENCE_INDENT: usize = 3;

/// Shortest fence, in characters.
const MIN_FENCE: usize = 3;

/// What may stand behind a marker, a fence or a header line and is no part of it.
pub(super) const BLANKS: [char; 2] = [' ', '\t'];

/// The kinds of block. `Display` is the opening marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// A question of the planner.
    Question,
    /// An intent that the planner proposes.
    Intent,
    /// The children that an intent is split into.
    Split,
    /// One of these children; only inside of [`BlockKind::Split`].
    Child,
    /// A review.
    Review,
    /// The report of a research.
    Research,
}

impl BlockKind {
    const ALL: [Self; 6] =
        [Self::Question, Self::Intent, Self::Split, Self::Child, Self::Review, Self::Research];

    /// The name between the equals signs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "DRAFT-QUESTION",
            Self::Intent => "DRAFT-INTENT",
            Self::Split => "SPLIT",
            Self::Child => "CHILD",
            Self::Review => "REVIEW-REPORT",
            Self::Research => "RESEARCH-REPORT",
        }
    }

    /// A whole block around `content`, each marker on its line.
    pub(super) fn wrap(self, content: &str) -> String {
        let name = self.name();
        format!("==={name}===\n{}\n===END-{name}===\n", content.trim_end_matches('\n'))
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "==={}===", self.name())
    }
}

/// A block of a reply.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) kind: BlockKind,
    /// The line of its opening marker.
    pub(super) line: usize,
    /// Everything between its markers.
    pub(super) content: &'a str,
    /// The blocks inside, in order.
    pub(super) children: Vec<Block<'a>>,
    /// The text around the children: before the first, between them, after the last.
    pub(super) outside: Vec<Passage<'a>>,
}

/// A piece of the reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage<'a> {
    pub(super) text: &'a str,
    /// The line of its beginning.
    pub(super) line: usize,
}

/// A marker line.
struct Mark {
    kind: BlockKind,
    opens: bool,
    line: usize,
    /// Where the line begins and where the next one does, in bytes.
    start: usize,
    after: usize,
}

/// A fence that is open.
struct Fence {
    character: u8,
    length: usize,
    line: usize,
}

/// The reply with LF as its only line end, which is what every other function here takes.
pub(super) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The one block of the reply, which must be of one of the expected kinds.
pub(super) fn only<'a>(text: &'a str, expected: &'static [BlockKind]) -> Result<Block<'a>, MarkerError> {
    let (marks, fence) = marks(text);
    let blocks = blocks(text, &marks, fence)?;
    if let Some(foreign) = blocks.iter().find(|block| !expected.contains(&block.kind)) {
        return Err(MarkerError::Conflicting { expected, found: foreign.kind, line: foreign.line });
    }
    let mut blocks = blocks.into_iter();
    let block = blocks.next().ok_or(MarkerError::Missing { expected, fence })?;
    match blocks.next() {
        None => {}
        Some(Block { kind, line, .. }) if kind == block.kind => {
            return Err(MarkerError::Duplicate { kind, line });
        }
        Some(Block { kind: found, line, .. }) => {
            return Err(MarkerError::Conflicting { expected, found, line });
        }
    }
    Measure::Block.check(block.content.len(), block.line)?;
    Ok(block)
}

/// All marker lines outside of fences, and the line of a fence that is open at the end.
fn marks(text: &str) -> (Vec<Mark>, Option<usize>) {
    let mut marks = Vec::new();
    let mut open: Option<Fence> = None;
    let mut start = 0;
    for (index, whole) in text.split_inclusive('\n').enumerate() {
        let line = index + 1;
        let after = start + whole.len();
        let content = whole.strip_suffix('\n').unwrap_or(whole);
        match &open {
            Some(fence) => {
                if closes(fence, content) {
                    open = None;
                }
            }
            None => {
                open = opening(content, line);
                if let Some((kind, opens)) = marker(content) {
                    marks.push(Mark { kind, opens, line, start, after });
                }
            }
        }
        start = after;
    }
    (marks, open.map(|fence| fence.line))
}

/// The kind of a marker line and whether it opens.
fn marker(line: &str) -> Option<(BlockKind, bool)> {
    let name = line.trim_end_matches(BLANKS).strip_prefix("===")?.strip_suffix("===")?;
    let (name, opens) = match name.strip_prefix("END-") {
        Some(name) => (name, false),
        None => (name, true),
    };
    BlockKind::ALL.into_iter().find(|kind| kind.name() == name).map(|kind| (kind, opens))
}

/// The run of fence characters that a line begins with, and what follows it.
fn fence_run(line: &str) -> Option<(u8, usize, &str)> {
    let unindented = line.trim_start_matches(' ');
    if line.len() - unindented.len() > MAX_FENCE_INDENT {
        return None;
    }
    let character = unindented.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = unindented.bytes().take_while(|byte| *byte == character).count();
    (length >= MIN_FENCE).then(|| (character, length, &unindented[length..]))
}

fn opening(content: &str, line: usize) -> Option<Fence> {
    let (character, length, info) = fence_run(content)?;
    // "``` x ```" on one line is code in a sentence: the info string of a backtick fence has no backtick.
    (character != b'`' || !info.contains('`')).then_some(Fence { character, length, line })
}

fn closes(fence: &Fence, content: &str) -> bool {
    fence_run(content).is_some_and(|(character, length, rest)| {
        character == fence.character && length >= fence.length && rest.trim_matches(BLANKS).is_empty()
    })
}

/// Pairs the markers. Only a child may stand inside another block, and only in a split.
fn blocks<'a>(text: &'a str, marks: &[Mark], fence: Option<usize>) -> Result<Vec<Block<'a>>, MarkerError> {
    /// A block whose end is not yet seen.
    struct Open<'m, 'a> {
        mark: &'m Mark,
        children: Vec<Block<'a>>,
        outside: Vec<Passage<'a>>,
        /// Where the text after the last child begins.
        rest: (usize, usize),
    }
    impl<'a> Open<'_, 'a> {
        /// Notes the text between the last child and this mark.
        fn text_until(&mut self, text: &'a str, mark: &Mark) {
            let (from, line) = self.rest;
            self.outside.push(Passage { text: &text[from..mark.start], line });
        }
    }

    let mut found = Vec::new();
    let mut stack: Vec<Open<'_, 'a>> = Vec::new();
    for mark in marks {
        if mark.opens {
            if let Some(outer) = stack.last_mut() {
                let outer_kind = outer.mark.kind;
                if (outer_kind, mark.kind) != (BlockKind::Split, BlockKind::Child) {
                    return Err(MarkerError::Nested { outer: outer_kind, inner: mark.kind, line: mark.line });
                }
                outer.text_until(text, mark);
            }
            stack.push(Open {
                mark,
                children: Vec::new(),
                outside: Vec::new(),
                rest: (mark.after, mark.line + 1),
            });
            continue;
        }
        let Some(mut open) = stack.pop_if(|open| open.mark.kind == mark.kind) else {
            // The end of the block around it: what is wrong is the child without an end.
            return Err(match stack.last() {
                Some(open) if stack.iter().any(|outer| outer.mark.kind == mark.kind) => {
                    MarkerError::Unclosed { kind: open.mark.kind, line: open.mark.line, fence: None }
                }
                _ => MarkerError::Unopened { kind: mark.kind, line: mark.line },
            });
        };
        open.text_until(text, mark);
        let block = Block {
            kind: mark.kind,
            line: open.mark.line,
            content: &text[open.mark.after..mark.start],
            children: open.children,
            outside: open.outside,
        };
        match stack.last_mut() {
            Some(outer) => {
                outer.children.push(block);
                outer.rest = (mark.after, mark.line + 1);
            }
            None => found.push(block),
        }
    }
    match stack.pop() {
        Some(open) => Err(MarkerError::Unclosed { kind: open.mark.kind, line: open.mark.line, fence }),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &[BlockKind] = &[BlockKind::Review];

    fn content(text: &str) -> Result<String, MarkerError> {
        only(&with_line_feeds(text), EXPECTED).map(|block| block.content.to_owned())
    }

    fn is_missing(text: &str) -> bool {
        matches!(content(text), Err(MarkerError::Missing { .. }))
    }

    #[test]
    fn every_kind_has_a_marker_of_its_own_that_is_recognised() {
        for kind in BlockKind::ALL {
            assert_eq!(marker(&kind.to_string()), Some((kind, true)));
            assert_eq!(marker(&format!("===END-{}=== \t", kind.name())), Some((kind, false)));
        }
    }

    #[test]
    fn a_block_is_found_between_other_text_with_any_line_end() {
        for end in ["\n", "\r\n", "\r", " \t\n", " \t\r\n"] {
            let text = ["Fertig.", "===REVIEW-REPORT===", "a", "===END-REVIEW-REPORT===", "Gruß"].join(end);
            assert_eq!(content(&text).unwrap().trim_end(), "a", "{end:?}");
        }
        assert_eq!(content("===REVIEW-REPORT===\na\n===END-REVIEW-REPORT===").unwrap(), "a\n");
    }

    #[test]
    fn a_line_that_only_resembles_a_marker_is_text() {
        for line in [
            " ===REVIEW-REPORT===",
            "\t===REVIEW-REPORT===",
            "    ===REVIEW-REPORT===",
            "> ===REVIEW-REPORT===",
            "- ===REVIEW-REPORT===",
            "`===REVIEW-REPORT===`",
            "Es beginnt mit ===REVIEW-REPORT===",
            "===REVIEW-REPORT=== so",
            "===REVIEW-REPORT===.",
            "===REVIEW-REPORT====",
            "====REVIEW-REPORT===",
            "==REVIEW-REPORT==",
            "=== REVIEW-REPORT ===",
            "===review-report===",
            "===REVIEW_REPORT===",
            "===REVIEW-REPORT-2===",
            "===REVIEW===",
            "===END-END-REVIEW-REPORT===",
            "=====",
            "======",
            "\u{feff}===REVIEW-REPORT===",
            "\u{200b}===REVIEW-REPORT===",
            "===REVIEW\u{200b}-REPORT===",
            "===REVIEW-REPORT===\u{200b}",
            "===REVIEW-REPORT===\u{a0}",
            "===REVIEW\u{2010}REPORT===",
            "＝＝＝REVIEW-REPORT＝＝＝",
            "===ＲEVIEW-REPORT===",
            "===REVIEW-REP\u{041e}RT===",
            "===REVIEW-REPORT===\0",
            "===REVIEW-REPORT===\u{b}",
            "x\u{2028}===REVIEW-REPORT===",
            "x\u{85}===REVIEW-REPORT===",
        ] {
            assert!(is_missing(line), "{line:?} is a marker");
            let quoting = format!("===REVIEW-REPORT===\n{line}\n===END-REVIEW-REPORT===\n");
            assert_eq!(content(&quoting), Ok(format!("{line}\n")));
        }
    }

    #[test]
    fn a_fence_hides_markers_until_it_is_closed_by_its_like() {
        const BLOCK: &str = "===REVIEW-REPORT===\na\n===END-REVIEW-REPORT===\n";
        for (opens, closes) in [
            ("```", "```"),
            ("~~~", "~~~"),
            ("```text", "```"),
            ("~~~ `a`", "~~~"),
            ("`````", "`````"),
            ("````", "``````  \t"),
            ("   ```", "  ```"),
            ("~~~~", "~~~\n```\n   ~~~~"),
            ("```", "~~~\n``\n```x\n    ```\n\t```\n> ```\n```"),
        ] {
            let fenced = format!("{opens}\n{BLOCK}{closes}\n");
            assert!(is_missing(&fenced), "{fenced}");
            let hidden = format!("{opens}\n{BLOCK}");
            let line = Some(1);
            assert_eq!(content(&hidden), Err(MarkerError::Missing { expected: EXPECTED, fence: line }));
            assert_eq!(content(&format!("{fenced}{BLOCK}")), Ok("a\n".to_owned()), "{fenced}");
            let inside = format!("===REVIEW-REPORT===\n{fenced}===END-REVIEW-REPORT===\n");
            assert_eq!(content(&inside), Ok(fenced));
        }
    }

    #[test]
    fn what_is_no_fence_hides_nothing() {
        for line in
            ["``", "~~", "    ```", "\t~~~", "> ```", "- ```", "``` x ```", "x ```", "\u{a0}```", "｀｀｀"]
        {
            let text = format!("{line}\n===REVIEW-REPORT===\na\n===END-REVIEW-REPORT===\n");
            assert_eq!(content(&text), Ok("a\n".to_owned()), "{line:?}");
        }
    }

    #[test]
    fn a_carriage_return_opens_no_gap_between_this_scanner_and_commonmark() {
        assert!(is_missing("x\r```\n===REVIEW-REPORT===\na\n===END-REVIEW-REPORT===\n"));
    }

    #[test]
    fn each_way_to_break_the_structure_has_its_error() {
        use BlockKind::{Child, Intent, Review, Split};
        let begin = "===REVIEW-REPORT===\n";
        let end = "===END-REVIEW-REPORT===\n";
        let table = [
            (String::new(), MarkerError::Missing { expected: EXPECTED, fence: None }),
            (format!("{begin}a\n"), MarkerError::Unclosed { kind: Review, line: 1, fence: None }),
            (format!("{begin}```\n{end}"), MarkerError::Unclosed { kind: Review, line: 1, fence: Some(2) }),
            (
                format!("{begin}a\n{begin}b\n{end}"),
                MarkerError::Nested { outer: Review, inner: Review, line: 3 },
            ),
            (format!("{begin}===CHILD===\n"), MarkerError::Nested { outer: Review, inner: Child, line: 2 }),
            (
                "===CHILD===\n===SPLIT===".to_owned(),
                MarkerError::Nested { outer: Child, inner: Split, line: 2 },
            ),
            (
                "===SPLIT===\n===CHILD===\n===CHILD===".to_owned(),
                MarkerError::Nested { outer: Child, inner: Child, line: 3 },
            ),
            (format!("===SPLIT===\n{begin}"), MarkerError::Nested { outer: Split, inner: Review, line: 2 }),
            (
                "===SPLIT===\n===CHILD===\n===END-SPLIT===".to_owned(),
                MarkerError::Unclosed { kind: Child, line: 2, fence: None },
            ),
            (end.to_owned(), MarkerError::Unopened { kind: Review, line: 1 }),
            (format!("{begin}a\n{end}{end}"), MarkerError::Unopened { kind: Review, line: 4 }),
            (
                format!("{begin}a\n===END-DRAFT-INTENT===\n{end}"),
                MarkerError::Unopened { kind: Intent, line: 3 },
            ),
            (format!("{begin}a\n{end}\n{begin}a\n{end}"), MarkerError::Duplicate { kind: Review, line: 5 }),
            (
                format!("{begin}a\n{end}===DRAFT-INTENT===\n===END-DRAFT-INTENT===\n"),
                MarkerError::Conflicting { expected: EXPECTED, found: Intent, line: 4 },
            ),
            (
                "===CHILD===\n===END-CHILD===".to_owned(),
                MarkerError::Conflicting { expected: EXPECTED, found: Child, line: 1 },
            ),
        ];
        for (text, error) in table {
            assert_eq!(content(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_block_of_the_largest_size_is_read_and_one_byte_more_is_not() {
        let block =
            |size: usize| format!("===REVIEW-REPORT===\n{}\n===END-REVIEW-REPORT===", "a".repeat(size - 1));
        assert_eq!(content(&block(MAX_BLOCK)).map(|content| content.len()), Ok(MAX_BLOCK));
        let error = MarkerError::TooLarge { measure: Measure::Block, line: 1 };
        assert_eq!(content(&block(MAX_BLOCK + 1)), Err(error.clone()));
        assert_eq!(content(&block(300 * 1024)), Err(error));
    }
}
