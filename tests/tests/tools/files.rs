//! The file tools on every kind of file, name and content, through broker and cell.

use palisade_protocol::{CallResult, ErrorCode, RawPath};
use palisade_tests::{Mode, World, data, profile_never_asking, profile_with};
use serde_json::json;
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Whatever the umask is, the session may open it: the kind is why it is refused.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// The names in a directory, but for the probe.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "probe")
        .collect();
    names.sort();
    names
}

#[test]
fn a_fifo_is_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make_fifo(&world.workspace().join("fifo"));
        world.add_unasked("free", &profile_never_asking());
        let sandbox = world.open_with("free");
        // More often than there are channels to the cell: none of them hangs.
        for _ in 0..12 {
            for (tool, arguments) in [
                ("read_file", json!({"path": "fifo"})),
                ("read_file", json!({"path": "fifo", "offset": 1, "limit": 1})),
                ("read_file", json!({"path": "fifo", "encoding": "raw"})),
                ("write_file", json!({"path": "fifo", "content": "x"})),
                ("write_file", json!({"path": "fifo", "content": "x", "mode": "append"})),
            ] {
                let (code, message) = sandbox.refused(tool, arguments);
                assert_eq!(code, ErrorCode::NotRegular);
                assert!(message.contains("is a FIFO"), "{message}");
            }
        }
        let create = json!({"path": "fifo", "content": "x", "mode": "create"});
        assert_eq!(sandbox.refused("write_file", create).0, ErrorCode::AlreadyExists);
        assert_eq!(sandbox.done("list_files", json!({})).output, "fifo?\nprobe\n");
        // It can be deleted, as a name; and the control is a file in its place.
        assert!(sandbox.done("delete_file", json!({"path": "fifo"})).success);
        assert!(sandbox.done("write_file", json!({"path": "fifo", "content": "x"})).success);
        assert_eq!(sandbox.done("read_file", json!({"path": "fifo"})).output, "x");
    }
}

#[test]
fn devices_sockets_and_directories_are_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let socket = world.workspace().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(world.workspace().join("directory")).unwrap();
        let sandbox = world.open();
        let paths = [
            "/dev/zero",
            "/dev/random",
            "/dev/full",
            "/dev/null",
            "/dev/tty",
            "socket",
            "directory",
            ".",
            "/",
        ];
        for path in paths {
            let (code, message) = sandbox.refused("read_file", json!({"path": path}));
            assert_eq!(code, ErrorCode::NotRegular, "{path}: {message}");
        }
        for path in ["/dev/zero", "/dev/null", "/dev/full", "socket", "directory"] {
            for write in ["overwrite", "append"] {
                let arguments = json!({"path": path, "content": "x", "mode": write});
                let (code, message) = sandbox.refused("write_file", arguments);
                assert_eq!(code, ErrorCode::NotRegular, "{path}: {message}");
            }
        }
        assert!(listener.accept().is_err(), "nobody connected");
        // There is no disk in there to begin with.
        assert_eq!(sandbox.ok("find /dev -type b").trim(), "");
        let (code, message) = sandbox.refused("list_files", json!({"path": "probe"}));
        assert_eq!(code, ErrorCode::InvalidArguments, "{message}");
        // The control.
        assert_eq!(sandbox.done("list_files", json!({"path": "directory"})).output, "");
    }
}

#[test]
fn files_that_lie_about_their_size_are_capped() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("small", &profile_with(&[("file = \"64 MiB\"", "file = \"1 KiB\"")]));
        let small = world.open_with("small");
        // It says that it has no bytes, and has more than a thousand.
        let result = small.done("read_file", json!({"path": "/proc/meminfo"}));
        let found = data(&result);
        assert_eq!((&found["size"], &found["bytes"]), (&json!(0), &json!(1024)));
        assert_eq!(found["complete"], json!(false));
        assert_eq!(result.output.len(), 1024);
        let sandbox = world.open();
        let whole = sandbox.done("read_file", json!({"path": "/proc/meminfo"}));
        assert_eq!(data(&whole)["complete"], json!(true));
        assert!(whole.output.starts_with("MemTotal:") && whole.output.ends_with("kB\n"));
        // Files without an end do not exist, or not for a session.
        for path in ["/proc/kmsg", "/proc/kcore", "/sys/kernel/notes", "/sys/kernel/vmcoreinfo"] {
            let expected = if path.starts_with("/proc") && Path::new(path).exists() {
                ErrorCode::OutsidePolicy
            } else {
                ErrorCode::NotFound
            };
            assert_eq!(sandbox.refused("read_file", json!({"path": path})).0, expected, "{path}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_told_apart_and_come_back_exactly() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let every: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        let file = world.workspace().join("binary");
        fs::write(&file, &every).unwrap();
        let sandbox = world.open();
        let result = sandbox.call("read_file", json!({"path": "binary", "encoding": "text"}));
        let error = result.error.unwrap();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.ends_with("is not UTF-8 text"), "{}", error.message);
        assert!(error.hint.contains("base64"), "{}", error.hint);
        assert_eq!(result.output, "", "nothing of it is shown");
        for arguments in
            [json!({"path": "binary", "encoding": "base64"}), json!({"path": "binary"})]
        {
            let result = sandbox.done("read_file", arguments);
            let content: palisade_protocol::Bytes =
                serde_json::from_value(data(&result)["content"].clone()).unwrap();
            assert_eq!(content.0, every);
        }
        assert_eq!(sandbox.wait(sandbox.session.read_bytes("binary")).unwrap(), every);
        sandbox.wait(sandbox.session.write_bytes("copy", &every)).unwrap();
        assert_eq!(fs::read(world.workspace().join("copy")).unwrap(), every);
        // Text with everything that text may have, in one piece and by lines.
        let text = "\u{feff}ü\r\nzwei\0\n\u{202e}drei\u{1b}[31m\n\nfünf ohne Ende";
        assert!(sandbox.done("write_file", json!({"path": "text", "content": text})).success);
        assert_eq!(fs::read_to_string(world.workspace().join("text")).unwrap(), text);
        assert_eq!(sandbox.done("read_file", json!({"path": "text"})).output, text);
        let lines = sandbox.done("read_file", json!({"path": "text", "offset": 2, "limit": 2}));
        assert_eq!(lines.output, "zwei\0\n\u{202e}drei\u{1b}[31m\n");
        let end = sandbox.done("read_file", json!({"path": "text", "offset": 5}));
        assert_eq!(end.output, "fünf ohne Ende");
        let beyond = sandbox.done("read_file", json!({"path": "text", "offset": 6}));
        assert_eq!(beyond.output, "");
    }
}

#[test]
fn names_of_any_bytes_survive() {
    let odd: [&[u8]; 8] = [
        b"\xff\xfe not utf-8",
        b"line\nbreak",
        b"\x1b[31mred\x1b[0m",
        "right\u{202e}txt.exe".as_bytes(),
        b"-rf *",
        b"$(touch escaped)`touch escaped`",
        b" \t\"'\\ ",
        &[b'n'; 255],
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("free", &profile_never_asking());
        let sandbox = world.open_with("free");
        for name in odd {
            let path = RawPath(name.to_vec());
            let host = world.workspace().join(OsStr::from_bytes(name));
            assert!(sandbox.done("write_file", json!({"path": path, "content": "x"})).success);
            assert_eq!(fs::read(&host).unwrap(), b"x", "{path:?}");
            let read = sandbox.done("read_file", json!({"path": path}));
            assert_eq!(read.output, "x");
            assert_eq!(data(&read)["path"], json!(RawPath::from(&host)));
        }
        let listing = sandbox.done("list_files", json!({}));
        let found: Vec<RawPath> = entries(&listing);
        let mut expected: Vec<RawPath> = odd.iter().map(|name| RawPath(name.to_vec())).collect();
        expected.push(RawPath(b"probe".to_vec()));
        expected.sort();
        assert_eq!(found, expected, "sorted, and byte for byte");
        // A line each, and nothing that moves a cursor or turns the text around.
        assert_eq!(listing.output.lines().count(), expected.len());
        let harmful = |letter: char| letter.is_control() || letter == '\u{202e}';
        assert!(!listing.output.replace('\n', "").contains(harmful), "{:?}", listing.output);
        // Nor in an error that names it.
        let missing = json!({"path": "no\u{202e}\u{1b}[2Jsuch\n"});
        let (code, message) = sandbox.refused("read_file", missing);
        assert_eq!(code, ErrorCode::NotFound);
        assert!(!message.contains(harmful), "{message:?}");
        for name in odd {
            let path = json!({"path": RawPath(name.to_vec())});
            assert!(sandbox.done("delete_file", path).success);
        }
        assert_eq!(names(&world.workspace()), [""; 0]);
    }
}

fn entries(listing: &CallResult) -> Vec<RawPath> {
    let data = data(listing);
    let entries = data["entries"].as_array().unwrap();
    entries.iter().map(|entry| serde_json::from_value(entry["path"].clone()).unwrap()).collect()
}

#[test]
fn create_append_and_overwrite_do_what_they_say() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let file = world.workspace().join("new/deep/file");
        let sandbox = world.open();
        let write = |mode: &str, content: &str| json!({"path": "new/deep/file", "content": content, "mode": mode});
        let made = data(&sandbox.done("write_file", write("create", "one\n")));
        assert_eq!((&made["created"], &made["size"]), (&json!(true), &json!(4)));
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
        let (code, message) = sandbox.refused("write_file", write("create", "other"));
        assert_eq!(code, ErrorCode::AlreadyExists, "{message}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
        let added = data(&sandbox.done("write_file", write("append", "two\n")));
        assert_eq!((&added["created"], &added["size"]), (&json!(false), &json!(8)));
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        assert!(sandbox.done("write_file", write("overwrite", "")).success);
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
        let append = json!({"path": "appended", "content": "first", "mode": "append"});
        assert_eq!(data(&sandbox.done("write_file", append))["created"], json!(true));
        let id = fs::metadata(&file).unwrap();
        assert_eq!((id.uid(), id.mode() & 0o777), (mode.uid(), 0o644));
        // A file in the way of a directory.
        let below = json!({"path": "appended/below", "content": "x"});
        assert_eq!(sandbox.refused("write_file", below).0, ErrorCode::NotFound);
        assert_eq!(names(&world.workspace()), ["appended", "new"]);
    }
}

#[test]
fn modes_are_kept_and_asked_for() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for bits in [0o600, 0o640, 0o755, 0o666] {
            let file = world.workspace().join("file");
            fs::write(&file, "old").unwrap();
            world.give(&file);
            fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
            for write in ["overwrite", "append"] {
                let arguments = json!({"path": "file", "content": "new", "mode": write});
                assert!(sandbox.done("write_file", arguments).success);
                let found = fs::metadata(&file).unwrap();
                assert_eq!((found.mode() & 0o7777, found.uid()), (bits, mode.uid()));
            }
        }
        // A read-only file is not replaced behind its back, though its directory would allow it.
        let kept = world.workspace().join("kept");
        fs::write(&kept, "kept").unwrap();
        world.give(&kept);
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o444)).unwrap();
        let (code, message) =
            sandbox.refused("write_file", json!({"path": "kept", "content": "x"}));
        assert_eq!(code, ErrorCode::OutsidePolicy, "{message}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    }
}

#[test]
fn a_reader_sees_the_old_file_or_the_new_one() {
    const SIZE: usize = 300_000;
    for mode in Mode::all() {
        let world = World::new(mode);
        let file = world.workspace().join("file");
        let sandbox = world.open();
        let content = |letter: &str| json!({"path": "file", "content": letter.repeat(SIZE)});
        assert!(sandbox.done("write_file", content("a")).success);
        let over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = [0; 2];
                while !over.load(Ordering::Relaxed) {
                    let found = fs::read(&file).unwrap();
                    assert_eq!(found.len(), SIZE, "a part of it was seen");
                    assert!(found.iter().all(|byte| *byte == found[0]), "a mixture was seen");
                    seen[usize::from(found[0] == b'b')] += 1;
                }
                seen
            });
            // Until the reader had its chances.
            for round in 0..60 {
                let letter = if round % 2 == 0 { "b" } else { "a" };
                assert!(sandbox.done("write_file", content(letter)).success);
            }
            over.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        assert!(seen[0] + seen[1] > 0);
        assert_eq!(names(&world.workspace()), ["file"], "nothing written aside is left");
    }
}

#[test]
fn a_write_that_is_cancelled_or_cut_off_changes_nothing() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert!(sandbox.done("write_file", json!({"path": "file", "content": "old"})).success);
        // More often than there are channels to the cell: each is good for another call.
        for round in 0..10 {
            // A directory that one write made and another uses is nobody's to take back.
            let path =
                if round % 2 == 0 { "file".to_owned() } else { format!("new-{round}/deep/file") };
            let result = sandbox.wait(async {
                // Some bytes, and then nothing for ever.
                let (mut writer, reader) = tokio::io::duplex(1 << 20);
                tokio::io::AsyncWriteExt::write_all(&mut writer, &[1; 600_000]).await.unwrap();
                let call = sandbox.session.call("write_file", json!({"path": path}));
                let running = call.attach_reader(reader).start().await.unwrap();
                // A call on the same connection, so that the write has begun.
                sandbox.session.call("list_files", json!({})).await.unwrap();
                running.cancel().await.unwrap();
                running.result().await.unwrap()
            });
            assert!(result.cancelled && !result.success);
            assert_eq!(result.error.unwrap().code, ErrorCode::Cancelled);
        }
        assert!(sandbox.done("write_file", json!({"path": "after", "content": ""})).success);
        assert_eq!(fs::read_to_string(world.workspace().join("file")).unwrap(), "old");
        // Cancelled writes are taken back while the next calls run.
        let done = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            names(&world.workspace()) == ["after", "file"]
        });
        assert!(done, "{:?}", names(&world.workspace()));
    }
}

#[test]
fn a_full_file_system_keeps_the_old_file() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("narrow", &profile_with(&[("tmp = \"1 GiB\"", "tmp = \"1 MiB\"")]));
        let sandbox = world.open_with("narrow");
        let old = json!({"path": "/var/tmp/full/file", "content": "old"});
        assert!(sandbox.done("write_file", old).success);
        let large = "x".repeat(2 << 20);
        let (code, message) =
            sandbox.refused("write_file", json!({"path": "/var/tmp/full/file", "content": large}));
        assert_eq!(code, ErrorCode::FileSystem, "{message}");
        assert!(message.contains("no space left"), "{message}");
        assert_eq!(sandbox.done("read_file", json!({"path": "/var/tmp/full/file"})).output, "old");
        assert_eq!(sandbox.done("list_files", json!({"path": "/var/tmp/full"})).output, "file\n");
        // The control: the workspace has more room.
        assert!(sandbox.done("write_file", json!({"path": "file", "content": large})).success);
        assert_eq!(fs::metadata(world.workspace().join("file")).unwrap().len(), 2 << 20);
    }
}
