//! SHA-256 of a line or of text, written as 64 hexadecimal digits. Pure: no I/O.

use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{fmt, str::FromStr};

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash([u8; 32]);

/// Length and hash of content that is not kept in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256 of the content.
    pub sha256: Hash,
}

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 hexadecimal digits in lower case")]
pub struct HashError;

impl Hash {
    /// The hash before the first line of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// Returns the hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(<Sha256 as sha2::Digest>::digest(bytes).into())
    }
}

impl Hash {
    /// Begins a hash of bytes that are added piece by piece.
    pub(crate) fn begin() -> Hasher {
        Hasher(<Sha256 as sha2::Digest>::new())
    }
}

/// A hash that is still being computed.
#[derive(Debug)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        sha2::Digest::update(&mut self.0, bytes);
    }

    pub(crate) fn end(self) -> Hash {
        Hash(sha2::Digest::finalize(self.0).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&palisade_text::hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        palisade_text::parse_hex(text).map(Self).ok_or(HashError)
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<String> for Hash {
    type Error = HashError;

    fn try_from(text: String) -> Result<Self, HashError> {
        text.parse()
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_sha256sum_prints() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hash::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Hash::of(b"")));
        assert_eq!(empty.to_uppercase().parse::<Hash>(), Err(HashError));
        assert_eq!(empty[1..].parse::<Hash>(), Err(HashError));
        assert_eq!("é".repeat(32).parse::<Hash>(), Err(HashError));
    }
}
