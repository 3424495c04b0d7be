//! The steps a cell takes, in order, to confine itself: a list made by a pure function, so that a
//! reader sees all of it and a test can leave one out.

use crate::{
    Absent, Access, Bind, Facts, Found, Grant, LaunchPlan, Layer, Limits, MissingPath, Namespace,
    Network, Path, Records, SyscallRule, Tmpfs, Transactions, Upper,
    names::{NameList, Names},
    record::Recording,
};
use bincode::{Decode, Encode};

/// What a process of a cell is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Role {
    /// Makes the session's namespaces and small root, then serves its file tools.
    Files,
    /// Enters them and runs its programs, one at a time.
    Runner,
    /// A runner for which the workspace, and all else of the host that the session may write, is
    /// mounted read-only.
    Reader,
    /// Tries each namespace and says which there are, for the launcher's [`Facts`].
    Trial,
    /// A runner for one program, whose changes of the workspace are held back until they are
    /// settled.
    Transaction,
    /// Removes what a transaction left on the disk.
    Sweep,
}

/// Whom a cell runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Whom the processes of a session are, and whom it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Runs {
    /// Whom its processes run as.
    pub own: Identity,
    /// Whose it is. Where that is somebody else, this user's files are the session's own where it
    /// may write, and what it makes there is this user's.
    pub peer: Identity,
}

impl Runs {
    /// Whether the uid is one that nothing else has.
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

/// The small root.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Root {
    /// Resolved with the peer's rights, so that nobody gets a path they could not walk to; what is
    /// private is the session's own.
    pub runs: Runs,
    /// The workspace.
    pub workspace: Bind,
    /// The rest.
    pub binds: Vec<Bind>,
    /// Private file systems.
    pub tmpfs: Vec<Tmpfs>,
    /// Directories that are empty and read-only where they would be on a private file system.
    pub empty: Vec<Path>,
    /// Whose processes `/proc` shows.
    pub proc: ProcView,
}

/// Whose processes `/proc` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ProcView {
    /// Those of the PID namespace that the launcher made.
    Own,
    /// The host's: there is no PID namespace, by the profile's leave.
    Host,
}

/// A layer over the workspace that takes all that a program writes there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Overlay {
    /// The workspace.
    pub workspace: Path,
    /// Whom the program runs as.
    pub identity: Identity,
    /// How many bytes the layer may hold.
    pub bytes: u64,
    /// How it is kept.
    pub transactions: Transactions,
    /// [`Access::Write`], or the program can not write there at all.
    pub access: Access,
    /// Where the layer is if the store is not on the workspace's own file system.
    pub otherwise: Upper,
    /// With whose rights overlayfs reaches what it lays over each other.
    pub rights: MountRights,
}

/// With whose rights overlayfs reaches what it lays over each other. Never more than the session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MountRights {
    /// Those of the process, which is the session's user in a user namespace that has no other.
    Own,
    /// Those of the session's user, whom the process takes on for it; to write, in the user namespace
    /// that [`Step::OverlayUsers`] has made.
    Session,
}

/// What to do about a mount in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MountsBelow {
    /// Refuse the session.
    Refuse,
    /// The plan lets it be missing that names are hidden from programs.
    Leave,
}

/// A directory on the disk for one layer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Store {
    /// The launcher's directory for all of them.
    pub directory: Path,
    /// Its name there.
    pub name: String,
    /// Whose it is.
    pub identity: Identity,
}

/// A resource limit of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Rlimit {
    /// Of what.
    pub resource: Resource,
    /// How much.
    pub value: u64,
}

/// What a resource limit bounds.
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

/// What Landlock does about TCP.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Tcp {
    /// Nothing: there is a network namespace.
    NotHandled,
    /// Nothing connects and nothing is bound.
    Refused,
    /// These ports can be connected to; nothing is bound.
    Connect(Vec<u16>),
}

/// One step. Each can be taken alone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Step {
    /// A session (`setsid`), signal mask, dispositions and umask of its own.
    Detach,
    /// An audit session of its own, so that records of what the filter refuses it and its programs
    /// can be told from all others. Without it the filter leaves none.
    AuditSession(Identity),
    /// Make these namespaces.
    Namespaces(Vec<Namespace>),
    /// Enter these namespaces by the descriptors that came with the setup.
    EnterNamespaces(Vec<Namespace>),
    /// Bring up the loopback of the network namespace that was made.
    Loopback,
    /// Make a user namespace that says whose files are the session's, for [`Step::Root`]'s mounts.
    /// Nothing ever runs in it.
    Mapping(Runs),
    /// Make a user namespace that has no user but this one, and every group: in it overlayfs has no
    /// right over what belongs to anybody else. Only what mounts an overlay ever runs in it.
    OverlayUsers(Identity),
    /// Make the small root and make it the root.
    Root(Box<Root>),
    /// A runner's own copy of the session's mounts, with a `/proc` of its own processes.
    Proc,
    /// A directory for a layer, before the session's mounts hide it.
    Store(Store),
    /// Remove such a directory and all that is in it.
    Sweep {
        /// The directory that it is in.
        directory: Path,
        /// Its name there.
        name: String,
        /// Whose it is: this process's own user's, or other users'.
        rights: MountRights,
    },
    /// From here on these names are hidden and protected in what the process does itself. Refuses a
    /// workspace in which a program could be shown them.
    Names {
        /// Which.
        names: Names,
        /// The workspace.
        workspace: Path,
        /// What to do about a mount in it, over which nothing can be laid.
        mounts: MountsBelow,
    },
    /// Makes mounts read-only, with those below them, in a runner's own copy of the session's
    /// mounts. Private file systems stay writable: nothing in them existed before the session.
    ReadOnly(Vec<Bind>),
    /// A layer over the workspace, in a runner's own copy of the session's mounts.
    Overlay(Overlay),
    /// Without a root of its own, by the profile's leave: find the workspace where it is.
    Workspace(Bind),
    /// Resource limits of each process.
    Rlimits(Vec<Rlimit>),
    /// Take on the identity; supplementary groups go.
    Identity(Identity),
    /// All capabilities out of all five sets; securebits locked.
    Capabilities,
    /// Nothing gains privilege by executing.
    NoNewPrivileges,
    /// Out of reach of `ptrace` and `/proc`, no core dump.
    Undumpable,
    /// Close every descriptor that is not a channel.
    CloseDescriptors,
    /// Path rules; with them the scopes, and TCP if there is no network namespace.
    Landlock {
        /// The rules.
        grants: Vec<Grant>,
        /// What of TCP there is.
        tcp: Tcp,
    },
    /// The system call filter, last.
    Seccomp(Vec<SyscallRule>),
    /// The same for a runner that records: it alone may have a listener, and each of its programs
    /// gets the whole filter again, and one that notes what it uses.
    SeccompRecording {
        /// The filter.
        rules: Vec<SyscallRule>,
        /// Directories below which names do not matter.
        own: Vec<Path>,
        /// What is bound below those, of which they matter again.
        bound: Vec<Path>,
    },
}

impl Step {
    /// Its name, in errors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Detach => "detach",
            Self::AuditSession(_) => "audit session",
            Self::Namespaces(_) => "namespaces",
            Self::EnterNamespaces(_) => "enter namespaces",
            Self::Loopback => "loopback",
            Self::Mapping(_) => "mapping",
            Self::OverlayUsers(_) => "overlay users",
            Self::Root(_) => "root",
            Self::Proc => "proc",
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
            Self::Seccomp(_) | Self::SeccompRecording { .. } => "seccomp",
        }
    }
}

/// Why there are no steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The plan requires a layer that the host does not have.
    #[error("layer {} is required and not to be had: {}", .0.layer, .0.why)]
    Missing(Absent),
    /// An empty list where one is needed; it would confine nothing or allow nothing.
    #[error("the plan has no {0}")]
    Empty(&'static str),
    /// What a program does to the workspace can not be held back here.
    #[error("a transaction is not to be had: {0}")]
    Transaction(String),
}

/// A session's namespaces other than the PID namespace, which are those that runners enter.
const SHARED: [Namespace; 5] =
    [Namespace::Mount, Namespace::Network, Namespace::Ipc, Namespace::Uts, Namespace::Cgroup];

/// The steps of a process of a session, and the layers that are left out by the plan's leave.
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
        (_, Network::None | Network::Loopback | Network::Ports(_)) => has(namespace.layer()),
    };
    let shared: Vec<_> = SHARED.into_iter().filter(own).collect();
    if runs.is_throwaway()
        && let Some(missing) = absent.iter().find(|absent| absent.layer == Layer::Mount)
    {
        // Nothing would be the session's own, whatever the plan lets be missing.
        return Err(StepError::Missing(missing.clone()));
    }

    let own_proc = has(Layer::Mount) && has(Layer::Pid);
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
            if own_network && plan.network == Network::Loopback {
                steps.push(Step::Loopback);
            }
            let writes = plan.workspace.access == Access::Write;
            if facts.privileged && writes && own_proc && facts.overlay.write.is_yes() {
                steps.push(Step::OverlayUsers(runs.own));
            }
            if runs.is_throwaway() {
                steps.push(Step::Mapping(runs));
            }
            if has(Layer::Mount) {
                steps.push(Step::Root(Box::new(Root {
                    runs,
                    workspace: plan.workspace.clone(),
                    binds: plan.binds.clone(),
                    tmpfs: plan.tmpfs.clone(),
                    empty: plan.empty.clone(),
                    proc: if own_proc { ProcView::Own } else { ProcView::Host },
                })));
            }
            steps.extend(names(plan));
        }
        Role::Runner => {
            steps.push(Step::EnterNamespaces(shared));
            if own_proc {
                steps.push(Step::Proc);
            }
        }
        Role::Reader => {
            require_own_mounts(own_proc)?;
            steps.extend([Step::EnterNamespaces(shared), Step::Proc]);
            steps.push(Step::ReadOnly(writable(plan)));
        }
        Role::Transaction => {
            let overlay = overlay(plan, facts, runs.own)?;
            require_own_mounts(own_proc)?;
            steps.extend([Step::EnterNamespaces(shared), Step::Proc]);
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
            Network::None | Network::Loopback if has(Layer::Network) => Tcp::NotHandled,
            Network::None | Network::Loopback => Tcp::Refused,
        };
        let mut grants = plan.grants.clone();
        if has(Layer::Mount) {
            // The root is the session's own: nothing is in it but what the plan put there, and
            // programs expect to see the names. On the host's root this would be a leak.
            grants.push(Grant {
                path: "/".into(),
                access: Access::List,
                missing: MissingPath::Refuse,
            });
        } else {
            // Without it these paths are not private: they are the host's own `/tmp` and home.
            grants.retain(|grant| plan.tmpfs.iter().all(|tmpfs| tmpfs.path != grant.path));
        }
        steps.push(Step::Landlock { grants, tcp });
    }
    if has(Layer::Seccomp) {
        steps.push(match (plan.recording, role) {
            (Recording::Yes, Role::Runner | Role::Reader | Role::Transaction) => recording(plan),
            (Recording::Yes, Role::Files | Role::Trial | Role::Sweep) | (Recording::No, _) => {
                Step::Seccomp(plan.syscalls.clone())
            }
        });
    }
    Ok((steps, absent))
}

/// The filter of a runner that records. The session's own, whatever is in it, is the workspace and
/// the private directories of all users; not the home, in which other entries lie.
fn recording(plan: &LaunchPlan) -> Step {
    let shared = |tmpfs: &&Tmpfs| tmpfs.mode & 0o1000 != 0 || tmpfs.path == Path::from("/run");
    let private = plan.tmpfs.iter().filter(shared).map(|tmpfs| tmpfs.path.clone());
    let own: Vec<Path> = std::iter::once(plan.workspace.path.clone()).chain(private).collect();
    let inside = |path: &Path| own.iter().any(|own| path.as_path().starts_with(own.as_path()));
    let bound = plan.binds.iter().map(|bind| bind.path.clone()).filter(inside).collect();
    Step::SeccompRecording { rules: plan.syscalls.clone(), own, bound }
}

/// Both routes give a program mounts of its own.
fn require_own_mounts(own_proc: bool) -> Result<(), StepError> {
    if own_proc {
        return Ok(());
    }
    Err(StepError::Transaction("it needs a mount namespace and a PID namespace".to_owned()))
}

/// What of the host a session may write.
fn writable(plan: &LaunchPlan) -> Vec<Bind> {
    let binds = std::iter::once(&plan.workspace).chain(&plan.binds);
    binds.filter(|bind| bind.access == Access::Write).cloned().collect()
}

/// The names that are hidden and protected.
fn names(plan: &LaunchPlan) -> Option<Step> {
    let leave =
        |layer: Layer, lists: &[NameList]| lists.is_empty() || plan.optional.contains(&layer);
    let names = &plan.names;
    let left = leave(Layer::Hide, &names.hide) && leave(Layer::Protect, &names.protect);
    let mounts = if left { MountsBelow::Leave } else { MountsBelow::Refuse };
    let (names, workspace) = (names.clone(), plan.workspace.path.clone());
    (!names.is_empty()).then_some(Step::Names { names, workspace, mounts })
}

/// The layer of a transaction, if there can be one.
fn overlay(plan: &LaunchPlan, facts: &Facts, identity: Identity) -> Result<Overlay, StepError> {
    let access = plan.workspace.access;
    if let Found::No(why) = facts.overlay.of(access) {
        return Err(StepError::Transaction(why.clone()));
    }
    if access != Access::Write && plan.names.hide.is_empty() {
        let why = "the workspace is read-only, so there is nothing to hold back";
        return Err(StepError::Transaction(why.to_owned()));
    }
    let workspace = plan.workspace.path.clone();
    let bytes = plan.limits.transaction_bytes;
    let otherwise = facts.overlay.upper(Upper::Memory, access);
    let upper = facts.overlay.upper(plan.transactions.upper, access);
    let transactions = Transactions { upper, ..plan.transactions };
    let rights = if facts.privileged { MountRights::Session } else { MountRights::Own };
    Ok(Overlay { workspace, identity, bytes, transactions, access, otherwise, rights })
}

/// The layers that are missing; an error if one of them is required.
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
    Ok(absent)
}

/// What each process is held to. Where a cgroup holds the session as a whole, the per-process
/// limit on the same thing is left out: it would only be a second, coarser bound.
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
