//! The reasons why a plan violates the ceiling.

use crate::{FilterError, Layer, uids::UidRange};
use std::path::PathBuf;

/// A violation of the ceiling by a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CeilingError {
    /// A value is above the ceiling's maximum.
    #[error("{limit} = {wanted} exceeds the ceiling's {most}")]
    Over {
        /// The name of the limit.
        limit: &'static str,
        /// The value in the plan.
        wanted: u64,
        /// The ceiling's maximum.
        most: u64,
    },
    /// A limit is zero, which the kernel may take to mean unlimited.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// A list is empty, so that it would confine nothing or allow nothing.
    #[error("the plan has no {0}")]
    Empty(&'static str),
    /// A path is relative, or contains `.`, `..`, a doubled slash or NUL.
    #[error("{path:?} ({what}) is not a plain absolute path")]
    NotPlain {
        /// The part of the plan that has the path.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The home is not one of the session's private file systems.
    #[error("the home {0:?} is not private")]
    NotPrivate(PathBuf),
    /// The root or a system directory would be writable or covered by a mount.
    #[error("{path:?} ({what}) belongs to the system")]
    System {
        /// The part of the plan that has the path.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A path would expose one of Palisade's own directories.
    #[error("{path:?} ({what}) is, contains or is inside {never:?}, which no session may see")]
    Never {
        /// The part of the plan that has the path.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The directory of Palisade that it would expose.
        never: PathBuf,
    },
    /// A path has the files or sockets of running programs.
    #[error("{path:?} ({what}) belongs to running programs of the host")]
    Running {
        /// The part of the plan that has the path.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A path that would be writable decides who may log in, or what runs at a login.
    #[error("{path:?} ({what}) is a home, or is used by logins, and may not be writable")]
    Login {
        /// The part of the plan that has the path.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A Landlock rule allows writing where nothing writable is mounted.
    #[error("{0:?} (grant) is writable, but in no writable workspace, bind or private file system")]
    Uncovered(PathBuf),
    /// Device access is granted outside `/dev`, where it would be a way to write.
    #[error("{0:?} is granted as a device outside /dev")]
    Device(PathBuf),
    /// A private file system has mode bits beyond read, write, execute and sticky.
    #[error("{path:?} (private file system) has mode {mode:#o}")]
    Mode {
        /// The mount point of the file system.
        path: PathBuf,
        /// The mode in the plan.
        mode: u32,
    },
    /// The session would run as root.
    #[error("a session may not run as root")]
    Root,
    /// The session would run as the account of a service.
    #[error("a session may not run as uid {uid}: the lowest that the ceiling allows is {least}")]
    Uid {
        /// The uid that the session would run as.
        uid: u32,
        /// The lowest uid that the ceiling allows.
        least: u32,
    },
    /// The peer has a uid or gid from the range reserved for sessions.
    #[error("id {0} is in the range reserved for sessions ({1}), so no user may have it")]
    Throwaway(u32, UidRange),
    /// A layer is optional in the plan that the ceiling requires.
    #[error("layer {0} may not be optional")]
    Layer(Layer),
    /// The plan has ports that the launcher does not let sessions connect to.
    #[error(
        "net.ports has {ports}, and the launcher lets sessions connect to {most}: start it with \
         --allow-ports {ports} (in its unit if it is a service; allow_ports in palisaded.toml if \
         the daemon starts it)"
    )]
    Ports {
        /// The refused ports, in the form that `--allow-ports` takes.
        ports: String,
        /// The ports that the launcher allows.
        most: String,
    },
    /// The plan has port 0, which is not a port.
    #[error("0 is not a port")]
    PortZero,
    /// A session's network has a listener on a port that can not have one.
    #[error("port {0} can not have a listener for connections by name")]
    ListenerPort(u16),
    /// Two listeners of a session would have the same port.
    #[error("two listeners have the same port")]
    ListenerTwice,
    /// The filter allows a system call that no session may make.
    #[error("the filter allows {call}: system call {number} with arguments {arguments:x?}")]
    Syscall {
        /// The system call that the fixed rules deny, in words.
        call: &'static str,
        /// The number of the system call.
        number: u32,
        /// Arguments that the filter allows.
        arguments: [u64; 6],
    },
    /// A rule has too many conditions to be compared with the fixed rules.
    #[error("the rule for system call {number} is too long to show that it denies {call}")]
    Unproved {
        /// The system call that the fixed rules deny, in words.
        call: &'static str,
        /// The number of the system call.
        number: u32,
    },
    /// The filter allows a system call of a kernel that is newer than this build.
    #[error("the filter allows system call {0}, which this build does not know")]
    UnknownSyscall(u32),
    /// No filter can be assembled from the rules.
    #[error("the filter is invalid: {0}")]
    Filter(#[from] FilterError),
}
