//! The built-in profiles that hide and protect: development goes on under `guarded`, and git neither
//! loses what is hidden nor is made to run what an agent wrote.

use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data};
use serde_json::json;
use std::{
    fs,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// A workspace of the user's with a repository, in which these are tracked.
fn repository(mode: Mode, tracked: &[&str]) -> World {
    let world = World::new(mode);
    for name in [".env", "kept", "tls/server.key", "tls/public", ".gitignore"] {
        let path = world.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        world.give(path.parent().unwrap());
        fs::write(&path, if name == ".gitignore" { "probe\n" } else { "secret\n" }).unwrap();
        world.give(&path);
    }
    host(&world, &["init", "-q", "-b", "main"]);
    host(&world, &["config", "user.name", "T"]);
    host(&world, &["config", "user.email", "t@t"]);
    host(&world, &[&["add", "-f", "--", ".gitignore"], tracked].concat());
    host(&world, &["commit", "-qm", "first"]);
    world
}

/// Runs the host's git in the workspace, as the session's user.
fn host(world: &World, words: &[&str]) -> String {
    let output = world.mode.act(|| {
        let mut git = Command::new("git");
        git.args(words).current_dir(world.workspace()).env("HOME", world.workspace());
        git.env_remove("GIT_DIR").output().unwrap()
    });
    assert!(output.status.success(), "git {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a line that succeeds and prints nothing.
fn does(sandbox: &Sandbox, line: &str) {
    assert_eq!(sandbox.ok(line), "", "{line}");
}

/// Asserts that a call was refused for a name, and by this layer; returns the message.
fn assert_refused(world: &World, result: &CallResult, layer: &str, name: &str) -> String {
    let error = result.error.clone().unwrap_or_else(|| panic!("{name}: {result:?}"));
    assert_eq!(error.code, ErrorCode::OutsidePolicy, "{name}: {result:?}");
    let [denial] = &result.denials[..] else { panic!("{name}: {result:?}") };
    assert_eq!(denial.layer, layer, "{denial:?}");
    assert_eq!(Path::new(&denial.target), world.workspace().join(name), "{denial:?}");
    assert!(denial.at.starts_with("built-in guarded:"), "{denial:?}");
    error.message
}

#[test]
fn git_goes_on_and_neither_shows_nor_takes_what_is_hidden() {
    for mode in Mode::all() {
        let world = repository(mode, &["kept", "tls/public"]);
        let sandbox = world.open_with("guarded");
        assert_eq!(sandbox.ok("git status --porcelain --ignored; ls -A tls"), "!! probe\npublic\n");
        does(&sandbox, "echo one > a && git add -A && git commit -qm second");
        assert_eq!(sandbox.ok("git status --porcelain; git log --format=%s"), "second\nfirst\n");
        assert_eq!(host(&world, &["ls-files"]), ".gitignore\na\nkept\ntls/public\n");
        // A stash with all that is untracked, and a branch, leave it where it is.
        does(&sandbox, "echo two >> a && echo new > new && git stash -qu && git stash pop -q");
        does(&sandbox, "git switch -qc side && git commit -qam third && git switch -q main");
        for hidden in [".env", "tls/server.key"] {
            let text = fs::read_to_string(world.workspace().join(hidden)).unwrap();
            assert_eq!(text, "secret\n", "{mode:?}: {hidden}");
        }
        let committed = host(&world, &["log", "--all", "--format=", "--name-only"]);
        assert!(!committed.contains("env") && !committed.contains("key"), "{committed}");
    }
}

/// A file in the repository that is hidden looks deleted to git: it is never committed as such.
#[test]
fn what_is_tracked_and_hidden_stays_tracked() {
    for mode in Mode::all() {
        let world = repository(mode, &[".env", "kept", "tls/public"]);
        let sandbox = world.open_with("guarded");
        let before = host(&world, &["ls-files", "-s"]);
        assert_eq!(sandbox.ok("git status --porcelain"), " D .env\n");
        for line in [
            "git add -A",
            "echo more >> kept; git commit -qam all",
            "git rm -q --cached .env",
            "git update-index --index-version 4 && git add -u",
        ] {
            let result = sandbox.bash(line);
            let message = assert_refused(&world, &result, "hide", ".env");
            assert!(message.contains("tracked by git and hidden"), "{line}: {message}");
            assert!(message.contains("':(exclude).env'"), "{line}: {message}");
            assert_eq!(host(&world, &["ls-files", "-s"]), before, "{mode:?}: {line}");
        }
        // Commands that would write it anew are refused as well, with all of their effects.
        for words in ["\"checkout\", \"-q\", \"--\", \".env\"", "\"stash\", \"-q\""] {
            let git = format!("import subprocess as s; s.run([\"git\", {words}])");
            let result = sandbox.bash(&format!("echo x > beside; python3 -c '{git}'"));
            assert_refused(&world, &result, "hide", ".env");
            assert!(!world.workspace().join("beside").exists(), "{mode:?}: {words}");
        }
        // As the refusal says.
        does(&sandbox, "echo x > new; git add -A -- . ':(exclude).env' && git commit -qm second");
        does(&sandbox, "echo y >> new; git commit -qm third new");
        let tracked = host(&world, &["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(tracked, ".env\n.gitignore\nkept\nnew\ntls/public\n", "{mode:?}");
        assert_eq!(host(&world, &["status", "--porcelain"]), "?? tls/server.key\n");
        // Once the user has deleted it, it is deleted.
        fs::remove_file(world.workspace().join(".env")).unwrap();
        does(&sandbox, "git commit -qam gone");
        assert_eq!(host(&world, &["ls-files"]), ".gitignore\nkept\nnew\ntls/public\n", "{mode:?}");
    }
}

/// Commands after which the host's git, editor or CI would run what the agent wrote.
const REFUSED: [(&str, &str); 12] = [
    ("git config core.pager 'touch pwned'", ".git/config"),
    ("git remote add origin /x", ".git/config"),
    ("git branch -q other && git branch -q -u main other", ".git/config"),
    ("git init -q fresh", "fresh/.git/config"),
    ("git clone -q --no-hardlinks . copy", "copy/.git/config"),
    ("ln -s ../evil .git/hooks", ".git/hooks"),
    ("mkdir sub; python3 -c 'open(\"sub/.git\", \"w\").write(\"gitdir: ../evil\")'", "sub/.git"),
    ("mkdir other; ln -s ../evil other/.git", "other/.git"),
    ("git worktree add -q -b side tree", "tree/.git"),
    ("mkdir -p .vscode; echo '{}' > .vscode/tasks.json", ".vscode"),
    ("mkdir -p a/.github/workflows; echo x > a/.github/workflows/x.yml", "a/.github/workflows"),
    ("echo x > .envrc", ".envrc"),
];

#[test]
fn nothing_is_written_that_a_program_outside_would_run() {
    for mode in Mode::all() {
        let world = repository(mode, &["kept", "tls/public"]);
        fs::remove_dir_all(world.workspace().join(".git/hooks")).unwrap();
        let sandbox = world.open_with("guarded");
        let before = palisade_tests::tree(&world.workspace());
        for (line, name) in REFUSED {
            let result = sandbox.bash(line);
            assert_refused(&world, &result, "protect", name);
            assert_eq!(palisade_tests::tree(&world.workspace()), before, "{mode:?}: {line}");
        }
        // Elsewhere it is the session's own affair, and what packages bring along is theirs.
        does(&sandbox, "git init -q /tmp/fresh && git -C /tmp/fresh config user.name x");
        does(&sandbox, "mkdir -p node_modules/x/.vscode && echo x > node_modules/x/.travis.yml");
        does(&sandbox, "mkdir -p node_modules/x/.vscode && echo x > node_modules/x/.vscode/y");
        assert_eq!(sandbox.ok("git config user.name"), "T\n", "it can be read");
    }
}

/// Sources that are called like a secret are compiled, imported and deleted as ever.
#[test]
fn sources_that_are_called_so_are_sources() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open_with("guarded");
        let write = |path: &str, content: &str| {
            let written = sandbox.done("write_file", json!({"path": path, "content": content}));
            assert!(written.success, "{written:?}");
        };
        write("credentials.py", "KEY = 42\n");
        write("app/credentials/__init__.py", "from credentials import KEY\n");
        write("credentials.h", "#define KEY 42\n");
        write("my_credentials.c", "#include \"credentials.h\"\nint main(void) { return KEY; }\n");
        let python = "import app.credentials; print(app.credentials.KEY)";
        assert_eq!(sandbox.ok(&format!("python3 -c '{python}'")), "42\n");
        let cached = fs::read_dir(world.workspace().join("__pycache__")).unwrap().count();
        assert_eq!(cached, 1, "{mode:?}: what python compiled is kept");
        let c = "gcc -c my_credentials.c && gcc -o app/run my_credentials.o && app/run; echo $?";
        assert_eq!(sandbox.ok(c), "42\n");
        assert_eq!(sandbox.ok("ls -d app/credentials"), "app/credentials\n");
        let secret = world.workspace().join("app/credentials/key.json");
        fs::write(&secret, "secret").unwrap();
        world.give(&secret);
        assert_eq!(sandbox.ok("ls app/credentials"), "__init__.py\n__pycache__\n");
        fs::remove_file(&secret).unwrap();
        does(&sandbox, "mkdir -p old/credentials && touch old/credentials/x.py");
        does(&sandbox, "mv old/credentials older_credentials");
        assert!(world.workspace().join("older_credentials/x.py").exists(), "{mode:?}");
    }
}

/// A session that only reads hides the same, in jobs as well.
#[test]
fn a_reader_sees_no_secrets() {
    for mode in Mode::all() {
        let world = repository(mode, &["kept", "tls/public"]);
        // Copies that editors and people leave.
        for copy in [".env~", "#.env#", ".env.swp", "tls/.server.key.swp", "tls/server.key.bak"] {
            fs::write(world.workspace().join(copy), "secret\n").unwrap();
        }
        let sandbox: Sandbox = world.open_with("readonly");
        let line = "cat .env tls/server.key; cat kept; grep -rl secret . | sort";
        let result = sandbox.bash(line);
        assert_eq!(result.stdout, "secret\n./kept\n./tls/public\n", "{mode:?}: {result:?}");
        // The order of two streams is the order in which they arrive.
        let line = format!("exec 2>&1; {line}");
        let job = sandbox.done("bash", json!({"command": line, "background": true}));
        let asked = json!({"job": data(&job)["job"], "cursor": 0});
        let until = Instant::now() + Duration::from_secs(60);
        let mut told = sandbox.done("job_output", asked.clone());
        while data(&told)["state"] != "ended" {
            assert!(Instant::now() < until, "{told:?}");
            sleep(Duration::from_millis(50));
            told = sandbox.done("job_output", asked.clone());
        }
        assert!(told.output.contains("secret\n./kept\n./tls/public\n"), "{mode:?}: {told:?}");
        assert!(told.output.contains(".env: No such file"), "{mode:?}: {told:?}");
        assert!(!told.output.contains("./.env"), "{mode:?}: {told:?}");
    }
}
