//! The identity of a cell's process before its first step. Runs in the cell.

use crate::failure::StepFailure;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use palisade_plan::cell::BEGIN_AS_ROOT;

/// The identity under which the process takes its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartIdentity {
    /// The identity that it was started with.
    AsStarted,
    /// Root, with only the capabilities that the process was started with. The files that it makes
    /// for its session then belong to root. The kernel also drops capabilities when root changes
    /// identity, and in no other case: those over files while the session's identity is borrowed,
    /// and the ambient ones when that identity is taken on for good.
    AsRoot,
}

impl StartIdentity {
    /// Parses the command line.
    ///
    /// # Errors
    /// The first argument that no launcher passes.
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let identity = match arguments.next() {
            None => Self::AsStarted,
            Some(argument) if argument == BEGIN_AS_ROOT => Self::AsRoot,
            Some(argument) => return Err(argument),
        };
        arguments.next().map_or(Ok(identity), Err)
    }

    /// Switches the process to this identity.
    pub(crate) fn take(self) -> Result<(), StepFailure> {
        match self {
            Self::AsStarted => Ok(()),
            Self::AsRoot => {
                let (uid, gid) = (Uid::from_raw(0), Gid::from_raw(0));
                setgroups(&[]).map_err(StepFailure::kernel("setgroups"))?;
                setresgid(gid, gid, gid).map_err(StepFailure::kernel("setresgid"))?;
                setresuid(uid, uid, uid).map_err(StepFailure::kernel("setresuid"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_launcher_says_is_taken() {
        let identity =
            |line: &str| StartIdentity::from_arguments(line.split_whitespace().map(str::to_owned));
        assert_eq!(identity(""), Ok(StartIdentity::AsStarted));
        assert_eq!(identity(BEGIN_AS_ROOT), Ok(StartIdentity::AsRoot));
        assert_eq!(identity("--help"), Err("--help".to_owned()));
        assert_eq!(identity(&format!("{BEGIN_AS_ROOT} more")), Err("more".to_owned()));
    }
}
