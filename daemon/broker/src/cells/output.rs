//! Collects a program's output for the result, the output store (spool) and the client's events.
//! Runs in the broker.

use crate::{
    base::{capture::Capture, outcome::Outcome},
    cells::{
        context::{Context, Streaming},
        streams::{OutputConsumer, OutputPiece, OutputSource, PipeState},
    },
    stores::spool::Spool,
};
use palisade_protocol::Stream;
use std::io;
use tokio::sync::watch;

/// The output of a program, while it is collected.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    context: &'a Context,
    stdout: Capture,
    stderr: Capture,
    merged: Capture,
    spool: SpoolState,
    held: PipeState,
}

#[derive(Debug)]
enum SpoolState {
    /// A job stores the full output itself.
    Elsewhere,
    NotNeeded,
    Open(Spool),
    /// The spool could not be written; the result is still valid, without full output.
    Failed,
}

impl<'a> Output<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        let most = usize::try_from(context.session.profile.output_bytes()).unwrap_or(usize::MAX);
        Self {
            context,
            stdout: Capture::new(most),
            stderr: Capture::new(most),
            merged: Capture::new(most),
            spool: SpoolState::NotNeeded,
            held: PipeState::No,
        }
    }

    /// Collects output of a job, which stores the full output itself.
    pub(crate) fn of_job(context: &'a Context) -> Self {
        Self { spool: SpoolState::Elsewhere, ..Self::new(context) }
    }

    /// Returns the number of bytes collected so far.
    pub(crate) const fn total(&self) -> u64 {
        self.merged.total()
    }

    /// Collects output from a source until it ends.
    pub(crate) async fn pump(
        &mut self,
        source: OutputSource,
        over: watch::Receiver<bool>,
    ) -> io::Result<()> {
        self.held = source.pump(over, self).await?;
        Ok(())
    }

    /// Writes the bytes to the spool, which is created once the result can not hold all output.
    async fn keep(&mut self, bytes: &[u8]) {
        let written = match &mut self.spool {
            SpoolState::NotNeeded if self.merged.holds(bytes.len()) => return,
            SpoolState::NotNeeded => self.begin(bytes).await,
            SpoolState::Open(spool) => spool.write(bytes).await,
            SpoolState::Failed | SpoolState::Elsewhere => return,
        };
        if let Err(error) = written {
            tracing::warn!(call = %self.context.call_id, %error, "full output can not be stored");
            self.spool = SpoolState::Failed;
            // The output may have filled the disk, and the audit log needs space.
            self.context.spools.remove(&self.context.call_id).await;
        }
    }

    async fn begin(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Context { session, spools, call_id, .. } = self.context;
        let room = session.profile.spool_bytes();
        let mut spool = spools.create(call_id, session.uid(), room).await?;
        let (head, tail) = self.merged.whole().ok_or(io::ErrorKind::InvalidData)?;
        spool.write(head).await?;
        spool.write(tail).await?;
        spool.write(bytes).await?;
        self.spool = SpoolState::Open(spool);
        Ok(())
    }

    /// Returns an outcome with the collected output.
    pub(crate) async fn finish(self) -> Outcome {
        let total = self.merged.total();
        let spooled = match self.spool {
            SpoolState::Open(spool) => spool
                .finish(total)
                .await
                .inspect_err(
                    |error| tracing::warn!(%error, "full output was not stored completely"),
                )
                .is_ok(),
            SpoolState::NotNeeded | SpoolState::Failed | SpoolState::Elsewhere => false,
        };
        let (merged, stdout, stderr) =
            (self.merged.finish(), self.stdout.finish(), self.stderr.finish());
        Outcome {
            output: merged.text,
            stdout: stdout.text,
            stderr: stderr.text,
            lossy: merged.lossy || stdout.lossy || stderr.lossy,
            omitted: merged.omitted,
            pipe_held: self.held == PipeState::Yes,
            spooled,
            ..Outcome::default()
        }
    }
}

impl OutputConsumer for Output<'_> {
    async fn take(&mut self, (stream, bytes): OutputPiece) {
        if let Some(tap) = &self.context.tap {
            tap.receive(stream, &bytes);
        }
        self.keep(&bytes).await;
        self.merged.push(&bytes);
        match stream {
            Stream::Stdout => self.stdout.push(&bytes),
            Stream::Stderr | Stream::Content => self.stderr.push(&bytes),
        }
        self.context.show(stream, &bytes);
        if self.context.streaming == Streaming::Live {
            self.context.send(stream, bytes).await;
        }
    }
}
