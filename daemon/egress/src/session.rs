//! One session: its listeners, its budget, its names, and the questions about its connections.

use crate::{
    address::AddressRules,
    credential::{Credential, SessionCredentials},
    dial::{DialError, Dialler, WayOut},
    direct,
    inspect::Inspection,
    limits::{Limits, MAX_LOOKUPS},
    link::{Link, Place},
    names, proxy,
    publish::{self, InwardSockets},
    relay::{APPROVAL_ENDED, Meter, Metered, Side, UploadBudget},
    synthetic::SyntheticNames,
    upstream::OutwardStream,
};
use hyper::Request;
use palisade_egress_protocol::{
    Asked, ConnectionResult, EgressBudget, EgressReply, EgressVerdict, LOOKUP_PORT, RefusalKind,
    Tunnel, WebRequest,
    host::{Host, HostName, Target},
};
use palisade_plan::{launcher::SessionNumber, listeners::Listener};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::Interest,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
};

/// The time to wait before accepting again when the process or the host has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time between two looks whether a program still waits for an answer.
const PRESENCE: Duration = Duration::from_secs(1);

/// The terms of a session, which the broker sent when it opened the session.
#[derive(Debug)]
pub(crate) struct SessionTerms {
    pub(crate) number: SessionNumber,
    pub(crate) budget: EgressBudget,
    pub(crate) rules: AddressRules,
    pub(crate) inspection: Option<Inspection>,
    pub(crate) credentials: SessionCredentials,
}

/// A session that is served.
#[derive(Debug)]
pub(crate) struct Session {
    number: SessionNumber,
    link: Link,
    pub(crate) limits: Limits,
    dialler: Dialler,
    questions: AtomicU64,
    upload: Arc<UploadBudget>,
    connections: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    synthetic: Mutex<SyntheticNames>,
    /// The connections that are asked about or allowed, by the numbers of their questions.
    meters: Mutex<HashMap<u64, Arc<Meter>>>,
    /// The sockets for connections into the session.
    pub(crate) inward: Arc<InwardSockets>,
    inspection: Option<Inspection>,
    pub(crate) credentials: SessionCredentials,
}

/// Why a connection is not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The broker denied it, for this reason.
    #[error("{0}")]
    Denied(String),
    /// It was allowed and could not be made.
    #[error(transparent)]
    Dial(#[from] DialError),
}

impl Session {
    pub(crate) fn new(
        terms: SessionTerms,
        inward: Vec<OwnedFd>,
        link: Link,
        way_out: WayOut,
    ) -> Arc<Self> {
        let connections = usize::try_from(terms.budget.connections).unwrap_or(usize::MAX);
        let connections = connections.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            number: terms.number,
            link,
            limits: way_out.limits,
            dialler: Dialler::new(way_out, terms.rules),
            questions: AtomicU64::new(0),
            upload: Arc::new(UploadBudget::new(terms.budget.upload_bytes)),
            connections: Arc::new(Semaphore::new(connections)),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            synthetic: Mutex::default(),
            meters: Mutex::default(),
            inward: InwardSockets::new(inward),
            inspection: terms.inspection,
            credentials: terms.credentials,
        })
    }

    /// Serves listeners until this future is dropped, which ends every connection.
    pub(crate) async fn serve(self: Arc<Self>, listeners: Vec<Socket>) {
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let session = self.clone();
            match listener {
                Socket::NamesUdp(socket) => accepting.spawn(names::serve_udp(session, socket)),
                Socket::Tcp(kind, listener) => accepting.spawn(session.accept(kind, listener)),
            };
        }
        while accepting.join_next().await.is_some() {}
        // The broker closes the session; until then it exists, with whatever has failed.
        std::future::pending::<()>().await;
    }

    async fn accept(self: Arc<Self>, kind: Listener, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let client = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let client = match client {
                Ok((client, _)) => client,
                Err(error) if is_shortage(&error) => {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    self.refuse(None, format!("a listener of the session failed: {error}"), None);
                    return;
                }
            };
            // Further connections wait in the kernel's queue, which is bounded.
            let places = match kind {
                Listener::NamesTcp | Listener::NamesUdp => &self.lookups,
                Listener::Proxy
                | Listener::Direct(_)
                | Listener::Inward
                | Listener::Published(_) => &self.connections,
            };
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let (session, place) = (self.clone(), Arc::new(place));
            match kind {
                Listener::Proxy => connections.spawn(proxy::serve(session, client, place)),
                Listener::Direct(port) => {
                    connections.spawn(direct::serve(session, client, port, place))
                }
                Listener::Published(port) => {
                    connections.spawn(publish::serve(session, client, port, place))
                }
                Listener::NamesTcp | Listener::NamesUdp | Listener::Inward => {
                    connections.spawn(names::serve_tcp(session, client, place))
                }
            };
        }
    }

    /// Takes a place for a lookup of a name, and waits for it if all are taken.
    pub(crate) async fn lookup_place(&self) -> Option<Place> {
        self.lookups.clone().acquire_owned().await.ok().map(Arc::new)
    }

    /// Takes a place for a connection, and waits for it if all are taken.
    pub(crate) async fn connection_place(&self) -> Option<Place> {
        self.connections.clone().acquire_owned().await.ok().map(Arc::new)
    }

    /// Takes a place for a request, which makes a connection of its own: that of the program's
    /// connection, whose turn this is, or another one of the session. So a request that waits for a
    /// place gets one when those before it on the same connection have ended.
    pub(crate) async fn request_place(&self, turn: &Arc<Semaphore>) -> Option<Place> {
        tokio::select! {
            biased;
            turn = turn.clone().acquire_owned() => turn.ok().map(Arc::new),
            place = self.connection_place() => place,
        }
    }

    /// Returns the side of what is outside of the session: what is written to it counts as sent.
    pub(crate) fn outside(&self) -> Side {
        Side::Destination(self.upload.clone())
    }

    fn meters(&self) -> MutexGuard<'_, HashMap<u64, Arc<Meter>>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a connection whose approval has ended. It may be one that has not begun.
    pub(crate) fn cut(&self, question: u64) {
        if let Some(meter) = self.meters().get(&question) {
            meter.cut();
        }
    }

    pub(crate) fn synthetic(&self) -> MutexGuard<'_, SyntheticNames> {
        self.synthetic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the target with the name that a synthetic address stands for: some programs look up a
    /// name and then ask the proxy for the address.
    pub(crate) fn as_named(&self, target: Target) -> Target {
        let Host::Address(IpAddr::V4(address)) = target.host else { return target };
        match self.synthetic().name_of(address) {
            Some(name) => Target { host: Host::Name(name.clone()), port: target.port },
            None => target,
        }
    }

    /// Asks the broker whether a name may be looked up by the session's programs. Nothing is looked
    /// up by the room.
    pub(crate) async fn may_look_up(&self, name: &HostName, place: &Place) -> bool {
        let target = Target { host: Host::Name(name.clone()), port: LOOKUP_PORT };
        let question = self.next_question();
        let verdict =
            self.consult((question, question), (target, Asked::Lookup, None), place).await;
        matches!(verdict, Some(EgressVerdict::Allow { .. }))
    }

    /// Asks the broker whether a connection may be made.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        target: Target,
        asked: Asked,
        place: &Place,
    ) -> Result<Permit, OpenError> {
        self.permit(None, (target, asked, None), place).await
    }

    /// Asks as [`Session::ask`] does, about a request on a connection of a program that others may
    /// come on, too. `connection` is its number.
    pub(crate) async fn ask_on(
        self: &Arc<Self>,
        connection: u64,
        target: Target,
        asked: Asked,
        place: &Place,
    ) -> Result<Permit, OpenError> {
        self.permit(Some(connection), (target, asked, None), place).await
    }

    /// Asks the broker whether a request may be sent to an inspected host.
    pub(crate) async fn ask_request(
        self: &Arc<Self>,
        target: Target,
        request: WebRequest,
        place: &Place,
    ) -> Result<Permit, OpenError> {
        self.permit(None, (target, Asked::Request, Some(request)), place).await
    }

    /// Asks the broker whether the room may get a page for a call of the session. Redirects have the
    /// same number.
    pub(crate) async fn ask_fetch(
        self: &Arc<Self>,
        number: u64,
        target: Target,
        request: WebRequest,
        place: &Place,
    ) -> Result<Permit, OpenError> {
        self.permit(Some(number), (target, Asked::Fetch, Some(request)), place).await
    }

    /// Returns what inspected connections need. The broker sends it if there are inspected hosts.
    pub(crate) fn inspection(&self) -> Result<&Inspection, String> {
        self.inspection.as_ref().ok_or_else(|| "the session has no authority".to_owned())
    }

    async fn permit(
        self: &Arc<Self>,
        connection: Option<u64>,
        (target, asked, request): (Target, Asked, Option<WebRequest>),
        place: &Place,
    ) -> Result<Permit, OpenError> {
        // The approval may end before this task hears of it.
        let entry = MeterEntry::new(self);
        let connection = connection.unwrap_or(entry.question);
        let numbers = (entry.question, connection);
        match self.consult(numbers, (target.clone(), asked, request), place).await {
            Some(EgressVerdict::Allow { tunnel, rule: _ }) => {
                let record = ConnectionRecord {
                    meter: entry.meter.clone(),
                    entry,
                    connection,
                    place: place.clone(),
                    server_name: None,
                    failure: Some("it was cut off".to_owned()),
                };
                Ok(Permit { target, tunnel, record })
            }
            Some(EgressVerdict::Deny { reason }) => Err(OpenError::Denied(reason)),
            None => Err(OpenError::Denied("the daemon has ended".to_owned())),
        }
    }

    /// Asks as [`Session::ask`] does, and withdraws the question if the program leaves meanwhile.
    pub(crate) async fn ask_for(
        self: &Arc<Self>,
        client: &TcpStream,
        target: Target,
        asked: Asked,
        place: &Place,
    ) -> Result<Permit, OpenError> {
        tokio::select! {
            answered = self.ask(target, asked, place) => answered,
            () = left(client) => Err(OpenError::Denied("the program left".to_owned())),
        }
    }

    /// Returns a number that no question and no connection of the session has.
    pub(crate) fn next_question(&self) -> u64 {
        self.questions.fetch_add(1, Relaxed)
    }

    /// Asks the broker. A name that has the placeholder of a credential is refused without asking:
    /// whoever is asked for its addresses, or has the connection, would learn what a program is told.
    async fn consult(
        &self,
        numbers: (u64, u64),
        asked: (Target, Asked, Option<WebRequest>),
        place: &Place,
    ) -> Option<EgressVerdict> {
        let (target, ..) = &asked;
        if let Some(name) = self.credentials.placeholder_in(&target.host.to_string()) {
            let reason = self.alarm(target, name, place);
            return Some(EgressVerdict::Deny { reason });
        }
        self.link.ask(self.number, numbers, asked, place).await
    }

    /// Refuses a request that has the placeholder of a credential and goes elsewhere, and returns the
    /// reason. The record of it is an alarm: only a program that was told to would do this.
    pub(crate) fn refuse_misplaced<B>(
        &self,
        target: &Target,
        request: &Request<B>,
        own: Option<(&Credential, &str)>,
        place: &Place,
    ) -> Option<String> {
        let name = self.credentials.misplaced(request, own)?;
        Some(self.alarm(target, name, place))
    }

    /// Refuses the URL of a page that has the placeholder of a credential, as
    /// [`Session::refuse_misplaced`] does.
    pub(crate) fn refuse_url(&self, target: &Target, url: &str, place: &Place) -> Option<String> {
        let name = self.credentials.placeholder_in(url)?;
        Some(self.alarm(target, name, place))
    }

    /// Records that the placeholder of a credential was seen on its way elsewhere, and returns why that
    /// is refused.
    fn alarm(&self, target: &Target, credential: &str, place: &Place) -> String {
        let reason = format!(
            "the request to {target} has the placeholder of credential {credential:?}, which is not \
             for this place; an alarm was recorded"
        );
        let (session, target) = (self.number, Some(target.clone()));
        let kind = RefusalKind::Placeholder;
        let message = EgressReply::Refused { session, target, reason: reason.clone(), kind };
        self.link.send(message, Some(place.clone()));
        reason
    }

    /// Reports something that is refused without a question.
    pub(crate) fn refuse(&self, target: Option<Target>, reason: String, place: Option<&Place>) {
        let (session, kind) = (self.number, RefusalKind::Ordinary);
        let message = EgressReply::Refused { session, target, reason, kind };
        self.link.send(message, place.cloned());
    }
}

/// Waits until a program closes its connection, whether it has sent something before or not.
async fn left(client: &TcpStream) {
    loop {
        tokio::time::sleep(PRESENCE).await;
        match client.ready(Interest::READABLE | Interest::WRITABLE).await {
            Ok(ready) if ready.is_read_closed() => return,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| shortages.contains(&errno))
}

/// A connection that is allowed and not made yet.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) target: Target,
    pub(crate) tunnel: Tunnel,
    pub(crate) record: ConnectionRecord,
}

/// A connection to its destination.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) target: Target,
    pub(crate) tunnel: Tunnel,
    pub(crate) destination: Metered<OutwardStream>,
    pub(crate) record: ConnectionRecord,
}

impl Permit {
    /// Makes the connection. To an inspected host only its requests make connections.
    pub(crate) async fn dial(mut self) -> Result<Open, OpenError> {
        if self.tunnel == Tunnel::Inspected {
            let target = &self.target;
            let why = format!("{target} has a net.rule: requests to it must come over TLS");
            self.record.end(Some(why.clone()));
            return Err(OpenError::Denied(why));
        }
        let session = self.record.entry.session.clone();
        if self.record.meter.is_cut() {
            let why = APPROVAL_ENDED.to_owned();
            self.record.end(Some(why.clone()));
            return Err(OpenError::Denied(why));
        }
        let (stream, address) = match session.dialler.dial(&self.target).await {
            Ok(dialled) => dialled,
            Err(error) => {
                self.record.end(Some(error.to_string()));
                return Err(error.into());
            }
        };
        self.record.connected(address);
        let destination = Metered::new(stream, session.outside(), self.record.meter.clone());
        let Self { target, tunnel, record } = self;
        Ok(Open { target, tunnel, destination, record })
    }
}

/// The meter of a connection under the number of its question: until this value is dropped, the
/// connection can be cut off.
#[derive(Debug)]
struct MeterEntry {
    session: Arc<Session>,
    question: u64,
    meter: Arc<Meter>,
}

impl MeterEntry {
    fn new(session: &Arc<Session>) -> Self {
        let (question, meter) = (session.next_question(), Meter::new(&session.limits));
        session.meters().insert(question, meter.clone());
        Self { session: session.clone(), question, meter }
    }
}

impl Drop for MeterEntry {
    fn drop(&mut self) {
        self.session.meters().remove(&self.question);
    }
}

/// The report about one allowed connection, which is sent when this value is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionRecord {
    entry: MeterEntry,
    /// The number of the program's connection.
    pub(crate) connection: u64,
    place: Place,
    pub(crate) meter: Arc<Meter>,
    pub(crate) server_name: Option<HostName>,
    failure: Option<String>,
}

impl ConnectionRecord {
    /// Reports that the connection is made.
    pub(crate) fn connected(&self, address: SocketAddr) {
        let MeterEntry { session: of, question, .. } = &self.entry;
        let (session, question) = (of.number, *question);
        let message = EgressReply::Connected { session, question, address };
        of.link.send(message, Some(self.place.clone()));
    }

    /// Counts the connection as one of this place.
    pub(crate) fn move_to(&mut self, place: Place) {
        self.place = place;
    }

    /// Notes how the connection ended. Without this it was cut off.
    pub(crate) fn end(&mut self, failure: Option<String>) {
        self.failure = failure;
    }
}

impl Drop for ConnectionRecord {
    fn drop(&mut self) {
        let result = ConnectionResult {
            sent: self.meter.sent.load(Relaxed),
            received: self.meter.received.load(Relaxed),
            server_name: self.server_name.take(),
            failure: self.failure.take(),
        };
        let MeterEntry { session: of, question, .. } = &self.entry;
        let (session, question) = (of.number, *question);
        let message = EgressReply::Ended { session, question, result };
        of.link.send(message, Some(self.place.clone()));
    }
}

/// A listener's socket, ready to be used.
#[derive(Debug)]
pub(crate) enum Socket {
    NamesUdp(UdpSocket),
    Tcp(Listener, TcpListener),
}

impl Socket {
    /// Takes a listener's descriptor.
    pub(crate) fn new(kind: Listener, fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(match kind {
            Listener::NamesUdp => Self::NamesUdp(UdpSocket::from_std(fd.into())?),
            Listener::Inward => return Err(io::ErrorKind::InvalidInput.into()),
            Listener::Proxy | Listener::NamesTcp | Listener::Direct(_) | Listener::Published(_) => {
                Self::Tcp(kind, TcpListener::from_std(fd.into())?)
            }
        })
    }
}
