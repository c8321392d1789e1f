//! The time of day at which a runtime says that it works again.
//!
//! „Try again in 20s" is read where the failure is ([`super::failure`]). A time on the clock („resets 3pm
//! (Europe/Berlin)", „try again at Dec 5th, 2026 3:45 PM", an epoch after a bar) needs to know what time it
//! is, which a runtime does not; so it is read here, with the time handed in. What is not understood is no
//! time, and the board pauses for as long as it would without one.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};

use super::failure::MAX_RETRY_AFTER_S;

/// What stands right before such a time.
const ANNOUNCED_BY: [&str; 9] = [
    "try again at ",
    "try again after ",
    "try again on ",
    "retry at ",
    "retry after ",
    "resets at ",
    "resets on ",
    "reset at ",
    "resets ",
];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Digits of a time in seconds since 1970, in this and the next two centuries.
const EPOCH_DIGITS: usize = 10;

/// Seconds from `now` until the time that a message names, at most [`MAX_RETRY_AFTER_S`]. A time without a
/// zone is read in that of `now`; one that is over is none.
pub fn named_time(message: &str, now: &ZonedDateTime) -> Option<u32> {
    let lower = message.to_lowercase();
    let named = lower.split_once('|').and_then(|(_, rest)| epoch(rest));
    let named = named.or_else(|| {
        ANNOUNCED_BY.iter().find_map(|words| {
            let (_, rest) = lower.split_once(words)?;
            // The message as it is, for the name of a zone; lowering kept its length unless it is odd.
            let as_it_is = message.get(message.len().checked_sub(rest.len())?..).unwrap_or(rest);
            moment(rest, as_it_is, now)
        })
    })?;
    until(named, now.timestamp())
}

/// Seconds until a moment in seconds since 1970.
pub fn until_epoch(seconds: u64, now: Timestamp) -> Option<u32> {
    until(Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?, now)
}

fn until(named: Timestamp, now: Timestamp) -> Option<u32> {
    let seconds = named.as_second().saturating_sub(now.as_second());
    (seconds > 0).then(|| u32::try_from(seconds).unwrap_or(MAX_RETRY_AFTER_S).min(MAX_RETRY_AFTER_S))
}

fn epoch(text: &str) -> Option<Timestamp> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // Some count in milliseconds.
    let seconds = (digits == EPOCH_DIGITS || digits == EPOCH_DIGITS + 3).then(|| &text[..EPOCH_DIGITS])?;
    Timestamp::from_second(seconds.parse().ok()?).ok()
}

fn moment(lower: &str, as_it_is: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let first = as_it_is.split_whitespace().next()?.trim_end_matches(['.', ',', ')', ';']);
    if let Some(exact) = first.parse().ok().or_else(|| epoch(first)) {
        return Some(exact);
    }
    let zone = zone(as_it_is).unwrap_or_else(|| now.time_zone().clone());
    let here = now.with_time_zone(zone);
    let words: Vec<&str> =
        lower.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
    let (date, rest) = date(&words, &here);
    let time = clock(rest)?;
    let at = |date: Date| {
        Some(date.to_datetime(time).to_zoned_datetime(here.time_zone().clone()).ok()?.timestamp())
    };
    match date {
        Some(date) => at(date),
        None => {
            at(here.date()).filter(|at| *at > here.timestamp()).or_else(|| at(here.date().tomorrow().ok()?))
        }
    }
}

/// `dec 5th 2026 at 3:45 pm`: the date, and the words after it.
fn date<'w>(words: &'w [&'w str], here: &ZonedDateTime) -> (Option<Date>, &'w [&'w str]) {
    let found = || -> Option<(Date, &'w [&'w str])> {
        let (name, rest) = words.split_first()?;
        let month = MONTHS.iter().position(|month| name.starts_with(month))? + 1;
        let (day, mut rest) = rest.split_first()?;
        let day: i8 = day.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
        let year = rest.first().filter(|year| year.len() == 4).and_then(|year| year.parse::<i16>().ok());
        if year.is_some() {
            rest = &rest[1..];
        }
        let date = Date::new(year.unwrap_or(here.year()), i8::try_from(month).ok()?, day).ok()?;
        // In December a date of January is one of the next year.
        let date = if year.is_none() && date < here.date() { date.checked_add(1.year()).ok()? } else { date };
        Some((date, rest))
    };
    let (date, rest) = found().map_or((None, words), |(date, rest)| (Some(date), rest));
    (date, if rest.first() == Some(&"at") { &rest[1..] } else { rest })
}

/// `3:45 pm`, `3pm`, `15:45`.
fn clock(words: &[&str]) -> Option<Time> {
    let first = words.first()?.trim_end_matches(['.', ';', ')']);
    let digits = first.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '.');
    let half = match &first[digits.len()..] {
        "" => words.get(1).map_or("", |word| word.trim_matches(|c: char| !c.is_ascii_alphabetic())),
        half => half,
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
    let mut hour: i8 = hour.parse().ok()?;
    let half = match half.replace('.', "").as_str() {
        "am" => Some(0),
        "pm" => Some(12),
        _ => None,
    };
    match half {
        Some(more) if (1..=12).contains(&hour) => hour = hour % 12 + more,
        Some(_) => return None,
        // A bare number is no time of day.
        None if minute.is_empty() => return None,
        None => {}
    }
    let minute = if minute.is_empty() { 0 } else { minute.get(..2)?.parse().ok()? };
    Time::new(hour, minute, 0, 0).ok()
}

/// The zone in brackets, or UTC where that is said.
fn zone(text: &str) -> Option<TimeZone> {
    let line = text.lines().next().unwrap_or("");
    if let Some((_, rest)) = line.split_once('(') {
        let name = rest.split_once(')').map_or(rest, |(name, _)| name).trim();
        return TimeZone::get(name).ok();
    }
    line.split_whitespace()
        .any(|word| matches!(word.trim_end_matches(['.', ',']), "UTC" | "GMT"))
        .then_some(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds from 30 November 2026, 20:00 in Berlin, which is 19:00 UTC.
    fn wait(message: &str) -> Option<u32> {
        let now = Date::new(2026, 11, 30).unwrap().at(20, 0, 0, 0).in_tz("Europe/Berlin").unwrap();
        named_time(message, &now)
    }

    const HOUR: u32 = 3600;

    #[test]
    fn a_time_on_the_clock_is_the_next_one_of_its_kind() {
        assert_eq!(wait("You've hit your limit · resets 11pm"), Some(3 * HOUR));
        assert_eq!(wait("You've hit your limit · resets 7:30pm"), Some(23 * HOUR + 1800));
        assert_eq!(wait("usage limit. Try again at 9:15 PM."), Some(HOUR + 900));
        assert_eq!(wait("try again at 21:15"), Some(HOUR + 900));
        assert_eq!(wait("resets 12am"), Some(4 * HOUR));
        assert_eq!(wait("resets 10pm (UTC)"), Some(3 * HOUR));
        assert_eq!(wait("resets 9pm (America/New_York)"), Some(7 * HOUR));
    }

    #[test]
    fn a_date_is_taken_with_it_and_a_long_wait_is_cut() {
        assert_eq!(wait("try again at Dec 1st, 2026 3:00 AM."), Some(7 * HOUR));
        assert_eq!(wait("resets Dec 1, 3am (Europe/Berlin)"), Some(7 * HOUR));
        assert_eq!(wait("resets Jan 4 at 3am"), Some(MAX_RETRY_AFTER_S));
        assert_eq!(wait("try again at 2026-11-30T19:10:00Z."), Some(600));
        assert_eq!(wait("retry after 2026-11-30T20:10:00+01:00"), Some(600));
    }

    #[test]
    fn seconds_since_1970_are_read_after_a_bar_or_the_words() {
        assert_eq!(wait("Claude AI usage limit reached|1796065260"), Some(60));
        assert_eq!(wait("Claude AI usage limit reached|1796065260000"), Some(60));
        assert_eq!(wait("resets at 1796065260"), Some(60));
        assert_eq!(until_epoch(1_796_065_260, Timestamp::from_second(1_796_065_200).unwrap()), Some(60));
    }

    #[test]
    fn what_is_over_or_no_time_is_none() {
        for message in [
            "try again at 2026-11-30T18:59:00Z",
            "usage limit reached|1796065199",
            "try again at some point",
            "try again at 5",
            "resets 13pm",
            "resets 25:00",
            "resets Feb 31, 3pm",
            "resets (",
            "",
            "a|b",
            "İ try again at İ",
        ] {
            assert_eq!(wait(message), None, "{message}");
        }
    }
}
