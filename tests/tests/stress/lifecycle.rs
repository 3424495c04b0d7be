//! A broker ends while sessions run, and the next takes its place: nothing is orphaned, clients are
//! told how to go on, the audit chain goes on, and the state directory keeps within its bounds.

use palisade_client::{Ask, Client, Error, Guard, Open, Session};
use palisade_protocol::{CallResult, ErrorCode, Reply, Request, Resume, wire::Dialect};
use palisade_tests::{
    Daemon, Mode, UNASKED, World, data, effort, processes, profile_with,
    raw::Raw,
    report,
    rooms::{Before, until},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Acts as the world's user, on one thread: connections are made there too.
fn as_user<T: Send>(mode: Mode, act: impl AsyncFnOnce() -> T + Send) -> T {
    mode.act(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(act())
    })
}

async fn opened(daemon: &Daemon, world: &World, profile: &str) -> Session {
    let client = Client::connect(&daemon.socket).await.expect("a client");
    let open = Open::new(world.workspace()).profile(profile).resumable(Duration::from_secs(30));
    client.open(open).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn done(session: &Session, tool: &str, arguments: Value) -> CallResult {
    let result = session.call(tool, arguments).await.expect("a result");
    assert!(result.success, "{tool}: {:?}", result.error);
    result
}

/// Returns the status and output of `palisade audit verify`.
fn verified(world: &World) -> (Option<i32>, Value) {
    let mut verify = world.command("palisade");
    verify.args(["audit", "verify", "--json", "--dir"]).arg(world.state().join("audit"));
    let output = world.mode.act(|| verify.output().expect("palisade"));
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Every process that bears the mark runs.
async fn all_run(mark: &str, names: &[&str]) {
    for name in names {
        while processes::marked(&format!("{mark}-{name}")).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A session with a call and a job under way is told how to go on, and goes on.
async fn restarted(world: &World, signal: Signal, mark: &str) {
    let before = Before::look();
    let mut daemon = world.configured_daemon(|_| {});
    let session = opened(&daemon, world, UNASKED).await;
    let written = done(&session, "write_file", json!({"path": "file", "content": "new"})).await;
    let job = format!("m={mark}; exec -a $m-job sleep 1000");
    done(&session, "bash", json!({"command": job, "background": true})).await;
    let call = session.bash(format!("m={mark}; exec -a $m-call sleep 1000"));
    let running = call.start().await.unwrap();
    all_run(mark, &["job", "call"]).await;
    daemon.signal(signal);
    match running.result().await {
        Ok(result) => {
            let error = result.error.expect("it did not come to its end");
            assert_eq!(error.code, ErrorCode::ShuttingDown, "{error}");
            assert!(error.hint.contains("connect again"), "{error}");
        }
        Err(error @ Error::Disconnected(_)) => {
            assert!(error.to_string().contains("reconnect() makes a new one"), "{error}");
        }
        Err(Error::Remote(error)) => assert_eq!(error.code, ErrorCode::ShuttingDown, "{error}"),
        Err(other) => panic!("{signal:?}: {other}"),
    }
    until("the broker has ended", || daemon.child.try_wait().unwrap().is_some());
    before.assert_nothing_left_of(mark);
    // The system's broker has given up the right to remove them: the next start replaces them.
    if signal == Signal::TERM && world.mode == Mode::User {
        let left: Vec<PathBuf> = [&daemon.socket, &daemon.operators, &daemon.providers]
            .into_iter()
            .filter(|path| path.exists())
            .cloned()
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "sockets of a broker that was told to stop");
    }
    // The next one, where the last one was.
    let daemon = world.configured_daemon(|_| {});
    let error = session.resume().await.expect_err("its session ended with the broker");
    let told = error.wire().expect("the daemon's own answer");
    assert_eq!(told.code, ErrorCode::NotFound, "{told}");
    assert!(told.hint.contains("open a new session"), "{told}");
    let fresh = session.reconnect().await.expect("a new session");
    assert_ne!(fresh.id(), session.id());
    assert_eq!(done(&fresh, "bash", json!({"command": "cat file"})).await.stdout, "new");
    // The undo record of the last daemon still exists.
    done(&fresh, "undo", json!({"call_id": written.undo})).await;
    assert!(!world.workspace().join("file").exists());
    drop((fresh, daemon));
}

#[test]
fn a_restart_orphans_nothing_and_clients_go_on_with_the_next() {
    let restarts = effort(1, 20);
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure("drain_ms = 100\n");
        for _ in 0..restarts {
            for signal in [Signal::KILL, Signal::TERM] {
                let mark = processes::mark();
                as_user(mode, async || restarted(&world, signal, &mark).await);
            }
        }
        // One chain over all of them, and it says which calls nobody knows the end of.
        let (status, found) = verified(&world);
        assert_eq!(status, Some(0), "{found}");
        assert_eq!(found["chains"].as_array().unwrap().len(), 1, "{found}");
        let unfinished = found["chains"][0]["unfinished"].as_array().unwrap().len();
        assert!(unfinished >= restarts, "{mode:?}: {found}");
        report(&format!("{mode:?}: restarts with a call and a job under way"), restarts * 2);
    }
}

/// Returns `true` if a session can write a file that is not there yet.
async fn writes(session: &Session, name: &str) -> bool {
    let written = session.call("write_file", json!({"path": name, "content": "new"})).await;
    written.expect("a result").success
}

#[test]
fn resumed_session_is_reopened_with_the_terms_of_the_first() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure("");
        let strict = Open::new(world.workspace())
            .profile("readonly")
            .ask(Ask::Always)
            .guard(Guard::Transaction)
            .resumable(Duration::from_secs(30));
        as_user(mode, async || {
            let daemon = world.configured_daemon(|_| {});
            let client = Client::connect(&daemon.socket).await.expect("a client");
            let plain = client.open(Open::new(world.workspace())).await.expect("a session");
            assert!(writes(&plain, "control").await, "{mode:?}");
            let client = Client::connect(&daemon.socket).await.expect("a client");
            let first = client.open(strict.clone()).await.expect("a session");
            // By its own handle, and by its token from elsewhere.
            let resumed = first.resume().await.expect("the session").session;
            assert_eq!((resumed.id(), resumed.terms()), (first.id(), &strict), "{mode:?}");
            let client = Client::connect(&daemon.socket).await.expect("a client");
            let token = resumed.token().expect("it can be resumed");
            let elsewhere = client.resume(&token).await.expect("the session").session;
            assert_eq!(elsewhere.terms(), &strict, "{mode:?}");
            for (n, session) in [resumed, elsewhere.clone()].into_iter().enumerate() {
                let fresh = session.reconnect().await.expect("a new session");
                assert_ne!(fresh.id(), first.id());
                assert_eq!(fresh.receipt().profile, "readonly", "{mode:?}");
                assert_eq!(fresh.terms(), &strict, "{mode:?}");
                assert!(!writes(&fresh, &format!("lax-{n}")).await, "{mode:?}");
            }
            // The daemon is another: the session is lost, its terms are not.
            drop(daemon);
            let daemon = world.configured_daemon(|_| {});
            let lost = elsewhere.resume().await.expect_err("its session ended with the broker");
            assert_eq!(lost.code(), Some(ErrorCode::NotFound), "{lost}");
            let fresh = elsewhere.reconnect().await.expect("a new session");
            assert_eq!(fresh.receipt().profile, "readonly", "{mode:?}");
            assert!(!writes(&fresh, "lax-later").await, "{mode:?}");
            drop(daemon);
        });
        let left = fs::read_dir(world.workspace()).unwrap().map(|entry| entry.unwrap().file_name());
        let lax: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("lax")).collect();
        assert_eq!(lax, Vec::<std::ffi::OsString>::new(), "{mode:?}");
    }
}

#[test]
fn resume_hands_back_calls_that_ended_meanwhile_once() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure("");
        let daemon = world.configured_daemon(|_| {});
        as_user(mode, async || {
            let session = opened(&daemon, &world, UNASKED).await;
            done(&session, "bash", json!({"command": "echo heard"})).await;
            let line = "touch started; until [ -e go ]; do sleep 0.02; done; echo ended";
            let running = session.bash(line).start().await.unwrap();
            while !world.workspace().join("started").exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // Its connection loses the session to another, which ends at once.
            let token = session.token().expect("it can be resumed");
            let mut raw = Raw::greeted(daemon.connect(mode), Dialect::Frames);
            let resume =
                Resume { session: token.session, token: token.secret, calls: Some(Vec::new()) };
            let Reply::Resumed(told) = raw.ask(Request::Resume(resume)) else { panic!("resumed") };
            assert_eq!((told.running.len(), told.finished.len()), (0, 0), "{mode:?}");
            drop(raw);
            assert!(running.result().await.is_err(), "{mode:?}");
            fs::write(world.workspace().join("go"), "").unwrap();
            let client = Client::connect(&daemon.socket).await.expect("a client");
            while client.status().await.expect("a status").sessions[0].in_flight > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let resumed = session.resume().await.expect("the session");
            let mut outputs = Vec::new();
            for call in resumed.calls {
                outputs.push(call.result().await.expect("a result").stdout);
            }
            assert_eq!(outputs, ["ended\n"], "{mode:?}");
            let again = resumed.session.resume().await.expect("the session");
            assert_eq!(again.calls.len(), 0, "{mode:?}: {:?}", again.calls);
        });
    }
}

/// The files that an earlier build left in its state directory.
const EARLIER: [(&str, &[u8]); 3] = [
    (
        "audit/c0000-000000000001.jsonl",
        include_bytes!("../../earlier/audit/c0000-000000000001.jsonl"),
    ),
    ("audit/c0000.head.json", include_bytes!("../../earlier/audit/c0000.head.json")),
    (
        "undo/01a1e015-329f-773a-bf5d-a5ba15640937",
        include_bytes!("../../earlier/undo/01a1e015-329f-773a-bf5d-a5ba15640937"),
    ),
];

/// An earlier build's record of a call as that build would have written it for this world's user, in its
/// workspace and today. Who, where and when are others, and so are the digests over them; how all of it
/// is written, and what was kept, is that build's own.
fn addressed(record: &[u8], world: &World) -> Vec<u8> {
    let here = world.workspace().join("notes.txt").display().to_string();
    let there = "/tmp/palisade-earlier/workspace/notes.txt";
    let path = |path: &str| [&[u8::try_from(path.len()).unwrap()], path.as_bytes()].concat();
    let moved = |bytes: &[u8]| {
        let there = path(there);
        let at = bytes.windows(there.len()).position(|found| found == there).expect("its path");
        [&bytes[..at], &path(&here), &bytes[at + there.len()..]].concat()
    };
    assert!(here.len() < 251, "a longer path is written otherwise");
    let (magic, mut rest) = record.split_at(8);
    let mut out = magic.to_vec();
    while let [tag, a, b, c, d, more @ ..] = rest {
        let (payload, after) = more.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
        rest = after;
        let payload = match tag {
            1 => {
                let mut head: Value = serde_json::from_slice(payload).unwrap();
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                head["uid"] = world.mode.uid().into();
                head["workspace"] = world.workspace().display().to_string().into();
                head["time"] = now.as_secs().into();
                serde_json::to_vec(&head).unwrap()
            }
            2 => moved(payload),
            4 => Sha256::digest(&out).to_vec(),
            5 => {
                let left = moved(&payload[32..]);
                [Sha256::digest(&left).to_vec(), left].concat()
            }
            _ => payload.to_vec(),
        };
        out.push(*tag);
        out.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        out.extend(payload);
    }
    out
}

/// Today's build puts back what a call of an earlier build replaced.
#[test]
fn what_an_earlier_build_did_is_undone() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure(include_str!("../../earlier/palisaded.toml"));
        let (name, record) = EARLIER[2];
        let call = name.trim_start_matches("undo/");
        let file = world.state().join(name);
        fs::create_dir(file.parent().unwrap()).unwrap();
        world.give(file.parent().unwrap());
        let here = addressed(record, &world);
        fs::write(&file, &here).unwrap();
        world.give(&file);
        // One of a format that nobody knows yet.
        let unknown = call.replace("0937", "0938");
        let later = file.with_file_name(&unknown);
        fs::write(&later, [b"palundo9", &here[8..]].concat()).unwrap();
        world.give(&later);
        let notes = world.workspace().join("notes.txt");
        let put = |text: &str| {
            fs::write(&notes, text).unwrap();
            fs::set_permissions(&notes, fs::Permissions::from_mode(0o644)).unwrap();
            world.give(&notes);
        };
        put("somebody's own\n");
        let daemon = world.configured_daemon(|_| {});
        as_user(mode, async || {
            let session = opened(&daemon, &world, UNASKED).await;
            let undo = json!({ "call_id": call });
            let refused = session.call("undo", &undo).await.expect("a result");
            let conflict = refused.error.expect("it is not what that call left");
            assert_eq!(conflict.code, ErrorCode::Conflict, "{mode:?}: {conflict}");
            assert_eq!(fs::read_to_string(&notes).unwrap(), "somebody's own\n");
            let refused = session.call("undo", json!({"call_id": unknown})).await;
            let none = refused.expect("a result").error.expect("it can not be read");
            assert_eq!(none.code, ErrorCode::NotFound, "{mode:?}: {none}");
            assert_eq!(fs::read_to_string(&notes).unwrap(), "somebody's own\n");
            put("the second\n");
            let undone = done(&session, "undo", undo).await;
            let found = fs::metadata(&notes).unwrap();
            assert_eq!(fs::read_to_string(&notes).unwrap(), "the first\n", "{mode:?}");
            assert_eq!((found.mode() & 0o7777, found.uid()), (0o644, mode.uid()), "{mode:?}");
            done(&session, "undo", json!({"call_id": undone.undo})).await;
            assert_eq!(fs::read_to_string(&notes).unwrap(), "the second\n", "{mode:?}");
        });
    }
}

/// An upgrade: today's daemon on what an earlier build left.
#[test]
fn what_an_earlier_build_left_goes_on() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure(include_str!("../../earlier/palisaded.toml"));
        for directory in ["audit", "undo"] {
            fs::create_dir(world.state().join(directory)).unwrap();
            world.give(&world.state().join(directory));
        }
        for (name, content) in EARLIER {
            fs::write(world.state().join(name), content).unwrap();
            world.give(&world.state().join(name));
        }
        let undo = EARLIER[2].0.trim_start_matches("undo/");
        assert_eq!(verified(&world).0, Some(0), "{mode:?}");
        let daemon = world.configured_daemon(|_| {});
        as_user(mode, async || {
            let session = opened(&daemon, &world, UNASKED).await;
            assert_eq!(done(&session, "bash", json!({"command": "echo on"})).await.stdout, "on\n");
            // It was made elsewhere, perhaps by another, and may be too old by now: it is not done
            // here, and that is said.
            let gone = session.call("undo", json!({ "call_id": undo })).await.expect("a result");
            assert_eq!(gone.error.expect("not here").code, ErrorCode::NotFound);
            let written = json!({"path": "file", "content": "new"});
            let written = done(&session, "write_file", written).await;
            done(&session, "undo", json!({"call_id": written.undo})).await;
        });
        drop(daemon);
        // One chain. Its first file is what it was to the byte, and older than a day, so that the
        // log goes on in a new one.
        let (status, found) = verified(&world);
        assert_eq!(status, Some(0), "{mode:?}: {found}");
        assert_eq!(found["chains"].as_array().unwrap().len(), 1, "{mode:?}: {found}");
        let (name, before) = EARLIER[0];
        assert_eq!(fs::read(world.state().join(name)).unwrap(), before, "{mode:?}");
        let next = fs::read(world.state().join("audit/c0000-000000000016.jsonl")).unwrap();
        let records = next.split(|byte| *byte == b'\n').take(2).map(|line| {
            let record: Value = serde_json::from_slice(line).unwrap();
            (record["seq"].clone(), record["kind"].clone())
        });
        let expected = [(json!(16), json!("rotate")), (json!(17), json!("start"))];
        assert_eq!(records.collect::<Vec<_>>(), expected, "{mode:?}");
    }
}

/// Everything in a directory of the state: how many, and how many bytes.
fn size(world: &World, directory: &str) -> (usize, u64) {
    let entries = fs::read_dir(world.state().join(directory)).unwrap();
    let sizes: Vec<u64> = entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    (sizes.len(), sizes.iter().sum())
}

/// Sets the time of a file back by a number of days.
fn age(path: &Path, days: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60)).unwrap();
}

#[test]
fn what_is_kept_has_bounds_and_the_next_start_sweeps_what_is_old() {
    let calls = effort(40, 2_000);
    for mode in Mode::all() {
        let world = World::new(mode);
        world.configure("");
        let bound = ("undo = \"256 MiB\"", "undo = \"200 KiB\"");
        world.add_unasked("small", &profile_with(&[bound]));
        let daemon = world.configured_daemon(|_| {});
        let spooled = as_user(mode, async || {
            let session = opened(&daemon, &world, "small").await;
            for n in 0..calls {
                let content = "x".repeat(20_000 + n % 7);
                done(&session, "write_file", json!({"path": "file", "content": content})).await;
            }
            // The last can be undone, the first not any more.
            let last =
                done(&session, "write_file", json!({"path": "file", "content": "end"})).await;
            done(&session, "undo", json!({"call_id": last.undo})).await;
            let command = "head -c 300000 /dev/zero | tr '\\0' z";
            done(&session, "bash", json!({ "command": command })).await
        });
        let (kept, bytes) = size(&world, "undo");
        assert!(bytes <= 200 << 10, "{mode:?}: {kept} records, {bytes} bytes");
        assert!(kept < 16, "{mode:?}: {kept} records");
        let spool = world.state().join("spool").join(spooled.call_id.to_string());
        assert_eq!(fs::metadata(&spool).unwrap().len(), 300_000);
        drop(daemon);
        // Eight days later: what was kept goes, and so does what a killed daemon left half-made.
        for directory in ["spool", "undo"] {
            let path = world.state().join(directory);
            fs::write(path.join("left-half-made"), "x").unwrap();
            for entry in fs::read_dir(path).unwrap() {
                age(&entry.unwrap().path(), 8);
            }
        }
        let daemon = world.configured_daemon(|_| {});
        until("old spools are gone", || size(&world, "spool").0 == 0);
        until("what was half made is gone", || !world.state().join("undo/left-half-made").exists());
        as_user(mode, async || {
            let session = opened(&daemon, &world, "small").await;
            assert_eq!(done(&session, "bash", json!({"command": "echo on"})).await.stdout, "on\n");
        });
        assert_eq!(verified(&world).0, Some(0), "{mode:?}");
    }
}

/// The next commit, whoever makes it, deletes what a killed commit left in a workspace.
#[test]
fn what_a_killed_commit_left_in_the_workspace_goes_with_the_next() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world
            .add_unasked("held", &profile_with(&[("guard = \"auto\"", "guard = \"transaction\"")]));
        let left = world.workspace().join(".palisade-01234567.tmp");
        fs::create_dir(&left).unwrap();
        world.give(&left);
        fs::write(left.join("0"), "half").unwrap();
        world.give(&left.join("0"));
        let kept = world.workspace().join(".palisade-mine");
        fs::write(&kept, "a user's own").unwrap();
        world.give(&kept);
        let sandbox = world.open_with("held");
        let made = sandbox.bash("echo made > made");
        assert!(made.success, "{mode:?}: {:?}", made.error);
        assert!(data(&made).is_object(), "{mode:?}: it was a transaction");
        assert!(!left.exists(), "{mode:?}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "a user's own");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");
    }
}
