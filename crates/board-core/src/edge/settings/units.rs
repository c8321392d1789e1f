//! Durations and sizes as people write them.
use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
const SIZE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `"2h"`, `"10m"`, `"90s"`, `"1h30m"`, `"7d"`: whole numbers with units, the greater first.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut units = DURATION_UNITS.iter();
    let mut seconds = 0_u64;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest)?;
        let (factor, left) = units.find_map(|(unit, factor)| Some((factor, after.strip_prefix(unit)?)))?;
        seconds = seconds.checked_add(number.checked_mul(*factor)?)?;
        rest = left;
    }
    (!text.is_empty()).then(|| Duration::from_secs(seconds))
}

/// `"20GiB"`, `"512MiB"`, `"64KiB"`, `"100B"`: one whole number with a binary unit.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = leading_number(text)?;
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// A duration in the words of [`duration`].
pub(super) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    DURATION_UNITS
        .iter()
        .find(|(_, factor)| seconds >= *factor && seconds.is_multiple_of(*factor))
        .map_or_else(|| format!("{seconds}s"), |(unit, factor)| format!("{}{unit}", seconds / factor))
}

/// A size in the words of [`size`].
pub(super) fn show_size(bytes: u64) -> String {
    SIZE_UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor))
        .map_or_else(|| format!("{bytes}B"), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest.trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_units() {
        let cases =
            [("2h", 7_200), ("10m", 600), ("90s", 90), ("1h30m", 5_400), ("7d", 604_800), ("2 h", 7_200)];
        for (text, seconds) in cases {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "h", "1.5h", "-1h", "2x", "30m1h", "1h 30", "99999999999999999999s", "2H"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers_with_a_binary_unit() {
        let cases =
            [("20GiB", 20 << 30), ("1 MiB", 1 << 20), ("64KiB", 65_536), ("7B", 7), ("1TiB", 1 << 40)];
        for (text, bytes) in cases {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "20", "20GB", "20gib", "1.5GiB", "99999999999TiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for seconds in [1, 59, 60, 90, 3_600, 5_400, 604_800] {
            let value = Duration::from_secs(seconds);
            assert_eq!(duration(&show_duration(value)), Some(value));
        }
        for bytes in [1, 1_000, 1 << 20, (1 << 30) + 1, 20 << 30] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
    }
}
