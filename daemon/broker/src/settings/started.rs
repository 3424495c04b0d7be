//! Who started the daemon, and the places that are usual for them. Broker.

use crate::effective::Origin;
use std::{env, path::PathBuf};

/// Who started the daemon, which its defaults follow; it may be somebody else by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Root,
    User,
}

impl StartedBy {
    /// Whoever this process is now.
    pub(crate) fn now() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }

    /// A directory's usual place: root's, or a user's own.
    pub(super) fn directory(
        self,
        root: &str,
        variable: &'static str,
        in_home: &str,
    ) -> (Option<PathBuf>, Origin) {
        match (self, absolute_variable(variable)) {
            (Self::Root, _) => (Some(PathBuf::from(root)), Origin::Default),
            (Self::User, Some(base)) => {
                (Some(base.join("palisade")), Origin::Environment(variable))
            }
            (Self::User, None) => {
                let home = absolute_variable("HOME");
                (home.map(|home| home.join(in_home).join("palisade")), Origin::Environment("HOME"))
            }
        }
    }

    /// The usual place of the socket for agents.
    pub(super) fn socket(self) -> (Option<PathBuf>, Origin) {
        match self {
            Self::Root => (Some(PathBuf::from("/run/palisade/agent.sock")), Origin::Default),
            Self::User => {
                let directory = absolute_variable("XDG_RUNTIME_DIR");
                let socket = directory.map(|directory| directory.join("palisade/agent.sock"));
                (socket, Origin::Environment("XDG_RUNTIME_DIR"))
            }
        }
    }
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
