//! Reads back from the kernel what is in force, and refuses to go on if that is less than the steps
//! promised. Runs in the cell.

use crate::{failure::StepFailure, listeners, steps::StepResults};
use palisade_plan::{CellReceipt, HeldNetwork, Namespace, Step, Tcp};

/// The fields of `/proc/self/status` that are checked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    uids: Vec<u32>,
    gids: Vec<u32>,
    groups: Vec<u32>,
    /// The inheritable, permitted, effective, bounding and ambient sets, in this order.
    capabilities: [u64; 5],
    no_new_privs: bool,
    seccomp: u32,
}

impl Status {
    fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let numbers = || value.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let mask = || u64::from_str_radix(value.trim(), 16).unwrap_or(u64::MAX);
            match key {
                "Uid" => status.uids = numbers(),
                "Gid" => status.gids = numbers(),
                "Groups" => status.groups = numbers(),
                "CapInh" => status.capabilities[0] = mask(),
                "CapPrm" => status.capabilities[1] = mask(),
                "CapEff" => status.capabilities[2] = mask(),
                "CapBnd" => status.capabilities[3] = mask(),
                "CapAmb" => status.capabilities[4] = mask(),
                "NoNewPrivs" => status.no_new_privs = value.trim() == "1",
                "Seccomp" => status.seccomp = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        status
    }
}

/// The promises of the steps, collected before they are taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepPromises {
    identity: Option<palisade_plan::Identity>,
    capabilities: bool,
    no_new_privs: bool,
    seccomp: bool,
    listeners: Option<Vec<u16>>,
}

impl StepPromises {
    pub(crate) fn by(steps: &[Step]) -> Self {
        let mut promised = Self::default();
        for step in steps {
            match step {
                Step::Identity(identity) => promised.identity = Some(*identity),
                Step::Capabilities => promised.capabilities = true,
                Step::NoNewPrivileges => promised.no_new_privs = true,
                Step::Seccomp { .. } | Step::SeccompRecording { .. } => promised.seccomp = true,
                Step::Listeners(ports) => promised.listeners = Some(ports.clone()),
                Step::Detach
                | Step::Inward(_)
                | Step::AuditSession(_)
                | Step::Namespaces(_)
                | Step::EnterNamespaces(_)
                | Step::Loopback
                | Step::GitConfiguration { .. }
                | Step::Mapping(_)
                | Step::OverlayUsers(_)
                | Step::Root(_)
                | Step::Workspace(_)
                | Step::Proc { .. }
                | Step::Store(_)
                | Step::Sweep { .. }
                | Step::Names { .. }
                | Step::ReadOnly(_)
                | Step::Overlay(_)
                | Step::OuterRepository(_)
                | Step::Rlimits(_)
                | Step::Undumpable
                | Step::CloseDescriptors
                | Step::Landlock { .. } => {}
            }
        }
        promised
    }
}

/// Returns the receipt, or an error if something promised is not in force.
pub(crate) fn write(
    promised: &StepPromises,
    taken: &StepResults,
) -> Result<CellReceipt, StepFailure> {
    let text = std::fs::read_to_string("/proc/self/status")
        .map_err(StepFailure::kernel("read /proc/self/status"))?;
    let status = Status::parse(&text);
    let refuse = |what: &str| Err(StepFailure::NotInForce(format!("{what} is not in force")));
    if let Some(identity) = promised.identity
        && (status.uids != [identity.uid; 4]
            || status.gids != [identity.gid; 4]
            || !status.groups.is_empty())
    {
        return refuse("the session's identity");
    }
    let [inheritable, permitted, effective, bounding, ambient] = status.capabilities;
    if promised.capabilities && (inheritable | permitted | effective | ambient) != 0 {
        return refuse("the dropping of capabilities");
    }
    if promised.no_new_privs && !status.no_new_privs {
        return refuse("no_new_privs");
    }
    if promised.seccomp && status.seccomp != 2 {
        return refuse("the system call filter");
    }
    let securebits = rustix::thread::capabilities_secure_bits()
        .map_err(StepFailure::kernel("read securebits"))?;
    // If the securebits are locked, the bounding set must be empty too.
    if promised.capabilities && !securebits.is_empty() && bounding != 0 {
        return refuse("the dropping of the bounding set");
    }
    if let Some(ports) = &promised.listeners {
        listeners::check(ports, &taken.listeners)?;
    }
    let mut namespaces = taken.namespaces.clone();
    if rustix::process::getpid() == rustix::process::Pid::INIT {
        namespaces.push(Namespace::Pid);
    }
    let (landlock, seccomp) = (taken.landlock.as_ref(), taken.seccomp.as_ref());
    Ok(CellReceipt {
        landlock_abi: landlock.map_or(0, |l| l.abi),
        landlock_rights: landlock.map_or_else(Vec::new, |l| l.rights.clone()),
        landlock_scopes: landlock.map_or_else(Vec::new, |l| l.scopes.clone()),
        landlock_rules: landlock.map_or(0, |l| l.rules),
        filter: seccomp.map_or_else(Vec::new, |s| s.program.clone()),
        filter_syscalls: seccomp.map_or(0, |s| s.syscalls),
        namespaces,
        uid: status.uids.first().copied().unwrap_or(u32::MAX),
        gid: status.gids.first().copied().unwrap_or(u32::MAX),
        groups: status.groups,
        capabilities: format!(
            "inh={inheritable:x} prm={permitted:x} eff={effective:x} bnd={bounding:x} amb={ambient:x}"
        ),
        no_new_privs: status.no_new_privs,
        securebits: securebits.bits(),
        limits: taken.limits.clone(),
        workspace: taken.workspace.clone().unwrap_or_default(),
        trees: taken.trees.clone(),
        upper: taken.layers.as_ref().map(|layers| layers.kept.upper),
        uncovered: taken.uncovered.clone(),
        audit_session: taken.audit_session,
        network: network(promised, taken),
    })
}

fn network(promised: &StepPromises, taken: &StepResults) -> HeldNetwork {
    if let Some(ports) = &promised.listeners {
        return HeldNetwork::Domains(ports.clone());
    }
    let tcp = taken.landlock.as_ref().map(|landlock| &landlock.tcp);
    match (taken.namespaces.contains(&Namespace::Network), taken.loopback, tcp) {
        (true, true, _) => HeldNetwork::Loopback,
        (true, false, _) => HeldNetwork::None,
        (false, _, Some(Tcp::Connect(ports))) => HeldNetwork::Ports(ports.clone()),
        (false, _, Some(Tcp::NotHandled | Tcp::Refused) | None) => HeldNetwork::Host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_prints() {
        let text = "Uid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t1 2 \nCapInh:\t0\nCapPrm:\t00ff\n\
                    CapEff:\t01\nCapBnd:\t1ff\nCapAmb:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        let status = Status::parse(text);
        assert_eq!(status.uids, [7; 4]);
        assert_eq!(status.groups, [1, 2]);
        assert_eq!(status.capabilities, [0, 0xff, 1, 0x1ff, 0]);
        assert!(status.no_new_privs);
        assert_eq!(status.seccomp, 2);
    }

    #[test]
    fn a_mask_that_can_not_be_read_counts_as_full() {
        assert_eq!(Status::parse("CapEff:\tx\n").capabilities[2], u64::MAX);
    }

    #[test]
    fn refuses_when_the_process_still_has_capabilities_or_privilege_to_gain() {
        // The test process has neither `no_new_privs` nor a filter.
        let promised = StepPromises { no_new_privs: true, ..StepPromises::default() };
        assert!(matches!(
            write(&promised, &StepResults::default()),
            Err(StepFailure::NotInForce(_))
        ));
        let promised = StepPromises { seccomp: true, ..StepPromises::default() };
        assert!(matches!(
            write(&promised, &StepResults::default()),
            Err(StepFailure::NotInForce(_))
        ));
    }
}
