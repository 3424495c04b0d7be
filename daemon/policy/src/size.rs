//! Sizes as people write them: `"2 GiB"`, or a plain number of bytes. Pure: no I/O.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A nonzero number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    pub(crate) const fn kib(n: u32) -> Self {
        Self((n as u64) << 10)
    }

    pub(crate) const fn mib(n: u32) -> Self {
        Self((n as u64) << 20)
    }

    /// Returns a size of `n` GiB.
    #[must_use]
    pub const fn gib(n: u32) -> Self {
        Self((n as u64) << 30)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim_start() {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "TiB" => 40,
            _ => return None,
        };
        let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
        (bytes > 0).then_some(Self(bytes))
    }
}

impl fmt::Display for Size {
    /// Writes the size in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
        let whole = |(shift, _): &&(u32, &str)| self.0.trailing_zeros() >= *shift;
        let (shift, unit) = units.iter().find(whole).unwrap_or(&(0, "B"));
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size above zero such as \"2 GiB\", \"100 KiB\" or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                match u64::try_from(bytes) {
                    Ok(bytes) if bytes > 0 => Ok(Size(bytes)),
                    Ok(_) | Err(_) => Err(E::invalid_value(de::Unexpected::Signed(bytes), &self)),
                }
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                if bytes == 0 {
                    return Err(E::invalid_value(de::Unexpected::Unsigned(bytes), &self));
                }
                Ok(Size(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        for (text, bytes) in [
            ("1", 1),
            ("7 B", 7),
            ("100 KiB", 102_400),
            ("10MiB", 10_485_760),
            ("2 GiB", 2_147_483_648),
            ("1 TiB", 1_099_511_627_776),
        ] {
            assert_eq!(Size::parse(text), Some(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "0", "0 GiB", "GiB", "-1", "1.5 GiB", "2 GB", "2 gib", "99999999 TiB", "1 2"]
        {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }
}
