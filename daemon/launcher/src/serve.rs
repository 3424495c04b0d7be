//! Serves one broker at a time: what it asks, in order; and what its cells do meanwhile.

mod answer;
mod wait;

use crate::{
    arguments::{KernelAudit, Options},
    blank::Blank,
    cgroup::Cgroups,
    error::LauncherError,
    facts, identity,
    nest::{self, Nest},
    phase::Phase,
    privilege::Privilege,
    pulse::Pulse,
    session::Session,
    spawn::{Process, Spawner},
    store::Stores,
    uids::Uids,
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_channel::Datagrams;
use palisade_plan::{
    Facts, Found,
    ceiling::{AllowRoot, Ceiling, Reach},
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
    let ended = match nest::enter(&options) {
        Ok(Nest::Ended(ended)) => nest::status(ended),
        Ok(Nest::Here(privilege, _keeper, pulse)) => serve(options, &privilege, *pulse),
        Err(error) => Err(error),
    };
    ended.inspect_err(tell_broker)
}

/// Has the broker that started this launcher know why it is not served, so that it need not guess.
fn tell_broker(error: &LauncherError) {
    // These are of a broker that was served.
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

fn serve(options: Options, privilege: &Privilege, pulse: Pulse) -> Result<(), LauncherError> {
    let uids = Uids::new(options.ceiling.session_uids)?;
    // Cgroup directories are looked into by the broker.
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
    let cgroups = Cgroups::find();
    // Not earlier: a process that is out of reach of others can not write its own id maps either.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| LauncherError::Kernel("undumpable", e))?;
    let spawner = Spawner::new(cell, privilege.cells_begin())?;
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
    let mut stores = Stores::open(options.store, &spawner, privilege.mount_rights());
    facts::try_disk(&mut facts.overlay, privilege, &spawner, &mut stores)?;
    let mut launcher = Launcher {
        ceiling,
        facts,
        records,
        spawner,
        cgroups,
        blank: None,
        pulse,
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

    /// Every process that belongs to a session, or waits for one.
    fn known(&self) -> Vec<rustix::process::Pid> {
        let blank = self.blank.iter().flat_map(|blank| [&blank.files, &blank.runner]);
        let sessions = self.sessions.values().flat_map(Session::processes);
        sessions.chain(blank).chain(self.stores.processes()).map(Process::pid).collect()
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

/// Whether it is worthwhile to try to make a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Worthwhile,
    /// It failed, and nothing has happened since that could have changed that.
    Failed,
}
