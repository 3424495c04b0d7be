//! The streams of a program: pipes, or a terminal that its cell made. Broker.

use crate::{
    attachment::Attachment,
    task::{Content, Program, Typing},
};
use palisade_plan::cell::Size;
use palisade_protocol::Stream;
use rustix::{
    fs::{FileType, Mode, OFlags},
    pipe::{PipeFlags, pipe_with},
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

/// How much is read at once: what a pipe holds.
const PIECE: usize = 64 * 1024;

/// How many pieces wait to be taken in.
pub(crate) const PIECES: usize = 2;

/// How long a pipe that nobody should hold any more is waited for.
const DRAIN: Duration = Duration::from_millis(200);

/// What ends the input of a terminal, as long as the program has not chosen something else.
const END_OF_INPUT: u8 = 4;

/// What a program prints to.
#[derive(Debug)]
pub(crate) enum Source {
    Pipes { stdout: Receiver, stderr: Receiver },
    Terminal(Receiver),
}

/// Where its input comes from.
#[derive(Debug)]
pub(crate) enum Sink {
    Pipe(Sender),
    Terminal(Sender),
}

/// A terminal, to change its size.
#[derive(Debug)]
pub(crate) struct Window(OwnedFd);

/// The program's ends of its pipes, and ours.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) theirs: [OwnedFd; 3],
    pub(crate) sink: Option<Sink>,
    pub(crate) source: Source,
}

impl Pipes {
    pub(crate) fn new(program: &Program) -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        // Never a socket: bash would take that for a remote shell and read its start-up files.
        let (their_stdin, sink) = match (&program.stdin, program.typing) {
            (None, Typing::Closed) => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
            }
            (Some(_), _) | (None, Typing::Open) => {
                let (reader, writer) = pipe()?;
                (reader, Some(Sink::Pipe(Sender::from_owned_fd(writer)?)))
            }
        };
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        let source = Source::Pipes { stdout, stderr };
        Ok(Self { theirs: [their_stdin, out, err], sink, source })
    }
}

/// Both directions of a terminal, and its size. What a cell hands over is looked at first.
pub(crate) fn terminal(master: OwnedFd) -> io::Result<(Sink, Source, Window)> {
    let found = rustix::fs::fstat(&master)?;
    // All masters are the one device 5:2.
    let is_master = FileType::from_raw_mode(found.st_mode).is_char_device()
        && (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)) == (5, 2);
    if !is_master {
        return Err(io::Error::other("the cell gave something that is no terminal"));
    }
    let flags = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
    let source = Receiver::from_owned_fd_unchecked(master.try_clone()?)?;
    let sink = Sender::from_owned_fd_unchecked(master.try_clone()?)?;
    Ok((Sink::Terminal(sink), Source::Terminal(source), Window(master)))
}

impl Window {
    /// Changes the size; the program is told by SIGWINCH.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let Size { rows, cols } = size;
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.as_fd(), size)?)
    }
}

impl Sink {
    /// Writes some of the bytes when there is room; says how many.
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

    /// Says that no more comes: a pipe closes, a terminal is told.
    pub(crate) async fn end(mut self) -> io::Result<()> {
        match &mut self {
            Self::Pipe(_) => Ok(()),
            Self::Terminal(sender) => sender.write_all(&[END_OF_INPUT]).await,
        }
    }

    /// Feeds what came with the call. A program that does not read on is no error.
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
pub(crate) type Piece = (Stream, Vec<u8>);

/// Whether a pipe was still open when everything was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    No,
    Yes,
}

/// Who takes in what a program prints.
pub(crate) trait Taker {
    /// The next piece; whoever prints waits until it is taken.
    fn take(&mut self, piece: Piece) -> impl Future<Output = ()> + Send;
}

impl Source {
    /// Takes in everything to its end, or, once the program is over, until nothing comes any more.
    pub(crate) async fn pump(
        self,
        over: watch::Receiver<bool>,
        taker: &mut impl Taker,
    ) -> io::Result<Held> {
        // A task for each pipe: the kernel tells of them in the order in which they were written
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
                () = silence(over.clone()) => return Ok(Held::Yes),
            };
            let Some(piece) = piece else { break };
            taker.take(piece).await;
        }
        while let Some(read) = readers.join_next().await {
            read??;
        }
        Ok(Held::No)
    }
}

/// Reads a pipe or terminal to its end.
async fn read(pipe: Receiver, stream: Stream, pieces: mpsc::Sender<Piece>) -> io::Result<()> {
    loop {
        pipe.readable().await?;
        let mut piece = Vec::with_capacity(PIECE);
        match pipe.try_read_buf(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            // What a terminal says when nobody is at its other side any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // It waits in a queue, perhaps for long.
        piece.shrink_to_fit();
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
