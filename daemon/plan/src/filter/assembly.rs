//! From rules to BPF: a balanced tree over the numbers. It runs in the cell, before the filter is
//! installed.

use super::{Compare, Condition, FilterError, Instruction, SyscallAction, SyscallRule};

/// The kernel's limit on a program.
const MAX_INSTRUCTIONS: usize = 4096;

/// The kernel's largest errno.
const MAX_ERRNO: u16 = 4095;

/// From here on numbers are those of the x32 ABI, which no rule is about.
const X32: u32 = 0x4000_0000;

/// `ENOSYS`: what a number without a rule answers.
const UNKNOWN: SyscallAction = SyscallAction::Errno(38);

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter knows the audit architectures of x86_64 and aarch64 only");

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const KILL_PROCESS: u32 = 0x8000_0000;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Assembles the filter: a wrong architecture is killed; then a balanced tree over the numbers,
/// with neighbours of one answer in one leaf.
///
/// # Errors
/// If the rules are empty, contradictory or too many.
pub fn assemble(rules: &[SyscallRule]) -> Result<Vec<Instruction>, FilterError> {
    let mut rules: Vec<_> = rules.iter().collect();
    rules.sort_by_key(|rule| rule.number);
    check(&rules)?;
    let mut code = vec![
        plain(LOAD, ARCH),
        Instruction { code: JUMP_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        plain(RETURN, KILL_PROCESS),
        plain(LOAD, NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        code.push(Instruction { code: JUMP_AT_LEAST, jt: 0, jf: 1, k: X32 });
        code.push(plain(RETURN, KILL_PROCESS));
    }
    code.extend(tree(&leaves(&rules)));
    if code.len() > MAX_INSTRUCTIONS {
        return Err(FilterError::TooLong(code.len()));
    }
    Ok(code)
}

fn check(rules: &[&SyscallRule]) -> Result<(), FilterError> {
    if rules.is_empty() {
        return Err(FilterError::Empty);
    }
    if let Some([one, _]) = rules.array_windows().find(|[a, b]| a.number == b.number) {
        return Err(FilterError::Duplicate(one.number));
    }
    for rule in rules {
        let number = rule.number;
        if number >= X32 {
            return Err(FilterError::Number(number));
        }
        for condition in rule.clauses.iter().flat_map(|(conditions, _)| conditions) {
            let bits = if condition.wide { u64::MAX } else { u64::from(u32::MAX) };
            if condition.argument > 5 {
                return Err(FilterError::Argument(number, condition.argument));
            }
            if condition.value & !(condition.mask & bits) != 0 {
                return Err(FilterError::Mask(number, condition.argument));
            }
        }
        for action in rule.clauses.iter().map(|(_, action)| action).chain([&rule.otherwise]) {
            match action {
                SyscallAction::Errno(errno @ (0 | 4096..)) => {
                    return Err(FilterError::Errno(number, *errno));
                }
                SyscallAction::Errno(1..=MAX_ERRNO) | SyscallAction::Allow => {}
            }
        }
    }
    Ok(())
}

/// What becomes of a range of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf<'a> {
    Same(SyscallAction),
    Arguments(&'a SyscallRule),
}

/// Where each range of numbers begins; together they cover all of them.
fn leaves<'a>(rules: &[&'a SyscallRule]) -> Vec<(u32, Leaf<'a>)> {
    let mut leaves: Vec<(u32, Leaf<'a>)> = Vec::new();
    let mut push = |start, leaf| {
        if leaves.last().is_none_or(|(_, last)| *last != leaf) {
            leaves.push((start, leaf));
        }
    };
    let mut next = 0;
    for rule in rules {
        if rule.number > next {
            push(next, Leaf::Same(UNKNOWN));
        }
        let leaf = if rule.clauses.is_empty() {
            Leaf::Same(rule.otherwise)
        } else {
            Leaf::Arguments(rule)
        };
        push(rule.number, leaf);
        next = rule.number + 1;
    }
    push(next, Leaf::Same(UNKNOWN));
    leaves
}

/// The code for the leaves; the number is loaded.
fn tree(leaves: &[(u32, Leaf<'_>)]) -> Vec<Instruction> {
    let (left, right) = leaves.split_at(leaves.len() / 2);
    let Some((start, leaf)) = right.first() else {
        return vec![answer(UNKNOWN)];
    };
    if left.is_empty() {
        return match leaf {
            Leaf::Same(action) => vec![answer(*action)],
            Leaf::Arguments(rule) => arguments(rule),
        };
    }
    let left = tree(left);
    let mut code = skip_if(JUMP_AT_LEAST, *start, left.len());
    code.extend(left);
    code.extend(tree(right));
    code
}

/// The code for a rule with clauses. Each clause ends in an answer; one that does not hold skips
/// to the next.
fn arguments(rule: &SyscallRule) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (conditions, action) in &rule.clauses {
        let mut clause = vec![answer(*action)];
        for condition in conditions.iter().rev() {
            let mut test = test(condition, clause.len());
            test.append(&mut clause);
            clause = test;
        }
        code.append(&mut clause);
    }
    code.push(answer(rule.otherwise));
    code
}

/// The code for a condition: goes on if it holds, else skips `rest` instructions more.
fn test(condition: &Condition, rest: usize) -> Vec<Instruction> {
    let offset = ARGUMENTS + 8 * u32::from(condition.argument);
    let (mask_low, mask_high) = halves(condition.mask);
    let (low, high) = halves(condition.value);
    let mut code = masked(offset, mask_low);
    code.extend(match condition.compare {
        Compare::Equal => skip_unless(JUMP_EQUAL, low, rest),
        Compare::NotEqual => skip_if(JUMP_EQUAL, low, rest),
    });
    if !condition.wide {
        return code;
    }
    let mut both = masked(offset + 4, mask_high);
    // A high half that differs settles both comparisons: the one fails, the other holds.
    let distance = match condition.compare {
        Compare::Equal => code.len() + rest,
        Compare::NotEqual => code.len(),
    };
    both.extend(skip_unless(JUMP_EQUAL, high, distance));
    both.append(&mut code);
    both
}

/// The two halves of 64 bits, as BPF takes them.
const fn halves(wide: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = wide.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

fn masked(offset: u32, mask: u32) -> Vec<Instruction> {
    let mut code = vec![plain(LOAD, offset)];
    if mask != u32::MAX {
        code.push(plain(AND, mask));
    }
    code
}

/// Skips `distance` instructions if the comparison holds. Conditional jumps have 8 bits, the plain
/// jump has 32.
fn skip_if(code: u16, k: u32, distance: usize) -> Vec<Instruction> {
    match u8::try_from(distance) {
        Ok(jt) => vec![Instruction { code, jt, jf: 0, k }],
        Err(_) => vec![Instruction { code, jt: 0, jf: 1, k }, jump(distance)],
    }
}

/// Skips `distance` instructions unless the comparison holds.
fn skip_unless(code: u16, k: u32, distance: usize) -> Vec<Instruction> {
    match u8::try_from(distance) {
        Ok(jf) => vec![Instruction { code, jt: 0, jf, k }],
        Err(_) => vec![Instruction { code, jt: 1, jf: 0, k }, jump(distance)],
    }
}

/// A distance over 32 bits would be a program far over the kernel's limit, which is refused.
fn jump(distance: usize) -> Instruction {
    plain(JUMP, u32::try_from(distance).unwrap_or(u32::MAX))
}

fn answer(action: SyscallAction) -> Instruction {
    match action {
        SyscallAction::Allow => plain(RETURN, ALLOW),
        SyscallAction::Errno(errno) => plain(RETURN, ERRNO | u32::from(errno)),
    }
}

const fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests;
