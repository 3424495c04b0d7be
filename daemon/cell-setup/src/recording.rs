//! The filters of a session whose programs are recorded. Runs in the cell.

use crate::{failure::StepFailure, kernel::FilterProgram, seccomp};
use palisade_plan::{Path, SyscallAction, SyscallRule};

/// The number of the system call that installs a filter.
const SECCOMP: u32 = libc::SYS_seccomp as u32;

/// The rules under which a runner records what its programs use.
#[derive(Debug)]
pub struct RecordingRules {
    /// The session's complete filter, which each program gets.
    pub filter: FilterProgram,
    /// The directories below which single names are not recorded.
    pub own: Vec<Path>,
    /// The paths bound below those directories, which are recorded again.
    pub bound: Vec<Path>,
}

impl RecordingRules {
    pub(crate) fn new(
        rules: &[SyscallRule],
        bounds: seccomp::Bounds,
        own: Vec<Path>,
        bound: Vec<Path>,
    ) -> Result<Self, StepFailure> {
        let filter = FilterProgram::new(&seccomp::assemble_for(rules, bounds)?);
        Ok(Self { filter, own, bound })
    }
}

/// Returns the filter of a runner that records: the session's, except that it may install a filter
/// with a listener.
pub(crate) fn runner_rules(rules: &[SyscallRule]) -> Vec<SyscallRule> {
    let mut rules = rules.to_vec();
    for rule in rules.iter_mut().filter(|rule| rule.number == SECCOMP) {
        *rule =
            SyscallRule { number: SECCOMP, clauses: Vec::new(), otherwise: SyscallAction::Allow };
    }
    rules
}
