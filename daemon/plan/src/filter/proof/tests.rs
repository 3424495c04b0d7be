//! Tests the comparison of rules against all arguments of a small world.

use super::*;
use proptest::prelude::*;

fn action() -> impl Strategy<Value = SyscallAction> {
    prop::sample::select(vec![SyscallAction::Allow, SyscallAction::Errno(1)])
}

/// Conditions on the two lowest bits of the low and of the high half of two arguments.
fn condition() -> impl Strategy<Value = Condition> {
    (0_u8..2, any::<bool>(), 0_u64..16, 0_u64..16, any::<bool>()).prop_map(
        |(argument, wide, mask, value, equal)| {
            let spread = |bits: u64| bits & 3 | (bits & 12) << 30;
            let mask = spread(mask) & if wide { u64::MAX } else { u64::from(u32::MAX) };
            let compare = if equal { Compare::Equal } else { Compare::NotEqual };
            Condition { argument, wide, mask, compare, value: spread(value) & mask }
        },
    )
}

fn rule() -> impl Strategy<Value = SyscallRule> {
    let clause = (prop::collection::vec(condition(), 0..4), action());
    (prop::collection::vec(clause, 0..5), action()).prop_map(|(clauses, otherwise)| SyscallRule {
        number: 1,
        clauses,
        otherwise,
    })
}

/// All values of the bits that conditions are about.
fn arguments() -> impl Iterator<Item = [u64; 6]> {
    let spread = |bits: u64| bits & 3 | (bits & 12) << 30;
    (0..256_u64).map(move |bits| [spread(bits & 15), spread(bits >> 4), 0, 0, 0, 0])
}

proptest! {
    #[test]
    fn excess_is_found_if_and_only_if_there_is_some(one in rule(), bound in rule()) {
        let exceeds = |arguments: &[u64; 6]| {
            one.decide(arguments) == SyscallAction::Allow
                && bound.decide(arguments) != SyscallAction::Allow
        };
        match find_excess(&one, &bound) {
            Some(Excess::Arguments(found)) => prop_assert!(exceeds(&found), "{:x?}", found),
            Some(Excess::Unknown) => prop_assert!(false, "a small rule was not decided"),
            None => prop_assert!(!arguments().any(|arguments| exceeds(&arguments))),
        }
    }
}

#[test]
fn a_rule_that_would_take_too_long_is_unknown() {
    // To hold or not, each clause needs both of its bits, and no two clauses share one.
    let bit = |argument: u8, bit: u32| Condition {
        argument,
        wide: true,
        mask: 1 << bit,
        compare: Compare::Equal,
        value: 1 << bit,
    };
    let clause = |at: u32| (vec![bit(0, at), bit(1, at)], SyscallAction::Errno(1));
    let clauses = (0..64).map(clause).collect();
    let long = SyscallRule { number: 1, clauses, otherwise: SyscallAction::Allow };
    let denied = |value| SyscallRule {
        number: 1,
        clauses: vec![(
            vec![Condition { mask: u64::MAX, value, ..bit(2, 0) }],
            SyscallAction::Errno(1),
        )],
        otherwise: SyscallAction::Allow,
    };
    // The bound denies one value of another argument, which the rule denies as well, last.
    let mut covering = long.clone();
    covering.clauses.extend(denied(7).clauses);
    assert_eq!(find_excess(&covering, &denied(7)), Some(Excess::Unknown));
    assert!(matches!(find_excess(&long, &denied(7)), Some(Excess::Arguments(_))));
}
