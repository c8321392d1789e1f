//! Every sentence that a run leaves for people, in both languages.
//!
//! Apart from where things happen, so that the two languages stand side by side and a sentence is
//! found without reading the supervisor. German first, English on request (config.md, `language`).

use std::time::Duration;

pub use board_core::edge::settings::Language;

/// `de` or `en`, by the language.
pub(crate) fn pick(language: Language, de: impl Into<String>, en: impl Into<String>) -> String {
    match language {
        Language::De => de.into(),
        Language::En => en.into(),
    }
}

/// A span as people say it: `2 h`, `10 min`, `90 s`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Bytes as people say them, in the largest unit that divides them.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// Bytes that were measured, as people say them: whole MiB, rounded down, from one on.
pub(crate) fn about(bytes: u64) -> String {
    size(if bytes < 1 << 20 { bytes } else { bytes >> 20 << 20 })
}

/// The first line of a text, at most `chars` characters, without control characters.
pub(crate) fn first_line(text: &str, chars: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(chars).collect();
    if line.chars().count() > chars {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_said_in_their_largest_unit() {
        assert_eq!(span(Duration::from_secs(7200)), "2 h");
        assert_eq!(span(Duration::from_secs(600)), "10 min");
        assert_eq!(span(Duration::from_secs(90)), "90 s");
        assert_eq!(span(Duration::from_millis(250)), "250 ms");
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!(size(1500), "1500 B");
        assert_eq!(about((3 << 20) + 17), "3 MiB");
        assert_eq!(about(1500), "1500 B");
    }

    #[test]
    fn a_first_line_is_cut_and_has_no_control_characters() {
        assert_eq!(first_line("\n\n  \u{1b}[31mred\nmore", 80), "[31mred");
        assert_eq!(first_line("abcdef", 3), "abc…");
        assert_eq!(first_line("abc", 3), "abc");
        assert_eq!(first_line("", 3), "");
    }
}
