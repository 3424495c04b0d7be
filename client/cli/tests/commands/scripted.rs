//! The command line against a scripted daemon: what it sends, what it prints, and its exit status.

use palisade_protocol::{
    Bytes, Call, CallResult, Envelope, ErrorCode, Event, Opened, RawPath, Receipt, Reply, Request,
    RequestId, ServerMessage, SessionLimits, Stream, Welcome, WireError, codec, limits::VERSION,
};
use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
};

/// The daemon's side of one connection.
struct Daemon {
    stream: UnixStream,
}

impl Daemon {
    fn next(&mut self) -> Option<Envelope> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).ok()?;
        let mut body = vec![0; codec::frame_length(prefix).unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Some(codec::decode(&body).unwrap())
    }

    fn send(&mut self, message: &ServerMessage) {
        self.stream.write_all(&codec::frame(message).unwrap()).unwrap();
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        self.send(&ServerMessage::Reply { id: Some(id), reply });
    }

    fn output(&mut self, call: RequestId, stream: Stream, data: &[u8]) {
        let data = Bytes(data.to_vec());
        self.send(&ServerMessage::Event(Event::Output { call, stream, data }));
    }

    /// Greets, opens a session, and returns the first call.
    fn call(&mut self) -> (RequestId, Call) {
        loop {
            let Envelope { id, request } = self.next().unwrap();
            if let Request::Hello(_) = request {
                let server = "fake".to_owned();
                let welcome = Welcome { version: VERSION, server, capabilities: vec![] };
                self.reply(id, Reply::Welcome(welcome));
            } else if let Request::Open(open) = request {
                let opened = Opened {
                    session: "s1".parse().unwrap(),
                    workspace: open.workspace,
                    receipt: Receipt::default(),
                    receipt_digest: String::new(),
                    token: None,
                    grace_ms: 0,
                    limits: limits(),
                };
                self.reply(id, Reply::Opened(Box::new(opened)));
            } else if let Request::Call(call) = request {
                return (id, call);
            } else {
                panic!("{request:?}");
            }
        }
    }
}

/// Returns limits as the profile `workspace` has them.
fn limits() -> SessionLimits {
    SessionLimits { timeout_ms: 30_000, max_timeout_ms: 600_000, ..SessionLimits::default() }
}

fn result() -> CallResult {
    let text = r#"{"call_id":"c1","tool":"bash","success":true,"output":"","truncated":false,
        "lossy":false,"execution_time_ms":1,"error":null,"stdout":"","stderr":"","exit_code":0,
        "signal":null,"timed_out":false,"cancelled":false,"oom":false,"pipe_held":false,
        "omitted_bytes":0,"spool":null,"data":null,"undo":null,"findings":[],"denials":[],
        "checkpoint":null,"receipt":{}}"#;
    serde_json::from_str(text).unwrap()
}

/// A running `palisade` and the daemon it talks to.
struct Scene<T> {
    child: Child,
    daemon: JoinHandle<T>,
    _directory: tempfile::TempDir,
}

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn scene<T: Send + 'static>(
    words: &[&str],
    script: impl FnOnce(&mut Daemon) -> T + Send + 'static,
) -> Scene<T> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = std::thread::spawn(move || {
        let mut daemon = Daemon { stream: listener.accept().unwrap().0 };
        let told = script(&mut daemon);
        // Serves until the client disconnects, as a daemon does.
        while daemon.next().is_some() {}
        told
    });
    let child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(words)
        .env("PALISADE_SOCKET", &path)
        .env("NO_COLOR", "1")
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Scene { child, daemon, _directory: directory }
}

impl<T> Scene<T> {
    fn end(self) -> (Output, T) {
        (self.child.wait_with_output().unwrap(), self.daemon.join().unwrap())
    }
}

/// Runs a command to its end, with this result for its call.
fn with_result(words: &[&str], result: CallResult) -> Output {
    let answer = move |daemon: &mut Daemon| {
        let (id, _) = daemon.call();
        daemon.reply(id, Reply::Result(Box::new(result)));
    };
    scene(words, answer).end().0
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn both_streams_come_apart_and_byte_for_byte() {
    let (output, call) = scene(&["run", "--", "echo a; echo b >&2"], |daemon| {
        let (id, call) = daemon.call();
        daemon.output(id, Stream::Stdout, b"\xff\x00a\r\n");
        daemon.output(id, Stream::Stderr, b"\xfeb");
        daemon.output(id, Stream::Stdout, &[b'x'; 200_000]);
        daemon.reply(id, Reply::Result(Box::new(result())));
        call
    })
    .end();
    assert_eq!(call.arguments.as_str(), r#"{"command":"echo a; echo b >&2"}"#);
    assert!(call.options.stream && !call.options.attach);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, [b"\xff\x00a\r\n".to_vec(), vec![b'x'; 200_000]].concat());
    assert_eq!(output.stderr, b"\xfeb");
}

#[test]
fn options_become_the_call() {
    let words = [
        "run",
        "--timeout",
        "2m",
        "--reason",
        "why",
        "--dry-run",
        "--env",
        "A=1",
        "--cwd",
        "sub",
        "--",
        "ls",
        "-l",
    ];
    let (_, call) = scene(&words, |daemon| {
        let (id, call) = daemon.call();
        daemon.reply(id, Reply::Result(Box::new(result())));
        call
    })
    .end();
    let arguments = r#"{"argv":["ls","-l"],"cwd":"sub","env":{"A":"1"}}"#;
    assert_eq!(call.arguments.as_str(), arguments);
    assert_eq!(call.options.timeout_ms, Some(120_000));
    assert_eq!(call.reason.as_deref(), Some("why"));
    assert!(call.options.dry_run);
}

#[test]
fn a_command_may_take_two_minutes_and_as_long_as_the_profile_allows_if_asked() {
    let timeout = |words: &[&str]| {
        let (output, call) = scene(words, |daemon| {
            let (id, call) = daemon.call();
            daemon.reply(id, Reply::Result(Box::new(result())));
            call
        })
        .end();
        (call.options.timeout_ms, text(&output.stderr))
    };
    assert_eq!(timeout(&["run", "--", "true"]), (Some(120_000), String::new()));
    let (longest, told) = timeout(&["run", "--timeout", "none", "--", "true"]);
    assert_eq!(longest, Some(600_000));
    assert_eq!(
        told,
        "note: the profile ends the command after 10m (limits.max_timeout_ms, or limits.job_ms with \
         a private daemon); see --background\n"
    );
    assert_eq!(
        timeout(&["run", "--timeout", "1h", "--", "true"]),
        (Some(3_600_000), String::new())
    );
    assert_eq!(timeout(&["call", "bash", "--args", "{}"]), (None, String::new()));
}

#[test]
fn json_is_one_object_on_stdout() {
    let words = ["run", "--json", "--", "false"];
    let mut failed = result();
    failed.success = false;
    failed.exit_code = Some(7);
    let output = with_result(&words, failed.clone());
    assert_eq!(output.status.code(), Some(7));
    let stdout = text(&output.stdout);
    assert_eq!(stdout.lines().count(), 1);
    assert_eq!(serde_json::from_str::<CallResult>(&stdout).unwrap(), failed);
    assert!(output.stderr.is_empty());
}

#[test]
fn a_refusal_with_json_is_one_object_too() {
    let (output, ()) = scene(&["run", "--json", "--", "true"], |daemon| {
        let (id, _) = daemon.call();
        let error = WireError::new(ErrorCode::LauncherGone, "no launcher", "restart");
        daemon.reply(id, Reply::Error(error));
    })
    .end();
    assert_eq!(output.status.code(), Some(125));
    let expected = serde_json::json!({"success": false,
        "error": {"code": "launcher_gone", "message": "no launcher", "hint": "restart"}});
    let value: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(value, expected);
    assert_eq!(text(&output.stderr), "error: no launcher\nhint: restart\n");
}

#[test]
fn a_denial_is_126_with_reason_and_hint() {
    let mut denied = result();
    denied.success = false;
    denied.exit_code = None;
    denied.error = Some(WireError::new(ErrorCode::Denied, "nobody to ask", "attach one"));
    let output = with_result(&["run", "--", "rm x"], denied);
    assert_eq!(output.status.code(), Some(126));
    assert!(output.stdout.is_empty());
    assert_eq!(text(&output.stderr), "error: denied: nobody to ask\nhint: attach one\n");
}

#[test]
fn a_deadline_is_124() {
    let mut late = result();
    late.success = false;
    late.timed_out = true;
    late.exit_code = Some(137);
    let output = with_result(&["run", "--", "sleep 1000"], late);
    assert_eq!(output.status.code(), Some(124));
}

#[test]
fn a_missing_layer_is_always_told() {
    let mut degraded = result();
    degraded.receipt.as_mut().unwrap().degraded = vec![palisade_protocol::Degraded {
        layer: "limits".to_owned(),
        why: "no cgroup".to_owned(),
    }];
    let output = with_result(&["run", "--", "true"], degraded.clone());
    assert_eq!(
        text(&output.stderr),
        "warning: limits apply to each process only: no cgroup is delegated (see palisade doctor)\n"
    );
    let output = with_result(&["run", "-v", "--", "true"], degraded);
    assert!(text(&output.stderr).starts_with("confined: "), "{}", text(&output.stderr));
}

#[test]
fn a_daemon_that_goes_away_is_125() {
    let (output, ()) = scene(&["run", "--", "true"], |daemon| {
        daemon.call();
        daemon.stream.shutdown(std::net::Shutdown::Both).unwrap();
    })
    .end();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).starts_with("error: the connection to the daemon ended"));
}

#[test]
fn standard_input_is_passed_on_only_when_asked() {
    let mut with = scene(&["run", "--stdin", "--", "cat"], |daemon| {
        let (id, call) = daemon.call();
        assert!(call.options.attach);
        let mut received = Vec::new();
        loop {
            let Request::Input(input) = daemon.next().unwrap().request else { panic!("no input") };
            received.extend(input.data.0);
            if input.end {
                break;
            }
        }
        daemon.reply(id, Reply::Result(Box::new(result())));
        received
    });
    with.child.stdin.take().unwrap().write_all(b"\x00\xffin").unwrap();
    assert_eq!(with.end().1, b"\x00\xffin");
    let (_, attached) = scene(&["run", "--", "cat"], |daemon| {
        let (id, call) = daemon.call();
        daemon.reply(id, Reply::Result(Box::new(result())));
        call.options.attach
    })
    .end();
    assert!(!attached);
}

#[test]
fn an_unread_standard_input_does_not_hold_up_the_end() {
    let mut scene = scene(&["run", "--stdin", "--", "true"], |daemon| {
        let (id, _) = daemon.call();
        daemon.reply(id, Reply::Result(Box::new(result())));
    });
    // Standard input stays open until the program has ended by itself.
    let stdin = scene.child.stdin.take();
    assert_eq!(scene.end().0.status.code(), Some(0));
    drop(stdin);
}

fn interrupt(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[test]
fn ctrl_c_cancels_and_shows_what_still_comes() {
    let (called, calls) = std::sync::mpsc::channel();
    let scene = scene(&["run", "--", "sleep 1000"], move |daemon| {
        let (id, _) = daemon.call();
        daemon.output(id, Stream::Stdout, b"started\n");
        called.send(()).unwrap();
        let Envelope { id: asked, request } = daemon.next().unwrap();
        assert_eq!(request, Request::Cancel(palisade_protocol::Cancel { call: id }));
        daemon.reply(asked, Reply::Done);
        daemon.output(id, Stream::Stdout, b"stopped\n");
        let mut cancelled = result();
        cancelled.success = false;
        cancelled.cancelled = true;
        daemon.reply(id, Reply::Result(Box::new(cancelled)));
    });
    calls.recv().unwrap();
    let mut scene = scene;
    let mut stdout = scene.child.stdout.take().unwrap();
    let mut seen = [0; 8];
    // Once output is shown, the signal handler is installed.
    stdout.read_exact(&mut seen).unwrap();
    interrupt(&scene.child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((&seen, rest.as_str()), (b"started\n", "stopped\n"));
    assert_eq!(scene.end().0.status.code(), Some(130));
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let mut scene = scene(&["run", "--", "sleep 1000"], |daemon| {
        let (id, _) = daemon.call();
        daemon.output(id, Stream::Stdout, b"started\n");
        // The cancel request is received and ignored.
        daemon.next().unwrap().request
    });
    let mut stdout = scene.child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 8]).unwrap();
    interrupt(&scene.child);
    // A signal that arrives together with the first is merged with it, so signals are sent until
    // the program ends.
    let status = loop {
        std::thread::sleep(std::time::Duration::from_millis(20));
        match scene.child.try_wait().unwrap() {
            Some(status) => break status,
            None => interrupt(&scene.child),
        }
    };
    assert_eq!(status.code(), Some(130));
    assert!(matches!(scene.daemon.join().unwrap(), Request::Cancel(_)));
}

#[test]
fn a_reader_that_leaves_ends_the_call_quietly() {
    let mut scene = scene(&["run", "--", "yes"], |daemon| {
        let (id, _) = daemon.call();
        // More than a pipe holds: the write ends only when the reader is gone.
        daemon.output(id, Stream::Stdout, &[b'y'; 200_000]);
        daemon.next().unwrap().request
    });
    drop(scene.child.stdout.take());
    let (output, heard) = scene.end();
    assert!(matches!(heard, Request::Cancel(_)), "{heard:?}");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn call_prints_the_text_and_raw_the_bytes() {
    let mut read = result();
    read.output = "line".to_owned();
    let output = with_result(&["call", "read_file", "--args", r#"{"path":"f"}"#], read);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "line\n".to_owned()));
    let words = ["call", "read_file", "--raw", "--args", r#"{"path":"f","encoding":"raw"}"#];
    let (output, call) = scene(&words, |daemon| {
        let (id, call) = daemon.call();
        daemon.output(id, Stream::Content, b"\x00\xff");
        daemon.reply(id, Reply::Result(Box::new(result())));
        call
    })
    .end();
    assert!(call.options.stream);
    assert_eq!(call.arguments.as_str(), words[4]);
    assert_eq!(output.stdout, b"\x00\xff");
}

#[test]
fn call_takes_its_arguments_from_standard_input() {
    let mut scene = scene(&["call", "write_file", "--args-file", "-"], |daemon| {
        let (id, call) = daemon.call();
        daemon.reply(id, Reply::Result(Box::new(result())));
        call.arguments
    });
    scene.child.stdin.take().unwrap().write_all(br#"{"path":"f"}"#).unwrap();
    assert_eq!(scene.end().1.as_str(), r#"{"path":"f"}"#);
}

#[test]
fn the_workspace_is_named_without_links() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().canonicalize().unwrap().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let words = ["run", "--workspace", link.to_str().unwrap(), "--ask", "always", "--", "true"];
    let (_, open) = scene(&words, |daemon| {
        let hello = daemon.next().unwrap();
        let server = "fake".to_owned();
        let welcome = Welcome { version: VERSION, server, capabilities: vec![] };
        daemon.reply(hello.id, Reply::Welcome(welcome));
        let Envelope { id, request } = daemon.next().unwrap();
        let Request::Open(open) = request else { panic!("{request:?}") };
        let error = WireError::new(ErrorCode::WorkspaceRefused, "no", "");
        daemon.reply(id, Reply::Error(error));
        open
    })
    .end();
    assert_eq!(open.workspace, RawPath::from(real));
    assert_eq!(open.options.ask, Some(palisade_protocol::Ask::Always));
}
