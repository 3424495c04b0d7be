//! Parses durations as people write them: `30s`, `2m`, `500ms`.

use std::time::Duration;

/// Each unit and its milliseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a whole number with a unit.
///
/// # Errors
/// If the text is not a duration. The message says what is accepted.
pub fn parse(text: &str) -> Result<Duration, String> {
    let taken = "a duration is a whole number and ms, s, m, h or d: 500ms, 30s, 7d";
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(taken.to_owned());
    };
    let number: u64 = match number.parse() {
        Ok(0) => return Err("the duration is 0: give at least 1ms".to_owned()),
        Ok(number) => number,
        Err(_) => return Err(taken.to_owned()),
    };
    match number.checked_mul(*factor) {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => Err("the duration is too long".to_owned()),
    }
}

/// Returns the shortest text that [`parse`] reads as this duration, to the millisecond.
#[must_use]
pub fn text(time: Duration) -> String {
    let millis = time.as_millis();
    let whole = UNITS.iter().rev().find(|(_, factor)| millis.is_multiple_of(u128::from(*factor)));
    let (unit, factor) = whole.map_or(("ms", 1), |(unit, factor)| (*unit, u128::from(*factor)));
    format!("{}{unit}", millis / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read() {
        let cases = [
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_in_its_largest_whole_unit() {
        for text in ["500ms", "1500ms", "90s", "2m", "1h", "7d"] {
            assert_eq!(super::text(parse(text).unwrap()), text);
        }
        assert_eq!(super::text(Duration::from_secs(120)), "2m");
    }

    #[test]
    fn anything_else_is_refused() {
        let taken = "a duration is a whole number and ms, s, m, h or d: 500ms, 30s, 7d";
        for text in ["", "30", "s", "-1s", "+1s", "1.5s", " 1s", "1 s", "1S", "1w", "1ss", "é"] {
            assert_eq!(parse(text), Err(taken.to_owned()), "{text:?}");
        }
        assert!(parse("0s").unwrap_err().contains("at least 1ms"));
        assert!(parse("18446744073709551615h").unwrap_err().contains("too long"));
        assert_eq!(parse("99999999999999999999s"), Err(taken.to_owned()));
    }
}
