//! A session that outlives its connection: nothing is lost within its time, nobody else gets it,
//! and nothing is left when the time is over.

use palisade_protocol::{
    CallOptions, CallResult, ErrorCode, Open, OpenOptions, Opened, RawPath, Reply, Request,
    RequestId, Resume, Resumed, SessionId, SessionStatus, limits::MAX_GRACE_MS, wire::Dialect,
};
use palisade_tests::{
    Daemon, Mode, ORDINARY, UNASKED, World, data, processes, profile_with,
    raw::{DIALECTS, Raw, call},
    rooms::until,
};
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
};

fn open(world: &World, profile: &str, grace_ms: Option<u64>) -> Request {
    Request::Open(Open {
        workspace: RawPath::from(world.workspace()),
        profile: Some(profile.to_owned()),
        options: OpenOptions { grace_ms, ..OpenOptions::default() },
    })
}

fn opened(daemon: &Daemon, world: &World, dialect: Dialect, grace_ms: u64) -> (Raw, Opened) {
    let mut raw = Raw::greeted(daemon.connect(world.mode), dialect);
    let Reply::Opened(opened) = raw.ask(open(world, UNASKED, Some(grace_ms))) else {
        panic!("not opened");
    };
    (raw, *opened)
}

fn resume(opened: &Opened, calls: &[RequestId]) -> Request {
    Request::Resume(Resume {
        session: opened.session.clone(),
        token: opened.token.clone().unwrap(),
        calls: (!calls.is_empty()).then(|| calls.to_vec()),
    })
}

fn resumed(daemon: &Daemon, world: &World, dialect: Dialect, request: Request) -> (Raw, Resumed) {
    let mut raw = Raw::greeted(daemon.connect(world.mode), dialect);
    let reply = raw.ask(request);
    let Reply::Resumed(resumed) = reply else { panic!("{reply:?}") };
    (raw, *resumed)
}

/// The result that comes next, and whose it is.
fn next(raw: &mut Raw) -> (RequestId, CallResult) {
    match raw.reply() {
        (Some(id), Reply::Result(result)) => (id, *result),
        other => panic!("{other:?}"),
    }
}

fn status(daemon: &Daemon, world: &World) -> Vec<SessionStatus> {
    let mut raw = Raw::greeted(daemon.connect(world.mode), Dialect::Frames);
    let Reply::Status(status) = raw.ask(Request::Status) else { panic!("no status") };
    status.sessions
}

fn sessions(daemon: &Daemon, world: &World) -> Vec<SessionId> {
    status(daemon, world).into_iter().map(|session| session.session).collect()
}

fn bash(command: &str) -> Request {
    call("bash", &json!({"command": command}), CallOptions::default())
}

#[test]
fn nothing_is_lost_within_the_grace_time() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        for dialect in DIALECTS {
            for name in ["early", "late"] {
                fs::remove_file(world.workspace().join(name)).unwrap_or_default();
            }
            let (mut raw, session) = opened(&daemon, &world, dialect, 30_000);
            assert_eq!((session.grace_ms, session.token.as_ref().unwrap().len()), (30_000, 64));
            let job = raw.result(
                "bash",
                &json!({"command": "cd /tmp; echo from job; sleep 1000", "background": true}),
            );
            let job = data(&job)["job"].clone();
            let early = raw
                .send(bash("touch started; until [ -e early ]; do sleep 0.02; done; echo early"));
            let late = raw.send(bash("until [ -e late ]; do sleep 0.02; done; cd /tmp; echo late"));
            world.wait_for_empty("started");
            drop(raw);
            // One call ends while nobody is there.
            fs::write(world.workspace().join("early"), "").unwrap();
            let in_flight = || status(&daemon, &world).iter().map(|it| it.in_flight).sum::<u32>();
            until("the early call has ended", || in_flight() == 1);
            let (mut raw, told) = resumed(&daemon, &world, dialect, resume(&session, &[]));
            assert_eq!(told.session, session.session);
            assert_eq!(told.receipt, session.receipt);
            assert!(told.finished.contains(&early), "{told:?}");
            assert_eq!(told.running, [late]);
            fs::write(world.workspace().join("late"), "").unwrap();
            let (mut heard, mut outputs) = (Vec::new(), Vec::new());
            while !(heard.contains(&early) && heard.contains(&late)) {
                let (id, result) = next(&mut raw);
                heard.push(id);
                outputs.push((id, result.stdout));
            }
            assert!(outputs.contains(&(early, "early\n".to_owned())), "{outputs:?}");
            assert!(outputs.contains(&(late, "late\n".to_owned())), "{outputs:?}");
            // The job went on, its output is there, and so is the session's directory.
            let mut ask = |request| {
                let id = raw.send_as(1_000_000, request);
                let (answered, reply) = raw.reply();
                assert_eq!(answered, Some(id), "{reply:?}");
                reply
            };
            let Reply::Result(output) =
                ask(call("job_output", &json!({"job": job}), CallOptions::default()))
            else {
                panic!("no result")
            };
            assert_eq!(
                (output.output.as_str(), data(&output)["state"].clone()),
                ("from job\n", json!("running"))
            );
            let Reply::Result(pwd) = ask(bash("pwd")) else { panic!("no result") };
            assert_eq!(pwd.stdout, "/tmp\n");
            assert_eq!(ask(Request::Close), Reply::Done);
            fs::remove_file(world.workspace().join("started")).unwrap();
        }
        until("nothing is left", || sessions(&daemon, &world).is_empty());
    }
}

#[test]
fn when_the_time_is_over_nothing_is_left() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        // Without having asked for it, with a profile that allows none, and with a short time.
        world.add_unasked("never", &profile_with(&[("grace_ms = 30_000", "grace_ms = 0")]));
        drop(daemon);
        let daemon = world.daemon();
        for (profile, asked, granted) in [
            (UNASKED, None, 0),
            ("never", Some(30_000), 0),
            (UNASKED, Some(700), 700),
            (UNASKED, Some(MAX_GRACE_MS), 30_000),
        ] {
            let mark = processes::mark();
            let mut raw = Raw::greeted(daemon.connect(mode), Dialect::Frames);
            let Reply::Opened(session) = raw.ask(open(&world, profile, asked)) else {
                panic!("not opened")
            };
            assert_eq!((session.grace_ms, session.token.is_some()), (granted, granted > 0));
            let job = raw.result("bash", &json!({"command": format!("m={mark}; exec -a $m-job sleep 1000"), "background": true}));
            assert!(job.success);
            raw.send(bash(&format!("m={mark}; exec -a $m-call sleep 1000")));
            for name in ["job", "call"] {
                until("they run", || !processes::marked(&format!("{mark}-{name}")).is_empty());
            }
            if granted == 30_000 {
                raw.send(Request::Close);
            }
            drop(raw);
            until("the processes are gone", || processes::marked(&mark).is_empty());
            until("the session is gone", || sessions(&daemon, &world).is_empty());
            if granted > 0 {
                let mut raw = Raw::greeted(daemon.connect(mode), Dialect::Frames);
                let error = raw.refused(resume(&session, &[]));
                assert_eq!(error.code, ErrorCode::NotFound);
            }
        }
        let mut raw = Raw::greeted(daemon.connect(mode), Dialect::Frames);
        let error = raw.refused(open(&world, UNASKED, Some(MAX_GRACE_MS + 1)));
        assert_eq!(error.code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn nobody_else_gets_a_session() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let (raw, session) = opened(&daemon, &world, Dialect::Frames, 30_000);
        drop(raw);
        let token = session.token.clone().unwrap();
        let attempt = |name: &SessionId, token: &str| {
            Request::Resume(Resume { session: name.clone(), token: token.to_owned(), calls: None })
        };
        let mut other = token.clone().into_bytes();
        other[63] = if other[63] == b'0' { b'1' } else { b'0' };
        let other = String::from_utf8(other).unwrap();
        let nobodys: SessionId = "0192f0c1".parse().unwrap();
        let mut refusals = Vec::new();
        for request in [
            attempt(&session.session, &other),
            attempt(&session.session, ""),
            attempt(&session.session, &token[..63]),
            attempt(&session.session, &format!("{token}0")),
            attempt(&nobodys, &token),
        ] {
            let mut raw = Raw::greeted(daemon.connect(mode), Dialect::Frames);
            refusals.push(raw.refused(request));
        }
        // Another user with the right token is told the same.
        if mode == Mode::System {
            let stream = Mode::User.act(|| UnixStream::connect(&daemon.socket).unwrap());
            assert_eq!(Mode::User.uid(), ORDINARY);
            let mut raw = Raw::greeted(stream, Dialect::Frames);
            refusals.push(raw.refused(attempt(&session.session, &token)));
        }
        for refusal in &refusals {
            assert_eq!(refusal, &refusals[0]);
            assert_eq!(refusal.code, ErrorCode::NotFound);
        }
        // After all that its own user still gets it, and takes it from a connection that has it.
        let (mut first, _) = resumed(&daemon, &world, Dialect::Frames, resume(&session, &[]));
        let (mut second, _) = resumed(&daemon, &world, Dialect::JsonLines, resume(&session, &[]));
        assert_eq!(first.last_words().code, ErrorCode::OutOfOrder);
        assert!(second.result("bash", &json!({"command": "true"})).success);
        assert_eq!(second.refusal(resume(&session, &[])), ErrorCode::OutOfOrder);
        assert_eq!(second.ask(Request::Close), Reply::Done);
    }
}

#[test]
fn a_call_with_a_key_is_made_once() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let keyed = |command: &str| {
            let options =
                CallOptions { idempotency_key: Some("key-1".into()), ..CallOptions::default() };
            call("bash", &json!({"command": command}), options)
        };
        let line =
            "echo made >> made; touch started; until [ -e go ]; do sleep 0.02; done; echo done";
        let (mut raw, session) = opened(&daemon, &world, Dialect::Frames, 30_000);
        raw.send(keyed(line));
        world.wait_for_empty("started");
        drop(raw);
        let (mut raw, told) = resumed(&daemon, &world, Dialect::Frames, resume(&session, &[]));
        assert_eq!(told.running.len(), 1);
        // Repeated while it runs, and after it has ended.
        let id = raw.send_as(500, keyed(line));
        fs::write(world.workspace().join("go"), "").unwrap();
        let (mut ids, mut calls) = (Vec::new(), Vec::new());
        while !(ids.contains(&id) && ids.contains(&told.running[0])) {
            let (heard, result) = next(&mut raw);
            assert_eq!(result.stdout, "done\n");
            ids.push(heard);
            calls.push(result.call_id);
        }
        let again = raw.send_as(501, keyed(line));
        let (heard, result) = next(&mut raw);
        assert_eq!((heard, &result.call_id), (again, &calls[0]));
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");
        let id = raw.send_as(502, keyed("echo other"));
        match raw.reply() {
            (Some(found), Reply::Error(error)) => {
                assert_eq!((found, error.code), (id, ErrorCode::InvalidRequest));
            }
            other => panic!("{other:?}"),
        }
        raw.send_as(503, call("bash", &json!({"command": "echo plain"}), CallOptions::default()));
        assert_eq!(next(&mut raw).1.stdout, "plain\n");
        raw.send_as(504, Request::Close);
    }
}
