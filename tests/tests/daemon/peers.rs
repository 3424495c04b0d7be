//! Two users of one daemon, neither of them its own: what one holds, spends, breaks or names is not the
//! other's. An ordinary user's daemon has one user; there the same requests are the control, for what is
//! one's own is found.

use palisade_audit::verify;
use palisade_client::{Open, Running};
use palisade_protocol::{
    Abort, CallId, ErrorCode, Kill, OutputQuery, RecordQuery, Reply, Request, Resume, SessionId,
    Subscribe, WireError,
};
use palisade_tests::{
    Daemon, Mode, ORDINARY, Sandbox, UNASKED, World, act_as, binary, processes,
    raw::{DIALECTS, Raw, open},
    rooms::{Before, until},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// One user, and a place that nobody else may look into.
struct Peer {
    uid: u32,
    place: World,
}

/// A daemon with two users.
struct House {
    daemon: Daemon,
    one: Peer,
    two: Peer,
    world: World,
}

impl Peer {
    fn new(mode: Mode, uid: u32) -> Self {
        let place = World::new(mode);
        let home = place.workspace().parent().unwrap().to_owned();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        let peer = Self { uid, place };
        for path in [home, peer.place.workspace(), peer.place.outside(), peer.place.canary()] {
            peer.give(&path);
        }
        peer
    }

    fn give(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(self.uid), Some(self.uid)).unwrap();
        }
    }

    fn act<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        match rustix::process::geteuid().is_root() {
            true => act_as(self.uid, act),
            false => act(),
        }
    }

    fn connect(&self, daemon: &Daemon) -> UnixStream {
        self.act(|| UnixStream::connect(&daemon.socket).expect("connect"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.workspace().join(name)
    }

    fn raw(&self, daemon: &Daemon) -> Raw {
        let mut raw = Raw::greeted(self.connect(daemon), DIALECTS[0]);
        let reply = raw.ask(open(&self.place.workspace(), UNASKED));
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
        raw
    }

    fn sandbox(&self, daemon: &Daemon) -> Sandbox {
        let open = Open::new(self.place.workspace()).profile(UNASKED);
        let open = open.resumable(Duration::from_secs(30));
        Sandbox::over(self.connect(daemon), None, open).expect("a session")
    }
}

impl House {
    fn new(mode: Mode, configuration: &str) -> Self {
        let uids = match mode {
            Mode::System => [ORDINARY, ORDINARY + 1],
            Mode::User => [mode.uid(); 2],
        };
        let [one, two] = uids.map(|uid| Peer::new(Mode::User, uid));
        let world = World::new(mode);
        world.configure(configuration);
        let daemon = started(&world);
        Self { daemon, one, two, world }
    }

    /// Returns `true` if the peers are two users.
    const fn strangers(&self) -> bool {
        self.one.uid != self.two.uid
    }

    fn assert_log_verifies(&self) {
        let found = verify(&self.world.state().join("audit"), &[]).unwrap();
        assert!(found.is_good(), "{found:?}");
    }

    fn log(&self) -> String {
        let path = self.world.state().join("audit/c0000-000000000001.jsonl");
        fs::read_to_string(path).unwrap()
    }
}

fn started(world: &World) -> Daemon {
    let daemon = world.configured_daemon(|_| {});
    fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
    daemon
}

/// Without what was asked for, so that answers can be compared.
fn anonymous(error: WireError, id: &str) -> (ErrorCode, String, String) {
    (error.code, error.message.replace(id, "ID"), error.hint.replace(id, "ID"))
}

/// ATTACKS 126: an id of another user's is answered as one that never was.
#[test]
fn what_is_another_users_is_not_found_by_any_request() {
    for mode in Mode::all() {
        let house = House::new(mode, "");
        let owner = house.one.sandbox(&house.daemon);
        let spooled = owner.bash("yes secret | head -c 300000").spool.expect("a spool");
        fs::write(house.one.file("mine"), "first").unwrap();
        house.one.give(&house.one.file("mine"));
        let written = owner.done("write_file", json!({"path": "mine", "content": "second"}));
        let job =
            owner.done("bash", json!({"command": "echo theirs; sleep 600", "background": true}));
        assert!(job.success);
        let mut stranger = house.two.raw(&house.daemon);
        let never = "018bcfe5-687b-7fff-8fff-ffffffffffff";
        // Pages of output.
        let page = |id: &str| {
            let call_id: CallId = id.parse().unwrap();
            Request::Output(OutputQuery { call_id, offset: 0, limit: None })
        };
        let nothing = anonymous(stranger.refused(page(never)), never);
        assert_eq!(nothing.0, ErrorCode::NotFound);
        let mut own = Raw::greeted(house.one.connect(&house.daemon), DIALECTS[0]);
        until(
            "the job has printed",
            || matches!(own.ask(page(job.call_id.as_str())), Reply::Output(page) if !page.data.0.is_empty()),
        );
        drop(own);
        for (whose, text) in
            [(spooled.to_string(), "secret\n"), (job.call_id.to_string(), "theirs\n")]
        {
            match stranger.ask(page(&whose)) {
                Reply::Error(error) if house.strangers() => {
                    assert_eq!(anonymous(error, &whose), nothing)
                }
                Reply::Output(page) if !house.strangers() => {
                    assert!(page.data.0.starts_with(text.as_bytes()))
                }
                other => panic!("{mode:?}: {other:?}"),
            }
        }
        // Audit records.
        let records = |id: Option<&str>| {
            let prefix = id.map(|id| id.parse().unwrap());
            Request::Records(RecordQuery { prefix })
        };
        let nothing = anonymous(stranger.refused(records(Some(never))), never);
        assert_eq!(nothing.0, ErrorCode::NotFound);
        let whose = job.call_id.to_string();
        match stranger.ask(records(Some(&whose))) {
            Reply::Error(error) if house.strangers() => {
                assert_eq!(anonymous(error, &whose), nothing);
                assert_eq!(stranger.refusal(records(None)), ErrorCode::NotFound);
            }
            Reply::Records(found) if !house.strangers() => assert_eq!(found.call_id, job.call_id),
            other => panic!("{mode:?}: {other:?}"),
        }
        let mut own = house.one.raw(&house.daemon);
        for wanted in [Some(whose.as_str()), None] {
            let Reply::Records(found) = own.ask(records(wanted)) else { panic!("{mode:?}") };
            assert_eq!(found.call_id, job.call_id, "{mode:?}");
            assert!(found.lines[0].contains("\"kind\":\"session_open\""), "{:?}", found.lines);
            assert!(found.lines[1].contains("echo theirs; sleep 600"), "{:?}", found.lines);
        }
        drop(own);
        // Undo.
        let undo = |raw: &mut Raw, id: &str| {
            let error = raw.result("undo", &json!({ "call_id": id })).error.expect("not undone");
            anonymous(error, id)
        };
        let nothing = undo(&mut stranger, never);
        assert_eq!(nothing.0, ErrorCode::NotFound);
        let answer = undo(&mut stranger, &written.undo.clone().unwrap());
        assert_eq!(answer == nothing, house.strangers(), "{mode:?}: {answer:?}");
        assert_eq!(fs::read_to_string(house.one.file("mine")).unwrap(), "second", "{mode:?}");
        // Jobs: by number within a session, and in no list.
        let error = stranger.result("job_output", &json!({"job": 1})).error.expect("no job");
        assert_eq!(error.code, ErrorCode::NotFound);
        let Reply::Jobs(jobs) = stranger.ask(Request::Jobs) else { panic!("no jobs") };
        assert_eq!(jobs.jobs.is_empty(), house.strangers(), "{mode:?}");
        // The owner's other session is ending.
        until("only the sessions that are open are listed", || {
            let Reply::Status(status) = stranger.ask(Request::Status) else { panic!("no status") };
            status.sessions.len() == if house.strangers() { 1 } else { 2 }
        });
        // Sessions: to be heard of, ended, or taken over.
        let session = owner.session.id().clone();
        let no_session: SessionId = never.parse().unwrap();
        let hear =
            |session: &SessionId| Request::Subscribe(Subscribe { session: Some(session.clone()) });
        let nothing = anonymous(stranger.refused(hear(&no_session)), never);
        let answer = stranger.ask(hear(&session));
        match answer {
            Reply::Error(error) if house.strangers() => {
                assert_eq!(anonymous(error, session.as_str()), nothing);
            }
            Reply::Error(_) | Reply::Done if !house.strangers() => {}
            other => panic!("{mode:?}: {other:?}"),
        }
        let take = |session: &SessionId| {
            let (session, token, calls) = (session.clone(), "0".repeat(64), None);
            Request::Resume(Resume { session, token, calls })
        };
        let ask =
            |request| Raw::greeted(house.two.connect(&house.daemon), DIALECTS[1]).refused(request);
        let nothing = anonymous(ask(take(&no_session)), never);
        assert_eq!(nothing.0, ErrorCode::NotFound);
        assert_eq!(anonymous(ask(take(&session)), session.as_str()), nothing);
        // And what is for operators is for nobody here, whatever it names.
        let call = job.call_id;
        for (real, none) in [
            (
                Request::Abort(Abort { session: session.clone() }),
                Request::Abort(Abort { session: no_session }),
            ),
            (
                Request::Kill(Kill { call_id: call }),
                Request::Kill(Kill { call_id: never.parse().unwrap() }),
            ),
        ] {
            let (real, none) = (stranger.refused(real), stranger.refused(none));
            assert_eq!((real.code, &real), (ErrorCode::Forbidden, &none), "{mode:?}");
        }
        // It all goes on, and is its owner's.
        let listed = owner.done("job_list", json!({}));
        assert!(listed.output.contains("sleep 600"), "{mode:?}: {}", listed.output);
        assert!(owner.done("undo", json!({ "call_id": written.undo })).success);
        assert_eq!(fs::read_to_string(house.one.file("mine")).unwrap(), "first");
        house.assert_log_verifies();
    }
}

/// ATTACKS 122: what one user has used up is not missed by another.
#[test]
fn what_one_user_uses_up_is_not_the_others() {
    for mode in Mode::all() {
        let house =
            House::new(mode, "[quotas]\nsessions = 2\ncalls = 2\nrequests_per_second = 40\n");
        let greedy = [(); 2].map(|()| house.one.sandbox(&house.daemon));
        let third = |peer: &Peer| {
            let mut raw = Raw::greeted(peer.connect(&house.daemon), DIALECTS[0]);
            raw.ask(open(&peer.place.workspace(), UNASKED))
        };
        let Reply::Error(error) = third(&house.one) else { panic!("{mode:?}: a third session") };
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        let _running: Vec<Running> = greedy
            .iter()
            .map(|sandbox| {
                let call = sandbox.session.bash("echo; sleep 600").stream();
                let mut running = sandbox.wait(call.start()).unwrap();
                assert!(sandbox.wait(running.next()).is_some());
                running
            })
            .collect();
        // As fast as it can, until it is told to wait.
        let mut hasty = Raw::greeted(house.one.connect(&house.daemon), DIALECTS[1]);
        let told = (0..1000).find_map(|_| match hasty.ask(Request::Ping) {
            Reply::Error(error) => Some(error),
            _ => None,
        });
        assert_eq!(told.expect("it is told").code, ErrorCode::LimitReached);
        match third(&house.two) {
            Reply::Opened(_) if house.strangers() => {
                let other = house.two.sandbox(&house.daemon);
                assert_eq!(other.ok("echo served"), "served\n");
            }
            Reply::Error(error) if !house.strangers() => {
                assert_eq!(error.code, ErrorCode::LimitReached);
            }
            reply => panic!("{mode:?}: {reply:?}"),
        }
    }
}

/// ATTACKS 123: a descriptor that one user passes on to another is the first one's.
#[test]
fn a_descriptor_that_was_passed_on_reaches_what_its_connector_may() {
    for mode in Mode::all() {
        let house = House::new(mode, "");
        let stream = house.one.connect(&house.daemon);
        let (mine, theirs) = (house.one.place.workspace(), house.two.place.workspace());
        let said = house.two.act(move || {
            // Another user speaks: first of their own place, then of the connector's.
            let mut raw = Raw::greeted(stream, DIALECTS[0]);
            let refused = raw.ask(open(&theirs, UNASKED));
            let reply = match matches!(refused, Reply::Opened(_)) {
                true => None,
                false => Some(raw.ask(open(&mine, UNASKED))),
            };
            let result = raw.result("bash", &json!({"command": "id -u; touch made"}));
            (refused, reply, result)
        });
        let (refused, reply, result) = said;
        assert_eq!(
            result.stdout,
            format!("{}\n", house.one.uid),
            "{mode:?}: {:?}, {refused:?}, {reply:?}",
            result.error
        );
        if house.strangers() {
            let Reply::Error(error) = refused else { panic!("{refused:?}") };
            assert_eq!(error.code, ErrorCode::WorkspaceRefused, "{error}");
            assert!(matches!(reply, Some(Reply::Opened(_))), "{reply:?}");
            let made = fs::metadata(house.one.file("made")).unwrap();
            assert_eq!(made.uid(), house.one.uid);
            assert!(!house.two.file("made").exists());
        }
        // On a connection of their own it is theirs.
        let own = house.two.sandbox(&house.daemon);
        assert_eq!(own.ok("id -u"), format!("{}\n", house.two.uid));
    }
}

/// ATTACKS 125: whoever runs a client inside finds no daemon, though both may use it outside.
#[test]
fn a_users_payload_reaches_neither_daemon_nor_operators_and_is_recorded() {
    for mode in Mode::all() {
        let house = House::new(mode, "");
        for peer in [&house.one, &house.two] {
            fs::copy(binary("palisade"), peer.file("palisade")).unwrap();
            let sandbox = peer.sandbox(&house.daemon);
            let outside = peer.place.outside();
            let (agents, operators) =
                (house.daemon.socket.display(), house.daemon.operators.display());
            for line in [
                format!("./palisade run --socket {agents} -- touch {}/made", outside.display()),
                format!("./palisade pending --operator-socket {operators}"),
                format!("./palisade forget --all --operator-socket {operators}"),
            ] {
                let run = sandbox.bash(&line);
                assert_eq!(run.exit_code, Some(125), "{mode:?}: {line}: {}", run.stderr);
                assert!(run.stderr.contains("No such file"), "{line}: {}", run.stderr);
            }
            peer.place.assert_canary_untouched();
            // Outside it is there, and the same user's call is recorded as theirs.
            let control = peer.act(|| UnixStream::connect(&house.daemon.socket).is_ok());
            assert!(control, "{mode:?}");
            drop(sandbox);
            let log = house.log();
            assert!(log.contains(&format!("\"uid\":{}", peer.uid)), "{mode:?}");
            assert!(log.contains("palisade pending --operator-socket"), "{mode:?}");
        }
        house.assert_log_verifies();
    }
}

/// A call that ignores signals, in a process group of its own, and writes without end.
fn stubborn(mark: &str) -> String {
    format!(
        "m={mark}; (trap '' TERM HUP INT; setsid bash -c \"exec -a $m-apart sleep 1000\" & exec -a $m-here sleep 1000)"
    )
}

/// ATTACKS 133, 134: killed under two users, nothing of either's is left, and the next serves both.
#[test]
fn when_the_daemon_is_killed_nothing_of_either_user_is_left() {
    for mode in Mode::all() {
        let before = Before::look();
        let mut house = House::new(mode, "");
        let mark = processes::mark();
        let sandboxes = [&house.one, &house.two].map(|peer| peer.sandbox(&house.daemon));
        let mut undo = Vec::new();
        let running: Vec<Running> = sandboxes
            .iter()
            .enumerate()
            .map(|(n, sandbox)| {
                let write = json!({"path": format!("whole-{n}"), "content": "x".repeat(100_000)});
                undo.push(sandbox.done("write_file", write).undo.unwrap());
                sandbox
                    .wait(sandbox.session.bash(stubborn(&format!("{mark}-{n}"))).start())
                    .unwrap()
            })
            .collect();
        for n in 0..2 {
            for name in ["apart", "here"] {
                until("it runs", || !processes::marked(&format!("{mark}-{n}-{name}")).is_empty());
            }
        }
        house.daemon.signal(Signal::KILL);
        for (sandbox, running) in sandboxes.iter().zip(running) {
            sandbox.wait(running.result()).expect_err("nobody is there to answer");
        }
        house.daemon.child.wait().unwrap();
        drop(sandboxes);
        before.assert_nothing_left_of(&mark);
        // The next daemon starts where the last one was, with its socket still there.
        house.daemon = started(&house.world);
        for (n, peer) in [&house.one, &house.two].into_iter().enumerate() {
            let sandbox = peer.sandbox(&house.daemon);
            assert_eq!(fs::read(peer.file(&format!("whole-{n}"))).unwrap().len(), 100_000);
            // Each has their own to undo, and not the other's.
            let other = sandbox.call("undo", json!({"call_id": undo[1 - n]}));
            let code = other.error.expect("it is another's, or of another workspace").code;
            assert_eq!(code, ErrorCode::NotFound, "{mode:?}");
            assert!(sandbox.done("undo", json!({"call_id": undo[n]})).success);
            assert!(!peer.file(&format!("whole-{n}")).exists(), "{mode:?}");
        }
        house.assert_log_verifies();
    }
}

/// ATTACKS 135: a reload that shuts one user out leaves the other, and what runs; a bad one changes
/// nothing.
#[test]
fn a_reload_is_for_whom_it_names() {
    for mode in Mode::all() {
        let house = House::new(mode, "");
        let sandboxes = [&house.one, &house.two].map(|peer| peer.sandbox(&house.daemon));
        let ask = |peer: &Peer| {
            let mut raw = Raw::new(peer.connect(&house.daemon), DIALECTS[0]);
            raw.send(palisade_tests::raw::hello(1));
            raw.reply().1
        };
        let welcome = |peer: &Peer| matches!(ask(peer), Reply::Welcome(_));
        let line = "until ls | grep -qx go; do sleep 0.02; done; echo on";
        let running = sandboxes
            .each_ref()
            .map(|sandbox| sandbox.wait(sandbox.session.bash(line).start()).unwrap());
        let only = format!("[roles]\nconnect = [\"uid:{}\"]\n", house.one.uid);
        house.world.configure(&only);
        house.daemon.signal(Signal::HUP);
        if house.strangers() {
            until("the second is shut out", || !welcome(&house.two));
            let Reply::Error(error) = ask(&house.two) else { panic!("let in") };
            assert_eq!(error.code, ErrorCode::Forbidden, "{error}");
        }
        assert!(welcome(&house.one), "{mode:?}");
        // An invalid configuration opens nothing.
        house.world.configure("[roles]\nconnect = []\nconect = [\"uid:0\"]\n");
        house.daemon.signal(Signal::HUP);
        for peer in [&house.one, &house.two] {
            fs::write(peer.place.workspace().join("go"), "").unwrap();
        }
        for (sandbox, running) in sandboxes.iter().zip(running) {
            assert_eq!(sandbox.wait(running.result()).unwrap().stdout, "on\n", "{mode:?}");
        }
        assert!(welcome(&house.one), "{mode:?}");
        assert_eq!(welcome(&house.two), !house.strangers(), "{mode:?}");
        house.world.configure("");
        house.daemon.signal(Signal::HUP);
        until("both are let in again", || welcome(&house.one) && welcome(&house.two));
    }
}

/// Returns the status and output of `palisade audit verify` for a directory.
fn verified(world: &World, directory: &Path) -> (Option<i32>, Value) {
    let mut verify = world.command("palisade");
    verify.args(["audit", "verify", "--json", "--dir"]).arg(directory);
    let output = verify.output().expect("palisade");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// ATTACKS 136: users can not get at the log, and whoever can is found out at the record.
#[test]
fn neither_user_gets_at_the_log_and_who_does_is_found_out() {
    for mode in Mode::all() {
        let house = House::new(mode, "");
        for peer in [&house.one, &house.two] {
            let sandbox = peer.sandbox(&house.daemon);
            assert_eq!(sandbox.ok("echo recorded"), "recorded\n");
            let log = house.world.state().join("audit/c0000-000000000001.jsonl");
            // From inside it is not there; from outside it is not theirs.
            let attempt = format!("append:{}", log.display());
            assert_eq!(sandbox.told(&[attempt]), ["ENOENT"], "{mode:?}");
            if house.strangers() {
                let error =
                    peer.act(|| fs::OpenOptions::new().append(true).open(&log).unwrap_err());
                assert_eq!(error.raw_os_error(), Some(libc::EACCES));
            }
        }
        drop(house.daemon);
        let audit = house.world.state().join("audit");
        assert_eq!(verified(&house.world, &audit).0, Some(0), "{mode:?}");
        let log = fs::read_to_string(audit.join("c0000-000000000001.jsonl")).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert!(lines.len() > 8, "{mode:?}: {}", lines.len());
        let at = lines.iter().position(|line| line.contains("echo recorded")).unwrap();
        let edited = log.replacen("echo recorded", "echo nothing!", 1);
        let mut deleted = lines.clone();
        deleted.remove(at);
        let mut reordered = lines.clone();
        reordered.swap(at, at + 1);
        let whole = |lines: &[&str]| lines.join("\n") + "\n";
        for (how, text) in [
            ("edited", edited),
            ("deleted", whole(&deleted)),
            ("reordered", whole(&reordered)),
            ("cut", whole(&lines[..at])),
        ] {
            let copy = house.world.outside().join(how);
            fs::create_dir(&copy).unwrap();
            for entry in fs::read_dir(&audit).unwrap().flatten() {
                fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
            fs::write(copy.join("c0000-000000000001.jsonl"), text).unwrap();
            let (status, found) = verified(&house.world, &copy);
            assert_eq!(status, Some(1), "{mode:?} {how}: {found}");
            assert!(!verify(&copy, &[]).unwrap().is_good(), "{how}");
        }
    }
}
