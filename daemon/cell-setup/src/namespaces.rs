//! Creates and enters namespaces. Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    kernel::{self, ChildStack},
};
use caps::{CapSet, Capability};
use nix::sched::{CloneFlags, setns, unshare};
use palisade_plan::Namespace;
use rustix::fs::{Mode, OFlags};
use std::{io, os::fd::OwnedFd};

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
    let may_configure = || caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN);
    if namespace == Namespace::Network && !may_configure().map_err(capability)? {
        return make_network_apart();
    }
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

/// Creates and enters a network namespace that belongs to a new user namespace. This process, as the
/// owner of that user namespace, may configure the network as long as it is root. It needs no
/// capability over other networks for that. The session's user is another, and may not.
fn make_network_apart() -> Result<(), StepFailure> {
    let mut made = None;
    let mut act = || {
        let both = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
        let unshared = unshare(both).map_err(io::Error::from);
        made = Some(unshared.and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(file(Namespace::Network), flags, Mode::empty())?)
        }));
    };
    ChildStack::new()
        .and_then(|mut stack| stack.run_apart(&mut act))
        .map_err(StepFailure::kernel("start what makes the network"))?;
    let Some(made) = made else {
        return Err(StepFailure::NotInForce("the network was not made".into()));
    };
    let made = made.map_err(StepFailure::kernel("unshare Network in a user namespace"))?;
    setns(made, CloneFlags::CLONE_NEWNET).map_err(StepFailure::kernel("enter the network"))
}

fn capability(error: caps::errors::CapsError) -> StepFailure {
    StepFailure::NotInForce(format!("capabilities over the network: {error}"))
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
