//! The ceiling's rules for system calls: a plan's filter allows nothing that the fixed rules deny,
//! for any arguments, whoever wrote it.

use super::error::CeilingError;
use crate::{
    Network, SyscallRule, assemble,
    filter::{Excess, FIRST_UNKNOWN, Sockets, find_excess, fixed_rules},
};

/// Checks a plan's filter against the fixed rules.
pub(super) fn check(rules: &[SyscallRule], network: &Network) -> Result<(), CeilingError> {
    if !rules.iter().any(SyscallRule::may_allow) {
        return Err(CeilingError::Empty("system calls that are allowed"));
    }
    let fixed = fixed_rules(Sockets::of(network));
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
