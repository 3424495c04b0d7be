//! Uids that are for sessions alone, one each, and nobody's otherwise.

use std::{fmt, str::FromStr};

/// Uids and gids that nobody has, and that mean something of their own to the kernel or to programs:
/// the overflow id, the one that 16 bits made of it, and the one that stands for none.
const SPECIAL: [u32; 3] = [65534, 65535, u32::MAX];

/// The first uid that is no account of the system's, and the first that can be a session's.
const LEAST: u32 = 1000;

/// Uids that systemd, and a broker without an account, take for as long as a service runs.
pub const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;

/// A range of uids; the gids of the same numbers go with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl UidRange {
    /// The lowest.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        // A range never holds all numbers: the last of them is special.
        self.last - self.first + 1
    }

    /// Whether a number is one of them.
    #[must_use]
    pub const fn has(self, id: u32) -> bool {
        self.first <= id && id <= self.last
    }

    /// The one after another of them; after the last comes the first.
    #[must_use]
    pub const fn after(self, id: u32) -> u32 {
        if id < self.last { id + 1 } else { self.first }
    }

    /// All of them, one of them first.
    pub fn in_turn(self, from: u32) -> impl Iterator<Item = u32> {
        (from..=self.last).chain(self.first..from)
    }

    /// Whether some of these numbers, from the first on, are among them.
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

/// Why something is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Not two numbers in order.
    #[error("{0:?} is no range of uids, as 600000-665535 is one")]
    Form(String),
    /// Accounts of the system.
    #[error("{0} is below {LEAST}, where the accounts of the system are")]
    Low(u32),
    /// Uids of services.
    #[error("{} to {} are among them, which services get while they run", DYNAMIC.start(), DYNAMIC.end())]
    Dynamic,
    /// One of them is not to be had.
    #[error("{0} is among them, which stands for nobody or none")]
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
