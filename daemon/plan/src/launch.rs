//! The launch plan: everything about a session's confinement that the broker decides.
//!
//! A plan contains no identity. The launcher takes that from the client's own socket.

use crate::{Layer, Path, SyscallRule, authority::Authority, names::Names, record::Recording};
use bincode::{Decode, Encode};

/// The access of a session to a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Access {
    /// See the names in directories, but not what they name.
    List,
    /// Like `List`, and read files and directories.
    Read,
    /// Like `Read`, and run programs.
    Execute,
    /// Like `Execute`, and change everything.
    Write,
    /// Use device nodes: read, write and `ioctl`, but create or delete nothing.
    Device,
}

/// A host path that appears in the session's root at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Bind {
    /// The path, which is the same on the host and in the session.
    pub path: Path,
    /// The session's access. [`Access::Write`] mounts the path writable; everything else mounts it
    /// read-only.
    pub access: Access,
    /// The treatment of the path if it is missing.
    pub missing: MissingPath,
}

/// The treatment of a path that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MissingPath {
    /// Continue without it.
    Skip,
    /// Refuse the session.
    Refuse,
}

/// A private file system in memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Tmpfs {
    /// The mount point.
    pub path: Path,
    /// Most bytes that it may hold.
    pub bytes: u64,
    /// The mode bits of its root.
    pub mode: u32,
}

/// A Landlock rule.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// The directory or file; the rule applies to everything below it.
    pub path: Path,
    /// The access that is granted.
    pub access: Access,
    /// The treatment of the path if it is missing.
    pub missing: MissingPath,
}

/// The network of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Network {
    /// The session's own network, in which nothing is up: every address is unreachable.
    None,
    /// The session's own network, with a loopback and nothing else.
    Loopback,
    /// The session's own network, with a loopback on which an egress room serves it. These are the
    /// ports with a listener for synthetic addresses.
    Domains(Vec<u16>),
    /// The launcher's own network, where TCP may connect to these ports and everything else is
    /// refused.
    Ports(Vec<u16>),
}

/// The limits of a session. A limit of zero is always refused.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Memory in bytes: by cgroup for the session as a whole, or by rlimit for each process.
    pub memory_bytes: u64,
    /// Number of processes and threads.
    pub processes: u64,
    /// CPU time, in percent of one core.
    pub cpu_percent: u64,
    /// The largest file a process may write.
    pub file_bytes: u64,
    /// Open descriptors of a process.
    pub open_files: u64,
    /// Most bytes that a transaction may write before it is committed or discarded. If they are
    /// held in memory, they count as memory too.
    pub transaction_bytes: u64,
}

/// The place where a transaction's writes are stored until they are committed or discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Upper {
    /// In memory.
    Memory,
    /// On the workspace's own file system, if the launcher has a directory there; otherwise in
    /// memory.
    Disk,
}

/// The changes of a transaction that must be flushed to disk before the commit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Durable {
    /// None.
    No,
    /// Changes that replace something.
    Replaced,
    /// Changes that replace something, and new files.
    All,
}

/// The settings for storing and committing transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Transactions {
    /// The place where writes are stored until the transaction is committed or discarded.
    pub upper: Upper,
    /// The changes that are flushed to disk on commit.
    pub durable: Durable,
}

/// The choice to have the kernel record the denials that a session's programs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Records {
    /// No, because nobody would read them.
    Unread,
    /// Yes, the broker reads them.
    Read,
}

/// The uid with which the processes of a session run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum SessionUid {
    /// The peer's own uid.
    #[default]
    Peer,
    /// A uid from the launcher's range, which nothing else has while the session lives.
    Throwaway,
}

/// Everything about a session's confinement that the broker decides.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchPlan {
    /// The workspace, mounted writable or read-only at its own path.
    pub workspace: Bind,
    /// The other host paths of the session's root, in the order in which they are mounted.
    pub binds: Vec<Bind>,
    /// Unix sockets of the host, which the session may connect to. Nothing else of their directories
    /// is visible.
    pub sockets: Vec<Bind>,
    /// Private file systems: `/tmp`, the home, …
    pub tmpfs: Vec<Tmpfs>,
    /// The home, if it is one of the private file systems.
    pub home: Option<Path>,
    /// Directories in which programs are looked up. If the host does not have one, and it would be
    /// writable on a private file system, it is created empty and read-only.
    pub empty: Vec<Path>,
    /// The Landlock rules.
    pub grants: Vec<Grant>,
    /// The system call filter.
    pub syscalls: Vec<SyscallRule>,
    /// The session's network.
    pub network: Network,
    /// The number of sockets for connections of the host's programs into the session's own network.
    pub inward: u8,
    /// The session's limits.
    pub limits: Limits,
    /// Layers that may be missing.
    pub optional: Vec<Layer>,
    /// The settings for storing and committing transactions.
    pub transactions: Transactions,
    /// The choice to record what the session's programs use.
    pub recording: Recording,
    /// Names in the workspace that the session does not see, or can not change.
    pub names: Names,
    /// The choice to have the kernel record denials for the broker.
    pub records: Records,
    /// The uid of the session's processes: the peer's or their own. The launcher chooses the
    /// number.
    pub uid: SessionUid,
    /// The authority of inspected hosts, which the session's programs trust; `None` if the profile
    /// has no such hosts.
    pub authority: Option<Authority>,
}
