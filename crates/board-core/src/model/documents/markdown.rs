//! The little of Markdown that the board has to know: fences, headings, front matter.

/// Levels by which a role's headings are moved down below a section's own.
const NESTED_BY: usize = 2;
/// Deepest heading of Markdown.
const DEEPEST: usize = 6;

/// Where in a text one is: inside a fence or not.
#[derive(Debug, Default)]
struct Fences(Option<(char, usize)>);

impl Fences {
    /// Takes the next line; true if it is text, false if it is inside a fence or its border.
    fn is_text(&mut self, line: &str) -> bool {
        let inner = line.trim_end_matches(['\n', '\r']);
        let body = inner.trim_start_matches(' ');
        let indented = inner.len() - body.len();
        let mark = body.chars().next().filter(|c| matches!(c, '`' | '~')).filter(|_| indented <= 3);
        let length = mark.map_or(0, |mark| body.chars().take_while(|c| *c == mark).count());
        match (self.0, mark) {
            (None, Some(mark)) if length >= 3 => {
                // A backtick after backticks makes it a line of text with code in it.
                if mark == '`' && body[length..].contains('`') {
                    return true;
                }
                self.0 = Some((mark, length));
                false
            }
            (Some((open, wanted)), Some(mark)) if mark == open && length >= wanted => {
                if body[length..].trim().is_empty() {
                    self.0 = None;
                }
                false
            }
            (open, _) => open.is_none(),
        }
    }
}

/// Level and text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_end();
    let body = line.trim_start_matches(' ');
    // Indented deeper it is code.
    if line.len() - body.len() > 3 {
        return None;
    }
    let level = body.bytes().take_while(|b| *b == b'#').count();
    let rest = &body[level..];
    if !(1..=DEEPEST).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let text = rest.trim();
    let closed = text.trim_end_matches('#');
    let text = if closed.is_empty() || closed.ends_with([' ', '\t']) { closed.trim_end() } else { text };
    Some((level, text))
}

/// The texts of all headings, fenced ones left out.
pub(super) fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut fences = Fences::default();
    text.lines()
        .filter(move |line| fences.is_text(line))
        .filter_map(|line| heading(line).map(|(_, text)| text))
}

/// A role's text fit to stand below a section's head: headings two levels down, no line that could be
/// taken for a head, every fence closed, one line feed at the end.
pub fn nested(text: &str) -> String {
    let mut fences = Fences::default();
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.trim_end().lines() {
        if fences.is_text(line)
            && let Some((level, title)) = heading(line)
        {
            out.push_str(&"#".repeat((level + NESTED_BY).min(DEEPEST)));
            out.push(' ');
            out.push_str(title);
        } else {
            // In a fence nothing is changed but what would end the section that it stands in.
            if line.starts_with("# ") || line.starts_with("## ") {
                out.push(' ');
            }
            out.push_str(line);
        }
        out.push('\n');
    }
    if let Some((mark, length)) = fences.0 {
        out.extend(std::iter::repeat_n(mark, length));
        out.push('\n');
    }
    out
}

/// The front matter of a document, without its borders, and the rest.
pub fn without_front_matter(text: &str) -> (Option<&str>, &str) {
    let start = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_border = |line: &str, borders: &[&str]| borders.contains(&line.trim_end());
    let mut lines = start.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_border(line, &["---"])) else { return (None, start) };
    let mut at = first.len();
    for line in lines {
        if is_border(line, &["---", "..."]) {
            return (Some(&start[first.len()..at]), &start[at + line.len()..]);
        }
        at += line.len();
    }
    (None, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_in_fences_are_text_and_other_lines_with_hashes_are_none() {
        let text = "# A\n```\n# no\n```\n~~~~ x\n# no\n~~~\n# no\n~~~~\n  ## B ##\n    # code\n#no\n####### no\n`````` a`b\n# C#\n";
        assert_eq!(headings(text).collect::<Vec<_>>(), ["A", "B", "C#"]);
    }

    #[test]
    fn a_nested_text_has_no_heading_above_the_third_level_and_no_open_fence() {
        let text = "# A\n###### F\n```md\n# in\n## in\n";
        assert_eq!(nested(text), "### A\n###### F\n```md\n # in\n ## in\n```\n");
        assert_eq!(nested("x\r\n\r\n"), "x\n");
    }

    #[test]
    fn front_matter_is_split_off_only_where_it_is_closed() {
        assert_eq!(without_front_matter("---\na: 1\n---\n# T\n"), (Some("a: 1\n"), "# T\n"));
        assert_eq!(without_front_matter("---\r\n---\r\nx"), (Some(""), "x"));
        assert_eq!(without_front_matter("---\na: 1\n"), (None, "---\na: 1\n"));
        assert_eq!(without_front_matter("\u{feff}# T"), (None, "# T"));
    }
}
