//! Makes the list of steps that confines a process, from a plan and the facts of the host. Pure.

use crate::{
    Absent, Access, Bind, DEVICES, Facts, Found, Grant, Identity, LaunchPlan, Layer, Limits,
    MissingPath, MountRights, MountsBelow, NameServers, Namespace, Network, NetworkSockets,
    NoiseOverlays, Overlay, Path, ProcView, RESOLV_CONF, Records, Resource, Rlimit, Role, Root,
    Runs, SetIdBits, Sockets, Step, Tcp, Tmpfs, Transactions, Upper,
    authority::TRUSTED_CERTIFICATES, names::NameList, record::Recording,
};
/// An error from making the list of steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The plan requires a layer that the host does not have.
    #[error("layer {} is required but unavailable: {}", .0.layer, .0.why)]
    Missing(Absent),
    /// A list is empty, so that it would confine nothing or allow nothing.
    #[error("the plan has no {0}")]
    Empty(&'static str),
    /// Transactions are unavailable here: a program's changes of the workspace can not be held
    /// back.
    #[error("transactions are unavailable: {0}")]
    Transaction(String),
}

/// The namespaces that runners enter: all of a session's except the PID namespace.
const SHARED: [Namespace; 5] =
    [Namespace::Mount, Namespace::Network, Namespace::Ipc, Namespace::Uts, Namespace::Cgroup];

/// Returns the steps of a process of a session, and the layers that are left out, which the plan
/// allows.
///
/// # Errors
/// If a layer that the plan requires is missing, or the plan is empty where it must not be.
pub fn steps(
    plan: &LaunchPlan,
    facts: &Facts,
    runs: impl Into<Runs>,
    role: Role,
) -> Result<(Vec<Step>, Vec<Absent>), StepError> {
    let runs = runs.into();
    if plan.grants.is_empty() {
        return Err(StepError::Empty("Landlock rules"));
    }
    if plan.syscalls.is_empty() {
        return Err(StepError::Empty("system calls"));
    }
    let absent = absent(plan, facts)?;
    let has = |layer| !absent.iter().any(|a: &Absent| a.layer == layer);
    let own = |namespace: &Namespace| match (namespace, &plan.network) {
        (Namespace::Network, Network::Ports(_)) => false,
        (_, Network::None | Network::Loopback | Network::Domains(_) | Network::Ports(_)) => {
            has(namespace.layer())
        }
    };
    let shared: Vec<_> = SHARED.into_iter().filter(own).collect();
    if (runs.is_throwaway() || plan.authority.is_some())
        && let Some(missing) = absent.iter().find(|absent| absent.layer == Layer::Mount)
    {
        // Nothing would separate a session with a uid of its own from the host, and the session's
        // certificates have no place, whatever the plan allows to be missing.
        return Err(StepError::Missing(missing.clone()));
    }

    let own_proc = has(Layer::Mount) && has(Layer::Pid);
    let name_servers = match plan.network {
        Network::Domains(_) => NameServers::Session,
        Network::None | Network::Loopback | Network::Ports(_) => NameServers::Host,
    };
    let mut steps = vec![Step::Detach];
    let runs_programs = matches!(role, Role::Runner | Role::Reader | Role::Transaction);
    if plan.records == Records::Read && runs_programs {
        steps.push(Step::AuditSession(runs.peer));
    }
    match role {
        Role::Trial | Role::Sweep => {}
        Role::Files => {
            let own_network = shared.contains(&Namespace::Network);
            steps.push(Step::Namespaces(shared));
            let loopback = matches!(plan.network, Network::Loopback | Network::Domains(_));
            if own_network && loopback {
                steps.push(Step::Loopback);
            }
            if let Network::Domains(ports) = &plan.network {
                steps.push(Step::Listeners(ports.clone()));
                if plan.inward > 0 {
                    steps.push(Step::Inward(plan.inward));
                }
            }
            let writes = plan.workspace.access == Access::Write;
            if facts.privileged && writes && own_proc && facts.overlay.write.is_yes() {
                steps.push(Step::OverlayUsers(runs.own));
            }
            if runs.is_throwaway() {
                steps.push(Step::Mapping(runs));
            }
            if has(Layer::Mount) {
                let home = plan.home.clone().filter(|_| writes);
                steps.extend(home.map(|home| Step::GitConfiguration { home, user: runs.peer }));
                steps.push(Step::Root(Box::new(Root {
                    runs,
                    workspace: plan.workspace.clone(),
                    binds: plan.binds.clone(),
                    sockets: plan.sockets.clone(),
                    tmpfs: plan.tmpfs.clone(),
                    empty: plan.empty.clone(),
                    proc: if own_proc { ProcView::Own } else { ProcView::Host },
                    name_servers,
                    authority: plan.authority.clone(),
                })));
            }
            steps.extend(names(plan));
        }
        Role::Runner => {
            steps.push(Step::EnterNamespaces(shared));
            if own_proc {
                steps.push(Step::Proc { repository: Access::Read });
            }
        }
        Role::Reader => {
            require_own_mounts(own_proc)?;
            let mounts = Step::Proc { repository: Access::Read };
            steps.extend([Step::EnterNamespaces(shared), mounts]);
            steps.push(Step::ReadOnly(writable(plan)));
        }
        Role::Transaction => {
            let overlay = overlay(plan, facts, runs.own)?;
            require_own_mounts(own_proc)?;
            let mounts = Step::Proc { repository: Access::Write };
            steps.extend([Step::EnterNamespaces(shared), mounts]);
            steps.extend(names(plan));
            steps.push(Step::Overlay(overlay));
            steps.push(Step::OuterRepository(runs.peer));
        }
    }
    steps.push(Step::Rlimits(rlimits(&plan.limits, facts)));
    if facts.privileged {
        steps.push(Step::Identity(runs.own));
    }
    steps.push(Step::Capabilities);
    steps.push(Step::NoNewPrivileges);
    steps.push(Step::Undumpable);
    if role == Role::Files && !has(Layer::Mount) {
        steps.push(Step::Workspace(plan.workspace.clone()));
    }
    steps.push(Step::CloseDescriptors);
    if has(Layer::Landlock) {
        let tcp = match &plan.network {
            Network::Ports(ports) => Tcp::Connect(ports.clone()),
            Network::None | Network::Loopback | Network::Domains(_) => {
                if has(Layer::Network) {
                    Tcp::NotHandled
                } else {
                    Tcp::Refused
                }
            }
        };
        let mut grants = plan.grants.clone();
        if has(Layer::Mount) {
            // The root is the session's own: it contains only what the plan put there, and programs
            // expect to see the names. On the host's root this would be a leak.
            grants.push(Grant {
                path: "/".into(),
                access: Access::List,
                missing: MissingPath::Refuse,
            });
            if name_servers == NameServers::Session {
                let (path, access) = (RESOLV_CONF.into(), Access::Read);
                grants.push(Grant { path, access, missing: MissingPath::Refuse });
            }
            if plan.authority.is_some() {
                let (path, access) = (TRUSTED_CERTIFICATES.into(), Access::Read);
                grants.push(Grant { path, access, missing: MissingPath::Refuse });
            }
        } else {
            // Without a mount namespace these paths are not private: they are the host's own `/tmp`,
            // home and devices.
            let private = |path: &Path| plan.tmpfs.iter().any(|tmpfs| tmpfs.path == *path);
            grants.retain(|grant| !private(&grant.path) && grant.path != Path::from("/dev"));
            grants.extend(DEVICES.map(|name| Grant {
                path: format!("/dev/{name}").as_str().into(),
                access: Access::Device,
                missing: MissingPath::Skip,
            }));
        }
        steps.push(Step::Landlock { grants, tcp });
    }
    if has(Layer::Seccomp) {
        let mut sockets = Sockets { unix: has(Layer::Mount), ..Sockets::of(&plan.network) };
        if sockets.network == NetworkSockets::Own && !has(Layer::Network) {
            sockets.network = NetworkSockets::None;
        }
        let bits = set_id_bits(plan, role);
        steps.push(match (plan.recording, role) {
            (Recording::Yes, Role::Runner | Role::Reader | Role::Transaction) => {
                recording(plan, sockets, bits)
            }
            (Recording::Yes, Role::Files | Role::Trial | Role::Sweep) | (Recording::No, _) => {
                Step::Seccomp { rules: plan.syscalls.clone(), sockets, bits }
            }
        });
    }
    Ok((steps, absent))
}

/// Returns the set-id bits that a process may set. What changes the host's files at once may set none:
/// such a file would lend its owner's rights to another user of the host. The file tools and commits
/// give no file one, but directories keep theirs.
fn set_id_bits(plan: &LaunchPlan, role: Role) -> SetIdBits {
    match role {
        Role::Files | Role::Reader => SetIdBits::SetGid,
        Role::Transaction if plan.binds.iter().all(|bind| bind.access != Access::Write) => {
            SetIdBits::SetGid
        }
        Role::Runner => SetIdBits::NoneByAnyCall,
        Role::Trial | Role::Transaction | Role::Sweep => SetIdBits::None,
    }
}

/// Returns the filter step of a runner that records. The workspace and the private directories
/// shared by all users (`/tmp`, `/run`) are recorded as a whole. The home is not, because other
/// entries are mounted in it.
fn recording(plan: &LaunchPlan, sockets: Sockets, bits: SetIdBits) -> Step {
    let shared = |tmpfs: &&Tmpfs| tmpfs.mode & 0o1000 != 0 || tmpfs.path == Path::from("/run");
    let private = plan.tmpfs.iter().filter(shared).map(|tmpfs| tmpfs.path.clone());
    let own: Vec<Path> = std::iter::once(plan.workspace.path.clone()).chain(private).collect();
    let inside = |path: &Path| own.iter().any(|own| path.as_path().starts_with(own.as_path()));
    let bound = plan.binds.iter().map(|bind| bind.path.clone()).filter(inside).collect();
    Step::SeccompRecording { rules: plan.syscalls.clone(), sockets, bits, own, bound }
}

/// Checks that a program can have its own mounts, which both the reading route and the transaction
/// route need.
fn require_own_mounts(own_proc: bool) -> Result<(), StepError> {
    if own_proc {
        return Ok(());
    }
    Err(StepError::Transaction("they need a mount namespace and a PID namespace".to_owned()))
}

/// Returns the host paths that a session may write.
fn writable(plan: &LaunchPlan) -> Vec<Bind> {
    let binds = std::iter::once(&plan.workspace).chain(&plan.binds);
    binds.filter(|bind| bind.access == Access::Write).cloned().collect()
}

/// Returns the step for the hidden and protected names, if there are any.
fn names(plan: &LaunchPlan) -> Option<Step> {
    let leave =
        |layer: Layer, lists: &[NameList]| lists.is_empty() || plan.optional.contains(&layer);
    let names = &plan.names;
    let left = leave(Layer::Hide, &names.hide) && leave(Layer::Protect, &names.protect);
    let mounts = if left { MountsBelow::Leave } else { MountsBelow::Refuse };
    let (names, workspace) = (names.clone(), plan.workspace.path.clone());
    (!names.is_empty()).then_some(Step::Names { names, workspace, mounts })
}

/// Returns the overlay of a transaction, or why there can be none.
fn overlay(plan: &LaunchPlan, facts: &Facts, identity: Identity) -> Result<Overlay, StepError> {
    let access = plan.workspace.access;
    if let Found::No(why) = facts.overlay.of(access) {
        return Err(StepError::Transaction(why.clone()));
    }
    if access != Access::Write && plan.names.hide.is_empty() {
        let why = "the workspace is read-only, so there is nothing to commit";
        return Err(StepError::Transaction(why.to_owned()));
    }
    let workspace = plan.workspace.path.clone();
    let bytes = plan.limits.transaction_bytes;
    let otherwise = facts.overlay.upper(Upper::Memory, access);
    let upper = facts.overlay.upper(plan.transactions.upper, access);
    let transactions = Transactions { upper, ..plan.transactions };
    let rights = if facts.privileged { MountRights::Session } else { MountRights::Own };
    let noise = None;
    Ok(Overlay { workspace, identity, bytes, transactions, access, otherwise, rights, noise })
}

/// Turns the steps of a transaction into those of a program that watches: it sees the live workspace
/// read-only, and has overlays on these directories alone.
pub fn watch(steps: &mut [Step], plan: &LaunchPlan, directories: Vec<Path>) {
    let noise = NoiseOverlays { directories, read_only: writable(plan) };
    for step in steps {
        if let Step::Overlay(overlay) = step {
            overlay.noise = Some(noise.clone());
        }
    }
}

/// Returns the layers that are missing, or an error if one of them is required.
fn absent(plan: &LaunchPlan, facts: &Facts) -> Result<Vec<Absent>, StepError> {
    let mut absent = Vec::new();
    for layer in Layer::ALL {
        let needless = match layer {
            Layer::Hide => plan.names.hide.is_empty(),
            Layer::Protect => plan.names.protect.is_empty(),
            Layer::Network => matches!(plan.network, Network::Ports(_)),
            Layer::Mount
            | Layer::Pid
            | Layer::Ipc
            | Layer::Uts
            | Layer::Cgroup
            | Layer::Landlock
            | Layer::Seccomp
            | Layer::Limits => false,
        };
        if needless {
            continue;
        }
        let found = match layer {
            Layer::Hide | Layer::Protect => facts.overlay.of(plan.workspace.access).clone(),
            Layer::Mount
            | Layer::Pid
            | Layer::Network
            | Layer::Ipc
            | Layer::Uts
            | Layer::Cgroup
            | Layer::Landlock
            | Layer::Seccomp
            | Layer::Limits => facts.layer(layer),
        };
        if let Found::No(why) = found {
            let missing = Absent { layer, why };
            if !plan.optional.contains(&layer) {
                return Err(StepError::Missing(missing));
            }
            absent.push(missing);
        }
    }
    if let (Network::Ports(_), Found::No(why)) = (&plan.network, facts.port_rules()) {
        return Err(StepError::Missing(Absent { layer: Layer::Landlock, why }));
    }
    if let (Network::Domains(_), Found::No(why)) = (&plan.network, facts.layer(Layer::Network)) {
        // The listeners would be in the host's network, for all of its programs.
        return Err(StepError::Missing(Absent { layer: Layer::Network, why }));
    }
    Ok(absent)
}

/// Returns the resource limits of each process. Where a cgroup limits the session as a whole, the
/// per-process limit on the same resource is left out: it would only be a second, coarser bound.
fn rlimits(limits: &Limits, facts: &Facts) -> Vec<Rlimit> {
    let mut rlimits = vec![
        Rlimit { resource: Resource::Core, value: 0 },
        Rlimit { resource: Resource::FileSize, value: limits.file_bytes },
        Rlimit { resource: Resource::OpenFiles, value: limits.open_files },
        Rlimit { resource: Resource::LockedMemory, value: 64 * 1024 },
        Rlimit { resource: Resource::MessageQueues, value: 64 * 1024 },
        // A part of what the user has: programs outside, whose limit is higher, still get theirs.
        Rlimit { resource: Resource::PendingSignals, value: 4096 },
    ];
    if !facts.cgroup.has("memory") {
        rlimits.push(Rlimit { resource: Resource::Memory, value: limits.memory_bytes });
    }
    if !facts.cgroup.has("pids") {
        rlimits.push(Rlimit { resource: Resource::Processes, value: limits.processes });
    }
    rlimits
}
