//! Assembles replies of a cell that arrive in parts, within bounds. Pure: no I/O.

use crate::cells::channel::ChannelError;
use palisade_plan::{
    Path,
    cell::FileReply,
    change::{Effect, Version},
    codec::CodecError,
    evidence::Evidence,
    parts::{ListEntry as _, MOST_EFFECTS, MOST_REPORT_BYTES},
};

/// The parts of a reply that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct PartialReply {
    effects: Vec<Effect>,
    wrote: Vec<(Path, Version)>,
    evidence: Evidence,
    bytes: usize,
}

impl PartialReply {
    /// Stores a part and returns `None`, or completes a final reply with the stored parts.
    pub(super) fn take(&mut self, mut reply: FileReply) -> Result<Option<FileReply>, ChannelError> {
        if let FileReply::Effects(part) = reply {
            self.grow(part.iter().map(Effect::max_encoded_len).sum())?;
            self.effects.extend(part);
            let count = self.effects.len();
            if count > MOST_EFFECTS {
                return Err(ChannelError::Codec(CodecError::TooLarge(count, MOST_EFFECTS)));
            }
            return Ok(None);
        }
        if let FileReply::Wrote(part) = reply {
            self.grow(part.iter().map(|one| one.max_encoded_len()).sum())?;
            self.wrote.extend(part);
            return Ok(None);
        }
        if let FileReply::Evidence(part) = reply {
            self.grow(part.max_encoded_len())?;
            self.evidence.extend(*part);
            return Ok(None);
        }
        let mut first = std::mem::take(self);
        if let FileReply::Prepared(prepared) = &mut reply {
            first.effects.append(&mut prepared.effects);
            prepared.effects = first.effects;
            first.evidence.extend(std::mem::take(&mut *prepared.evidence));
            *prepared.evidence = first.evidence;
        } else if let FileReply::Changed(changed) = &mut reply {
            first.effects.append(&mut changed.effects);
            first.wrote.append(&mut changed.wrote);
            (changed.effects, changed.wrote) = (first.effects, first.wrote);
        }
        Ok(Some(reply))
    }

    /// Counts the bytes of a part. The bounds are enforced here because a cell is not trusted to
    /// keep them.
    fn grow(&mut self, more: usize) -> Result<(), ChannelError> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > 2 * MOST_REPORT_BYTES {
            return Err(ChannelError::Codec(CodecError::TooLarge(
                self.bytes,
                2 * MOST_REPORT_BYTES,
            )));
        }
        Ok(())
    }
}
