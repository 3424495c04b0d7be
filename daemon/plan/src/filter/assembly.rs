//! Assembles rules into a BPF program: a balanced tree over the system call numbers. Runs in the
//! cell, before the filter is installed.

use super::{
    Compare, Condition, FilterError, Instruction, SyscallAction, SyscallRule,
    fixed::{FIRST_UNKNOWN, FixedRule},
};

/// The kernel's limit on instructions in a program.
const MAX_INSTRUCTIONS: usize = 4096;

/// The kernel's largest errno.
const MAX_ERRNO: u16 = 4095;

/// The first number of the x32 ABI, for which there are no rules.
const X32: u32 = 0x4000_0000;

/// The answer for a number without a rule: `ENOSYS`.
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

/// Assembles a filter of a plan's rules and the fixed rules. It allows a call only if both do, and a
/// call without a rule of the plan fails with `ENOSYS`. Where the plan denies a call, its answer is
/// given.
///
/// A call of a wrong architecture kills the process. Then follows a balanced tree over the numbers,
/// in which neighbours with the same answer share a leaf.
///
/// # Errors
/// If the rules are empty, contradictory or too many.
pub fn assemble(
    rules: &[SyscallRule],
    fixed: &[FixedRule],
) -> Result<Vec<Instruction>, FilterError> {
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
    code.extend(tree(&leaves(&rules, fixed)));
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

/// The filter's answer for a range of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf<'a> {
    Same(SyscallAction),
    Arguments(&'a SyscallRule),
    /// The plan's rule, and the fixed rule for what it allows.
    Bounded(&'a SyscallRule, &'a SyscallRule),
}

/// Returns the first number of each range, with its leaf. The ranges cover all numbers.
fn leaves<'a>(rules: &[&'a SyscallRule], fixed: &'a [FixedRule]) -> Vec<(u32, Leaf<'a>)> {
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
        push(rule.number, leaf(rule, fixed));
        next = rule.number + 1;
    }
    push(next, Leaf::Same(UNKNOWN));
    leaves
}

fn leaf<'a>(rule: &'a SyscallRule, fixed: &'a [FixedRule]) -> Leaf<'a> {
    if rule.number >= FIRST_UNKNOWN && rule.may_allow() && !fixed.is_empty() {
        return Leaf::Same(UNKNOWN);
    }
    let bound = fixed.binary_search_by_key(&rule.number, |fixed| fixed.rule.number).ok();
    match bound.and_then(|at| fixed.get(at)) {
        Some(bound) if rule.may_allow() && *rule != bound.rule => Leaf::Bounded(rule, &bound.rule),
        Some(_) | None if rule.clauses.is_empty() => Leaf::Same(rule.otherwise),
        Some(_) | None => Leaf::Arguments(rule),
    }
}

/// Generates the code for the leaves. It expects the number to be loaded.
fn tree(leaves: &[(u32, Leaf<'_>)]) -> Vec<Instruction> {
    let (left, right) = leaves.split_at(leaves.len() / 2);
    let Some((start, leaf)) = right.first() else {
        return vec![answer(UNKNOWN)];
    };
    if left.is_empty() {
        return match leaf {
            Leaf::Same(action) => vec![answer(*action)],
            Leaf::Arguments(rule) => arguments(rule),
            Leaf::Bounded(rule, bound) => {
                let mut code = denials(rule);
                code.extend(arguments(bound));
                code
            }
        };
    }
    let left = tree(left);
    let mut code = skip_if(JUMP_AT_LEAST, *start, left.len());
    code.extend(left);
    code.extend(tree(right));
    code
}

/// Generates the code for a rule with clauses. Each clause ends in an answer; if a condition fails,
/// the code skips to the next clause.
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

/// Generates the code for the denials of a rule. What the rule allows continues after the code.
fn denials(rule: &SyscallRule) -> Vec<Instruction> {
    let end = |action: SyscallAction, rest: usize| match action {
        SyscallAction::Allow if rest == 0 => vec![],
        SyscallAction::Allow => vec![jump(rest)],
        SyscallAction::Errno(_) => vec![answer(action)],
    };
    let mut code = end(rule.otherwise, 0);
    for (conditions, action) in rule.clauses.iter().rev() {
        let mut clause = end(*action, code.len());
        for condition in conditions.iter().rev() {
            let mut test = test(condition, clause.len());
            test.append(&mut clause);
            clause = test;
        }
        clause.append(&mut code);
        code = clause;
    }
    code
}

/// Generates the code for a condition. If the condition fails, the code skips `rest` instructions
/// after it.
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
    // If the high halves differ, both comparisons are decided: `Equal` fails and `NotEqual` holds.
    let distance = match condition.compare {
        Compare::Equal => code.len() + rest,
        Compare::NotEqual => code.len(),
    };
    both.extend(skip_unless(JUMP_EQUAL, high, distance));
    both.append(&mut code);
    both
}

/// Splits 64 bits into the low and high halves that BPF works on.
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

/// Skips `distance` instructions if the comparison holds. A conditional jump has 8 bits for the
/// distance, a plain jump has 32.
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

/// Generates a plain jump. A distance over 32 bits belongs to a program far over the kernel's
/// limit, which is refused.
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
