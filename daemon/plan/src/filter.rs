//! The system call filter: rules as data, made by the broker and carried by the plan.

use bincode::{Decode, Encode};

mod assembly;

pub use assembly::assemble;

/// How an argument is compared. `mask` is applied first.
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
    /// Which argument, from 0.
    pub argument: u8,
    /// All 64 bits; the kernel looks only at the low 32 of most.
    pub wide: bool,
    /// Bits that matter.
    pub mask: u64,
    /// How.
    pub compare: Compare,
    /// With what.
    pub value: u64,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SyscallAction {
    /// It goes on.
    Allow,
    /// It fails with this errno.
    Errno(u16),
}

/// What happens to one system call: the first clause whose conditions all hold decides; if none
/// does, `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SyscallRule {
    /// Its number on this architecture.
    pub number: u32,
    /// In order.
    pub clauses: Vec<(Vec<Condition>, SyscallAction)>,
    /// If no clause holds.
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
    /// What becomes of a call with these arguments: what the filter means, without the filter.
    #[must_use]
    pub fn decide(&self, arguments: &[u64; 6]) -> SyscallAction {
        self.clauses
            .iter()
            .find(|(conditions, _)| conditions.iter().all(|c| c.holds(arguments)))
            .map_or(self.otherwise, |(_, action)| *action)
    }
}

/// One BPF instruction, as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump if true.
    pub jt: u8,
    /// Jump if false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// Its bytes, as they lie in memory on a little-endian machine; for digests.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_le_bytes();
        let [k0, k1, k2, k3] = self.k.to_le_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// Why there is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing would be allowed.
    #[error("a filter without rules allows nothing")]
    Empty,
    /// Two rules for one call.
    #[error("two rules for system call {0}")]
    Duplicate(u32),
    /// A number that is another architecture's, or none.
    #[error("{0} is not the number of a system call")]
    Number(u32),
    /// An argument that no system call has.
    #[error("system call {0} has no argument {1}")]
    Argument(u32, u8),
    /// A value with bits that the mask takes away: the comparison says nothing.
    #[error("system call {0}: the value compared with argument {1} has bits outside its mask")]
    Mask(u32, u8),
    /// An errno that the kernel does not take; 0 would be a success that did nothing.
    #[error("system call {0} can not fail with errno {1}")]
    Errno(u32, u16),
    /// Over the kernel's limit.
    #[error("{0} instructions are over the kernel's limit of 4096")]
    TooLong(usize),
}
