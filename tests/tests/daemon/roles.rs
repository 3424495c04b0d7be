//! Roles and quotas of the configuration: who is let in to do what, and what one user may have; the
//! error of what is refused is typed, and says when to try again.

use palisade_client::{Client, Error, Open, Operator, Provider, Registration};
use palisade_protocol::{CallResult, ErrorCode, KeptOverview, WireError};
use palisade_tests::{Daemon, Mode, Sandbox, UNASKED, World, profile_with, rooms::until};
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::PathBuf,
    time::Duration,
};
use tokio::runtime::Runtime;

/// A daemon with a configuration of its own.
struct Configured {
    daemon: Daemon,
    world: World,
    runtime: Runtime,
    log: PathBuf,
}

impl Configured {
    fn new(mode: Mode, text: &str) -> Self {
        let world = World::new(mode);
        world.configure(text);
        let log = world.outside().with_file_name("log");
        let stderr = fs::File::create(&log).unwrap();
        let daemon = world.configured_daemon(|command| {
            command.stderr(stderr);
        });
        Self { daemon, world, runtime: Runtime::new().expect("a runtime"), log }
    }

    /// Replaces the configuration, and waits until the daemon has reloaded it.
    fn reload(&self, text: &str) {
        let reloaded = || {
            let log = fs::read_to_string(&self.log).unwrap();
            log.matches("configuration and profiles were reloaded").count()
        };
        let before = reloaded();
        // Its sockets are there before it listens to signals.
        drop(self.operator());
        self.world.configure(text);
        self.daemon.signal(Signal::HUP);
        until("it is reloaded", || reloaded() > before);
    }

    fn stream(&self, socket: &str) -> tokio::net::UnixStream {
        let path = self.world.run().join(socket);
        let stream = self.world.mode.act(|| UnixStream::connect(path).expect("connect"));
        stream.set_nonblocking(true).unwrap();
        let _guard = self.runtime.enter();
        tokio::net::UnixStream::from_std(stream).unwrap()
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn client(&self) -> Result<Client, Error> {
        let stream = self.stream("agent.sock");
        self.wait(Client::from_stream(stream))
    }

    fn operator(&self) -> Operator {
        let stream = self.stream("operator.sock");
        self.wait(Operator::from_stream(stream)).expect("an operator")
    }

    /// A session of this daemon's, of another user where there can be one.
    fn sandbox(&self, place: &World) -> Sandbox {
        let agents = &self.daemon.socket;
        fs::set_permissions(agents, fs::Permissions::from_mode(0o666)).unwrap();
        let open = Open::new(place.workspace()).profile(UNASKED);
        Sandbox::over(self.daemon.connect(place.mode), None, open).expect("a session")
    }

    /// Starts the next daemon of this world.
    fn restarted(self) -> Self {
        let Self { daemon, world, runtime, log } = self;
        drop(daemon);
        let stderr = fs::File::create(&log).unwrap();
        let daemon = world.configured_daemon(|command| {
            command.stderr(stderr);
        });
        Self { daemon, world, runtime, log }
    }

    /// Returns what operators see stored of a user's calls.
    fn kept(&self, uid: u32) -> Option<KeptOverview> {
        let operator = self.operator();
        let overview = self.wait(operator.overview()).expect("an overview");
        overview.kept.into_iter().find(|kept| kept.uid == uid)
    }

    /// Has an operator let go of what is kept of a user's calls.
    fn forget(&self, uid: u32, only: &str) -> String {
        let mut forget = self.world.command("palisade");
        forget.args(["forget", "--user", &uid.to_string(), "--only", only, "--operator-socket"]);
        forget.arg(self.world.run().join("operator.sock"));
        let output = self.world.mode.act(|| forget.output().expect("palisade"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn open(&self) -> Open {
        Open::new(self.world.workspace()).profile(UNASKED)
    }
}

/// Returns the daemon's error.
fn wire<T>(result: Result<T, Error>) -> WireError {
    match result {
        Err(error) => error.wire().unwrap_or_else(|| panic!("{error}")).clone(),
        Ok(_) => panic!("it was let"),
    }
}

#[test]
fn a_role_is_for_whom_it_names() {
    for mode in Mode::all() {
        let uid = mode.uid();
        let configured = Configured::new(mode, &format!("[roles]\nconnect = [\"uid:{uid}\"]\n"));
        let client = configured.client().expect("it is named");
        let session = configured.wait(client.open(configured.open())).expect("a session");

        // Nobody that this test can be.
        configured.reload("[roles]\nconnect = [\"uid:4294967294\", \"unit:no-such.service\"]\n");
        let error = wire(configured.client().and_then(|client| configured.wait(client.ping())));
        assert_eq!(error.code, ErrorCode::Forbidden);
        let begin = format!("this peer (uid {uid}, gid ");
        assert!(error.message.starts_with(&begin), "{}", error.message);
        assert!(error.message.ends_with(") may not connect as an agent"), "{}", error.message);
        // Open sessions go on.
        let result = configured.wait(async { session.bash("echo on").await }).expect("a result");
        assert_eq!(result.stdout, "on\n");

        let others = ["handle", "observe", "administer"];
        for denied in others {
            configured.reload(&format!("[roles]\n{denied} = []\n"));
            let operator = configured.operator();
            let answers = configured.wait(async {
                [
                    operator.register(Registration::new("test")).await.map(drop),
                    operator.subscribe(None).await,
                    operator.grants().await.map(drop),
                ]
            });
            for (role, answer) in others.into_iter().zip(answers) {
                if role == denied {
                    let error = wire(answer);
                    assert_eq!(error.code, ErrorCode::Forbidden, "{role}");
                    let hint = format!("roles.{role} of the daemon's configuration lists who may");
                    assert_eq!(error.hint, hint);
                } else {
                    answer.unwrap_or_else(|error| panic!("{role} without {denied}: {error}"));
                }
            }
        }
        configured.reload("[roles]\nprovide = []\n");
        let stream = configured.stream("provider.sock");
        let provider = configured.wait(Provider::from_stream(stream));
        assert_eq!(wire(provider).code, ErrorCode::Forbidden);
        configured.reload("");
        let stream = configured.stream("provider.sock");
        configured.wait(Provider::from_stream(stream)).expect("a provider");
    }
}

#[test]
fn past_a_quota_the_error_says_when_to_try_again() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "[quotas]\nsessions = 2\ncalls = 2\njobs = 1\n");
        let clients: Vec<_> = (0..3).map(|_| configured.client().expect("a client")).collect();
        let open = |client: &Client| configured.wait(client.open(configured.open()));
        let (first, second) = (open(&clients[0]).expect("one"), open(&clients[1]).expect("two"));
        let error = wire(open(&clients[2]));
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "2 sessions are already open, which is the limit for one user");

        // Calls of both sessions together.
        let running = configured.wait(async {
            let mut one = first.bash("echo; sleep 600").stream().start().await.expect("started");
            let mut two = second.bash("echo; sleep 600").stream().start().await.expect("started");
            // Each has said something: both are under way.
            assert!(one.next().await.is_some() && two.next().await.is_some());
            (one, two)
        });
        let error = wire(configured.wait(async { second.bash("true").await }));
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "2 calls of this user are already under way");
        drop(running);
        until("one is over", || configured.wait(async { second.bash("true").await }).is_ok());

        // Jobs of both together.
        let job = json!({"command": "sleep 600", "background": true});
        let begun =
            configured.wait(async { first.call("bash", job.clone()).await }).expect("a job");
        assert!(begun.success, "{begun:?}");
        let refused = configured.wait(async { second.call("bash", job).await }).expect("a result");
        let error = refused.error.expect("an error");
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "1 jobs of this user are already running");
    }
}

#[test]
fn who_asks_too_fast_is_told_how_long_to_wait() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "[quotas]\nrequests_per_second = 5\n");
        let client = configured.client().expect("a client");
        let error = configured.wait(async {
            loop {
                if let Err(error) = client.ping().await {
                    return wire::<()>(Err(error));
                }
            }
        });
        assert_eq!(error.code, ErrorCode::LimitReached);
        let wait = error.retry_after_ms.expect("when");
        assert!((1..=200).contains(&wait), "{wait}");
        configured.wait(async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            client.ping().await.expect("it waited");
        });
        // The connection goes on, and without the quota as fast as it likes.
        configured.reload("");
        configured.wait(async {
            for _ in 0..100 {
                client.ping().await.expect("no quota");
            }
        });
    }
}

/// Held against the quota by name, with what is used, until when, and how it is freed.
/// The undo store has no room: a loss is never deleted for another.
fn assert_store_full(result: CallResult, uid: u32) {
    // The message about a command begins with what became of its changes.
    let end = if result.tool.as_str() == "bash" { " old" } else { " old; nothing was changed" };
    let error = result.error.unwrap_or_else(|| panic!("{} was done", result.tool));
    assert_eq!(error.code, ErrorCode::UndoStoreFull, "{error}");
    let start = format!("the undo store of uid {uid} is full: ");
    assert!(error.message.contains(&start), "{error}");
    assert!(error.message.contains(" records that hold a loss take "), "{error}");
    assert!(error.message.contains("; the oldest is "), "{error}");
    assert!(error.message.ends_with(end), "{error}");
    let free = format!("`palisade forget --user {uid} --only undo --older-than ");
    assert!(
        error.hint.contains("raise quotas.undo_bytes") && error.hint.contains(&free),
        "{error}"
    );
    let week = 7 * 24 * 60 * 60 * 1000;
    assert!(error.retry_after_ms.is_some_and(|wait| wait > week / 2 && wait <= week), "{error}");
}

fn assert_full(result: CallResult, (key, only): (&str, &str), uid: u32) {
    let error = result.error.unwrap_or_else(|| panic!("{} was done", result.tool));
    assert_eq!(error.code, ErrorCode::LimitReached, "{error}");
    assert!(error.message.contains("the output store of this user holds "), "{error}");
    assert!(error.message.ends_with(" more; nothing was done"), "{error}");
    assert!(
        error.hint.starts_with(&format!("{key} sets the limit; the oldest output expires in "))
    );
    let free = format!("`palisade forget --user {uid} --only {only}`");
    assert!(error.hint.ends_with(&free), "{error}");
    let day = 24 * 60 * 60 * 1000;
    assert!(error.retry_after_ms.is_some_and(|wait| wait > day / 2 && wait <= day), "{error}");
}

/// A second user of the same daemon, where there can be one, and their place.
fn neighbour(configured: &Configured) -> Option<(World, Sandbox)> {
    (configured.world.mode == Mode::System).then(|| {
        let place = World::new(Mode::User);
        let sandbox = configured.sandbox(&place);
        (place, sandbox)
    })
}

#[test]
fn what_one_user_adds_to_the_audit_log_has_a_bound() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "[quotas]\naudit_per_day = \"64 KiB\"\n");
        let log = configured.world.state().join("audit/c0000-000000000001.jsonl");
        let length = || fs::metadata(&log).unwrap().len();
        let sandbox = configured.sandbox(&configured.world);
        let neighbour = neighbour(&configured);
        // Long text is recorded by its ends and its digest, so that a call does not take much.
        let command = format!(": {}", "x ".repeat(50_000));
        let mut made = 0;
        let refused = loop {
            let bash = sandbox.session.bash(command.as_str());
            match sandbox.wait(async { bash.await }) {
                Ok(result) => assert!(result.success, "{mode:?}: {:?}", result.error),
                Err(error) => break error,
            }
            made += 1;
            assert!(made < 50, "{mode:?}: {} bytes", length());
        };
        assert!(made >= 5, "{mode:?}: {made} calls");
        let told = refused.wire().expect("the daemon's own answer").clone();
        assert_eq!(told.code, ErrorCode::LimitReached, "{mode:?}: {told}");
        assert!(told.hint.starts_with("the daemon's quotas.audit_per_day is "), "{mode:?}: {told}");
        let day = 24 * 60 * 60 * 1000;
        assert!(told.retry_after_ms.is_some_and(|wait| wait >= 1000 && wait < day), "{told}");
        // Nothing of what is refused is recorded: neither calls, nor batches, nor sessions.
        let results = || fs::read_to_string(&log).unwrap().matches("\"kind\":\"result\"").count();
        until("all results are recorded", || results() == made);
        let before = length();
        assert!(before < 128 << 10, "{mode:?}: {before}");
        let refused = sandbox.wait(async { sandbox.session.bash("touch late").await });
        assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::LimitReached), "{mode:?}");
        let client = configured.client().expect("a client");
        let open = Open::new(configured.world.workspace()).profile(UNASKED);
        let refused = configured.wait(client.open(open)).unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::LimitReached), "{mode:?}");
        assert_eq!(length(), before, "{mode:?}");
        assert!(!configured.world.workspace().join("late").exists());
        // Another user notices nothing.
        if let Some((place, other)) = neighbour {
            assert_eq!(other.ok("touch theirs; echo on"), "on\n");
            assert!(place.workspace().join("theirs").exists());
        }
        configured.reload("[quotas]\naudit_per_day = \"1 MiB\"\n");
        assert_eq!(sandbox.ok("echo on"), "on\n", "{mode:?}");
    }
}

#[test]
fn what_can_be_undone_of_one_user_has_a_bound_and_nothing_is_lost_for_it() {
    for mode in Mode::all() {
        let uid = mode.uid();
        let configured = Configured::new(mode, "[quotas]\nundo_bytes = 205000\n");
        let guard = ("guard = \"auto\"", "guard = \"transaction\"");
        configured.world.add_unasked("held", &profile_with(&[guard]));
        configured.reload("[quotas]\nundo_bytes = 205000\n");
        let workspace = configured.world.workspace();
        let file = |n: usize| workspace.join(format!("file{n}"));
        let content = |n: usize| format!("{n}").repeat(30_000);
        for n in 0..9 {
            fs::write(file(n), content(n)).unwrap();
            configured.world.give(&file(n));
        }
        // Sessions that came and went count together with one that is there.
        let mut undo = Vec::new();
        let refused = loop {
            let n = undo.len();
            let sandbox = configured.sandbox(&configured.world);
            let path = format!("file{n}");
            let result = sandbox.call("write_file", json!({"path": path, "content": "new"}));
            match result.success {
                true => undo.push(result.undo.expect("it can be undone")),
                false => break result,
            }
        };
        assert_eq!(undo.len(), 6, "{mode:?}");
        assert_store_full(refused, uid);
        let kept = configured.kept(uid).expect("something is kept");
        assert_eq!((kept.undo_bytes, kept.undo_most), (6 * 32_768, 205_000), "{mode:?}");
        let sandbox = configured.sandbox(&configured.world);
        let status = sandbox.wait(sandbox.client.status()).unwrap();
        assert_eq!(status.kept, kept);
        // Whatever would need more: and the file is as it was.
        for (tool, arguments) in [
            ("write_file", json!({"path": "file6", "content": "new"})),
            (
                "edit",
                json!({"path": "file6", "old_string": "6", "new_string": "x", "replace_all": true}),
            ),
            ("delete_file", json!({"path": "file6"})),
        ] {
            assert_store_full(sandbox.call(tool, arguments), uid);
            assert_eq!(fs::read_to_string(file(6)).unwrap(), content(6), "{mode:?} {tool}");
        }
        // A command's effects as well, where they are looked at before they count.
        let open = Open::new(&workspace).profile("held");
        let held = Sandbox::over(configured.daemon.connect(mode), None, open).unwrap();
        assert_store_full(held.bash("echo new > file6"), uid);
        drop(held);
        assert_eq!(fs::read_to_string(file(6)).unwrap(), content(6), "{mode:?}");
        // Calls that store no undo record go on, and so does another user.
        assert!(sandbox.done("delete_file", json!({"path": "file7", "permanent": true})).success);
        assert!(!file(7).exists());
        assert_eq!(sandbox.ok("cat file8"), content(8));
        if let Some((place, other)) = neighbour(&configured) {
            let write = json!({"path": "theirs", "content": "new"});
            assert!(other.done("write_file", write).undo.is_some());
            assert!(place.workspace().join("theirs").exists());
            let theirs = configured.kept(place.mode.uid()).expect("something is kept");
            assert_eq!(theirs.undo_bytes, 4096);
        }
        drop(sandbox);
        // The next daemon counts the same, and has lost nothing.
        let configured = configured.restarted();
        assert_eq!(configured.kept(uid), Some(kept));
        let sandbox = configured.sandbox(&configured.world);
        let again = json!({"path": "file6", "content": "new"});
        assert_store_full(sandbox.call("write_file", again.clone()), uid);
        configured.reload("[quotas]\nundo_bytes = 2000000\n");
        for (n, call) in undo.iter().enumerate() {
            assert!(sandbox.done("undo", json!({"call_id": call})).success);
            assert_eq!(fs::read_to_string(file(n)).unwrap(), content(n), "{mode:?}");
        }
        configured.reload("[quotas]\nundo_bytes = 205000\n");
        assert_store_full(sandbox.call("write_file", again.clone()), uid);
        let said = configured.forget(uid, "undo");
        let told = "deleted 0 stored outputs and the undo records of 12 calls, ";
        assert!(said.starts_with(told), "{said}");
        assert!(sandbox.done("write_file", again).success);
        let gone = sandbox.call("undo", json!({"call_id": undo[0]})).error.expect("it is gone");
        assert_eq!(gone.code, ErrorCode::NotFound);
        if mode == Mode::System {
            assert!(configured.kept(Mode::User.uid()).is_some(), "another's stay");
        }
        let audit = configured.world.state().join("audit");
        let found = palisade_audit::verify(&audit, &[]).unwrap();
        assert!(found.is_good(), "{found:?}");
        let log = fs::read_to_string(audit.join("c0000-000000000001.jsonl")).unwrap();
        let by = format!("\"by\":\"operator:{uid}\",\"uid\":{uid},");
        assert!(log.contains(&by), "{mode:?}: it is not recorded");
    }
}

#[test]
fn the_output_that_is_kept_of_one_user_has_a_bound_and_none_is_lost_for_it() {
    const FULL: (&str, &str) = ("quotas.spool_bytes", "spools");
    for mode in Mode::all() {
        let uid = mode.uid();
        let configured = Configured::new(mode, "[quotas]\nspool_bytes = 600000\n");
        let print = "touch ran; head -c 300000 /dev/zero | tr '\\0' z";
        let page = |sandbox: &Sandbox, result: &CallResult| {
            sandbox.wait(sandbox.client.output(&result.call_id, 0, None))
        };
        let first = {
            let sandbox = configured.sandbox(&configured.world);
            sandbox.bash(print)
        };
        assert!(first.success && first.spool.is_some(), "{mode:?}: {:?}", first.error);
        // The second has what is left; its session is another.
        let sandbox = configured.sandbox(&configured.world);
        let second = sandbox.bash(print);
        assert!(second.success && second.spool.is_some(), "{mode:?}: {:?}", second.error);
        let kept = configured.kept(uid).expect("something is kept");
        assert_eq!((kept.spool_bytes, kept.spool_most), (600_000, 600_000), "{mode:?}");
        let ran = configured.world.workspace().join("ran");
        fs::remove_file(&ran).unwrap();
        // The third could not: it does not run, nor as a job.
        for arguments in
            [json!({ "command": print }), json!({ "command": print, "background": true })]
        {
            assert_full(sandbox.call("bash", arguments), FULL, uid);
        }
        assert!(!ran.exists(), "{mode:?}: it ran");
        // Calls that print nothing to be stored go on, and so does another user.
        assert!(
            sandbox
                .done("read_file", json!({"path": "probe", "encoding": "base64", "limit": 1}))
                .success
        );
        if let Some((_place, other)) = neighbour(&configured) {
            let result = other.bash(print);
            assert!(result.success && result.spool.is_some(), "{:?}", result.error);
        }
        drop(sandbox);
        let configured = configured.restarted();
        assert_eq!(configured.kept(uid), Some(kept));
        let sandbox = configured.sandbox(&configured.world);
        assert_full(sandbox.bash(print), FULL, uid);
        assert!(!ran.exists(), "{mode:?}: it ran");
        // Nothing is lost of what was kept.
        let (whole, part) = (page(&sandbox, &first).unwrap(), page(&sandbox, &second).unwrap());
        assert_eq!((whole.spooled, whole.total), (300_000, 300_000), "{mode:?}");
        assert_eq!((part.spooled, part.total), (600_000 - 300_000 - 2 * 4096, 300_000), "{mode:?}");
        let said = configured.forget(uid, "spools");
        let told = "deleted 2 stored outputs and the undo records of 0 calls, 600000 bytes\n";
        assert_eq!(said, told);
        assert_eq!(configured.kept(uid).map_or(0, |kept| kept.spool_bytes), 0);
        assert!(sandbox.bash(print).spool.is_some(), "{mode:?}");
        assert!(ran.exists(), "{mode:?}");
        let gone = wire(page(&sandbox, &first));
        assert_eq!(gone.code, ErrorCode::NotFound);
        if mode == Mode::System {
            let theirs = configured.kept(Mode::User.uid()).expect("another's stay");
            assert_eq!(theirs.spool_bytes, 300_000 + 4096);
        }
    }
}

#[test]
fn an_operator_is_told_over_the_socket_why_another_users_call_was_refused() {
    if !rustix::process::geteuid().is_root() {
        // There is no other user to be the operator.
        return;
    }
    let world = World::new(Mode::User);
    let daemon = world.daemon();
    let sandbox =
        Sandbox::over(daemon.connect(Mode::User), None, Open::new(world.workspace())).unwrap();
    fs::write(world.workspace().join("kept"), "x").unwrap();
    world.give(&world.workspace().join("kept"));
    // Nobody is there to approve it.
    let refused = sandbox.bash("rm kept");
    assert!(!refused.success, "{refused:?}");
    let why = |command: &mut std::process::Command| {
        // There is no log where this user's own would be.
        let none = world.outside().join("none");
        command.args(["why", refused.call_id.as_str()]);
        command.env("XDG_STATE_HOME", none).env("PALISADE_SOCKET", &daemon.socket);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The operator socket is found beside the agents' one.
    let (status, told) = why(&mut world.command("palisade"));
    assert_eq!(status, Some(0), "{told}");
    assert!(told.starts_with("refused: "), "{told}");
    // Who is neither that user nor an operator is told nothing.
    let stranger = palisade_tests::act_as(4343, || why(&mut world.command("palisade")));
    assert!(stranger.0 != Some(0) && !stranger.1.contains("refused"), "{stranger:?}");
}
