//! Replies of a cell that come in parts, put together and bounded. Broker, pure.

use crate::channel::ChannelError;
use palisade_plan::{
    Path,
    cell::FileReply,
    change::{Effect, Version},
    codec::CodecError,
    parts::{Listed as _, MOST_EFFECTS, MOST_TOLD},
};

/// Parts of a reply that is to come.
#[derive(Debug, Default)]
pub(super) struct Collected {
    effects: Vec<Effect>,
    wrote: Vec<(Path, Version)>,
    bytes: usize,
}

impl Collected {
    /// Keeps a part; makes a reply whole of those that were kept.
    pub(super) fn take(&mut self, mut reply: FileReply) -> Result<Option<FileReply>, ChannelError> {
        if let FileReply::Effects(part) = reply {
            self.grow(part.iter().map(Effect::told).sum())?;
            self.effects.extend(part);
            let count = self.effects.len();
            if count > MOST_EFFECTS {
                return Err(ChannelError::Codec(CodecError::TooLarge(count, MOST_EFFECTS)));
            }
            return Ok(None);
        }
        if let FileReply::Wrote(part) = reply {
            self.grow(part.iter().map(|one| one.told()).sum())?;
            self.wrote.extend(part);
            return Ok(None);
        }
        let mut first = std::mem::take(self);
        if let FileReply::Prepared(prepared) = &mut reply {
            first.effects.append(&mut prepared.effects);
            prepared.effects = first.effects;
        } else if let FileReply::Changed(changed) = &mut reply {
            first.effects.append(&mut changed.effects);
            first.wrote.append(&mut changed.wrote);
            (changed.effects, changed.wrote) = (first.effects, first.wrote);
        }
        Ok(Some(reply))
    }

    /// A cell is not believed to keep to the bounds itself.
    fn grow(&mut self, more: usize) -> Result<(), ChannelError> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > 2 * MOST_TOLD {
            return Err(ChannelError::Codec(CodecError::TooLarge(self.bytes, 2 * MOST_TOLD)));
        }
        Ok(())
    }
}
