//! Those who watch a session: what they hear of its calls as they run, that one who does not keep
//! up holds up nobody, and that nobody watches another user.

use palisade_client::{Answer, Client, Open, Operator, OperatorEvent, Registration};
use palisade_protocol::{
    ErrorCode, Event, Reply, Request, Review, ServerMessage, Stream, Subscribe, wire::Dialect,
};
use palisade_tests::{Daemon, Mode, Sandbox, World, profile_with, raw::Raw};
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
};

/// A daemon and a session.
struct Scene {
    mode: Mode,
    sandbox: Sandbox,
    daemon: Daemon,
    _world: World,
}

fn asynchronous(stream: UnixStream) -> tokio::net::UnixStream {
    stream.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(stream).unwrap()
}

impl Scene {
    fn new(mode: Mode, handlers: &str) -> Self {
        let world = World::new(mode);
        let text = profile_with(&[("[tools]\n", &format!("[handlers]\n{handlers}\n\n[tools]\n"))]);
        world.add_profile("watched", &text);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("watched");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        Self { mode, sandbox, daemon, _world: world }
    }

    /// An operator who hears of every session.
    fn operator(&self) -> Operator {
        let stream = self.mode.act(|| UnixStream::connect(&self.daemon.operators).unwrap());
        self.sandbox.wait(async {
            let operator = Operator::from_stream(asynchronous(stream)).await.unwrap();
            operator.subscribe(None).await.unwrap();
            operator
        })
    }

    /// Connects as the session's user, to observe the session.
    fn watcher(&self) -> Client {
        let stream = self.daemon.connect(self.mode);
        self.sandbox.wait(async {
            let client = Client::from_stream(asynchronous(stream)).await.unwrap();
            client.subscribe(self.sandbox.session.id()).await.unwrap();
            client
        })
    }
}

/// The events that somebody received of one call.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    calls: Vec<String>,
    stdout: String,
    stderr: String,
    pieces: usize,
    lost: (u64, u64),
}

impl Heard {
    /// Takes in an event; whether it was the last of the call.
    fn take(&mut self, event: OperatorEvent) -> bool {
        match event {
            OperatorEvent::CallOutput { call_id, stream, data, .. } => {
                self.calls.push(call_id.to_string());
                self.calls.dedup();
                self.pieces += 1;
                let text = String::from_utf8(data).unwrap();
                match stream {
                    Stream::Stdout => self.stdout.push_str(&text),
                    Stream::Stderr => self.stderr.push_str(&text),
                    Stream::Content => panic!("{text}"),
                }
                false
            }
            OperatorEvent::Lost { events, bytes } => {
                self.lost = (self.lost.0 + events, self.lost.1 + bytes);
                false
            }
            OperatorEvent::CallEnded(_) => true,
            other => {
                assert!(matches!(other, OperatorEvent::CallStarted(_)), "{other:?}");
                false
            }
        }
    }
}

async fn told(operator: &Operator) -> Heard {
    let mut heard = Heard::default();
    while !heard.take(operator.next().await.unwrap()) {}
    heard
}

async fn overheard(client: &Client) -> Heard {
    let mut heard = Heard::default();
    while !heard.take(client.heard().await.unwrap()) {}
    heard
}

#[test]
fn observers_hear_output_in_order_while_the_call_runs() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, "");
        let (operator, watcher) = (scene.operator(), scene.watcher());
        let own = &scene.sandbox.client;
        scene.sandbox.wait(async {
            scene.sandbox.session.subscribe().await.unwrap();
            // It goes on only after the observers' turn, so that they hear it before its end.
            let line = "echo one; echo two >&2; until [ -e go ]; do sleep 0.02; done; echo three";
            let running = scene.sandbox.session.bash(line).start().await.unwrap();
            let mut first = Heard::default();
            while (first.stdout.as_str(), first.stderr.as_str()) != ("one\n", "two\n") {
                assert!(!first.take(operator.next().await.unwrap()), "{mode:?}: {first:?}");
            }
            let go = scene.sandbox.session.workspace().join("go");
            fs::write(&go, "").unwrap();
            let result = running.result().await.unwrap();
            assert!(result.success, "{mode:?}: {:?}", result.error);
            let calls = vec![result.call_id.to_string()];
            assert_eq!(first.calls, calls);
            let rest = told(&operator).await;
            assert_eq!((rest.stdout.as_str(), rest.stderr.as_str()), ("three\n", ""));
            for heard in [overheard(&watcher).await, overheard(own).await] {
                assert_eq!((heard.calls, heard.lost), (calls.clone(), (0, 0)), "{mode:?}");
                assert_eq!(heard.stdout, "one\nthree\n", "{mode:?}");
                assert_eq!(heard.stderr, "two\n", "{mode:?}");
            }
        });
    }
}

#[test]
fn one_that_does_not_read_loses_events_and_slows_nobody() {
    const LINES: u64 = 4_000_000;
    for mode in Mode::all() {
        let scene = Scene::new(mode, "");
        let mut deaf = Raw::greeted(scene.daemon.connect(mode), Dialect::Frames);
        let session = Some(scene.sandbox.session.id().clone());
        assert_eq!(deaf.ask(Request::Subscribe(Subscribe { session })), Reply::Done);
        // Were the call to wait for that observer, it would never end.
        let result = scene.sandbox.bash("yes 1234567 | head -n 4000000");
        assert!(result.success, "{mode:?}: {:?}", result.error);
        let page = scene.sandbox.client.output(&result.call_id, 0, Some(8));
        let page = scene.sandbox.wait(page).unwrap();
        assert_eq!((page.total, page.spooled), (LINES * 8, LINES * 8), "{mode:?}");
        // Now it reads: some of it, how much is missing, and the end of a later call.
        let after = scene.sandbox.bash("echo after");
        let (mut read, mut lost, mut ended) = (0, (0, 0), Vec::new());
        while ended.last() != Some(&after.call_id) {
            let Some(ServerMessage::Event(event)) = deaf.hear() else { panic!("no event") };
            match event {
                Event::CallOutput { data, .. } => read += data.0.len() as u64,
                Event::Lost { events, bytes } => lost = (lost.0 + events, lost.1 + bytes),
                Event::CallEnded(end) => ended.push(end.call_id),
                other => assert!(matches!(other, Event::CallStarted(_)), "{other:?}"),
            }
        }
        assert_eq!(ended, [result.call_id, after.call_id], "{mode:?}");
        assert!(read > 0 && lost.0 > 0 && lost.1 > 0, "{mode:?}: {read} {lost:?}");
        assert_eq!(read + lost.1, LINES * 8 + "after\n".len() as u64, "{mode:?}: {lost:?}");
    }
}

#[test]
fn agents_do_not_hear_what_is_reviewed_first() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, "review_output = [\"bash\"]\ndeadline_ms = 120000");
        let (operator, watcher) = (scene.operator(), scene.watcher());
        let (result, live, seen) = scene.sandbox.wait(async {
            let register = Registration::new("person:ann").reviews(vec![Review::Output]);
            operator.register(register).await.unwrap();
            let running = scene.sandbox.session.bash("echo secret").start().await.unwrap();
            let mut live = Heard::default();
            let request = loop {
                match operator.next().await.unwrap() {
                    OperatorEvent::ApprovalRequest(request) => break request,
                    event => assert!(!live.take(event)),
                }
            };
            operator.answer(&request, Answer::replace("[redacted]")).await.unwrap();
            let result = running.result().await.unwrap();
            let mut seen = Vec::new();
            loop {
                let event = watcher.heard().await.unwrap();
                let last = matches!(event, OperatorEvent::CallEnded(_));
                seen.push(event);
                if last {
                    break (result, live, seen);
                }
            }
        });
        assert_eq!(live.stdout, "secret\n", "{mode:?}: operators may see it");
        assert_eq!(result.output, "[redacted]", "{mode:?}");
        let Some(OperatorEvent::CallEnded(ended)) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(ended.output, "[redacted]", "{mode:?}");
        let decided = seen.iter().find_map(|event| match event {
            OperatorEvent::Approval(approval) => Some(approval),
            _ => None,
        });
        let decided = decided.expect("the decision");
        let arguments: serde_json::Value =
            serde_json::from_str(decided.arguments.as_str()).unwrap();
        assert_eq!(arguments["command"], "echo secret", "{mode:?}");
        assert_eq!(decided.decision.as_str(), "replaced", "{mode:?}");
        let output = |event: &OperatorEvent| matches!(event, OperatorEvent::CallOutput { .. });
        assert!(!seen.iter().any(output), "{mode:?}: {seen:?}");
    }
}

#[test]
fn nobody_watches_another_user() {
    for mode in Mode::all() {
        let scene = Scene::new(mode, "");
        let session = Some(scene.sandbox.session.id().clone());
        let subscribe = || Request::Subscribe(Subscribe { session: session.clone() });
        let mut own = Raw::greeted(scene.daemon.connect(mode), Dialect::JsonLines);
        assert_eq!(own.ask(subscribe()), Reply::Done, "{mode:?}");
        // Only root's daemon serves other users at all.
        let stranger = match mode {
            Mode::System => {
                for path in scene.daemon.socket.ancestors().take(3) {
                    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
                }
                scene.daemon.connect(Mode::User)
            }
            Mode::User => continue,
        };
        let mut stranger = Raw::greeted(stranger, Dialect::JsonLines);
        let refused = stranger.refused(subscribe());
        let told = format!("there is no session {}", scene.sandbox.session.id());
        assert_eq!((refused.code, refused.message), (ErrorCode::NotFound, told));
        let everything = Request::Subscribe(Subscribe { session: None });
        assert_eq!(stranger.refusal(everything), ErrorCode::OutOfOrder);
        assert_eq!(scene.sandbox.ok("echo seen"), "seen\n");
        // An answer comes behind what was to be heard before it.
        stranger.send(Request::Ping);
        let heard = stranger.hear();
        let pong = matches!(heard, Some(ServerMessage::Reply { reply: Reply::Pong, .. }));
        assert!(pong, "{heard:?}");
        let heard = own.hear();
        assert!(matches!(heard, Some(ServerMessage::Event(Event::CallStarted(_)))), "{heard:?}");
    }
}
