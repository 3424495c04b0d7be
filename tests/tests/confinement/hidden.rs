//! Names inside the workspace that a session does not see, or can not change: for every tool and for
//! every program, whichever way it goes and however it runs, whatever the host does meanwhile.

use palisade_protocol::{Ask, CallResult, ErrorCode};
use palisade_tests::{
    Desk, Mode, World,
    processes::{self, Process},
    rooms::awaited,
    tree,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant},
};

/// A profile of its own, with what is hidden and protected.
fn profile(head: &str, names: &str) -> String {
    format!(
        "version = 1\ndescription = \"names\"\n{head}\n[fs]\nallow_delete = true\n\
         workspace = \"write\"\n\
         execute = [\"!/usr\", \"/bin\", \"/sbin\", \"/lib\", \"/lib32\", \"/lib64\", \"/libx32\"]\n\
         etc = [\"passwd\", \"group\", \"ld.so.cache\", \"alternatives\"]\n{names}\n\
         [env]\npath = [\"/usr/local/bin\", \"/usr/bin\", \"/bin\"]\n\
         [layers]\noptional = [\"limits\"]\n"
    )
}

const NAMES: &str = "hide = [\".env\", \"*.pem\", \"secrets/\"]\n\
                     protect = [\"**/.git/hooks/\", \"**/.git/config\", \"ci.yml\"]\n";

/// A workspace with something to hide and something to protect; what is hidden says `secret`.
fn desk(mode: Mode, head: &str) -> Desk {
    let desk = Desk::asking(mode, &profile(head, NAMES), Ask::Never);
    for file in [".env", "sub/deep/.env", "sub/key.pem", "secrets/token"] {
        desk.file(file, "secret\n");
    }
    for file in ["plain", "sub/seen", ".git/hooks/run", ".git/config", "sub/ci.yml"] {
        desk.file(file, "seen\n");
    }
    symlink(".env", desk.path("way")).unwrap();
    symlink("secrets", desk.path("door")).unwrap();
    fs::hard_link(desk.path(".env"), desk.path("sub/other-name")).unwrap();
    desk
}

/// Ways to what is hidden: by reading programs, by any program, by what the kernel offers.
const WAYS: [&str; 14] = [
    "cat .env",
    "cat sub/../.env ./sub/deep/.env",
    "cat way",
    "cat door/token",
    "cat secrets/token",
    "head -c 100 \"$PWD/.env\"",
    "find . -name '.env' -o -name '*.pem' -o -name secrets",
    "ls -A . sub sub/deep | grep -E 'env|pem|secrets'",
    "grep -rs secret . --exclude=other-name",
    "git grep --no-index secret -- ':!sub/other-name'",
    "python3 -c 'import os\nfor e in os.scandir(\".\"):\n  if \"env\" in e.name: print(open(e).read())'",
    "python3 -c 'import os\nd = os.open(\".\", 0)\nprint(open(os.open(\".env\", 0, dir_fd=d)).read())'",
    "cat /proc/self/cwd/.env /proc/self/root\"$PWD\"/.env",
    "cp -r . /tmp/copy && rm /tmp/copy/sub/other-name; grep -r secret /tmp/copy",
];

#[test]
fn no_program_sees_what_is_hidden() {
    for mode in Mode::all() {
        let desk = desk(mode, "ask = \"never\"");
        // These names exist for whoever may see them.
        assert_eq!(desk.text(".env").as_deref(), Some("secret\n"));
        for line in WAYS {
            let result = desk.sandbox.bash(line);
            assert!(!result.stdout.contains("secret"), "{mode:?}: {line}: {}", result.stdout);
            assert!(!result.stdout.contains(".pem"), "{mode:?}: {line}: {}", result.stdout);
            assert!(result.exit_code.is_some(), "{mode:?}: {line}: {:?}", result.error);
        }
        let missing = desk.sandbox.bash("cat .env");
        assert!(missing.stderr.contains("No such file or directory"), "{}", missing.stderr);
        // Other names exist, also another name of a hidden file.
        assert_eq!(desk.sandbox.ok("cat plain sub/seen sub/ci.yml"), "seen\nseen\nseen\n");
        assert_eq!(desk.sandbox.ok("cat sub/other-name"), "secret\n");
        let listed = desk.sandbox.ok("ls -A . sub sub/deep");
        assert_eq!(
            listed,
            ".:\n.git\ndoor\nplain\nprobe\nsub\nway\n\nsub:\nci.yml\ndeep\nother-name\nseen\n\nsub/deep:\n"
        );
        assert_eq!(desk.text(".env").as_deref(), Some("secret\n"), "{mode:?}: it is as it was");
    }
}

#[test]
fn whatever_the_guard_and_however_it_runs() {
    for mode in Mode::all() {
        for guard in ["off", "text", "transaction"] {
            let desk = desk(mode, &format!("ask = \"never\"\nguard = \"{guard}\""));
            let result = desk.sandbox.bash("cat .env; python3 -c 'print(open(\".env\").read())'");
            assert_eq!(result.stdout, "", "{mode:?} {guard}");
            let made = desk.sandbox.bash("echo made > made; cat plain");
            assert_eq!((made.success, made.stdout.as_str()), (true, "seen\n"), "{made:?}");
            assert_eq!(desk.text("made").as_deref(), Some("made\n"), "{mode:?} {guard}");
            let hook = desk.sandbox.bash("echo bad > .git/hooks/run; echo new > new");
            assert_protected(&desk, &hook, ".git/hooks/run");
            assert_eq!(desk.text("new"), None, "{mode:?} {guard}: nothing of it was kept");
        }
        let desk = desk(mode, "ask = \"never\"");
        let terminal =
            desk.sandbox.call("bash", json!({"command": "cat .env; cat plain", "pty": true}));
        assert!(!terminal.output.contains("secret"), "{terminal:?}");
        assert!(terminal.output.contains("seen"), "{terminal:?}");
        let line = "cat .env; cat plain; echo job > from-job; echo bad > .git/config";
        for (line, kept) in
            [(line, None), ("cat .env; cat plain; echo job > from-job", Some("job\n"))]
        {
            let started = desk.sandbox.call("bash", json!({"command": line, "background": true}));
            assert!(started.success, "{started:?}");
            let ended = job(&desk, &started);
            assert!(!ended.output.contains("secret"), "{ended:?}");
            assert!(ended.output.contains("seen"), "{ended:?}");
            assert_eq!(desk.text("from-job").as_deref(), kept, "{mode:?}: {ended:?}");
            assert_eq!(desk.text(".git/config").as_deref(), Some("seen\n"));
        }
    }
}

/// Waits for a job, and gives all that it printed.
fn job(desk: &Desk, started: &CallResult) -> CallResult {
    let data: Value = serde_json::from_str(started.data.as_ref().unwrap().as_str()).unwrap();
    let arguments = json!({"job": data["job"], "wait_ms": 1000});
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let result = desk.sandbox.call("job_output", arguments.clone());
        let told: Value = serde_json::from_str(result.data.as_ref().unwrap().as_str()).unwrap();
        if told["exit_code"].is_number() {
            return desk.sandbox.call("job_output", json!({"job": data["job"], "cursor": 0}));
        }
        assert!(Instant::now() < until, "{result:?}");
    }
}

fn assert_protected(desk: &Desk, result: &CallResult, name: &str) {
    let error = result.error.as_ref().unwrap_or_else(|| panic!("{name}: {result:?}"));
    assert_eq!(error.code, ErrorCode::OutsidePolicy, "{error:?}");
    let [denial] = &result.denials[..] else { panic!("{name}: {result:?}") };
    assert_eq!(denial.layer, "protect");
    assert_eq!(Path::new(&denial.target), desk.path(name));
    assert!(denial.at.contains("asking.toml:11:"), "{denial:?}");
    assert!(denial.remedy.contains("fs.protect"), "{denial:?}");
    assert_eq!(denial.opens, "it could be changed by every program of the session");
    assert_eq!(desk.text(name).as_deref(), Some("seen\n"));
}

/// Commands that would change a protected name or lose a hidden one, and the layer and name that
/// each is refused for.
const REFUSED: [(&str, &str, &str); 9] = [
    ("echo bad >> .git/hooks/run", "protect", ".git/hooks/run"),
    ("echo bad > new && mv new .git/config", "protect", ".git/config"),
    ("mkdir -p x/.git/hooks && echo bad > x/.git/hooks/post", "protect", "x/.git/hooks"),
    ("chmod 777 .git/config", "protect", ".git/config"),
    ("mv .git git", "protect", ".git"),
    ("rm -rf .git", "protect", ".git"),
    ("rm -rf sub/deep", "hide", "sub/deep/.env"),
    ("mv sub elsewhere", "protect", "elsewhere/ci.yml"),
    ("echo mine > .env", "hide", ".env"),
];

#[test]
fn what_is_protected_is_as_it_was_and_the_refusal_says_why() {
    for mode in Mode::all() {
        let desk = desk(mode, "ask = \"never\"");
        let before = tree(&desk.world.workspace());
        for (line, layer, name) in REFUSED {
            let result = desk.sandbox.bash(&format!("echo x > beside; {line}"));
            let error = result.error.clone().unwrap_or_else(|| panic!("{line}: {result:?}"));
            assert_eq!(error.code, ErrorCode::OutsidePolicy, "{mode:?}: {line}: {error:?}");
            let [denial] = &result.denials[..] else { panic!("{line}: {result:?}") };
            assert_eq!(denial.layer, layer, "{mode:?}: {line}: {denial:?}");
            assert!(
                denial.target.starts_with(desk.path(name).to_str().unwrap()),
                "{line}: {denial:?}"
            );
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}: {line}");
        }
        // Reading it, and what lies beside it, is the session's as ever.
        assert_eq!(desk.sandbox.ok("cat .git/config; echo fine > .git/index"), "seen\n");
        assert_eq!(desk.text(".git/index").as_deref(), Some("fine\n"));
        assert_eq!(desk.sandbox.ok("rm .git/index; ls .git"), "config\nhooks\n");
    }
}

#[test]
fn what_the_host_puts_there_meanwhile_is_hidden_as_well() {
    for mode in Mode::all() {
        let desk = desk(mode, "ask = \"never\"");
        for before in ["", "touch made; "] {
            let mark = processes::mark();
            let line = format!(
                "{before}(exec -a {mark} sleep 600); cat .env sub/key.pem other/.env; echo end"
            );
            // While the command runs, files are renamed over those that are hidden.
            let result = std::thread::scope(|scope| {
                let swapping = scope.spawn(|| {
                    let sleeping = format!("{mark} 600");
                    let is_sleeping = |process: &Process| process.command == sleeping;
                    let sleeper = awaited("the command runs", || {
                        processes::marked(&mark).into_iter().find(is_sleeping)
                    });
                    for hidden in [".env", "sub/key.pem"] {
                        desk.file("fresh", "fresh secret\n");
                        fs::rename(desk.path("fresh"), desk.path(hidden)).unwrap();
                    }
                    fs::remove_file(desk.path(".env")).unwrap();
                    desk.file(".env", "another secret\n");
                    // Now it goes on.
                    kill_process(Pid::from_raw(sleeper.pid).unwrap(), Signal::KILL).unwrap();
                });
                let result = desk.sandbox.bash(&line);
                swapping.join().unwrap();
                result
            });
            assert_eq!(result.stdout, "end\n", "{mode:?}: {result:?}");
        }
        assert_eq!(desk.text("sub/key.pem").as_deref(), Some("fresh secret\n"));
        // A file that is made later is hidden from the next command, wherever it is.
        desk.file("later/deep/new.pem", "secret\n");
        desk.file("later/.env", "secret\n");
        desk.file("later/seen", "seen\n");
        assert_eq!(
            desk.sandbox.ok("find later -type f | sort; cat later/seen"),
            "later/seen\nseen\n"
        );
        fs::rename(desk.path("later"), desk.path("moved")).unwrap();
        assert_eq!(desk.sandbox.ok("find moved -type f | sort"), "moved/seen\n", "{mode:?}");
        // A renamed file is seen, and its old name is not looked for any more.
        fs::rename(desk.path("moved/.env"), desk.path("moved/env")).unwrap();
        assert_eq!(desk.sandbox.ok("cat moved/env"), "secret\n");
    }
}

/// Prints everything that it finds, when it is told to.
const PRINTER: &str = "read line; cat .env; ls -A; echo end";

#[test]
fn a_name_is_hidden_that_is_made_while_nothing_was_hidden_yet() {
    for mode in Mode::all() {
        let desk = Desk::asking(mode, &profile("ask = \"never\"", NAMES), Ask::Never);
        desk.file("plain", "seen\n");
        for route in [Value::Null, json!("watch")] {
            let arguments = json!({"command": PRINTER, "route": route, "input": true});
            let job = desk.sandbox.start_job(arguments);
            desk.file(".env", "secret\n");
            let line = json!({"job": job, "data": "go\n"});
            assert!(desk.sandbox.done("job_input", line).success);
            let (printed, _) = desk.sandbox.whole_job(job);
            assert!(printed.contains("plain\n"), "{mode:?} {route}: {printed}");
            assert!(printed.ends_with("end\n"), "{mode:?} {route}: {printed}");
            assert!(!printed.contains("secret\n"), "{mode:?} {route}: {printed}");
            assert!(!printed.lines().any(|line| line == ".env"), "{mode:?} {route}: {printed}");
            fs::remove_file(desk.path(".env")).unwrap();
        }
    }
}

#[test]
fn no_file_tool_shows_or_changes_it() {
    for mode in Mode::all() {
        let desk = desk(mode, "ask = \"never\"");
        let before = tree(&desk.world.workspace());
        let missing = desk.sandbox.call("read_file", json!({"path": "missing"})).error.unwrap();
        for path in [".env", "way", "sub/../.env", "secrets/token", "door/token", "sub/key.pem"] {
            let error = desk.sandbox.call("read_file", json!({"path": path})).error.unwrap();
            assert_eq!(error.code, missing.code, "{path}: {error:?}");
        }
        for (tool, arguments) in [
            (
                "list_files",
                json!({"path": ".", "recursive": true, "hidden": true, "ignored": true}),
            ),
            ("glob", json!({"pattern": "**/*", "hidden": true, "ignored": true})),
            ("grep", json!({"pattern": "secret", "hidden": true, "ignored": true})),
        ] {
            let result = desk.sandbox.call(tool, arguments);
            assert!(result.success, "{tool}: {result:?}");
            // A link that is not hidden shows where it leads, as it does to a program.
            let names: Vec<_> =
                result.output.lines().map(|line| line.split(" -> ").next().unwrap()).collect();
            for word in [".env", ".pem", "token"] {
                assert!(!names.iter().any(|name| name.contains(word)), "{tool}: {names:?}");
            }
            assert!(result.output.contains("other-name"), "{tool}: {}", result.output);
        }
        for (tool, arguments, layer) in [
            ("write_file", json!({"path": ".env", "content": "x"}), "hide"),
            ("write_file", json!({"path": "new/.env", "content": "x"}), "hide"),
            ("write_file", json!({"path": "way", "content": "x"}), "hide"),
            ("move_file", json!({"from": "plain", "to": "a.pem"}), "hide"),
            ("delete_file", json!({"path": "sub/deep", "recursive": true}), "hide"),
            ("write_file", json!({"path": ".git/config", "content": "x"}), "protect"),
            (
                "edit",
                json!({"path": "sub/ci.yml", "old_string": "seen", "new_string": "x"}),
                "protect",
            ),
            ("move_file", json!({"from": ".git", "to": "git"}), "protect"),
            ("delete_file", json!({"path": ".git", "recursive": true}), "protect"),
            ("make_dir", json!({"path": "a/.git/hooks"}), "protect"),
        ] {
            let result = desk.sandbox.call(tool, arguments.clone());
            let error = result.error.unwrap_or_else(|| panic!("{tool} {arguments}"));
            assert_eq!(error.code, ErrorCode::OutsidePolicy, "{tool} {arguments}: {error:?}");
            let layers: Vec<_> = result.denials.iter().map(|one| one.layer.as_str()).collect();
            assert_eq!(layers, [layer], "{tool} {arguments}: {error:?} {:?}", result.denials);
        }
        assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}");
        let read = desk.sandbox.call("read_file", json!({"path": ".git/config"}));
        assert!(read.output.contains("seen"), "{read:?}");
    }
}

#[test]
fn a_workspace_that_is_only_read_hides_too() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.workspace().join(".env"), "secret\n").unwrap();
        fs::write(world.workspace().join("plain"), "seen\n").unwrap();
        let text = profile("ask = \"never\"", "hide = [\".env\"]")
            .replace("workspace = \"write\"", "workspace = \"read\"")
            .replace("allow_delete = true\n", "");
        world.add_profile("reading", &text);
        let sandbox = world.open_with("reading");
        for line in [
            "cat .env; cat plain",
            "python3 -c 'print(open(\"plain\").read(), end=\"\")'; cat .env",
        ] {
            let result = sandbox.bash(line);
            assert_eq!(result.stdout, "seen\n", "{mode:?}: {result:?}");
        }
        let write = sandbox.bash("python3 -c 'open(\"new\", \"w\")'");
        assert!(write.stderr.contains("Read-only file system"), "{mode:?}: {write:?}");
        assert!(!world.workspace().join("new").exists());
    }
}

/// If names can not be hidden there is no session, unless the profile says that it may be so.
#[test]
fn what_can_not_be_held_is_refused_unless_it_may_be_missing() {
    if !Mode::all().contains(&Mode::System) {
        return;
    }
    let mode = Mode::System;
    let world = World::new(mode);
    let mounted = world.workspace().join("mounted");
    fs::create_dir(&mounted).unwrap();
    world.add_profile("names", &profile("ask = \"never\"", NAMES));
    let optional = profile("ask = \"never\"", NAMES)
        .replace("[\"limits\"]", "[\"limits\", \"hide\", \"protect\"]");
    world.add_profile("optional", &optional);
    // The daemon sees the mount in a namespace of its own; the host does not.
    let mount = format!("mount -t tmpfs tmpfs {}", mounted.display());
    let line = format!("exec unshare --mount bash -c 'set -e; {mount}; exec \"$@\"' bash \"$@\"");
    let session = |name: &str| {
        let (stream, daemon) = world.embedded_by(mode, &line);
        let open = palisade_client::Open::new(world.workspace()).profile(name);
        palisade_tests::Sandbox::over(stream, Some(daemon), open)
    };
    let why = session("names").err().map(|error| error.to_string()).unwrap_or_default();
    let result = session("optional").unwrap().bash("echo fine");
    let degraded: Vec<_> =
        result.receipt.as_ref().unwrap().degraded.iter().map(|one| one.layer.clone()).collect();
    assert!(why.contains("mounted\" is a mount in it"), "{why}");
    assert_eq!(result.stdout, "fine\n", "{result:?}");
    assert!(degraded.contains(&"hide".to_owned()), "{degraded:?}");
}

/// The text of a rule that denies everything below a directory.
fn rule(more: &str) -> String {
    let rule = "[[rules]]\nverdict = \"deny\"\nwhy = \"secrets stay\"\npaths = [\"secrets/**\"]\n";
    format!("{rule}{more}")
}

/// A rule about paths holds for every program, or is refused.
#[test]
fn a_rule_does_not_pretend_to_keep_paths_from_programs() {
    const READ: [&str; 5] = [
        "cat secrets/token",
        "grep -r secret secrets",
        "python3 -c 'print(open(\"secrets/token\").read())'",
        "cp secrets/token /tmp/copy && cat /tmp/copy",
        "cd secrets && cat token",
    ];
    for mode in Mode::all() {
        let world = World::new(mode);
        let secrets = world.workspace().join("secrets");
        fs::create_dir(&secrets).unwrap();
        fs::write(secrets.join("token"), "secret\n").unwrap();
        for path in [&secrets, &secrets.join("token")] {
            world.give(path);
        }
        let plain = profile("ask = \"never\"", "");
        // Without a layer that binds programs there is no session, and the message names the keys.
        let refused = format!("{plain}{}", rule(""));
        let file = world.outside().join("pretends.toml");
        fs::write(&file, &refused).unwrap();
        let check =
            world.command("palisade").args(["profile", "check"]).arg(&file).output().unwrap();
        assert!(!check.status.success(), "{mode:?}");
        let told = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
        for part in [
            "rules.paths",
            "programs of \"bash\" could read \"secrets/**\"",
            "fs.hide",
            "fs.protect",
        ] {
            assert!(told.contains(part), "{mode:?}: {part}: {told}");
        }
        // With it, nothing reads the file: no tool, and no program.
        let hide = profile("ask = \"never\"", "hide = [\"secrets/\"]");
        world.add_unasked("hides", &format!("{hide}{}", rule("")));
        // Where only file tools are named, the rule binds them alone, as docs/profiles.md says.
        world.add_unasked(
            "tools",
            &format!("{plain}{}", rule("tools = [\"read_file\", \"grep\"]\n")),
        );
        let sandbox = world.open_with("hides");
        for line in READ {
            let result = sandbox.bash(line);
            assert!(!result.output.contains("secret\n"), "{mode:?}: {line}: {}", result.output);
            assert_ne!(result.exit_code, Some(0), "{mode:?}: {line}");
        }
        let _denied = sandbox.refused("read_file", json!({"path": "secrets/token"}));
        let _denied = sandbox.refused("grep", json!({"pattern": "secret", "path": "secrets"}));
        drop(sandbox);
        let sandbox = world.open_with("tools");
        let (code, _) = sandbox.refused("read_file", json!({"path": "secrets/token"}));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}");
        for line in READ {
            assert!(sandbox.ok(line).contains("secret\n"), "{mode:?}: {line}");
        }
    }
}
