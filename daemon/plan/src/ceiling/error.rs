//! Why a plan is over the ceiling.

use crate::{Layer, uids::UidRange};
use std::path::PathBuf;

/// Why a plan is over the ceiling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CeilingError {
    /// More than the most.
    #[error("{limit} = {wanted} is over the ceiling's {most}")]
    Over {
        /// Of what.
        limit: &'static str,
        /// In the plan.
        wanted: u64,
        /// In the ceiling.
        most: u64,
    },
    /// A limit of nothing, which the kernel may take for none.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// A list that would confine nothing or allow nothing.
    #[error("the plan has no {0}")]
    Empty(&'static str),
    /// Relative, or with `.`, `..`, a doubled slash or NUL in it.
    #[error("{path:?} ({what}) is not a plain absolute path")]
    NotPlain {
        /// Where in the plan.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The root, or a directory of the system's own, is to be writable or hidden.
    #[error("{path:?} ({what}) belongs to the system")]
    System {
        /// Where in the plan.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// Palisade's own.
    #[error("{path:?} ({what}) is, holds or is inside {never:?}, which no session sees")]
    Never {
        /// Where in the plan.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// Which of the ceiling's.
        never: PathBuf,
    },
    /// A rule that lets write where nothing writable is mounted.
    #[error(
        "{0:?} (grant) is writable, but neither the workspace, a bind nor a private file system is"
    )]
    Uncovered(PathBuf),
    /// Device access outside `/dev` would be a way to write.
    #[error("{0:?} is granted as a device outside /dev")]
    Device(PathBuf),
    /// Mode bits beyond read, write, execute and sticky.
    #[error("{path:?} (private file system) has mode {mode:#o}")]
    Mode {
        /// Where.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A session as root.
    #[error("a session may not run as root")]
    Root,
    /// A session as a service's account.
    #[error("a session may not run as user {uid}: the ceiling's lowest is {least}")]
    Uid {
        /// Whom it was to run as.
        uid: u32,
        /// The lowest.
        least: u32,
    },
    /// A peer whose uid or gid sessions may get.
    #[error("{0} is one of the uids that are for sessions alone ({1}), and so nobody's own")]
    Throwaway(u32, UidRange),
    /// A layer may not be optional.
    #[error("layer {0} may not be optional")]
    Layer(Layer),
    /// Ports of the launcher's network that it does not let sessions connect to.
    #[error(
        "net.ports has {ports}, and the launcher lets sessions connect to {most}: start it with \
         --allow-ports {ports} (a service's in its unit; allow_ports of palisaded.toml where the daemon \
         starts it)"
    )]
    Ports {
        /// Those, as the option takes them.
        ports: String,
        /// What it does let.
        most: String,
    },
    /// A port that is none.
    #[error("0 is not a port")]
    PortZero,
    /// The filter lets a call through that none may.
    #[error("the filter lets {call} through, system call {number}")]
    Syscall {
        /// What it is.
        call: &'static str,
        /// Its number.
        number: u32,
    },
}
