//! Speaks to a launcher as a broker in an attacker's hands would: with any request, any plan and any
//! descriptors.

use crate::{Mode, ORDINARY, World, act_as, binary, processes, rooms::until};
use palisade_channel::{Channel, Datagrams};
use palisade_plan::{
    BUILD_ID, CellReceipt, LaunchPlan, Path as PlanPath,
    cell::{FILE_CHANNELS, Ready},
    launcher::{Refusal, Reply, Request, SessionNumber, SessionOwner},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            fs::PermissionsExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// The broker of a launcher, which is the test.
#[derive(Debug)]
pub struct TakenOverBroker {
    socket: Option<Datagrams>,
    child: Child,
}

/// A session that a launcher started.
#[derive(Debug)]
pub struct StartedSession {
    /// The session's number.
    pub number: SessionNumber,
    /// The channels of its file tools.
    pub files: Vec<Channel>,
    /// The cell's first message: its receipt, or the step that failed and why.
    pub ready: Result<CellReceipt, (String, String)>,
}

/// A listening socket with its path.
#[derive(Debug)]
pub struct AgentSocket {
    /// The path of the socket.
    pub path: PathBuf,
    listener: UnixListener,
}

impl AgentSocket {
    /// Listens at a path to which every user can connect.
    ///
    /// # Panics
    /// If the path can not be used.
    #[must_use]
    pub fn listen(path: PathBuf) -> Self {
        let listener = UnixListener::bind(&path).expect("bind");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("chmod");
        Self { path, listener }
    }

    /// Returns a connection that a user made, as it is accepted, and the user's end of it.
    ///
    /// # Panics
    /// If the user can not connect.
    #[must_use]
    pub fn accepted(&self, uid: u32) -> (OwnedFd, UnixStream) {
        let connect = || UnixStream::connect(&self.path).expect("connect");
        let theirs = match rustix::process::geteuid().as_raw() == uid {
            true => connect(),
            false => act_as(uid, connect),
        };
        (self.listener.accept().expect("accept").0.into(), theirs)
    }
}

/// Returns the user of the clients: an ordinary user, or the tests' own.
#[must_use]
pub fn client_uid() -> u32 {
    let own = rustix::process::geteuid().as_raw();
    if own == 0 { ORDINARY } else { own }
}

/// Gives a directory and everything in it to the clients' user.
///
/// # Panics
/// If it can not be given.
pub fn give_to_client(path: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::lchown(path, Some(ORDINARY), Some(ORDINARY)).expect("chown");
    if path.is_dir() && !path.is_symlink() {
        let entries = fs::read_dir(path).expect("read").flatten();
        entries.for_each(|entry| give_to_client(&entry.path()));
    }
}

/// Returns both ends of a socket pair.
///
/// # Panics
/// If there are no descriptors left.
#[must_use]
pub fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("socketpair")
}

impl TakenOverBroker {
    /// Starts a launcher and does not greet it.
    ///
    /// # Panics
    /// If it can not be started.
    #[must_use]
    pub fn silent(mode: Mode, arguments: &[&str]) -> Self {
        let (socket, child) = mode.act(|| {
            let (ours, theirs) = pair(SocketType::SEQPACKET);
            let mut command = Command::new(binary("palisade-launcher"));
            let command = command.args(arguments).env_clear().stdin(Stdio::from(theirs));
            (Datagrams::new(ours), command.spawn().expect("a launcher"))
        });
        Self { socket: Some(socket), child }
    }

    /// Starts a launcher and greets it.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn start(mode: Mode, arguments: &[&str]) -> Self {
        let broker = Self::silent(mode, arguments);
        broker.send(&Request::Hello { build_id: BUILD_ID.to_owned() }, &[]);
        assert!(matches!(broker.hear(), Some(Reply::Welcome { .. })));
        broker
    }

    /// Starts a launcher whose clients connect to a socket in the world.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn in_world(world: &World, more: &[&str]) -> (Self, AgentSocket) {
        let directory = world.state();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o711)).expect("chmod");
        let agents = AgentSocket::listen(directory.join("agent.sock"));
        let path = agents.path.to_str().expect("UTF-8");
        let broker = Self::start(world.mode, &[&["--agent-socket", path], more].concat());
        (broker, agents)
    }

    fn socket(&self) -> &Datagrams {
        self.socket.as_ref().expect("it is open until the end")
    }

    /// Sends a request with descriptors.
    ///
    /// # Panics
    /// If the launcher is gone.
    pub fn send(&self, request: &Request, fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.socket().send(request, &fds).expect("send");
    }

    /// Sends bytes that need not be a request. They may not arrive, if the launcher is gone.
    pub fn send_bytes(&self, bytes: &[u8]) {
        let flags = rustix::net::SendFlags::NOSIGNAL;
        rustix::net::send(self.socket(), bytes, flags).map(drop).unwrap_or_default();
    }

    /// Receives a reply; `None` when the launcher is gone.
    #[must_use]
    pub fn hear(&self) -> Option<Reply> {
        self.socket().receive::<Reply>().ok().flatten().map(|(reply, _)| reply)
    }

    /// Receives the next reply about a session.
    ///
    /// # Panics
    /// If the launcher is gone.
    #[must_use]
    pub fn hear_of(&self, number: SessionNumber) -> Reply {
        loop {
            let reply = self.hear().expect("the launcher is there");
            match &reply {
                Reply::Identified { session, .. }
                | Reply::Started { session, .. }
                | Reply::Refused { session, .. }
                | Reply::Ended { session }
                    if *session == number =>
                {
                    return reply;
                }
                Reply::Fatal { why } => panic!("{why}"),
                Reply::Welcome { .. }
                | Reply::Identified { .. }
                | Reply::Started { .. }
                | Reply::Refused { .. }
                | Reply::Ended { .. } => {}
            }
        }
    }

    /// Returns the uid that the launcher takes from a client's socket, or why it takes none.
    ///
    /// # Errors
    /// The launcher's reason.
    ///
    /// # Panics
    /// If the launcher says something else.
    pub fn identity(&self, client: &OwnedFd, workspace: &Path) -> Result<u32, String> {
        let workspace = PlanPath::from(workspace);
        self.send(&Request::Identify { session: 1, workspace }, &[client]);
        match self.hear_of(1) {
            Reply::Identified { identity, .. } => Ok(identity.uid),
            Reply::Refused { refusal: Refusal::Identity(why), .. } => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// Asks for a session, with a client's socket or as the daemon's own.
    ///
    /// # Errors
    /// The launcher's refusal.
    ///
    /// # Panics
    /// If the launcher says something else.
    pub fn session(
        &self,
        number: SessionNumber,
        client: Option<&OwnedFd>,
        plan: &LaunchPlan,
    ) -> Result<StartedSession, Refusal> {
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (0..FILE_CHANNELS).map(|_| pair(SocketType::STREAM)).unzip();
        let whose = if client.is_some() { SessionOwner::Client } else { SessionOwner::Nobody };
        let plan = Box::new(plan.clone());
        let fds: Vec<_> = client.into_iter().chain(&theirs).collect();
        self.send(&Request::Session { session: number, whose, plan }, &fds);
        drop(theirs);
        match self.hear_of(number) {
            Reply::Started { .. } => {}
            Reply::Refused { refusal, .. } => return Err(refusal),
            other => panic!("{other:?}"),
        }
        let files: Vec<_> = ours.into_iter().map(Channel::new).collect();
        let ready = hear_ready(&files[0]);
        Ok(StartedSession { number, files, ready })
    }

    /// Asks for a runner, or for a transaction if there is a second descriptor.
    ///
    /// # Errors
    /// The step that failed, and why.
    ///
    /// # Panics
    /// If the launcher refuses it.
    pub fn runner(
        &self,
        session: SessionNumber,
        hidden: Option<&OwnedFd>,
    ) -> Result<Channel, (String, String)> {
        let (ours, theirs) = pair(SocketType::STREAM);
        let (_file, others) = pair(SocketType::STREAM);
        match hidden {
            None => self.send(&Request::Runner { session }, &[&theirs]),
            Some(hidden) => {
                self.send(&Request::Transaction { session }, &[&theirs, &others, hidden])
            }
        }
        drop(theirs);
        let channel = Channel::new(ours);
        hear_ready(&channel).map(|_| channel)
    }

    /// Ends a session and waits until nothing of it is left.
    ///
    /// # Panics
    /// If the launcher says something else.
    pub fn end(&self, session: SessionNumber) {
        self.send(&Request::End { session }, &[]);
        while !matches!(self.hear_of(session), Reply::Ended { .. }) {}
    }

    /// Asserts that no process of any session exists.
    ///
    /// # Panics
    /// If one does.
    pub fn assert_no_session(&self) {
        let root = i32::try_from(self.child.id()).expect("a pid");
        let cells: Vec<_> = processes::tree(root)
            .into_iter()
            .filter(|process| process.name.starts_with("cell "))
            .collect();
        assert!(cells.is_empty(), "{cells:?}");
    }

    /// Closes the connection, and returns how the launcher ended.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    pub fn close(mut self) -> ExitStatus {
        self.socket = None;
        self.child.wait().expect("wait")
    }
}

impl Drop for TakenOverBroker {
    fn drop(&mut self) {
        self.socket = None;
        until("the launcher ends", || self.child.try_wait().expect("wait").is_some());
    }
}

fn hear_ready(channel: &Channel) -> Result<CellReceipt, (String, String)> {
    match channel.receive::<Ready>() {
        Ok(Some((Ready::Confined(receipt), _))) => Ok(*receipt),
        Ok(Some((Ready::Failed { step, why, .. }, _))) => Err((step, why)),
        Ok(None) | Err(_) => Err(("none".to_owned(), "it said nothing".to_owned())),
    }
}
