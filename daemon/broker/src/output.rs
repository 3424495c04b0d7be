//! Takes in what a program prints: into the result, the spool and the client's events. Broker.

use crate::{
    capture::Capture,
    context::{Context, Streaming},
    outcome::Outcome,
    spool::Spool,
};
use palisade_protocol::Stream;
use std::{io, time::Duration};
use tokio::{
    net::unix::pipe::Receiver,
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

/// How much is read at once: what a pipe holds.
const PIECE: usize = 64 * 1024;

/// How many pieces wait to be taken in.
const PIECES: usize = 2;

/// How long a pipe that nobody should hold any more is waited for.
const DRAIN: Duration = Duration::from_millis(200);

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
    NotNeeded,
    Open(Spool),
    /// It could not be written: the result still stands, without a spool.
    Failed,
}

/// Whether a pipe was still open when everything was over.
#[derive(Debug, PartialEq, Eq)]
enum Held {
    No,
    Yes,
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

    /// Takes in both pipes until both are at their end, or, once the program is over, until
    /// nothing comes any more.
    pub(crate) async fn pump(
        &mut self,
        stdout: Receiver,
        stderr: Receiver,
        over: watch::Receiver<bool>,
    ) -> io::Result<()> {
        // A task for each pipe: the kernel tells of them in the order in which they were written
        // to, and tasks run in the order in which they were woken.
        let (sender, mut pieces) = mpsc::channel(PIECES);
        let mut readers = JoinSet::new();
        readers.spawn(read(stdout, Stream::Stdout, sender.clone()));
        readers.spawn(read(stderr, Stream::Stderr, sender));
        loop {
            let piece = tokio::select! {
                biased;
                piece = pieces.recv() => piece,
                () = silence(over.clone()) => {
                    self.held = Held::Yes;
                    return Ok(());
                }
            };
            let Some((stream, bytes)) = piece else { break };
            self.take(stream, bytes).await;
        }
        while let Some(read) = readers.join_next().await {
            read??;
        }
        Ok(())
    }

    async fn take(&mut self, stream: Stream, bytes: Vec<u8>) {
        self.keep(&bytes).await;
        self.merged.push(&bytes);
        match stream {
            Stream::Stdout => self.stdout.push(&bytes),
            Stream::Stderr | Stream::Content => self.stderr.push(&bytes),
        }
        if self.context.streaming == Streaming::Live {
            self.context.send(stream, bytes).await;
        }
    }

    /// Puts the bytes into the spool, which begins when the result can not hold everything.
    async fn keep(&mut self, bytes: &[u8]) {
        let written = match &mut self.spool {
            SpoolState::NotNeeded if self.merged.holds(bytes.len()) => return,
            SpoolState::NotNeeded => self.begin(bytes).await,
            SpoolState::Open(spool) => spool.write(bytes).await,
            SpoolState::Failed => return,
        };
        if let Err(error) = written {
            tracing::warn!(call = %self.context.call_id, %error, "no spool for a call's output");
            self.spool = SpoolState::Failed;
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
            SpoolState::NotNeeded | SpoolState::Failed => false,
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

/// Reads a pipe to its end.
async fn read(
    pipe: Receiver,
    stream: Stream,
    pieces: mpsc::Sender<(Stream, Vec<u8>)>,
) -> io::Result<()> {
    loop {
        pipe.readable().await?;
        let mut piece = Vec::with_capacity(PIECE);
        match pipe.try_read_buf(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if pieces.send((stream, piece)).await.is_err() {
            return Ok(());
        }
    }
}

/// Returns when the program has been over for a while. Only waiting counts, not a slow client.
async fn silence(mut over: watch::Receiver<bool>) {
    let is_over = over.wait_for(|over| *over).await.is_ok();
    if is_over {
        sleep(DRAIN).await;
    } else {
        // The sender is dropped only together with this.
        std::future::pending::<()>().await;
    }
}
