//! Shells that are started ahead of the calls that need them. A line that such a shell runs can not
//! tell the difference from a shell that was started for it, and a shell that is lost costs time
//! only.

use palisade_client::{Call, arguments::Bash};
use palisade_protocol::CallResult;
use palisade_tests::{Mode, Sandbox, World};
use serde_json::json;
use std::time::Duration;

/// A variable that the C library may read before `main`, so that its call gets a shell of its own.
const LOADER_VARIABLE: &str = "MALLOC_ARENA_MAX";

/// The property of a spare shell that no line needs, by which these tests know it.
const IS_SPARE: &str = "grep -q memfd:spare /proc/$$/maps";

/// Lines whose results are compared. Each prints properties of its shell.
const PROPERTIES: [&str; 84] = [
    "echo \"$0\"",
    "echo \"$-\"",
    "printf '%q\\n' \"$BASH_EXECUTION_STRING\"",
    "echo $# \"$@\" ${BASH_ARGC[@]} ${BASH_ARGV[@]}",
    "echo $PPID",
    "echo $SHLVL",
    "echo $BASH $BASH_VERSION ${BASH_VERSINFO[@]}",
    "echo $BASHOPTS",
    "echo $SHELLOPTS",
    "echo $LINENO",
    "\n\necho $LINENO",
    "echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)",
    "echo ${BASH_SOURCE[@]} ${FUNCNAME[@]}; caller",
    "echo $UID $EUID ${GROUPS[@]}",
    "printf %s \"$IFS\" | od -c",
    "echo $OPTIND $OPTERR \"$PS4\"",
    "echo $HOSTNAME $HOSTTYPE $MACHTYPE $OSTYPE",
    "pwd; pwd -P; echo $PWD $OLDPWD",
    "umask; umask -S",
    "ulimit -a",
    "ulimit -Ha",
    "trap; trap -p",
    "set -o",
    "shopt",
    "alias; jobs; hash; dirs",
    "declare -p | grep -v -e _PID -e BASHPID -e SECONDS -e RANDOM -e EPOCH -e PIPESTATUS",
    "declare -F; readonly -p | grep -v PPID",
    "complete -p; enable -a",
    "env | sort",
    "export -p",
    "tr '\\0' '\\n' < /proc/$$/environ | sort | grep -v MALLOC_ARENA",
    "tr '\\0' '\\n' < /proc/$$/cmdline",
    "wc -c < /proc/$$/cmdline",
    "cat /proc/$$/comm",
    "readlink /proc/$$/exe /proc/$$/cwd /proc/$$/root",
    "ls /proc/$$/fd",
    "readlink /proc/$$/fd/0; readlink /proc/$$/fd/1 | cut -d: -f1; readlink /proc/$$/fd/2 | cut -d: -f1",
    "cat /proc/$$/fdinfo/[012] | grep flags",
    "while read -r key value; do case $key in Sig[PBIC]*) echo $key $value; esac; done < /proc/$$/status",
    "grep -E '^(Cap|NoNew|Secc|Uid|Gid|Groups|Umask|Threads|PPid|TracerPid)' /proc/$$/status",
    "grep -E '^(Speculation|Cpus_allowed|Mems_allowed|untag|CoreDumping|THP)' /proc/$$/status",
    "cat /proc/$$/oom_score_adj",
    "cat /proc/$$/limits",
    "set -- $(cat /proc/$$/stat); echo $4 $(($5 - $1)) $(($6 - $1)) $7 $8 ${18} ${19} ${20}",
    "[ -t 0 ] || [ -t 1 ] || echo no terminal",
    "sh -c 'echo $PPID' | grep -qx $$ || sh -c 'echo $PPID' > /dev/null; echo $?",
    "[ $$ = $BASHPID ] && echo own",
    "nosuchcommand",
    "\n\nnosuchcommand",
    "echo before; nosuchcommand; echo after",
    "if",
    "echo 'unterminated",
    "(",
    "exit 7",
    "exec false",
    "exec nosuchcommand",
    "set -u; echo $nosuch; echo not here",
    "set -e; false; echo not here",
    "return 3",
    "read line; echo $? \"$line\"",
    "echo out; echo err >&2",
    "echo x >&3",
    "exec 3>&1; echo through >&3; ls /proc/$$/fd",
    "exec 9</dev/null; ls /proc/$$/fd",
    "kill -TERM $$; echo not here",
    "kill -KILL $$; echo not here",
    "trap 'echo bye' EXIT; exit 3",
    "trap 'echo caught' USR1; kill -USR1 $$; echo $?",
    "trap '' INT; kill -INT $$; echo survived",
    "echo $! $?",
    "sleep 0 & wait $!; echo $?",
    "false | true | false; echo ${PIPESTATUS[@]}",
    "cat <(echo one) <(echo two)",
    "cat <<E\nhere $SHLVL\nE",
    "cat <<< string",
    "cd /tmp; pwd; cd -",
    "ulimit -n 100; ulimit -n",
    "umask 077; umask",
    "(exec -a name sh -c 'echo $0')",
    "type ls bash cd; command -v bash",
    "coproc cat; echo ${#COPROC[@]}; kill $COPROC_PID",
    "locale; printf '%.2f %b\\n' 1.5 '\\u00e9'",
    "nice; cat /proc/$$/coredump_filter; cat /proc/$$/loginuid",
    "bash -c 'echo $0 $- $SHLVL'; sh -c 'echo $0'; python3 -c 'import os; print(sorted(os.environ))'",
];

/// The programs and options by which a line may be given as arguments. The second reads the profile
/// files of a login shell, the third ends at an error.
const FORMS: [[&str; 2]; 3] = [["bash", "-c"], ["/usr/bin/bash", "-lc"], ["/bin/bash", "-ec"]];

/// Runs a line, in a shell of its own if that is asked for.
fn run(sandbox: &Sandbox, line: &str, own: bool) -> CallResult {
    finish(sandbox, sandbox.session.bash(line), own)
}

/// Runs a line that is given as arguments, in a shell of its own if that is asked for.
fn run_arguments(
    sandbox: &Sandbox,
    [shell, option]: [&str; 2],
    line: &str,
    own: bool,
) -> CallResult {
    finish(sandbox, sandbox.session.exec([shell, option, line]), own)
}

fn finish(sandbox: &Sandbox, call: Call<Bash>, own: bool) -> CallResult {
    let call = call.timeout(Duration::from_secs(300));
    let call = if own { call.env(LOADER_VARIABLE, "1") } else { call };
    sandbox.wait(async { call.await }).unwrap()
}

/// Returns a line without the variable that is the only difference between the two kinds of calls.
fn without_variable(line: &str) -> String {
    format!("unset {LOADER_VARIABLE}; {line}")
}

/// Returns everything that a caller sees of a line.
fn seen(result: &CallResult) -> String {
    let code = result.error.as_ref().map(|error| error.code);
    let status = (result.exit_code, result.signal, code);
    format!("{status:?}\n{}\n{}", result.stdout, result.stderr)
}

#[test]
fn a_line_can_not_tell_a_spare_shell_from_its_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let is_spare = |own| run(&sandbox, IS_SPARE, own).exit_code;
        assert_eq!((is_spare(false), is_spare(true)), (Some(0), Some(1)), "{mode:?}: the control");
        for line in PROPERTIES {
            let observe = |own| seen(&run(&sandbox, &without_variable(line), own));
            assert_eq!(observe(false), observe(true), "{mode:?}: {line}");
        }
        assert_eq!(is_spare(false), Some(0), "{mode:?}: spare shells were in use");
    }
}

#[test]
fn a_line_in_arguments_can_not_tell_a_spare_shell_from_its_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for form in FORMS {
            // A last command replaces the shell.
            let request = format!("{IS_SPARE}; exit $?");
            let is_spare = |own| run_arguments(&sandbox, form, &request, own).exit_code;
            let control = (is_spare(false), is_spare(true));
            assert_eq!(control, (Some(0), Some(1)), "{mode:?}, {form:?}: the control");
            for line in PROPERTIES {
                let observe =
                    |own| seen(&run_arguments(&sandbox, form, &without_variable(line), own));
                assert_eq!(observe(false), observe(true), "{mode:?}, {form:?}: {line}");
            }
            assert_eq!(is_spare(false), Some(0), "{mode:?}, {form:?}: spare shells were in use");
        }
    }
}

#[test]
fn a_spare_shell_is_what_its_arguments_say() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let script = world.workspace().join("script");
        std::fs::write(&script, format!("{IS_SPARE}; echo $? $0 $1\n")).unwrap();
        let cases: [(&[&str], &str); 6] = [
            (&["bash", "-c", "shopt -q login_shell; echo $? $0"], "1 bash\n"),
            (&["/bin/bash", "-lc", "shopt -q login_shell; echo $? $0"], "0 /bin/bash\n"),
            (&["bash", "script", "word"], "0 script word\n"),
            // Other numbers of words, and other programs, even if they are the same file.
            (&["bash", "script"], "1 script\n"),
            (&["bash", "script", "word", "more"], "1 script word\n"),
            (&["sh", "-c", "grep -q memfd:spare /proc/$$/maps; echo $? $0"], "1 sh\n"),
        ];
        for (arguments, expected) in cases {
            let result = sandbox.call("bash", json!({"argv": arguments}));
            assert_eq!(result.stdout, expected, "{mode:?}: {arguments:?}");
        }
    }
}

#[test]
fn calls_that_a_spare_shell_can_not_serve_start_their_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let call = |arguments| sandbox.call("bash", arguments);
        assert_eq!(call(json!({"command": IS_SPARE})).exit_code, Some(0), "{mode:?}: the control");
        let result = call(json!({"command": IS_SPARE, "env": {"MALLOC_ARENA_MAX": "1"}}));
        assert_eq!(result.exit_code, Some(1), "{mode:?}");
        let many: serde_json::Map<_, _> = (0..300).map(|n| (format!("V{n}"), json!("x"))).collect();
        let line = format!("{IS_SPARE}; echo $?; env | grep -c ^V");
        let result = call(json!({"command": line, "env": many}));
        assert_eq!(result.stdout, "1\n300\n", "{mode:?}");
        let long = format!("{IS_SPARE}; echo $?; echo {} | wc -c", "x".repeat(70_000));
        assert_eq!(call(json!({"command": long})).stdout, "1\n70001\n", "{mode:?}");
        // The next call is served by a spare shell again, and so is one of many kilobytes.
        let long = format!("{IS_SPARE}; echo $?; echo {} | wc -c", "x".repeat(50_000));
        assert_eq!(call(json!({"command": long})).stdout, "0\n50001\n", "{mode:?}");
        let fed = call(json!({"command": format!("cat; {IS_SPARE}"), "stdin": "given"}));
        assert_eq!((fed.exit_code, fed.stdout.as_str()), (Some(0), "given"), "{mode:?}");
    }
}

#[test]
fn nothing_of_one_call_is_in_the_shell_of_the_next() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let first = "SECRET=once; export SECRET; umask 077; ulimit -n 64; trap '' TERM; alias a=b; \
                     (sleep 300 &) ; exec 7</dev/null; cd /tmp";
        for _ in 0..5 {
            assert!(run(&sandbox, first, false).success, "{mode:?}");
            // Its runner and itself: a running call has no spare shell beside it that it could reach.
            let beside = sandbox.ok("set -- /proc/[0-9]*; echo $#");
            assert_eq!(beside, "2\n", "{mode:?}");
            let seen = "env | grep -c SECRET; umask; ulimit -n; trap; alias; ls /proc/$$/fd; \
                        set -- /proc/[0-9]*; echo $#; grep -c SECRET /proc/$$/environ; pwd";
            let (spare, own) = (run(&sandbox, seen, false), run(&sandbox, seen, true));
            assert_eq!(spare.stdout, own.stdout, "{mode:?}");
            assert!(!spare.stdout.contains("0077"), "{mode:?}: {}", spare.stdout);
        }
    }
}
