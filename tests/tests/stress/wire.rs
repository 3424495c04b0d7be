//! Bytes that no client of ours would send: each is refused by its own code, only its own
//! connection ends, and whoever else is connected notices nothing.

use palisade_client::Open;
use palisade_protocol::{
    Bytes, CallOptions, Cancel, ErrorCode, Input, Reply, Request,
    limits::{MAX_DEPTH, MAX_FRAME, VERSION},
    wire::Dialect,
};
use palisade_tests::{
    Daemon, Dice, Mode, Sandbox, World, effort,
    raw::{DIALECTS, Raw, call, encode, hello, open},
    report, resident, setting,
};
use serde_json::json;
use std::{fs, time::Duration};

/// Somebody with a session and a call under way, to whom nothing must happen.
struct Bystander {
    sandbox: Sandbox,
    running: palisade_client::Running,
    said: u32,
}

impl Bystander {
    fn new(daemon: &Daemon, world: &World) -> Self {
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(world.mode), None, open).expect("a session");
        let wait = "until test -e stop; do sleep 0.05; done; echo undisturbed";
        let call = sandbox.session.bash(wait).timeout(Duration::from_secs(500));
        let running = sandbox.wait(async { call.start().await }).expect("a call");
        Self { sandbox, running, said: 0 }
    }

    /// The session answers, with its call still under way.
    fn assert_well(&mut self, after: &str) {
        self.said += 1;
        let (path, text) = ("note.txt", format!("{} {after}", self.said));
        let session = &self.sandbox.session;
        let written = session.call("list_files", json!({"path": "."}));
        let listed = self.sandbox.wait(async { written.await }).expect("a result");
        assert!(listed.success, "after {after}: {:?}", listed.error);
        fs::write(session.workspace().join(path), &text).unwrap();
        let read = self.sandbox.call("read_file", json!({"path": path}));
        assert_eq!(read.output, text);
    }

    /// Ends the call, and asserts that it was not disturbed.
    fn finish(self) {
        fs::write(self.sandbox.session.workspace().join("stop"), "").unwrap();
        let result = self.sandbox.wait(self.running.result()).expect("a result");
        assert_eq!((result.stdout.as_str(), result.exit_code), ("undisturbed\n", Some(0)));
    }
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Returns what is sent after `hello`, and the code that ends the connection.
fn bombs() -> Vec<(&'static str, Dialect, Vec<u8>, ErrorCode)> {
    use Dialect::{Frames, JsonLines};
    use ErrorCode::{FrameTooLarge, MalformedMessage, NotUtf8, TruncatedFrame, UnknownRequest};
    let line = |text: &str| format!("{text}\n").into_bytes();
    let deep = |depth| {
        let call =
            r#"{"jsonrpc":"2.0","id":9,"method":"call","params":{"tool":"bash","arguments":"#;
        line(&format!("{call}{{\"a\":{}}}}}}}", nested(depth)))
    };
    let long = |filler: &[u8]| filler.repeat(MAX_FRAME / filler.len() + 1);
    vec![
        ("length 2^32-1", Frames, vec![0xff; 4], FrameTooLarge),
        ("one byte over", Frames, (MAX_FRAME as u32 + 1).to_be_bytes().to_vec(), FrameTooLarge),
        ("length 0", Frames, vec![0; 4], MalformedMessage),
        ("half a length", Frames, vec![0, 0], TruncatedFrame),
        ("half a frame", Frames, vec![0, 0, 1, 0, 1, 2, 3], TruncatedFrame),
        ("largest frame, cut", Frames, vec![1, 0, 0, 0, 9], TruncatedFrame),
        ("unknown request", Frames, vec![0, 0, 0, 2, 7, 250], UnknownRequest),
        ("more than a request", Frames, vec![0, 0, 0, 3, 7, 6, 0], MalformedMessage),
        ("text without end", Frames, vec![0, 0, 0, 5, 7, 0, 1, 252, 255], MalformedMessage),
        (
            "text of 2^63 bytes",
            Frames,
            {
                let mut bytes = vec![0, 0, 0, 12, 7, 0, 1, 253];
                bytes.extend((1_u64 << 63).to_le_bytes());
                bytes
            },
            FrameTooLarge,
        ),
        ("text that is not UTF-8", Frames, vec![0, 0, 0, 5, 7, 0, 1, 1, 0xff], MalformedMessage),
        (
            "JSON in frames",
            Frames,
            line(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            FrameTooLarge,
        ),
        ("no JSON", JsonLines, line("ping"), MalformedMessage),
        ("half a line", JsonLines, b"{\"jsonrpc\"".to_vec(), TruncatedFrame),
        (
            "not UTF-8",
            JsonLines,
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n".to_vec(),
            NotUtf8,
        ),
        ("oversized line", JsonLines, long(b"{\"a\": "), FrameTooLarge),
        ("oversized blank", JsonLines, long(b"  "), FrameTooLarge),
        (
            "a key twice",
            JsonLines,
            line(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#),
            MalformedMessage,
        ),
        (
            "a lone surrogate",
            JsonLines,
            line(r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#),
            MalformedMessage,
        ),
        ("10^5 levels", JsonLines, line(&nested(100_000)), MalformedMessage),
        ("10^5 levels of arguments", JsonLines, deep(100_000), MalformedMessage),
        ("too many levels", JsonLines, deep(2 * MAX_DEPTH), MalformedMessage),
        (
            "a batch",
            JsonLines,
            line(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#),
            MalformedMessage,
        ),
        ("frames in JSON", JsonLines, [&[0, 0, 0, 2, 7, 6][..], b"\n"].concat(), MalformedMessage),
        ("a NUL", JsonLines, b"\0\n".to_vec(), MalformedMessage),
    ]
}

#[test]
fn each_frame_bomb_has_its_code_and_ends_only_its_own_connection() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let mut daemon = world.daemon();
        let mut bystander = Bystander::new(&daemon, &world);
        for (name, dialect, bytes, expected) in bombs() {
            let mut raw = Raw::greeted(daemon.connect(mode), dialect);
            raw.say(&bytes);
            if expected == ErrorCode::TruncatedFrame {
                raw.hush();
            }
            let error = raw.last_words();
            assert_eq!(error.code, expected, "{name}: {error}");
            assert!(error.message.len() < 1000, "{name}: {error}");
            bystander.assert_well(name);
        }
        bystander.finish();
        assert_eq!(daemon.child.try_wait().unwrap(), None);
    }
}

/// An embedded daemon, over a socket that was handed over, has one client, and ends with it.
#[test]
fn an_embedded_daemon_says_the_same_and_ends() {
    for mode in Mode::all() {
        let world = World::new(mode);
        for (name, dialect, bytes, expected) in bombs() {
            let (stream, mut daemon) = world.embedded(&[]);
            let mut raw = Raw::greeted(stream, dialect);
            raw.say(&bytes);
            if expected == ErrorCode::TruncatedFrame {
                raw.hush();
            }
            assert_eq!(raw.last_words().code, expected, "{name}");
            assert!(daemon.wait().unwrap().success(), "{name}");
        }
    }
}

#[test]
fn the_first_byte_decides_and_a_strange_one_is_told_so_in_json() {
    let world = World::new(Mode::User);
    let daemon = world.daemon();
    for first in
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0x16, 3, 1], vec![0xff; 4], vec![2, 0, 0, 0]]
    {
        let mut raw = Raw::new(daemon.connect(Mode::User), Dialect::JsonLines);
        raw.say(&first);
        assert_eq!(raw.last_words().code, ErrorCode::MalformedMessage, "{first:?}");
    }
    for dialect in DIALECTS {
        assert!(matches!(
            Raw::greeted(daemon.connect(Mode::User), dialect).ask(Request::Ping),
            Reply::Pong
        ));
    }
}

/// An error of one request is answered under its id, and the connection goes on.
#[test]
fn a_bad_request_is_answered_by_its_id_and_the_connection_goes_on() {
    let world = World::new(Mode::User);
    let daemon = world.daemon();
    let ping = || Request::Ping;
    let bash = || call("bash", &json!({"command": "true"}), CallOptions::default());
    for dialect in DIALECTS {
        let mut raw = Raw::new(daemon.connect(Mode::User), dialect);
        for request in [ping(), bash(), open(&world.workspace(), "workspace"), Request::Status] {
            assert_eq!(raw.refusal(request), ErrorCode::OutOfOrder);
        }
        for version in [0, VERSION + 1, u16::MAX] {
            assert_eq!(raw.refusal(hello(version)), ErrorCode::UnsupportedVersion);
        }
        assert!(matches!(raw.ask(hello(VERSION)), Reply::Welcome(_)));
        assert_eq!(raw.refusal(hello(VERSION)), ErrorCode::OutOfOrder);
        for request in [bash(), Request::Close, Request::Cancel(Cancel { call: 1 })] {
            assert_eq!(raw.refusal(request), ErrorCode::OutOfOrder);
        }
        assert_eq!(raw.refusal(open(&world.workspace(), "nonesuch")), ErrorCode::ProfileNotFound);
        assert!(matches!(raw.ask(open(&world.workspace(), "workspace")), Reply::Opened(_)));
        assert_eq!(raw.refusal(open(&world.workspace(), "workspace")), ErrorCode::OutOfOrder);
        assert_eq!(raw.refusal(Request::Cancel(Cancel { call: 999 })), ErrorCode::NotFound);
        let result = raw.result("bahs", &json!({}));
        assert_eq!(result.error.unwrap().code, ErrorCode::ToolNotFound);
        let result = raw.result("bash", &json!({"comand": "true"}));
        assert_eq!(result.error.unwrap().code, ErrorCode::InvalidArguments);
        // A piece for nobody has no reply and does no harm.
        raw.send(Request::Input(Input { call: 999, data: Default::default(), end: true }));
        assert!(raw.result("bash", &json!({"command": "true"})).success);
        assert!(matches!(raw.ask(Request::Close), Reply::Done));
        assert_eq!(raw.refusal(bash()), ErrorCode::OutOfOrder);
    }
    // Arguments with one level too many.
    let mut raw = Raw::opened(daemon.connect(Mode::User), Dialect::JsonLines, &world.workspace());
    let call = r#"{"jsonrpc":"2.0","id":50,"method":"call","params":{"tool":"bash","arguments":"#;
    raw.say(format!("{call}{{\"a\":{}}}}}}}\n", nested(MAX_DEPTH)).as_bytes());
    match raw.reply() {
        (Some(50), Reply::Error(error)) => assert_eq!(error.code, ErrorCode::InvalidRequest),
        other => panic!("{other:?}"),
    }
    // In JSON an unknown method, a field too many and an id used twice have an id to go by.
    let mut raw = Raw::opened(daemon.connect(Mode::User), Dialect::JsonLines, &world.workspace());
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":50,"method":"exec"}"#, ErrorCode::UnknownRequest),
        (
            r#"{"jsonrpc":"2.0","id":50,"method":"ping","params":{"x":1}}"#,
            ErrorCode::InvalidRequest,
        ),
        (r#"{"jsonrpc":"1.0","id":50,"method":"ping"}"#, ErrorCode::MalformedMessage),
    ] {
        raw.say(format!("{line}\n").as_bytes());
        match raw.reply() {
            (Some(50), Reply::Error(error)) => assert_eq!(error.code, expected, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
}

/// A message that is begun and not ended holds nobody up, and is not waited for without end.
#[test]
fn a_stalled_message_is_given_up_and_holds_nobody_up() {
    let worlds: Vec<_> = Mode::all().into_iter().map(World::new).collect();
    let daemons: Vec<_> = worlds.iter().map(World::daemon).collect();
    let mut stalled = Vec::new();
    let mut bystanders = Vec::new();
    for (world, daemon) in worlds.iter().zip(&daemons) {
        bystanders.push(Bystander::new(daemon, world));
        for dialect in DIALECTS {
            let whole = encode(dialect, 7, Request::Ping);
            let (most, _) = whole.split_at(whole.len() - 1);
            let mut late = Raw::greeted(daemon.connect(world.mode), dialect);
            late.say(most);
            stalled.push((late, ErrorCode::TruncatedFrame));
            let mut silent = Raw::new(daemon.connect(world.mode), dialect);
            silent.say(&most[..1]);
            stalled.push((silent, ErrorCode::OutOfOrder));
        }
    }
    bystanders.iter_mut().for_each(|bystander| bystander.assert_well("stalls"));
    // Silence before `hello` has its end first; half a minute inside a message is the broker's own
    // test with a clock that it moves, and here for who has the time.
    let waited_for =
        effort(&[ErrorCode::OutOfOrder][..], &[ErrorCode::OutOfOrder, ErrorCode::TruncatedFrame]);
    for (mut raw, expected) in stalled {
        if waited_for.contains(&expected) {
            assert_eq!(raw.last_words().code, expected);
        }
    }
    bystanders.iter_mut().for_each(|bystander| bystander.assert_well("stalls"));
    bystanders.into_iter().for_each(Bystander::finish);
}

/// A client that stops sending in the middle of an attachment hears so at once, and nothing of it
/// is written; one that had sent all of it still hears its result.
#[test]
fn an_attachment_that_will_never_be_whole_ends_its_call() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        for (dialect, (end, name)) in DIALECTS.into_iter().flat_map(|dialect| {
            [(false, "part"), (true, "whole")].map(|attachment| (dialect, attachment))
        }) {
            let name = format!("{name}-{dialect:?}");
            let stream = daemon.connect(world.mode);
            let mut raw = Raw::opened(stream, dialect, &world.workspace());
            let options = CallOptions { attach: true, ..CallOptions::default() };
            let id = raw.send(call("write_file", &json!({"path": name}), options));
            raw.send(Request::Input(Input { call: id, data: Bytes(b"text".to_vec()), end }));
            raw.hush();
            let (replied, Reply::Result(result)) = raw.reply() else { panic!("no result") };
            assert_eq!(replied, Some(id));
            let written = fs::read_to_string(world.workspace().join(&name)).ok();
            if end {
                assert!(result.success, "{:?}", result.error);
                assert_eq!(written.as_deref(), Some("text"));
            } else {
                let error = result.error.expect("an error");
                assert_eq!(error.code, ErrorCode::InvalidRequest, "{error}");
                assert!(error.message.contains("the client stopped sending"), "{error}");
                assert_eq!(written, None);
            }
        }
    }
}

/// Good messages, to be made bad.
fn seeds(world: &World, dialect: Dialect) -> Vec<Vec<u8>> {
    // A call whose attachment never ends is waited for no longer than this.
    let timeout_ms = Some(1000);
    let options = CallOptions { attach: true, stream: true, timeout_ms, ..CallOptions::default() };
    let requests = [
        Request::Ping,
        Request::Status,
        Request::Tools(Default::default()),
        open(&world.workspace(), "workspace"),
        call("bash", &json!({"command": "true", "env": {"A": "é"}}), CallOptions::default()),
        call("read_file", &json!({"path": "seed"}), CallOptions::default()),
        call("write_file", &json!({"path": "seed"}), options),
        Request::Input(Input { call: 7, data: Default::default(), end: true }),
        Request::Cancel(Cancel { call: 5 }),
        Request::Close,
    ];
    requests.into_iter().enumerate().map(|(n, r)| encode(dialect, n as u64 + 2, r)).collect()
}

/// Bytes of good messages, mostly: some changed, doubled, dropped, or out of order.
fn mangle(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + dice.roll(6) {
        bytes.extend_from_slice(&seeds[dice.roll(seeds.len())]);
    }
    for _ in 0..dice.roll(8) {
        let at = dice.roll(bytes.len());
        match dice.roll(4) {
            0 => bytes[at] = dice.roll(256) as u8,
            1 => bytes[at] ^= 1 << dice.roll(8),
            2 => drop(bytes.drain(at..(at + dice.roll(20)).min(bytes.len()))),
            _ => {
                let noise = (0..dice.roll(64)).map(|_| dice.roll(256) as u8).collect::<Vec<_>>();
                bytes.splice(at..at, noise);
            }
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

/// More than the daemon may grow by, however long it is fed with nonsense.
const GROWTH: u64 = 48 << 20;

#[test]
fn random_and_mangled_bytes_do_the_daemon_no_harm() {
    let seconds = setting("PALISADE_FUZZ_SECONDS").unwrap_or_else(|| effort(3, 120));
    let mut dice = Dice::new("mangled bytes");
    for mode in Mode::all() {
        let world = World::new(mode);
        let mut daemon = world.daemon();
        let mut bystander = Bystander::new(&daemon, &world);
        let before = resident(daemon.child.id());
        let until = std::time::Instant::now() + Duration::from_secs(seconds);
        let mut rounds = 0;
        while rounds < 20 || std::time::Instant::now() < until {
            let dialect = DIALECTS[dice.roll(2)];
            let mut bytes = mangle(&seeds(&world, dialect), &mut dice);
            let stream = daemon.connect(mode);
            let mut raw = match dice.roll(4) {
                0 => Raw::new(stream, dialect),
                1 => Raw::opened(stream, dialect, &world.workspace()),
                _ => Raw::greeted(stream, dialect),
            };
            if dice.roll(8) == 0 {
                bytes = (0..dice.roll(4096)).map(|_| dice.roll(256) as u8).collect();
            }
            raw.say(&bytes);
            // Some leave without waiting for what they would be told.
            if dice.roll(4) != 0 {
                raw.hush();
                raw.drain();
            }
            rounds += 1;
            assert_eq!(daemon.child.try_wait().unwrap(), None, "died in round {rounds}");
            if rounds % 20 == 0 {
                bystander.assert_well("mangled bytes");
            }
        }
        bystander.assert_well("mangled bytes");
        bystander.finish();
        let after = resident(daemon.child.id());
        report("fuzzed connections", rounds);
        report("growth by fuzzed connections, KiB", after.saturating_sub(before) >> 10);
        assert!(after < before + GROWTH, "from {before} to {after} in {rounds} rounds");
    }
}
