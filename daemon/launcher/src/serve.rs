//! Serves one broker at a time: what it asks, in order; and what its cells do meanwhile.

use crate::{
    arguments::{KernelAudit, Options},
    cgroup::Cgroups,
    facts, identity,
    nest::{self, Nest},
    phase::Phase,
    privilege::{Privilege, PrivilegeError},
    pulse::Pulse,
    session::{Blank, Session, Wanted},
    spawn::{Process, SpawnError, Spawner},
    store::Stores,
    uids::{Uids, UidsError},
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_channel::{ChannelError, Datagrams};
use palisade_plan::{
    Absent, BUILD_ID, Facts, Found, HeldLimit, Identity, LaunchPlan, Role, Runs, SessionUid,
    StepError,
    ceiling::{AllowRoot, Ceiling, Reach},
    cell::FILE_CHANNELS,
    launcher::{Refusal, Reply, Request, SessionNumber, Whose},
    steps,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
};

/// Why the launcher ended.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// Standard input is not a socket of the right kind.
    #[error(
        "standard input is not a sequenced-packet socket; palisaded or systemd starts this program"
    )]
    NoSocket,
    /// The kernel refused something.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] Errno),
    /// The user that may connect does not exist.
    #[error("there is no user {0}; create it, or see --broker-user")]
    NoUser(String),
    /// The user that may connect is the launcher's own.
    #[error(
        "{0} is whom the launcher runs as; the broker's user must be another, see --broker-user"
    )]
    SharedUser(String),
    /// Privilege could not be settled.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The launcher could not be started again in a PID namespace of its own.
    #[error("start again in a PID namespace: {0}")]
    Nest(#[source] std::io::Error),
    /// The launcher inside ended; it said why.
    #[error("ended with status {code:?}, signal {signal:?}")]
    Inner {
        /// Its status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// Sessions can not have uids of their own.
    #[error(transparent)]
    Uids(#[from] UidsError),
    /// No cell can be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The broker is cut off.
    #[error("broker: {0}")]
    Broker(#[from] ChannelError),
    /// The broker broke the rules.
    #[error("broker refused: {0}")]
    Refused(String),
    /// The cell's program is not beside this one.
    #[error("where is palisade-cell? {0}; see --cell")]
    NoCell(std::io::Error),
}

/// The launcher.
#[derive(Debug)]
struct Launcher {
    ceiling: Ceiling,
    facts: Facts,
    /// The kernel's audit records, which the broker reads.
    records: Option<OwnedFd>,
    spawner: Spawner,
    cgroups: Cgroups,
    blank: Option<Blank>,
    pulse: Pulse,
    stores: Stores,
    uids: Uids,
    sessions: BTreeMap<SessionNumber, Session>,
}

/// Runs until the broker is gone; with a listening socket, until the end of the service.
///
/// # Errors
/// If nothing can be served.
pub fn run(options: Options) -> Result<(), LauncherError> {
    match nest::enter(&options)? {
        Nest::Ended(ended) => nest::status(ended),
        Nest::Here(privilege, _keeper) => serve(options, &privilege),
    }
}

fn serve(options: Options, privilege: &Privilege) -> Result<(), LauncherError> {
    let uids = Uids::new(options.ceiling.session_uids)?;
    // Cgroup directories are looked into by the broker.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|_| LauncherError::NoSocket)?;
    let listening =
        rustix::net::sockopt::socket_acceptconn(&socket).map_err(|_| LauncherError::NoSocket)?;
    let cell = match options.cell {
        Some(path) => path,
        None => beside_this_program().map_err(LauncherError::NoCell)?,
    };
    let cgroups = Cgroups::find();
    // Not earlier: a process that is out of reach of others can not write its own id maps either.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| LauncherError::Kernel("undumpable", e))?;
    let spawner = Spawner::new(&cell, privilege.cells_begin())?;
    let (spawner, mut facts, mut records) = facts::find(privilege, spawner, &cgroups)?;
    match (options.kernel_audit, options.audit_trouble) {
        (KernelAudit::Off, _) => {
            records = None;
            facts.records = Found::No("--kernel-audit is off".to_owned());
        }
        (KernelAudit::Enable, Some(why)) if facts.records.is_yes() => {
            facts.records = Found::Yes(format!("audit could not be turned on: {why}"));
        }
        (KernelAudit::Use | KernelAudit::Enable, _) => {}
    }
    let mut ceiling = options.ceiling;
    if !listening {
        // Not a service: whoever started this may have sessions, root among them.
        ceiling.allow_root = AllowRoot::Yes;
    }
    ceiling.network = network(options.allow_ports, privilege);
    facts.ports = facts::ports(&facts, &ceiling.network);
    let stores = Stores::open(options.store, &spawner);
    let mut launcher = Launcher {
        ceiling,
        facts,
        records,
        spawner,
        cgroups,
        blank: None,
        pulse: Pulse::new(options.pulse),
        stores,
        uids,
        sessions: BTreeMap::new(),
    };
    let result = if listening {
        launcher.accept(&socket, options.broker_user.as_deref())
    } else {
        launcher.serve(&Datagrams::new(socket))
    };
    launcher.end();
    launcher.cgroups.remove();
    result
}

/// What a session may reach of this network. Whose launcher has no privilege has all of it anyway.
fn network(said: Option<Reach>, privilege: &Privilege) -> Reach {
    match (said, privilege.privileged) {
        (Some(said), _) => said,
        (None, true) => Reach::Nothing,
        (None, false) => Reach::EveryPort,
    }
}

fn beside_this_program() -> Result<PathBuf, std::io::Error> {
    Ok(std::env::current_exe()?.with_file_name("palisade-cell"))
}

impl Launcher {
    /// Serves brokers that connect, one after another.
    fn accept(&mut self, listener: &OwnedFd, user: Option<&str>) -> Result<(), LauncherError> {
        let allowed = match user {
            None => 0,
            Some(name) => nix::unistd::User::from_name(name)
                .ok()
                .flatten()
                .ok_or_else(|| LauncherError::NoUser(name.to_owned()))?
                .uid
                .as_raw(),
        };
        if let Some(name) = user
            && identity::is_launchers(allowed, rustix::process::geteuid().as_raw())
        {
            return Err(LauncherError::SharedUser(name.to_owned()));
        }
        loop {
            self.pulse.beat();
            let mut polled = [PollFd::new(listener, PollFlags::IN)];
            match rustix::event::poll(&mut polled, self.pulse.patience().as_ref()) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(LauncherError::Kernel("poll", error)),
            }
            let broker = match rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC)
            {
                Ok(broker) => broker,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(LauncherError::Kernel("accept", error)),
            };
            let peer = getsockopt(&broker, PeerCredentials);
            match peer {
                Ok(peer) if peer.uid() == allowed => {
                    if let Err(error) = self.serve(&Datagrams::new(broker)) {
                        eprintln!("palisade-launcher: {error}");
                    }
                    self.end();
                }
                Ok(peer) => eprintln!("palisade-launcher: refused a broker of uid {}", peer.uid()),
                Err(error) => eprintln!("palisade-launcher: refused a broker: {error}"),
            }
        }
    }

    /// Serves one broker until it goes.
    fn serve(&mut self, broker: &Datagrams) -> Result<(), LauncherError> {
        let mut phase = Phase::Greeting;
        let mut attempt = Attempt::Worthwhile;
        loop {
            // Making a blank takes longer than what a new session waits for: that goes first.
            let wanted = self.blank.is_none() || self.sessions.values().any(Session::lacks_spare);
            let idle = wanted
                && attempt == Attempt::Worthwhile
                && phase == Phase::Serving
                && !self.sessions.values().any(Session::is_starting);
            let woken = self.wait(broker, idle)?;
            self.pulse.beat();
            if !woken.any {
                if idle {
                    attempt = self.prepare_ahead();
                }
                continue;
            }
            attempt = Attempt::Worthwhile;
            if woken.swept {
                self.stores.collect();
            }
            for number in woken.sessions {
                self.look_after(number, broker)?;
            }
            if woken.broker {
                let Some((request, fds)) = broker.receive_or_bare::<Request>()? else {
                    return Ok(());
                };
                phase = match phase.allows(&request) {
                    Ok(phase) => phase,
                    Err(why) => {
                        broker.send(&Reply::Fatal { why: why.clone() }, &[])?;
                        return Err(LauncherError::Refused(why));
                    }
                };
                if let Some(reply) = self.answer(request, fds) {
                    let welcome = matches!(reply, Reply::Welcome { .. });
                    let records = self.records.iter().filter(|_| welcome);
                    let records: Vec<_> = records.map(|socket| socket.as_fd()).collect();
                    broker.send(&reply, &records)?;
                }
            }
        }
    }

    fn wait(&self, broker: &Datagrams, idle: bool) -> Result<Woken, LauncherError> {
        let mut polled = vec![PollFd::new(broker, PollFlags::IN)];
        let mut owners = Vec::new();
        for (number, session) in &self.sessions {
            if session.is_waiting()
                && let Some(files) = &session.files
            {
                polled.push(PollFd::new(&files.control, PollFlags::IN));
                owners.push(*number);
            }
            for process in session.processes() {
                polled.push(PollFd::new(&process.pidfd, PollFlags::IN));
                owners.push(*number);
            }
        }
        let mut sweeps = 0;
        for sweep in self.stores.processes() {
            polled.push(PollFd::new(&sweep.pidfd, PollFlags::IN));
            sweeps += 1;
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let patience = if idle { Some(at_once) } else { self.pulse.patience() };
        match rustix::event::poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LauncherError::Kernel("poll", error)),
        }
        let swept = polled.iter().rev().take(sweeps).any(|fd| !fd.revents().is_empty());
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let broker = ready.next().unwrap_or(false);
        let mut sessions: Vec<_> =
            owners.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(n, _)| n).collect();
        sessions.dedup();
        Ok(Woken { any: broker || swept || !sessions.is_empty(), broker, swept, sessions })
    }

    /// Something happened to a session's processes.
    fn look_after(
        &mut self,
        number: SessionNumber,
        broker: &Datagrams,
    ) -> Result<(), LauncherError> {
        let Some(session) = self.sessions.get_mut(&number) else { return Ok(()) };
        if session.is_waiting() && readable(session) {
            for wanted in session.hear() {
                let made =
                    session.runner(number, wanted, &self.facts, &self.spawner, &mut self.stores);
                if let Err(refusal) = made {
                    broker.send(&Reply::Refused { session: number, refusal }, &[])?;
                }
            }
        }
        let over = session.collect();
        for name in session.take_left() {
            self.stores.sweep(name, &self.spawner);
        }
        self.spawner.end_strays(&self.known());
        if over && let Some(session) = self.sessions.remove(&number) {
            session.remove();
            broker.send(&Reply::Ended { session: number }, &[])?;
        }
        Ok(())
    }

    /// Every process that belongs to a session, or waits for one.
    fn known(&self) -> Vec<rustix::process::Pid> {
        let blank = self.blank.iter().flat_map(|blank| [&blank.files, &blank.runner]);
        let sessions = self.sessions.values().flat_map(Session::processes);
        sessions.chain(blank).chain(self.stores.processes()).map(Process::pid).collect()
    }

    fn answer(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Reply> {
        match request {
            Request::Hello { .. } => Some(Reply::Welcome {
                build_id: BUILD_ID.to_owned(),
                facts: Box::new(self.facts.clone()),
            }),
            Request::Session { session, whose, plan } => Some(
                self.open(session, whose, *plan, fds)
                    .unwrap_or_else(|refusal| Reply::Refused { session, refusal }),
            ),
            Request::Runner { session } => {
                let wanted = <[OwnedFd; 1]>::try_from(fds).map(Wanted::Runner);
                self.runner(session, wanted)
            }
            Request::Transaction { session } => {
                let mut fds = fds;
                let scanned = if fds.len() > 2 { fds.pop() } else { None };
                let wanted = <[OwnedFd; 2]>::try_from(fds);
                let wanted = wanted.map(|channels| Wanted::Transaction(channels, scanned));
                self.runner(session, wanted)
            }
            Request::End { session } => match self.sessions.get_mut(&session) {
                // `Ended` follows when every process of it is gone.
                Some(known) => {
                    known.begin_end();
                    None
                }
                None => Some(Reply::Ended { session }),
            },
        }
    }

    fn open(
        &mut self,
        number: SessionNumber,
        whose: Whose,
        plan: LaunchPlan,
        mut fds: Vec<OwnedFd>,
    ) -> Result<Reply, Refusal> {
        if self.sessions.contains_key(&number) {
            return Err(Refusal::Session(format!("there is a session {number} already")));
        }
        let clients = match whose {
            Whose::Client => 1,
            Whose::Nobody => 0,
        };
        if fds.len() != clients + FILE_CHANNELS {
            return Err(wrong_number(&fds, "a session"));
        }
        let identity = match whose {
            Whose::Client => {
                let client = fds.remove(0);
                identity::of_client(client.as_fd(), &plan, self.facts.privileged)?
            }
            Whose::Nobody => identity::of_nobody(self.facts.privileged),
        };
        identity::refuse_own(identity, self.facts.privileged)?;
        self.ceiling.check(&plan, identity).map_err(|error| Refusal::Ceiling(error.to_string()))?;
        let runs = self.runs(&plan, identity)?;
        let absent = self.absent(&plan, runs)?;
        let blank = match self.blank.take() {
            Some(blank) => blank,
            None => self.make_blank().map_err(Refusal::Spawn)?,
        };
        let limits = match &blank.cgroups {
            Some(cgroups) => match cgroups.limit(&plan.limits) {
                Ok(limits) => limits,
                Err(error) => {
                    blank.end();
                    return Err(Refusal::Spawn(format!("cgroup limits: {error}")));
                }
            },
            None => Vec::<HeldLimit>::new(),
        };
        let session = Session::start(number, blank, plan, runs, &self.facts, &fds)?;
        let oom_file = session.cgroups().map_or_else(String::new, |cgroups| cgroups.oom_file());
        self.sessions.insert(number, session);
        Ok(Reply::Started { session: number, runs, limits, absent, oom_file })
    }

    /// Whom a session runs as that is for somebody.
    fn runs(&mut self, plan: &LaunchPlan, peer: Identity) -> Result<Runs, Refusal> {
        match plan.uid {
            SessionUid::Peer => Ok(peer.into()),
            SessionUid::Throwaway if self.facts.privileged => {
                self.uids.take(peer, self.sessions.values().map(Session::uid))
            }
            SessionUid::Throwaway => Err(Refusal::NoUid(
                "taking on another uid needs privilege, which an ordinary user's daemon has not"
                    .into(),
            )),
        }
    }

    /// Refuses before anything is started if a required layer is missing.
    fn absent(&self, plan: &LaunchPlan, runs: Runs) -> Result<Vec<Absent>, Refusal> {
        match steps(plan, &self.facts, runs, Role::Files) {
            Ok((_, absent)) => Ok(absent),
            Err(StepError::Missing(absent)) => Err(Refusal::LayerMissing(absent)),
            Err(error @ (StepError::Empty(_) | StepError::Transaction(_))) => {
                Err(Refusal::Ceiling(error.to_string()))
            }
        }
    }

    /// Makes a runner; says why if it is refused. The error is descriptors that are too many or
    /// too few.
    fn runner(
        &mut self,
        session: SessionNumber,
        wanted: Result<Wanted, Vec<OwnedFd>>,
    ) -> Option<Reply> {
        let made = match (self.sessions.get_mut(&session), wanted) {
            (None, _) => Err(Refusal::Session(format!("there is no session {session}"))),
            (_, Err(fds)) => Err(wrong_number(&fds, "a runner")),
            (Some(known), Ok(wanted)) => {
                known.runner(session, wanted, &self.facts, &self.spawner, &mut self.stores)
            }
        };
        made.err().map(|refusal| Reply::Refused { session, refusal })
    }

    /// Makes the process of a session's next transaction, or the next session's processes, while
    /// nothing else is to be done. If it can not be done now, who needs them says why.
    fn prepare_ahead(&mut self) -> Attempt {
        let made = match self.sessions.values_mut().find(|session| session.lacks_spare()) {
            Some(session) => session.refill(&self.spawner).is_ok(),
            None => self.make_blank().map(|blank| self.blank = Some(blank)).is_ok(),
        };
        if made { Attempt::Worthwhile } else { Attempt::Failed }
    }

    fn make_blank(&mut self) -> Result<Blank, String> {
        let cgroups = self.cgroups.make().map_err(|error| format!("cgroup: {error}"))?;
        Blank::make(&self.spawner, cgroups)
    }

    /// Ends everything: the broker is gone, so nobody is left to bound or hear these cells.
    fn end(&mut self) {
        let sessions = std::mem::take(&mut self.sessions);
        sessions.values().for_each(Session::kill);
        for name in sessions.into_values().flat_map(Session::end_now) {
            self.stores.sweep(name, &self.spawner);
        }
        if let Some(blank) = self.blank.take() {
            blank.end();
        }
        self.stores.finish();
        self.spawner.end_strays(&[]);
    }
}

/// Why a request with these descriptors is refused.
fn wrong_number(fds: &[OwnedFd], what: &str) -> Refusal {
    if fds.is_empty() {
        // The broker always sends some; the kernel hands over none where there is no room for all.
        return Refusal::Spawn(format!(
            "the launcher has no room for the descriptors of {what}; it may have too few (LimitNOFILE=)"
        ));
    }
    Refusal::Session(format!("{} descriptors for {what}", fds.len()))
}

/// Whether it is worthwhile to try to make a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Worthwhile,
    /// It failed, and nothing has happened since that could have changed that.
    Failed,
}

/// What there is to do.
struct Woken {
    any: bool,
    broker: bool,
    swept: bool,
    sessions: Vec<SessionNumber>,
}

/// Whether the cell has said something. (Its end can be what woke the launcher.)
fn readable(session: &Session) -> bool {
    let Some(files) = &session.files else { return false };
    let mut polled = [PollFd::new(&files.control, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
