//! Starts the processes of cells. This is the only file of the crate that starts cell processes.
#![allow(clippy::disallowed_methods)]

use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
};
use palisade_channel::{ChannelError, Datagrams};
use palisade_plan::{
    Found,
    cell::{BEGIN_AS_ROOT, Setup},
};
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
    /// The kernel refused an operation.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    /// The setup could not be sent.
    #[error("setup: {0}")]
    Setup(#[from] ChannelError),
}

fn kernel<E: Into<io::Error>>(act: &'static str) -> impl FnOnce(E) -> SpawnError {
    move |error| SpawnError::Kernel(act, error.into())
}

/// The time limit for a process without a PID namespace to end what it has started.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The PID namespace of a process: its own or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPids {
    /// The process is the first one of a new namespace.
    Yes,
    /// PID namespaces are unavailable.
    No,
}

/// The identity with which a process begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartIdentity {
    /// The launcher's own.
    AsLauncher,
    /// Root, with the launcher's capabilities.
    AsRoot,
}

/// Starts processes of one program. The program is opened once, so that what was there at the start
/// is what runs.
#[derive(Debug)]
pub(crate) struct Spawner {
    program: Program,
    pids: OwnedFd,
    own_pids: OwnPids,
    begins: StartIdentity,
}

impl Spawner {
    /// Creates a spawner that uses no PID namespaces until [`Self::find_pids`] has found that it
    /// can.
    pub(crate) fn new(program: Program, begins: StartIdentity) -> Result<Self, SpawnError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let pids = rustix::fs::open("/proc/self/ns/pid", flags, Mode::empty())
            .map_err(kernel("open own PID namespace"))?;
        Ok(Self { program, pids, own_pids: OwnPids::No, begins })
    }

    /// Finds out, by trying, whether PID namespaces can be created.
    pub(crate) fn find_pids(mut self) -> (Self, Found) {
        let found = unshare(CloneFlags::CLONE_NEWPID)
            .and_then(|()| setns(&self.pids, CloneFlags::CLONE_NEWPID))
            .map_err(io::Error::from);
        match found {
            Ok(()) => {
                self.own_pids = OwnPids::Yes;
                (self, Found::Yes("own namespace".into()))
            }
            Err(error) => {
                let why = format!("unshare PID namespace: {error}");
                (self.without_pids(), Found::No(why))
            }
        }
    }

    /// Starts all processes without PID namespaces of their own.
    pub(crate) fn without_pids(self) -> Self {
        // Kernels since 3.4 support this. On others, orphans go to the host's first process.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap_or_default();
        self
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
            .args((self.begins == StartIdentity::AsRoot).then_some(BEGIN_AS_ROOT))
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        // Later children must not start in this namespace.
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

    /// Ends orphans of killed cells, which are reparented to this process if there are no PID
    /// namespaces.
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
                // If it has ended in between, that is fine.
                rustix::process::kill_process(stray, Signal::KILL).unwrap_or_default();
                collect(stray);
            }
        }
    }
}

/// Returns this process's children, as `/proc` lists them.
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

    /// Returns `true` if the process has sent a message, or its socket was closed.
    pub(crate) fn has_sent(&self) -> bool {
        let mut polled = [PollFd::new(&self.control, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Kills the process, and with it everything in its PID namespace. Without a PID namespace only
    /// the process itself knows what it has started. It is then told to end that and itself, and
    /// killed if it does not.
    pub(crate) fn kill(&self) {
        if self.own_pids == OwnPids::No && self.ends_when_told() {
            return;
        }
        // ESRCH means that it is already gone. No other error is possible for SIGKILL by pidfd.
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
    }

    fn ends_when_told(&self) -> bool {
        // The end of its socket tells it. If the socket is already closed, it has been told.
        rustix::net::shutdown(&self.control, Shutdown::Both).unwrap_or_default();
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&PATIENCE)).is_ok_and(|ended| ended > 0)
    }

    /// Reaps the process if it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let pid = nix::unistd::Pid::from_raw(self.pid.as_raw_nonzero().get());
        !matches!(waitpid(pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }

    /// Waits until the process has ended.
    pub(crate) fn collect(&self) {
        collect(self.pid);
    }
}
