//! The plan: everything about a session's confinement that the broker decides.
//!
//! It names no identity: the launcher takes that from the client's own socket.

use crate::{Layer, Path, SyscallRule, names::Names, record::Recording};
use bincode::{Decode, Encode};

/// What a session may do below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Access {
    /// See the names in directories, and nothing of what they name.
    List,
    /// Look at files and directories.
    Read,
    /// And run programs.
    Execute,
    /// And change everything.
    Write,
    /// Use device nodes: read, write and `ioctl`, but make or remove nothing.
    Device,
}

/// A host path that appears in the small root at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Bind {
    /// Where, on the host and inside.
    pub path: Path,
    /// [`Access::Write`] mounts it writable; everything else read-only.
    pub access: Access,
    /// What to do if it is not there.
    pub missing: MissingPath,
}

/// What to do about a path that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MissingPath {
    /// Go on without it.
    Skip,
    /// Refuse the session.
    Refuse,
}

/// A private file system in memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Tmpfs {
    /// Where.
    pub path: Path,
    /// How much it may hold.
    pub bytes: u64,
    /// Its mode bits.
    pub mode: u32,
}

/// A Landlock rule.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// The directory or file; everything below it.
    pub path: Path,
    /// What is granted.
    pub access: Access,
    /// What to do if it is not there.
    pub missing: MissingPath,
}

/// What of the network there is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Network {
    /// A network of the session's own in which nothing is up: every address is unreachable.
    None,
    /// A loopback of the session's own, nothing else.
    Loopback,
    /// The launcher's own, in which TCP connects to these ports and nothing else goes.
    Ports(Vec<u16>),
}

/// Bounds of a session. Zero is refused everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Bytes, for the session as a whole by cgroup; for each process by rlimit.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Hundredths of one core.
    pub cpu_percent: u64,
    /// The largest file a process may write.
    pub file_bytes: u64,
    /// Open descriptors of a process.
    pub open_files: u64,
    /// What a transaction may write before it is settled. In memory it counts as that, too.
    pub transaction_bytes: u64,
}

/// Where what a program writes in a transaction is kept until it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Upper {
    /// In memory.
    Memory,
    /// On the workspace's own file system, where the launcher has a directory there; in memory
    /// elsewhere.
    Disk,
}

/// What of a transaction's changes is on the disk before they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Durable {
    /// Nothing is waited for.
    No,
    /// What takes the place of something.
    Replaced,
    /// And what is new.
    All,
}

/// How transactions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Transactions {
    /// Until they are settled.
    pub upper: Upper,
    /// When they are.
    pub durable: Durable,
}

/// Whether the kernel is to leave records of what it refuses a session's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Records {
    /// Nobody would read them.
    Unread,
    /// The broker reads them.
    Read,
}

/// Whose uid the processes of a session have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum SessionUid {
    /// The peer's own.
    #[default]
    Peer,
    /// One of the launcher's range, which nothing else has while the session lives.
    Throwaway,
}

/// Everything about a session's confinement that the broker decides.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchPlan {
    /// The workspace: bound writable or read-only at its own path.
    pub workspace: Bind,
    /// The rest of the small root, in the order it is mounted.
    pub binds: Vec<Bind>,
    /// Private file systems: `/tmp`, the home, …
    pub tmpfs: Vec<Tmpfs>,
    /// Directories in which programs are looked for. One that would be writable on a private file
    /// system, because the host has none, is there empty and read-only.
    pub empty: Vec<Path>,
    /// Landlock's rules.
    pub grants: Vec<Grant>,
    /// The system call filter.
    pub syscalls: Vec<SyscallRule>,
    /// What of the network there is.
    pub network: Network,
    /// Bounds.
    pub limits: Limits,
    /// Layers that may be missing.
    pub optional: Vec<Layer>,
    /// How transactions are kept.
    pub transactions: Transactions,
    /// Whether its runners note what its programs use.
    pub recording: Recording,
    /// Names in the workspace that the session does not see, or can not change.
    pub names: Names,
    /// What is to be told of what its programs are refused.
    pub records: Records,
    /// Whose uid its processes have. Which that is, is for the launcher to say.
    pub uid: SessionUid,
}
