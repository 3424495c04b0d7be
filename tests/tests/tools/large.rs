//! Files that are large, or seem so, or become so: exact where they are allowed, refused with a
//! clear error where not, in bounded memory always.

use palisade_client::Error;
use palisade_protocol::{Bytes, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data, effort, processes, profile_with};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
};

/// More than a frame and more than usually is allowed.
fn large() -> usize {
    effort(17 << 20, 50 << 20)
}

/// Bytes without a pattern that a lost or doubled piece would fit into.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

/// A profile that takes as much, and time for it on a slow machine.
fn large_profile() -> String {
    profile_with(&[("timeout_ms = 30_000\n", "timeout_ms = 600_000\n")])
}

#[test]
fn many_mebibytes_go_through_frames_unchanged() {
    let content = noise(large());
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("large", &large_profile());
        let sandbox = world.open_with("large");
        let written = sandbox.wait(sandbox.session.write_bytes("large", &content)).unwrap();
        assert_eq!(data(&written)["size"], json!(content.len()));
        assert!(fs::read(world.workspace().join("large")).unwrap() == content, "on disk");
        let read = sandbox.wait(sandbox.session.read_bytes("large")).unwrap();
        assert!(read == content, "and back: {} bytes", read.len());
    }
}

/// A client that knows nothing but the page on the protocol.
struct Lines {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    last: u64,
}

impl Lines {
    fn send(&mut self, message: &Value) {
        let mut line = serde_json::to_vec(message).unwrap();
        line.push(b'\n');
        self.writer.write_all(&line).unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.reader.read_line(&mut line).unwrap(), 0, "the connection ended");
        serde_json::from_str(&line).unwrap()
    }

    /// The reply to a request, and the contents that came before it.
    fn reply(&mut self, id: u64) -> (Value, Vec<u8>) {
        let mut content = Vec::new();
        loop {
            let message = self.hear();
            if message["method"] == "event" {
                let params = &message["params"];
                assert_eq!((&params["stream"], &params["call"]), (&json!("content"), &json!(id)));
                let piece: Bytes = serde_json::from_value(params["data"].clone()).unwrap();
                content.extend_from_slice(&piece.0);
                continue;
            }
            assert_eq!((&message["id"], &message["error"]), (&json!(id), &Value::Null));
            return (message["result"].clone(), content);
        }
    }
}

#[test]
fn many_mebibytes_go_through_json_lines_unchanged() {
    let content = noise(large());
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("large", &large_profile());
        let (stream, mut daemon) = world.embedded(&[]);
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut lines = Lines { reader, writer: stream, last: 0 };
        let hello = lines.request("hello", json!({"version": 1}));
        assert_eq!(lines.reply(hello).0["kind"], "welcome");
        let open = json!({"workspace": world.workspace(), "profile": "large"});
        let open = lines.request("open", open);
        assert_eq!(lines.reply(open).0["kind"], "opened");
        let call = json!({
            "tool": "write_file", "arguments": {"path": "large"}, "options": {"attach": true},
        });
        let write = lines.request("call", call);
        let mut pieces = content.chunks(200_000).peekable();
        while let Some(piece) = pieces.next() {
            let params = json!({
                "call": write, "data": Bytes(piece.to_vec()), "end": pieces.peek().is_none(),
            });
            lines.send(&json!({"jsonrpc": "2.0", "method": "input", "params": params}));
        }
        let (result, _) = lines.reply(write);
        assert_eq!(
            (&result["success"], &result["data"]["size"]),
            (&json!(true), &json!(content.len()))
        );
        assert!(fs::read(world.workspace().join("large")).unwrap() == content, "on disk");
        let call = json!({
            "tool": "read_file", "arguments": {"path": "large", "encoding": "raw"},
            "options": {"stream": true},
        });
        let read = lines.request("call", call);
        let (result, back) = lines.reply(read);
        assert_eq!(
            (&result["success"], &result["data"]["bytes"]),
            (&json!(true), &json!(content.len()))
        );
        assert!(back == content, "and back: {} bytes", back.len());
        drop(lines);
        daemon.wait().unwrap();
    }
}

#[test]
fn a_profile_says_that_it_is_too_large() {
    let content = noise(large());
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.workspace().join("there"), &content).unwrap();
        world.add_unasked("ten", &profile_with(&[("file = \"64 MiB\"", "file = \"10 MiB\"")]));
        let sandbox = world.open_with("ten");
        assert!(sandbox.done("write_file", json!({"path": "kept", "content": "old"})).success);
        for path in ["kept", "new/deep"] {
            let refused = sandbox.wait(sandbox.session.write_bytes(path, &content));
            let Err(Error::Failed(result)) = refused else { panic!("{refused:?}") };
            let error = result.error.unwrap();
            assert_eq!(error.code, ErrorCode::TooLarge);
            assert!(error.message.contains("at most 10485760 can be written"), "{}", error.message);
            assert!(error.hint.contains("limits.file"), "{}", error.hint);
        }
        let refused = sandbox.wait(sandbox.session.read_bytes("there"));
        let Err(Error::Failed(result)) = refused else { panic!("it was read") };
        let error = result.error.unwrap();
        assert_eq!(error.code, ErrorCode::TooLarge);
        assert!(
            error.message.contains(&format!("has {} bytes, and at most 10485760", large())),
            "{}",
            error.message
        );
        assert_eq!(fs::read_to_string(world.workspace().join("kept")).unwrap(), "old");
        assert!(!world.workspace().join("new").exists());
        // The control: what fits, and the same connection.
        let fits = &content[..10 << 20];
        sandbox.wait(sandbox.session.write_bytes("fits", fits)).unwrap();
        assert!(sandbox.wait(sandbox.session.read_bytes("fits")).unwrap() == fits);
    }
}

/// The most memory that the process of the session's file tools ever had, in KiB.
fn peak(sandbox: &Sandbox) -> u64 {
    let daemon = sandbox.daemon.as_ref().unwrap().id().cast_signed();
    let family = processes::tree(daemon);
    let files = family.iter().find(|process| process.name.ends_with("files")).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", files.pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_sparse_tebibyte_is_refused_or_read_as_far_as_is_allowed() {
    const TEBIBYTE: u64 = 1 << 40;
    for mode in Mode::all() {
        let world = World::new(mode);
        let file = fs::File::create(world.workspace().join("sparse")).unwrap();
        file.set_len(TEBIBYTE).unwrap();
        world.add_unasked("small", &profile_with(&[("file = \"64 MiB\"", "file = \"1 MiB\"")]));
        let sandbox = world.open_with("small");
        for encoding in ["text", "base64", "raw"] {
            let whole = json!({"path": "sparse", "encoding": encoding});
            let (code, message) = sandbox.refused("read_file", whole);
            assert_eq!(code, ErrorCode::TooLarge);
            assert!(message.contains("1099511627776 bytes"), "{message}");
        }
        // Its first line has no end: as much of it as may be read, and it says so.
        let first = data(&sandbox.done("read_file", json!({"path": "sparse", "limit": 1})));
        assert_eq!((&first["bytes"], &first["size"]), (&json!(1 << 20), &json!(TEBIBYTE)));
        assert_eq!(first["complete"], json!(false));
        // Its second is not looked for to the end.
        let (code, message) = sandbox.refused("read_file", json!({"path": "sparse", "offset": 2}));
        assert_eq!(code, ErrorCode::TooLarge);
        assert!(message.contains("not within its first"), "{message}");
        let append = json!({"path": "sparse", "content": "x", "mode": "append"});
        let (code, message) = sandbox.refused("write_file", append);
        assert!(matches!(code, ErrorCode::TooLarge | ErrorCode::OutsidePolicy), "{message}");
        assert_eq!(file.metadata().unwrap().len(), TEBIBYTE);
        let entries = data(&sandbox.done("list_files", json!({})))["entries"].clone();
        assert_eq!(entries[1], json!({"path": "sparse", "kind": "file", "size": TEBIBYTE}));
        let peak = peak(&sandbox);
        assert!(peak < 64 << 10, "the file tools had {peak} KiB");
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_read_to_where_it_was() {
    const START: usize = 1 << 20;
    const END: usize = 9 << 20;
    let start = vec![b'x'; START];
    for mode in Mode::all() {
        let world = World::new(mode);
        let (path, aside) = (world.workspace().join("growing"), world.workspace().join("aside"));
        fs::write(&path, &start).unwrap();
        let sandbox = world.open();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // A new file each time: one that shrinks would be another story.
                    fs::write(&aside, &start).unwrap();
                    fs::rename(&aside, &path).unwrap();
                    let mut file = fs::File::options().append(true).open(&path).unwrap();
                    for _ in 0..(END - START) / 512 {
                        file.write_all(&[b'x'; 512]).unwrap();
                    }
                }
            });
            let mut cut = 0;
            for _ in 0..2000 {
                let found = data(&sandbox.done("read_file", json!({"path": "growing"})));
                assert_eq!(
                    found["bytes"], found["size"],
                    "as much as there was when it was opened"
                );
                assert!(found["bytes"].as_u64().unwrap() <= END as u64);
                if found["complete"] == json!(false) {
                    cut += 1;
                }
                if cut == 3 {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
            assert!(cut > 0, "it never grew while it was read");
        });
    }
}
