//! git's own unified diff, line by line with classes, within caps (web.md, 3).
use serde::Serialize;

use super::text::visible;

/// Lines of one file that are shown.
const MAX_FILE_LINES: usize = 2_000;
/// Lines of a diff that are shown.
const MAX_LINES: usize = 20_000;
/// Longest line, in characters.
const MAX_LINE_CHARS: usize = 1_000;
/// Files with more lines begin closed.
const CLOSED_ABOVE: usize = 400;
/// Files that tools write; they begin closed.
const LOCK_FILES: [&str; 4] = ["Cargo.lock", "flake.lock", "package-lock.json", "yarn.lock"];

/// One line.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// `add`, `del`, `hunk`, `meta` or empty.
    pub(crate) class: &'static str,
    /// The text, with its sign.
    pub(crate) text: String,
}

/// The difference of one file.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FileDiff {
    /// Its path.
    pub(crate) path: String,
    /// Lines added.
    pub(crate) added: usize,
    /// Lines removed.
    pub(crate) removed: usize,
    /// The lines shown.
    pub(crate) lines: Vec<Line>,
    /// Lines that are not shown.
    pub(crate) cut: usize,
    /// Whether it begins closed.
    pub(crate) closed: bool,
}

/// A whole diff.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Diff {
    /// File by file.
    pub(crate) files: Vec<FileDiff>,
    /// Something is not shown.
    pub(crate) cut: bool,
}

/// Splits git's output; `truncated` says that git's output itself was cut.
pub(crate) fn parse(text: &str, truncated: bool) -> Diff {
    let mut diff = Diff { files: Vec::new(), cut: truncated };
    let mut total = 0;
    let mut in_hunk = false;
    for raw in text.lines() {
        if let Some(names) = raw.strip_prefix("diff --git ") {
            in_hunk = false;
            diff.files.push(FileDiff { path: second_name(names), ..FileDiff::default() });
            continue;
        }
        let Some(file) = diff.files.last_mut() else { continue };
        let class = if raw.starts_with("@@") {
            in_hunk = true;
            "hunk"
        } else if !in_hunk {
            if let Some(path) = raw.strip_prefix("+++ b/") {
                path.clone_into(&mut file.path);
            }
            // What the heading says already.
            if ["--- ", "+++ ", "index "].iter().any(|known| raw.starts_with(known)) {
                continue;
            }
            "meta"
        } else if raw.starts_with('+') {
            file.added += 1;
            "add"
        } else if raw.starts_with('-') {
            file.removed += 1;
            "del"
        } else {
            ""
        };
        total += 1;
        if file.lines.len() >= MAX_FILE_LINES || total > MAX_LINES {
            file.cut += 1;
            diff.cut = true;
            continue;
        }
        let cut: String = raw.chars().take(MAX_LINE_CHARS).collect();
        file.lines.push(Line { class, text: visible(&cut) });
    }
    for file in &mut diff.files {
        let lock = LOCK_FILES.iter().any(|name| file.path.ends_with(name));
        file.closed = lock || file.lines.len() > CLOSED_ABOVE;
        file.path = visible(&file.path);
    }
    diff
}

/// The second name of `a/x b/x`; the `+++` line tells it better where there is one.
fn second_name(names: &str) -> String {
    names.rsplit_once(" b/").map_or(names, |(_, path)| path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n\
                        @@ -1,2 +1,2 @@\n eins\n-zwei\n+--- drei\n";

    #[test]
    fn lines_get_their_classes_and_are_counted() {
        let diff = parse(TEXT, false);
        let file = &diff.files[0];
        assert_eq!((file.path.as_str(), file.added, file.removed), ("a.txt", 1, 1));
        let classes: Vec<&str> = file.lines.iter().map(|line| line.class).collect();
        assert_eq!(classes, ["hunk", "", "del", "add"]);
    }

    #[test]
    fn a_file_shows_2000_lines_and_says_how_many_it_does_not() {
        let with =
            |n: usize| parse(&format!("diff --git a/a b/a\n@@ -0,0 +1 @@\n{}", "+x\n".repeat(n)), false);
        let full = with(MAX_FILE_LINES - 1);
        assert_eq!((full.files[0].cut, full.cut), (0, false));
        let over = with(MAX_FILE_LINES);
        assert_eq!((over.files[0].cut, over.cut, over.files[0].added), (1, true, MAX_FILE_LINES));
    }

    #[test]
    fn hidden_characters_of_a_change_are_shown() {
        let diff = parse("diff --git a/a b/a\n@@ -0,0 +1 @@\n+if admin\u{202e} {\n", false);
        assert_eq!(diff.files[0].lines[1].text, "+if admin⟨U+202E⟩ {");
    }
}
