//! Tests the filter with an interpreter: for every number, its verdict is what the rules say.

use super::{
    super::fixed::{NetworkSockets, SetIdBits, Sockets, fixed_rules},
    *,
};
use proptest::prelude::*;

/// Runs a filter as the kernel does. A jump out of the program, an unknown operation or a program
/// that does not end in an answer is an error. Returns the verdict and the number of instructions
/// executed.
fn run(code: &[Instruction], arch: u32, number: u32, arguments: &[u64; 6]) -> (u32, usize) {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(arch.to_le_bytes());
    data.extend(0_u64.to_le_bytes());
    data.extend(arguments.iter().flat_map(|a| a.to_le_bytes()));
    let (mut at, mut a) = (0_usize, 0_u32);
    for steps in 1..=code.len() {
        let Instruction { code: operation, jt, jf, k } = code[at];
        at += 1;
        let side = |holds| usize::from(if holds { jt } else { jf });
        match operation {
            LOAD => {
                let at = k as usize;
                a = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
            }
            AND => a &= k,
            JUMP => at += k as usize,
            JUMP_EQUAL => at += side(a == k),
            JUMP_AT_LEAST => at += side(a >= k),
            RETURN => return (k, steps),
            other => panic!("operation {other:#x}"),
        }
    }
    panic!("does not end");
}

/// Assembles rules without any fixed ones.
fn assemble_plain(rules: &[SyscallRule]) -> Result<Vec<Instruction>, FilterError> {
    assemble(rules, &[])
}

fn verdict(code: &[Instruction], number: u32, arguments: &[u64; 6]) -> u32 {
    run(code, ARCHITECTURE, number, arguments).0
}

fn meant(rules: &[SyscallRule], number: u32, arguments: &[u64; 6]) -> u32 {
    let rule = rules.iter().find(|rule| rule.number == number);
    answer(rule.map_or(UNKNOWN, |rule| rule.decide(arguments))).k
}

fn rule(number: u32, otherwise: SyscallAction) -> SyscallRule {
    SyscallRule { number, clauses: vec![], otherwise }
}

fn condition(argument: u8, compare: Compare, mask: u64, value: u64) -> Condition {
    Condition { argument, wide: false, mask, compare, value }
}

const EPERM: SyscallAction = SyscallAction::Errno(1);
const ALL: u64 = u32::MAX as u64;

#[test]
fn another_architecture_is_killed() {
    let code = assemble_plain(&[rule(0, SyscallAction::Allow)]).unwrap();
    assert_eq!(run(&code, ARCHITECTURE, 0, &[0; 6]).0, ALLOW);
    for arch in [0x4000_0003, 0, ARCHITECTURE ^ 1, u32::MAX] {
        assert_eq!(run(&code, arch, 0, &[0; 6]).0, KILL_PROCESS, "{arch:#x}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn x32_is_killed() {
    let code = assemble_plain(&[rule(0, SyscallAction::Allow)]).unwrap();
    assert_eq!(verdict(&code, X32 - 1, &[0; 6]), ERRNO | 38);
    for number in [X32, X32 | 59, 0x7fff_ffff, u32::MAX] {
        assert_eq!(verdict(&code, number, &[0; 6]), KILL_PROCESS, "{number:#x}");
    }
}

#[test]
fn numbers_without_a_rule_do_not_exist() {
    let rules = [rule(3, SyscallAction::Allow), rule(5, EPERM)];
    let code = assemble_plain(&rules).unwrap();
    let found: Vec<_> = (0..8).map(|n| verdict(&code, n, &[0; 6])).collect();
    let no = ERRNO | 38;
    assert_eq!(found, [no, no, no, ALLOW, no, ERRNO | 1, no, no]);
}

#[test]
fn neighbours_share_a_leaf() {
    let rules: Vec<_> = (0..300).map(|n| rule(n, SyscallAction::Allow)).collect();
    let code = assemble_plain(&rules).unwrap();
    // The checks of architecture and x32, then one comparison and two answers.
    let head = if cfg!(target_arch = "x86_64") { 6 } else { 4 };
    assert_eq!(code.len(), head + 3);
    assert_eq!(verdict(&code, 299, &[0; 6]), ALLOW);
    assert_eq!(verdict(&code, 300, &[0; 6]), ERRNO | 38);
}

#[test]
fn the_way_to_an_answer_is_short() {
    let rules: Vec<_> = (0..512).map(|n| rule(n * 2, SyscallAction::Allow)).collect();
    let code = assemble_plain(&rules).unwrap();
    // 1,024 leaves are 10 comparisons deep. Distant leaves need an additional plain jump.
    for number in 0..1100 {
        let (_, steps) = run(&code, ARCHITECTURE, number, &[0; 6]);
        assert!(steps <= 26, "{number} takes {steps}");
    }
}

#[test]
fn the_first_clause_that_holds_decides() {
    let rules = [SyscallRule {
        number: 7,
        clauses: vec![
            (
                vec![condition(0, Compare::Equal, ALL, 2), condition(1, Compare::NotEqual, 0xf, 0)],
                EPERM,
            ),
            (vec![condition(0, Compare::Equal, ALL, 2)], SyscallAction::Allow),
        ],
        otherwise: SyscallAction::Errno(13),
    }];
    let code = assemble_plain(&rules).unwrap();
    for (arguments, expected) in [
        ([2, 1, 0, 0, 0, 0], ERRNO | 1),
        ([2, 0x10, 0, 0, 0, 0], ALLOW),
        ([3, 1, 0, 0, 0, 0], ERRNO | 13),
        // The kernel looks at the low 32 bits, and so does the filter.
        ([2 | 1 << 32, 1, 0, 0, 0, 0], ERRNO | 1),
    ] {
        assert_eq!(verdict(&code, 7, &arguments), expected, "{arguments:x?}");
        assert_eq!(meant(&rules, 7, &arguments), expected, "{arguments:x?}");
    }
}

#[test]
fn wide_conditions_see_all_bits() {
    let value = 0x1_0000_0002;
    for (compare, equal, differs) in
        [(Compare::Equal, ERRNO | 1, ALLOW), (Compare::NotEqual, ALLOW, ERRNO | 1)]
    {
        let wide = Condition { argument: 5, wide: true, mask: u64::MAX, compare, value };
        let rules = [SyscallRule {
            number: 0,
            clauses: vec![(vec![wide], EPERM)],
            otherwise: SyscallAction::Allow,
        }];
        let code = assemble_plain(&rules).unwrap();
        for (last, expected) in
            [(value, equal), (2, differs), (0x1_0000_0000, differs), (0x2_0000_0002, differs)]
        {
            assert_eq!(verdict(&code, 0, &[0, 0, 0, 0, 0, last]), expected, "{last:#x}");
        }
    }
}

#[test]
fn a_clause_longer_than_a_short_jump_is_skipped_whole() {
    let many = vec![condition(0, Compare::Equal, 0xff, 1); 200];
    let wide =
        vec![
            Condition { argument: 1, wide: true, mask: 0xff, compare: Compare::NotEqual, value: 9 };
            100
        ];
    let rules = [SyscallRule {
        number: 0,
        clauses: vec![(many, SyscallAction::Allow), (wide, EPERM)],
        otherwise: SyscallAction::Errno(5),
    }];
    let code = assemble_plain(&rules).unwrap();
    assert!(code.len() > 900);
    assert_eq!(verdict(&code, 0, &[1, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(verdict(&code, 0, &[2, 0, 0, 0, 0, 0]), ERRNO | 1);
    assert_eq!(verdict(&code, 0, &[2, 9, 0, 0, 0, 0]), ERRNO | 5);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let with = |condition| SyscallRule {
        number: 4,
        clauses: vec![(vec![condition], EPERM)],
        otherwise: SyscallAction::Allow,
    };
    let allow = |number| rule(number, SyscallAction::Allow);
    for (rules, error) in [
        (vec![], FilterError::Empty),
        (vec![allow(4), allow(1), allow(4)], FilterError::Duplicate(4)),
        (vec![allow(X32)], FilterError::Number(X32)),
        (vec![with(condition(6, Compare::Equal, ALL, 0))], FilterError::Argument(4, 6)),
        (vec![with(condition(0, Compare::Equal, 1, 2))], FilterError::Mask(4, 0)),
        (vec![with(condition(2, Compare::Equal, u64::MAX, 1 << 32))], FilterError::Mask(4, 2)),
        (vec![rule(4, SyscallAction::Errno(0))], FilterError::Errno(4, 0)),
        (vec![rule(4, SyscallAction::Errno(4096))], FilterError::Errno(4, 4096)),
    ] {
        assert_eq!(assemble_plain(&rules), Err(error));
    }
    let rules: Vec<_> = (0..3000).map(|n| allow(n * 2)).collect();
    assert!(matches!(assemble_plain(&rules), Err(FilterError::TooLong(n)) if n > 4096));
}

#[test]
fn bytes_are_those_of_the_kernels_struct() {
    let instruction = Instruction { code: 0x1506, jt: 7, jf: 9, k: 0x0403_0201 };
    assert_eq!(instruction.to_bytes(), [0x06, 0x15, 7, 9, 1, 2, 3, 4]);
}

/// Generates few distinct values, so that conditions hold about as often as not.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, Just(ALL), Just(1 << 32), Just(1 << 32 | 1), Just(u64::MAX), any::<u64>()]
}

fn any_condition() -> impl Strategy<Value = Condition> {
    (0..6_u8, any::<bool>(), value(), any::<bool>(), value()).prop_map(
        |(argument, wide, mask, equal, value)| {
            let bits = if wide { u64::MAX } else { ALL };
            let compare = if equal { Compare::Equal } else { Compare::NotEqual };
            Condition { argument, wide, mask, compare, value: value & mask & bits }
        },
    )
}

fn any_action() -> impl Strategy<Value = SyscallAction> {
    prop_oneof![
        2 => Just(SyscallAction::Allow),
        1 => (1..=MAX_ERRNO).prop_map(SyscallAction::Errno),
    ]
}

fn any_rules() -> impl Strategy<Value = Vec<SyscallRule>> {
    let clause = (prop::collection::vec(any_condition(), 0..4), any_action());
    let body = (prop::collection::vec(clause, 0..4), any_action());
    let number = prop_oneof![9 => 0..600_u32, 1 => 0..X32];
    prop::collection::btree_map(number, body, 1..60).prop_map(|rules| {
        rules
            .into_iter()
            .map(|(number, (clauses, otherwise))| SyscallRule { number, clauses, otherwise })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_verdict_is_what_the_rules_say(
        rules in any_rules(),
        arguments in prop::collection::vec(prop::array::uniform6(value()), 4),
    ) {
        let code = assemble_plain(&rules).unwrap();
        let numbers = (0..600)
            .chain([600, 1 << 16, X32 - 2, X32 - 1])
            .chain(rules.iter().map(|rule| rule.number));
        for number in numbers {
            for arguments in &arguments {
                prop_assert_eq!(
                    verdict(&code, number, arguments),
                    meant(&rules, number, arguments),
                    "{} {:x?}", number, arguments
                );
            }
        }
    }
}

#[test]
fn a_filter_allows_what_the_plan_and_the_fixed_rules_allow() {
    let values = [0, 1, 2, 3, 6, 10, 0x5412, 0o4755, 0o20_644, 0x1000_0011, 0x2000_0000];
    let of_host = [NetworkSockets::Own, NetworkSockets::Ports, NetworkSockets::None];
    let sockets = of_host.map(|network| Sockets { network, unix: true });
    let bits = [SetIdBits::SetGid, SetIdBits::None, SetIdBits::NoneByAnyCall, SetIdBits::None];
    let sockets = sockets.into_iter().chain([Sockets { unix: false, ..sockets[2] }]);
    for (sockets, bits) in sockets.zip(bits) {
        let fixed = fixed_rules(sockets, bits);
        // A plan that allows everything, one that allows by arguments, and one with other errors.
        let clauses = vec![
            (vec![condition(0, Compare::Equal, ALL, 2)], SyscallAction::Allow),
            (vec![condition(1, Compare::NotEqual, 0xff, 1)], SyscallAction::Errno(13)),
            (vec![condition(4, Compare::Equal, 4, 4)], SyscallAction::Allow),
        ];
        for (clauses, otherwise) in [
            (vec![], SyscallAction::Allow),
            (clauses.clone(), SyscallAction::Allow),
            (clauses, SyscallAction::Errno(38)),
            (vec![], SyscallAction::Errno(38)),
        ] {
            let rule = |number| SyscallRule { number, clauses: clauses.clone(), otherwise };
            for number in (0..FIRST_UNKNOWN + 2).step_by(1) {
                let rule = rule(number);
                let code = assemble(std::slice::from_ref(&rule), &fixed).unwrap();
                let bound = fixed.iter().find(|fixed| fixed.rule.number == number);
                for value in values {
                    for arguments in [[value; 6], [2, value, 0, 0, 0, 0], [0, 1, 0, 0, value, 0]] {
                        let meant = match (rule.decide(&arguments), bound) {
                            (_, _) if number >= FIRST_UNKNOWN && rule.may_allow() => UNKNOWN,
                            (SyscallAction::Allow, Some(bound)) => bound.rule.decide(&arguments),
                            (action, _) => action,
                        };
                        let found = verdict(&code, number, &arguments);
                        assert_eq!(found, answer(meant).k, "{number} {arguments:x?} {rule:?}");
                    }
                }
            }
        }
    }
}
