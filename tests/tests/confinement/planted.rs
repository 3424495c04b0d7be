//! A program that a session plants where programs are looked for is not run by its next calls: the
//! directories that the host does not have are empty and read-only, and can not be moved away.

use palisade_client::{Answer, Ask};
use palisade_policy::builtin;
use palisade_protocol::CallResult;
use palisade_tests::{Desk, Mode, profile_with};
use serde_json::{Value, json};
use std::fs;

/// Programs that are started by their name, and what each says.
const PROGRAMS: [[&str; 3]; 3] =
    [["ls", "-d", "/"], ["bash", "-c", "echo /"], ["env", "echo", "/"]];

/// Plants programs in a directory, whatever is in the way of it; says how far it came.
fn plant(directory: &str) -> String {
    format!(
        "import os, errno, sys
d = os.path.expanduser('{directory}')
def attempt(act, *of):
    try:
        act(*of)
    except OSError as e:
        return errno.errorcode[e.errno]
    return 'ok'
def put():
    for name in ['bash', 'sh', 'ls', 'env', 'python3', 'cargo']:
        with open(d + '/' + name, 'w') as f:
            f.write('#!/bin/echo planted\\n')
        os.chmod(d + '/' + name, 0o755)
def anew():
    os.makedirs(d, exist_ok=True)
    put()
up = os.path.dirname(d)
print(attempt(put), attempt(os.rename, d, d + '.old'), attempt(os.rename, up, up + '.old'),
      attempt(os.rmdir, d), attempt(os.chmod, d, 0o755), attempt(anew))
"
    )
}

fn call(desk: &Desk, arguments: Value) -> CallResult {
    desk.call("bash", arguments, |_| Some(Answer::approve())).0
}

fn run(desk: &Desk, program: &str) -> String {
    let result = call(desk, json!({"argv": ["/usr/bin/python3", "-c", program]}));
    assert!(result.success, "{result:?}");
    result.stdout
}

/// Asserts that later calls run the system's programs, by each way to start one.
fn is_unharmed(desk: &Desk, what: &str) {
    let line = "echo fine; command -v ls; type -P bash; ls -d /; env true; echo end";
    let said = call(desk, json!({"command": line})).stdout;
    assert!(!said.contains("planted"), "{what}: {said}");
    assert!(said.starts_with("fine\n/") && said.ends_with("/\nend\n"), "{what}: {said}");
    for argv in PROGRAMS {
        let result = call(desk, json!({"argv": argv}));
        assert_eq!(result.stdout, "/\n", "{what}: {result:?}");
    }
}

#[test]
fn programs_planted_in_the_home_are_not_run_under_any_built_in_profile() {
    for mode in Mode::all() {
        let profiles =
            builtin().into_iter().enumerate().filter(|(number, _)| mode.has_turn(*number));
        for (_, (profile, _)) in profiles {
            // Ports are for root to allow, and have nothing to do with files.
            let net = if profile == "trusted-net" { "net.mode = \"none\"\n" } else { "" };
            let text =
                format!("version = 1\ndescription = \"As it is.\"\nextends = \"{profile}\"\n{net}");
            let desk = Desk::asking(mode, &text, Ask::Always);
            desk.attach();
            let what = format!("{mode:?} {profile}");
            let listed = call(&desk, json!({"command": "echo $PATH; echo $HOME"})).stdout;
            let (path, home) = listed.trim().split_once('\n').unwrap();
            for directory in path.split(':').filter(|d| d.starts_with(&format!("{home}/"))) {
                let found = run(&desk, &plant(directory));
                // A directory of the tests' host is a part of a larger mount.
                let held = |said: &str| matches!(said, "EROFS" | "EBUSY" | "ENOENT");
                assert!(found.split_whitespace().all(held), "{what} {directory}: {found}");
                is_unharmed(&desk, &what);
            }
            // Beside them there is room for what the session makes.
            let found = run(&desk, &plant(&format!("{home}/.other/bin")));
            assert_eq!(found, "ENOENT ENOENT ENOENT ENOENT ENOENT ok\n", "{what}");
            let found = run(&desk, &plant(&format!("{home}/.other/bin")));
            assert_eq!(found, "ok ok ok ENOENT ENOENT ok\n", "{what}");
            if profile == "workspace" && home != "/tmp" {
                assert!(path.starts_with(&format!("{home}/.cargo/bin:")), "{what}: {path}");
            }
        }
    }
}

#[test]
fn the_daemon_looks_for_no_program_where_the_session_writes() {
    for mode in Mode::all() {
        let first = "\"$WORKSPACE/bin\", \"$TMP/bin\", \"$HOME/.cargo/bin\"";
        let profile = profile_with(&[(
            "\"$HOME/.cargo/bin\", \"$HOME/.local/bin\",\n    \"/usr",
            &format!("{first},\n    \"/usr"),
        )]);
        let desk = Desk::new(mode, &profile);
        desk.attach();
        let world = &desk.world;
        fs::create_dir(world.workspace().join("bin")).unwrap();
        for name in ["bash", "ls", "env"] {
            let at = world.workspace().join("bin").join(name);
            fs::write(&at, "#!/bin/echo planted\n").unwrap();
            fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        world.give(&world.workspace());
        let found = run(&desk, &plant("/tmp/bin"));
        assert_eq!(found, "EROFS EBUSY EROFS EBUSY EROFS EROFS\n", "{mode:?}");
        // A line's own path is what the profile says; its shell is the system's all the same.
        let line = call(&desk, json!({"command": "echo fine; command -v env"})).stdout;
        assert_eq!(line, format!("fine\n{}/bin/env\n", world.workspace().display()), "{mode:?}");
        for argv in PROGRAMS {
            let result = call(&desk, json!({"argv": argv}));
            assert_eq!(result.stdout, "/\n", "{mode:?}: {result:?}");
        }
        // A call that names a path of its own gets that.
        let path = world.workspace().join("bin");
        let result = call(&desk, json!({"argv": ["ls"], "env": {"PATH": path}}));
        assert!(result.stdout.starts_with("planted "), "{mode:?}: {result:?}");
    }
}
