//! The ceiling's rules for system calls: a plan's filter allows nothing that the fixed rules deny,
//! for any arguments, whoever wrote it.

use super::error::CeilingError;
use crate::{
    Network, SyscallRule, assemble,
    filter::{Excess, FIRST_UNKNOWN, SetIdBits, Sockets, find_excess, fixed_rules},
};
use std::collections::VecDeque;

/// The most filters that are remembered.
const REMEMBERED: usize = 8;

/// Filters that passed the check. Checking one takes longer than everything else that the launcher
/// does for a session, and the sessions of one profile have equal filters.
#[derive(Debug, Default)]
pub struct AcceptedFilters(VecDeque<(Sockets, Vec<SyscallRule>)>);

impl AcceptedFilters {
    /// Checks a plan's filter, unless an equal one passed before.
    pub(super) fn check(
        &mut self,
        rules: &[SyscallRule],
        network: &Network,
    ) -> Result<(), CeilingError> {
        let sockets = Sockets::of(network);
        if self.0.iter().any(|accepted| accepted.0 == sockets && accepted.1 == rules) {
            return Ok(());
        }
        check(rules, sockets)?;
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front((sockets, rules.to_vec()));
        Ok(())
    }
}

/// Checks a plan's filter against the fixed rules.
fn check(rules: &[SyscallRule], sockets: Sockets) -> Result<(), CeilingError> {
    if !rules.iter().any(SyscallRule::may_allow) {
        return Err(CeilingError::Empty("system calls that are allowed"));
    }
    // The steps of a process leave it fewer set-id bits, if it needs fewer.
    let fixed = fixed_rules(sockets, SetIdBits::SetGid);
    assemble(rules, &fixed)?;
    let unknown = |rule: &&SyscallRule| rule.number >= FIRST_UNKNOWN && rule.may_allow();
    if let Some(rule) = rules.iter().find(unknown) {
        return Err(CeilingError::UnknownSyscall(rule.number));
    }
    for fixed in fixed {
        let (call, number) = (fixed.call, fixed.rule.number);
        for rule in rules.iter().filter(|rule| rule.number == number) {
            match find_excess(rule, &fixed.rule) {
                None => {}
                Some(Excess::Arguments(arguments)) => {
                    return Err(CeilingError::Syscall { call, number, arguments });
                }
                Some(Excess::Unknown) => return Err(CeilingError::Unproved { call, number }),
            }
        }
    }
    Ok(())
}
