//! A call watched from the command line: output as it comes, Ctrl-C, the result.

mod progress;

pub(crate) use progress::Progress;

use crate::{failure::Failure, interrupt::Interrupts};
use palisade_client::{CallResult, Event, Running, Stream};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Whether anything of the call was shown while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Something,
    Nothing,
}

/// What is made of the bytes of a call's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// They go to the standard streams.
    Shown,
    /// They are in the result.
    Left,
}

/// Watches a call to its end. The bytes of its events, if they are to be shown, go to the two standard streams byte for byte, each
/// written out before the next is taken, so that a slow reader slows the command.
/// How far it is goes to a terminal on standard error.
pub(crate) async fn watch(
    mut running: Running,
    bytes: Bytes,
) -> Result<(CallResult, Shown), Failure> {
    let interrupts = Interrupts::watch()?;
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let mut shown = Shown::Nothing;
    let mut progress = Progress::new();
    loop {
        let event = tokio::select! {
            event = running.next() => event,
            () = interrupts.first() => {
                running.cancel().await?;
                continue;
            }
        };
        match event {
            Some(Event::Progress { message, done, total }) => progress.tell(&message, done, total),
            Some(Event::Output { .. }) if bytes == Bytes::Left => {}
            Some(Event::Output { stream: Stream::Stdout | Stream::Content, data }) => {
                progress.clear();
                write(&mut stdout, &data).await?;
                shown = Shown::Something;
            }
            Some(Event::Output { stream: Stream::Stderr, data }) => {
                progress.clear();
                write(&mut stderr, &data).await?;
                shown = Shown::Something;
            }
            Some(_) => {}
            None => {
                progress.clear();
                return Ok((running.result().await?, shown));
            }
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(stream: &mut W, data: &[u8]) -> Result<(), Failure> {
    let written = async {
        stream.write_all(data).await?;
        stream.flush().await
    };
    written.await.map_err(|error| Failure::output(&error))
}
