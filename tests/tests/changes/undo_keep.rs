//! A loss can be undone for as long as `undo.keep` says, whatever else is changed, in every kind of
//! daemon; and `palisade undo` finds it.

use palisade_client::Open;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Daemon, Desk, Mode, Sandbox, World, outside, profile_never_asking, profile_with,
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Output};

fn world(mode: Mode) -> World {
    let world = World::new(mode);
    world.add_unasked("free", &profile_never_asking());
    world
}

fn file(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.workspace().join(name);
    fs::write(&path, text).unwrap();
    world.give(&path);
    path
}

fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

/// A session of a private daemon, or of one that listens.
fn opened(world: &World, daemon: Option<&Daemon>, arguments: &[&str]) -> Sandbox {
    let open = Open::new(world.workspace()).profile("free");
    match daemon {
        Some(daemon) => Sandbox::over(daemon.connect(world.mode), None, open).unwrap(),
        None => {
            let (stream, child) = world.embedded(arguments);
            Sandbox::over(stream, Some(child), open).unwrap()
        }
    }
}

#[test]
fn many_small_writes_push_no_loss_out_of_undo() {
    for mode in Mode::all() {
        for listens in [false, true] {
            let world = world(mode);
            let precious = file(&world, "precious", "irreplaceable\n");
            let daemon = listens.then(|| world.daemon());
            let sandbox = opened(&world, daemon.as_ref(), &[]);
            let lost = sandbox.done("delete_file", json!({"path": "precious"}));
            let own = sandbox.done("write_file", json!({"path": "own", "content": "0"}));
            for n in 1..=1_100 {
                let content = n.to_string();
                assert!(
                    sandbox.done("write_file", json!({"path": "own", "content": content})).success
                );
            }
            // The session's own work has gone for it, and is bounded as ever.
            let gone = sandbox.call("undo", json!({"call_id": own.undo}));
            assert_eq!(code(&gone), Some(ErrorCode::NotFound), "{mode:?} {listens}");
            assert_eq!(fs::read_dir(world.state().join("undo")).unwrap().count(), 1 + 1024);
            drop(sandbox);
            drop(daemon);
            // The next daemon knows it too.
            let sandbox = opened(&world, None, &[]);
            assert!(sandbox.done("write_file", json!({"path": "own", "content": "last"})).success);
            assert!(sandbox.done("undo", json!({"call_id": lost.undo})).success);
            assert_eq!(fs::read_to_string(&precious).unwrap(), "irreplaceable\n", "{mode:?}");
        }
    }
}

/// Nobody is asked about the files of an operation of git, so that undo has to keep them.
#[test]
fn many_small_writes_push_no_list_of_a_rebase_out_of_undo() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let make = "git init -q . && mkdir .git/rebase-merge && \
                    echo 'pick 1' > .git/rebase-merge/git-rebase-todo && echo mine > .git/x.lock";
        outside(&desk.world, &desk.world.workspace(), make);
        let deleted = desk.sandbox.bash("rm -rf .git/rebase-merge .git/x.lock");
        assert!(deleted.success, "{mode:?}: {:?}", deleted.error);
        let write = |content: &str| {
            desk.sandbox.done("write_file", json!({"path": "own", "content": content}))
        };
        let own = write("first");
        for n in 1..=1_100 {
            assert!(write(&n.to_string()).success);
        }
        let gone = desk.sandbox.call("undo", json!({"call_id": own.undo}));
        assert_eq!(code(&gone), Some(ErrorCode::NotFound), "{mode:?}");
        let undone = desk.sandbox.call("undo", json!({"call_id": deleted.undo}));
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
        let todo = desk.text(".git/rebase-merge/git-rebase-todo");
        assert_eq!(todo.as_deref(), Some("pick 1\n"), "{mode:?}");
        assert_eq!(desk.text(".git/x.lock").as_deref(), Some("mine\n"), "{mode:?}");
    }
}

#[test]
fn a_private_daemon_refuses_a_change_whose_loss_it_has_no_room_for() {
    for mode in Mode::all() {
        let world = world(mode);
        world.configure("[quotas]\nundo_bytes = 100000\n\n[undo]\nkeep = \"2d\"\n");
        let config = world.configuration();
        let arguments = ["--config", config.to_str().unwrap()];
        let sandbox = opened(&world, None, &arguments);
        let text = |name: &str| name.repeat(40_000);
        for name in ["a", "b", "c"] {
            file(&world, name, &text(name));
        }
        let kept = ["a", "b"].map(|path| sandbox.done("delete_file", json!({"path": path})));
        let refused = [
            sandbox.call("delete_file", json!({"path": "c"})),
            sandbox.call("write_file", json!({"path": "c", "content": "x"})),
            sandbox.bash("rm c"),
        ];
        for result in refused {
            let error = result.error.expect("there is no room");
            assert_eq!(error.code, ErrorCode::UndoStoreFull, "{mode:?} {}: {error}", result.tool);
            let uid = mode.uid();
            let full = format!("the undo store of uid {uid} is full: 2 records that hold a loss");
            assert!(error.message.contains(&full), "{error}");
            assert!(error.hint.contains("undo.keep (2 days)"), "{error}");
            let most = 2 * 24 * 60 * 60 * 1000;
            assert!(error.retry_after_ms.is_some_and(|wait| wait > most / 2 && wait <= most));
            assert_eq!(fs::read_to_string(world.workspace().join("c")).unwrap(), text("c"));
        }
        // A smaller change finds room, and no record was deleted for the refused ones.
        assert!(sandbox.done("write_file", json!({"path": "small", "content": "x"})).success);
        drop(sandbox);
        let sandbox = opened(&world, None, &[]);
        for (name, call) in ["a", "b"].into_iter().zip(&kept) {
            assert!(sandbox.done("undo", json!({"call_id": call.undo})).success);
            assert_eq!(fs::read_to_string(world.workspace().join(name)).unwrap(), text(name));
        }
    }
}

/// The command line with its daemon.
struct Typed {
    world: World,
    daemon: Daemon,
}

impl Typed {
    fn new(mode: Mode) -> Self {
        let world = world(mode);
        let daemon = world.daemon();
        Self { world, daemon }
    }

    fn type_in(&self, words: &[&str]) -> Output {
        let mut command = self.world.command("palisade");
        command.args(words).env("PALISADE_SOCKET", &self.daemon.socket).env("NO_COLOR", "1");
        self.world.mode.act(|| command.output().expect("palisade"))
    }

    /// Returns what a command prints; it must succeed.
    fn printed(&self, words: &[&str]) -> String {
        let output = self.type_in(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the messages of a command, which must exit with this status.
    fn said(&self, words: &[&str], status: i32) -> String {
        let output = self.type_in(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn run(&self, line: &str) -> Value {
        let output = self.printed(&["run", "--profile", "free", "--json", "--", line]);
        serde_json::from_str(&output).unwrap()
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.workspace().join(name)).ok()
    }
}

#[test]
fn a_call_is_undone_by_last_by_its_id_and_by_the_start_of_it() {
    for mode in Mode::all() {
        let typed = Typed::new(mode);
        file(&typed.world, "a", "a\n");
        file(&typed.world, "b", "b\n");
        assert!(
            typed.said(&["undo", "last"], 1).contains("no call in this workspace can be undone")
        );
        assert!(typed.said(&["undo"], 1).starts_with("there is nothing to undo in this workspace"));
        let first = typed.run("rm a");
        let second = typed.run("echo new > b");
        let (first, second) = (first["undo"].as_str().unwrap(), second["undo"].as_str().unwrap());
        // The newest first; what is listed is enough to name a call.
        let listed = typed.printed(&["undo"]);
        let ids: Vec<&str> =
            listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(ids, [&second[..18], &first[..18]], "{mode:?}: {listed}");
        // A trial changes nothing.
        typed.printed(&["undo", "last", "--dry-run", "--profile", "free"]);
        assert_eq!(typed.read("b").as_deref(), Some("new\n"));
        let told = typed.printed(&["undo", "last", "--profile", "free"]);
        assert!(told.starts_with(&format!("undid {} (bash, ", &second[..18])), "{told}");
        assert_eq!(typed.read("b").as_deref(), Some("b\n"), "{mode:?}");
        assert_eq!(typed.read("a"), None);
        // An undone call is passed over: the last is now the one before it.
        typed.printed(&["undo", "last", "--profile", "free"]);
        assert_eq!(typed.read("a").as_deref(), Some("a\n"), "{mode:?}");
        typed.said(&["undo", "last", "--profile", "free"], 1);
        // From anywhere, by the start of its id; undone twice it is a conflict.
        let third = typed.run("rm a");
        let third = third["undo"].as_str().unwrap();
        let outside = typed.world.outside();
        let prefix = ["undo", &third[..18], "--profile", "free", "--workspace"];
        let prefix = [&prefix[..], &[outside.to_str().unwrap()]].concat();
        typed.printed(&prefix);
        assert_eq!(typed.read("a").as_deref(), Some("a\n"), "{mode:?}");
        assert!(typed.said(&["undo", third, "--profile", "free"], 1).contains("conflict"));
        // Ids begin with the time: these have their start in common.
        let several = typed.said(&["undo", &third[..1], "--profile", "free"], 1);
        assert!(several.contains(&format!(" calls start with {}: ", &third[..1])), "{several}");
        assert!(several.contains(&first[..18]) && several.contains(&third[..18]), "{several}");
        assert!(typed.said(&["undo", "ffff"], 1).contains("there is no call ffff"));
        assert!(typed.said(&["undo", "last", "--session", "s"], 2).contains("cannot be used with"));
    }
}

#[test]
fn a_session_is_undone_newest_first_until_a_conflict() {
    for mode in Mode::all() {
        let typed = Typed::new(mode);
        for name in ["a", "b", "c"] {
            file(&typed.world, name, &format!("{name}\n"));
        }
        let changed = |names: &[&str]| {
            let open = Open::new(typed.world.workspace()).profile("free");
            let sandbox = Sandbox::over(typed.daemon.connect(mode), None, open).unwrap();
            for name in names {
                assert!(
                    sandbox.done("write_file", json!({"path": name, "content": "changed"})).success
                );
            }
            sandbox.session.id().to_string()
        };
        let session = changed(&["a", "b", "c"]);
        let words = ["undo", "--session", &session, "--profile", "free"];
        let would = typed.printed(&[&words[..], &["--dry-run"]].concat());
        assert_eq!(would.lines().filter(|line| line.starts_with("would undo ")).count(), 3);
        assert_eq!(typed.read("c").as_deref(), Some("changed"));
        let told = typed.printed(&words);
        assert_eq!(told.lines().filter(|line| line.starts_with("undid ")).count(), 3, "{told}");
        for name in ["a", "b", "c"] {
            assert_eq!(typed.read(name), Some(format!("{name}\n")), "{mode:?}");
        }
        assert!(typed.said(&words, 1).contains("no call of session"));
        // Somebody else changed what one of them left: it stops there.
        let session = changed(&["a", "b", "c"]);
        file(&typed.world, "b", "mine");
        let words = ["undo", "--session", &session, "--profile", "free"];
        let told = typed.said(&words, 1);
        let end = "1 calls were undone; this one failed, and 1 earlier ones were not tried\n";
        assert!(told.contains("conflict") && told.contains(end), "{mode:?}: {told}");
        let now = ["a", "b", "c"].map(|name| typed.read(name).unwrap());
        assert_eq!(now, ["changed", "mine", "c\n"], "{mode:?}");
        // By force, what is in the way is lost, and the rest goes on.
        let forced = typed.printed(&[&words[..], &["--force", "--json"]].concat());
        let forced: Value = serde_json::from_str(&forced).unwrap();
        assert_eq!((&forced["success"], &forced["undone"]), (&json!(true), &json!(2)));
        let now = ["a", "b", "c"].map(|name| typed.read(name).unwrap());
        assert_eq!(now, ["a\n", "b\n", "c\n"], "{mode:?}");
    }
}

#[test]
fn run_says_how_to_undo_and_why_a_call_was_denied() {
    for mode in Mode::all() {
        let typed = Typed::new(mode);
        let log = typed.world.state().join("audit");
        let log = log.to_str().unwrap();
        file(&typed.world, "a", "a\n");
        let said = typed.said(&["run", "-v", "--profile", "free", "--", "rm a"], 0);
        let id = said.split_once("undo: palisade undo ").expect("an id").1.trim();
        typed.printed(&["undo", id, "--profile", "free"]);
        assert_eq!(typed.read("a").as_deref(), Some("a\n"), "{mode:?}");
        // Nothing to undo, nothing denied: nothing to say; and a script is told nothing at all.
        let said = typed.said(&["run", "-v", "--profile", "free", "--", "cat a"], 0);
        assert!(!said.contains("palisade undo") && !said.contains("palisade why"), "{said}");
        let said = typed.said(&["run", "--profile", "free", "--", "touch b"], 0);
        assert!(!said.contains("palisade undo"), "{said}");
        // Nobody is there to approve it.
        let said = typed.said(&["run", "-v", "--profile", "workspace", "--", "rm a"], 126);
        let id = said.split_once("why: palisade why ").expect("an id").1.trim();
        let why = |call: &str| typed.printed(&["why", call, "--dir", log]);
        assert!(why(id).starts_with("refused: "), "{mode:?}");
        assert_eq!(why("last"), why(id), "{mode:?}");
        // Ids begin with the time, so all of them start alike.
        let several = typed.said(&["why", &id[..1], "--dir", log], 1);
        assert!(several.contains(" calls start with ") && several.contains(id), "{several}");
        let none = typed.said(&["why", "ffff", "--dir", log], 1);
        assert!(none.contains("there is no call \"ffff\" in the log"), "{none}");
    }
}

#[test]
fn a_users_own_command_undoes_by_a_private_daemon() {
    let mode = Mode::User;
    let world = world(mode);
    file(&world, "a", "a\n");
    let type_in = |words: &[&str]| {
        let mut command = world.command("palisade");
        command.args(words).arg("--profiles").arg(world.profiles()).args(["--profile", "free"]);
        command
    };
    let done = |mut command: std::process::Command| {
        let output = mode.act(|| command.output().expect("palisade"));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let mut run = type_in(&["run"]);
    run.args(["--", "rm a"]);
    done(run);
    assert!(!world.workspace().join("a").exists());
    // Another private daemon, which has the same state.
    done(type_in(&["undo", "last"]));
    assert_eq!(fs::read_to_string(world.workspace().join("a")).unwrap(), "a\n");
    let mut why = world.command("palisade");
    why.args(["why", "last"]);
    let output = mode.act(|| why.output().expect("palisade"));
    assert_eq!(output.status.code(), Some(1), "nothing was refused: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("the call succeeded\n"));
}
