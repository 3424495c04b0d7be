//! The loss that deleting an undo record would be. Runs in the broker. Pure: no I/O.

use super::frame::{self, HEADER, Tag};

/// The loss if a record were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionLoss {
    /// A state of a file that the session itself had not made. The record is stored for
    /// `undo.keep`.
    Loss,
    /// At most earlier states of the session's own files. The record is deleted when space is
    /// needed.
    OwnWork,
}

/// The length of the frame that stores this value, in bytes.
pub(super) const MARK: usize = HEADER + 33;

impl DeletionLoss {
    const fn byte(self) -> u8 {
        match self {
            Self::Loss => b'l',
            Self::OwnWork => b'o',
        }
    }

    /// Appends the frame, the last one of a file: a reader that does not know it stops there.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        frame::put(out, Tag::Mark, &frame::sealed(&[self.byte()]));
    }

    /// Parses the last bytes of a file. Records of earlier builds, and incomplete ones, have no
    /// such frame: they count as a loss.
    pub(super) fn read(tail: &[u8]) -> Self {
        let own = || {
            let (header, payload) = tail.split_at_checked(HEADER)?;
            let (tag, _) = frame::header(header.try_into().ok()?)?;
            let own = frame::unsealed(payload)? == [Self::OwnWork.byte()];
            (tag == Tag::Mark && own).then_some(Self::OwnWork)
        };
        own().unwrap_or(Self::Loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_intact_mark_says_that_a_record_may_go() {
        for holds in [DeletionLoss::Loss, DeletionLoss::OwnWork] {
            let mut frame = Vec::new();
            holds.put(&mut frame);
            assert_eq!((frame.len(), DeletionLoss::read(&frame)), (MARK, holds));
            for at in 0..frame.len() {
                let mut flipped = frame.clone();
                flipped[at] ^= 1;
                // The length field is not read, since the length is fixed.
                let unread = (1..HEADER).contains(&at);
                let expected = if unread { holds } else { DeletionLoss::Loss };
                assert_eq!(DeletionLoss::read(&flipped), expected, "{at}");
                assert_eq!(DeletionLoss::read(&frame[..at]), DeletionLoss::Loss, "{at}");
            }
        }
    }
}
