//! Puts the launcher into a PID namespace of its own: when it ends, for whatever reason, the
//! kernel kills everything in there, which is every cell and everything they run. The process that
//! was started stays outside and only waits.
#![allow(clippy::disallowed_methods)]

use crate::{
    arguments::Options,
    cgroup,
    privilege::{self, Privilege},
    pulse::{Manager, PULSE},
    serve::LauncherError,
};
use nix::sched::{CloneFlags, unshare};
use palisade_plan::Found;
use rustix::{io::Errno, process::Signal};
use std::{
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitStatus, Stdio},
};

/// Tells the inner launcher that it is one, and what privilege the outer one settled for.
pub(crate) const INSIDE: &str = "--inside";
const SYSTEM: &str = "system";
const USER: &str = "user";

/// Where this process stands.
pub(crate) enum Nest {
    /// Outside: the inner launcher has ended with this.
    Ended(ExitStatus),
    /// Inside, or without a namespace to go into: go on.
    Here(Privilege),
}

/// Settles privilege, then goes inside.
pub(crate) fn enter(options: &Options) -> Result<Nest, LauncherError> {
    if let Some(settled) = &options.inside {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|e| LauncherError::Kernel("parent death signal", e))?;
        return Ok(Nest::Here(told(settled)));
    }
    let privilege = privilege::settle(options.claim)?;
    cgroup::step_aside();
    // Where there are no PID namespaces, facts and receipts say so; a profile must allow it.
    if !privilege.user_namespace.is_yes() || unshare(CloneFlags::CLONE_NEWPID).is_err() {
        return Ok(Nest::Here(privilege));
    }
    let program = std::env::current_exe().map_err(LauncherError::Nest)?;
    let manager = Manager::of_environment().map_err(LauncherError::Nest)?;
    let mut command = Command::new(program);
    command
        .arg0("palisade-launcher")
        .args(std::env::args_os().skip(1))
        .args([INSIDE, if privilege.privileged { SYSTEM } else { USER }]);
    if let Some(manager) = &manager {
        command.args([PULSE, &manager.millis()]).stdout(Stdio::piped());
    }
    let mut inner = command.spawn().map_err(LauncherError::Nest)?;
    // The inner launcher alone holds the socket, so that its end is seen as the launcher's end.
    let null = std::fs::File::open("/dev/null").map_err(LauncherError::Nest)?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| LauncherError::Kernel("dup2", e))?;
    if let (Some(manager), Some(said)) = (&manager, inner.stdout.take()) {
        manager.relay(said);
    }
    Ok(Nest::Ended(match inner.wait() {
        Ok(ended) => ended,
        // Whoever started the daemon ignored SIGCHLD: the kernel has collected the inner launcher
        // by itself and kept no status. That it has ended is all there is to know.
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {
            ExitStatus::default()
        }
        Err(error) => return Err(LauncherError::Nest(error)),
    }))
}

fn told(settled: &str) -> Privilege {
    if settled == SYSTEM {
        Privilege::system()
    } else {
        Privilege { privileged: false, user_namespace: Found::Yes("the launcher's own".into()) }
    }
}

/// The status of this process is the inner launcher's.
pub(crate) fn status(ended: ExitStatus) -> Result<(), LauncherError> {
    match (ended.code(), ended.signal()) {
        (Some(0), _) => Ok(()),
        (code, signal) => Err(LauncherError::Inner { code, signal }),
    }
}
