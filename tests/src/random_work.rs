//! Random small directories, with and without git, and random calls that work in them.

use crate::Dice;
use serde_json::{Value, json};
use std::fmt;

/// Files that may exist at first. One is named like a noise directory, some are in ignored
/// directories or in noise directories.
const FILES: [&str; 11] = [
    "a.txt",
    "b.txt",
    "docs/c.md",
    "docs/d.md",
    "src/e.py",
    "src/target/f.rs",
    "target",
    "data/g.csv",
    "dist/h.js",
    "node_modules/i.js",
    "note.log",
];

/// Further files that calls create.
const MORE: [&str; 8] =
    ["n.txt", "new/m.txt", "x.o", "dist/x", "node_modules/x", "docs/c.md.o", "old", "y.log"];

const DIRECTORIES: [&str; 6] = ["docs", "src", "data", "dist", "src/target", "new"];

/// Commands of a working day, and others. `@` and `~` stand for files, `%` for a directory, `#` for
/// a number.
const LINES: [&str; 36] = [
    "echo # > @",
    "echo # >> @",
    "rm -f @",
    "rm @",
    "rm -rf %",
    "mv -T @ ~",
    "mv @ %",
    "mv -T % moved#",
    "mv -T % node_modules/moved#",
    "mv -T @ @.o",
    "cp -T @ ~",
    "cp -rT % copy",
    "rm -rf copy",
    "sed -i s/line/LINE#/ @",
    "ln -sfn ~ @",
    "ln -f ~ @",
    "chmod 000 @",
    "chmod 600 @",
    "truncate -s 0 @",
    "dd if=/dev/zero of=@ bs=1 count=3 conv=notrunc status=none",
    "python3 -c 'import os; os.remove(\"@\")'",
    "python3 -c 'open(\"@\", \"w\").write(\"#\")'",
    "python3 -c 'import os; os.replace(\"@\", \"~\")'",
    "find % -type f -delete",
    "cat @ ~ > n.txt",
    "tee @ < ~",
    "echo %/ >> .gitignore",
    "echo '*.txt' >> .gitignore",
    "rm -f .gitignore",
    "mkdir -p % && echo # > %/m.txt",
    "rm -f @ && mkdir -p @",
    "rm -rf % && echo # > %",
    "tar cf all.tar % && rm -rf %",
    "mv @ \"$HOME\"",
    "cp -T @ ~ && rm @",
    "rm -f ~ && mv -T @ ~ && echo # > @",
];

/// Git commands, porcelain and plumbing, with the same placeholders.
const GIT_LINES: [&str; 66] = [
    "git init -q",
    "git add @",
    "git add -A",
    "git add -f @",
    "git commit -qam #",
    "git commit -qm # @",
    "git commit -q --amend -m #",
    "git add -A && git commit -qm #",
    "git checkout -q other",
    "git checkout -q main",
    "git checkout -qf other",
    "git checkout -q -- @",
    "git checkout -q other -- @",
    "git switch -q -c topic#",
    "git reset -q --soft HEAD~1",
    "git reset -q HEAD~1",
    "git reset -q --hard",
    "git reset -q --hard HEAD~1",
    "git restore --staged @",
    "git restore @",
    "git stash -q",
    "git stash -q -u",
    "git stash pop -q",
    "git stash drop -q",
    "git stash clear",
    "git rm -q @",
    "git rm -qf @",
    "git rm -q --cached @",
    "git rm -q --cached -r %",
    "git mv @ ~",
    "git merge -q --no-edit other",
    "git -c rebase.autoStash=true rebase -q other",
    "git cherry-pick other",
    "git revert --no-edit HEAD",
    "git branch -q -D other",
    "git branch -q -f other main",
    "git tag -f v1",
    "git tag -d v1",
    "git clean -fdq",
    "git clean -fdxq",
    "git gc -q --prune=now",
    "git reflog expire --expire=now --all",
    "git repack -q -a -d && git prune",
    "git pack-refs --all",
    "git update-ref -d refs/heads/other",
    "git update-ref refs/heads/other HEAD",
    "git update-index --force-remove @",
    "git read-tree --empty",
    "git checkout-index -f -a",
    "git rev-parse HEAD > .git/refs/heads/other",
    "rm -rf .git/logs",
    "rm -f .git/index",
    "rm -rf .git",
    "mv .git node_modules/git",
    "cd % && git init -q && git add -A && git commit -qm # && git rm -qr . ; cd \"$OLDPWD\"",
    "rm -rf %/.git",
    // Damage to objects.
    "f=$(git rev-parse HEAD | sed 's,..,&/,') && chmod u+w .git/objects/$f && echo # >> .git/objects/$f",
    "for f in .git/objects/pack/*.pack; do chmod u+w $f && echo # >> $f; done",
    FORGED_PACK,
    "git repack -q -a -d && git prune-packed && git gc -q",
    // Parts of plants.
    "mkdir -p .git/refs .git/objects && echo 'ref: refs/heads/main' > .git/HEAD",
    "rm -f .git/HEAD",
    "printf '[core]\n\tfsmonitor = evil\n' >> .git/config",
    "mkdir -p bare/objects bare/refs",
    "mkdir -p bare && echo 'ref: refs/heads/main' > bare/HEAD",
    "mkdir -p bare && printf '[core]\n\tbare = true\n\tfsmonitor = evil\n' > bare/config",
];

/// A command that adds a pack whose index lists the blob `EVIL` under the id of an object that the
/// repository has. Git prefers packs, and does not hash what it reads.
pub const FORGED_PACK: &str = r#"python3 - <<'END'
import hashlib, struct, subprocess, zlib
listed = subprocess.run(['git', 'rev-list', '--objects', '--all'], capture_output=True).stdout
victim = bytes.fromhex(listed.split(b'\n')[-2].split()[0].decode())
blob = bytes([0x34]) + zlib.compress(b'EVIL')
pack = b'PACK' + struct.pack('>II', 2, 1) + blob
pack += hashlib.sha1(pack).digest()
counts = b''.join(struct.pack('>I', int(first >= victim[0])) for first in range(256))
index = b'\xfftOc' + struct.pack('>I', 2) + counts + victim
index += struct.pack('>II', zlib.crc32(blob), 12) + pack[-20:]
index += hashlib.sha1(index).digest()
for ending, content in ('pack', pack), ('idx', index):
    with open('.git/objects/pack/pack-forged.' + ending, 'wb') as file:
        file.write(content)
END"#;

/// One step of a session.
#[derive(Debug, Clone)]
pub enum RandomStep {
    /// A call of a tool.
    Call(&'static str, Value),
    /// Two calls at the same time.
    Both([(&'static str, Value); 2]),
    /// An undo of an earlier call; the first one if there are not that many.
    Undo {
        /// The index of the call.
        call: usize,
        /// Undoes by force, which also reverts later changes.
        force: bool,
    },
}

impl fmt::Display for RandomStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(tool, arguments) => write!(f, "{tool} {arguments}"),
            Self::Both([(one, first), (two, second)]) => {
                write!(f, "{one} {first} beside {two} {second}")
            }
            Self::Undo { call, force } => write!(f, "undo of call {call}, force {force}"),
        }
    }
}

fn pick<'a>(dice: &mut Dice, from: &[&'a str]) -> &'a str {
    from[dice.roll(from.len())]
}

/// Returns a random file, mostly one that may exist at first.
fn file(dice: &mut Dice) -> &'static str {
    if dice.roll(4) == 0 { pick(dice, &MORE) } else { pick(dice, &FILES) }
}

fn line(dice: &mut Dice, lines: &[&str]) -> String {
    let line = pick(dice, lines).replace('%', pick(dice, &DIRECTORIES));
    let line = line.replace('@', file(dice)).replace('~', file(dice));
    let line = line.replace('#', &dice.roll(1000).to_string());
    line.replace("git commit", "git -c user.name=x -c user.email=x@example.org commit")
}

fn bash(dice: &mut Dice, lines: &[&str]) -> (&'static str, Value) {
    let mut text = line(dice, lines);
    if dice.roll(4) == 0 {
        text = format!("{text}; {}", line(dice, &LINES));
    }
    ("bash", json!({"command": text, "timeout_ms": 300_000}))
}

fn patch(dice: &mut Dice) -> (&'static str, Value) {
    let (one, two, number) = (file(dice), file(dice), dice.roll(1000));
    let part = match dice.roll(4) {
        0 => format!("*** Delete File: {one}\n"),
        1 => format!("*** Add File: {one}\n+{number}\n"),
        2 => format!("*** Update File: {one}\n@@\n-end\n+end {number}\n"),
        _ => format!("*** Update File: {one}\n*** Move to: {two}\n@@\n-end\n+end {number}\n"),
    };
    ("apply_patch", json!({"patch": format!("*** Begin Patch\n{part}*** End Patch\n")}))
}

fn call(dice: &mut Dice, has_git: bool) -> (&'static str, Value) {
    let (one, two, number) = (file(dice), file(dice), dice.roll(1000).to_string());
    match dice.roll(if has_git { 20 } else { 12 }) {
        0 => ("write_file", json!({"path": one, "content": number})),
        1 => ("write_file", json!({"path": one, "content": number, "mode": "append"})),
        2 => {
            let new = format!("line {number}");
            ("edit", json!({"path": one, "old_string": "line", "new_string": new}))
        }
        3 => patch(dice),
        4 => ("move_file", json!({"from": one, "to": two, "overwrite": dice.roll(2) == 0})),
        5 => {
            let directories = ["docs", "src", "node_modules", ".git"];
            let to = format!("{}/moved{number}", pick(dice, &["node_modules", "dist", "new"]));
            ("move_file", json!({"from": pick(dice, &directories), "to": to}))
        }
        6 => ("delete_file", json!({"path": one})),
        7 => ("delete_file", json!({"path": pick(dice, &DIRECTORIES), "recursive": true})),
        8..12 => bash(dice, &LINES),
        _ => bash(dice, &GIT_LINES),
    }
}

/// Returns two to eight random steps.
#[must_use]
pub fn random_steps(dice: &mut Dice, has_git: bool) -> Vec<RandomStep> {
    let number = 2 + dice.roll(7);
    let step = |at| match dice.roll(10) {
        0 if at > 0 => RandomStep::Undo { call: dice.roll(at), force: dice.roll(2) == 0 },
        1 => RandomStep::Both([call(dice, has_git), call(dice, has_git)]),
        _ => {
            let (tool, arguments) = call(dice, has_git);
            RandomStep::Call(tool, arguments)
        }
    };
    (0..number).map(step).collect()
}

/// Returns a shell script that creates a directory's contents, and whether they are a git
/// repository.
#[must_use]
pub fn random_tree(dice: &mut Dice) -> (String, bool) {
    let mut script = "set -eu; umask 022\nfile() { mkdir -p \"$(dirname \"$1\")\"; \
                      printf '%s\\nline of %s\\nend\\n' \"$2\" \"$1\" > \"$1\"; }\n"
        .to_owned();
    write_some(dice, &mut script, 14);
    let has_git = dice.roll(4) != 0;
    if has_git {
        script.push_str(
            "git init -q -b main; git config user.name x; git config user.email x@example.org\n\
             printf 'dist/\\n*.log\\n' > .gitignore\n",
        );
        script.push_str(pick(dice, &["", "echo node_modules/ >> .gitignore\n"]));
        script.push_str("git add -A; git commit -qm one; git checkout -q -b other\n");
        write_some(dice, &mut script, 2);
        script.push_str("git add -A; git commit -q --allow-empty -m two; git checkout -q main\n");
        write_some(dice, &mut script, 2);
        script.push_str("git add -A; git commit -q --allow-empty -m three; git tag v1 HEAD~1\n");
        for part in [
            "git commit -q --amend --allow-empty -m four\n",
            "rm .git/logs/refs/heads/other\n",
            "git repack -q -a -d\n",
            "file a.txt stashed; git add a.txt; git stash -q\n",
        ] {
            script.push_str(if dice.roll(2) == 0 { part } else { "" });
        }
        if dice.roll(2) == 0 {
            write_some(dice, &mut script, 2);
            script.push_str(pick(dice, &["", "git add -A\n"]));
            write_some(dice, &mut script, 2);
            script.push_str("file u.txt untracked\n");
        }
    }
    (script, has_git)
}

fn write_some(dice: &mut Dice, script: &mut String, number: usize) {
    for _ in 0..number {
        let (name, number) = (pick(dice, &FILES), dice.roll(1_000_000));
        script.push_str(&format!("file {name} {number}\n"));
    }
}
