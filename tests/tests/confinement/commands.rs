//! Programs are named and started by whatever name, way or trick, with whatever arguments and
//! variables: what they may do is the same, and what can not be started says why.

use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, UNASKED, World, text};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _};

/// A session of each kind of daemon.
fn each(act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        act(&world, &sandbox);
        world.assert_canary_untouched();
    }
}

#[test]
fn whatever_way_a_program_starts_it_is_confined_alike() {
    each(|world, sandbox| {
        let canary = world.canary();
        let attempts =
            format!("sys:keyctl:0:-3:0:0:0 stat:{} write:made no_capabilities", canary.display());
        let expected = sandbox.probe(&attempts);
        assert!(expected[0].ends_with("=EPERM") && expected[1].ends_with("=ENOENT"));
        assert!(expected[2].ends_with("=ok") && expected[3].ends_with("=ok"), "{expected:?}");
        let words: Vec<_> = attempts.split(' ').map(|word| format!("'{word}'")).collect();
        let python = format!(
            "import os; fd = os.memfd_create('x', 0); os.write(fd, open('probe', 'rb').read()); \
             os.execve(fd, ['probe', {}], {{}})",
            words.join(", ")
        );
        let ways = [
            // No right to execute, by way of the loader; from memory; by a copy; by an interpreter.
            format!("cp probe data; chmod 644 data; {} ./data {attempts}", loader(sandbox)),
            format!("python3 -c \"{python}\""),
            format!("cp probe /tmp/copy; /tmp/copy {attempts}"),
            format!("cp probe /dev/shm/copy; /dev/shm/copy {attempts}"),
            format!("/proc/self/cwd/probe {attempts}"),
            format!("perl -e 'exec @ARGV' ./probe {attempts}"),
        ];
        for way in ways {
            let lines: Vec<_> = sandbox.ok(&way).lines().map(str::to_owned).collect();
            assert_eq!(lines, expected, "{way}");
        }
    });
}

/// The dynamic loader, by its path.
fn loader(sandbox: &Sandbox) -> String {
    sandbox.ok("ls /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* 2>/dev/null | head -1").trim().into()
}

/// Ways to a program that a list of names would not know.
const ROUTES: [&str; 12] = [
    "echo x | tee -a $T",
    "echo x | /proc/self/root/usr/bin/tee -a $T",
    "cp /usr/bin/tee /tmp/innocent; echo x | /tmp/innocent -a $T",
    "ln -sf /usr/bin/tee ./link; echo x | ./link -a $T",
    "echo 'ZWNobyB4ID4+ICRUCg==' | base64 -d | T=$T sh",
    "python3 -c \"open('$T', 'a').write('x\\n')\"",
    "perl -e 'open(F, \">>\", $ARGV[0]) or exit 1; print F \"x\\n\"' $T",
    "awk -v t=$T 'BEGIN { print \"x\" >> t; exit close(t) }'",
    "(exec -a ls bash -c 'echo x >> $0' $T)",
    "env -i bash -c 'echo x >> $0' $T",
    "echo x | dd of=$T oflag=append conv=notrunc status=none",
    "cp $T /tmp/old && echo x >> /tmp/old && cp /tmp/old $T",
];

#[test]
fn a_command_by_any_other_name_has_the_same_effects() {
    each(|world, sandbox| {
        fs::write(world.workspace().join("inside"), "").unwrap();
        world.give(&world.workspace().join("inside"));
        for (count, route) in ROUTES.iter().enumerate() {
            let outside = sandbox.bash(&format!("export T={}; {route}", world.canary().display()));
            assert!(!outside.success, "{route}");
            let inside = sandbox.bash(&format!("export T=inside; {route}"));
            assert!(inside.success, "{route}: {}", inside.output);
            let inside = fs::read_to_string(world.workspace().join("inside")).unwrap();
            assert_eq!(inside, "x\n".repeat(count + 1), "{route}");
        }
    });
}

/// Ways to hide a command from who reads the line. Each ends in `./effect` with its own name.
const TRICKS: [(&str, &str); 18] = [
    ("substitution", "cat < <(sh < <(echo ./effect substitution))"),
    ("bash-env", "echo './effect bash-env' > e; export BASH_ENV=$PWD/e; bash -c true"),
    ("declare", "declare -x PATH=.; effect declare"),
    ("ifs", "./effect${IFS}ifs"),
    ("alias", "shopt -s expand_aliases; alias ls='./effect'\nls alias"),
    ("function", "ls() { ./effect \"$1\"; }; ls function"),
    ("git", "git -c alias.status2='!./effect git #' status2"),
    ("find", "find . -maxdepth 1 -name probe -exec ./effect find \\;"),
    ("xargs", "echo xargs | xargs ./effect"),
    ("tar", "tar cf t.tar probe; tar xf t.tar --to-command='./effect tar'"),
    ("heredoc", "sh <<'END'\n./effect heredoc\nEND"),
    ("eval", "eval \"$(printf '\\x2e/effect eval')\""),
    ("make", "printf 'all:\\n\\t@./effect make\\n' | make -s -f -"),
    ("awk", "awk 'BEGIN { system(\"./effect awk\") }'"),
    ("trap", "trap './effect trap' EXIT"),
    ("coproc", "coproc { ./effect coproc; }; wait"),
    ("glob", "./eff?ct glob"),
    ("history", "x='./effect history'; ${x@E}"),
];

#[test]
fn tricks_of_the_shell_do_not_widen_what_it_may_do() {
    each(|world, sandbox| {
        let effect = world.workspace().join("effect");
        let script =
            format!("#!/bin/sh\necho $1 >> ran\necho $1 >> '{}'\n", world.canary().display());
        fs::write(&effect, script).unwrap();
        fs::set_permissions(&effect, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, line) in TRICKS {
            let result = sandbox.bash(line);
            let ran = fs::read_to_string(world.workspace().join("ran")).unwrap_or_default();
            assert_eq!(ran, format!("{name}\n"), "{line}: {}", result.output);
            fs::remove_file(world.workspace().join("ran")).unwrap();
        }
    });
}

#[test]
fn variables_that_make_programs_run_other_code_are_left_out() {
    each(|world, sandbox| {
        let names = [
            "LD_PRELOAD",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "GCONV_PATH",
            "BASH_ENV",
            "ENV",
            "PROMPT_COMMAND",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PERL5OPT",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_KEY_0",
            "GIT_EXTERNAL_DIFF",
            "GLIBC_TUNABLES",
            "PS4",
            "BASH_FUNC_ls",
            "RUSTC_WRAPPER",
            "JAVA_TOOL_OPTIONS",
            "PAGER",
            "PALISADE_SOCKET",
        ];
        for name in names {
            let line = format!("echo \"${{{name}-none}}\"");
            let result = sandbox.done("bash", json!({"command": line, "env": {name: "/hostile"}}));
            // Some of them the shell sets itself.
            assert!(!result.stdout.contains("hostile"), "{name}: {}", result.stdout);
            let left = result.findings.iter().find(|found| found.kind == "adjusted").unwrap();
            assert!(left.why.starts_with(&format!("the variable {name} was left out: ")), "{name}");
        }
        // Without these the command would act on something else.
        for name in ["GIT_DIR", "GLOBIGNORE", "IFS", "MAKEFLAGS", "SHELLOPTS", "TAR_OPTIONS"] {
            let arguments = json!({"command": "touch ran", "env": {name: "x"}});
            let (code, message) = sandbox.refused("bash", arguments);
            assert_eq!(code, ErrorCode::InvalidArguments, "{name}");
            assert!(message.contains(name), "{name}: {message}");
        }
        for name in ["", "A=B", "1A", "A B", "BASH_FUNC_ls%%", "A\0B"] {
            let arguments = json!({"command": "touch ran", "env": {name: "x"}});
            assert_eq!(sandbox.refused("bash", arguments).0, ErrorCode::InvalidArguments, "{name}");
        }
        let arguments = json!({"command": "touch ran", "env": {"A": "b\0c"}});
        assert_eq!(sandbox.refused("bash", arguments).0, ErrorCode::InvalidArguments);
        assert!(!world.workspace().join("ran").exists(), "nothing of it ran");
        let arguments = json!({"command": "echo \"$COLOUR\"", "env": {"COLOUR": "green"}});
        let result = sandbox.done("bash", arguments);
        assert_eq!(result.stdout, "green\n");
        assert!(result.findings.iter().all(|found| found.kind != "adjusted"));
        fs::create_dir(world.workspace().join("lib")).unwrap();
        fs::write(world.workspace().join("lib/mine.py"), "print('mine')\n").unwrap();
        let harmless = json!({"PAGER": "cat", "GIT_EDITOR": "true", "PYTHONPATH": "lib"});
        let line = "echo $PAGER $GIT_EDITOR; python3 -c 'import mine'";
        let result = sandbox.done("bash", json!({"command": line, "env": harmless}));
        assert_eq!(result.stdout, "cat true\nmine\n");
        assert!(result.findings.iter().all(|found| found.kind != "adjusted"));
    });
}

fn exec(sandbox: &Sandbox, argv: &[String]) -> CallResult {
    sandbox.wait(async { sandbox.session.exec(argv.iter().cloned()).await }).unwrap()
}

/// A shell that tells how many arguments it has and how long they are together.
fn counting(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let script = "echo $#; printf %s \"$@\" | wc -c";
    ["bash", "-c", script, "bash"].map(str::to_owned).into_iter().chain(arguments).collect()
}

#[test]
fn a_megabyte_of_arguments_arrives_whole() {
    each(|_, sandbox| {
        let long = counting((0..16).map(|_| "x".repeat(64 * 1024)));
        assert_eq!(exec(sandbox, &long).stdout, "16\n1048576\n");
        let many = counting((0..100_000).map(|_| "x".to_owned()));
        assert_eq!(exec(sandbox, &many).stdout, "100000\n100000\n");
        // The longest single one: the kernel counts its closing NUL.
        let one = counting(std::iter::once("x".repeat(128 * 1024 - 1)));
        assert_eq!(exec(sandbox, &one).stdout, "1\n131071\n");
    });
}

#[test]
fn more_than_the_kernel_takes_is_an_error_that_says_so() {
    each(|world, sandbox| {
        let touch = |arguments: Vec<String>| {
            let argv = ["touch", "ran"].map(str::to_owned).into_iter().chain(arguments);
            argv.collect::<Vec<_>>()
        };
        let cases = [
            touch(vec!["x".repeat(128 * 1024)]),
            touch((0..32).map(|_| "x".repeat(64 * 1024)).collect()),
            touch((0..300_000).map(|_| "x".to_owned()).collect()),
        ];
        for argv in cases {
            let error = exec(sandbox, &argv).error.unwrap();
            assert_eq!(error.code, ErrorCode::SpawnFailed);
            assert!(error.message.contains("E2BIG"), "{}", error.message);
            assert!(error.hint.contains("standard input"), "{}", error.hint);
        }
        // Just under what is counted beforehand, and over it with the environment: the kernel's
        // own answer.
        let argv = touch((0..31).map(|_| "x".repeat(67_600)).collect());
        let environment = json!({"MORE": "x".repeat(8 * 1024)});
        let result = sandbox.call("bash", json!({"argv": argv, "env": environment}));
        let error = result.error.unwrap();
        assert_eq!((error.code, result.exit_code), (ErrorCode::SpawnFailed, Some(126)));
        assert!(error.message.contains("Argument list too long"), "{}", error.message);
        let arguments = json!({"command": "touch ran", "env": {"LONG": "x".repeat(128 * 1024)}});
        let (code, message) = sandbox.refused("bash", arguments);
        assert_eq!(code, ErrorCode::SpawnFailed);
        assert!(message.contains("Argument list too long"), "{message}");
        assert!(!world.workspace().join("ran").exists());
        assert_eq!(sandbox.ok("echo the next call is as ever"), "the next call is as ever\n");
        // A program's own mistake is the program's own error.
        let own = sandbox.bash("x=$(head -c 200000 /dev/zero | tr '\\0' x); /bin/true $x");
        assert_eq!(own.exit_code, Some(126));
        assert!(own.stderr.contains("Argument list too long"), "{}", own.stderr);
    });
}

#[test]
fn a_megabyte_of_shell_runs() {
    each(|_, sandbox| {
        let line = format!("{}echo $0 $((1 + 1)); exit 7", "# comment\n".repeat(1 << 17));
        assert!(line.len() > 1 << 20);
        let result = sandbox.bash(&line);
        assert_eq!((result.stdout.as_str(), result.exit_code), ("bash 2\n", Some(7)));
        // Its descriptor is the documented fourth, and it is not the program's to run or change.
        let line = format!("{}ls /proc/self/fd; cat", "# comment\n".repeat(1 << 17));
        let result = sandbox.done("bash", json!({"command": line, "stdin": "given"}));
        assert_eq!(result.stdout, "0\n1\n2\n3\n4\ngiven");
        let line = format!("{}cd /tmp", "# comment\n".repeat(1 << 17));
        assert!(sandbox.bash(&line).success);
        assert_eq!(sandbox.ok("pwd"), "/tmp\n", "its directory is kept as a short one's is");
    });
}

#[test]
fn no_program_is_no_call() {
    each(|world, sandbox| {
        let refused = [
            json!({"argv": []}),
            json!({"argv": [""]}),
            json!({"argv": ["", "touch ran"]}),
            json!({"argv": ["touch", "ran\0"]}),
            json!({"command": "touch ran\0"}),
            json!({}),
            json!({"command": "touch ran", "argv": ["touch", "ran"]}),
        ];
        for arguments in refused {
            let (code, _) = sandbox.refused("bash", arguments.clone());
            assert_eq!(code, ErrorCode::InvalidArguments, "{arguments}");
        }
        assert!(!world.workspace().join("ran").exists());
        // A program that starts another without any arguments at all: the kernel gives it one.
        let script = "import ctypes; ctypes.CDLL(None).execve(b'/bin/true', None, None)";
        assert!(sandbox.bash(&format!("python3 -c \"{script}\"")).exit_code.is_some());
        assert_eq!(sandbox.done("bash", json!({"argv": ["echo", ""]})).stdout, "\n");
    });
}

#[test]
fn broken_interpreters_are_errors_that_say_so() {
    each(|world, sandbox| {
        let script = |name: &str, text: String| {
            let path = world.workspace().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let workspace = world.workspace().display().to_string();
        script("loop", format!("#!{workspace}/loop\n"));
        script("one", format!("#!{workspace}/other\n"));
        script("other", format!("#!{workspace}/one\n"));
        script("long", format!("#!/{}/sh\n", "x".repeat(300)));
        script("missing", "#!/no/such/interpreter\n".to_owned());
        script("empty", "#!\n".to_owned());
        script("good", "#!/bin/sh\necho good\n".to_owned());
        let cases = [
            ("./loop", "Too many levels of symbolic links", 126),
            ("./one", "Too many levels of symbolic links", 126),
            ("./long", "Exec format error", 126),
            ("./missing", "No such file or directory", 127),
            ("./empty", "Exec format error", 126),
        ];
        for (program, why, status) in cases {
            let result = exec(sandbox, &[program.to_owned()]);
            let error = result.error.unwrap();
            assert_eq!((error.code, result.exit_code), (ErrorCode::SpawnFailed, Some(status)));
            assert!(error.message.contains(why), "{program}: {}", error.message);
        }
        assert_eq!(exec(sandbox, &["./good".to_owned()]).stdout, "good\n");
    });
}

/// Opens each standard stream again by each of its names. Prints `in` or nothing, then `out`; and
/// `err` on standard error.
const BY_NAME: &str = "cat /dev/stdin /dev/fd/0 /proc/self/fd/0 && \
    echo out >/dev/stdout && echo out >/dev/fd/1 && echo out >/proc/self/fd/1 && \
    echo out | tee /dev/stderr /dev/fd/2 /proc/self/fd/2 >/dev/null";

#[test]
fn standard_streams_open_by_name() {
    for mode in Mode::all() {
        let world = World::new(mode);
        // On the host, for the same user, it is the same.
        let outside = mode.act(|| {
            let mut bash = std::process::Command::new("bash");
            bash.args(["-c", BY_NAME]).stdin(std::process::Stdio::null()).output().unwrap()
        });
        let streams = ("out\n".repeat(3), "out\n".repeat(3));
        assert_eq!((text(&outside.stdout), text(&outside.stderr)), streams, "{mode:?}");
        // A shared runner; then a transaction.
        for profile in [UNASKED, "workspace"] {
            let sandbox = world.open_with(profile);
            for change in ["", "touch made && "] {
                let result = sandbox.bash(&format!("{change}{BY_NAME}"));
                assert_eq!((result.stdout, result.stderr), streams, "{mode:?} {profile} {change}");
                let line =
                    json!({"argv": ["bash", "-c", format!("{change}{BY_NAME}")], "stdin": "in\n"});
                let result = sandbox.done("bash", line);
                let fed = (format!("in\n{}", streams.0), streams.1.clone());
                assert_eq!((result.stdout, result.stderr), fed, "{mode:?} {profile} {change}");
                let job = sandbox.start_job(json!({"command": format!("{change}{BY_NAME}")}));
                let (output, status) = sandbox.whole_job(job);
                assert_eq!((output, status.exit_code), ("out\n".repeat(6), Some(0)), "{mode:?}");
            }
            // Nobody else may open them: they are the user's own, as a shell on the host has them.
            let owner = sandbox.ok("stat -L -c '%u %a' /dev/stdout /dev/stderr; id -u");
            let uid = owner.lines().last().unwrap();
            assert_eq!(owner, format!("{uid} 600\n{uid} 600\n{uid}\n"), "{mode:?} {profile}");
        }
    }
}
