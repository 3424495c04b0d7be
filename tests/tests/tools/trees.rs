//! Directories that are deep, or full, or not to be deleted: `list_files` and `delete_file`.

use palisade_protocol::{Ask, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data, effort, profile_with};
use rustix::fs::{AtFlags, CWD, Mode as Bits, OFlags, mkdirat, openat};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path};

/// A session that asks nobody, and waits: Landlock looks at every directory above, each time.
fn free(world: &World) -> Sandbox {
    let patient = [
        ("ask = \"destructive\"", "ask = \"never\""),
        ("timeout_ms = 30_000\n", "timeout_ms = 600_000\n"),
    ];
    world.add_unasked("free", &profile_with(&patient));
    world.open_with("free")
}

fn make(world: &World, files: &[&str]) {
    for file in files {
        let path = world.workspace().join(file);
        for above in path.ancestors().skip(1).filter(|a| a.starts_with(world.workspace())) {
            if !above.exists() {
                fs::create_dir_all(above).unwrap();
            }
        }
        fs::write(&path, file).unwrap();
        for path in path.ancestors().take_while(|path| *path != world.workspace()) {
            world.give(path);
        }
    }
}

#[test]
fn a_delete_is_asked_about_and_denied_where_nobody_can_be_asked() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, &["file", "tree/below"]);
        let sandbox = world.open_with("workspace");
        for (arguments, kept) in [
            (json!({"path": "file"}), "file"),
            (json!({"path": "tree", "recursive": true}), "tree/below"),
        ] {
            let result = sandbox.call("delete_file", arguments);
            let error = result.error.unwrap();
            assert_eq!(error.code, ErrorCode::Denied);
            assert!(error.hint.contains("`palisade approve`"), "{}", error.hint);
            let checkpoint = result.checkpoint.unwrap();
            assert!(checkpoint.is_unanswered(), "{checkpoint:?}");
            assert_eq!(result.denials[0].rule, "ask = \"destructive\"");
            assert!(world.workspace().join(kept).exists());
        }
        drop(sandbox);
        // The control: a profile that does not ask, and then a session that asks all the same.
        let sandbox = free(&world);
        let deleted = data(&sandbox.done("delete_file", json!({"path": "file"})));
        assert_eq!(deleted["entries"], json!(1));
        assert!(!world.workspace().join("file").exists());
        drop(sandbox);
        let (stream, daemon) = world.embedded(&[]);
        let open =
            palisade_client::Open::new(world.workspace()).profile("free").ask(Ask::Destructive);
        let strict = Sandbox::over(stream, Some(daemon), open).unwrap();
        let tree = json!({"path": "tree", "recursive": true});
        assert_eq!(strict.refused("delete_file", tree).0, ErrorCode::Denied);
        assert!(world.workspace().join("tree/below").exists());
    }
}

#[test]
fn what_holds_a_session_is_never_deleted() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, &["file"]);
        symlink(".", world.workspace().join("here")).unwrap();
        let sandbox = free(&world);
        let workspace = world.workspace();
        let workspace = workspace.to_str().unwrap();
        let invalid = [
            "",
            ".",
            "..",
            "/",
            "//",
            "/.",
            "./.",
            "here/.",
            "here/..",
            workspace,
            &format!("{workspace}/"),
            &format!("{workspace}/."),
            "../workspace",
            "here/../workspace",
            "/tmp",
            "/tmp/",
        ]
        .map(str::to_owned);
        for path in &invalid {
            for recursive in [true, false] {
                let arguments = json!({"path": path, "recursive": recursive});
                let (code, message) = sandbox.refused("delete_file", arguments);
                assert_eq!(code, ErrorCode::InvalidArguments, "{path:?}: {message}");
            }
        }
        // Mount points, and what is read-only.
        for path in
            ["/var/tmp", "/dev/shm", "/usr", "/proc", "/usr/bin", "/etc/passwd", "/dev/null"]
        {
            let arguments = json!({"path": path, "recursive": true});
            let (code, message) = sandbox.refused("delete_file", arguments);
            assert_eq!(code, ErrorCode::OutsidePolicy, "{path:?}: {message}");
        }
        // A directory is not deleted by somebody who took it for a file.
        make(&world, &["tree/below"]);
        assert_eq!(
            sandbox.refused("delete_file", json!({"path": "tree"})).0,
            ErrorCode::NotRegular
        );
        assert_eq!(fs::read_to_string(world.workspace().join("file")).unwrap(), "file");
        assert!(Path::new("/usr/bin/env").exists());
        // The control: a link to the workspace is only a link.
        assert!(sandbox.done("delete_file", json!({"path": "here", "recursive": true})).success);
        assert!(fs::symlink_metadata(world.workspace().join("here")).is_err());
        assert!(sandbox.done("delete_file", json!({"path": "tree", "recursive": true})).success);
        assert!(!world.workspace().join("tree").exists());
        assert!(world.workspace().join("file").exists());
    }
}

#[test]
fn deleting_a_tree_follows_no_link_and_leaves_no_mount() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, &["tree/a/file", "tree/b/file", "tree/vendor/kept", "beside"]);
        let tree = world.workspace().join("tree");
        for (target, name) in [
            (world.outside().as_path(), "a/to-outside"),
            (world.canary().as_path(), "a/to-canary"),
            (Path::new("../beside"), "to-beside"),
            (Path::new(".."), "to-above"),
            (Path::new("/"), "to-root"),
        ] {
            symlink(target, tree.join(name)).unwrap();
        }
        let last = "    \"$HOME/.cargo/git\",\n";
        let read =
            format!("{last}    \"!{}\", \"!$WORKSPACE/tree/vendor\",\n", world.outside().display());
        let ask = ("ask = \"destructive\"", "ask = \"never\"");
        world.add_unasked("vendored", &profile_with(&[ask, (last, &read)]));
        let sandbox = world.open_with("vendored");
        let whole = json!({"path": "tree", "recursive": true});
        let (code, message) = sandbox.refused("delete_file", whole.clone());
        assert_eq!(code, ErrorCode::OutsidePolicy, "{message}");
        assert!(
            message.contains("entries of it are gone already")
                || message.contains("Nothing was deleted")
        );
        assert_eq!(fs::read_to_string(tree.join("vendor/kept")).unwrap(), "tree/vendor/kept");
        world.assert_canary_untouched();
        assert_eq!(fs::read_to_string(world.workspace().join("beside")).unwrap(), "beside");
        drop(sandbox);
        // The control: without the mount in it, all of it goes, and nothing that it led to.
        let sandbox = free(&world);
        assert!(sandbox.done("delete_file", whole).success);
        assert!(!tree.exists());
        world.assert_canary_untouched();
        assert_eq!(fs::read_to_string(world.workspace().join("beside")).unwrap(), "beside");
    }
}

/// Makes a chain of directories, each in the one before.
fn chain(top: &Path, length: usize) {
    let bits = Bits::from_raw_mode(0o755);
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    mkdirat(CWD, top, bits).unwrap();
    let mut here = openat(CWD, top, flags, Bits::empty()).unwrap();
    for _ in 1..length {
        mkdirat(&here, "d", bits).unwrap();
        here = openat(&here, "d", flags, Bits::empty()).unwrap();
    }
}

/// A tree that is deleted at the end, even if the tool could not delete it.
struct Unchained<'a>(&'a Path);

impl Drop for Unchained<'_> {
    fn drop(&mut self) {
        let top = self.0.join("deep");
        while top.exists() {
            // The lowest that a path reaches goes up to the top, until none is too deep.
            let Ok(mut here) = openat(CWD, &top, OFlags::PATH, Bits::empty()) else { return };
            let mut depth = 1;
            while let Ok(next) = openat(&here, "d", OFlags::PATH, Bits::empty()) {
                here = next;
                depth += 1;
            }
            for _ in 1..depth {
                let Ok(above) = openat(&here, "..", OFlags::PATH, Bits::empty()) else { return };
                here = above;
                if rustix::fs::unlinkat(&here, "d", AtFlags::REMOVEDIR).is_err() {
                    return;
                }
            }
            if fs::remove_dir(&top).is_err() {
                return;
            }
        }
    }
}

#[test]
fn deeper_than_any_path_is_only_deep() {
    // Deeper than the longest path names, 4095 bytes; Landlock's time grows with the square of it.
    let depth = effort(2_060, 10_000);
    for mode in Mode::all() {
        let world = World::new(mode);
        let workspace = world.workspace();
        let _gone = Unchained(&workspace);
        mode.act(|| chain(&workspace.join("deep"), depth));
        let sandbox = free(&world);
        // As deep as a path can name, and it says that there is more: "deep" and then "/d" each.
        let room = 4095 - workspace.as_os_str().len() - 1;
        let levels = 1 + (room - 4) / 2;
        let skip = levels - 1;
        let arguments = json!({"path": workspace, "recursive": true, "skip": skip});
        let listing = data(&sandbox.done("list_files", arguments));
        assert_eq!((&listing["total"], &listing["more"]), (&json!(levels + 1), &json!(true)));
        let names: Vec<_> =
            listing["entries"].as_array().unwrap().iter().map(|entry| &entry["path"]).collect();
        assert_eq!(names, [&json!(format!("deep{}", "/d".repeat(levels - 1))), &json!("probe")]);
        let deleted = sandbox
            .done("delete_file", json!({"path": "deep", "recursive": true, "permanent": true}));
        assert_eq!(data(&deleted)["entries"], json!(depth));
        assert!(!workspace.join("deep").exists());
        // The session goes on.
        assert_eq!(sandbox.done("list_files", json!({})).output, "probe\n");
    }
}

#[test]
fn paths_that_are_too_long_are_refused_for_their_length() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = free(&world);
        let long_name = "n".repeat(256);
        let long_path = "d/".repeat(2048) + "x";
        let endless = "x".repeat(1 << 20);
        for path in [&long_name, &long_path, &endless, &format!("a/{long_name}/b")] {
            for (tool, arguments) in [
                ("read_file", json!({"path": path})),
                ("write_file", json!({"path": path, "content": "x"})),
                ("delete_file", json!({"path": path})),
                ("list_files", json!({"path": path})),
            ] {
                let (code, message) = sandbox.refused(tool, arguments);
                assert_eq!(
                    code,
                    ErrorCode::InvalidArguments,
                    "{tool}: {}",
                    &message[message.len() - 60..]
                );
                assert!(message.len() < 8192, "{tool}: a message of {} bytes", message.len());
            }
        }
        assert_eq!(sandbox.done("list_files", json!({})).output, "probe\n", "nothing was made");
        // The control: as long as can be.
        let longest = "n".repeat(255);
        assert!(sandbox.done("write_file", json!({"path": longest, "content": "x"})).success);
        let room = 4095 - world.workspace().as_os_str().len() - 1;
        let last = if room.is_multiple_of(2) { "xx" } else { "xxx" };
        let deep = "d/".repeat(room / 2 - 1) + last;
        assert_eq!(deep.len(), room);
        let write = json!({"path": deep, "content": "deep"});
        assert!(sandbox.done("write_file", write).success);
        assert_eq!(sandbox.done("read_file", json!({"path": deep})).output, "deep");
        let whole = json!({"path": "d", "recursive": true, "permanent": true});
        assert!(sandbox.done("delete_file", whole).success);
    }
}

#[test]
fn a_very_full_directory_is_paged_through() {
    // More than a page.
    let total = effort(20_001_u64, 99_001);
    for mode in Mode::all() {
        let world = World::new(mode);
        let many = world.workspace().join("many");
        mode.act(|| {
            fs::create_dir(&many).unwrap();
            for number in 0..total {
                fs::File::create(many.join(format!("{number:06}"))).unwrap();
            }
        });
        let sandbox = free(&world);
        let page = |skip: u64, limit: u64| {
            let arguments = json!({"path": "many", "skip": skip, "limit": limit});
            let result = sandbox.done("list_files", arguments);
            let found = data(&result);
            assert_eq!((&found["total"], &found["more"]), (&json!(total), &json!(false)));
            let entries = found["entries"].as_array().unwrap();
            entries
                .iter()
                .map(|entry| entry["path"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let mut names = Vec::new();
        while (names.len() as u64) < total {
            names.extend(page(names.len() as u64, 10_000));
        }
        let expected: Vec<String> = (0..total).map(|number| format!("{number:06}")).collect();
        assert!(names == expected, "every name once, in order");
        assert_eq!(page(total, 10), [""; 0]);
        let first = sandbox.done("list_files", json!({"path": "many"}));
        assert_eq!(data(&first)["entries"].as_array().unwrap().len(), 1000, "if it is not said");
        let too_many = json!({"path": "many", "limit": 10_001});
        assert_eq!(sandbox.refused("list_files", too_many).0, ErrorCode::InvalidArguments);
        let gone = sandbox.done("delete_file", json!({"path": "many", "recursive": true}));
        assert_eq!(data(&gone)["entries"], json!(total + 1));
        assert!(!many.exists());
    }
}
