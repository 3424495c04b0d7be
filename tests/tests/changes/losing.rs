//! Ways to lose something that was there before the session, some of them over several calls that
//! look harmless one by one. With no approver nothing is lost; with one who approves it is.

use palisade_tests::{
    Disregarded, FORGED_PACK, Table,
    TableCall::{Bash, Tool},
    TableCase,
};

/// A script that makes more to lose than the repository has with its uncommitted work.
const MORE_TO_LOSE: &str = r#"set -eu
# A commit that only the log of a branch has, and one that only a branch without a log has.
echo unlikely >> docs/roadmap.md && git commit -qm 'An attempt' docs/roadmap.md
git commit -q --amend -m 'Another attempt'
blob=$(echo lonely | git hash-object -w --stdin)
tree=$(printf '100644 blob %s\tlonely.txt\n' "$blob" | git mktree)
git update-ref refs/heads/lonely "$(git commit-tree "$tree" -p main -m 'Alone')"
rm -f .git/logs/refs/heads/lonely
# A file that is called like a directory of noise, directories and files that git does not know.
echo 'a file' > target
mkdir records sub && echo 'a record' > records/one && echo 'a file' > sub/f
# What is only staged.
echo 'pub fn new() {}' > src/target/new.rs && git add src/target/new.rs
echo 'as staged' > staged.txt && git add staged.txt && echo 'not staged' > staged.txt
# An attribute, and a second name.
python3 -c 'import os; os.setxattr("scratch.txt", "user.note", b"kept")'
ln data/names.csv data/names-too.csv
"#;

const NOISE: Disregarded = Disregarded {
    directories: &["target", "node_modules", "__pycache__"],
    endings: &[".o", ".pyc"],
};

const IGNORED: Disregarded =
    Disregarded { directories: &["dist", "build", "mirrors"], endings: &[".log"] };

/// The working tree.
const FILES: [TableCase; 22] = [
    (&[Bash("mv scratch.txt scratch.o")], "test -e scratch.o"),
    (&[Bash("mv scratch.txt dist/scratch.txt")], "test -e dist/scratch.txt"),
    (&[Bash("mv records node_modules/records")], "test -e node_modules/records"),
    (&[Bash("rm target")], "! test -e target"),
    (
        &[Bash("python3 -c 'import os; os.remove(\"src/target/mod.rs\")'")],
        "! test -e src/target/mod.rs",
    ),
    (&[Bash("rm docs/guide.md")], "! test -e docs/guide.md"),
    (&[Bash("python3 -c 'import os; os.remove(\"scratch.txt\")'")], "! test -e scratch.txt"),
    (&[Bash("truncate -s 0 src/app/views.py")], "! test -s src/app/views.py"),
    (&[Bash("chmod 000 scratch.txt")], "test $(stat -c %a scratch.txt) = 0"),
    (
        &[Bash("dd if=/dev/zero of=scratch.txt bs=1 count=4 conv=notrunc status=none")],
        "! grep -q 'not tracked' scratch.txt",
    ),
    (&[Bash("ln -sf README.md scratch.txt")], "test -L scratch.txt"),
    (
        &[Bash("python3 -c 'import os; os.removexattr(\"scratch.txt\", \"user.note\")'")],
        "python3 -c 'import os, sys; sys.exit(len(os.listxattr(\"scratch.txt\")))'",
    ),
    (
        &[Bash("sort data/names.csv > data/sorted && mv data/sorted data/names.csv")],
        "test $(stat -c %h data/names.csv) = 1",
    ),
    (&[Tool("delete_file", r#"{"path": "scratch.txt"}"#)], "! test -e scratch.txt"),
    (
        &[Tool("write_file", r#"{"path": "src/app/views.py", "content": "new"}"#)],
        "grep -qx new src/app/views.py",
    ),
    (
        &[Tool("move_file", r#"{"from": "README.md", "to": "scratch.txt", "overwrite": true}"#)],
        "! test -e README.md",
    ),
    (
        &[Tool(
            "apply_patch",
            r#"{"patch": "*** Begin Patch\n*** Delete File: scratch.txt\n*** End Patch\n"}"#,
        )],
        "! test -e scratch.txt",
    ),
    // Over several calls.
    (
        &[Bash("cp scratch.txt copy.txt"), Bash("rm scratch.txt"), Bash("rm copy.txt")],
        "! test -e scratch.txt && ! test -e copy.txt",
    ),
    (&[Bash("echo more >> scratch.txt"), Bash("rm scratch.txt")], "! test -e scratch.txt"),
    (&[Bash("echo records/ >> .gitignore"), Bash("rm -r records")], "! test -e records"),
    (&[Bash("mv scratch.txt moved.txt"), Bash("echo x > moved.txt")], "grep -qx x moved.txt"),
    // What the session made of a committed file still has the attributes of that file.
    (
        &[
            Bash("git add scratch.txt && git commit -qm Keep scratch.txt"),
            Bash("echo more >> scratch.txt"),
            Bash("python3 -c 'import os; os.removexattr(\"scratch.txt\", \"user.note\")'"),
        ],
        "python3 -c 'import os, sys; sys.exit(len(os.listxattr(\"scratch.txt\")))'",
    ),
];

/// A command that adds a loose object with the id of one that is in a pack.
const FORGED_LOOSE: &str = r"python3 - <<'END'
import os, subprocess, zlib
id = subprocess.check_output(['git', 'rev-parse', 'v1.0:README.md']).decode().strip()
os.makedirs('.git/objects/' + id[:2], exist_ok=True)
with open('.git/objects/' + id[:2] + '/' + id[2:], 'wb') as file:
    file.write(zlib.compress(b'blob 4\0EVIL'))
END";

/// Cases that lose what git has.
const GIT: [TableCase; 26] = [
    (
        &[Bash(
            "f=.git/objects/$(git rev-parse HEAD | sed 's,..,&/,'); chmod u+w $f; echo junk >> $f",
        )],
        "! git log -1 HEAD",
    ),
    (
        &[Bash("for f in .git/objects/pack/*.pack; do chmod u+w $f; echo junk >> $f; done")],
        "! git cat-file -p v1.0:README.md",
    ),
    (&[Bash(FORGED_PACK)], "test -e .git/objects/pack/pack-forged.idx"),
    (
        &[Bash("mv .git/objects/pack elsewhere && ln -s ../../elsewhere .git/objects/pack")],
        "test -L .git/objects/pack",
    ),
    (
        &[Bash(FORGED_LOOSE)],
        "test -e .git/objects/$(git rev-parse v1.0:README.md | sed 's,..,&/,')",
    ),
    (&[Tool("move_file", r#"{"from": ".git", "to": "node_modules/x"}"#)], "! test -e .git"),
    (&[Bash("git checkout -q -- src/app/views.py")], "git diff --quiet src/app/views.py"),
    (&[Bash("git reset -q --hard")], "git diff --quiet src/app/views.py"),
    (&[Bash("git clean -fdq")], "! test -e scratch.txt"),
    (&[Bash("git stash drop -q")], "test -z \"$(git stash list)\""),
    (
        &[Bash("git rev-parse main > .git/refs/stash; : > .git/logs/refs/stash")],
        "test $(git rev-parse refs/stash) = $(git rev-parse main)",
    ),
    (
        &[Bash("git rev-parse main > .git/refs/heads/lonely")],
        "test $(git rev-parse lonely) = $(git rev-parse main)",
    ),
    (&[Bash("git branch -q -D lonely")], "! git rev-parse -q --verify lonely"),
    (&[Bash("git update-ref -d refs/heads/lonely")], "! git rev-parse -q --verify lonely"),
    (
        &[Bash(": > .git/logs/HEAD; : > .git/logs/refs/heads/main")],
        "! git log --all --reflog --format=%s | grep -qx 'An attempt'",
    ),
    (&[Bash("rm -f .git/objects/pack/*")], "! git cat-file -e v1.0:README.md"),
    (
        &[Bash("git reflog expire --expire=now --all && git gc -q --prune=now")],
        "! git log --all --reflog --format=%s | grep -qx 'An attempt'",
    ),
    (&[Bash("git add staged.txt")], "git diff --quiet staged.txt"),
    // Over several calls.
    (
        &[Bash("git rm -q --cached -r src/target"), Bash("rm -r src/target")],
        "! test -e src/target/new.rs",
    ),
    (
        &[
            Bash("git init -q sub"),
            Bash("cd sub && git add f && git -c user.name=x -c user.email=x@y commit -qm f; cd .."),
            Bash("git -C sub rm -q f"),
            Bash("rm -rf sub/.git"),
        ],
        "! test -e sub/f && ! test -e sub/.git",
    ),
    (
        &[
            Bash("git switch -q -c tmp && git add scratch.txt && git commit -qm Keep scratch.txt"),
            Bash("git rm -q scratch.txt && git commit -qm Drop scratch.txt"),
            Bash("git switch -q main && git branch -q -D tmp"),
            Bash("git reflog expire --expire=now --all"),
        ],
        "! test -e scratch.txt && ! git log --all --reflog --format=%s | grep -qx Keep",
    ),
    // What was edited, added to or renamed because a commit keeps it must stay in that commit.
    (
        &[
            Bash("git add scratch.txt && git commit -qm Keep scratch.txt"),
            Tool(
                "edit",
                r#"{"path": "scratch.txt", "old_string": "not tracked", "new_string": "edited"}"#,
            ),
            Bash("echo x > scratch.txt"),
            Bash("git reset -q --soft HEAD~1"),
            Bash("git reflog expire --expire=now --all && git gc -q --prune=now"),
        ],
        "grep -qx x scratch.txt && ! git log --all --reflog --format=%s | grep -qx Keep",
    ),
    (
        &[
            Bash("git add scratch.txt && git commit -qm Keep scratch.txt"),
            Bash("git mv scratch.txt moved.txt"),
            Bash("echo x > moved.txt"),
            Bash("git reset -q --soft HEAD~1"),
            Bash("git reflog expire --expire=now --all && git gc -q --prune=now"),
        ],
        "grep -qx x moved.txt && ! git log --all --reflog --format=%s | grep -qx Keep",
    ),
    (
        &[
            Bash("git init -q sub"),
            Bash("cd sub && git add f && git -c user.name=x -c user.email=x@y commit -qm f; cd .."),
            Bash("echo more >> sub/f"),
            Bash("echo x > sub/f"),
            Bash("rm -rf sub/.git"),
        ],
        "grep -qx x sub/f && ! test -e sub/.git",
    ),
    (
        &[
            Bash("git stash store -q -m Mine $(git stash create)"),
            Bash("echo '# more' >> src/app/views.py"),
            Bash("git checkout -q 'stash@{0}' -- src/app/views.py"),
            Bash("git stash drop -q"),
            Bash("echo x > src/app/views.py"),
        ],
        "grep -qx x src/app/views.py && ! git stash list | grep -q Mine",
    ),
    (
        &[Bash("git stash push -q src/app/views.py"), Bash("git stash drop -q")],
        "git diff --quiet src/app/views.py && test $(git stash list | wc -l) = 1",
    ),
];

const TABLE: Table =
    Table { cases: &[&FILES, &GIT], more: MORE_TO_LOSE, noise: NOISE, ignored: IGNORED };

#[test]
fn with_no_approver_nothing_is_lost() {
    TABLE.nothing_counts_unasked("losing calls");
}

#[test]
fn with_an_approval_it_is_lost() {
    TABLE.everything_counts_approved("losing calls");
}
