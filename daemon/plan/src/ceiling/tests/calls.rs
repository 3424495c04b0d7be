//! Tests the bounds of the filter, for whole ranges of arguments.

use super::{Reach, allow, check, on_ports, reaching};
use crate::{
    Compare, Condition, FIRST_UNKNOWN, FilterError, LaunchPlan, Network, SetIdBits, Sockets,
    SyscallAction, SyscallRule, ceiling::CeilingError, fixed_rules,
};

const EPERM: SyscallAction = SyscallAction::Errno(1);

fn rule(
    number: u32,
    clauses: Vec<(Vec<Condition>, SyscallAction)>,
    otherwise: SyscallAction,
) -> impl FnOnce(&mut LaunchPlan) {
    move |plan| plan.syscalls.push(SyscallRule { number, clauses, otherwise })
}

fn equal(argument: u8, mask: u64, value: u64) -> Condition {
    Condition { argument, wide: false, mask, compare: Compare::Equal, value }
}

fn not_equal(argument: u8, mask: u64, value: u64) -> Condition {
    Condition { compare: Compare::NotEqual, ..equal(argument, mask, value) }
}

const ALL: u64 = u32::MAX as u64;

/// Returns the arguments by which a filter was refused.
fn excess(found: Result<(), CeilingError>, expected: u32) -> [u64; 6] {
    match found {
        Err(CeilingError::Syscall { number, arguments, .. }) if number == expected => arguments,
        other => panic!("system call {expected}: {other:?}"),
    }
}

#[test]
fn no_fixed_rule_may_be_exceeded() {
    for network in [Network::Loopback, Network::Ports(vec![443])] {
        for fixed in fixed_rules(Sockets::of(&network), SetIdBits::SetGid) {
            let number = fixed.rule.number;
            let with = |rule: SyscallRule| {
                reaching(Reach::EveryPort, |plan| {
                    plan.network = network.clone();
                    plan.syscalls = vec![allow(39), rule];
                })
            };
            let arguments = excess(with(allow(number)), number);
            assert_eq!(fixed.rule.decide(&arguments), EPERM, "{}", fixed.call);
            let hidden = vec![(vec![], SyscallAction::Allow)];
            excess(with(SyscallRule { number, clauses: hidden, otherwise: EPERM }), number);
            let refused = SyscallRule { number, clauses: vec![], otherwise: EPERM };
            assert_eq!(with(refused), Ok(()), "{}", fixed.call);
            assert_eq!(with(fixed.rule), Ok(()), "{}", fixed.call);
        }
    }
}

/// A filter that denies what a test would try, and allows the rest.
#[test]
fn denying_some_values_is_not_enough() {
    let one_by_one = |number, argument, values: &[u64]| {
        let deny = |value: &u64| (vec![equal(argument, ALL, *value)], EPERM);
        rule(number, values.iter().map(deny).collect(), SyscallAction::Allow)
    };
    let namespaces: Vec<u64> = [17, 25, 26, 27, 28, 29, 30].map(|bit| 1 << bit).to_vec();
    let flags = excess(check(one_by_one(56, 0, &namespaces)), 56)[0];
    assert!(flags & 0x7e02_0000 != 0 && !namespaces.contains(&flags), "{flags:#x}");
    assert_ne!(excess(check(one_by_one(302, 0, &[1, 2, 3])), 302)[0], 0);
    // A mask that lacks one bit lacks one namespace.
    let all = |mask| rule(56, vec![(vec![not_equal(0, mask, 0)], EPERM)], SyscallAction::Allow);
    assert_eq!(check(all(0x7e02_0000)), Ok(()));
    assert_eq!(check(all(0xffff_ffff)), Ok(()));
    assert_eq!(excess(check(all(0x6e02_0000)), 56)[0], 0x1000_0000);
    // A condition on all 64 bits does not hold if a high bit is set, which the kernel ignores.
    let wide = Condition { wide: true, mask: u64::MAX, ..equal(1, 0, 0x5412) };
    let found = check(rule(16, vec![(vec![wide], EPERM)], SyscallAction::Allow));
    assert_eq!(
        found.unwrap_err().to_string().split(':').next(),
        Some("the filter allows ioctl that types into or takes over a terminal")
    );
    // An earlier clause opens what a later one denies.
    let clauses = vec![
        (vec![equal(2, 1, 1)], SyscallAction::Allow),
        (vec![not_equal(0, 0x7e02_0000, 0)], EPERM),
    ];
    assert_eq!(excess(check(rule(56, clauses, SyscallAction::Allow)), 56)[2], 1);
    // A socket of one unlisted kind among those that are allowed.
    let raw = vec![(vec![equal(0, ALL, 2), equal(1, 0xf, 3)], SyscallAction::Allow)];
    assert_eq!(excess(check(rule(41, raw, EPERM)), 41)[..2], [2, 3]);
}

#[test]
fn what_can_not_be_shown_is_refused() {
    // Each clause needs a bit of two arguments, and no two clauses share one. The last denies what
    // must be denied, but that takes too long to find out.
    let pair = |bit: u32| (vec![equal(1, 1 << bit, 1 << bit), equal(2, 1 << bit, 1 << bit)], EPERM);
    let mut clauses: Vec<_> = (0..32).map(pair).collect();
    clauses.push((vec![not_equal(0, 0x7e02_0000, 0)], EPERM));
    let found = check(rule(56, clauses, SyscallAction::Allow));
    let call = "clone with a new namespace";
    assert_eq!(found, Err(CeilingError::Unproved { call, number: 56 }));
}

#[test]
fn a_filter_is_valid_and_knows_its_calls() {
    let unknown = CeilingError::UnknownSyscall(FIRST_UNKNOWN);
    assert_eq!(check(|plan| plan.syscalls.push(allow(FIRST_UNKNOWN))), Err(unknown));
    let refused = SyscallRule { number: FIRST_UNKNOWN, clauses: vec![], otherwise: EPERM };
    assert_eq!(check(|plan| plan.syscalls.push(refused)), Ok(()));
    let twice = CeilingError::Filter(FilterError::Duplicate(0));
    assert_eq!(check(|plan| plan.syscalls.push(allow(0))), Err(twice));
    let x32 = CeilingError::Filter(FilterError::Number(0x4000_0000));
    assert_eq!(check(|plan| plan.syscalls.push(allow(0x4000_0000))), Err(x32));
    let zero = CeilingError::Filter(FilterError::Errno(5, 0));
    assert_eq!(check(rule(5, vec![], SyscallAction::Errno(0))), Err(zero));
    let seventh = CeilingError::Filter(FilterError::Argument(5, 6));
    let clauses = vec![(vec![equal(6, 1, 1)], EPERM)];
    assert_eq!(check(rule(5, clauses, SyscallAction::Allow)), Err(seventh));
    let long = (0..3000).map(|value| (vec![equal(0, ALL, value)], EPERM)).collect();
    let found = check(rule(5, long, SyscallAction::Allow));
    assert!(matches!(found, Err(CeilingError::Filter(FilterError::TooLong(_)))), "{found:?}");
}

#[test]
fn on_ports_nothing_passes_that_landlock_does_not_see() {
    // Each is allowed in a network of the session's own.
    for number in [44, 46, 307, 54, 50] {
        assert_eq!(check(|plan| plan.syscalls.push(allow(number))), Ok(()), "{number}");
        let found = reaching(Reach::EveryPort, |plan| {
            on_ports(plan, &[443]);
            plan.syscalls.push(allow(number));
        });
        excess(found, number);
    }
    let udp = || {
        rule(
            41,
            vec![(
                vec![equal(0, ALL, 2), equal(1, ALL, 2), equal(2, ALL, 0)],
                SyscallAction::Allow,
            )],
            EPERM,
        )
    };
    assert_eq!(check(udp()), Ok(()));
    let found = reaching(Reach::EveryPort, |plan| {
        on_ports(plan, &[443]);
        udp()(plan);
    });
    assert_eq!(excess(found, 41), [2, 2, 0, 0, 0, 0]);
}
