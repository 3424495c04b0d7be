//! The messages that the broker sends during a change. Runs in the cell.

use crate::tools::Stop;
use palisade_channel::{Channel, ChannelError};
use palisade_plan::cell::{FileError, FileRequest};

const OUT_OF_ORDER: &str = "another request came before the end of a change";

/// The receiver of the broker's messages during a change.
pub(super) struct MessageReceiver<'a> {
    pub(super) channel: &'a Channel,
}

impl MessageReceiver<'_> {
    /// Receives the next message. `Abandon` is returned as an error.
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

    /// Passes each piece of one content to `take`, up to the last.
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

    /// Waits until the broker says to make the prepared change.
    pub(super) fn decision(&self) -> Result<(), Stop> {
        if self.next()? == FileRequest::Commit {
            return Ok(());
        }
        Err(Stop::OutOfOrder(OUT_OF_ORDER))
    }
}
