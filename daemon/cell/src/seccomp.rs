//! The system call filter. Room: the cell.

use crate::{
    failure::StepFailure,
    kernel::{self, Logged},
};
use palisade_plan::{SyscallAction, SyscallRule, assemble};

/// The filter as installed.
#[derive(Debug)]
pub struct Installed {
    /// Its instructions, eight bytes each.
    pub program: Vec<u8>,
    /// System calls it lets through.
    pub syscalls: u32,
}

/// Assembles and installs the filter.
pub(crate) fn install(rules: &[SyscallRule], logged: Logged) -> Result<Installed, StepFailure> {
    let instructions =
        assemble(rules).map_err(|error| StepFailure::NotInForce(error.to_string()))?;
    let mut program: Vec<_> = instructions
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    kernel::seccomp_filter(&mut program, logged).map_err(StepFailure::kernel("seccomp"))?;
    let lets_through = |rule: &&SyscallRule| {
        rule.otherwise == SyscallAction::Allow
            || rule.clauses.iter().any(|(_, action)| *action == SyscallAction::Allow)
    };
    let syscalls = rules.iter().filter(lets_through).count();
    Ok(Installed {
        program: instructions.iter().flat_map(|i| i.to_bytes()).collect(),
        syscalls: u32::try_from(syscalls).unwrap_or(u32::MAX),
    })
}
