//! The room's main loop: takes requests from the broker, and serves sessions until the broker is
//! gone. Then everything ends.

use crate::{
    address::AddressRules,
    authority::{AuthorityFailure, HostTrust, SessionAuthority},
    confine::{ConfineError, confine},
    credential::{self, CredentialFiles, SessionCredentials},
    dial::{HostResolver, Resolver, WayOut},
    fetch::Fetch,
    inspect::Inspection,
    limits::{Limits, MAX_FETCHES, RESOLVER_THREADS},
    link::{self, Link},
    session::{Session, SessionTerms, Socket},
    upstream::Upstream,
};
use palisade_channel::ChannelError;
use palisade_egress_protocol::{AuthorityKey, EgressReply, EgressRequest, fetch::PageRequest};
use palisade_plan::{BUILD_ID, launcher::SessionNumber, listeners::Listener};
use std::{collections::HashMap, io, os::fd::OwnedFd, sync::Arc};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

/// The reason why the room ended before the broker did.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// The process could not be confined, so it served nothing.
    #[error("the room can not confine itself: {0}")]
    Confine(#[from] ConfineError),
    /// The credentials that the service manager gave to the room can not be opened.
    #[error("the credentials of the service can not be opened: {0}")]
    Credentials(#[source] io::Error),
    /// The runtime could not be started.
    #[error("the runtime could not be started: {0}")]
    Runtime(#[source] io::Error),
    /// The socket to the broker can not be used.
    #[error("the socket to the broker: {0}")]
    Socket(#[source] io::Error),
    /// Receiving a request or sending a message failed.
    #[error("the channel to the broker: {0}")]
    Channel(#[from] ChannelError),
    /// The broker is of another build.
    #[error("the broker is of build {0}, and this program of {BUILD_ID}; restart the daemon")]
    Build(String),
    /// A request came that is not allowed then.
    #[error("the broker sent a request out of order: {0}")]
    Order(&'static str),
    /// A listener can not be used.
    #[error("a listener of session {0}: {1}")]
    Listener(SessionNumber, #[source] io::Error),
    /// The authority of a session can not be used.
    #[error("session {0}: {1}")]
    Authority(SessionNumber, #[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Confines this process, and serves a broker as the whole of it. The process must have one thread.
///
/// # Errors
/// If the process can not be confined or the runtime not be started, and as [`serve`].
pub fn run(socket: OwnedFd) -> Result<(), RoomError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(RESOLVER_THREADS)
        .build()
        .map_err(RoomError::Runtime)?;
    // The runtime has no thread yet, and those that it starts are confined with this one. Its making
    // needs system calls that the room never makes later, such as `socketpair`.
    let own = credential::open_own().map_err(RoomError::Credentials)?;
    confine()?;
    let resolver = Arc::new(HostResolver::default());
    let served = runtime.block_on(serve_with(socket, resolver, Limits::default(), own));
    // Lookups that are under way are not waited for.
    runtime.shutdown_background();
    served
}

/// Serves the sessions of a broker until it closes its end of the socket, without credentials.
///
/// # Errors
/// If the channel fails or the broker breaks the protocol. Then no session is served any more.
pub async fn serve(
    socket: OwnedFd,
    resolver: Arc<dyn Resolver>,
    limits: Limits,
) -> Result<(), RoomError> {
    serve_with(socket, resolver, limits, CredentialFiles::new()).await
}

async fn serve_with(
    socket: OwnedFd,
    resolver: Arc<dyn Resolver>,
    limits: Limits,
    own: CredentialFiles,
) -> Result<(), RoomError> {
    let (link, mut end) = link::open(socket).map_err(RoomError::Socket)?;
    let (proxy, fds) = match end.receive().await? {
        Some((EgressRequest::Hello { build_id, proxy }, fds)) if build_id == BUILD_ID => {
            (proxy, fds)
        }
        Some((EgressRequest::Hello { build_id, .. }, _)) => return Err(RoomError::Build(build_id)),
        Some(_) => return Err(RoomError::Order("the first is not Hello")),
        None => return Ok(()),
    };
    link.send(EgressReply::Welcome { build_id: BUILD_ID.to_owned() }, None);
    let trust = Arc::<HostTrust>::default();
    let proxy = proxy.map(|proxy| {
        let mut files = own.clone();
        let sent = proxy.credential.clone().zip(fds.into_iter().next());
        files.extend(sent.map(|(name, file)| (name, Arc::new(file.into()))));
        Arc::new(Upstream { proxy, files, trust: Arc::clone(&trust) })
    });
    let mut sessions = Sessions {
        link,
        way_out: WayOut { resolver, proxy, limits },
        trust,
        fetches: Arc::new(Semaphore::new(MAX_FETCHES)),
        own,
        sent: HashMap::new(),
        running: HashMap::new(),
        tasks: JoinSet::new(),
    };
    while let Some((request, fds)) = end.receive().await? {
        sessions.handle(request, fds)?;
    }
    Ok(())
}

/// The sessions that are served. Dropping this ends them.
struct Sessions {
    link: Link,
    way_out: WayOut,
    trust: Arc<HostTrust>,
    /// The credentials that the service manager gave to the room.
    own: CredentialFiles,
    /// The credentials that the broker sent for sessions that are not opened yet.
    sent: HashMap<SessionNumber, CredentialFiles>,
    /// The places of pages that are got at once.
    fetches: Arc<Semaphore>,
    running: HashMap<SessionNumber, ServedSession>,
    tasks: JoinSet<()>,
}

/// A session that is served. Dropping this ends its fetches.
struct ServedSession {
    session: Arc<Session>,
    serving: AbortHandle,
    fetches: JoinSet<()>,
    /// The fetches that nobody has ended, by number. Some have ended by themselves.
    open: HashMap<u64, AbortHandle>,
}

impl Sessions {
    fn handle(&mut self, request: EgressRequest, fds: Vec<OwnedFd>) -> Result<(), RoomError> {
        match request {
            EgressRequest::Hello { .. } => Err(RoomError::Order("Hello came twice")),
            EgressRequest::Credential { session, name } => self.keep(session, name, fds),
            EgressRequest::Open {
                session,
                listeners,
                budget,
                named,
                denied,
                host_ports,
                authority,
                credentials,
            } => {
                let rules = AddressRules { named, denied, host_ports };
                let inspection = authority.as_ref().map(|key| self.inspection(key)).transpose();
                let inspection =
                    inspection.map_err(|error| RoomError::Authority(session, error.into()))?;
                let mut files = self.own.clone();
                files.extend(self.sent.remove(&session).unwrap_or_default());
                let credentials = SessionCredentials { files, hosts: credentials };
                let terms =
                    SessionTerms { number: session, budget, rules, inspection, credentials };
                self.open(terms, &listeners, fds)
            }
            EgressRequest::Answer { session, question, verdict } => {
                self.link.answer(session, question, verdict);
                Ok(())
            }
            EgressRequest::Cut { session, question } => {
                // The session, or the connection, may have ended.
                if let Some(served) = self.running.get(&session) {
                    served.session.cut(question);
                }
                Ok(())
            }
            EgressRequest::Fetch { session, fetch, request } => self.fetch(session, fetch, request),
            EgressRequest::EndFetch { session, fetch } => {
                // A fetch that has ended may be ended.
                if let Some(served) = self.running.get_mut(&session)
                    && let Some(open) = served.open.remove(&fetch)
                {
                    open.abort();
                }
                Ok(())
            }
            EgressRequest::Close { session } => {
                self.sent.remove(&session);
                // A session that is not served may be closed.
                if let Some(running) = self.running.remove(&session) {
                    running.serving.abort();
                }
                while self.tasks.try_join_next().is_some() {}
                Ok(())
            }
        }
    }

    /// Keeps the file of a credential until its session is opened.
    fn keep(
        &mut self,
        session: SessionNumber,
        name: String,
        fds: Vec<OwnedFd>,
    ) -> Result<(), RoomError> {
        let Ok([file]) = <[OwnedFd; 1]>::try_from(fds) else {
            return Err(RoomError::Order("a credential came without its file"));
        };
        let files = self.sent.entry(session).or_default();
        files.insert(name, Arc::new(file.into()));
        Ok(())
    }

    fn inspection(&self, key: &AuthorityKey) -> Result<Inspection, AuthorityFailure> {
        let authority = SessionAuthority::new(key)?;
        Ok(Inspection { authority, trust: Arc::clone(&self.trust) })
    }

    fn open(
        &mut self,
        terms: SessionTerms,
        listeners: &[Listener],
        fds: Vec<OwnedFd>,
    ) -> Result<(), RoomError> {
        let number = terms.number;
        if self.running.contains_key(&number) {
            return Err(RoomError::Order("a session was opened twice"));
        }
        if listeners.len() != fds.len() {
            return Err(RoomError::Order("a session has other listeners than descriptors"));
        }
        let all = listeners.iter().copied().zip(fds);
        let (inward, rest): (Vec<_>, Vec<_>) = all.partition(|(kind, _)| *kind == Listener::Inward);
        let inward = inward.into_iter().map(|(_, fd)| fd).collect();
        let sockets = rest.into_iter().map(|(kind, fd)| Socket::new(kind, fd));
        let sockets: io::Result<Vec<_>> = sockets.collect();
        let sockets = sockets.map_err(|error| RoomError::Listener(number, error))?;
        let session = Session::new(terms, inward, self.link.clone(), self.way_out.clone());
        let serving = self.tasks.spawn(session.clone().serve(sockets));
        let (fetches, open) = Default::default();
        self.running.insert(number, ServedSession { session, serving, fetches, open });
        Ok(())
    }

    fn fetch(
        &mut self,
        number: SessionNumber,
        fetch: u64,
        request: PageRequest,
    ) -> Result<(), RoomError> {
        let Some(served) = self.running.get_mut(&number) else {
            return Err(RoomError::Order("a page is wanted for a session that is not open"));
        };
        while served.fetches.try_join_next().is_some() {}
        served.open.retain(|_, open| !open.is_finished());
        let task = Fetch {
            session: Arc::clone(&served.session),
            trust: Arc::clone(&self.trust),
            link: self.link.clone(),
            places: Arc::clone(&self.fetches),
            number: (number, fetch),
            request,
        };
        match served.open.insert(fetch, served.fetches.spawn(task.run())) {
            None => Ok(()),
            Some(_) => Err(RoomError::Order("the number of a fetch was used twice")),
        }
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
