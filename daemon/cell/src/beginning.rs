//! Whom a cell's process is before its first step. Room: the cell.

use crate::failure::StepFailure;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use palisade_plan::cell::BEGIN_AS_ROOT;

/// Whom the process is when it takes its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Who started it.
    AsStarted,
    /// Root, with the capabilities that it was started with and no others. What it makes for its
    /// session belongs to root then; and the kernel takes from a process that was root what it
    /// takes from no other when it becomes somebody else: the capabilities over files with the
    /// borrowed identity, the ambient ones with the session's.
    AsRoot,
}

impl Beginning {
    /// What the arguments say.
    ///
    /// # Errors
    /// The argument that no launcher gives.
    pub fn told(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let told = match arguments.next() {
            None => Self::AsStarted,
            Some(argument) if argument == BEGIN_AS_ROOT => Self::AsRoot,
            Some(argument) => return Err(argument),
        };
        arguments.next().map_or(Ok(told), Err)
    }

    /// Takes it on.
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
        let told = |line: &str| Beginning::told(line.split_whitespace().map(str::to_owned));
        assert_eq!(told(""), Ok(Beginning::AsStarted));
        assert_eq!(told(BEGIN_AS_ROOT), Ok(Beginning::AsRoot));
        assert_eq!(told("--help"), Err("--help".to_owned()));
        assert_eq!(told(&format!("{BEGIN_AS_ROOT} more")), Err("more".to_owned()));
    }
}
