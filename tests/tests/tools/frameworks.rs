//! The expectations of agent frameworks of a file system and of calls: `stat` and `realpath`, error
//! numbers, limits told at the start, argument names that models use, and who ended a call.

use palisade_protocol::{CallOptions, CallOverview, CallResult, CallStage, ErrorCode, Reply};
use palisade_tests::{
    Desk, Mode, Sandbox, UNASKED, World, data, profile_never_asking,
    raw::{DIALECTS, Raw, call, open},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

/// A session of each kind of daemon, in a workspace with a file, links to it and a dangling one.
fn each(act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let at = world.workspace();
        fs::write(at.join("file"), "text\n").unwrap();
        world.give(&at.join("file"));
        for (target, name) in [("file", "link"), ("nothing", "dangling"), ("/etc/passwd", "away")] {
            symlink(target, at.join(name)).unwrap();
            world.give(&at.join(name));
        }
        act(&world, &world.open());
    }
}

fn errno(result: &CallResult) -> (ErrorCode, Option<i32>) {
    let error = result.error.as_ref().unwrap_or_else(|| panic!("{result:?}"));
    (error.code, error.errno)
}

#[test]
fn stat_says_what_is_there_and_follows_links_or_not() {
    each(|world, sandbox| {
        let at = world.workspace();
        let stat = |arguments: Value| data(&sandbox.done("stat", arguments));
        let host = fs::metadata(at.join("file")).unwrap();
        let file = stat(json!({"path": "file"}));
        let expected = json!({
            "path": at.join("file"), "real": at.join("file"), "kind": "file", "size": 5,
            "mode": host.mode() & 0o7777, "uid": file["uid"], "gid": file["gid"],
            "links": 1, "dev": file["dev"], "ino": host.ino(),
            "mtime": {"seconds": host.mtime(), "nanoseconds": host.mtime_nsec()},
            "ctime": {"seconds": host.ctime(), "nanoseconds": host.ctime_nsec()},
            "target": null,
        });
        assert_eq!(file, expected);
        assert_eq!(file["uid"].to_string(), sandbox.ok("id -u").trim());
        let followed = stat(json!({"path": "link"}));
        assert_eq!((&followed["real"], &followed["ino"]), (&file["real"], &file["ino"]));
        let itself = stat(json!({"path": "link", "follow": false}));
        assert_eq!((&itself["kind"], &itself["target"]), (&json!("symlink"), &json!("file")));
        assert_eq!(itself["real"], json!(at.join("link")));
        assert_eq!(stat(json!({"path": "."}))["kind"], json!("directory"));
        let dangling = stat(json!({"path": "dangling", "follow": false}));
        assert_eq!(dangling["target"], json!("nothing"));
        for path in ["missing", "dangling", "file/below"] {
            let result = sandbox.call("stat", json!({"path": path}));
            assert_eq!(errno(&result), (ErrorCode::NotFound, Some(2)), "{path}");
        }
        // A path outside does not exist.
        let result = sandbox.call("stat", json!({"path": world.canary()}));
        assert_eq!(errno(&result), (ErrorCode::NotFound, Some(2)));
        assert!(world.canary().exists());
    });
}

#[test]
fn realpath_resolves_links() {
    each(|world, sandbox| {
        let at = world.workspace();
        let real = |arguments: Value| {
            let result = sandbox.done("realpath", arguments);
            let data = data(&result);
            assert_eq!(result.output, format!("{}\n", data["real"].as_str().unwrap()));
            (data["real"].clone(), data["exists"].clone(), data["kind"].clone())
        };
        let file = json!(at.join("file"));
        for path in ["file", "link", "./x/../link", at.join("link").to_str().unwrap()] {
            let found = real(json!({"path": path}));
            if path == "./x/../link" {
                // The kernel resolves it: without x there is no way through it.
                assert_eq!(found.1, json!(false));
            } else {
                assert_eq!(found, (file.clone(), json!(true), json!("file")), "{path}");
            }
        }
        let itself = real(json!({"path": "link", "follow": false}));
        assert_eq!(itself, (json!(at.join("link")), json!(true), json!("symlink")));
        let missing = real(json!({"path": "new/name"}));
        assert_eq!(missing, (json!(at.join("new/name")), json!(false), Value::Null));
        assert_eq!(real(json!({"path": "away"})).0, json!("/etc/passwd"));
        assert_eq!(sandbox.ok("realpath away").trim(), "/etc/passwd");
    });
}

#[test]
fn hidden_names_are_not_there_for_stat_and_realpath() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.workspace().join(".env"), "secret\n").unwrap();
        world.give(&world.workspace().join(".env"));
        let sandbox = world.open_with("guarded");
        let result = sandbox.call("stat", json!({"path": ".env"}));
        assert_eq!(errno(&result), (ErrorCode::NotFound, Some(2)), "{mode:?}");
        let real = data(&sandbox.done("realpath", json!({"path": ".env"})));
        assert_eq!((&real["exists"], &real["kind"]), (&json!(false), &Value::Null), "{mode:?}");
        // The control: without that layer it is there.
        assert!(world.open().done("stat", json!({"path": ".env"})).success, "{mode:?}");
    }
}

#[test]
fn a_listing_says_where_links_lead() {
    each(|_, sandbox| {
        for recursive in [false, true] {
            let result = sandbox.done("list_files", json!({"recursive": recursive}));
            for line in ["away@ -> /etc/passwd\n", "dangling@ -> nothing\n", "link@ -> file\n"] {
                assert!(result.output.contains(line), "{}", result.output);
            }
            assert!(result.output.contains("\nfile\n"), "{}", result.output);
            let entries = data(&result)["entries"].as_array().unwrap().clone();
            let of =
                |name: &str| entries.iter().find(|entry| entry["path"] == name).unwrap().clone();
            assert_eq!(of("link")["target"], json!("file"));
            assert!(of("file").get("target").is_none());
        }
        let listing = sandbox.wait(sandbox.session.list_files(".")).unwrap();
        let link = listing.entries.iter().find(|entry| entry.path == "link".into()).unwrap();
        assert_eq!(link.target, Some("file".into()));
    });
}

#[test]
fn errors_of_the_kernel_have_their_number() {
    each(|world, sandbox| {
        let at = world.workspace();
        for (tool, arguments, expected) in [
            ("read_file", json!({"path": "missing"}), (ErrorCode::NotFound, Some(2))),
            ("read_file", json!({"path": "file/x"}), (ErrorCode::NotFound, Some(20))),
            ("list_files", json!({"path": "file"}), (ErrorCode::InvalidArguments, Some(20))),
            ("delete_file", json!({"path": "missing"}), (ErrorCode::NotFound, Some(2))),
            ("bash", json!({"argv": ["no-such-program"]}), (ErrorCode::SpawnFailed, Some(2))),
            ("bash", json!({"command": "exit 3"}), (ErrorCode::CommandFailed, None)),
        ] {
            assert_eq!(
                errno(&sandbox.call(tool, arguments.clone())),
                expected,
                "{tool} {arguments}"
            );
        }
        fs::set_permissions(at.join("file"), fs::Permissions::from_mode(0o0)).unwrap();
        let result = sandbox.call("read_file", json!({"path": "file"}));
        assert_eq!(errno(&result), (ErrorCode::OutsidePolicy, Some(13)));
    });
}

/// A file's own mode is not the session's limit, and has another remedy.
#[test]
fn a_mode_is_told_from_the_limits_of_the_session() {
    each(|world, sandbox| {
        let at = world.workspace();
        fs::set_permissions(at.join("file"), fs::Permissions::from_mode(0o0)).unwrap();
        let edit = json!({"path": "file", "old_string": "text", "new_string": "x"});
        for (tool, arguments) in [
            ("read_file", json!({"path": "file"})),
            ("grep", json!({"pattern": "text", "path": "file"})),
            ("write_file", json!({"path": "file", "content": "x"})),
            ("edit", edit),
        ] {
            let result = sandbox.call(tool, arguments);
            assert_eq!(errno(&result), (ErrorCode::OutsidePolicy, Some(13)), "{tool}");
            let error = result.error.unwrap();
            assert!(error.message.contains("mode"), "{tool}: {error}");
            assert!(error.hint.contains("chmod u+r"), "{tool}: {error:?}");
        }
        assert_eq!(sandbox.ok("chmod u+r file"), "");
        assert_eq!(sandbox.done("read_file", json!({"path": "file"})).output, "text\n");
        let outside = sandbox.call("write_file", json!({"path": "/etc/passwd", "content": "x"}));
        let (code, number) = errno(&outside);
        assert_eq!(code, ErrorCode::OutsidePolicy);
        let error = outside.error.unwrap();
        assert!(matches!(number, Some(13 | 30)), "{error:?}");
        assert!(error.hint.contains("stay inside "), "{error:?}");
        assert!(!error.message.contains("cross-device"), "{error:?}");
    });
}

/// The hint names only what the tool takes.
#[test]
fn a_name_that_exists_has_the_remedy_of_its_tool() {
    each(|world, sandbox| {
        let patch = "*** Begin Patch\n*** Add File: file\n+x\n*** End Patch\n";
        for (tool, arguments, hint) in [
            (
                "write_file",
                json!({"path": "file", "content": "", "mode": "create"}),
                "mode overwrite",
            ),
            ("make_dir", json!({"path": "file"}), "move_file"),
            ("apply_patch", json!({"patch": patch}), "in the same patch"),
        ] {
            let result = sandbox.call(tool, arguments);
            assert_eq!(errno(&result).0, ErrorCode::AlreadyExists, "{tool}: {result:?}");
            let error = result.error.unwrap();
            assert!(error.hint.contains(hint), "{tool}: {}", error.hint);
            assert_eq!(error.hint.contains("mode"), tool == "write_file", "{}", error.hint);
        }
        assert_eq!(fs::read_to_string(world.workspace().join("file")).unwrap(), "text\n");
    });
}

#[test]
fn no_bytes_are_a_valid_range() {
    each(|_, sandbox| {
        for encoding in ["base64", "raw"] {
            let none = json!({"path": "file", "encoding": encoding, "byte_limit": 0});
            let read = data(&sandbox.done("read_file", none));
            assert_eq!((&read["bytes"], &read["size"]), (&json!(0), &json!(5)), "{encoding}");
        }
    });
}

#[test]
fn an_unreadable_file_is_deleted_when_nothing_has_to_be_kept() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let path = world.workspace().join("locked");
        fs::write(&path, "text\n").unwrap();
        world.give(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        let sandbox = world.open_with(UNASKED);
        let result = sandbox.call("delete_file", json!({"path": "locked"}));
        assert_eq!(errno(&result), (ErrorCode::OutsidePolicy, Some(13)), "{mode:?}");
        let error = result.error.unwrap();
        assert!(error.message.contains("undo keeps what is deleted"), "{mode:?}: {error}");
        assert!(error.hint.contains("chmod u+r") && error.hint.contains("permanent"), "{error}");
        assert!(path.exists(), "{mode:?}");
        // Both remedies.
        assert!(sandbox.done("delete_file", json!({"path": "locked", "permanent": true})).success);
        assert!(!path.exists(), "{mode:?}");
        fs::write(&path, "text\n").unwrap();
        world.give(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        assert_eq!(sandbox.ok("chmod u+r locked"), "", "{mode:?}");
        assert!(sandbox.done("delete_file", json!({"path": "locked"})).undo.is_some(), "{mode:?}");
        assert!(!path.exists(), "{mode:?}");
    }
}

#[test]
fn a_session_says_its_limits_when_it_opens() {
    each(|_, sandbox| {
        let limits = sandbox.session.limits();
        // A profile of a test gives ten times the usual 30 s.
        assert_eq!((limits.timeout_ms, limits.max_timeout_ms), (300_000, 600_000));
        assert_eq!((limits.output_bytes, limits.file_bytes), (100 << 10, 64 << 20));
        assert_eq!((limits.jobs, limits.parallel), (16, 8));
    });
}

/// A result names its receipt by a digest, and repeats it only if it is another one or asked for.
#[test]
fn a_result_has_the_receipt_by_its_digest() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        for dialect in DIALECTS {
            let mut raw = Raw::greeted(daemon.connect(mode), dialect);
            let Reply::Opened(opened) = raw.ask(open(&world.workspace(), "workspace")) else {
                panic!("not opened")
            };
            let result = raw.result("bash", &json!({"command": "true"}));
            assert_eq!((result.receipt.is_none(), opened.receipt_digest.len()), (true, 16));
            assert_eq!(result.receipt_digest, opened.receipt_digest, "{mode:?}");
            let options = CallOptions { receipt: true, ..CallOptions::default() };
            let whole = raw.ask(call("bash", &json!({"command": "true"}), options));
            let Reply::Result(whole) = whole else { panic!("{whole:?}") };
            assert_eq!(whole.receipt.as_deref(), Some(&opened.receipt), "{mode:?}");
            let size = |result: &CallResult| serde_json::to_string(result).unwrap().len();
            let (short, long) = (size(&result), size(&whole));
            println!("a result of `true` has {short} bytes of JSON, {long} with its receipt");
            assert!(short * 2 < long, "{mode:?}: {short} and {long}");
        }
        // The client's library fills it in.
        let sandbox = world.open();
        let filled = sandbox.bash("true").receipt;
        assert_eq!(filled.as_deref(), Some(sandbox.session.receipt()), "{mode:?}");
    }
}

#[test]
fn arguments_have_the_names_that_models_use() {
    each(|world, sandbox| {
        let at = world.workspace();
        let done = |tool: &str, arguments: Value| sandbox.done(tool, arguments);
        assert_eq!(done("Read", json!({"file_path": "file"})).output, "text\n");
        let edit = json!({"file_path": "file", "old_str": "text", "new_str": "other"});
        assert!(done("Edit", edit).success);
        assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "other\n");
        assert!(done("Write", json!({"filePath": "new", "contents": "made\n"})).success);
        assert_eq!(fs::read_to_string(at.join("new")).unwrap(), "made\n");
        let job = done("Bash", json!({"command": "true", "run_in_background": true}));
        assert_eq!(data(&job)["state"], json!("running"));
        let patch = "*** Begin Patch\n*** Delete File: new\n*** End Patch";
        assert!(done("ApplyPatch", json!({"input": patch})).success);
        assert!(!at.join("new").exists());
        let bash = json!({"argv": ["pwd"], "timeout": 20_000, "workdir": "/tmp"});
        assert_eq!(done("Bash", bash).stdout, "/tmp\n");
        // One argument, one value.
        let twice = json!({"path": "file", "file_path": "new"});
        assert_eq!(sandbox.refused("read_file", twice).0, ErrorCode::InvalidArguments);
        let unknown = json!({"path": "file", "file": "new"});
        assert_eq!(sandbox.refused("read_file", unknown).0, ErrorCode::InvalidArguments);
    });
}

/// APIs that require every argument let a model leave one out only as `null`.
#[test]
fn an_argument_that_is_null_is_absent() {
    each(|world, sandbox| {
        let read = json!({"path": "file", "numbered": null, "encoding": null, "limit": null});
        assert_eq!(sandbox.done("read_file", read).output, "text\n");
        let bash = json!({"command": "pwd", "argv": null, "background": null, "env": null});
        assert!(sandbox.done("bash", bash).success);
        let edits = json!([{"old_string": "text", "new_string": "other", "replace_all": null}]);
        let edit = json!({"path": "file", "edits": edits, "files": null});
        assert!(sandbox.done("multi_edit", edit).success);
        assert_eq!(fs::read_to_string(world.workspace().join("file")).unwrap(), "other\n");
        // What is required can not be left out so.
        for arguments in [json!({"path": null}), json!({"path": "file", "edits": [null]})] {
            let (code, message) = sandbox.refused("multi_edit", arguments.clone());
            assert_eq!(code, ErrorCode::InvalidArguments, "{arguments}: {message}");
        }
        let (code, message) = sandbox.refused("read_file", json!({"path": null, "limit": 1}));
        assert_eq!(code, ErrorCode::InvalidArguments, "{message}");
    });
}

#[test]
fn a_call_that_an_operator_ends_says_so() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_never_asking());
        let session = desk.sandbox.session.id().clone();
        let running = || desk.sandbox.session.bash("echo on > on; sleep 600").stream();
        let started = async || loop {
            let overview = desk.operator.overview().await.unwrap();
            let executes = |call: &&CallOverview| call.stage == CallStage::Execute;
            if let Some(call) = overview.calls.iter().find(executes) {
                return call.call_id.clone();
            }
            tokio::task::yield_now().await;
        };
        let end = async |whole: bool| {
            let call = started().await;
            match whole {
                false => desk.operator.kill(&call).await.unwrap(),
                true => desk.operator.abort(&session).await.unwrap(),
            }
        };
        for (whole, message) in
            [(false, "an operator ended the call"), (true, "an operator ended the session")]
        {
            let call = running();
            let call = async { call.await };
            let (result, ()) = desk.sandbox.wait(async { tokio::join!(call, end(whole)) });
            let result = result.unwrap();
            let error = result.error.unwrap();
            assert_eq!(
                (error.code, error.message.as_str()),
                (ErrorCode::Aborted, message),
                "{mode:?}"
            );
            assert!(!result.cancelled && !result.success, "{mode:?}");
        }
    }
}
