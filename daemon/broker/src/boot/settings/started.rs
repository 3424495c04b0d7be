//! The user who started the daemon, and the default paths that follow from it. Runs in the broker.

use crate::boot::effective::ValueOrigin;
use std::{env, path::PathBuf};

/// The user who started the daemon, which decides its defaults. It may have switched users since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Root,
    User,
}

impl StartedBy {
    /// Returns the value for this process's current user.
    pub(crate) fn now() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }

    /// Returns the default path of a directory: root's, or one in the user's home.
    pub(super) fn directory(
        self,
        root: &str,
        variable: &'static str,
        in_home: &str,
    ) -> (Option<PathBuf>, ValueOrigin) {
        match (self, absolute_variable(variable)) {
            (Self::Root, _) => (Some(PathBuf::from(root)), ValueOrigin::Default),
            (Self::User, Some(base)) => {
                (Some(base.join("palisade")), ValueOrigin::Environment(variable))
            }
            (Self::User, None) => {
                let home = absolute_variable("HOME");
                (
                    home.map(|home| home.join(in_home).join("palisade")),
                    ValueOrigin::Environment("HOME"),
                )
            }
        }
    }

    /// Returns the directory with the sockets of daemons that this user's commands left running, if it
    /// exists.
    pub(super) fn lingering_sockets(self) -> Option<PathBuf> {
        let of_user = absolute_variable("XDG_RUNTIME_DIR").map(|path| path.join("palisade"));
        let of_root = (self == Self::Root).then(|| PathBuf::from("/run/palisade-root"));
        of_user.into_iter().chain(of_root).find(|path| path.is_dir())
    }

    /// Returns the default path of the agent socket.
    pub(super) fn socket(self) -> (Option<PathBuf>, ValueOrigin) {
        match self {
            Self::Root => (Some(PathBuf::from("/run/palisade/agent.sock")), ValueOrigin::Default),
            Self::User => {
                let directory = absolute_variable("XDG_RUNTIME_DIR");
                let socket = directory.map(|directory| directory.join("palisade/agent.sock"));
                (socket, ValueOrigin::Environment("XDG_RUNTIME_DIR"))
            }
        }
    }
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
