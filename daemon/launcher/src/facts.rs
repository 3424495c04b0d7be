//! What this host can enforce, tried once at the start in a process that ends afterwards.

use crate::{
    cgroup::Cgroups,
    hindrance,
    privilege::Privilege,
    spawn::{SpawnError, Spawner},
};
use palisade_plan::{
    Facts, Found, Layer, OverlayFacts, Role,
    ceiling::Reach,
    cell::{Report, Setup},
};
use std::os::fd::OwnedFd;

/// Looks at everything.
pub(crate) fn find(
    privilege: &Privilege,
    spawner: Spawner,
    cgroups: &Cgroups,
) -> Result<(Spawner, Facts, Option<OwnedFd>), SpawnError> {
    let (spawner, pids) = spawner.find_pids();
    let pid = match pids {
        Ok(()) => Found::Yes("own namespace".into()),
        Err(error) => Found::No(format!("unshare PID namespace: {error}")),
    };
    let Tried {
        mut layers,
        landlock_abi,
        landlock_errata,
        overlay,
        records: (records, socket),
        audit_session,
    } = try_layers(&spawner)?;
    layers.push((Layer::Pid, pid));
    hindrance::explain(&mut layers, privilege);
    layers.push((Layer::Limits, cgroups.found()));
    layers.sort_by_key(|(layer, _)| *layer);
    let facts = Facts {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        privileged: privilege.privileged,
        user_namespace: privilege.user_namespace.clone(),
        layers,
        landlock_abi,
        landlock_errata,
        overlay,
        records,
        audit_session,
        cgroup: cgroups.facts(),
        ports: Found::No("it was not found out".into()),
    };
    Ok((spawner, facts, socket))
}

/// The interface that every network has.
const LOOPBACK: &str = "lo";

/// Which ports of this network sessions may connect to.
pub(crate) fn ports(facts: &Facts, reach: &Reach) -> Found {
    if let Reach::Nothing = reach {
        return Found::No("the launcher was not given --allow-ports".into());
    }
    if let Found::No(why) = facts.port_rules() {
        return Found::No(why);
    }
    let listed = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let interfaces = listed.lines().filter_map(|line| line.split_once(':'));
    let alone = interfaces.map(|(name, _)| name.trim()).eq([LOOPBACK]);
    let alone =
        if alone { ", in a network that has only a loopback (PrivateNetwork=?)" } else { "" };
    Found::Yes(format!("{reach}{alone}"))
}

/// What a trial found.
struct Tried {
    layers: Vec<(Layer, Found)>,
    landlock_abi: u32,
    landlock_errata: u32,
    overlay: OverlayFacts,
    /// And the socket on which they come.
    records: (Found, Option<OwnedFd>),
    audit_session: Found,
}

/// A trial that dies without an answer found nothing: every layer counts as missing.
fn try_layers(spawner: &Spawner) -> Result<Tried, SpawnError> {
    let process = spawner.start()?;
    let setup = Setup { role: Role::Trial, session: 0, steps: vec![], channels: 0, scanned: 0 };
    process.set_up(&setup, &[])?;
    let report = process.control.receive::<Report>()?;
    process.collect();
    Ok(match report {
        Some((
            Report::Tried {
                layers,
                landlock_abi,
                landlock_errata,
                overlay,
                records,
                audit_session,
            },
            fds,
        )) => {
            let records = (records, fds.into_iter().next());
            Tried { layers, landlock_abi, landlock_errata, overlay, records, audit_session }
        }
        Some((Report::Prepared, _)) | None => {
            let unknown = || Found::No("it was not found out".into());
            Tried {
                layers: Vec::new(),
                landlock_abi: 0,
                landlock_errata: 0,
                overlay: OverlayFacts::both(unknown()),
                records: (unknown(), None),
                audit_session: unknown(),
            }
        }
    })
}
