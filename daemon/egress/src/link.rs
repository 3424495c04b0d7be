//! The channel to the broker: questions by number, and reports about connections.

use palisade_channel::{ChannelError, Datagrams};
use palisade_egress_protocol::{
    Asked, EgressReply, EgressRequest, EgressVerdict, WebRequest, host::Target,
};
use palisade_plan::launcher::SessionNumber;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::Interest,
    net::UnixDatagram,
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
};

/// A place among those that a session may use at once. A message holds its connection's place until
/// it is sent, which bounds the messages that wait for a slow broker.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

/// A message on its way to the broker.
#[derive(Debug)]
struct Outgoing {
    message: EgressReply,
    _place: Option<Place>,
}

/// The questions that wait for an answer.
type Waiting = HashMap<(SessionNumber, u64), oneshot::Sender<EgressVerdict>>;

/// The sending half of the channel to the broker, and the questions that wait.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    queue: mpsc::UnboundedSender<Outgoing>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The receiving half of the channel to the broker, with the messages to send.
#[derive(Debug)]
pub(crate) struct LinkEnd {
    /// The socket as tokio waits for it. Its kind does not matter for that.
    socket: UnixDatagram,
    /// The socket as messages travel through it.
    messages: Datagrams,
    queue: mpsc::UnboundedReceiver<Outgoing>,
    /// The message that is sent next.
    next: Option<Outgoing>,
}

/// Makes both halves from a connected `SOCK_SEQPACKET` socket.
pub(crate) fn open(socket: OwnedFd) -> io::Result<(Link, LinkEnd)> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    let (sender, queue) = mpsc::unbounded_channel();
    let messages = Datagrams::new(socket.try_clone()?);
    let socket = UnixDatagram::from_std(socket.into())?;
    let link = Link { queue: sender, waiting: Arc::default() };
    Ok((link, LinkEnd { socket, messages, queue, next: None }))
}

impl Link {
    /// Sends a message. Without a broker nothing is sent; the room is about to end.
    pub(crate) fn send(&self, message: EgressReply, place: Option<Place>) {
        drop(self.queue.send(Outgoing { message, _place: place }));
    }

    /// Asks the broker, and waits. If the caller stops waiting, the question is withdrawn. `None`
    /// means that the broker is gone.
    pub(crate) async fn ask(
        &self,
        session: SessionNumber,
        (question, connection): (u64, u64),
        (target, asked, request): (Target, Asked, Option<WebRequest>),
        place: &Place,
    ) -> Option<EgressVerdict> {
        let (answer, answered) = oneshot::channel();
        self.waiting().insert((session, question), answer);
        let open = OpenQuestion { link: self, session, question, place };
        let message =
            EgressReply::Question { session, question, connection, target, asked, request };
        self.send(message, Some(place.clone()));
        let verdict = answered.await;
        drop(open);
        verdict.ok()
    }

    /// Hands an answer to whoever waits. Nobody waits for the answer to a withdrawn question.
    pub(crate) fn answer(&self, session: SessionNumber, question: u64, verdict: EgressVerdict) {
        if let Some(answer) = self.waiting().remove(&(session, question)) {
            drop(answer.send(verdict));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question without an answer. Dropping it withdraws it.
struct OpenQuestion<'a> {
    link: &'a Link,
    session: SessionNumber,
    question: u64,
    place: &'a Place,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let Self { link, session, question, place } = *self;
        // `answer` has removed it if it was answered.
        if link.waiting().remove(&(session, question)).is_some() {
            link.send(EgressReply::Withdrawn { session, question }, Some(place.clone()));
        }
    }
}

impl LinkEnd {
    /// Sends what is queued until a request arrives; `None` when the broker is gone.
    pub(crate) async fn receive(
        &mut self,
    ) -> Result<Option<(EgressRequest, Vec<OwnedFd>)>, ChannelError> {
        loop {
            tokio::select! {
                // Answers come first, so that a flood of questions can not keep them out.
                biased;
                received = ready(&self.socket, Interest::READABLE, || self.messages.receive()) => {
                    return received;
                }
                next = self.queue.recv(), if self.next.is_none() => self.next = next,
                sent = send(&self.socket, &self.messages, self.next.as_ref()),
                    if self.next.is_some() =>
                {
                    match sent {
                        Ok(()) => self.next = None,
                        Err(ChannelError::Send(Errno::PIPE | Errno::CONNRESET)) => return Ok(None),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}

async fn send(
    socket: &UnixDatagram,
    messages: &Datagrams,
    next: Option<&Outgoing>,
) -> Result<(), ChannelError> {
    let Some(next) = next else { return Ok(()) };
    ready(socket, Interest::WRITABLE, || messages.send(&next.message, &[])).await
}

/// Does something as soon as the socket is ready for it.
async fn ready<T>(
    socket: &UnixDatagram,
    interest: Interest,
    mut act: impl FnMut() -> Result<T, ChannelError>,
) -> Result<T, ChannelError> {
    let attempt = || match act() {
        Err(ChannelError::Send(Errno::AGAIN) | ChannelError::Receive(Errno::AGAIN)) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        done => Ok(done),
    };
    let waited = socket.async_io(interest, attempt).await;
    waited
        .map_err(|error| ChannelError::Receive(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?
}
