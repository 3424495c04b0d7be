//! Watches a call from the command line: its output while it arrives, Ctrl-C, the result.

pub(crate) mod escape;
mod progress;

pub(crate) use progress::Progress;

mod interrupt;

use crate::{approve::terminal, failure::Failure};
use escape::{Controls, Escaper};
use interrupt::Interrupts;
use palisade_client::{CallResult, Event, Running, Stream};
use tokio::io::{AsyncWrite, AsyncWriteExt as _, Stderr, Stdout};

/// The output of the call that was shown while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputShown {
    Something,
    Nothing,
}

/// The handling of the bytes of a call's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// Write them to the standard streams, with these control sequences.
    Shown(Controls),
    /// Ignore them: they are in the result.
    Left,
}

/// Watches a call to its end. If the bytes of its events are to be shown, they go to the two
/// standard streams. Each piece is written before the next is taken, so that a slow reader slows
/// the command.
///
/// Files and pipes get every byte. A terminal gets them as [`Escaper`] describes, and not while it
/// shows an approval request. Progress is shown on standard error if that is a terminal, and a wait
/// for approval is told there anyway.
pub(crate) async fn watch(
    mut running: Running,
    bytes: Bytes,
) -> Result<(CallResult, OutputShown), Failure> {
    let interrupts = Interrupts::watch()?;
    let mut sinks = match bytes {
        Bytes::Shown(controls) => Some(Sinks::new(controls)),
        Bytes::Left => None,
    };
    let mut shown = OutputShown::Nothing;
    let mut progress = Progress::new();
    loop {
        let event = tokio::select! {
            event = running.next() => event,
            () = interrupts.first() => {
                running.cancel().await?;
                continue;
            }
            () = progress.due() => {
                let _turn = terminal::SCREEN.lock().await;
                progress.refresh();
                continue;
            }
        };
        let _turn = terminal::SCREEN.lock().await;
        match (event, &mut sinks) {
            (Some(Event::Progress { message, done, total }), _) => {
                progress.show(&message, done, total);
            }
            (Some(Event::Output { stream, data }), Some(sinks)) => {
                progress.clear();
                sinks.write(stream, &data).await?;
                shown = OutputShown::Something;
            }
            (Some(_), _) => {}
            (None, sinks) => {
                progress.clear();
                if let Some(sinks) = sinks {
                    sinks.finish().await?;
                }
                return Ok((running.result().await?, shown));
            }
        }
    }
}

/// The two standard streams.
struct Sinks {
    stdout: (Stdout, Escaper),
    stderr: (Stderr, Escaper),
}

impl Sinks {
    fn new(controls: Controls) -> Self {
        Self {
            stdout: (tokio::io::stdout(), Escaper::stdout(controls)),
            stderr: (tokio::io::stderr(), Escaper::stderr(controls)),
        }
    }

    async fn write(&mut self, stream: Stream, data: &[u8]) -> Result<(), Failure> {
        match stream {
            Stream::Stdout | Stream::Content => {
                let (stdout, escaper) = &mut self.stdout;
                write(stdout, &escaper.push(data)).await
            }
            Stream::Stderr => {
                let (stderr, escaper) = &mut self.stderr;
                write(stderr, &escaper.push(data)).await
            }
        }
    }

    /// Writes the bytes that were held back.
    async fn finish(&mut self) -> Result<(), Failure> {
        let ((stdout, out), (stderr, err)) = (&mut self.stdout, &mut self.stderr);
        write(stdout, &out.finish()).await?;
        write(stderr, &err.finish()).await
    }
}

async fn write<W: AsyncWrite + Unpin>(stream: &mut W, data: &[u8]) -> Result<(), Failure> {
    if data.is_empty() {
        return Ok(());
    }
    let written = async {
        stream.write_all(data).await?;
        stream.flush().await
    };
    written.await.map_err(|error| Failure::output(&error))
}
