//! Learning: what a command uses is recorded beside the layers, the least profile for it is written,
//! the same command passes under that and another does not. As root's session and as an ordinary
//! user's.

use palisade_client::Open;
use palisade_tests::{Mode, Sandbox, World, data};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

/// Puts a file into the workspace, and the directories that lead to it.
fn file(world: &World, name: &str, contents: impl AsRef<[u8]>) {
    let path = world.workspace().join(name);
    for directory in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
        if directory.starts_with(world.workspace()) && !directory.exists() {
            fs::create_dir(directory).unwrap();
            world.give(directory);
        }
    }
    fs::write(&path, contents).unwrap();
    world.give(&path);
}

fn palisade(world: &World, arguments: &[&str]) -> Output {
    world.mode.act(|| world.command("palisade").args(arguments).output().unwrap())
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Learns from a command (it runs twice, the second time under what was learned), then holds what
/// was learned to the command that must not pass. Gives the profile.
fn learn(world: &World, from: &str, command: &[&str]) -> String {
    let profiles = world.profiles();
    let learned = profiles.join("learned.toml");
    let (directory, file) = (profiles.to_str().unwrap(), learned.to_str().unwrap());
    let options = ["--profiles", directory, "--from", from, "--timeout", "5m", "-o", file, "--"];
    let output = palisade(world, &[&["profile", "learn"], &options[..], command].concat());
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{:?}: {command:?}: {said}", world.mode);
    assert!(said.contains("again: the command succeeds under the learned profile"), "{said}");
    let text = fs::read_to_string(&learned).unwrap();

    // Another program of the system's is not there; with the wider profile it is.
    let other = ["perl", "-e", "exit 0"];
    let run = |profile: &str| {
        let options = ["run", "--profiles", directory, "--profile", profile, "--"];
        palisade(world, &[&options[..], &other].concat())
    };
    let refused = run("learned");
    assert_eq!(refused.status.code(), Some(127), "{command:?}: {}{text}", told(&refused));
    let control = run(from);
    assert_eq!(control.status.code(), Some(0), "{}", told(&control));
    text
}

/// The modes in which what takes long is tried.
fn few() -> Vec<Mode> {
    if std::env::var_os("PALISADE_LONG").is_some() { Mode::all() } else { vec![Mode::User] }
}

#[test]
fn git_status() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(sandbox.ok("git init -q -b main && echo one > a && git add a"), "");
        drop(sandbox);
        let text = learn(&world, "workspace", &["git", "status"]);
        assert!(text.contains("bin/git\", # it was run\n"), "{text}");
        assert!(!text.contains("/usr/bin/perl"), "{text}");
        // One program, its libraries and their cache: not all of /usr.
        assert!(!text.contains("\"/usr\"") && !text.contains("\"/usr/bin\""), "{text}");
    }
}

#[test]
fn a_python_test_run() {
    for mode in few() {
        let world = World::new(mode);
        let test = "import json, tempfile, unittest\n\
                    class Small(unittest.TestCase):\n    def test_it(self):\n        \
                    with tempfile.NamedTemporaryFile() as f:\n            \
                    f.write(json.dumps({}).encode())\n";
        file(&world, "test_small.py", test);
        let text = learn(&world, "workspace", &["python3", "-m", "unittest", "test_small"]);
        assert!(text.contains("\"/usr/lib/python3"), "{text}");
        // Names that are made up anew each time are the session's own.
        assert!(!text.contains("/tmp"), "{text}");
    }
}

/// The wheel of pip that comes with the python of this host.
fn pip() -> PathBuf {
    let places = "import ensurepip, os\nprint(os.path.join(os.path.dirname(ensurepip.__file__), '_bundled'))";
    let output =
        std::process::Command::new("/usr/bin/python3").args(["-c", places]).output().unwrap();
    let bundled = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let mut wheels = [bundled.as_path(), Path::new("/usr/share/python-wheels")]
        .into_iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let is_pip = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("pip-");
    wheels.find(is_pip).expect("python3-venv brings the wheel of pip")
}

#[test]
fn pip_installs_a_local_wheel() {
    for mode in few() {
        let world = World::new(mode);
        let make = "import zipfile\nz = zipfile.ZipFile('small-1.0-py3-none-any.whl', 'w')\n\
            i = 'small-1.0.dist-info/'\nz.writestr('small.py', 'x = 1\\n')\n\
            z.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n')\n\
            z.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
            z.writestr(i + 'RECORD', ''.join(n + ',,\\n' for n in ['small.py', i + 'METADATA', i + 'WHEEL', i + 'RECORD']))\n";
        file(&world, "make.py", make);
        assert_eq!(world.open().ok("python3 make.py"), "");
        let line = format!(
            "rm -rf site && python3 {}/pip install -q --no-index --target site ./small-1.0-py3-none-any.whl",
            pip().display()
        );
        let text = learn(&world, "build", &[&line]);
        assert!(world.workspace().join("site/small.py").exists());
        assert!(text.contains("workspace = \"write\""), "{text}");
    }
}

/// The toolchain that these tests were built with, where the session's user can reach it.
fn toolchain(mode: Mode, directory: &Path) -> Option<PathBuf> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    if mode.act(|| fs::read(root.join("bin/cargo")).is_ok()) {
        return Some(root);
    }
    let copy = |how: &str| {
        let parts = [root.join("bin"), root.join("lib")];
        let status = std::process::Command::new("cp").arg(how).args(parts).arg(directory).status();
        status.unwrap().success()
    };
    assert!(copy("-al") || copy("-a"), "cp, of coreutils, copies a toolchain");
    Some(directory.to_owned())
}

#[test]
fn cargo_builds_a_small_crate() {
    for mode in few() {
        let world = World::new(mode);
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let Some(root) = toolchain(mode, directory.path()) else {
            // The tests' user has no toolchain; then there is none to learn from.
            assert_eq!(world.open().bash("rustc --version").exit_code, Some(127));
            continue;
        };
        let execute = format!("    \"!/usr\", \"!{}\",\n", root.display());
        let path = format!("    \"{}/bin\", \"/usr/local/sbin\",", root.display());
        let wide = palisade_tests::profile_with(&[
            ("    \"!/usr\",\n", &execute),
            ("    \"$HOME/.cargo/bin\", \"$HOME/.local/bin\",\n    \"/usr/local/sbin\",", &path),
        ]);
        world.add_profile("rust", &wide);
        let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        file(&world, "Cargo.toml", manifest);
        file(&world, "src/main.rs", "fn main() {\n    println!(\"built\");\n}\n");
        let line = "rm -rf target && cargo build --offline -q && target/debug/small";
        let text = learn(&world, "rust", &[line]);
        assert!(world.workspace().join("target/debug/small").exists());
        // The wider profile's line for the user's own toolchains covers root's.
        let names = [format!("\"{}\", #", root.display()), "\"$HOME/.rustup\", #".to_owned()];
        assert!(names.iter().any(|name| text.contains(name)), "{text}");
        assert!(text.contains("workspace = \"write\""), "{text}");
    }
}

#[test]
fn npm_tests_a_small_package() {
    for mode in few() {
        let world = World::new(mode);
        let package =
            r#"{"name": "small", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#;
        file(&world, "package.json", package);
        file(&world, "test.js", "require('node:assert').strictEqual(1 + 1, 2);\n");
        // npm is 351 packages of Debian's, which take more than a minute to install. Where it is not
        // there, what it would run is.
        let npm = Path::new("/usr/bin/npm").exists();
        let line = if npm { "npm test" } else { "sh -c 'node test.js'" };
        let text = learn(&world, "workspace", &[line]);
        assert!(text.contains("bin/node\", # it was run\n"), "{text}");
    }
}

#[test]
fn a_script_of_the_workspace_with_a_link_out_of_it() {
    for mode in few() {
        let world = World::new(mode);
        let script = "#!/bin/bash\nset -e\nt=$(mktemp -d)\ncat > \"$t/a\" <<X\none\ntwo\nX\n\
            ./sorter -r \"$t/a\" > sorted\ntar cf \"$t/b.tar\" sorted\n\
            tar xf \"$t/b.tar\" -C \"$t\"\nsed -i s/two/three/ \"$t/sorted\" sorted\n\
            f=$(mktemp ./tmp.XXXXXX)\nmv \"$f\" moved\nrm -r \"$t\"\n";
        file(&world, "script", script);
        let path = world.workspace().join("script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/usr/bin/sort", world.workspace().join("sorter")).unwrap();
        let text = learn(&world, "workspace", &["./script"]);
        let sorted = fs::read_to_string(world.workspace().join("sorted")).unwrap();
        assert_eq!(sorted, "three\none\n", "{mode:?}");
        for program in ["bash", "sort", "tar", "sed", "mktemp"] {
            assert!(text.contains(&format!("bin/{program}\", # it was run\n")), "{text}");
        }
        // Names that are made up anew each time are in no line.
        assert!(!text.contains("/tmp") && !text.contains("tmp."), "{text}");
    }
}

/// A session that records.
fn recording(world: &World) -> Sandbox {
    let (stream, daemon) = world.embedded(&[]);
    let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED).record();
    Sandbox::over(stream, Some(daemon), open).unwrap()
}

fn used(result: &palisade_client::CallResult) -> Vec<(String, String, String)> {
    let data = data(result);
    let accesses = data["recorded"]["accesses"].as_array().unwrap();
    let text = |access: &Value, name: &str| access[name].as_str().unwrap().to_owned();
    let three = |access| (text(access, "right"), text(access, "path"), text(access, "kind"));
    accesses.iter().map(three).collect()
}

#[test]
fn what_is_used_is_told_and_the_layers_hold_as_ever() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = recording(&world);
        let canary = "/etc/shadow";
        let line = format!(
            "cat {canary}; echo x > new; echo x 2> /dev/null > /usr/new; bash -c 'exec true'"
        );
        let result = sandbox.bash(&line);
        assert!(result.success, "{}", result.stderr);
        assert!(result.stderr.contains("No such file or directory"), "{}", result.stderr);
        let used = used(&result);
        let workspace = world.workspace().display().to_string();
        let has = |right: &str, path: &str, kind: &str| {
            let wanted = (right.to_owned(), path.to_owned(), kind.to_owned());
            assert!(used.contains(&wanted), "{mode:?}: {wanted:?} is not in {used:#?}");
        };
        has("read", canary, "missing");
        has("write", &workspace, "directory");
        has("write", "/usr/new", "missing");
        has("exec", "/usr/bin/true", "file");
        assert!(!used.iter().any(|(_, path, _)| path.starts_with("/proc")), "{used:#?}");
        assert!(!Path::new("/usr/new").exists());
        // The filter of the session holds for its programs, the part of it too that the runner is
        // spared: a listener of one's own.
        let attempt = "import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\n\
            r = l.syscall(317, 1, 8, 0)\nprint(r, os.strerror(ctypes.get_errno()))\n\
            r = l.syscall(165, 0, 0, 0, 0, 0)\nprint(r, os.strerror(ctypes.get_errno()))\n\
            print(l.syscall(317, 2, 0, ctypes.byref(ctypes.c_uint(0x7fff0000))))";
        file(&world, "attempt.py", attempt);
        let expected = "-1 Operation not permitted\n-1 Operation not permitted\n0\n";
        assert_eq!(sandbox.ok("python3 attempt.py"), expected);
        let plain = world.open();
        assert_eq!(plain.ok("python3 attempt.py"), expected, "as in any session");
        assert!(plain.bash("true").data.is_none());
        world.assert_canary_untouched();
    }
}

#[test]
fn everything_that_was_started_is_gone_and_a_deadline_holds() {
    let world = World::new(Mode::User);
    let sandbox = recording(&world);
    let result = sandbox.bash("(setsid sh -c 'while :; do cat a; done' > /dev/null 2>&1 &) ; true");
    assert!(result.success && result.pipe_held, "{result:?}");
    let timed_out = sandbox.wait(async {
        let time = std::time::Duration::from_millis(500);
        sandbox.session.bash("while :; do cat a 2> /dev/null; done").timeout(time).await
    });
    assert!(timed_out.unwrap().timed_out);
    assert_eq!(sandbox.ok("ls /proc | grep -c '^[0-9]'"), "4\n", "runner, shell, ls and grep");
}
