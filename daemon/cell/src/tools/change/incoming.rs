//! What the broker sends while a change is under way. Room: the cell.

use crate::{channel::Channel, tools::Stop};
use palisade_channel::ChannelError;
use palisade_plan::cell::{FileError, FileRequest};

const OUT_OF_ORDER: &str = "another request came before the end of a change";

/// What the broker sends while a change is under way.
pub(super) struct Incoming<'a> {
    pub(super) channel: &'a Channel,
}

impl Incoming<'_> {
    /// The next message; that the call is given up is no message.
    fn next(&self) -> Result<FileRequest, Stop> {
        let Some((request, fds)) = self.channel.receive::<FileRequest>()? else {
            return Err(Stop::Closed);
        };
        if !fds.is_empty() {
            return Err(ChannelError::Descriptors { expected: 0, received: fds.len() }.into());
        }
        if request == FileRequest::Abandon {
            return Err(Stop::Abandoned);
        }
        Ok(request)
    }

    /// Hands over the pieces up to the last of one content.
    pub(super) fn content(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), FileError>,
    ) -> Result<(), Stop> {
        loop {
            let FileRequest::Content { data, end } = self.next()? else {
                return Err(Stop::OutOfOrder(OUT_OF_ORDER));
            };
            take(&data)?;
            if end {
                return Ok(());
            }
        }
    }

    /// Waits until what was prepared is to be done.
    pub(super) fn decision(&self) -> Result<(), Stop> {
        if self.next()? == FileRequest::Commit {
            return Ok(());
        }
        Err(Stop::OutOfOrder(OUT_OF_ORDER))
    }
}
