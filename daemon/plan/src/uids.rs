//! Ranges of uids that are reserved for sessions, one uid per session. Nobody else has them.

use std::{fmt, str::FromStr};

/// Uids and gids that belong to nobody and have a special meaning: the overflow id, its 16-bit
/// form, and the id that stands for none.
const SPECIAL: [u32; 3] = [65534, 65535, u32::MAX];

/// The lowest uid that a session may have. Lower ones are system accounts.
const LEAST: u32 = 1000;

/// Uids that systemd assigns to services while they run, also to a broker without an account.
pub const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;

/// A range of uids, with the gids of the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl UidRange {
    /// Returns the lowest uid of the range.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// Returns how many uids the range has.
    #[must_use]
    pub const fn count(self) -> u32 {
        // This can not overflow: a range never includes the highest number, which is special.
        self.last - self.first + 1
    }

    /// Returns `true` if an id is in the range.
    #[must_use]
    pub const fn has(self, id: u32) -> bool {
        self.first <= id && id <= self.last
    }

    /// Returns the uid that follows another in the range; the first one follows the last.
    #[must_use]
    pub const fn after(self, id: u32) -> u32 {
        if id < self.last { id + 1 } else { self.first }
    }

    /// Iterates over the whole range, starting at `from` and wrapping around.
    pub fn in_turn(self, from: u32) -> impl Iterator<Item = u32> {
        (from..=self.last).chain(self.first..from)
    }

    /// Returns `true` if the range shares an id with the `count` ids that start at `first`.
    #[must_use]
    pub fn meets(self, first: u32, count: u64) -> bool {
        let end = u64::from(first).saturating_add(count);
        count > 0 && u64::from(first) <= u64::from(self.last) && u64::from(self.first) < end
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// The reason that a text is not a valid range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text is not two numbers in order.
    #[error("{0:?} is not a range of uids, such as 600000-665535")]
    Form(String),
    /// The range includes system accounts.
    #[error("{0} is below {LEAST}, in the range of system accounts")]
    Low(u32),
    /// The range overlaps systemd's dynamic uids.
    #[error("range overlaps systemd's dynamic user ids ({}-{})", DYNAMIC.start(), DYNAMIC.end())]
    Dynamic,
    /// The range includes an id with a special meaning.
    #[error("range contains {0}, which is reserved (nobody, or an invalid id)")]
    Special(u32),
}

impl FromStr for UidRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let form = || RangeError::Form(text.to_owned());
        let (first, last) = text.split_once('-').ok_or_else(form)?;
        let number = |word: &str| match word.bytes().all(|byte| byte.is_ascii_digit()) {
            true => word.parse::<u32>().map_err(|_| form()),
            false => Err(form()),
        };
        let range = Self { first: number(first)?, last: number(last)? };
        if range.first > range.last {
            return Err(form());
        }
        if range.first < LEAST {
            return Err(RangeError::Low(range.first));
        }
        if range.first <= *DYNAMIC.end() && *DYNAMIC.start() <= range.last {
            return Err(RangeError::Dynamic);
        }
        match SPECIAL.into_iter().find(|special| range.has(*special)) {
            Some(special) => Err(RangeError::Special(special)),
            None => Ok(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_numbers_in_order_that_are_nobodys() {
        let range: UidRange = "600000-665535".parse().unwrap();
        assert_eq!(
            (range.first(), range.count(), range.to_string()),
            (600_000, 65_536, "600000-665535".into())
        );
        assert!(
            range.has(600_000) && range.has(665_535) && !range.has(599_999) && !range.has(665_536)
        );
        for bad in [
            "",
            "-",
            "5",
            "600000",
            "600000-",
            "-600000",
            "7-x",
            "+600000-600001",
            "2000-1999",
            "2000-4294967296",
        ] {
            assert_eq!(bad.parse::<UidRange>(), Err(RangeError::Form(bad.into())), "{bad}");
        }
        assert_eq!("999-2000".parse::<UidRange>(), Err(RangeError::Low(999)));
        assert_eq!("60000-61184".parse::<UidRange>(), Err(RangeError::Dynamic));
        for (bad, special) in
            [("65520-65534", 65534), ("65535-65540", 65535), ("4000000000-4294967295", u32::MAX)]
        {
            assert_eq!(bad.parse::<UidRange>(), Err(RangeError::Special(special)), "{bad}");
        }
    }

    #[test]
    fn two_ranges_meet_where_they_share_a_number() {
        let range: UidRange = "600000-600009".parse().unwrap();
        for (first, count, meets) in [
            (599_990, 10, false),
            (599_990, 11, true),
            (600_009, 1, true),
            (600_010, 65_536, false),
            (0, u64::MAX, true),
            (600_005, 0, false),
        ] {
            assert_eq!(range.meets(first, count), meets, "{first} {count}");
        }
    }
}
