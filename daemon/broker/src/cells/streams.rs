//! The streams of a program: pipes or a terminal, which its cell created. Runs in the broker.

use crate::base::{
    attachment::Attachment,
    task::{Content, Program, StdinMode},
};
use palisade_plan::cell::{self, Size};
use palisade_protocol::Stream;
use rustix::{
    fs::{FileType, OFlags},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

/// The number of bytes that are read at once: what a pipe holds.
const PIECE: usize = 64 * 1024;

/// The number of pieces of output that may wait to be processed.
pub(crate) const PIECES: usize = 2;

/// The time to wait for a pipe to close once every process should be gone.
const DRAIN: Duration = Duration::from_millis(200);

/// The character that ends a terminal's input, unless the program has chosen another.
const END_OF_INPUT: u8 = 4;

/// The streams from which a program's output is read.
#[derive(Debug)]
pub(crate) enum OutputSource {
    Pipes { stdout: Receiver, stderr: Receiver },
    Terminal(Receiver),
}

/// The stream to which a program's input is written.
#[derive(Debug)]
pub(crate) enum InputSink {
    Pipe(Sender),
    Terminal(Sender),
}

/// A terminal, for changing its size.
#[derive(Debug)]
pub(crate) struct Window(OwnedFd);

/// The broker's ends of a program's streams.
#[derive(Debug)]
pub(crate) struct StreamEnds {
    pub(crate) sink: Option<InputSink>,
    pub(crate) source: OutputSource,
    pub(crate) window: Option<Window>,
}

/// Returns the streams that a program gets.
pub(crate) fn wanted(program: &Program) -> cell::Streams {
    match (program.terminal, &program.stdin, program.typing) {
        (Some(size), ..) => cell::Streams::Terminal(size),
        (None, None, StdinMode::Closed) => cell::Streams::Pipes(cell::Stdin::Null),
        (None, Some(_), _) | (None, _, StdinMode::Open) => cell::Streams::Pipes(cell::Stdin::Pipe),
    }
}

impl StreamEnds {
    /// Takes the descriptors that the cell sent. They are checked: a pipe must be a pipe, open in
    /// the right direction, and a terminal the master side of one.
    pub(crate) fn new(kind: cell::Streams, came: Vec<OwnedFd>) -> io::Result<Self> {
        let mut pipes = match kind {
            cell::Streams::Terminal(_) => return terminal(came),
            cell::Streams::Pipes(_) => came.into_iter(),
        };
        let (Some(stdout), Some(stderr), stdin) = (pipes.next(), pipes.next(), pipes.next()) else {
            return Err(io::Error::other("the cell sent too few streams"));
        };
        let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        let sink = stdin.map(Sender::from_owned_fd).transpose()?.map(InputSink::Pipe);
        Ok(Self { sink, source: OutputSource::Pipes { stdout, stderr }, window: None })
    }
}

/// Returns both directions of a terminal, and the handle for its size.
fn terminal(mut came: Vec<OwnedFd>) -> io::Result<StreamEnds> {
    let not_terminal = || io::Error::other("the cell sent a descriptor that is not a terminal");
    let master = came.pop().ok_or_else(not_terminal)?;
    let found = rustix::fs::fstat(&master)?;
    // All masters are the one device 5:2.
    let is_master = FileType::from_raw_mode(found.st_mode).is_char_device()
        && (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)) == (5, 2);
    if !is_master {
        return Err(not_terminal());
    }
    let flags = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
    let source = OutputSource::Terminal(Receiver::from_owned_fd_unchecked(master.try_clone()?)?);
    let sink = InputSink::Terminal(Sender::from_owned_fd_unchecked(master.try_clone()?)?);
    Ok(StreamEnds { sink: Some(sink), source, window: Some(Window(master)) })
}

impl Window {
    /// Changes the size; the kernel sends the program SIGWINCH.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let Size { rows, cols } = size;
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.as_fd(), size)?)
    }
}

impl InputSink {
    /// Writes some of the bytes when there is room; returns how many.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(sender) | Self::Terminal(sender) => sender.write(bytes).await,
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(sender) | Self::Terminal(sender) => sender.write_all(bytes).await,
        }
    }

    /// Ends the input: closes a pipe, or sends a terminal its end-of-input character.
    pub(crate) async fn end(mut self) -> io::Result<()> {
        match &mut self {
            Self::Pipe(_) => Ok(()),
            Self::Terminal(sender) => sender.write_all(&[END_OF_INPUT]).await,
        }
    }

    /// Writes the input that came with the call. A program that stops reading is not an error.
    pub(crate) async fn feed(mut self, content: Option<Content>, input: Option<Attachment>) {
        let fed = match content {
            Some(Content::Inline(text)) => self.write_all(text.as_bytes()).await,
            Some(Content::Attached) => self.feed_attachment(input).await,
            None => Ok(()),
        };
        let ended = match fed {
            Ok(()) => self.end().await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a program did not read all of its input");
        }
    }

    async fn feed_attachment(&mut self, input: Option<Attachment>) -> io::Result<()> {
        let Some(mut input) = input else { return Ok(()) };
        while let Some(piece) = input.recv().await {
            self.write_all(&piece.data.0).await?;
            if piece.end {
                break;
            }
        }
        Ok(())
    }
}

/// A piece of output.
pub(crate) type OutputPiece = (Stream, Vec<u8>);

/// The state of a pipe after the program and its processes were gone: `Yes` if it was still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeState {
    No,
    Yes,
}

/// A consumer of a program's output.
pub(crate) trait OutputConsumer {
    /// Processes the next piece of output; the program waits until it is taken.
    fn take(&mut self, piece: OutputPiece) -> impl Future<Output = ()> + Send;
}

impl OutputSource {
    /// Reads all output to its end or, once the program has ended, until no more arrives.
    pub(crate) async fn pump(
        self,
        over: watch::Receiver<bool>,
        taker: &mut impl OutputConsumer,
    ) -> io::Result<PipeState> {
        // One task for each pipe: the kernel reports pipes in the order in which they were written
        // to, and tasks run in the order in which they were woken.
        let (sender, mut pieces) = mpsc::channel(PIECES);
        let mut readers = JoinSet::new();
        match self {
            Self::Pipes { stdout, stderr } => {
                readers.spawn(read(stdout, Stream::Stdout, sender.clone()));
                readers.spawn(read(stderr, Stream::Stderr, sender));
            }
            Self::Terminal(terminal) => {
                readers.spawn(read(terminal, Stream::Stdout, sender));
            }
        }
        loop {
            let piece = tokio::select! {
                biased;
                piece = pieces.recv() => piece,
                () = silence(over.clone()) => return Ok(PipeState::Yes),
            };
            let Some(piece) = piece else { break };
            taker.take(piece).await;
        }
        while let Some(read) = readers.join_next().await {
            read??;
        }
        Ok(PipeState::No)
    }
}

/// Reads a pipe or terminal to its end.
async fn read(pipe: Receiver, stream: Stream, pieces: mpsc::Sender<OutputPiece>) -> io::Result<()> {
    loop {
        pipe.readable().await?;
        let mut piece = Vec::with_capacity(PIECE);
        match pipe.try_read_buf(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            // A terminal returns EIO when nobody has its other side open any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // The piece waits in a queue, perhaps for long.
        piece.shrink_to_fit();
        if pieces.send((stream, piece)).await.is_err() {
            return Ok(());
        }
    }
}

/// Waits until the program has been over for a while. Only time spent waiting for output counts,
/// not a slow client.
async fn silence(mut over: watch::Receiver<bool>) {
    let is_over = over.wait_for(|over| *over).await.is_ok();
    if is_over {
        sleep(DRAIN).await;
    } else {
        // The sender is dropped only together with this future.
        std::future::pending::<()>().await;
    }
}
