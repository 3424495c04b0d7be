//! The broker is killed at every point of a call that is asked about: the log verifies, and nothing
//! has happened that it does not tell of. Promises 2 and 8.

use palisade_audit::{ReadError, Reader, Record, verify};
use palisade_client::{Answer, Open, Operator, OperatorEvent, Registration};
use palisade_protocol::CallId;
use palisade_tests::{Dice, Mode, Sandbox, World, effort, processes, profile_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{fs, path::PathBuf, thread, time::Duration};

/// The moment at which the broker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// When the approval request is put.
    ApprovalRequest,
    /// When the answer was taken.
    Answer,
    /// This many microseconds after the answer was taken.
    Later(u64),
    /// When the effect is seen, and the call still runs.
    Effect,
    /// When the client has the result.
    Result,
}

fn records(world: &World) -> Vec<Record> {
    let mut all = Vec::new();
    Reader::new(&world.state().join("audit"))
        .read::<ReadError>(|sighted| {
            all.push(sighted?.entry.record);
            Ok(())
        })
        .unwrap();
    all
}

fn file(world: &World) -> PathBuf {
    let path = world.workspace().join("f");
    fs::write(&path, "old").unwrap();
    world.give(&path);
    path
}

/// Makes a call that is asked about and kills the broker on the way; whether the file is gone, and
/// how many records there were before.
fn round(world: &World, at: At) -> (bool, usize) {
    let path = file(world);
    let daemon = world.daemon();
    let open = Open::new(world.workspace()).profile("asking");
    let sandbox = Sandbox::over(daemon.connect(world.mode), None, open).unwrap();
    let stream = world.mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators));
    let rooms = processes::tree(i32::try_from(daemon.child.id()).unwrap());
    let before = records(world).len();
    let victim = Pid::from_child(&daemon.child);
    let kill = || kill_process(victim, Signal::KILL).unwrap();
    // The effect is seen while the call goes on; after the others the call has to come to an end.
    let command = match at {
        At::Effect => "rm f; sleep 600",
        At::ApprovalRequest | At::Answer | At::Later(_) | At::Result => "rm f",
    };
    sandbox.wait(async {
        let stream = stream.unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let operator = Operator::from_stream(stream).await.unwrap();
        operator.register(Registration::new("program:test")).await.unwrap();
        let handle = async {
            let request = loop {
                let event = operator.next().await.expect("a request");
                if let OperatorEvent::ApprovalRequest(request) = event {
                    break request;
                }
            };
            if at == At::ApprovalRequest {
                kill();
                return;
            }
            operator.answer(&request, Answer::approve()).await.unwrap();
            match at {
                At::Answer => kill(),
                At::Later(time) => {
                    tokio::time::sleep(Duration::from_micros(time)).await;
                    kill();
                }
                At::Effect => {
                    while path.exists() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    kill();
                }
                At::ApprovalRequest | At::Result => {}
            }
        };
        let call = async {
            let result = sandbox.session.call("bash", json!({"command": command})).await;
            if at == At::Result {
                assert!(result.unwrap().success);
                kill();
            } else if at == At::ApprovalRequest || at == At::Effect {
                assert!(result.is_err(), "{at:?}: {result:?}");
            }
        };
        tokio::join!(handle, call);
    });
    drop(sandbox);
    drop(daemon);
    // Whatever the broker had begun is ended without it; then the file is there or not for good.
    let left = || processes::all().into_iter().filter(|process| rooms.contains(process)).count();
    while left() > 0 {
        thread::sleep(Duration::from_millis(10));
    }
    (!path.exists(), before)
}

/// The call of the last round, if there is one, and whether it has a result.
fn call(new: &[Record]) -> Option<(CallId, bool)> {
    let id = new.iter().find_map(|record| {
        let Record::Call(call) = record else { return None };
        Some(call.call_id.clone())
    })?;
    let ended = new.iter().any(|record| matches!(record, Record::Result(end) if end.call_id == id));
    Some((id.parse().unwrap(), ended))
}

fn kinds(new: &[Record]) -> Vec<String> {
    new.iter().map(|record| record.kind().to_string()).collect()
}

#[test]
fn wherever_the_broker_is_killed_nothing_has_happened_that_is_not_recorded() {
    let mut dice = Dice::new("crashes");
    for mode in Mode::all() {
        let world = World::new(mode);
        let handlers = "[handlers]\ndeadline_ms = 120000\n\n[tools]\n";
        // Its effects are there while it runs, and after each point the file is there or not.
        let direct = ("guard = \"auto\"", "guard = \"text\"");
        world.add_profile("asking", &profile_with(&[("[tools]\n", handlers), direct]));
        let mut points = vec![At::ApprovalRequest, At::Answer, At::Effect, At::Result];
        points.extend((0..effort(3, 60)).map(|_| At::Later(dice.roll(20_000) as u64)));
        for &at in &points {
            let (gone, before) = round(&world, at);
            let found = verify(&world.state().join("audit"), &[]).unwrap();
            assert!(found.is_good(), "{mode:?} {at:?}: before the next start: {found:?}");
            let new = records(&world).split_off(before);
            let kinds = kinds(&new);
            assert!(kinds.contains(&"approval_request".to_owned()), "{mode:?} {at:?}: {kinds:?}");
            let call = call(&new);
            if gone {
                assert!(call.is_some(), "{mode:?} {at:?}: an effect without a record: {kinds:?}");
                assert!(kinds.contains(&"answer".to_owned()), "{mode:?} {at:?}: {kinds:?}");
            }
            match at {
                At::ApprovalRequest => {
                    assert!(!gone && call.is_none(), "{mode:?}: {kinds:?}");
                    assert!(!kinds.contains(&"answer".to_owned()), "{mode:?}: {kinds:?}");
                }
                At::Effect => {
                    assert!(gone, "{mode:?}: the effect was seen");
                    assert!(call.as_ref().is_some_and(|(_, ended)| !ended), "{mode:?}: {kinds:?}");
                }
                At::Result => assert!(gone, "{mode:?}: the client was told so"),
                At::Answer | At::Later(_) => {}
            }
            // The next start goes on with the chain, and says which call has no result.
            drop(world.open());
            let found = verify(&world.state().join("audit"), &[]).unwrap();
            assert!(found.is_good(), "{mode:?} {at:?}: after repair: {found:?}");
            if let Some((id, false)) = call {
                let named = |record: &Record| {
                    matches!(record, Record::Repair(repair)
                        if repair.unfinished.contains(&id.to_string()))
                };
                assert!(records(&world).iter().any(named), "{mode:?} {at:?}: {id} is not named");
                assert!(found.chains[0].unfinished.contains(&id.to_string()), "{mode:?} {at:?}");
            }
        }
        let starts = records(&world).iter().filter(|r| matches!(r, Record::Start(_))).count();
        assert_eq!(starts, 2 * points.len(), "{mode:?}: one chain over all starts");
    }
}
