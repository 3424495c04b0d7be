//! Puts the launcher into a PID namespace of its own: when it ends, for whatever reason, the
//! kernel kills everything in there, which is every cell and everything they run. The process that
//! was started stays outside and only waits.
#![allow(clippy::disallowed_methods)]

use crate::{
    arguments::{AUDIT_TROUBLE, INSIDE, KEEP_AUDIT, KernelAudit, Options},
    aside, audit,
    error::LauncherError,
    hierarchy,
    privilege::{self, Privilege},
    pulse::{Manager, PULSE, Pulse},
};
use nix::sched::{CloneFlags, unshare};
use palisade_plan::Found;
use rustix::{io::Errno, process::Signal};
use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
};

const SYSTEM: &str = "system";
const USER: &str = "user";

/// This very program, whatever has become of its name.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Where this process stands.
pub(crate) enum Nest {
    /// Outside: the inner launcher has ended with this.
    Ended(ExitStatus),
    /// Inside, or without a namespace to go into: go on.
    Here(Privilege, Option<Keeper>, Box<Pulse>),
}

/// Keeps the kernel's audit on; puts it back when this is dropped, or this process ends.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Starts it, while there is still the privilege for that.
    fn start() -> Result<Self, String> {
        let mut keeper = Command::new(OWN_PROGRAM)
            .arg0("palisade-launcher")
            .arg(KEEP_AUDIT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = String::new();
        if let Some(out) = keeper.stdout.take() {
            BufReader::new(out).read_line(&mut said).map_err(|error| error.to_string())?;
        }
        if said.trim() == audit::ON {
            return Ok(Self(keeper));
        }
        let mut why = String::new();
        if let Some(mut err) = keeper.stderr.take() {
            err.read_to_string(&mut why).map_err(|error| error.to_string())?;
        }
        keeper.wait().map_err(|error| error.to_string())?;
        Err(why.trim().trim_start_matches("palisade-launcher: ").to_owned())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().map(drop).unwrap_or_default();
    }
}

/// Settles privilege, then goes inside.
pub(crate) fn enter(options: &Options) -> Result<Nest, LauncherError> {
    if let Some(settled) = &options.inside {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|e| LauncherError::Kernel("parent death signal", e))?;
        let pulse = Box::new(Pulse::new(options.pulse));
        return Ok(Nest::Here(told(settled), None, pulse));
    }
    // First: whatever is started from here on must not be in the group that is shared out.
    aside::step_aside();
    let keeper = match options.kernel_audit {
        KernelAudit::Enable => Some(Keeper::start()),
        KernelAudit::Use | KernelAudit::Off => None,
    };
    let (keeper, trouble) = match keeper.transpose() {
        Ok(keeper) => (keeper, None),
        Err(why) => {
            eprintln!("palisade-launcher: the kernel's audit is not turned on: {why}");
            (None, Some(why))
        }
    };
    hierarchy::share_v1_roots();
    let privilege = privilege::settle(options.claim)?;
    let manager = Manager::of_environment().map_err(LauncherError::Nest)?;
    // Where there are no PID namespaces, facts and receipts say so; a profile must allow it.
    if !privilege.user_namespace.is_yes() || unshare(CloneFlags::CLONE_NEWPID).is_err() {
        return Ok(Nest::Here(privilege, keeper, Box::new(Pulse::alone(manager))));
    }
    let mut command = Command::new(OWN_PROGRAM);
    command
        .arg0("palisade-launcher")
        .args(std::env::args_os().skip(1))
        .args([INSIDE, if privilege.privileged { SYSTEM } else { USER }]);
    if let Some(why) = &trouble {
        command.args([AUDIT_TROUBLE, why]);
    }
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
    // What keeps the audit on ends with this, after the cells.
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
