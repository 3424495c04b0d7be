//! Every call and every decision is in the audit log before it takes effect, and the log shows what
//! was done to it: promise 8.

use palisade_audit::{
    Decision, DecisionMaker, Digest, Effects, Hash, Judgement, LocatedRecord, ReadError, Reader,
    Record, verify,
};
use palisade_client::{Guard, Open};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Dice, Mode, Sandbox, UNASKED, World, effort, rooms::awaited};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use serde_json::json;
use std::{
    collections::HashSet, fs, os::unix::process::CommandExt as _, path::PathBuf, process::Command,
    sync::mpsc, thread, time::Duration,
};

fn directory(world: &World) -> PathBuf {
    world.state().join("audit")
}

fn records(world: &World) -> Vec<Record> {
    sighted(world).into_iter().map(|sighted| sighted.entry.record).collect()
}

fn sighted(world: &World) -> Vec<LocatedRecord> {
    let mut all = Vec::new();
    Reader::new(&directory(world))
        .read::<ReadError>(|sighted| {
            all.push(sighted?);
            Ok(())
        })
        .unwrap();
    all
}

fn assert_whole(world: &World) {
    let found = verify(&directory(world), &[]).unwrap();
    assert!(found.is_good() && !found.chains.is_empty(), "{:?}: {found:?}", world.mode);
}

fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

/// Limits the size of the broker's files, which stands for a disk that is full. Only who has the
/// broker's uid and gid may do that.
fn limit_files(sandbox: &Sandbox, bytes: &str) {
    let pid = sandbox.daemon.as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |name: &str| -> u32 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:")]);
    if rustix::process::geteuid().is_root() {
        prlimit.uid(id("Uid:")).gid(id("Gid:"));
    }
    assert!(prlimit.status().expect("prlimit of util-linux").success());
}

#[test]
fn calls_decisions_and_results_are_recorded_in_order() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open_with("workspace");
        let session = sandbox.session.id().to_string();
        let done = sandbox.wait(async {
            sandbox.session.bash("echo out; exit 3").reason("to see").await.unwrap()
        });
        let denied = sandbox.call("delete_file", json!({"path": "probe"}));
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}");
        assert!(world.workspace().join("probe").exists());
        let unknown = sandbox.call("bsh", json!({}));
        assert_eq!(code(&unknown), Some(ErrorCode::ToolNotFound));
        drop(sandbox);

        let records = records(&world);
        let kinds: Vec<_> = records.iter().map(|record| record.kind().to_string()).collect();
        let expected = [
            "start",
            "session_open",
            "call",
            "result",
            "approval_request",
            "answer",
            "call",
            "result",
            "call",
            "result",
            "session_close",
        ];
        assert_eq!(kinds, expected, "{mode:?}");
        assert!(records[1..].iter().all(|record| record.session() == Some(&session)));
        let Record::SessionOpen(open) = &records[1] else { panic!("{records:?}") };
        assert_eq!((open.uid, open.pid), (mode.uid(), Some(std::process::id())), "{mode:?}");
        let Record::Call(call) = &records[2] else { panic!("{records:?}") };
        assert_eq!(call.call_id, done.call_id.as_str());
        assert_eq!(call.arguments.value()["command"], "echo out; exit 3");
        assert_eq!(call.reason.as_ref().unwrap().as_str(), "to see");
        assert_eq!(call.judgement, Judgement::Allow);
        assert_eq!(call.cwd.as_str(), world.workspace().to_str().unwrap());
        let Record::Result(result) = &records[3] else { panic!("{records:?}") };
        let output = result.output.as_ref().unwrap().as_str();
        assert_eq!((result.exit_code, output), (Some(3), "out\n"), "{mode:?}");
        assert_eq!(result.error.as_deref(), Some("command_failed"));
        let Record::Call(call) = &records[6] else { panic!("{records:?}") };
        assert_eq!((call.judgement, call.tool.as_str()), (Judgement::Ask, "delete_file"));
        let Record::ApprovalRequest(request) = &records[4] else { panic!("{records:?}") };
        assert!(request.handlers.is_empty() && request.call_id == denied.call_id.as_str());
        let Record::Answer(answer) = &records[5] else { panic!("{records:?}") };
        assert_eq!((answer.decision, &answer.by), (Decision::Deny, &DecisionMaker::Default));
        assert_eq!(answer.request.as_ref(), Some(&request.request), "{mode:?}");
        assert_eq!(answer.digest, Some(request.digest), "{mode:?}");
        let Record::Call(call) = &records[8] else { panic!("{records:?}") };
        assert_eq!((call.judgement, call.tool.as_str()), (Judgement::Unjudged, "bsh"));
        let Record::SessionClose(close) = &records[10] else { panic!("{records:?}") };
        assert_eq!(close.calls, 3);
        assert_whole(&world);
    }
}

#[test]
fn what_is_read_or_attached_is_known_by_its_digest() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let written = sandbox.wait(async {
            let call = sandbox.session.call("write_file", json!({"path": "f"}));
            call.attach(&b"secret text"[..]).await.unwrap()
        });
        assert!(written.success, "{mode:?}: {:?}", written.error);
        let read = sandbox.call("read_file", json!({"path": "f"}));
        assert_eq!(read.output, "secret text", "{mode:?}");
        drop(sandbox);
        let results: Vec<_> = records(&world)
            .into_iter()
            .filter_map(|record| if let Record::Result(end) = record { Some(end) } else { None })
            .collect();
        let (bytes, sha256) = (11, Hash::of(b"secret text"));
        assert_eq!(results[0].attachment, Some(Digest { bytes, sha256 }), "{mode:?}");
        let kept = (&results[1].output, results[1].output_bytes, results[1].output_digest);
        assert_eq!(kept, (&None, bytes, sha256), "{mode:?}");
        let mut log = String::new();
        for entry in fs::read_dir(directory(&world)).unwrap() {
            log.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        assert!(!log.contains("secret text"), "{mode:?}: {log}");
        assert_whole(&world);
    }
}

#[test]
fn a_log_that_can_not_be_written_refuses_calls() {
    for mode in Mode::all() {
        let world = World::new(mode);
        // The daemon's messages go to a file too, so that not even they can be written.
        let (stream, daemon) = world.embedded_by(mode, "exec \"$@\" 2> messages");
        let sandbox = Sandbox::over(stream, Some(daemon), Open::new(world.workspace())).unwrap();
        assert_eq!(sandbox.ok("touch before"), "");
        limit_files(&sandbox, "0");
        let before = records(&world).len();
        for (tool, arguments) in [
            ("bash", json!({"command": "touch refused"})),
            ("write_file", json!({"path": "refused", "content": "x"})),
            ("read_file", json!({"path": "before"})),
        ] {
            let result = sandbox.call(tool, arguments);
            assert_eq!(code(&result), Some(ErrorCode::AuditFailed), "{mode:?} {tool}");
            assert!(!result.error.unwrap().hint.is_empty());
        }
        assert!(!world.workspace().join("refused").exists(), "{mode:?}");
        assert_eq!(records(&world).len(), before, "{mode:?}");
        let usual = getrlimit(Resource::Fsize).current;
        limit_files(&sandbox, &usual.map_or("unlimited".to_owned(), |bytes| bytes.to_string()));
        assert_eq!(sandbox.ok("touch after"), "");
        assert!(world.workspace().join("after").exists(), "{mode:?}");
        drop(sandbox);
        assert_whole(&world);
    }
}

#[test]
fn a_log_that_was_removed_refuses_calls() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(sandbox.ok("touch before"), "");
        for entry in fs::read_dir(directory(&world)).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let result = sandbox.bash("touch refused");
        assert_eq!(code(&result), Some(ErrorCode::AuditFailed), "{mode:?}");
        assert!(!world.workspace().join("refused").exists(), "{mode:?}");
    }
}

#[test]
fn without_a_place_for_the_log_there_is_no_session() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.state().join("audit"), "not a directory").unwrap();
        world.give(&world.state().join("audit"));
        // Named, it must be there; a usual place that can not be used leaves a client to be told.
        let (stream, mut daemon) = world.embedded(&[]);
        drop(stream);
        assert!(!daemon.wait().unwrap().success(), "{mode:?}");
    }
}

#[test]
fn whenever_the_broker_is_killed_no_effect_is_without_its_record() {
    let rounds = effort(6, 60);
    let mut dice = Dice::new("audit");
    for mode in Mode::all() {
        let world = World::new(mode);
        for round in 0..rounds {
            let moment = Duration::from_micros(dice.roll(60_000) as u64);
            let (stream, daemon) = world.embedded(&[]);
            let victim = Pid::from_child(&daemon);
            let open = Open::new(world.workspace());
            let sandbox = Sandbox::over(stream, Some(daemon), open).unwrap();
            let (started, start) = mpsc::channel();
            let killer = thread::spawn(move || {
                start.recv().unwrap();
                thread::sleep(moment);
                kill_process(victim, Signal::KILL).unwrap();
            });
            sandbox.wait(async {
                // Every second time the first call is safe, so that there are effects to look at.
                if round % 2 == 0 {
                    started.send(()).unwrap();
                }
                for n in 0.. {
                    let (name, tool) = (format!("marker-{round}-{n}"), n % 2);
                    let made = match tool {
                        0 => sandbox.session.bash(format!("touch {name}")).await,
                        _ => {
                            let arguments = json!({"path": name, "content": ""});
                            sandbox.session.call("write_file", arguments).await
                        }
                    };
                    if made.is_err() {
                        break;
                    }
                    if n == 0 && round % 2 == 1 {
                        started.send(()).unwrap();
                    }
                }
            });
            killer.join().unwrap();
        }
        let found = verify(&directory(&world), &[]).unwrap();
        assert!(found.is_good(), "{mode:?}: before the next start: {found:?}");
        drop(world.open());
        assert_whole(&world);

        let recorded: HashSet<String> = records(&world)
            .iter()
            .filter_map(|record| {
                let Record::Call(call) = record else { return None };
                let arguments = call.arguments.value();
                let text = arguments["path"].as_str().or(arguments["command"].as_str())?;
                Some(text.trim_start_matches("touch ").to_owned())
            })
            .collect();
        let markers: Vec<String> = fs::read_dir(world.workspace())
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.starts_with("marker-"))
            .collect();
        assert!(!markers.is_empty(), "{mode:?}: calls were made");
        for marker in markers {
            assert!(recorded.contains(&marker), "{mode:?}: {marker} has no record");
        }
        let starts = records(&world).iter().filter(|r| matches!(r, Record::Start(_))).count();
        assert_eq!(starts, rounds + 1, "{mode:?}: the chain goes on over all starts");
    }
}

#[test]
fn text_of_others_can_not_forge_a_record() {
    let forged = "x\n{\"seq\":1,\"kind\":\"session_close\",\"session\":\"forged\",\"calls\":0}\n";
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let arguments = json!({"command": "cat", "stdin": forged});
        let result = sandbox
            .wait(async { sandbox.session.call("bash", arguments).reason(forged).await.unwrap() });
        assert_eq!(result.output, forged, "{mode:?}");
        drop(sandbox);
        assert_whole(&world);
        let sighted = sighted(&world);
        assert_eq!(sighted.len(), 5, "start, open, call, result, close");
        assert!(!sighted.iter().any(|one| one.entry.record.session() == Some("forged")));
        let Record::Result(result) = &sighted[3].entry.record else { panic!("{sighted:?}") };
        let output = result.output.as_ref().unwrap().as_str();
        assert_eq!(output, forged, "{mode:?}: kept as it was");
    }
}

#[test]
fn secrets_are_not_in_the_log() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let arguments = json!({
            "command": format!("echo {token}; echo \"$API_TOKEN\" | wc -c; echo seen"),
            "env": {"API_TOKEN": "hunter2hunter2"},
        });
        let result = sandbox.wait(async {
            let call = sandbox.session.call("bash", arguments);
            call.reason("with password=hunter2hunter2").await.unwrap()
        });
        assert_eq!(result.output, format!("{token}\n15\nseen\n"), "{mode:?}: the call has them");
        drop(sandbox);
        let mut log = String::new();
        for entry in fs::read_dir(directory(&world)).unwrap() {
            log.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        assert!(log.contains("[redacted]") && log.contains("seen"), "{mode:?}");
        assert!(!log.contains(&token) && !log.contains("hunter2"), "{mode:?}: {log}");
    }
}

/// A session of which every command is a transaction, and nobody is asked.
fn transacting(world: &World) -> Sandbox {
    let (stream, daemon) = world.embedded(&[]);
    let open = Open::new(world.workspace()).profile(UNASKED).guard(Guard::Transaction);
    Sandbox::over(stream, Some(daemon), open).unwrap()
}

fn effects_of(world: &World, call: &str) -> Vec<Effects> {
    let of_call = |record: &Record| record.call_id() == Some(call);
    let found = records(world).into_iter().filter(of_call).filter_map(|record| {
        if let Record::Effects(effects) = record { Some(effects) } else { None }
    });
    found.collect()
}

/// Returns the unasked effects of a call: kind, name, size and digest of each path.
fn told(world: &World, result: &CallResult) -> Vec<(String, String, u64, Option<Hash>)> {
    let [effects] = &effects_of(world, result.call_id.as_str())[..] else {
        panic!("{:?}: {:?}", world.mode, result)
    };
    let told = effects.effects.iter().map(|effect| {
        let name = PathBuf::from(effect.path.as_str());
        let name = name.strip_prefix(world.workspace()).unwrap().display().to_string();
        (effect.effect.clone(), name, effect.size, effect.sha256)
    });
    told.collect()
}

#[test]
fn committed_effects_are_recorded_where_nobody_was_asked() {
    let digest = |text: &str| Some(Hash::of(text.as_bytes()));
    let one = |effect: &str, name: &str, text: &str| {
        (effect.to_owned(), name.to_owned(), text.len() as u64, digest(text))
    };
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = transacting(&world);
        let write = sandbox.done("write_file", json!({"path": "a", "content": "first"}));
        let edit = sandbox
            .done("edit", json!({"path": "a", "old_string": "first", "new_string": "second"}));
        let bash = sandbox.bash("echo third > a; echo new > b; rm probe");
        assert!(bash.success, "{mode:?}: {:?}", bash.error);
        let undo = sandbox.done("undo", json!({"call_id": bash.call_id}));
        let many = sandbox.bash("for n in $(seq 300); do echo $n > many-$n; done");
        assert!(many.success, "{mode:?}: {:?}", many.error);
        let nothing = sandbox.bash("cat a");
        let dry =
            sandbox.wait(async { sandbox.session.bash("rm a").dry_run().await.expect("a report") });
        drop(sandbox);
        assert_whole(&world);
        assert_eq!(told(&world, &write), [one("created", "a", "first")], "{mode:?}");
        assert_eq!(told(&world, &edit), [one("edited", "a", "second")], "{mode:?}");
        let mut found = told(&world, &bash);
        found.sort_by_key(|(effect, ..)| effect.clone());
        let deleted = ("deleted".to_owned(), "probe".to_owned(), 0, None);
        let expected = [one("created", "b", "new\n"), deleted, one("replaced", "a", "third\n")];
        assert_eq!(found, expected, "{mode:?}");
        let found = told(&world, &undo);
        assert!(found.contains(&one("replaced", "a", "second")), "{mode:?}: {found:?}");
        let [effects] = &effects_of(&world, many.call_id.as_str())[..] else { panic!("{mode:?}") };
        assert_eq!(effects.counts["created"], 300, "{mode:?}");
        assert_eq!((effects.effects.len(), effects.last.len()), (64, 64), "{mode:?}");
        assert_eq!(effects.left_out, 300 - 128, "{mode:?}");
        for result in [nothing, dry] {
            assert_eq!(effects_of(&world, result.call_id.as_str()), [], "{mode:?}");
        }
        // In the order in which it happened.
        let kinds: Vec<_> = records(&world)
            .iter()
            .filter(|record| record.call_id() == Some(bash.call_id.as_str()))
            .map(|record| record.kind().to_string())
            .collect();
        assert_eq!(kinds, ["call", "effects", "result"], "{mode:?}");
        let mut show = world.command("palisade");
        show.args(["audit", "show", bash.call_id.as_str(), "--dir"]).arg(directory(&world));
        let shown = mode.act(|| show.output().expect("palisade"));
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("1 created, 1 deleted, 1 replaced"), "{mode:?}: {shown}");
        assert!(shown.contains(&Hash::of(b"third\n").to_string()), "{mode:?}: {shown}");
    }
}

/// Returns the length of the log once it has this many records.
fn length(world: &World, records: usize) -> u64 {
    let path = directory(world).join("c0000-000000000001.jsonl");
    awaited("the result is recorded", || {
        let text = fs::read(&path).unwrap();
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        (lines == records).then_some(text.len() as u64)
    })
}

#[test]
fn what_can_not_be_recorded_is_not_committed() {
    for mode in Mode::all() {
        for (tool, first, second) in [
            (
                "write_file",
                json!({"path": "a", "content": "1"}),
                json!({"path": "a", "content": "2"}),
            ),
            ("bash", json!({"command": "echo 1 > a"}), json!({"command": "echo 2 > a"})),
        ] {
            let world = World::new(mode);
            let sandbox = transacting(&world);
            let done = sandbox.done(tool, first);
            // Start, open, call, effects, result.
            let written = length(&world, 5);
            let log = fs::read(directory(&world).join("c0000-000000000001.jsonl")).unwrap();
            let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
            let (call, effects) = (lines[2].len() as u64, lines[3].len() as u64);
            // There is room for the next call, and not for what it changes.
            let before = fs::read(world.workspace().join("a")).unwrap();
            limit_files(&sandbox, &(written + call + effects / 2).to_string());
            let refused = sandbox.call(tool, second.clone());
            assert_eq!(code(&refused), Some(ErrorCode::AuditFailed), "{mode:?} {tool}");
            assert_eq!(fs::read(world.workspace().join("a")).unwrap(), before, "{mode:?} {tool}");
            let undo = json!({"call_id": done.call_id});
            let refused = sandbox.call("undo", undo.clone());
            assert_eq!(code(&refused), Some(ErrorCode::AuditFailed), "{mode:?} undo of {tool}");
            assert_eq!(fs::read(world.workspace().join("a")).unwrap(), before, "{mode:?} {tool}");
            // With room again it is.
            limit_files(&sandbox, "unlimited");
            assert!(sandbox.done("undo", undo).success);
            assert!(!world.workspace().join("a").exists(), "{mode:?} {tool}");
            assert!(sandbox.done(tool, second).success);
            assert!(world.workspace().join("a").exists(), "{mode:?} {tool}");
            drop(sandbox);
            assert_whole(&world);
        }
    }
}

/// Passwords by the options, headers and addresses that carry them: in a line, as words, in what a
/// person is asked about, and in findings. What only looks like one stays readable.
#[test]
fn passwords_on_command_lines_are_not_in_the_log() {
    let line = "mysql -uroot -phunter2 db; sshpass -p hunter2 ssh -p 2022 nowhere.invalid; \
                curl -u me:hunter2 -H 'Authorization: token hunter2' https://me:hunter2@nowhere.invalid; \
                wget --user=me --password=hunter2 nowhere.invalid; mkdir -p kept/readable; cp -pr kept copied";
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open_with("workspace");
        let ran = sandbox.call("bash", json!({ "command": line }));
        assert!(ran.exit_code.is_some(), "{mode:?}: {:?}", ran.error);
        let denied = sandbox.call("bash", json!({"command": format!("rm -f probe; {line}")}));
        assert_eq!(code(&denied), Some(ErrorCode::Denied), "{mode:?}");
        for argv in [
            json!(["mysql", "-phunter2"]),
            json!(["sshpass", "-p", "hunter2", "true"]),
            json!(["curl", "-u", "me:hunter2", "http://nowhere.invalid"]),
            json!(["tool", "--password", "hunter2"]),
        ] {
            assert_eq!(sandbox.call("bash", json!({ "argv": argv })).tool.as_str(), "bash");
        }
        drop(sandbox);
        let found = records(&world);
        assert!(
            found.iter().any(|record| matches!(record, Record::ApprovalRequest(_))),
            "{mode:?}"
        );
        let mut log = String::new();
        for entry in fs::read_dir(directory(&world)).unwrap() {
            log.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        let secret = log.lines().find(|line| line.contains("hunter2"));
        assert_eq!(secret, None, "{mode:?}");
        for readable in ["mkdir -p kept/readable", "cp -pr kept copied", "ssh -p 2022"] {
            assert!(log.contains(readable), "{mode:?}: {readable}");
        }
    }
}

#[test]
fn daemons_side_by_side_have_a_chain_each() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let (first, second) = (world.open(), world.open());
        assert_eq!(first.ok("true"), "");
        assert_eq!(second.ok("true"), "");
        drop((first, second));
        let found = verify(&directory(&world), &[]).unwrap();
        assert_eq!(found.chains.len(), 2, "{mode:?}");
        assert_whole(&world);
        drop(world.open());
        assert_eq!(verify(&directory(&world), &[]).unwrap().chains.len(), 2, "{mode:?}");
    }
}

#[test]
fn a_call_whose_client_left_has_a_result() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let running =
            sandbox.wait(async { sandbox.session.bash("touch on; sleep 600").start().await });
        let running = running.unwrap();
        while !world.workspace().join("on").exists() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(running);
        drop(sandbox);
        let records = records(&world);
        let result = records.iter().find_map(|record| {
            if let Record::Result(result) = record { result.error.clone() } else { None }
        });
        assert_eq!(result.as_deref(), Some("cancelled"), "{mode:?}: {records:?}");
        assert_whole(&world);
    }
}
