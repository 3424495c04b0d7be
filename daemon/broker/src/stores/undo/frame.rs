//! The file format of an undo record: a magic, then frames, only ever appended. A torn frame is
//! detected by its length or its digest. Runs in the broker. Pure: no I/O.

use sha2::{Digest as _, Sha256};

/// The magic at the beginning of each file.
pub(super) const MAGIC: &[u8; 8] = b"palundo1";
/// The length of a frame's header: tag and length.
pub(super) const HEADER: usize = 5;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// The record's head, with its owner; always the first frame.
    Head = 1,
    /// The earlier state of one path.
    Before = 2,
    /// A piece of the file that the last `Before` names.
    Content = 3,
    /// The digest of everything before it. From here on the change may have been made.
    Ready = 4,
    /// The state that the change left, preceded by its digest. The change was made.
    After = 5,
    /// The digest of the change, by which the cell recognises it.
    Change = 6,
    /// A part of what the change left, preceded by its digest; `After` has the last part.
    Left = 7,
    /// The loss that deleting the record would be, preceded by its digest. The last frame, at the
    /// end of the file.
    Mark = 8,
    /// The extended attributes of the file that the last `Before` names.
    Attributes = 9,
}

impl Tag {
    fn of(byte: u8) -> Option<Self> {
        [
            Self::Head,
            Self::Before,
            Self::Content,
            Self::Ready,
            Self::After,
            Self::Change,
            Self::Left,
            Self::Mark,
            Self::Attributes,
        ]
        .into_iter()
        .find(|tag| *tag as u8 == byte)
    }
}

/// Appends a frame.
pub(super) fn put(out: &mut Vec<u8>, tag: Tag, payload: &[u8]) {
    // Can not happen: longer payloads are cut where they are made, and a channel's message is far
    // shorter.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.push(tag as u8);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Parses a frame's header into tag and length; `None` if it is invalid.
pub(super) fn header(bytes: [u8; HEADER]) -> Option<(Tag, u32)> {
    let [tag, a, b, c, d] = bytes;
    Some((Tag::of(tag)?, u32::from_le_bytes([a, b, c, d])))
}

/// Prefixes bytes with their digest.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Sha256::digest(bytes).to_vec();
    out.extend_from_slice(bytes);
    out
}

/// Returns the bytes behind their digest; `None` if the digest does not match.
pub(super) fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let (digest, rest) = bytes.split_at_checked(32)?;
    (Sha256::digest(rest).as_slice() == digest).then_some(rest)
}
