//! Creates and enters namespaces. Runs in the cell, while it has privilege.

use crate::{failure::StepFailure, kernel};
use nix::sched::{CloneFlags, setns, unshare};
use palisade_plan::Namespace;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

/// The host name inside the session's UTS namespace.
const HOST_NAME: &str = "palisade";

const fn flag(namespace: Namespace) -> CloneFlags {
    match namespace {
        Namespace::Mount => CloneFlags::CLONE_NEWNS,
        Namespace::Pid => CloneFlags::CLONE_NEWPID,
        Namespace::Network => CloneFlags::CLONE_NEWNET,
        Namespace::Ipc => CloneFlags::CLONE_NEWIPC,
        Namespace::Uts => CloneFlags::CLONE_NEWUTS,
        Namespace::Cgroup => CloneFlags::CLONE_NEWCGROUP,
    }
}

const fn file(namespace: Namespace) -> &'static str {
    match namespace {
        Namespace::Mount => "/proc/self/ns/mnt",
        Namespace::Pid => "/proc/self/ns/pid",
        Namespace::Network => "/proc/self/ns/net",
        Namespace::Ipc => "/proc/self/ns/ipc",
        Namespace::Uts => "/proc/self/ns/uts",
        Namespace::Cgroup => "/proc/self/ns/cgroup",
    }
}

/// Creates one namespace and sets up what it needs.
pub(crate) fn make_one(namespace: Namespace) -> Result<(), StepFailure> {
    unshare(flag(namespace)).map_err(StepFailure::kernel(format!("unshare {namespace:?}")))?;
    match namespace {
        Namespace::Uts => {
            nix::unistd::sethostname(HOST_NAME).map_err(StepFailure::kernel("sethostname"))
        }
        Namespace::Mount => crate::mounts::make_private(),
        // The loopback interface stays down until `loopback` is called.
        Namespace::Network | Namespace::Pid | Namespace::Ipc | Namespace::Cgroup => Ok(()),
    }
}

/// Brings up the loopback interface of the network namespace that was created.
pub(crate) fn loopback() -> Result<(), StepFailure> {
    kernel::loopback_up().map_err(StepFailure::kernel("loopback up"))
}

/// Creates the namespaces, and returns their descriptors in the same order.
pub(crate) fn make(namespaces: &[Namespace]) -> Result<Vec<OwnedFd>, StepFailure> {
    namespaces.iter().try_for_each(|namespace| make_one(*namespace))?;
    let open = |namespace: &Namespace| {
        let file = file(*namespace);
        rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(StepFailure::kernel(format!("open {file}")))
    };
    namespaces.iter().map(open).collect()
}

/// Enters the namespaces of a session.
pub(crate) fn join(namespaces: &[Namespace], fds: Vec<OwnedFd>) -> Result<(), StepFailure> {
    if namespaces.len() != fds.len() {
        return Err(StepFailure::Setup(format!(
            "{} namespaces to enter and {} descriptors",
            namespaces.len(),
            fds.len()
        )));
    }
    for (namespace, fd) in namespaces.iter().zip(fds) {
        setns(fd, flag(*namespace)).map_err(StepFailure::kernel(format!("setns {namespace:?}")))?;
    }
    Ok(())
}
