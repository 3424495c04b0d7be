//! Starts the processes of cells. The only file of this crate that starts a process.
#![allow(clippy::disallowed_methods)]

use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
};
use palisade_channel::{ChannelError, Datagrams};
use palisade_plan::cell::{BEGIN_AS_ROOT, Setup};
use palisade_programs::Program;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    net::{AddressFamily, Shutdown, SocketFlags, SocketType},
    process::{Pid, PidfdFlags, Signal},
};
use std::{
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Command, Stdio},
};

/// Why a cell's process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The kernel refused an act.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    /// The setup could not be sent.
    #[error("setup: {0}")]
    Setup(#[from] ChannelError),
}

fn kernel<E: Into<io::Error>>(act: &'static str) -> impl FnOnce(E) -> SpawnError {
    move |error| SpawnError::Kernel(act, error.into())
}

/// How long a process without a PID namespace may take to end what it has started.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Whether a process gets a PID namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPids {
    /// It is the first process of one.
    Yes,
    /// There are none to be had.
    No,
}

/// Whom a process is when it takes its first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Who the launcher is.
    AsLauncher,
    /// Root, with the launcher's capabilities.
    AsRoot,
}

/// Starts processes of one program, which is opened once: what was there at the start is what runs.
#[derive(Debug)]
pub(crate) struct Spawner {
    program: Program,
    pids: OwnedFd,
    own_pids: OwnPids,
    begins: Begins,
}

impl Spawner {
    /// Without PID namespaces, until [`Self::find_pids`] has found some.
    pub(crate) fn new(program: Program, begins: Begins) -> Result<Self, SpawnError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let pids = rustix::fs::open("/proc/self/ns/pid", flags, Mode::empty())
            .map_err(kernel("open own PID namespace"))?;
        Ok(Self { program, pids, own_pids: OwnPids::No, begins })
    }

    /// Whether there are PID namespaces: tried for real.
    pub(crate) fn find_pids(mut self) -> (Self, Result<(), io::Error>) {
        let found = unshare(CloneFlags::CLONE_NEWPID)
            .and_then(|()| setns(&self.pids, CloneFlags::CLONE_NEWPID))
            .map_err(io::Error::from);
        self.own_pids = if found.is_ok() { OwnPids::Yes } else { OwnPids::No };
        if self.own_pids == OwnPids::No {
            // Kernels since 3.4 can; one that can not leaves strays to the host's first process.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .unwrap_or_default();
        }
        (self, found)
    }

    /// Starts a process that waits for its setup.
    pub(crate) fn start(&self) -> Result<Process, SpawnError> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(kernel("socketpair"))?;
        if self.own_pids == OwnPids::Yes {
            unshare(CloneFlags::CLONE_NEWPID).map_err(kernel("unshare PID namespace"))?;
        }
        let child = Command::new(self.program.entry())
            .arg0("palisade-cell")
            .args((self.begins == Begins::AsRoot).then_some(BEGIN_AS_ROOT))
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        // Later children are not to be born into this one.
        if self.own_pids == OwnPids::Yes {
            setns(&self.pids, CloneFlags::CLONE_NEWPID).map_err(kernel("own PID namespace"))?;
        }
        let child = child.map_err(kernel("start palisade-cell"))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| kernel("pid")(rustix::io::Errno::SRCH))?;
        let pidfd =
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(kernel("pidfd"))?;
        Ok(Process { pid, pidfd, control: Datagrams::new(ours), own_pids: self.own_pids })
    }

    /// Without PID namespaces what a killed cell ran comes back to this process, and is ended here.
    pub(crate) fn end_strays(&self, known: &[Pid]) {
        if self.own_pids == OwnPids::Yes {
            return;
        }
        loop {
            let strays = children().into_iter().filter(|pid| !known.contains(pid));
            let strays: Vec<_> = strays.collect();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                // Gone in between is what is wanted.
                rustix::process::kill_process(stray, Signal::KILL).unwrap_or_default();
                collect(stray);
            }
        }
    }
}

/// This process's children, as `/proc` lists them.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn collect(pid: Pid) {
    let pid = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
    while matches!(waitpid(pid, None), Err(nix::errno::Errno::EINTR)) {}
}

/// A process of a cell.
#[derive(Debug)]
pub(crate) struct Process {
    own_pids: OwnPids,
    pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) control: Datagrams,
}

impl Process {
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn set_up(&self, setup: &Setup, fds: &[BorrowedFd<'_>]) -> Result<(), SpawnError> {
        Ok(self.control.send(setup, fds)?)
    }

    /// Kills it, and with it everything in its PID namespace. Without one only the process itself
    /// knows what it has started: it is told to end that and itself, and killed if it does not.
    pub(crate) fn kill(&self) {
        if self.own_pids == OwnPids::No && self.ends_when_told() {
            return;
        }
        // ESRCH: it is gone, which is what is wanted; nothing else can come of SIGKILL by pidfd.
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
    }

    fn ends_when_told(&self) -> bool {
        // It is told by the end of its socket; one that is closed already has told it.
        rustix::net::shutdown(&self.control, Shutdown::Both).unwrap_or_default();
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&PATIENCE)).is_ok_and(|ended| ended > 0)
    }

    /// Collects it if it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let pid = nix::unistd::Pid::from_raw(self.pid.as_raw_nonzero().get());
        !matches!(waitpid(pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }

    /// Waits for its end.
    pub(crate) fn collect(&self) {
        collect(self.pid);
    }
}
