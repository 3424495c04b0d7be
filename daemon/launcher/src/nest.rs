//! Moves the launcher into its own PID namespace. When the launcher ends, for whatever reason, the
//! kernel kills everything in that namespace: every cell and everything they run. The process that
//! was started stays outside and only waits.
#![allow(clippy::disallowed_methods)]

use crate::{
    arguments::{AUDIT_TROUBLE, INSIDE, KEEP_AUDIT, KernelAudit, Options},
    aside, audit,
    error::LauncherError,
    hierarchy,
    privilege::{self, Privilege},
    pulse::{PULSE, ServiceManager, WatchdogBeat},
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

/// This very program, even if its file was renamed or replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Directories of `/proc` that are always empty, so that a mount there covers nothing.
const ALWAYS_EMPTY: [&str; 2] = ["/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd"];

/// The reason that there are no PID namespaces where `/proc` is covered, and what to do.
const COVERED_PROC: &str = "a session can not have its own /proc, because parts of this one are covered, \
                            as containers do: start the container with `--security-opt unmask=ALL` \
                            (podman) or `--security-opt systempaths=unconfined` (docker)";

/// The role of this process: the outer or the inner launcher.
pub(crate) enum LauncherRole {
    /// The outer launcher: the inner one has ended with this status.
    Ended(ExitStatus),
    /// The inner launcher, or the only one if there is no namespace to enter: continue.
    Here(Privilege, Option<AuditKeeper>, Box<WatchdogBeat>),
}

/// A process that keeps the kernel's audit enabled. It restores the earlier state when this is
/// dropped, or when this process ends.
#[derive(Debug)]
pub(crate) struct AuditKeeper(Child);

impl AuditKeeper {
    /// Starts the keeper, while this process still has the privilege for that.
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

impl Drop for AuditKeeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().map(drop).unwrap_or_default();
    }
}

/// Determines the privilege, then enters the PID namespace.
pub(crate) fn enter(options: &Options) -> Result<LauncherRole, LauncherError> {
    if let Some(settled) = &options.inside {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|e| LauncherError::Kernel("parent death signal", e))?;
        let pulse = Box::new(WatchdogBeat::new(options.pulse));
        return Ok(LauncherRole::Here(parse_privilege(settled), None, pulse));
    }
    // This comes first: nothing started from here on may be in the group whose controllers are
    // distributed.
    aside::move_to_leaf();
    let keeper = match options.kernel_audit {
        KernelAudit::Enable => Some(AuditKeeper::start()),
        KernelAudit::Use | KernelAudit::Off => None,
    };
    let (keeper, trouble) = match keeper.transpose() {
        Ok(keeper) => (keeper, None),
        Err(why) => {
            eprintln!("palisade-launcher: kernel audit could not be turned on: {why}");
            (None, Some(why))
        }
    };
    hierarchy::share_v1_roots();
    let mut privilege = privilege::establish(options.claim)?;
    if !privilege.privileged && privilege.user_namespace.is_yes() && has_covered_proc() {
        privilege.pid_namespaces = Found::No(COVERED_PROC.to_owned());
    }
    let manager = ServiceManager::of_environment().map_err(LauncherError::Nest)?;
    // Without PID namespaces, facts and receipts say so, and a profile must allow it.
    if !privilege.user_namespace.is_yes()
        || !privilege.pid_namespaces.is_yes()
        || unshare(CloneFlags::CLONE_NEWPID).is_err()
    {
        return Ok(LauncherRole::Here(privilege, keeper, Box::new(WatchdogBeat::alone(manager))));
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
    // Only the inner launcher holds the socket, so that its end is seen as the launcher's end.
    let null = std::fs::File::open("/dev/null").map_err(LauncherError::Nest)?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| LauncherError::Kernel("dup2", e))?;
    if let (Some(manager), Some(said)) = (&manager, inner.stdout.take()) {
        manager.relay(said);
    }
    // The keeper of the audit ends with this process, after the cells.
    Ok(LauncherRole::Ended(match inner.wait() {
        Ok(ended) => ended,
        // Whoever started the daemon ignored SIGCHLD, so the kernel reaped the inner launcher
        // itself and kept no status. All that is known is that it has ended.
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {
            ExitStatus::default()
        }
        Err(error) => return Err(LauncherError::Nest(error)),
    }))
}

/// Returns `true` if parts of `/proc` are covered, as in a container. The kernel then refuses a user
/// namespace a `/proc` of its own, and the one that is there shows other process numbers than those
/// of a PID namespace.
fn has_covered_proc() -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| covers_proc(&mounts))
}

fn covers_proc(mountinfo: &str) -> bool {
    let places = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    places.filter(|place| !ALWAYS_EMPTY.contains(place)).any(|place| place.starts_with("/proc/"))
}

fn parse_privilege(settled: &str) -> Privilege {
    if settled == SYSTEM {
        Privilege::system()
    } else {
        Privilege::user(Found::Yes("the launcher's own".into()))
    }
}

/// Turns the inner launcher's status into this process's result.
pub(crate) fn status(ended: ExitStatus) -> Result<(), LauncherError> {
    match (ended.code(), ended.signal()) {
        (Some(0), _) => Ok(()),
        (code, signal) => Err(LauncherError::Inner { code, signal }),
    }
}

#[cfg(test)]
mod tests {
    use super::covers_proc;

    #[test]
    fn a_mount_that_hides_a_part_of_proc_is_found() {
        let usual = "21 27 0:20 / /proc rw,nosuid - proc proc rw\n\
                     35 21 0:31 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n";
        assert!(!covers_proc(usual));
        let masked = format!("{usual}402 21 0:5 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw\n");
        assert!(covers_proc(&masked));
        assert!(!covers_proc("30 27 0:40 / /process rw - tmpfs tmpfs rw\n"));
    }
}
