//! Splits lists of a change that may be too long for one message, and bounds their total length.

use crate::{
    Path,
    change::{Attribute, Effect, Print, Restoration, State, Version},
};
use bincode::{Decode, Encode};

/// Most effects of one change. A larger change is refused, and can be made in several steps.
pub const MOST_EFFECTS: usize = 100_000;

/// Most bytes that the effects of one change take as messages.
pub const MOST_REPORT_BYTES: usize = 48 * 1024 * 1024;

/// Most bytes of one part of a list.
const PART: usize = 1024 * 1024;

/// An entry of a list that may be too long for one message.
pub trait ListEntry {
    /// Returns an upper bound for the bytes that the entry takes in a message.
    fn max_encoded_len(&self) -> usize;
}

/// Bytes that an entry takes besides its names, at most.
pub(crate) const ENTRY: usize = 192;

impl ListEntry for Path {
    fn max_encoded_len(&self) -> usize {
        self.0.len() + ENTRY
    }
}

impl ListEntry for (Path, Version) {
    fn max_encoded_len(&self) -> usize {
        self.0.max_encoded_len()
    }
}

impl ListEntry for (Path, Print) {
    fn max_encoded_len(&self) -> usize {
        self.0.max_encoded_len() + self.1.max_encoded_len()
    }
}

impl ListEntry for Print {
    fn max_encoded_len(&self) -> usize {
        if let Self::Symlink { target } = self { target.max_encoded_len() } else { ENTRY }
    }
}

impl ListEntry for Effect {
    fn max_encoded_len(&self) -> usize {
        let from = self.kind.moved_from().map_or(0, |from| from.0.len());
        self.path.max_encoded_len() + from + self.print.max_encoded_len()
    }
}

impl ListEntry for Restoration {
    fn max_encoded_len(&self) -> usize {
        match self {
            Self::Put { path, expect, state, attributes } => {
                let target = if let State::Symlink { target } = state {
                    target.max_encoded_len()
                } else {
                    0
                };
                let each = |(name, value): &Attribute| name.len() + value.len() + ENTRY;
                let attributes: usize = attributes.iter().map(each).sum();
                path.max_encoded_len() + expect.max_encoded_len() + target + attributes
            }
            Self::Rename { from, to, expect } => {
                from.max_encoded_len() + to.max_encoded_len() + expect.max_encoded_len()
            }
            Self::Revert { path, expect, .. } => path.max_encoded_len() + expect.max_encoded_len(),
        }
    }
}

/// Splits a list into parts that each fit into a message. There is always at least one part, which
/// may be empty.
#[must_use]
pub fn parts<T: ListEntry>(list: Vec<T>) -> Vec<Vec<T>> {
    let mut parts = vec![Vec::new()];
    let mut size = 0_usize;
    for one in list {
        let length = one.max_encoded_len();
        size = size.saturating_add(length);
        if size > PART {
            size = length;
            parts.push(Vec::new());
        }
        if let Some(last) = parts.last_mut() {
            last.push(one);
        }
    }
    parts
}

/// Entries of a [`Change`](crate::change::Change)'s list, sent before the change itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ActPart {
    /// Entries of the list of [`Act::Settle`](crate::change::Act::Settle).
    Leave(Vec<Path>),
    /// Entries of the list of [`Act::Restore`](crate::change::Act::Restore).
    Entries(Vec<Restoration>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn every_part_fits_into_a_message_and_nothing_is_lost() {
        let path = |number: usize| Path(vec![b'x'; number % 4096]);
        let list: Vec<Path> = (0..20_000).map(path).collect();
        let cut = parts(list.clone());
        assert!(cut.len() > 10);
        for part in &cut {
            let bytes = codec::encode(&ActPart::Leave(part.clone())).unwrap();
            assert!(bytes.len() <= PART + 4096 + ENTRY, "{}", bytes.len());
        }
        assert_eq!(cut.concat(), list);
        assert_eq!(parts::<Path>(Vec::new()), [Vec::new()]);
    }
}
