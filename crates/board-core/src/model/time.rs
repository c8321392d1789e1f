//! A moment, to the millisecond, as files and the API spell it: RFC 3339 in UTC.
//!
//! A type of its own around jiff, so that what the board writes has one spelling and one precision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A moment in UTC, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Last moment that RFC 3339 can spell with four digits of year, in milliseconds since 1970.
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// A text that is not a moment in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a time like 2026-11-30T20:00:00Z")]
pub struct NotATime;

impl Timestamp {
    /// 1970-01-01T00:00:00Z, the earliest moment.
    pub const MIN: Timestamp = Timestamp(0);

    /// From milliseconds since 1970, clamped to the years 1970 to 9999.
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.clamp(0, MAX_MILLIS))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and so many seconds, clamped.
    pub fn plus_seconds(self, seconds: i64) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// Whole seconds from `earlier` to this moment; negative if `earlier` is later.
    pub fn seconds_since(self, earlier: Timestamp) -> i64 {
        (self.0 - earlier.0).div_euclid(1000)
    }

    /// As jiff's type, for time zones.
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_jiff(), f)
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| NotATime)?;
        match parsed.as_millisecond() {
            millis @ 0..=MAX_MILLIS => Ok(Timestamp(millis)),
            _ => Err(NotATime),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_spelled_as_the_job_file_shows_it() {
        let text = "2026-11-30T20:00:00Z";
        let time: Timestamp = text.parse().unwrap();
        assert_eq!(time.to_string(), text);
        assert_eq!(time.plus_seconds(1).seconds_since(time), 1);
        assert_eq!("2026-11-30T21:00:00+01:00".parse::<Timestamp>().unwrap(), time);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "yesterday", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-11-30"] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATime), "{text}");
        }
    }
}
