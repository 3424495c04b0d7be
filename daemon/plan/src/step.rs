//! The steps by which a cell confines itself, in order. A pure function makes the list, so that a
//! reader sees all of it and a test can leave a step out.

use crate::{
    Access, Bind, Grant, Namespace, Path, SetIdBits, Sockets, SyscallRule, Tmpfs, Transactions,
    Upper, authority::Authority, names::Names,
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
    /// Tries each namespace and reports which are available, for the launcher's [`Facts`](crate::Facts).
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
    /// The authority of inspected hosts, for [its file](crate::authority::TRUSTED_CERTIFICATES).
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
    /// `RLIMIT_SIGPENDING`: POSIX timers and queued signals, counted for all processes of the user.
    PendingSignals,
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
    /// Open the index of the repository around the workspace, if the session's root has one, with
    /// the rights of this user.
    OuterRepository(Identity),
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
        /// The set-id bits that the fixed rules leave to the process.
        bits: SetIdBits,
    },
    /// Install the system call filter of a runner that records. Only the runner itself may have a
    /// listener. Each of its programs gets the whole filter again, and a second one that records
    /// what it uses.
    SeccompRecording {
        /// The plan's rules.
        rules: Vec<SyscallRule>,
        /// The sockets that the fixed rules leave to the session.
        sockets: Sockets,
        /// The set-id bits that the fixed rules leave to the process.
        bits: SetIdBits,
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
            Self::OuterRepository(_) => "outer repository",
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
