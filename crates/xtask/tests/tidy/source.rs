//! A Rust file as the rules see it: code without comments, literals apart, and which lines are tests.
//!
//! A scanner of our own and not a parser: the rules ask for words and literals by line, and a file that does
//! not parse yet should still be told what else is wrong with it.

use std::ops::RangeInclusive;

/// A scanned file.
pub(crate) struct Source {
    /// Relative to the top of the checkout.
    pub(crate) path: String,
    /// As it stands in the file.
    pub(crate) text: String,
    /// The lines, with comments and what stands inside literals blanked.
    pub(crate) code: Vec<String>,
    /// The string literals, in their order.
    pub(crate) literals: Vec<Literal>,
    /// What `use` brings in, braces resolved: (line of the statement, full path).
    uses: Vec<(usize, String)>,
    tests: Vec<RangeInclusive<usize>>,
}

/// A string literal.
pub(crate) struct Literal {
    /// From 1, where it begins.
    pub(crate) line: usize,
    /// Its text; the common escapes are resolved.
    pub(crate) value: String,
    /// The code right before it, without blanks at its end.
    pub(crate) before: String,
}

impl Source {
    /// Scans a file.
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let scanned = Scanner::new(text).run();
        let tests = if is_test_file(path) {
            vec![1..=text.lines().count().max(1)]
        } else {
            test_items(&scanned.code)
        };
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            uses: uses(&scanned.code),
            code: scanned.code.lines().map(str::to_owned).collect(),
            literals: scanned.literals,
            tests,
        }
    }

    /// Does this line belong to tests?
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// The lines of code with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// The lines on which a path like `std::fs` is written out or brought in, tests among them.
    pub(crate) fn mentions(&self, path: &str) -> Vec<usize> {
        let written = self.lines().filter(|(_, line)| has_words(line, path)).map(|(number, _)| number);
        let brought = self.uses.iter().filter(|(_, used)| has_words(used, path)).map(|(number, _)| *number);
        let mut lines: Vec<usize> = written.chain(brought).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// As [`Source::mentions`], without tests.
    pub(crate) fn mentions_outside_tests(&self, path: &str) -> Vec<usize> {
        self.mentions(path).into_iter().filter(|line| !self.is_test(*line)).collect()
    }

    /// Is the path brought in by `use` as its beginning, as a crate is?
    pub(crate) fn uses_crate(&self, name: &str) -> Vec<usize> {
        let of =
            |used: &str| used == name || used.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"));
        self.uses.iter().filter(|(_, used)| of(used)).map(|(line, _)| *line).collect()
    }
}

/// Whole files of tests: of a test package, or a module of tests that lies in a file of its own.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Does the text hold `words`, not as a part of longer words?
pub(crate) fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        let open_front = !words.starts_with(is_word) || !before.is_some_and(is_word);
        let open_back = !words.ends_with(is_word) || !after.is_some_and(is_word);
        open_front && open_back
    })
}

/// Items under `#[cfg(test)]` (or a longer condition with the word `test`), by their lines.
fn test_items(code: &str) -> Vec<RangeInclusive<usize>> {
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let begin = from + found;
        let Some(end) = closing(code, begin + 1, '[', ']') else { break };
        from = end;
        let condition = &code[begin..end];
        if !has_words(condition, "test") || condition.contains("not(test") {
            continue;
        }
        // To the end of the block or the statement, whichever comes first; further attributes have neither.
        let Some(stop) = code[end..].find(['{', ';']).map(|at| end + at) else { break };
        let last = if code[stop..].starts_with('{') {
            closing(code, stop, '{', '}').unwrap_or(code.len().saturating_sub(1))
        } else {
            stop
        };
        ranges.push(line_of(begin)..=line_of(last));
        from = last;
    }
    ranges
}

/// The index of what closes the bracket at `begin`.
fn closing(code: &str, begin: usize, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in code[begin..].char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(begin + at);
            }
        }
    }
    None
}

/// Every `use` statement, its braces resolved into full paths; ` as name` is dropped.
fn uses(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("use ").map(|at| from + at) {
        from = at + "use ".len();
        let at_statement = code[..at].trim_end_matches(' ').chars().next_back();
        if !at_statement.is_none_or(|before| matches!(before, '\n' | ';' | '{' | '}' | ')' | 'b')) {
            continue;
        }
        let Some(end) = code[from..].find(';').map(|end| from + end) else { break };
        let line = code[..at].matches('\n').count() + 1;
        let statement: String = code[from..end].split_whitespace().collect::<Vec<_>>().join(" ");
        found.extend(resolve("", &statement).into_iter().map(|path| (line, path)));
        from = end;
    }
    found
}

fn resolve(prefix: &str, tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        return if path.is_empty() {
            Vec::new()
        } else {
            vec![format!("{prefix}{path}").replace("::self", "")]
        };
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = closing(tree, open, '{', '}').map_or(&tree[open + 1..], |end| &tree[open + 1..end]);
    let mut depth = 0_i32;
    let outer_comma = |letter: char| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    };
    inner.split(outer_comma).flat_map(|part| resolve(&prefix, part)).collect()
}

/// What one walk over the letters gives.
struct Scanner {
    letters: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    literals: Vec<Literal>,
}

/// How much code before a literal is kept for the rules.
const BEFORE: usize = 48;

impl Scanner {
    fn new(text: &str) -> Self {
        Scanner { letters: text.chars().collect(), at: 0, line: 1, code: String::new(), literals: Vec::new() }
    }

    fn run(mut self) -> Self {
        while let Some(letter) = self.peek(0) {
            match letter {
                '/' if self.peek(1) == Some('/') => self.blank_until(|scanner| scanner.peek(0) == Some('\n')),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(None),
                'r' if !self.code.ends_with(is_word) || self.code.ends_with(['b', 'c']) => self.raw_or_word(),
                '\'' => self.letter_or_lifetime(),
                _ => self.keep(),
            }
        }
        self
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    /// Takes a letter over into the code.
    fn keep(&mut self) {
        if let Some(letter) = self.peek(0) {
            self.line += usize::from(letter == '\n');
            self.code.push(letter);
            self.at += 1;
        }
    }

    /// Leaves a blank in place of a letter; lines stay lines.
    fn blank(&mut self) {
        if let Some(letter) = self.peek(0) {
            self.line += usize::from(letter == '\n');
            self.code.push(if letter == '\n' { '\n' } else { ' ' });
            self.at += 1;
        }
    }

    fn blank_until(&mut self, end: impl Fn(&Self) -> bool) {
        while self.at < self.letters.len() && !end(self) {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    /// `r"…"`, `r#"…"#`, or only a word that begins with r.
    fn raw_or_word(&mut self) {
        let hashes = (1..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        if self.peek(1 + hashes) != Some('"') {
            return self.keep();
        }
        for _ in 0..=hashes {
            self.keep();
        }
        self.string(Some(hashes));
    }

    /// From the opening quote; `hashes` for a raw one.
    fn string(&mut self, hashes: Option<usize>) {
        let line = self.line;
        let code = self.code.trim_end().trim_end_matches(['r', '#']);
        let before = code.chars().rev().take(BEFORE).collect::<Vec<_>>().into_iter().rev().collect();
        self.keep();
        let mut value = String::new();
        while let Some(letter) = self.peek(0) {
            let closes = hashes.is_none_or(|count| (1..=count).all(|ahead| self.peek(ahead) == Some('#')));
            if letter == '"' && closes {
                self.keep();
                break;
            }
            if letter == '\\' && hashes.is_none() {
                self.blank();
                match self.peek(0) {
                    Some('n') => value.push('\n'),
                    Some('\n') => {
                        self.blank_until(|scanner| !scanner.peek(0).is_some_and(char::is_whitespace));
                        continue;
                    }
                    Some(escaped) => value.push(escaped),
                    None => break,
                }
            } else {
                value.push(letter);
            }
            self.blank();
        }
        self.literals.push(Literal { line, value, before });
    }

    fn letter_or_lifetime(&mut self) {
        let is_letter = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.keep();
        if !is_letter {
            return;
        }
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        self.blank_until(|scanner| scanner.peek(0) == Some('\''));
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "//! std::fs\nfn a() { /* std::fs /* nested */ */ b(\"std::fs // no\", r#\"a \"std::fs\" b\"#); }";
        let source = Source::parse("crates/a/src/a.rs", text);
        assert_eq!(source.mentions("std::fs"), []);
        let values: Vec<&str> = source.literals.iter().map(|literal| literal.value.as_str()).collect();
        assert_eq!(values, ["std::fs // no", "a \"std::fs\" b"]);
        assert!(source.literals[0].before.ends_with("b("), "{}", source.literals[0].before);
    }

    #[test]
    fn a_quote_as_a_letter_and_a_lifetime_open_no_string() {
        let source =
            Source::parse("a.rs", "fn a<'x>(b: &'x str) { c('\"', '\\'', '{', d); std::fs::e(\"f\") }");
        assert_eq!(source.literals.len(), 1);
        assert_eq!(source.mentions("std::fs"), [1]);
    }

    #[test]
    fn escapes_and_lines_inside_literals_are_followed() {
        let source = Source::parse("a.rs", "let a = \"x\\\"y\\\n    z\";\nstd::fs::b();\n");
        assert_eq!(source.literals[0].value, "x\"yz");
        assert_eq!(source.mentions("std::fs"), [3]);
    }

    #[test]
    fn what_use_brings_in_is_resolved() {
        let source = Source::parse(
            "a.rs",
            "use std::{\n    fs::{self, File as F},\n    path::Path,\n};\npub use a::b;\n",
        );
        let paths: Vec<&str> = source.uses.iter().map(|(_, path)| path.as_str()).collect();
        assert_eq!(paths, ["std::fs", "std::fs::File", "std::path::Path", "a::b"]);
        assert_eq!(source.mentions("std::fs"), [1]);
    }

    #[test]
    fn test_items_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n#[cfg(test)]\nmod other;\nfn e() {}\n";
        let source = Source::parse("crates/a/src/a.rs", text);
        let tests: Vec<usize> = (1..=12).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [2, 3, 4, 5, 6, 10, 11]);
        assert!(Source::parse("crates/a/tests/it/main.rs", text).is_test(1));
    }

    #[test]
    fn a_part_of_a_longer_word_is_not_the_word() {
        assert!(has_words("sd::notify::x", "notify::"));
        assert!(!has_words("sd_notify::x", "notify::"));
        assert!(!has_words("std::fs2", "std::fs"));
    }
}
