//! Decides, for all arguments at once, whether a rule allows a call that another rule denies. Pure:
//! no I/O.

use super::{Compare, Condition, SyscallAction, SyscallRule};

/// Most sets of arguments that are examined for one rule. The rules of the built-in profiles need
/// some hundreds.
const MOST_SETS: usize = 1 << 14;

/// The excess of one rule over another: what only the first allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// These arguments are allowed by the first rule and denied by the second.
    Arguments([u64; 6]),
    /// The rules have too many conditions to be compared.
    Unknown,
}

/// A set of arguments: of each argument, the bits that are decided, and their values.
#[derive(Debug, Clone, Copy, Default)]
struct ArgumentSet([(u64, u64); 6]);

/// One bit of one argument.
#[derive(Debug, Clone, Copy)]
struct ArgumentBit {
    argument: usize,
    bit: u64,
}

/// The truth of a condition for a set of arguments.
enum Truth {
    Holds,
    Fails,
    /// It depends on this bit, which the set leaves open.
    Open(ArgumentBit),
}

/// Finds arguments that `rule` allows although `bound` denies them; `None` if there are none.
///
/// The search begins with the set of all arguments. It splits a set at a bit on which an answer
/// depends, until each set has one answer of each rule.
#[must_use]
pub(crate) fn find_excess(rule: &SyscallRule, bound: &SyscallRule) -> Option<Excess> {
    let mut sets = vec![ArgumentSet::default()];
    for _ in 0..MOST_SETS {
        let set = sets.pop()?;
        let open = match (answer(rule, &set), answer(bound, &set)) {
            (Ok(SyscallAction::Errno(_)), _) | (_, Ok(SyscallAction::Allow)) => continue,
            (Ok(SyscallAction::Allow), Ok(SyscallAction::Errno(_))) => {
                return Some(Excess::Arguments(set.0.map(|(_, value)| value)));
            }
            (Err(open), _) | (_, Err(open)) => open,
        };
        sets.extend([set.with(open, open.bit), set.with(open, 0)]);
    }
    sets.first().map(|_| Excess::Unknown)
}

/// Returns a rule's answer for a set of arguments, or a bit on which the answer depends.
fn answer(rule: &SyscallRule, set: &ArgumentSet) -> Result<SyscallAction, ArgumentBit> {
    'clauses: for (conditions, action) in &rule.clauses {
        let mut open = None;
        for condition in conditions {
            match truth(condition, set) {
                Truth::Holds => {}
                Truth::Fails => continue 'clauses,
                Truth::Open(bit) => open = open.or(Some(bit)),
            }
        }
        return open.map_or(Ok(*action), Err);
    }
    Ok(rule.otherwise)
}

fn truth(condition: &Condition, set: &ArgumentSet) -> Truth {
    let argument = usize::from(condition.argument);
    // As the filter does: a condition on an argument that does not exist never holds.
    let Some((decided, value)) = set.0.get(argument).copied() else { return Truth::Fails };
    let width = if condition.wide { u64::MAX } else { u64::from(u32::MAX) };
    let mask = condition.mask & width;
    // Bits of the value outside the mask make it unequal to everything.
    let differs = (value ^ condition.value) & mask & decided | condition.value & !mask;
    let open = mask & !decided;
    match (differs != 0, open, condition.compare) {
        (true, _, Compare::Equal) | (false, 0, Compare::NotEqual) => Truth::Fails,
        (true, _, Compare::NotEqual) | (false, 0, Compare::Equal) => Truth::Holds,
        (false, _, _) => Truth::Open(ArgumentBit { argument, bit: 1 << open.trailing_zeros() }),
    }
}

impl ArgumentSet {
    /// Returns the part of the set in which a bit has a value.
    fn with(mut self, at: ArgumentBit, value: u64) -> Self {
        if let Some((decided, values)) = self.0.get_mut(at.argument) {
            *decided |= at.bit;
            *values |= value;
        }
        self
    }
}

#[cfg(test)]
mod tests;
