//! Determines what this host can enforce. It is tried once at the start, in a process that ends
//! afterwards.

use crate::{
    cgroup::Cgroups,
    hindrance, identity,
    privilege::Privilege,
    spawn::{Process, SpawnError, Spawner},
    store::Stores,
};
use palisade_plan::{
    Facts, Found, Layer, OverlayFacts, Role, Step,
    ceiling::Reach,
    cell::{Report, Setup},
};
use std::os::fd::OwnedFd;

/// Only a PID namespace ends every process of a transaction before its changes are reviewed.
const NEEDS_PIDS: &str = "transactions need a PID namespace, which is unavailable";

/// A trial of what the host can enforce, which runs in its own process.
#[derive(Debug)]
pub(crate) struct HostTrial {
    process: Process,
    pid: Found,
}

/// Starts the trial. Other processes can be started while it runs.
pub(crate) fn begin(
    privilege: &Privilege,
    spawner: Spawner,
) -> Result<(Spawner, HostTrial), SpawnError> {
    let (spawner, pid) = match &privilege.pid_namespaces {
        Found::Yes(_) => spawner.find_pids(),
        Found::No(why) => (spawner.without_pids(), Found::No(why.clone())),
    };
    let process = start_trial(&spawner, as_session(privilege))?;
    Ok((spawner, HostTrial { process, pid }))
}

impl HostTrial {
    /// Waits for the trial's result, and returns all facts about the host. Also returns the trial's
    /// process, which ends by itself and has to be reaped.
    pub(crate) fn finish(
        self,
        privilege: &Privilege,
        cgroups: &Cgroups,
    ) -> Result<(Facts, Option<OwnedFd>, Process), SpawnError> {
        let Self { process, pid } = self;
        let TrialFindings {
            mut layers,
            landlock_abi,
            landlock_errata,
            mut overlay,
            records: (records, socket),
            audit_session,
        } = findings(&process)?;
        if let (Found::Yes(_), Found::No(_)) = (&privilege.user_namespace, &pid) {
            overlay = OverlayFacts::all(Found::No(NEEDS_PIDS.to_owned()));
        }
        layers.push((Layer::Pid, pid));
        let Privilege { user_namespace, pid_namespaces, .. } = privilege;
        hindrance::explain(&mut layers, &mut overlay, user_namespace, pid_namespaces);
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
            ports: Found::No("it could not be determined".into()),
        };
        Ok((facts, socket, process))
    }
}

/// Returns the steps that switch to the identity with which overlays are tried, if it is not this
/// user.
fn as_session(privilege: &Privilege) -> Vec<Step> {
    let nobody = identity::of_nobody(privilege.privileged);
    privilege.privileged.then_some(Step::OverlayUsers(nobody)).into_iter().collect()
}

/// Finds out whether transactions can be stored on disk, if they can not be held in memory.
pub(crate) fn try_disk(
    overlay: &mut OverlayFacts,
    privilege: &Privilege,
    spawner: &Spawner,
    stores: &mut Stores,
) -> Result<(), SpawnError> {
    let has_namespaces = privilege.user_namespace.is_yes() && privilege.pid_namespaces.is_yes();
    if overlay.memory.is_yes() || !has_namespaces {
        return Ok(());
    }
    let Some(store) = stores.take(identity::of_nobody(privilege.privileged)) else {
        if let Found::No(why) = &mut overlay.write {
            why.push_str("; on disk: ");
            why.push_str(stores.hindrance().unwrap_or("no directory could be made"));
        }
        return Ok(());
    };
    let name = store.name.clone();
    let mut steps = as_session(privilege);
    steps.push(Step::Store(store));
    let process = start_trial(spawner, steps);
    let tried = process.and_then(|process| {
        let tried = findings(&process);
        process.collect();
        tried
    });
    stores.sweep(name, spawner);
    overlay.write = tried?.overlay.write;
    Ok(())
}

/// The name of the loopback interface, which every network has.
const LOOPBACK: &str = "lo";

/// Returns the ports of this network that sessions may connect to, or why there are none.
pub(crate) fn ports(facts: &Facts, reach: &Reach) -> Found {
    if let Reach::Nothing = reach {
        return Found::No("the launcher was started without --allow-ports".into());
    }
    if let Found::No(why) = facts.port_rules() {
        return Found::No(why);
    }
    let listed = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let interfaces = listed.lines().filter_map(|line| line.split_once(':'));
    let alone = interfaces.map(|(name, _)| name.trim()).eq([LOOPBACK]);
    let alone = if alone {
        ", but the launcher's network has only a loopback interface (PrivateNetwork=?)"
    } else {
        ""
    };
    Found::Yes(format!("{reach}{alone}"))
}

/// The findings of a trial process.
struct TrialFindings {
    layers: Vec<(Layer, Found)>,
    landlock_abi: u32,
    landlock_errata: u32,
    overlay: OverlayFacts,
    /// The availability of audit records, and the socket that delivers them.
    records: (Found, Option<OwnedFd>),
    audit_session: Found,
}

/// Starts a trial process with the steps that say how to try overlays.
fn start_trial(spawner: &Spawner, steps: Vec<Step>) -> Result<Process, SpawnError> {
    let process = spawner.start()?;
    let setup = Setup { role: Role::Trial, session: 0, steps, channels: 0, scanned: 0 };
    process.set_up(&setup, &[])?;
    Ok(process)
}

/// Waits for the findings of a trial process. If it dies without an answer, every layer counts as
/// missing.
fn findings(process: &Process) -> Result<TrialFindings, SpawnError> {
    Ok(match process.control.receive::<Report>()? {
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
            TrialFindings { layers, landlock_abi, landlock_errata, overlay, records, audit_session }
        }
        Some((Report::Prepared | Report::Overlays, _)) | None => {
            let unknown = || Found::No("it could not be determined".into());
            TrialFindings {
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
