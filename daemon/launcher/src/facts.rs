//! What this host can enforce, tried once at the start in a process that ends afterwards.

use crate::{
    cgroup::Cgroups,
    hindrance, identity,
    privilege::Privilege,
    spawn::{SpawnError, Spawner},
    store::Stores,
};
use palisade_plan::{
    Facts, Found, Layer, OverlayFacts, Role, Step,
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
    } = try_layers(&spawner, as_session(privilege))?;
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

/// As whom overlays are tried, where it is not this user.
fn as_session(privilege: &Privilege) -> Vec<Step> {
    let nobody = identity::of_nobody(privilege.privileged);
    privilege.privileged.then_some(Step::OverlayUsers(nobody)).into_iter().collect()
}

/// Finds out whether a transaction can be kept on the disk where it can not be in memory.
pub(crate) fn try_disk(
    overlay: &mut OverlayFacts,
    privilege: &Privilege,
    spawner: &Spawner,
    stores: &mut Stores,
) -> Result<(), SpawnError> {
    if overlay.memory.is_yes() {
        return Ok(());
    }
    let Some(store) = stores.take(identity::of_nobody(privilege.privileged)) else {
        if let Found::No(why) = &mut overlay.write {
            why.push_str("; on disk: the launcher has no directory for it (--store)");
        }
        return Ok(());
    };
    let name = store.name.clone();
    let mut steps = as_session(privilege);
    steps.push(Step::Store(store));
    let tried = try_layers(spawner, steps);
    stores.sweep(name, spawner);
    overlay.write = tried?.overlay.write;
    Ok(())
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
fn try_layers(spawner: &Spawner, steps: Vec<Step>) -> Result<Tried, SpawnError> {
    let process = spawner.start()?;
    let setup = Setup { role: Role::Trial, session: 0, steps, channels: 0, scanned: 0 };
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
                overlay: OverlayFacts::all(unknown()),
                records: (unknown(), None),
                audit_session: unknown(),
            }
        }
    })
}
