//! Text for people: times, sizes, and what cannot be seen made visible.
use board_core::edge::settings::Language;
use board_core::model::time::Timestamp;

use crate::i18n::t;

/// Longest line of a log that is shown, in bytes.
const MAX_LOG_LINE: usize = 8 * 1024;

/// `at` seen from `now`, in one unit.
pub(crate) fn ago(language: Language, at: Timestamp, now: Timestamp) -> String {
    let seconds = now.seconds_since(at);
    let (n, key) = match seconds {
        ..0 => return t(language, "time.soon", &[]),
        0..60 => return t(language, "time.now", &[]),
        60..3_600 => (seconds / 60, "time.minutes"),
        3_600..86_400 => (seconds / 3_600, "time.hours"),
        86_400.. => (seconds / 86_400, "time.days"),
    };
    t(language, key, &[("n", &n.to_string())])
}

/// A moment in a time zone, to the second; in UTC where the zone is not known.
pub(crate) fn local(at: Timestamp, zone: &str) -> String {
    match at.to_jiff().in_tz(zone) {
        Ok(zoned) => zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => at.to_string(),
    }
}

/// A duration, „1 h 05 min", „3 min", „12 s".
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Whether a character changes what stands beside it without being seen: bidi controls, zero-width ones,
/// control characters other than line end and tab.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || (c.is_control() && c != '\n' && c != '\t')
}

/// `text` with hidden characters as visible escapes (`⟨U+202E⟩`).
pub(crate) fn visible(text: &str) -> String {
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// The beginning of a text, cut at `max` characters, on one line.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return visible(&line);
    }
    let cut: String = line.chars().take(max).collect();
    visible(&cut) + "…"
}

/// A log line as a page shows it: escape sequences stripped, the rest visible, cut at 8 KiB.
pub(crate) fn log_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(MAX_LOG_LINE));
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // CSI: parameters and intermediates, then one final byte.
                Some('[') => while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {},
                // OSC and its like: to BEL or to the string terminator.
                Some(']' | 'P' | '^' | '_' | 'X') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                Some(_) | None => {}
            },
            '\r' => {}
            _ => out.push(c),
        }
        if out.len() >= MAX_LOG_LINE {
            out.push('…');
            break;
        }
    }
    visible(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t40_hidden_characters_are_shown() {
        assert_eq!(visible("a\u{202e}b"), "a⟨U+202E⟩b");
        assert_eq!(visible("zero\u{200b}width\r"), "zero⟨U+200B⟩width⟨U+000D⟩");
        assert_eq!(visible("Grüße\tan alle\n"), "Grüße\tan alle\n");
    }

    #[test]
    fn t29_escape_sequences_do_not_reach_a_page() {
        assert_eq!(log_line("\u{1b}[31mrot\u{1b}[0m"), "rot");
        assert_eq!(log_line("\u{1b}]0;titel\u{7}da"), "da");
        assert_eq!(log_line("\u{1b}]8;;http://x\u{1b}\\link"), "link");
        assert_eq!(log_line("über\rschrieben"), "überschrieben");
        assert_eq!(log_line("offen \u{1b}["), "offen ");
        assert_eq!(log_line(&"x".repeat(MAX_LOG_LINE - 1)).len(), MAX_LOG_LINE - 1);
        assert!(log_line(&"x".repeat(MAX_LOG_LINE)).ends_with('…'));
    }

    #[test]
    fn an_age_is_told_in_one_unit() {
        let now: Timestamp = "2026-11-30T20:00:00Z".parse().unwrap();
        let de = |seconds: i64| ago(Language::De, now.plus_seconds(-seconds), now);
        assert_eq!(de(59), "gerade eben");
        assert_eq!(de(60), "vor 1 min");
        assert_eq!(de(7_200), "vor 2 h");
        assert_eq!(de(86_400 * 3), "vor 3 d");
        assert_eq!(local(now, "Europe/Berlin"), "2026-11-30 21:00:00 CET");
        assert_eq!(local(now, "no/where"), "2026-11-30T20:00:00Z");
        assert_eq!((duration(59), duration(3_900)), ("59 s".to_owned(), "1 h 05 min".to_owned()));
    }

    #[test]
    fn an_excerpt_has_at_most_so_many_characters() {
        assert_eq!(excerpt("eins  zwei\ndrei", 14), "eins zwei drei");
        assert_eq!(excerpt("eins zwei drei", 13), "eins zwei dre…");
    }
}
