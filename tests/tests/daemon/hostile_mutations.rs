//! Random mutations of valid plans and requests, sent to a real launcher by a broker that was taken
//! over. `PALISADE_LONG=1` sends many more.

use palisade_plan::{
    Access, Bind, LaunchPlan, MissingPath, SyscallAction, SyscallRule,
    ceiling::{AcceptedFilters, Ceiling},
    codec,
    launcher::{Refusal, Reply, Request, SessionOwner},
    names::NameList,
};
use palisade_tests::{
    Dice, Mode, World, effort, own, plan, run,
    taken_over::{TakenOverBroker, client_uid, give_to_client},
};

fn world(mode: Mode) -> World {
    let world = World::new(mode);
    give_to_client(&world.workspace());
    world
}

/// Throws dice over a valid plan. The launcher and the ceiling agree about each, and what it starts
/// is confined.
#[test]
fn of_mutated_plans_only_those_within_the_ceiling_start() {
    let mut dice = Dice::new("hostile plans");
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &["--allow-ports", "none"]);
        let (client, _theirs) = agents.accepted(client_uid());
        let valid = plan(&world.workspace());
        let ceiling = Ceiling::default();
        let canary = format!("read:{}", world.canary().display());
        let (mut started, mut refused) = (0, 0);
        for number in 1..=effort(120, 20_000) {
            let mut plan = valid.clone();
            (0..=dice.roll(2)).for_each(|_| mutate(&mut dice, &mut plan));
            let expected = ceiling.check(&plan, own(), &mut AcceptedFilters::default());
            match (expected, broker.session(number, Some(&client), &plan)) {
                (Err(error), Err(Refusal::Ceiling(said))) => {
                    refused += 1;
                    assert_eq!(said, error.to_string());
                }
                (Ok(()), Ok(session)) if session.ready.is_ok() => {
                    started += 1;
                    // Under tiny limits a program need not start.
                    if plan.limits == valid.limits
                        && let Ok(runner) = broker.runner(number, None)
                    {
                        let probe = world.workspace().join("probe");
                        let argv = [probe.to_str().unwrap(), &canary, "sys:keyctl:0:-3:0:0:0"];
                        let (_, said) = run(&runner, &argv, &world.workspace());
                        assert!(!said.contains("=ok"), "{mode:?}: {said}\n{plan:?}");
                    }
                    broker.end(number);
                }
                // The cell refused it, or a layer is missing here.
                (Ok(()), Ok(_)) => broker.end(number),
                (Ok(()), Err(Refusal::LayerMissing(_) | Refusal::Spawn(_) | Refusal::NoUid(_))) => {
                }
                (expected, found) => panic!("{expected:?}, {found:?}\n{plan:?}"),
            }
        }
        assert!(started > 0 && refused > 0, "{started} {refused}");
        broker.assert_no_session();
        world.assert_canary_untouched();
        assert!(broker.close().success());
    }
}

/// Flips, cuts and repeats bytes of a valid request. The launcher answers, or ends with its reason.
#[test]
fn of_mutated_bytes_none_crashes_the_launcher() {
    let mut dice = Dice::new("hostile bytes");
    for mode in Mode::all() {
        let world = world(mode);
        let plan = Box::new(plan(&world.workspace()));
        let valid = Request::Session { session: 1, whose: SessionOwner::Client, plan };
        let valid = codec::encode(&valid).unwrap();
        for _ in 0..effort(12, 1000) {
            let broker = TakenOverBroker::start(mode, &[]);
            for _ in 0..20 {
                let mut bytes = valid.clone();
                for _ in 0..=dice.roll(4) {
                    let at = dice.roll(bytes.len());
                    match dice.roll(4) {
                        0 => bytes[at] ^= 1 << dice.roll(8),
                        1 => bytes[at] = [0, 0xfb, 0xfc, 0xfd, 0xff][dice.roll(5)],
                        2 => bytes.truncate(at.max(1)),
                        _ => {
                            let piece = bytes[at..].iter().take(64).copied().collect::<Vec<_>>();
                            bytes.splice(at..at, piece);
                        }
                    }
                }
                broker.send_bytes(&bytes);
            }
            // No descriptor came with them, so none of them can be a session.
            broker.send_bytes(&codec::encode(&Request::End { session: 99 }).unwrap());
            loop {
                match broker.hear() {
                    Some(Reply::Started { .. }) => panic!("a session without descriptors"),
                    Some(Reply::Ended { session: 99 }) | None => break,
                    Some(_) => {}
                }
            }
            let ended = broker.close().code();
            assert!(matches!(ended, Some(0 | 1)), "{mode:?}: {ended:?}");
        }
        world.assert_canary_untouched();
    }
}

/// Changes one thing of a plan to something that an attacker could try.
fn mutate(dice: &mut Dice, plan: &mut LaunchPlan) {
    let paths = [
        "/",
        "/etc",
        "/usr",
        "/proc",
        "/proc/1",
        "/sys",
        "/dev",
        "/dev/sda",
        "/run/user/0",
        "/root",
        "/home/x/.ssh",
        "/var/lib/palisade",
        "/etc/../etc",
        "/srv",
        "/usr/lib",
        "x",
        "/opt",
    ];
    let accesses = [Access::List, Access::Read, Access::Execute, Access::Write, Access::Device];
    let path = palisade_plan::Path::from(paths[dice.roll(paths.len())]);
    let access = accesses[dice.roll(accesses.len())];
    let missing = [MissingPath::Skip, MissingPath::Refuse][dice.roll(2)];
    let number = [0, 1, 1 << 20, 1 << 30, 1 << 45, u64::MAX][dice.roll(6)];
    match dice.roll(11) {
        0 => plan.binds.push(Bind { path, access, missing }),
        1 => plan.grants.push(palisade_plan::Grant { path, access, missing }),
        2 => plan.tmpfs.push(palisade_plan::Tmpfs { path, bytes: 1 << 20, mode: 0o755 }),
        3 => plan.workspace.access = access,
        4 => {
            let at = dice.roll(plan.binds.len());
            plan.binds[at].access = access;
        }
        5 => {
            let limits = &mut plan.limits;
            *[
                &mut limits.memory_bytes,
                &mut limits.processes,
                &mut limits.open_files,
                &mut limits.file_bytes,
                &mut limits.transaction_bytes,
            ][dice.roll(5)] = number;
        }
        6 => {
            let number = u32::try_from(dice.roll(480)).unwrap();
            plan.syscalls.retain(|rule| rule.number != number);
            let otherwise = SyscallAction::Allow;
            plan.syscalls.push(SyscallRule { number, clauses: vec![], otherwise });
        }
        7 => {
            let at = dice.roll(plan.syscalls.len());
            let rule = &mut plan.syscalls[at];
            let clause = dice.roll(rule.clauses.len());
            if let Some((conditions, _)) = rule.clauses.get_mut(clause)
                && let Some(condition) = conditions.first_mut()
            {
                condition.mask ^= 1 << dice.roll(32);
                condition.value &= condition.mask;
            }
        }
        8 => plan.optional.push(palisade_plan::Layer::ALL[dice.roll(11)]),
        9 => {
            plan.network = [
                palisade_plan::Network::None,
                palisade_plan::Network::Loopback,
                palisade_plan::Network::Ports(vec![443]),
            ][dice.roll(3)]
            .clone();
        }
        _ => plan.names.protect.push(NameList(vec!["a*".to_owned(), "!ab".to_owned()])),
    }
}
