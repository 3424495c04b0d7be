//! The system call filter as data: rules that the broker makes and a plan carries.

use bincode::{Decode, Encode};

mod assembly;
mod fixed;
mod proof;

pub use assembly::assemble;
pub use fixed::{FIRST_UNKNOWN, FixedRule, NetworkSockets, SetIdBits, Sockets, fixed_rules};
pub(crate) use proof::{Excess, find_excess};

/// The comparison of an argument. `mask` is applied first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Compare {
    /// `argument & mask == value`.
    Equal,
    /// `argument & mask != value`.
    NotEqual,
}

/// A condition on one argument's low 32 bits or on all 64, as `wide` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Condition {
    /// The number of the argument, from 0.
    pub argument: u8,
    /// True if all 64 bits are compared. The kernel reads only the low 32 bits of most arguments.
    pub wide: bool,
    /// The bits that are compared.
    pub mask: u64,
    /// The comparison.
    pub compare: Compare,
    /// The value to compare with.
    pub value: u64,
}

/// The filter's answer to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SyscallAction {
    /// The call is allowed.
    Allow,
    /// The call fails with this errno.
    Errno(u16),
}

/// The rule for one system call. The first clause whose conditions all hold decides; if none does,
/// `otherwise` decides.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SyscallRule {
    /// The call's number on this architecture.
    pub number: u32,
    /// The clauses, in order.
    pub clauses: Vec<(Vec<Condition>, SyscallAction)>,
    /// The action if no clause holds.
    pub otherwise: SyscallAction,
}

impl Condition {
    fn holds(&self, arguments: &[u64; 6]) -> bool {
        let Some(argument) = arguments.get(usize::from(self.argument)) else {
            return false;
        };
        let argument = if self.wide { *argument } else { *argument & u64::from(u32::MAX) };
        match self.compare {
            Compare::Equal => argument & self.mask == self.value,
            Compare::NotEqual => argument & self.mask != self.value,
        }
    }
}

impl SyscallRule {
    /// Returns `true` if the rule allows the call for some arguments.
    #[must_use]
    pub fn may_allow(&self) -> bool {
        let mut actions = self.clauses.iter().map(|(_, action)| action).chain([&self.otherwise]);
        actions.any(|action| *action == SyscallAction::Allow)
    }

    /// Returns the action for these arguments: the rule's meaning, computed without the filter.
    #[must_use]
    pub fn decide(&self, arguments: &[u64; 6]) -> SyscallAction {
        self.clauses
            .iter()
            .find(|(conditions, _)| conditions.iter().all(|c| c.holds(arguments)))
            .map_or(self.otherwise, |(_, action)| *action)
    }
}

/// One BPF instruction, in the kernel's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if the comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

impl Instruction {
    /// Returns the instruction's bytes as they are in memory on a little-endian machine, for
    /// digests.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_le_bytes();
        let [k0, k1, k2, k3] = self.k.to_le_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// An error from assembling a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There are no rules, so nothing would be allowed.
    #[error("a filter without rules allows nothing")]
    Empty,
    /// Two rules are for the same call.
    #[error("two rules for system call {0}")]
    Duplicate(u32),
    /// A number belongs to another architecture, or to no system call.
    #[error("{0} is not the number of a system call")]
    Number(u32),
    /// A condition is on an argument that no system call has.
    #[error("system call {0} has no argument {1}")]
    Argument(u32, u8),
    /// A value has bits that its mask clears, so the comparison is meaningless.
    #[error("system call {0}: the value compared with argument {1} has bits outside its mask")]
    Mask(u32, u8),
    /// An errno is out of the kernel's range. Zero would report success for a call that did
    /// nothing.
    #[error("system call {0} can not fail with errno {1}")]
    Errno(u32, u16),
    /// The filter exceeds the kernel's limit.
    #[error("{0} instructions are over the kernel's limit of 4096")]
    TooLong(usize),
}
