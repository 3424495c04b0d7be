//! Everything that a program started, wherever it hides: signalled and ended as a whole.
//! Room: the cell.

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// How the processes of a call are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// This process is the first of its PID namespace: `kill(-1)` reaches exactly the call's
    /// processes, all at once, and none of them can fork past it.
    Namespace,
    /// There is no PID namespace, by the profile's leave: orphans come back to this process, so
    /// that its children are found, killed and collected until there are none.
    Children,
}

impl Tree {
    pub(crate) fn new() -> std::io::Result<Self> {
        if rustix::process::getpid() == rustix::process::Pid::INIT {
            return Ok(Self::Namespace);
        }
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // Killed at once, this process could end nothing. The launcher's socket tells it too when
        // the launcher goes, and leaves it the time.
        rustix::process::set_parent_process_death_signal(None)?;
        Ok(Self::Children)
    }

    /// Ends what is left of a call when this process ends. In a PID namespace the kernel does it.
    pub(crate) fn end_with_this_process(self) {
        match self {
            Self::Namespace => {}
            Self::Children => {
                self.end();
            }
        }
    }

    /// Signals every process of a call. One that is gone already needs none.
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

    /// Ends every process of a call and collects it; says how many had to be killed.
    pub(crate) fn end(self) -> u32 {
        let mut ended = 0;
        // Most programs leave nothing behind. That is asked first: everything that is left is this
        // process's child or below one, and `kill(-1)` looks at every process of the host.
        let mut wait = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        loop {
            match waitpid(None, Some(wait)) {
                Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _)) => ended += 1,
                // It had ended by itself and only waited to be collected, or there is something to end.
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

/// A process that ended between being found and being signalled is what was wanted.
fn ignore_gone(result: nix::Result<()>) {
    match result {
        Ok(()) | Err(_) => {}
    }
}

/// This process's children, as `/proc` lists them.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}
