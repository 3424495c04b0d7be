//! The receipt of a session: what the cell read back from the kernel, in the protocol's terms. Runs
//! in the broker.

use crate::cells::session::made::ConfinedCell;
use palisade_plan::{CellReceipt, HeldLimit, HeldNetwork};
use palisade_policy::Profile;
use palisade_protocol::{
    Degraded, Guard, LandlockReceipt, LimitReceipt, NetworkReceipt, Observed, RawPath, Receipt,
    SeccompReceipt,
};
use sha2::{Digest as _, Sha256};
use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

/// The size of one instruction of a seccomp filter, in bytes.
const INSTRUCTION: usize = 8;

/// Returns the receipt of a new session.
pub(crate) fn of_session(profile: &Profile, made: &ConfinedCell, unguarded: &[PathBuf]) -> Receipt {
    let ready = &made.ready;
    Receipt {
        profile: profile.name().to_owned(),
        profile_digest: profile.digest().to_owned(),
        landlock: landlock(ready),
        seccomp: seccomp(ready),
        namespaces: ready.namespaces.iter().map(|ns| ns.layer().name().to_owned()).collect(),
        uid: ready.uid,
        gid: ready.gid,
        groups: ready.groups.clone(),
        capabilities: ready.capabilities.clone(),
        no_new_privs: ready.no_new_privs,
        securebits: ready.securebits,
        limits: made.limits.iter().chain(&ready.limits).map(limit).collect(),
        degraded: made
            .absent
            .iter()
            .map(|absent| Degraded { layer: absent.layer.to_string(), why: absent.why.clone() })
            .collect(),
        // The session fills these in.
        guard: Guard::default(),
        unrecorded: Vec::new(),
        network: network(&ready.network),
        for_uid: made.runs.is_throwaway().then_some(made.runs.peer.uid),
        observed: profile
            .observed_under()
            .map(|under| Observed { under: under.to_owned(), would_refuse: Vec::new() }),
        unguarded: unguarded
            .iter()
            .map(|path| RawPath(path.as_os_str().as_bytes().to_vec()))
            .collect(),
    }
}

fn network(held: &HeldNetwork) -> NetworkReceipt {
    let (mode, ports) = match held {
        HeldNetwork::Host => ("host", Vec::new()),
        HeldNetwork::None => ("none", Vec::new()),
        HeldNetwork::Loopback => ("loopback", Vec::new()),
        HeldNetwork::Domains(ports) => ("domains", ports.clone()),
        HeldNetwork::Ports(ports) => ("ports", ports.clone()),
    };
    NetworkReceipt { mode: mode.to_owned(), ports }
}

fn landlock(ready: &CellReceipt) -> Option<LandlockReceipt> {
    (ready.landlock_abi > 0).then(|| LandlockReceipt {
        abi: ready.landlock_abi,
        rights: ready.landlock_rights.clone(),
        scopes: ready.landlock_scopes.clone(),
        rules: ready.landlock_rules,
    })
}

fn seccomp(ready: &CellReceipt) -> Option<SeccompReceipt> {
    (!ready.filter.is_empty()).then(|| SeccompReceipt {
        digest: palisade_text::hex(&Sha256::digest(&ready.filter)),
        instructions: u32::try_from(ready.filter.len() / INSTRUCTION).unwrap_or(u32::MAX),
        syscalls: ready.filter_syscalls,
    })
}

fn limit(held: &HeldLimit) -> LimitReceipt {
    LimitReceipt { name: held.name.clone(), value: held.value, by: held.by.clone() }
}

/// Returns the limit of transactions that can not be in memory: they are on disk, and their size is
/// checked.
pub(crate) fn of_transactions(most: u64, why: &str) -> LimitReceipt {
    LimitReceipt { name: "transaction".to_owned(), value: most, by: format!("disk: {why}") }
}
