//! The file of one call: a magic, then frames, only ever added to. What is torn is seen by its
//! length or its digest. Broker, pure.

use sha2::{Digest as _, Sha256};

/// How each file begins.
pub(super) const MAGIC: &[u8; 8] = b"palundo1";
/// Tag and length.
pub(super) const HEADER: usize = 5;

/// What a frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// Whose it is; the first.
    Head = 1,
    /// What was at one path.
    Before = 2,
    /// A piece of the file that the last `Before` is about.
    Content = 3,
    /// The digest of everything in front of it: from here on the change may have been done.
    Ready = 4,
    /// The change was done, and this is what it left; the digest of that in front.
    After = 5,
    /// The digest of the change, by which the cell knows it again.
    Change = 6,
    /// A part of what the change left; `After` has the last. The digest of it in front.
    Left = 7,
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
        ]
        .into_iter()
        .find(|tag| *tag as u8 == byte)
    }
}

/// Adds a frame.
pub(super) fn put(out: &mut Vec<u8>, tag: Tag, payload: &[u8]) {
    // Longer ones are cut where they are made: a message of a channel is far shorter.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.push(tag as u8);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(payload);
}

/// A frame's tag and length; none if it is no frame.
pub(super) fn header(bytes: [u8; HEADER]) -> Option<(Tag, u32)> {
    let [tag, a, b, c, d] = bytes;
    Some((Tag::of(tag)?, u32::from_le_bytes([a, b, c, d])))
}

/// Bytes with their digest in front.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Sha256::digest(bytes).to_vec();
    out.extend_from_slice(bytes);
    out
}

/// The same the other way round; none if the digest is another's.
pub(super) fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let (digest, rest) = bytes.split_at_checked(32)?;
    (Sha256::digest(rest).as_slice() == digest).then_some(rest)
}
