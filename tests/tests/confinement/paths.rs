//! Paths that lead out of a session, or into the machinery: by dots, links, magic links, handles,
//! descriptors. Each attempt from inside, its absence from outside, and a control.

use palisade_client::{Error, Open};
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, Sandbox, World, binary, both_views, profile_reading, profile_with};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

fn refusals(sandbox: &Sandbox, tool: &str, paths: &[&str]) -> Vec<ErrorCode> {
    paths
        .iter()
        .map(|path| {
            let arguments = if tool == "write_file" {
                json!({"path": path, "content": "mine"})
            } else {
                json!({"path": path})
            };
            sandbox.refused(tool, arguments).0
        })
        .collect()
}

fn at(act: &str, path: &Path) -> String {
    format!("{act}:{}", path.display())
}

#[test]
fn dots_lead_to_nothing_of_the_host() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::create_dir(world.workspace().join("below")).unwrap();
        symlink("below", world.workspace().join("alias")).unwrap();
        let sandbox = world.open();
        let canary = world.canary();
        let paths = [
            "../../etc/shadow",
            "../outside/canary",
            "alias/../../outside/canary",
            "below/../../outside/canary",
            "/../../../../../../../../../etc/shadow",
            canary.to_str().unwrap(),
        ];
        assert_eq!(refusals(&sandbox, "read_file", &paths), [ErrorCode::NotFound; 6]);
        assert_eq!(sandbox.done("list_files", json!({"path": ".."})).output, "workspace/\n");
        // The directory above the workspace is the session's own private one: what is written there
        // is there for the session, and for nobody else.
        let written =
            sandbox.done("write_file", json!({"path": "../outside/canary", "content": "x"}));
        assert!(written.success);
        assert_eq!(sandbox.done("read_file", json!({"path": "../outside/canary"})).output, "x");
        world.assert_canary_untouched();
        let up = "../".repeat(world.workspace().components().count() - 1);
        let accounts = format!("{up}etc/passwd");
        let system = ["/etc/new", "/usr/new", "/new", "/dev/new", "/proc/new", &accounts];
        assert_eq!(refusals(&sandbox, "write_file", &system)[..3], [ErrorCode::OutsidePolicy; 3]);
        for path in ["/etc/new", "/usr/new", "/new"] {
            assert!(!Path::new(path).exists(), "{path}");
        }
        // The control: dots that stay inside.
        let inside = sandbox.done("write_file", json!({"path": "below/../made", "content": "y"}));
        assert!(inside.success);
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "y");
    }
}

#[test]
fn symbolic_links_lead_only_where_the_session_may_go() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let workspace = world.workspace();
        fs::write(workspace.join("real"), "real").unwrap();
        world.give(&workspace.join("real"));
        for (target, name) in [
            (world.canary().as_path(), "to-canary"),
            (world.outside().as_path(), "to-outside"),
            (Path::new("../outside/canary"), "relative"),
            (Path::new("/etc/shadow"), "to-shadow"),
            (Path::new("loop"), "loop"),
            (Path::new("real"), "to-real"),
        ] {
            symlink(target, workspace.join(name)).unwrap();
        }
        world.add_unasked("seen", &profile_reading(&world.outside()));
        let sandbox = world.open();
        let led_out = ["to-canary", "to-outside/canary", "relative", "to-shadow"];
        assert_eq!(refusals(&sandbox, "read_file", &led_out), [ErrorCode::NotFound; 4]);
        assert_eq!(refusals(&sandbox, "list_files", &["to-outside"]), [ErrorCode::NotFound]);
        assert_eq!(refusals(&sandbox, "write_file", &led_out)[..3], [ErrorCode::NotFound; 3]);
        assert_eq!(refusals(&sandbox, "write_file", &["to-shadow"]), [ErrorCode::OutsidePolicy]);
        assert_eq!(refusals(&sandbox, "read_file", &["loop"]), [ErrorCode::OutsidePolicy]);
        assert_eq!(refusals(&sandbox, "write_file", &["loop"]), [ErrorCode::OutsidePolicy]);
        // If the target may be read, it is read, and still not written.
        let seen = world.open_with("seen");
        assert_eq!(seen.done("read_file", json!({"path": "to-canary"})).output, "canary\n");
        let outside = ["to-canary", "to-outside/new", "to-outside/canary", "relative"];
        assert_eq!(refusals(&seen, "write_file", &outside), [ErrorCode::OutsidePolicy; 4]);
        world.assert_canary_untouched();
        // The control: a link that stays inside is followed, and stays a link.
        assert!(seen.done("write_file", json!({"path": "to-real", "content": "new"})).success);
        assert_eq!(fs::read_to_string(workspace.join("real")).unwrap(), "new");
        assert_eq!(fs::read_link(workspace.join("to-real")).unwrap(), Path::new("real"));
    }
}

#[test]
fn a_planted_hard_link_does_not_carry_a_write_outside() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let inside = world.workspace().join("hard");
        let inode = fs::metadata(world.canary()).unwrap().ino();
        for write in ["overwrite", "append"] {
            fs::hard_link(world.canary(), &inside).unwrap();
            let sandbox = world.open();
            assert_eq!(sandbox.done("read_file", json!({"path": "hard"})).output, "canary\n");
            let arguments = json!({"path": "hard", "content": "mine", "mode": write});
            assert!(sandbox.done("write_file", arguments).success);
            let kept = if write == "append" { "canary\nmine" } else { "mine" };
            assert_eq!(fs::read_to_string(&inside).unwrap(), kept);
            world.assert_canary_untouched();
            let canary = fs::metadata(world.canary()).unwrap();
            assert_eq!(
                (canary.ino(), canary.nlink()),
                (inode, 1),
                "the name inside is another file"
            );
            fs::remove_file(&inside).unwrap();
        }
    }
}

#[test]
fn links_and_renames_do_not_cross_the_border() {
    for mode in Mode::all() {
        let (world, [blind, seeing]) = both_views(mode);
        let (canary, new) = (world.canary(), world.outside().join("new"));
        fs::write(world.workspace().join("file"), "file").unwrap();
        world.give(&world.workspace().join("file"));
        let attempts = [
            format!("link:{}:stolen", canary.display()),
            format!("link:file:{}", new.display()),
            "link:/usr/bin/env:stolen".to_owned(),
            format!("rename:{}:stolen", canary.display()),
            format!("rename:file:{}", new.display()),
            "rename:file:/usr/file".to_owned(),
            "rename:file:/tmp/file".to_owned(),
            format!("rename:{}:{}", canary.display(), new.display()),
            format!("tmpfile_link:.:{}", new.display()),
            "tmpfile_link:/tmp:stolen".to_owned(),
        ];
        let unseen = "ENOENT ENOENT EXDEV ENOENT ENOENT EXDEV EXDEV ENOENT ENOENT EXDEV";
        assert_eq!(blind.told(&attempts).join(" "), unseen, "{mode:?}");
        let read_only = "EXDEV EROFS EXDEV EXDEV EXDEV EXDEV EXDEV EROFS EROFS EXDEV";
        assert_eq!(seeing.told(&attempts).join(" "), read_only, "{mode:?}");
        world.assert_canary_untouched();
        assert!(!world.workspace().join("stolen").exists());
        assert!(!Path::new("/usr/file").exists());
        // The control: the same inside.
        let inside = ["link:file:linked", "rename:linked:renamed", "tmpfile_link:.:unnamed"];
        assert_eq!(blind.told(&inside.map(str::to_owned)), ["ok", "ok", "ok"]);
        assert!(world.workspace().join("renamed").exists());
        assert!(world.workspace().join("unnamed").exists());
    }
}

#[test]
fn a_read_only_part_of_the_workspace_stays_as_it_is() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let vendor = world.workspace().join("vendor");
        fs::create_dir(&vendor).unwrap();
        fs::write(vendor.join("kept"), "kept").unwrap();
        for path in [&vendor, &vendor.join("kept")] {
            world.give(path);
        }
        let last = "    \"$HOME/.cargo/git\",\n";
        let text = format!("{last}    \"!$WORKSPACE/vendor\",\n");
        let changes = [(last, text.as_str()), ("ask = \"destructive\"", "ask = \"never\"")];
        world.add_unasked("vendored", &profile_with(&changes));
        let sandbox = world.open_with("vendored");
        assert!(sandbox.done("write_file", json!({"path": "file", "content": "x"})).success);
        let attempts = [
            "write:vendor/kept",
            "write:vendor/new",
            "rename:file:vendor/file",
            "rename:vendor/kept:stolen",
            "rename:vendor:moved",
            "remove:vendor/kept",
            "link:file:vendor/linked",
            "read:vendor/kept",
        ];
        let answers = sandbox.told(&attempts.map(str::to_owned)).join(" ");
        assert_eq!(answers, "EROFS EROFS EXDEV EXDEV EBUSY EROFS EROFS ok", "{mode:?}");
        let paths = ["vendor/kept", "vendor/new", "vendor/deep/er"];
        assert_eq!(refusals(&sandbox, "write_file", &paths), [ErrorCode::OutsidePolicy; 3]);
        let names: Vec<_> =
            fs::read_dir(&vendor).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
        assert_eq!(fs::read_to_string(vendor.join("kept")).unwrap(), "kept");
    }
}

/// Landlock's rule of a private directory holds below it, too, whatever is mounted there.
#[test]
fn what_may_only_be_read_can_not_be_run_below_a_private_directory() {
    for mode in Mode::all() {
        let world = World::new(mode);
        for name in ["read", "run"] {
            let directory = world.outside().join(name);
            fs::create_dir(&directory).unwrap();
            fs::copy(binary("probe"), directory.join("program")).unwrap();
        }
        assert!(world.outside().starts_with(std::env::temp_dir()), "it is below a private one");
        let (read, run) = (world.outside().join("read"), world.outside().join("run"));
        let (reads, runs) = ("    \"$HOME/.cargo/git\",\n", "    \"$HOME/go/pkg/mod\",\n");
        let text = profile_with(&[
            (reads, &format!("{reads}    \"!{}\",\n", read.display())),
            (runs, &format!("{runs}    \"!{}\",\n", run.display())),
        ]);
        world.add_unasked("shelves", &text);
        let sandbox = world.open_with("shelves");
        let attempts = ["read", "exec"].map(|act| format!("{act}:{}/program", read.display()));
        assert_eq!(sandbox.told(&attempts), ["ok", "EACCES"], "{mode:?}");
        // The control: the same where programs run.
        let ran = sandbox.bash(&format!("{}/program read:/dev/null", run.display()));
        assert_eq!(ran.stdout, "read:/dev/null=ok\n", "{mode:?}: {}", ran.stderr);
        let ran = sandbox.bash(&format!("{}/program read:/dev/null", read.display()));
        assert_eq!((ran.exit_code, ran.stdout.as_str()), (Some(126), ""), "{mode:?}");
    }
}

#[test]
fn handles_instead_of_paths_are_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let attempts = [
            "sys:name_to_handle_at:-100:@/etc/passwd:buf:buf:0".to_owned(),
            "sys:name_to_handle_at:-100:@probe:buf:buf:0".to_owned(),
            "sys:open_by_handle_at:-100:buf:0".to_owned(),
        ];
        assert_eq!(sandbox.told(&attempts), ["EPERM"; 3]);
        // The control: outside it is the size of the handle that the kernel complains about.
        assert_eq!(world.told_outside(&attempts[..1]), ["EOVERFLOW"]);
    }
}

#[test]
fn magic_links_are_no_paths_for_a_tool() {
    for mode in Mode::all() {
        let world = World::new(mode);
        symlink("/proc/self/root/etc/passwd", world.workspace().join("magic")).unwrap();
        symlink("/proc/self/cwd", world.workspace().join("here")).unwrap();
        let sandbox = world.open();
        let read = [
            "/proc/self/root/etc/passwd",
            "/proc/self/cwd/probe",
            "/proc/self/exe",
            "/proc/self/fd/0",
            "/proc/thread-self/fd/0",
            "/proc/1/root/etc/passwd",
            "/proc/1/cwd/probe",
            "/dev/fd/0",
            "/dev/stdin",
            "magic",
            "here/probe",
        ];
        assert_eq!(refusals(&sandbox, "read_file", &read), [ErrorCode::OutsidePolicy; 11]);
        let write = [
            "/proc/self/cwd/made",
            "/proc/self/root/tmp/made",
            "/dev/stdout",
            "magic",
            "here/made",
        ];
        assert_eq!(refusals(&sandbox, "write_file", &write), [ErrorCode::OutsidePolicy; 5]);
        let list = ["/proc/self/root", "/proc/self/cwd", "/proc/1/root", "here"];
        assert_eq!(refusals(&sandbox, "list_files", &list), [ErrorCode::OutsidePolicy; 4]);
        assert!(!world.workspace().join("made").exists());
        // The control: the same files by their plain paths.
        let passwd = sandbox.done("read_file", json!({"path": "/etc/passwd"})).output;
        assert_eq!(passwd, fs::read_to_string("/etc/passwd").unwrap());
        assert!(sandbox.done("write_file", json!({"path": "made", "content": ""})).success);
        assert!(world.workspace().join("made").exists());
    }
}

#[test]
fn the_machinery_is_not_to_be_seen_in_proc() {
    let secret = [
        "environ",
        "maps",
        "auxv",
        "stack",
        "syscall",
        "mem",
        "exe",
        "fd/0",
        "cwd/x",
        "root/etc/passwd",
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let daemon = sandbox.daemon.as_ref().unwrap().id().cast_signed();
        let family = palisade_tests::processes::tree(daemon);
        assert!(family.len() >= 3, "broker, launcher and a cell: {family:?}");
        // No process of the host's is there by its number, but those that the session counts anew.
        let seen = sandbox.ok("cat /proc/[0-9]*/comm");
        let seen: Vec<_> = seen.lines().collect();
        assert!(!seen.iter().any(|name| name.starts_with("palisade")), "{seen:?}");
        let strangers: Vec<_> =
            seen.iter().filter(|name| !["bash", "cat", "cell 1 run"].contains(name)).collect();
        assert_eq!(strangers, [&""; 0], "{seen:?}");
        // The one process of the machinery that is there, the first, tells nothing, root or not.
        let first: Vec<String> = secret.iter().map(|file| format!("read:/proc/1/{file}")).collect();
        let mut expected = ["EACCES"; 10];
        if mode == Mode::System {
            // Root's own by its mode; that it may not be traced is found out on reading.
            expected[4] = "EPERM";
        }
        assert_eq!(sandbox.told(&first), expected, "{mode:?}");
        // The control: a process reads its own.
        let own = ["environ", "maps", "auxv", "exe"].map(|file| format!("read:/proc/self/{file}"));
        assert_eq!(sandbox.told(&own), ["ok"; 4]);
    }
}

#[test]
fn a_nul_byte_is_refused_and_cuts_nothing_off() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.workspace().join("a"), "a").unwrap();
        world.give(&world.workspace().join("a"));
        let sandbox = world.open();
        for (tool, arguments) in [
            ("read_file", json!({"path": "a\0b"})),
            ("read_file", json!({"path": {"base64": "YQBi"}})),
            ("write_file", json!({"path": "a\0b", "content": "x"})),
            ("delete_file", json!({"path": "a\0b"})),
            ("list_files", json!({"path": ".\0b"})),
            ("bash", json!({"command": "touch c\0d"})),
            ("bash", json!({"argv": ["touch", "c\0d"]})),
            ("bash", json!({"argv": ["touch\0", "c"]})),
            ("bash", json!({"command": "touch c", "cwd": "/tmp\0"})),
            ("bash", json!({"command": "touch c", "env": {"A": "b\0c"}})),
            ("bash", json!({"command": "touch c", "env": {"A\0B": "c"}})),
        ] {
            let (code, message) = sandbox.refused(tool, arguments.clone());
            assert_eq!(code, ErrorCode::InvalidArguments, "{tool} {arguments}: {message}");
        }
        assert_eq!(fs::read_to_string(world.workspace().join("a")).unwrap(), "a");
        assert!(!world.workspace().join("c").exists());
        // The control: contents may have one.
        assert!(sandbox.done("write_file", json!({"path": "a", "content": "x\0y"})).success);
        assert_eq!(fs::read(world.workspace().join("a")).unwrap(), b"x\0y");
    }
}

#[test]
fn what_is_outside_can_not_even_be_looked_at() {
    for mode in Mode::all() {
        let (world, [blind, seeing]) = both_views(mode);
        let canary = world.canary();
        let attempts = [
            at("stat", &canary),
            at("read", &canary),
            format!("sys:access:@{}:0", canary.display()),
            format!("sys:openat:-100:@{}:0x200000", canary.display()),
            at("watch", &canary),
            at("list", &world.outside()),
        ];
        assert_eq!(blind.told(&attempts), ["ENOENT"; 6]);
        assert_eq!(world.told_outside(&attempts), ["ok"; 6]);
        // If the profile says so, it can be.
        assert_eq!(seeing.told(&attempts), ["ok"; 6]);
        let inside = ["stat:probe", "watch:probe"].map(str::to_owned);
        assert_eq!(blind.told(&inside), ["ok"; 2]);
    }
}

#[test]
fn the_daemons_own_directories_are_never_in_a_session() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        // More than a result holds, so that there is a spool outside.
        let result = sandbox.bash("head -c 300000 /dev/zero | tr '\\0' x");
        assert!(result.success && result.spool.is_some());
        assert!(fs::read_dir(world.state()).unwrap().next().is_some(), "the state is not empty");
        let own = [world.state(), world.profiles()];
        let attempts: Vec<String> =
            own.iter().flat_map(|path| [at("stat", path), at("list", path)]).collect();
        assert_eq!(sandbox.told(&attempts), ["ENOENT"; 4]);
        let state = world.state();
        let line = format!("line:/proc/self/mountinfo:{}", state.display());
        assert_eq!(sandbox.told(&[line]), ["EINVAL"], "no mount is of it");
        drop(sandbox);
        // Nor when a workspace, or a profile, would bring them in.
        let above = world.state().parent().unwrap().to_owned();
        for workspace in [above, world.state(), world.profiles()] {
            let error = refused_session(&world, Open::new(&workspace));
            assert_eq!(
                error.0,
                ErrorCode::WorkspaceRefused,
                "{}: {}",
                workspace.display(),
                error.1
            );
        }
        let missing = world.workspace().join("missing");
        let error = refused_session(&world, Open::new(&missing));
        let message = format!("workspace {missing:?}: it does not exist");
        assert_eq!(error, (ErrorCode::WorkspaceRefused, message), "{mode:?}");
        for (name, path) in [("into-state", world.state()), ("into-profiles", world.profiles())] {
            let text = format!("unguarded = [\"!{}\"]", path.display());
            world.add_unasked(name, &profile_with(&[("unguarded = []", &text)]));
            let error = refused_session(&world, Open::new(world.workspace()).profile(name));
            assert_eq!(error.0, ErrorCode::InvalidRequest, "{name}: {}", error.1);
        }
        // The control: another directory can be written by a profile.
        let text = format!("unguarded = [\"!{}\"]", world.outside().display());
        world.add_unasked("into-outside", &profile_with(&[("unguarded = []", &text)]));
        let sandbox = world.open_with("into-outside");
        assert_eq!(sandbox.told(&[at("write", &world.outside().join("new"))]), ["ok"]);
        assert!(world.outside().join("new").exists());
    }
}

fn refused_session(world: &World, open: Open) -> (ErrorCode, String) {
    let (stream, daemon) = world.embedded(&[]);
    let mut daemon = daemon;
    let error = Sandbox::over(stream, None, open).expect_err("a session that must not be");
    daemon.wait().unwrap();
    let Error::Remote(error) = error else { panic!("{error}") };
    (error.code, error.message)
}

/// The file tools run in a process of their own, of which `/proc` would show the memory and the
/// programs of the host.
#[test]
fn file_tools_do_not_show_their_own_process() {
    for mode in Mode::all() {
        let world = World::new(mode);
        symlink("/proc/self/maps", world.workspace().join("alias")).unwrap();
        symlink("/proc/self", world.workspace().join("own")).unwrap();
        let sandbox = world.open();
        let own = ["/proc/self/maps", "/proc/thread-self/status", "/proc/1/maps", "/proc/mounts"];
        let linked = ["alias", "own/maps", "own/environ", "/proc/self/task/1/maps"];
        for path in own.iter().chain(&linked) {
            for tool in ["read_file", "stat", "realpath"] {
                let (code, told) = sandbox.refused(tool, json!({"path": path}));
                let is_refused = code == ErrorCode::OutsidePolicy || code == ErrorCode::NotFound;
                assert!(is_refused, "{mode:?}: {tool} {path}: {told}");
                assert!(!told.contains("palisade-cell"), "{mode:?}: {tool} {path}: {told}");
            }
            let search = json!({"path": path, "pattern": "r-xp"});
            let _refused = sandbox.refused("grep", search);
        }
        let (code, told) = sandbox.refused("read_file", json!({"path": "/proc/self/maps"}));
        assert_eq!(code, ErrorCode::OutsidePolicy, "{mode:?}");
        assert!(told.contains("use bash"), "{mode:?}: {told}");
        for (tool, arguments) in [
            ("list_files", json!({"path": "/proc/self"})),
            ("list_files", json!({"path": "own"})),
            ("glob", json!({"path": "/proc/self", "pattern": "*"})),
            ("edit", json!({"path": "/proc/self/comm", "old_string": "a", "new_string": "b"})),
        ] {
            assert_eq!(sandbox.refused(tool, arguments).0, ErrorCode::OutsidePolicy, "{tool}");
        }
        // Nor does a walk from above enter it.
        let listed = sandbox.done("list_files", json!({"path": "/proc", "recursive": true}));
        assert!(!listed.output.contains("/maps"), "{mode:?}: {}", listed.output);
        // The control: what is about no process is read, and programs read their own.
        assert!(
            sandbox.done("read_file", json!({"path": "/proc/meminfo"})).output.contains("MemTotal")
        );
        assert!(sandbox.ok("cat /proc/self/maps").contains("r-xp"));
    }
}
