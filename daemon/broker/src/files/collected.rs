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
    pub(super) fn take(&mut self, reply: FileReply) -> Result<Option<FileReply>, ChannelError> {
        Ok(Some(match reply {
            FileReply::Effects(part) => {
                self.grow(part.iter().map(Effect::told).sum())?;
                self.effects.extend(part);
                if self.effects.len() > MOST_EFFECTS {
                    let count = self.effects.len();
                    return Err(ChannelError::Codec(CodecError::TooLarge(count, MOST_EFFECTS)));
                }
                return Ok(None);
            }
            FileReply::Wrote(part) => {
                self.grow(part.iter().map(|one| one.told()).sum())?;
                self.wrote.extend(part);
                return Ok(None);
            }
            FileReply::Prepared(mut prepared) => {
                let first = std::mem::take(self);
                prepared.effects = [first.effects, prepared.effects].concat();
                FileReply::Prepared(prepared)
            }
            FileReply::Changed(mut changed) => {
                let first = std::mem::take(self);
                changed.effects = [first.effects, changed.effects].concat();
                changed.wrote = [first.wrote, changed.wrote].concat();
                FileReply::Changed(changed)
            }
            other => {
                *self = Self::default();
                other
            }
        }))
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
