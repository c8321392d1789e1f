//! Times for people: how long ago, and the hour of the day where the board stands.
use board_core::model::time::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A duration in the two units that matter: `12 s`, `3 min`, `2 h 05 min`, `4 d 3 h`.
pub(crate) fn span(seconds: i64) -> String {
    match seconds.max(0) {
        s if s < MINUTE => format!("{s} s"),
        s if s < HOUR => format!("{} min", s / MINUTE),
        s if s < DAY => format!("{} h {:02} min", s / HOUR, s % HOUR / MINUTE),
        s => format!("{} d {} h", s / DAY, s % DAY / HOUR),
    }
}

/// The time zone of this name; UTC where the host does not know it.
pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// The time of day, `20:04:11`.
pub(crate) fn time_of_day(at: Timestamp, zone: &TimeZone) -> String {
    at.to_jiff().to_zoned_datetime(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Day and time, `2026-11-30 20:04`.
pub(crate) fn day_and_time(at: Timestamp, zone: &TimeZone) -> String {
    at.to_jiff().to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_names_the_units_that_matter() {
        for (seconds, said) in [
            (-5, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h 00 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 d 0 h"),
        ] {
            assert_eq!(span(seconds), said);
        }
    }

    #[test]
    fn a_time_is_told_in_the_zone_of_the_board_and_in_utc_where_that_is_unknown() {
        let at: Timestamp = "2026-11-30T20:04:11Z".parse().unwrap();
        assert_eq!(time_of_day(at, &zone("Nowhere/Atlantis")), "20:04:11");
        assert_eq!(day_and_time(at, &TimeZone::fixed(jiff::tz::offset(1))), "2026-11-30 21:04");
    }
}
