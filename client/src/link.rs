//! One connection to the daemon. A background task owns the socket, writes requests in order, and
//! passes each answer and event to its receiver.

use crate::{
    Error, Event,
    news::{self, NewsReceiver, Sink},
    table::{Ending, Events, PendingRequest, Table},
    wire::{self, Incoming},
};
use palisade_protocol::{
    Bytes, CallResult, Cancel, Envelope, Event as WireEvent, Input, Receipt, Reply, Request,
    RequestId, ServerMessage, limits::MAX_CALLS_IN_FLIGHT,
};
use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};

/// The number of frames that may wait for the socket before the next caller has to wait.
const OUTGOING: usize = 16;

/// The size of the read buffer.
const READ_AHEAD: usize = 64 * 1024;

/// Connects to a socket of the daemon.
pub(crate) async fn dial(path: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(path)
        .await
        .map_err(|source| Error::Connect { path: path.to_owned(), source })
}

/// The treatment of a slow reader of events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The number of events that may wait in a call's queue.
    pub(crate) queue: usize,
    /// The longest time for which a full queue may block other callers.
    pub(crate) wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { queue: 64, wait: Duration::from_secs(1) }
    }
}

#[derive(Debug)]
enum Outgoing {
    /// A frame, and the place it takes in the queue while it waits.
    Frame(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// Nothing more will be sent.
    End,
}

/// The position of a piece in its attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkPosition {
    More,
    Last,
}

/// The callers' side of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) table: Arc<Table>,
    pub(crate) patience: Patience,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    room: Arc<Semaphore>,
    /// Permits for calls that may run at the same time.
    calls: Arc<Semaphore>,
    over: watch::Receiver<()>,
    /// The receipt of the connection's session, with its digest.
    receipt: OnceLock<(String, Receipt)>,
}

impl Link {
    /// Takes over a socket. Events for operators and observers come out of the returned receiver.
    pub(crate) fn start(stream: UnixStream, patience: Patience) -> (Self, NewsReceiver) {
        let (news, heard) = news::channel();
        (Self::with_news(stream, patience, Sink::Operator(news)), heard)
    }

    /// Takes over a socket, with a given receiver for the events that belong to no call.
    pub(crate) fn with_news(stream: UnixStream, patience: Patience, news: Sink) -> Self {
        let table = Arc::new(Table::default());
        let room = Arc::new(Semaphore::new(OUTGOING));
        let calls = Arc::new(Semaphore::new(MAX_CALLS_IN_FLIGHT));
        let places = Arc::clone(&calls);
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (alive, over) = watch::channel(());
        let (shared, seats) = (Arc::clone(&table), Arc::clone(&room));
        tokio::spawn(async move {
            let ending = serve(stream, queue, &shared, (patience.wait, &news)).await;
            shared.end(ending);
            // A task that waits for events finds the reason for the end in the table.
            drop(news);
            seats.close();
            places.close();
            drop(alive);
        });
        Self { table, patience, outgoing, room, calls, over, receipt: OnceLock::new() }
    }

    /// Stores the receipt of the connection's session, to which results refer by its digest.
    pub(crate) fn set_receipt(&self, digest: &str, receipt: &Receipt) {
        self.receipt.get_or_init(|| (digest.to_owned(), receipt.clone()));
    }

    /// Returns a result with the receipt that the daemon left out.
    pub(crate) fn with_receipt(&self, mut result: CallResult) -> CallResult {
        if let (None, Some((digest, receipt))) = (&result.receipt, self.receipt.get())
            && *digest == result.receipt_digest
        {
            result.receipt = Some(Box::new(receipt.clone()));
        }
        result
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, Error> {
        let entered = self.submit(request, Events::Unwanted, 0).await?;
        match entered.answer.await {
            Ok(Ok(Reply::Error(error))) => Err(Error::Remote(error)),
            Ok(answer) => answer,
            Err(_) => Err(self.table.ended()),
        }
    }

    /// Sends a request; the caller waits for the answer elsewhere. First waits until `calls` more
    /// calls may run on this connection.
    pub(crate) async fn submit(
        &self,
        request: Request,
        events: Events,
        calls: u32,
    ) -> Result<PendingRequest, Error> {
        let place = match calls {
            0 => None,
            calls => {
                let places = Arc::clone(&self.calls).acquire_many_owned(calls).await;
                Some(places.map_err(|_| self.table.ended())?)
            }
        };
        let room = self.reserve().await?;
        // Nothing waits from here on, so a caller that gives up never leaves a request half
        // entered.
        let entered = self.table.enter(events, place)?;
        if let Err(error) = self.send(entered.id, request, Some(room)) {
            self.table.forget(entered.id);
            return Err(error);
        }
        Ok(entered)
    }

    /// Sends a piece of an attachment when there is room.
    pub(crate) async fn input(
        &self,
        call: RequestId,
        data: Vec<u8>,
        piece: ChunkPosition,
    ) -> Result<(), Error> {
        let room = self.reserve().await?;
        self.send_input(call, data, piece, Some(room))
    }

    /// Sends an attachment of one piece directly after its call.
    pub(crate) fn input_now(&self, call: RequestId, data: Vec<u8>) -> Result<(), Error> {
        self.send_input(call, data, ChunkPosition::Last, None)
    }

    fn send_input(
        &self,
        call: RequestId,
        data: Vec<u8>,
        piece: ChunkPosition,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<(), Error> {
        let input = Input { call, data: Bytes(data), end: piece == ChunkPosition::Last };
        // An input has no answer, so it uses the id of its call.
        self.send(call, Request::Input(input), room)
    }

    /// Requests the end of a call without waiting for it. The call's result shows when it has
    /// ended.
    pub(crate) fn cancel(&self, call: RequestId) -> Result<(), Error> {
        if !self.table.waits(call) {
            return Ok(());
        }
        let entered = self.table.enter(Events::Unwanted, None)?;
        self.send(entered.id, Request::Cancel(Cancel { call }), None)
    }

    /// Sends nothing more, and waits until the daemon has closed its side too.
    pub(crate) async fn finish(&self) {
        if self.outgoing.send(Outgoing::End).is_ok() {
            // This channel carries no values: it only reports that its sender is gone.
            while self.over.clone().changed().await.is_ok() {}
        }
    }

    async fn reserve(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.room).acquire_owned().await.map_err(|_| self.table.ended())
    }

    fn send(
        &self,
        id: RequestId,
        request: Request,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<(), Error> {
        let frame = wire::frame(&Envelope { id, request })?;
        self.outgoing.send(Outgoing::Frame(frame, room)).map_err(|_| self.table.ended())
    }
}

/// Runs the connection to its end and returns the reason it ended.
async fn serve(
    stream: UnixStream,
    queue: mpsc::UnboundedReceiver<Outgoing>,
    table: &Table,
    (patience, news): (Duration, &Sink),
) -> Ending {
    let (reading, writing) = stream.into_split();
    let reader = read_all(reading, table, patience, news);
    tokio::pin!(reader);
    tokio::select! {
        ending = &mut reader => ending,
        // The daemon may still send answers, or the reason why it stopped reading.
        () = write_all(writing, queue) => reader.await,
    }
}

async fn write_all(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing::Frame(frame, _room)) = queue.recv().await {
        if socket.write_all(&frame).await.is_err() {
            break;
        }
    }
}

async fn read_all(socket: OwnedReadHalf, table: &Table, patience: Duration, news: &Sink) -> Ending {
    let mut socket = BufReader::with_capacity(READ_AHEAD, socket);
    loop {
        match wire::read(&mut socket).await {
            Ok(Incoming::Message(ServerMessage::Reply { id: Some(id), reply })) => {
                table.answer(id, Ok(reply));
            }
            Ok(Incoming::Message(ServerMessage::Reply {
                id: None,
                reply: Reply::Error(error),
            })) => {
                return Ending::Refused(error);
            }
            Ok(Incoming::Message(ServerMessage::Reply { id: None, reply: _ })) => {
                return Ending::Nonsense("an answer without a request number".to_owned());
            }
            Ok(Incoming::Message(ServerMessage::Event(event))) => {
                if let Some(event) = news.take(event) {
                    deliver(event, table, patience).await;
                }
            }
            Ok(Incoming::End(why)) => return Ending::Gone(why),
            Ok(Incoming::Reset(why)) => return Ending::Reset(why),
            Err(what) => return Ending::Nonsense(what),
        }
    }
}

/// Puts an event in its call's queue. A full queue blocks the connection: without limit while
/// nobody else waits on it, otherwise for at most `patience`.
async fn deliver(event: WireEvent, table: &Table, patience: Duration) {
    let Some((call, event)) = Event::from_wire(event) else { return };
    let queue = match table.events(call) {
        Events::Unwanted => return,
        Events::Counted => return table.count_lost(call, event.len()),
        Events::Queue(queue) => queue,
    };
    loop {
        match timeout(patience, queue.reserve()).await {
            Ok(Ok(place)) => return place.send(event),
            Ok(Err(_)) => return table.redirect(call, Events::Unwanted),
            Err(_) if table.others_wait(call) => {
                table.redirect(call, Events::Counted);
                return table.count_lost(call, event.len());
            }
            Err(_) => {}
        }
    }
}
