//! Serves one broker at a time: answers its requests in order, and handles events of its cells.

mod answer;
mod wait;

use crate::{
    arguments::{KernelAudit, Options, StartAhead},
    blank::PrestartedSession,
    cgroup::Cgroups,
    error::LauncherError,
    facts,
    identity::{self, ClientSocket},
    nest::{self, LauncherRole},
    phase::Phase,
    privilege::Privilege,
    pulse::WatchdogBeat,
    session::Session,
    spawn::{Process, Spawner},
    store::Stores,
    uids::Uids,
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_channel::Datagrams;
use palisade_plan::{
    Facts, Found,
    ceiling::{AcceptedFilters, AllowRoot, Ceiling, Reach},
    launcher::{Reply, Request, SessionNumber},
};
use palisade_programs::{Program, Search};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, OwnedFd},
};

/// The socket on which clients connect to the service.
const AGENT_SOCKET: &str = "/run/palisade/agent.sock";

/// The state of the launcher.
#[derive(Debug)]
struct Launcher {
    ceiling: Ceiling,
    /// The filters that the ceiling has accepted.
    filters: AcceptedFilters,
    facts: Facts,
    /// The socket with the kernel's audit records, which the broker reads.
    records: Option<OwnedFd>,
    spawner: Spawner,
    cgroups: Cgroups,
    /// The process that tried what the host can enforce, until it is reaped.
    trial: Option<Process>,
    blank: Option<PrestartedSession>,
    start_ahead: StartAhead,
    pulse: WatchdogBeat,
    stores: Stores,
    uids: Uids,
    client_socket: Option<ClientSocket>,
    sessions: BTreeMap<SessionNumber, Session>,
}

/// Runs until the broker is gone or, with a listening socket, until the service ends.
///
/// # Errors
/// If the launcher can not serve.
pub fn run(options: Options) -> Result<(), LauncherError> {
    let ended = match nest::enter(&options) {
        Ok(LauncherRole::Ended(ended)) => nest::status(ended),
        Ok(LauncherRole::Here(privilege, _keeper, pulse)) => serve(options, &privilege, *pulse),
        Err(error) => Err(error),
    };
    ended.inspect_err(tell_broker)
}

/// Tells the broker that started this launcher why it is not served, so that it need not guess.
fn tell_broker(error: &LauncherError) {
    // These errors concern a broker that was served.
    if matches!(error, LauncherError::Broker(_) | LauncherError::Refused(_)) {
        return;
    }
    let stdin = rustix::stdio::stdin();
    if rustix::net::sockopt::socket_acceptconn(stdin) == Ok(false)
        && let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(stdin, 3)
    {
        // A broker that is gone needs no reason.
        Datagrams::new(socket)
            .send(&Reply::Fatal { why: error.to_string() }, &[])
            .unwrap_or_default();
    }
}

fn serve(
    options: Options,
    privilege: &Privilege,
    pulse: WatchdogBeat,
) -> Result<(), LauncherError> {
    let uids = Uids::new(options.ceiling.session_uids)?;
    // The broker reads the cgroup directories.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|_| LauncherError::NoSocket)?;
    let listening =
        rustix::net::sockopt::socket_acceptconn(&socket).map_err(|_| LauncherError::NoSocket)?;
    let cell = match options.cell {
        Some(path) => Program::at(&path)
            .map_err(|error| LauncherError::CellProgram(path.display().to_string(), error))?,
        None => Search::usual().open("palisade-cell")?,
    };
    let mut cgroups = Cgroups::find();
    // Not earlier: a process that is not dumpable can not write its own id maps either.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| LauncherError::Kernel("undumpable", e))?;
    let spawner = Spawner::new(cell, privilege.cell_start_identity())?;
    let (spawner, trial) = facts::begin(privilege, spawner)?;
    // While the trial runs. A launcher of one broker is about to be asked for a session. If this
    // fails, the request for the session tries again and reports why.
    let blank = if listening { None } else { make_blank(&mut cgroups, &spawner).ok() };
    let (mut facts, mut records, trial) = trial.finish(privilege, &cgroups)?;
    match (options.kernel_audit, options.audit_trouble) {
        (KernelAudit::Off, _) => {
            records = None;
            facts.records = Found::No("--kernel-audit is off".to_owned());
        }
        (KernelAudit::Enable, Some(why)) if facts.records.is_yes() => {
            facts.records = Found::Yes(format!("kernel audit could not be turned on: {why}"));
        }
        (KernelAudit::Use | KernelAudit::Enable, _) => {}
    }
    let mut ceiling = options.ceiling;
    if !listening {
        // This is not a service: whoever started it may have sessions, including root.
        ceiling.allow_root = AllowRoot::Yes;
    }
    let service_socket = listening.then(|| ClientSocket::AcceptedOn(AGENT_SOCKET.into()));
    ceiling.network = network(options.allow_ports, privilege);
    facts.ports = facts::ports(&facts, &ceiling.network);
    let mut stores = Stores::open(options.store, &spawner, privilege.mount_rights());
    facts::try_disk(&mut facts.overlay, privilege, &spawner, &mut stores)?;
    let mut launcher = Launcher {
        ceiling,
        filters: AcceptedFilters::default(),
        facts,
        records,
        spawner,
        cgroups,
        trial: Some(trial),
        blank,
        start_ahead: options.start_ahead,
        pulse,
        stores,
        uids,
        client_socket: options.client_socket.or(service_socket),
        sessions: BTreeMap::new(),
    };
    let result = if listening {
        launcher.reap_trial();
        launcher.accept(&socket, options.broker_user.as_deref())
    } else {
        launcher.serve(&Datagrams::new(socket))
    };
    launcher.end();
    launcher.cgroups.remove();
    result
}

/// Returns the ports that a session may connect to. A user's own launcher adds no restriction,
/// since the user can connect to any port anyway.
fn network(said: Option<Reach>, privilege: &Privilege) -> Reach {
    match (said, privilege.privileged) {
        (Some(said), _) => said,
        (None, true) => Reach::Nothing,
        (None, false) => Reach::EveryPort,
    }
}

impl Launcher {
    /// Serves the brokers that connect, one after another.
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
            && identity::is_launcher_user(allowed, rustix::process::geteuid().as_raw())
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

    /// Serves one broker until it disconnects.
    fn serve(&mut self, broker: &Datagrams) -> Result<(), LauncherError> {
        let mut phase = Phase::Greeting;
        let mut attempt = Attempt::Worthwhile;
        loop {
            if self.trial.as_ref().is_some_and(Process::has_ended) {
                self.trial = None;
            }
            // Starting processes ahead takes longer than a new session should wait, so the session
            // goes first.
            let wanted = self.blank.is_none()
                || self.sessions.values().any(Session::needs_transaction_process);
            let idle = wanted
                && self.start_ahead == StartAhead::Always
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
                self.handle_session_event(number, broker)?;
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
                // The cell of the first session confines itself meanwhile.
                if !self.sessions.is_empty() {
                    self.reap_trial();
                }
            }
        }
    }

    /// Returns every process that belongs to a session, or waits for one.
    fn known(&self) -> Vec<rustix::process::Pid> {
        let blank = self.blank.iter().flat_map(|blank| [&blank.files, &blank.runner]);
        let sessions = self.sessions.values().flat_map(Session::processes);
        let others = self.stores.processes().chain(&self.trial);
        sessions.chain(blank).chain(others).map(Process::pid).collect()
    }

    /// Starts the process for a session's next transaction, or the processes for the next session,
    /// while there is nothing else to do. If that fails now, the request that needs them reports
    /// why.
    fn prepare_ahead(&mut self) -> Attempt {
        let made =
            match self.sessions.values_mut().find(|session| session.needs_transaction_process()) {
                Some(session) => session.refill(&self.spawner).is_ok(),
                None => self.make_blank().map(|blank| self.blank = Some(blank)).is_ok(),
            };
        if made { Attempt::Worthwhile } else { Attempt::Failed }
    }

    fn make_blank(&mut self) -> Result<PrestartedSession, String> {
        make_blank(&mut self.cgroups, &self.spawner)
    }

    /// Waits for the end of the process that tried what the host can enforce.
    fn reap_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            trial.collect();
        }
    }

    /// Ends everything. The broker is gone, so nobody is left to control these cells.
    fn end(&mut self) {
        let sessions = std::mem::take(&mut self.sessions);
        sessions.values().for_each(Session::kill);
        for name in sessions.into_values().flat_map(Session::end_now) {
            self.stores.sweep(name, &self.spawner);
        }
        if let Some(blank) = self.blank.take() {
            blank.end();
        }
        self.reap_trial();
        self.stores.finish();
        self.spawner.end_strays(&[]);
    }
}

/// Starts the processes of a session that nobody has requested yet.
fn make_blank(cgroups: &mut Cgroups, spawner: &Spawner) -> Result<PrestartedSession, String> {
    let cgroups = cgroups.make().map_err(|error| format!("cgroup: {error}"))?;
    PrestartedSession::make(spawner, cgroups)
}

/// The state of the attempts to start processes ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Worthwhile,
    /// The last try failed, and nothing has happened since that could change that.
    Failed,
}
