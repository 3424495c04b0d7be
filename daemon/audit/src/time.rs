//! A time, written as RFC 3339 in UTC with milliseconds. Pure except for reading the clock.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const DAY: i64 = 24 * 60 * 60 * 1000;
/// The last millisecond of the year 9999. RFC 3339 can not express later years.
const LAST: i64 = 253_402_300_799_999;

/// A time in milliseconds since 1970, within the years 0 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

/// The text is not a time in the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time is written as 2026-01-31T12:34:56.789Z")]
pub struct TimeError;

impl Timestamp {
    /// Returns the time of the system's clock, which may have been set back since the previous
    /// record.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(LAST).min(LAST))
    }

    /// Returns the milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the time that has passed since an earlier time; zero if the clock was set back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or_default())
    }

    /// Creates a time from milliseconds since 1970, limited to the range that can be written.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(days(0, 1, 1) * DAY, LAST))
    }
}

/// Returns the days since 1970-01-01 of a date in the proleptic Gregorian calendar. Years are
/// counted from March, so that the leap day comes last.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the date of a day since 1970-01-01; the inverse of [`days`].
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.div_euclid(DAY));
        let rest = self.0.rem_euclid(DAY);
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, milli) = (rest / 1000 % 60, rest % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let bytes = text.as_bytes();
        let number = |range: std::ops::Range<usize>| {
            let digits = bytes.get(range).ok_or(TimeError)?;
            digits.iter().try_fold(0, |number: i64, digit| match digit {
                b'0'..=b'9' => Ok(number * 10 + i64::from(digit - b'0')),
                _ => Err(TimeError),
            })
        };
        let day = days(number(0..4)?, number(5..7)?, number(8..10)?);
        let of_day = number(11..13)? * 3_600_000 + number(14..16)? * 60_000;
        let time = Self(day * DAY + of_day + number(17..19)? * 1000 + number(20..23)?);
        // A text is accepted only if formatting the time gives the same text, which checks
        // separators and ranges.
        if time.to_string() == text { Ok(time) } else { Err(TimeError) }
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimeError;

    fn try_from(text: String) -> Result<Self, TimeError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (LAST, "9999-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(millis)));
        }
    }

    #[test]
    fn nothing_else_is_a_time() {
        for text in [
            "",
            "2026-01-31T12:34:56Z",
            "2026-01-31T12:34:56.789+00:00",
            "2026-02-30T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-01-31 12:34:56.789Z",
            "2026-01-31T24:00:00.000Z",
            "2026-01-31T12:34:56.789Zx",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimeError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in -62_167_219_200_000..=LAST) {
            let time = Timestamp::from_millis(millis);
            prop_assert_eq!(time.0, millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
