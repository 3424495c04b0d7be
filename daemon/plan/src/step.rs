//! The steps by which a cell confines itself, in order. A pure function makes the list, so that a
//! reader sees all of it and a test can leave a step out.

use crate::{
    Absent, Access, Bind, Facts, Found, Grant, LaunchPlan, Layer, Limits, MissingPath, Namespace,
    Network, NetworkSockets, Path, Records, Sockets, SyscallRule, Tmpfs, Transactions, Upper,
    authority::{Authority, TRUSTED_CERTIFICATES},
    names::{NameList, Names},
    record::Recording,
};
use bincode::{Decode, Encode};

/// The role of a process of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Role {
    /// Creates the session's namespaces and root, then serves its file tools.
    Files,
    /// Enters the session's namespaces and runs its programs, one at a time.
    Runner,
    /// A runner for which the workspace is mounted read-only, as is everything else of the host
    /// that the session may write.
    Reader,
    /// Tries each namespace and reports which are available, for the launcher's [`Facts`].
    Trial,
    /// A runner for one program, whose changes of the workspace are held back until they are
    /// committed or discarded.
    Transaction,
    /// Deletes what a transaction left on disk.
    Sweep,
}

/// The user and group that a cell runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// The identity of a session's processes, and of the user that the session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Runs {
    /// The identity of the session's processes.
    pub own: Identity,
    /// The user that the session is for. If it differs from `own`, this user's files appear as the
    /// session's own where it may write, and files created there belong to this user.
    pub peer: Identity,
}

impl Runs {
    /// Returns `true` if the session has a uid that nothing else has.
    #[must_use]
    pub fn is_throwaway(&self) -> bool {
        self.own != self.peer
    }
}

impl From<Identity> for Runs {
    fn from(identity: Identity) -> Self {
        Self { own: identity, peer: identity }
    }
}

/// The root file system of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Root {
    /// The identities of the session. Host paths are resolved with the peer's rights, so that
    /// nobody gets a path that they could not reach. Private file systems belong to the session's
    /// own user.
    pub runs: Runs,
    /// The workspace.
    pub workspace: Bind,
    /// The other host paths.
    pub binds: Vec<Bind>,
    /// Unix sockets of the host.
    pub sockets: Vec<Bind>,
    /// Private file systems.
    pub tmpfs: Vec<Tmpfs>,
    /// Directories that are made empty and read-only if they would be on a private file system.
    pub empty: Vec<Path>,
    /// The processes that `/proc` shows.
    pub proc: ProcView,
    /// The name servers that programs find.
    pub name_servers: NameServers,
    /// The authority of inspected hosts, for [`TRUSTED_CERTIFICATES`].
    pub authority: Option<Authority>,
}

/// The name servers that programs find in [`RESOLV_CONF`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum NameServers {
    /// The host's, if the file is among the session's paths.
    Host,
    /// The one on the session's own loopback, whatever the host has.
    Session,
}

/// The file in which programs find their name servers.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The processes that `/proc` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ProcView {
    /// The processes of the PID namespace that the launcher created.
    Own,
    /// The host's processes: there is no PID namespace, which the profile allows.
    Host,
}

/// An overlay on the workspace that receives everything a program writes there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Overlay {
    /// The workspace.
    pub workspace: Path,
    /// The identity that the program runs as.
    pub identity: Identity,
    /// Most bytes that the overlay may hold.
    pub bytes: u64,
    /// The place where the writes are stored, and how durably they are committed.
    pub transactions: Transactions,
    /// The program's access. Without [`Access::Write`] the program can not write there at all.
    pub access: Access,
    /// The place of the upper layer if the store is not on the workspace's own file system.
    pub otherwise: Upper,
    /// The rights with which overlayfs accesses its layers.
    pub rights: MountRights,
    /// For a program that watches: the directories that have overlays, instead of the whole
    /// workspace.
    pub noise: Option<NoiseOverlays>,
}

/// The directories of the workspace that a watching program may write, each on an overlay of its
/// own. Everything else of the host is read-only for it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NoiseOverlays {
    /// The directories, relative to the workspace. None is inside of another one.
    pub directories: Vec<Path>,
    /// The mounts that become read-only, the workspace among them.
    pub read_only: Vec<Bind>,
}

/// The rights with which overlayfs accesses its layers. They are never more than the session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MountRights {
    /// The rights of the process, which is the session's user in a user namespace without any other
    /// user.
    Own,
    /// The rights of the session's user, whose identity the process takes on for it. Writable
    /// overlays use the user namespace that [`Step::OverlayUsers`] has created.
    Session,
}

/// The treatment of a mount inside the workspace, which an overlay can not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MountsBelow {
    /// Refuse the session.
    Refuse,
    /// Leave it as it is: the plan does not require names to be hidden from programs.
    Leave,
}

/// A directory on disk for the upper layer of one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Store {
    /// The launcher's directory for all transactions.
    pub directory: Path,
    /// The name of the transaction's directory.
    pub name: String,
    /// The identity that owns it.
    pub identity: Identity,
}

/// A resource limit that applies to each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Rlimit {
    /// The resource.
    pub resource: Resource,
    /// The value.
    pub value: u64,
}

/// A resource that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Resource {
    /// `RLIMIT_DATA`: private writable memory.
    Memory,
    /// `RLIMIT_NPROC`.
    Processes,
    /// `RLIMIT_FSIZE`.
    FileSize,
    /// `RLIMIT_NOFILE`.
    OpenFiles,
    /// `RLIMIT_CORE`.
    Core,
    /// `RLIMIT_MEMLOCK`.
    LockedMemory,
    /// `RLIMIT_MSGQUEUE`.
    MessageQueues,
}

/// The restriction of TCP by Landlock.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Tcp {
    /// Not at all, because there is a network namespace.
    NotHandled,
    /// Connecting and binding are both refused.
    Refused,
    /// Connecting is allowed to these ports; binding is refused.
    Connect(Vec<u16>),
}

/// One step of confinement. Each can be run alone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Step {
    /// Start a new session (`setsid`) and reset signal mask, signal dispositions and umask.
    Detach,
    /// Start an audit session, so that the kernel's records of denied system calls can be assigned
    /// to the process and its programs. Without this step the filter leaves no records.
    AuditSession(Identity),
    /// Create these namespaces.
    Namespaces(Vec<Namespace>),
    /// Enter these namespaces by the descriptors that came with the setup.
    EnterNamespaces(Vec<Namespace>),
    /// Bring up the loopback of the new network namespace.
    Loopback,
    /// Make the listeners of a session with these direct ports, and deliver the synthetic addresses
    /// to them. Their descriptors are sent with the receipt.
    Listeners(Vec<u16>),
    /// Make this number of sockets in the session's network, for connections into it. Their
    /// descriptors are sent after those of the listeners.
    Inward(u8),
    /// Create a user namespace that maps which files are the session's, for the mounts of
    /// [`Step::Root`]. Nothing ever runs in it.
    Mapping(Runs),
    /// Create a user namespace with only this user, and every group. In it overlayfs has no rights
    /// over anybody else's files. Only the process that mounts an overlay ever runs in it.
    OverlayUsers(Identity),
    /// Read the user's configuration of git, before the session's root hides it. The author of
    /// commits is written into the session's home after the last step.
    GitConfiguration {
        /// The home, which is private in the session.
        home: Path,
        /// The user, with whose rights the files are read.
        user: Identity,
    },
    /// Create the session's root and switch to it.
    Root(Box<Root>),
    /// Give a runner its own copy of the session's mounts, with a `/proc` that shows its own
    /// processes.
    Proc {
        /// The access to the main repository, if the workspace is a linked worktree of git. Only a
        /// transaction can tell the files that git writes there from its configuration and hooks.
        repository: Access,
    },
    /// Create a directory for the upper layer, before the session's mounts hide it.
    Store(Store),
    /// Delete such a directory and everything in it.
    Sweep {
        /// The parent directory.
        directory: Path,
        /// The name of the directory.
        name: String,
        /// The rights to use: those of the process itself, or those of other users.
        rights: MountRights,
    },
    /// Hide and protect these names in the process's own file operations from here on. Refuses a
    /// workspace in which a program could still see hidden names.
    Names {
        /// The names.
        names: Names,
        /// The workspace.
        workspace: Path,
        /// The treatment of a mount inside the workspace, which an overlay can not cover.
        mounts: MountsBelow,
    },
    /// Make mounts read-only, with those below them, in a runner's own copy of the session's
    /// mounts. Private file systems stay writable, since nothing in them existed before the
    /// session.
    ReadOnly(Vec<Bind>),
    /// Mount an overlay on the workspace, in a runner's own copy of the session's mounts.
    Overlay(Overlay),
    /// Open the workspace where it is, if there is no separate root, which the profile allows.
    Workspace(Bind),
    /// Set resource limits for each process.
    Rlimits(Vec<Rlimit>),
    /// Switch to the identity and drop supplementary groups.
    Identity(Identity),
    /// Drop all capabilities from all five sets and lock the securebits.
    Capabilities,
    /// Set `no_new_privs`: executing a program never gains privilege.
    NoNewPrivileges,
    /// Put the process out of reach of `ptrace` and `/proc`, and disable core dumps.
    Undumpable,
    /// Close every descriptor that is not a channel.
    CloseDescriptors,
    /// Install the Landlock path rules and scopes, and TCP rules if there is no network namespace.
    Landlock {
        /// The rules.
        grants: Vec<Grant>,
        /// The restriction of TCP.
        tcp: Tcp,
    },
    /// Install the system call filter, as the last step. The cell adds the fixed rules to it.
    Seccomp {
        /// The plan's rules.
        rules: Vec<SyscallRule>,
        /// The sockets that the fixed rules leave to the session.
        sockets: Sockets,
    },
    /// Install the system call filter of a runner that records. Only the runner itself may have a
    /// listener. Each of its programs gets the whole filter again, and a second one that records
    /// what it uses.
    SeccompRecording {
        /// The plan's rules.
        rules: Vec<SyscallRule>,
        /// The sockets that the fixed rules leave to the session.
        sockets: Sockets,
        /// Directories below which single names are not recorded.
        own: Vec<Path>,
        /// Paths bound below those directories, which are recorded again.
        bound: Vec<Path>,
    },
}

impl Step {
    /// Returns the step's name, for errors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Detach => "detach",
            Self::AuditSession(_) => "audit session",
            Self::Namespaces(_) => "namespaces",
            Self::EnterNamespaces(_) => "enter namespaces",
            Self::Loopback => "loopback",
            Self::Listeners(_) => "listeners",
            Self::Inward(_) => "inward",
            Self::GitConfiguration { .. } => "git configuration",
            Self::Mapping(_) => "mapping",
            Self::OverlayUsers(_) => "overlay users",
            Self::Root(_) => "root",
            Self::Proc { .. } => "proc",
            Self::Store(_) => "store",
            Self::Sweep { .. } => "sweep",
            Self::Names { .. } => "names",
            Self::ReadOnly(_) => "read-only",
            Self::Overlay(_) => "overlay",
            Self::Workspace(_) => "workspace",
            Self::Rlimits(_) => "rlimits",
            Self::Identity(_) => "identity",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no_new_privs",
            Self::Undumpable => "undumpable",
            Self::CloseDescriptors => "close descriptors",
            Self::Landlock { .. } => "landlock",
            Self::Seccomp { .. } | Self::SeccompRecording { .. } => "seccomp",
        }
    }
}

/// The devices in `/dev` that every program may expect.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

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
        steps.push(match (plan.recording, role) {
            (Recording::Yes, Role::Runner | Role::Reader | Role::Transaction) => {
                recording(plan, sockets)
            }
            (Recording::Yes, Role::Files | Role::Trial | Role::Sweep) | (Recording::No, _) => {
                Step::Seccomp { rules: plan.syscalls.clone(), sockets }
            }
        });
    }
    Ok((steps, absent))
}

/// Returns the filter step of a runner that records. The workspace and the private directories
/// shared by all users (`/tmp`, `/run`) are recorded as a whole. The home is not, because other
/// entries are mounted in it.
fn recording(plan: &LaunchPlan, sockets: Sockets) -> Step {
    let shared = |tmpfs: &&Tmpfs| tmpfs.mode & 0o1000 != 0 || tmpfs.path == Path::from("/run");
    let private = plan.tmpfs.iter().filter(shared).map(|tmpfs| tmpfs.path.clone());
    let own: Vec<Path> = std::iter::once(plan.workspace.path.clone()).chain(private).collect();
    let inside = |path: &Path| own.iter().any(|own| path.as_path().starts_with(own.as_path()));
    let bound = plan.binds.iter().map(|bind| bind.path.clone()).filter(inside).collect();
    Step::SeccompRecording { rules: plan.syscalls.clone(), sockets, own, bound }
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
    ];
    if !facts.cgroup.has("memory") {
        rlimits.push(Rlimit { resource: Resource::Memory, value: limits.memory_bytes });
    }
    if !facts.cgroup.has("pids") {
        rlimits.push(Rlimit { resource: Resource::Processes, value: limits.processes });
    }
    rlimits
}
