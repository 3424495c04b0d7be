//! Gives up privilege: identity, capabilities, limits. Runs in the cell.

use crate::failure::StepFailure;
use caps::{CapSet, Capability};
use palisade_plan::{HeldLimit, Identity, Resource, Rlimit};
use rustix::{process::Resource as R, thread::CapabilitiesSecureBits};

/// Takes on the session's identity. Capabilities survive this, so that they can be dropped in order
/// afterwards.
pub(crate) fn identity(identity: Identity) -> Result<(), StepFailure> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    rustix::thread::set_keep_capabilities(true)
        .map_err(StepFailure::kernel("keep capabilities"))?;
    setgroups(&[]).map_err(StepFailure::kernel("setgroups"))?;
    setresgid(gid, gid, gid).map_err(StepFailure::kernel("setresgid"))?;
    setresuid(uid, uid, uid).map_err(StepFailure::kernel("setresuid"))?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(capability("read permitted"))?;
    caps::set(None, CapSet::Effective, &permitted).map_err(capability("raise effective"))
}

fn capability(act: &'static str) -> impl FnOnce(caps::errors::CapsError) -> StepFailure {
    move |error| StepFailure::Setup(format!("{act}: {error}"))
}

/// Clears all five capability sets, and locks the ways to regain them by executing or `setuid`.
pub(crate) fn drop_capabilities() -> Result<(), StepFailure> {
    let able = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)
        .map_err(capability("read effective"))?;
    caps::clear(None, CapSet::Ambient).map_err(capability("clear ambient"))?;
    // Without CAP_SETPCAP there is nothing to lock or drop: no capability can be gained anyway,
    // and the receipt shows the bounding set as it is.
    if able {
        let bits = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
        rustix::thread::set_capabilities_secure_bits(bits)
            .map_err(StepFailure::kernel("lock securebits"))?;
        for capability_ in caps::runtime::thread_all_supported() {
            caps::drop(None, CapSet::Bounding, capability_).map_err(capability("drop bounding"))?;
        }
    }
    caps::clear(None, CapSet::Inheritable).map_err(capability("clear inheritable"))?;
    caps::clear(None, CapSet::Effective).map_err(capability("clear effective"))?;
    caps::clear(None, CapSet::Permitted).map_err(capability("clear permitted"))
}

/// Sets `no_new_privs`: no program gains privilege by being executed.
pub(crate) fn no_new_privileges() -> Result<(), StepFailure> {
    rustix::thread::set_no_new_privs(true).map_err(StepFailure::kernel("no_new_privs"))
}

/// Makes this process undumpable: no `ptrace`, no access through `/proc/PID`, no core dump.
pub(crate) fn undumpable() -> Result<(), StepFailure> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(StepFailure::kernel("undumpable"))
}

/// Sets the resource limits of each process, soft and hard alike, and returns those in force.
pub(crate) fn rlimits(limits: &[Rlimit]) -> Result<Vec<HeldLimit>, StepFailure> {
    let mut held = Vec::with_capacity(limits.len());
    for limit in limits {
        let (resource, name) = match limit.resource {
            Resource::Memory => (R::Data, "memory"),
            Resource::Processes => (R::Nproc, "processes"),
            Resource::FileSize => (R::Fsize, "file_size"),
            Resource::OpenFiles => (R::Nofile, "open_files"),
            Resource::Core => (R::Core, "core"),
            Resource::LockedMemory => (R::Memlock, "locked_memory"),
            Resource::MessageQueues => (R::Msgqueue, "message_queues"),
            Resource::PendingSignals => (R::Sigpending, "pending_signals"),
        };
        // A hard limit below the profile's value stays: raising it takes a privilege that a cell
        // must not need.
        let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = limit.value.min(hard);
        let both = rustix::process::Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, both)
            .map_err(StepFailure::kernel(format!("setrlimit {name}")))?;
        held.push(HeldLimit { name: name.into(), value, by: "rlimit".into() });
    }
    Ok(held)
}
