//! The last bytes of an endless stream, each at its offset in the stream. Pure: no I/O.

use std::collections::VecDeque;

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    most: usize,
    total: u64,
}

impl Ring {
    /// Makes a ring that holds at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most, total: 0 }
    }

    /// The number of bytes seen so far.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// The offset of the first byte that is held.
    pub(super) fn start(&self) -> u64 {
        self.total - self.bytes.len() as u64
    }

    /// Returns `true` if `more` bytes fit without losing any.
    pub(super) fn holds(&self, more: usize) -> bool {
        self.bytes.len() + more <= self.most
    }

    /// Adds the next bytes, and drops the oldest ones.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let kept = bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default();
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.most);
        self.bytes.drain(..over);
        self.bytes.extend(kept);
    }

    /// At most `limit` bytes from an offset on; `None` if that offset is not held.
    pub(super) fn from(&self, place: u64, limit: usize) -> Option<Vec<u8>> {
        let skip = usize::try_from(place.checked_sub(self.start())?).ok()?;
        Some(self.bytes.iter().skip(skip).take(limit).copied().collect())
    }

    /// All bytes that are held.
    pub(super) fn held(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }

    /// Drops all bytes: they are stored elsewhere.
    pub(super) fn clear(&mut self) {
        self.bytes = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_bytes_stay_at_their_place() {
        let mut ring = Ring::new(4);
        ring.push(b"abc");
        assert_eq!((ring.start(), ring.from(1, 9)), (0, Some(b"bc".to_vec())));
        ring.push(b"def");
        assert_eq!((ring.start(), ring.total()), (2, 6));
        assert_eq!(ring.from(1, 9), None);
        assert_eq!(ring.from(2, 3), Some(b"cde".to_vec()));
        assert_eq!(ring.from(6, 9), Some(Vec::new()));
        ring.push(b"0123456789");
        assert_eq!((ring.start(), ring.held()), (12, b"6789".to_vec()));
        ring.clear();
        assert_eq!((ring.start(), ring.total()), (16, 16));
    }

    proptest! {
        #[test]
        fn what_is_held_is_the_end_of_the_whole(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            most in 0_usize..64,
        ) {
            let mut ring = Ring::new(most);
            for piece in &pieces {
                ring.push(piece);
                prop_assert!(ring.bytes.len() <= most);
            }
            let whole = pieces.concat();
            prop_assert_eq!(ring.total(), whole.len() as u64);
            prop_assert_eq!(ring.held(), whole[whole.len().saturating_sub(most)..].to_vec());
        }
    }
}
