//! Many ways to destroy something in a workspace. With nobody to approve it every byte is as before;
//! with somebody who approves, exactly that happens which happens without a sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_client::Answer;
use palisade_protocol::ErrorCode;
use palisade_tests::{Desk, Mode, fill, listed, profile_with, tree, unconfined};
use std::{fs, path::Path};

/// What there is to lose. `.git` has one commit of it all.
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

/// What git does not have: another version, and a file of its own.
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
    "setsid sh -c 'rm b.txt' & sleep 0.5",
    // What replaces.
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
    "git rm -q a.txt",
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
    let commit = "git init -q && git add -A ':!probe' && \
                  git -c user.name=x -c user.email=x@x commit -qm all --date=@0";
    assert_eq!(run(desk, directory, commit), Some(0));
    fill(&desk.world, directory, &WORK);
}

fn shown(directory: &Path) -> Vec<String> {
    listed(directory, |_| false)
}

#[test]
fn with_nobody_to_approve_every_byte_is_as_before() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let workspace = desk.world.workspace();
        reset(&desk, &workspace);
        let before = tree(&workspace);
        for line in WAYS {
            let result = desk.sandbox.bash(line);
            let after = tree(&workspace);
            assert_eq!(after, before, "{mode:?}: {line}");
            let error =
                result.error.unwrap_or_else(|| panic!("{mode:?}: {line} was not asked about"));
            assert_eq!(error.code, ErrorCode::Denied, "{mode:?}: {line}: {error:?}");
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
        for line in WAYS {
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
