//! Signals and ends everything that a program started, as a whole, wherever it hides. Runs in the
//! cell.

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// The way to find the processes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessTree {
    /// This process is the first of its PID namespace. `kill(-1)` reaches exactly the call's
    /// processes, all at once, and none of them can fork past it.
    Namespace,
    /// There is no PID namespace, as the profile permits. Orphans are reparented to this process,
    /// so that its children can be found, killed and reaped until none is left.
    Children,
}

impl ProcessTree {
    pub(crate) fn new() -> std::io::Result<Self> {
        if rustix::process::getpid() == rustix::process::Pid::INIT {
            return Ok(Self::Namespace);
        }
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // If the death signal killed this process, it could not end the others. The launcher's
        // socket also tells it when the launcher ends, and leaves time for that.
        rustix::process::set_parent_process_death_signal(None)?;
        Ok(Self::Children)
    }

    /// Ends what is left of a call when this process ends. In a PID namespace the kernel does that.
    pub(crate) fn end_with_this_process(self) {
        match self {
            Self::Namespace => {}
            Self::Children => {
                self.end();
            }
        }
    }

    /// Signals every process of a call. Processes that have ended are ignored.
    pub(crate) fn signal(self, leader: i32, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        match self {
            Self::Namespace => ignore_gone(kill(Pid::from_raw(-1), signal)),
            Self::Children => {
                ignore_gone(kill(Pid::from_raw(-leader), signal));
                for pid in children() {
                    ignore_gone(kill(pid, signal));
                }
            }
        }
    }

    /// Kills and reaps every process of a call, and returns how many had to be killed.
    pub(crate) fn end(self) -> u32 {
        let mut ended = 0;
        // Most programs leave nothing behind, so check that first. Everything left descends from
        // this process, and `kill(-1)` looks at every process of the host.
        let mut wait = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        loop {
            match waitpid(None, Some(wait)) {
                Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _)) => ended += 1,
                // It had ended by itself and only needed reaping, or there are processes to kill.
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => {}
                // No child is left.
                Err(_) => return ended,
            }
            wait = WaitPidFlag::__WALL;
            self.kill();
        }
    }

    fn kill(self) {
        match self {
            Self::Namespace => ignore_gone(kill(Pid::from_raw(-1), Signal::SIGKILL)),
            Self::Children => {
                for pid in children() {
                    ignore_gone(kill(pid, Signal::SIGKILL));
                }
            }
        }
    }
}

/// Ignores errors: a process that ended before it was signalled needs no signal.
fn ignore_gone(result: nix::Result<()>) {
    match result {
        Ok(()) | Err(_) => {}
    }
}

/// Returns this process's children, as `/proc` lists them.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}
