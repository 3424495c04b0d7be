//! Records of what the programs of a recording session used. The runner makes them in addition to
//! the layers that confine, never instead of them.

use crate::Path;
use bincode::{Decode, Encode};

/// Most accesses recorded for one program; further ones are only counted.
pub const MOST_NOTED: usize = 16_384;

/// Most bytes of paths recorded for one program, well within one message.
pub const MOST_BYTES: usize = 2 * 1024 * 1024;

/// The choice to record what a session's programs use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum Recording {
    /// Nothing is recorded.
    #[default]
    No,
    /// Accesses are recorded, by a second filter on top of the first.
    Yes,
}

/// The use of a path or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Right {
    /// The existence or metadata of a path was queried, or it is a link on the way to another path.
    Look,
    /// A path was opened for reading, or listed.
    Read,
    /// A path was created, changed or deleted.
    Write,
    /// A path was executed, or needed to execute a program.
    Execute,
    /// An address was connected to.
    Connect,
    /// An address was listened on.
    Bind,
    /// A process that does not belong to the program's call was to be traced.
    Trace,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 7] = [
        Self::Look,
        Self::Read,
        Self::Write,
        Self::Execute,
        Self::Connect,
        Self::Bind,
        Self::Trace,
    ];

    /// Returns the right's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "exec",
            Self::Connect => "connect",
            Self::Bind => "bind",
            Self::Trace => "ptrace",
        }
    }
}

/// The type of an entry at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum TargetKind {
    /// Nothing that the session can see.
    Missing,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A file, or anything else that is not one of the others.
    File,
    /// A network address, not a path.
    Address,
    /// A process, by its name.
    Process,
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Missing, Self::Directory, Self::Link, Self::File, Self::Address, Self::Process];

    /// Returns the kind's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::File => "file",
            Self::Address => "address",
            Self::Process => "process",
        }
    }
}

/// One use of a path or an address, recorded once however often it happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RecordedUse {
    /// The use that was made of it.
    pub right: Right,
    /// An absolute path, an address with its port, or the name of a process. Links on the way to a path are recorded
    /// separately. Inside the workspace or a private directory, the path of that directory alone;
    /// and the whole path, if it was to be read or executed and is missing.
    pub path: Path,
    /// The type of the entry.
    pub kind: TargetKind,
}

/// The amounts of the limited resources that were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct ResourceUsage {
    /// Most resident memory of a single process, in bytes.
    pub memory_bytes: u64,
    /// Most processes counted at once; they are counted whenever one of them executes a program.
    pub processes: u64,
    /// CPU time of all processes, in milliseconds.
    pub cpu_ms: u64,
}

/// The record of what a program, and everything it started, used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Recorded {
    /// The recorded uses, each once, sorted.
    pub noted: Vec<RecordedUse>,
    /// The number of accesses that were not recorded because there were too many.
    pub lost: u64,
    /// The amounts of the limited resources that were used.
    pub used: ResourceUsage,
}
