//! Many ways to destroy something in a workspace. With nobody to approve it every byte is as before;
//! with somebody who approves, exactly that happens which happens without a sandbox.

use palisade_client::Answer;
use palisade_protocol::{ErrorCode, Guard, RawPath, Route};
use palisade_tests::{Desk, Mode, data, effort, fill, listed, profile_with, tree, unconfined};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The files to lose. `.git` has one commit of it all, with other versions of [`COMMITTED`].
const FILES: [(&str, &str); 10] = [
    ("a.txt", "one\ntwo\nthree\n"),
    ("b.txt", "bee\n"),
    ("d/c.txt", "sea\n"),
    ("d/e.txt", "eh\n"),
    ("wipe.sh", "rm -r d\n"),
    ("wipe.py", "import shutil\nshutil.rmtree('d')\n"),
    ("wipe.pl", "unlink 'a.txt';\n"),
    ("wipe.js", "require('fs').rmSync('d', {recursive: true});\n"),
    (
        "tidy.py",
        "import sys\ntext = open(sys.argv[1]).read()\nopen(sys.argv[1], 'w').write(text.title())\n",
    ),
    ("Makefile", "clean:\n\trm -rf d a.txt\nover:\n\tcp b.txt a.txt\n"),
];

/// Files of which git has an earlier version only.
const COMMITTED: [(&str, &str); 4] = [
    ("a.txt", "an earlier one\n"),
    ("b.txt", "an earlier bee\n"),
    ("d/c.txt", "an earlier sea\n"),
    ("d/e.txt", "an earlier eh\n"),
];

/// The files that git does not have: another version, and a file of its own.
const WORK: [(&str, &str); 2] = [("d/e.txt", "eh, and more\n"), ("new.txt", "not added yet\n")];

/// Compiles a program out of sight and runs it.
macro_rules! compiled {
    ($code:literal) => {
        concat!("cc -w -o $HOME/x -x c - <<'END' && $HOME/x\n", $code, "\nEND")
    };
}

const WAYS: [&str; 68] = [
    // Programs whose business it is.
    "rm a.txt",
    "rm -rf d",
    "rm -f ./*.txt",
    "unlink a.txt",
    "rm -r d/*",
    "find . -name '*.txt' -delete",
    "find d -type f -exec rm {} +",
    "ls d/*.txt | xargs rm",
    "shred -n 1 --random-source=/dev/zero a.txt",
    "shred -n 1 -u b.txt",
    "truncate -s 0 a.txt",
    "truncate -s 1 b.txt",
    "dd if=/dev/zero of=a.txt bs=1 count=4 conv=notrunc status=none",
    "dd if=/dev/null of=a.txt status=none",
    // The shell itself.
    "> a.txt",
    ": > d/c.txt",
    "echo new > a.txt",
    "cat b.txt > a.txt",
    "printf x | tee a.txt",
    "exec 3>a.txt",
    "mapfile -t x < b.txt; printf '%s' \"${x[@]}\" > a.txt",
    "f=a.txt; r=rm; $r $f",
    "eval \"$(cat wipe.sh)\"",
    "source ./wipe.sh",
    "sh wipe.sh",
    "bash < wipe.sh",
    "echo cm0gYS50eHQK | base64 -d | sh",
    "trap 'rm a.txt' EXIT",
    "(sleep 0.2; rm -r d) & wait",
    "setsid sh -c 'rm b.txt' & for i in {1..500}; do [ -e b.txt ] || break; sleep 0.02; done",
    // Commands that replace.
    "mv b.txt a.txt",
    "cp b.txt a.txt",
    "cp -r d/. . && mv c.txt a.txt",
    "install -m 644 b.txt a.txt",
    "ln -sf b.txt a.txt",
    "ln -f b.txt a.txt",
    "sed -i s/one/1/ a.txt",
    "sed -n 'w a.txt' b.txt",
    "perl -i -pe 's/two/2/' a.txt",
    "sort -r -o a.txt a.txt",
    "tar c b.txt --transform s/b/a/ | tar x",
    "printf '1d\\nw\\nq\\n' | ed -s a.txt",
    "printf -- '--- a.txt\\n+++ a.txt\\n@@ -1,3 +1,2 @@\\n-one\\n two\\n three\\n' | patch -s a.txt",
    "split -l 1 a.txt d/ && mv d/aa a.txt",
    // Other languages.
    "python3 wipe.py",
    "python3 -c 'import os; os.remove(\"a.txt\")'",
    "python3 -c 'import os; os.replace(\"b.txt\", \"a.txt\")'",
    "python3 -c 'import mmap; f = open(\"a.txt\", \"r+b\"); mmap.mmap(f.fileno(), 0)[0:3] = b\"ONE\"'",
    "python3 -c 'import os; os.pwrite(os.open(\"a.txt\", os.O_RDWR), b\"X\", 1)'",
    "perl wipe.pl",
    "perl -e 'truncate \"a.txt\", 2'",
    "awk 'BEGIN { printf \"x\" > \"a.txt\" }'",
    "make -s clean",
    "make -s over",
    "node wipe.js",
    "node -e 'require(\"fs\").writeFileSync(\"a.txt\", \"\")'",
    "node -e 'const f = require(\"fs\"); f.renameSync(\"b.txt\", \"a.txt\")'",
    // A formatter over what somebody else wrote.
    "python3 tidy.py a.txt",
    // git.
    "git rm -qf a.txt",
    "git clean -fdq -e probe",
    "git checkout -q -- d/e.txt",
    "git reset -q --hard",
    "git -c alias.wipe='!rm -r d' wipe",
    "rm -rf .git",
    // A program that nobody has seen.
    compiled!("int unlink(); int main() { return unlink(\"a.txt\"); }"),
    compiled!("int truncate(); int main() { return truncate(\"b.txt\", 1L); }"),
    compiled!(
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\nint main() { return renameat2(AT_FDCWD, \"a.txt\", AT_FDCWD, \"b.txt\", 2); }"
    ),
    compiled!(
        "int fork(), unlink(), setsid(), usleep(); int main() { if (!fork()) { setsid(); if (!fork()) { unlink(\"d/c.txt\"); } return 0; } usleep(400000); return 0; }"
    ),
];

fn run(desk: &Desk, directory: &Path, line: &str) -> Option<i32> {
    unconfined(&desk.world, directory, &desk.world.state(), line).status.code()
}

/// Everything as it is at first, in the workspace or elsewhere.
fn reset(desk: &Desk, directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match path.file_name().unwrap().to_str() {
            Some("probe") => {}
            _ if path.symlink_metadata().unwrap().is_dir() => fs::remove_dir_all(&path).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
    }
    fill(&desk.world, directory, &FILES);
    fill(&desk.world, directory, &COMMITTED);
    let commit = "git init -q && git add -A ':!probe' && \
                  git -c user.name=x -c user.email=x@x commit -qm all --date=@0";
    assert_eq!(run(desk, directory, commit), Some(0));
    fill(&desk.world, directory, &FILES);
    fill(&desk.world, directory, &WORK);
}

fn shown(directory: &Path) -> Vec<String> {
    listed(directory, |_| false)
}

/// Every form of a call that runs a program.
const FORMS: [&str; 6] = ["line", "argv", "pty", "yield", "background", "transaction"];

/// The arguments of a call of `bash` that runs a line in one of the forms.
fn arguments_of(form: &str, line: &str) -> Value {
    let mut arguments = json!({"command": line, "timeout_ms": 60_000});
    match form {
        "argv" => arguments = json!({"argv": ["bash", "-c", line], "timeout_ms": 60_000}),
        "pty" => arguments["pty"] = true.into(),
        "yield" => arguments["yield_ms"] = 60_000.into(),
        "background" => arguments["background"] = true.into(),
        "transaction" => arguments["route"] = "transaction".into(),
        _ => {}
    }
    arguments
}

/// Runs a line in one of the forms, to its end. Gives the code of the error that it ended with.
fn run_as(desk: &Desk, form: &str, line: &str) -> Option<ErrorCode> {
    let result = desk.sandbox.call("bash", arguments_of(form, line));
    if form != "background" {
        return result.error.map(|error| error.code);
    }
    assert!(result.success, "{line}: {:?}", result.error);
    let ended = job_ended(desk, &data(&result)["job"]);
    serde_json::from_value(ended["error"]["code"].clone()).ok()
}

/// Waits for the end of a job.
fn job_ended(desk: &Desk, job: &Value) -> Value {
    let mut cursor = json!(0);
    loop {
        let asked = json!({"job": job, "cursor": cursor, "wait_ms": 20_000});
        let told = data(&desk.sandbox.done("job_output", asked));
        if told["state"] == "ended" {
            return told;
        }
        cursor = told["cursor"].clone();
    }
}

#[test]
fn with_nobody_to_approve_every_byte_is_as_before_in_every_form() {
    for mode in Mode::all() {
        for guard in ["auto", "transaction"] {
            let guard = format!("guard = \"{guard}\"");
            let desk = Desk::new(mode, &profile_with(&[("guard = \"auto\"", &guard)]));
            let workspace = desk.world.workspace();
            reset(&desk, &workspace);
            let before = tree(&workspace);
            for (at, form) in FORMS.into_iter().enumerate() {
                let ways = WAYS.into_iter().enumerate();
                for (_, line) in ways.filter(|(number, _)| mode.has_turn(number + at)) {
                    let code = run_as(&desk, form, line);
                    assert_eq!(tree(&workspace), before, "{mode:?} {guard} {form}: {line}");
                    assert_eq!(code, Some(ErrorCode::Denied), "{mode:?} {guard} {form}: {line}");
                }
                if guard.contains("transaction") {
                    break;
                }
            }
        }
    }
}

/// Lines that analysis takes for ones that only read.
const MISREAD: [&str; 4] = [
    "cat <<E; echo $(rm a.txt)\nE",
    "sort $'\\x{2d}o' a.txt /dev/null",
    "a=([$(rm a.txt)]=1)",
    "echo \"$( #)\nrm a.txt\n)\"",
];

/// A session without transactions: by a mount in its workspace, or because the profile says so.
fn without_transactions(mode: Mode, guard: &str, checker: &str) -> Desk {
    let read = "    \"$HOME/.cargo/git\",\n";
    let (guard, inner) =
        (format!("guard = {guard:?}"), format!("{read}    \"$WORKSPACE/vendor\",\n"));
    let text = profile_with(&[("guard = \"auto\"", &guard), (read, &inner)]);
    let (rest, _) = text.split_once("[[diagnostics]]").unwrap();
    let mut desk = Desk::new(mode, &format!("{rest}{checker}"));
    let workspace = desk.world.workspace();
    reset(&desk, &workspace);
    desk.file("vendor/x", "x\n");
    // The next session finds the directory, and mounts it.
    desk.move_to(&workspace);
    desk
}

/// Where nothing holds back what a command changes, everything that is not proven to only read is asked
/// about first, and what is misread can not write.
#[test]
fn without_transactions_every_byte_is_as_before_too() {
    for mode in Mode::all() {
        for guard in ["auto", "text"] {
            let desk = without_transactions(mode, guard, WIPING_CHECKER);
            let workspace = desk.world.workspace();
            let before = tree(&workspace);
            for line in WAYS.into_iter().chain(["echo new > new", "touch new", "./probe"]) {
                let result = desk.sandbox.bash(line);
                assert_eq!(tree(&workspace), before, "{mode:?} {guard}: {line}");
                let code = result.error.as_ref().map(|error| error.code);
                assert_eq!(code, Some(ErrorCode::Denied), "{mode:?} {guard}: {line}: {result:?}");
                assert_eq!(result.receipt.unwrap().guard, Guard::Text, "{mode:?} {guard}");
            }
            for line in ["make -s clean", "sh wipe.sh", "cat a.txt > b.txt"] {
                for form in FORMS {
                    let result = desk.sandbox.call("bash", arguments_of(form, line));
                    let code = result.error.as_ref().map(|error| error.code);
                    assert_eq!(
                        code,
                        Some(ErrorCode::Denied),
                        "{mode:?} {form}: {line}: {result:?}"
                    );
                }
            }
            for (line, form) in MISREAD.iter().flat_map(|line| FORMS.map(|form| (line, form))) {
                let result = desk.sandbox.call("bash", arguments_of(form, line));
                if form == "background" && result.success {
                    job_ended(&desk, &data(&result)["job"]);
                }
                assert_ne!(result.route, Some(Route::Direct), "{mode:?} {guard} {form}: {line}");
                assert_eq!(tree(&workspace), before, "{mode:?} {guard} {form}: {line}: {result:?}");
            }
            let (code, message) = desk.sandbox.refused("diagnostics", json!({}));
            assert_eq!(
                (code, tree(&workspace)),
                (ErrorCode::Denied, before),
                "{mode:?}: {message}"
            );
            // The controls: what is proven to only read is not asked about, and all else is done as soon
            // as somebody approves.
            desk.attach();
            let (read, asked) = desk.bash("cat a.txt d/c.txt", |_| Answer::deny("not asked"));
            let ran = (read.success, read.route, asked.len());
            assert_eq!(ran, (true, Some(Route::Reading), 0), "{mode:?} {guard}: {read:?}");
            let (made, asked) = desk.bash("make -s clean", |_| Answer::approve());
            let ran = (made.success, made.route, asked.len());
            assert_eq!(ran, (true, Some(Route::Direct), 1), "{mode:?} {guard}: {made:?}");
            let why = "it is not proven to only read, and nothing would hold back what it changes";
            assert!(asked[0].findings.iter().any(|one| one.why == why), "{:?}", asked[0].findings);
            assert!(!workspace.join("d").exists(), "{mode:?} {guard}");
        }
    }
}

#[test]
fn misread_lines_destroy_where_there_is_no_sandbox() {
    let desk = Desk::new(Mode::all()[0], &profile_with(&[]));
    let control = desk.world.outside();
    for line in MISREAD {
        reset(&desk, &control);
        let before = fs::read(control.join("a.txt")).unwrap();
        run(&desk, &control, line);
        assert_ne!(fs::read(control.join("a.txt")).ok(), Some(before), "{line}");
    }
}

/// A checker that destroys.
const WIPING_CHECKER: &str = "[[diagnostics]]\nname = \"wipe\"\nargv = [\"make\", \"-s\", \"clean\"]\n\
                              format = \"gcc\"\n";

/// A checker is a program like any other.
#[test]
fn a_checker_destroys_nothing_unasked() {
    for mode in Mode::all() {
        let text = profile_with(&[]);
        let (rest, _) = text.split_once("[[diagnostics]]").unwrap();
        let desk = Desk::new(mode, &format!("{rest}{WIPING_CHECKER}"));
        let workspace = desk.world.workspace();
        reset(&desk, &workspace);
        let before = tree(&workspace);
        let (code, message) = desk.sandbox.refused("diagnostics", json!({}));
        assert_eq!((code, tree(&workspace)), (ErrorCode::Denied, before), "{mode:?}: {message}");
        desk.attach();
        let (result, asked) = desk.call("diagnostics", json!({}), |_| Some(Answer::approve()));
        assert_eq!(asked.len(), 1, "{mode:?}: {:?}", result.error);
        assert!(!workspace.join("d").exists(), "{mode:?}");
    }
}

/// A checker that runs a script of the workspace.
const SCRIPT_CHECKER: &str = "[[diagnostics]]\nname = \"way\"\nargv = [\"bash\", \"./way.sh\"]\n\
                              format = \"gcc\"\n";

/// Returns whether one of the ways is tried in this mode where each takes long: in the short form a third.
fn is_sampled(mode: Mode, number: usize) -> bool {
    effort(number % 3 == usize::from(mode == Mode::User), true)
}

/// Every way to destroy, taken by a checker.
#[test]
fn a_checker_destroys_nothing_unasked_in_any_way() {
    for mode in Mode::all() {
        let text = profile_with(&[]);
        let (rest, _) = text.split_once("[[diagnostics]]").unwrap();
        let desk = Desk::new(mode, &format!("{rest}{SCRIPT_CHECKER}"));
        let workspace = desk.world.workspace();
        reset(&desk, &workspace);
        let ways = WAYS.into_iter().enumerate();
        for (_, line) in ways.filter(|(number, _)| is_sampled(mode, *number)) {
            desk.file("way.sh", &format!("{line}\n"));
            let before = tree(&workspace);
            let (code, message) = desk.sandbox.refused("diagnostics", json!({}));
            assert_eq!(tree(&workspace), before, "{mode:?}: {line}: {message}");
            assert_eq!(code, ErrorCode::Denied, "{mode:?}: {line}: {message}");
        }
    }
}

/// The parts of a workspace that a line has lost, as they are named in a change set: a directory that is
/// gone is one of them.
fn lost_parts(before: &[Option<Vec<u8>>], directory: &Path) -> Vec<&'static str> {
    let is_gone = !directory.join("d").exists();
    let lost = PARTS.iter().zip(before).filter_map(|(name, bytes)| {
        let is_lost = fs::read(directory.join(name)).ok() != *bytes;
        is_lost.then_some(if is_gone && name.starts_with("d/") { "d" } else { name })
    });
    let mut lost: Vec<_> = lost.collect();
    lost.dedup();
    lost
}

/// The files that a way may lose.
const PARTS: [&str; 5] = ["a.txt", "b.txt", "new.txt", "d/c.txt", "d/e.txt"];

fn parts(directory: &Path) -> Vec<Option<Vec<u8>>> {
    PARTS.map(|name| fs::read(directory.join(name)).ok()).to_vec()
}

/// Of each way that loses several files, all but one of them is approved: that one is as before.
#[test]
fn what_an_approval_leaves_out_is_kept_in_every_way() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.attach();
        let (workspace, control) = (desk.world.workspace(), desk.world.outside());
        fs::remove_file(desk.world.canary()).unwrap();
        reset(&desk, &control);
        let before = parts(&control);
        let mut tried = 0;
        for line in WAYS {
            reset(&desk, &control);
            run(&desk, &control, line);
            let lost = lost_parts(&before, &control);
            let [.., first, kept] = lost[..] else { continue };
            reset(&desk, &workspace);
            let path = RawPath::from(workspace.join(kept));
            let (result, asked) = desk.bash(line, |_| Answer::approve_without([path.clone()]));
            assert!(!asked.is_empty(), "{mode:?} {line}");
            let left = lost_parts(&before, &workspace);
            assert!(!left.contains(&kept), "{mode:?} {line}: lost {left:?}: {result:?}");
            assert!(left.iter().all(|name| lost.contains(name)), "{mode:?} {line}: lost {left:?}");
            assert!(result.success, "{mode:?} {line}: {:?}", result.error);
            assert!(left.contains(&first), "{mode:?} {line}: lost {left:?}");
            tried += 1;
        }
        assert!(tried > 8, "{mode:?}: only {tried} ways lose several files");
    }
}

/// Only what was approved is lost, whatever else the command destroyed.
#[test]
fn an_approval_of_less_loses_no_more() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.attach();
        let workspace = desk.world.workspace();
        for line in
            ["rm a.txt; make -s clean", "rm -f a.txt b.txt; rm -r d; git rm -q --cached a.txt"]
        {
            reset(&desk, &workspace);
            let kept = RawPath::from(workspace.join("d"));
            let (result, _) = desk.bash(line, |_| Answer::approve_without([kept.clone()]));
            assert!(result.success, "{mode:?} {line}: {:?}", result.error);
            assert!(!workspace.join("a.txt").exists(), "{mode:?} {line}");
            assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"), "{mode:?} {line}");
            assert_eq!(desk.text("d/e.txt").as_deref(), Some(WORK[0].1), "{mode:?} {line}");
        }
    }
}

#[test]
fn with_an_approval_exactly_the_effect_happens() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.attach();
        let workspace = desk.world.workspace();
        let control = desk.world.outside();
        fs::remove_file(desk.world.canary()).unwrap();
        let ways = WAYS.into_iter().enumerate();
        for (_, line) in ways.filter(|(number, _)| mode.has_turn(*number)) {
            reset(&desk, &workspace);
            reset(&desk, &control);
            let before = shown(&control);
            let status = run(&desk, &control, line);
            let expected = shown(&control);
            assert!(expected != before || line.contains(".git"), "{line} destroys nothing");
            let (result, asked) = desk.bash(line, |_| Answer::approve());
            assert!(!asked.is_empty(), "{mode:?}: {line}");
            assert_eq!(result.exit_code, status, "{mode:?}: {line}: {:?}", result.error);
            assert_eq!(shown(&workspace), expected, "{mode:?}: {line}");
            assert_eq!(control.join(".git").exists(), workspace.join(".git").exists(), "{line}");
        }
    }
}
