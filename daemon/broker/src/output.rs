//! Takes in what a program prints: into the result, the spool and the client's events. Broker.

use crate::{
    capture::Capture,
    context::{Context, Streaming},
    outcome::Outcome,
    spool::Spool,
    streams::{Held, Piece, Source, Taker},
};
use palisade_protocol::Stream;
use std::io;
use tokio::sync::watch;

/// What a program prints.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    context: &'a Context,
    stdout: Capture,
    stderr: Capture,
    merged: Capture,
    spool: SpoolState,
    held: Held,
}

#[derive(Debug)]
enum SpoolState {
    /// A job keeps it.
    Elsewhere,
    NotNeeded,
    Open(Spool),
    /// It could not be written: the result still stands, without a spool.
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
            held: Held::No,
        }
    }

    /// The same where a job keeps the spool.
    pub(crate) fn of_job(context: &'a Context) -> Self {
        Self { spool: SpoolState::Elsewhere, ..Self::new(context) }
    }

    /// Bytes taken in so far.
    pub(crate) const fn total(&self) -> u64 {
        self.merged.total()
    }

    /// Takes in a source until it is at its end.
    pub(crate) async fn pump(
        &mut self,
        source: Source,
        over: watch::Receiver<bool>,
    ) -> io::Result<()> {
        self.held = source.pump(over, self).await?;
        Ok(())
    }

    /// Puts the bytes into the spool, which begins when the result can not hold everything.
    async fn keep(&mut self, bytes: &[u8]) {
        let written = match &mut self.spool {
            SpoolState::NotNeeded if self.merged.holds(bytes.len()) => return,
            SpoolState::NotNeeded => self.begin(bytes).await,
            SpoolState::Open(spool) => spool.write(bytes).await,
            SpoolState::Failed | SpoolState::Elsewhere => return,
        };
        if let Err(error) = written {
            tracing::warn!(call = %self.context.call_id, %error, "no spool for a call's output");
            self.spool = SpoolState::Failed;
            // A disk that it filled is needed for the log.
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

    /// What the result says of the output.
    pub(crate) async fn finish(self) -> Outcome {
        let total = self.merged.total();
        let spooled = match self.spool {
            SpoolState::Open(spool) => spool
                .finish(total)
                .await
                .inspect_err(|error| tracing::warn!(%error, "a spool was not completed"))
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
            pipe_held: self.held == Held::Yes,
            spooled,
            ..Outcome::default()
        }
    }
}

impl Taker for Output<'_> {
    async fn take(&mut self, (stream, bytes): Piece) {
        if let Some(tap) = &self.context.tap {
            tap.hear(stream, &bytes);
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
