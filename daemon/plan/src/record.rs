//! What the programs of a recording session used: noted by the runner beside the layers that
//! confine, never in their place.

use crate::Path;
use bincode::{Decode, Encode};

/// The most accesses that are kept of one program; what is over is counted.
pub const MOST_NOTED: usize = 16_384;

/// The most bytes of paths that are kept of one program, well inside one message.
pub const MOST_BYTES: usize = 2 * 1024 * 1024;

/// Whether a session's runners note what its programs use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum Recording {
    /// They do not.
    #[default]
    No,
    /// They do, by a second filter on top of the first.
    Yes,
}

/// What was done with a path or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Right {
    /// Asked whether and what it is; a link on the way to something else.
    Look,
    /// Opened to be read, or listed.
    Read,
    /// Made, changed or removed.
    Write,
    /// Run, or needed to run a program.
    Execute,
    /// Connected to.
    Connect,
    /// Listened on.
    Bind,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Look, Self::Read, Self::Write, Self::Execute, Self::Connect, Self::Bind];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "exec",
            Self::Connect => "connect",
            Self::Bind => "bind",
        }
    }
}

/// What was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Kind {
    /// Nothing, as the session sees it.
    Missing,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A file, or anything else that is none of these.
    File,
    /// An address, which is no path.
    Address,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Missing, Self::Directory, Self::Link, Self::File, Self::Address];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::File => "file",
            Self::Address => "address",
        }
    }
}

/// One thing that was used, however often.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Noted {
    /// How.
    pub right: Right,
    /// What: an absolute path, links on the way to it being noted by themselves, or an address
    /// with its port. Below the workspace and the private directories that path alone.
    pub path: Path,
    /// What was there.
    pub kind: Kind,
}

/// How much of what is limited was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Used {
    /// The most memory that one process had resident.
    pub memory_bytes: u64,
    /// The most processes that were seen at once, when one of them ran another program.
    pub processes: u64,
    /// Processor time of all of them.
    pub cpu_ms: u64,
}

/// What a program used, and all that it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Recorded {
    /// Each once, sorted.
    pub noted: Vec<Noted>,
    /// Accesses that were not kept, since there were too many.
    pub lost: u64,
    /// How much of what is limited.
    pub used: Used,
}
