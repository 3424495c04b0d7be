//! Plants that their names do not tell: files that git's configuration or a symbolic link leads to,
//! and commands in the files of a git operation under way. With no approver none is made.

use palisade_tests::{Desk, Mode, is_denied, outside, profile_with, unconfined};
use std::path::Path;

/// A script that makes a repository, with hooks, included configuration and a link that people have
/// set up.
const REPOSITORY: &str = "git init -q -b main . && git config user.name x && git config user.email \
    x@example.org && mkdir -p tools/hooks config plain && echo ok > tools/hooks/pre-commit && \
    printf '[alias]\\n\\tst = status\\n' > shared.gitconfig && echo ok > config/environment && \
    ln -s config/environment .envrc && echo ok > plain/file && git add -A && git commit -qm first && \
    echo 2 > plain/file && git commit -qam second && git config core.hooksPath tools/hooks && \
    git config include.path ../shared.gitconfig";

/// A script that stops a rebase.
const REBASE: &str = "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other && \
    ! git rebase -q main 2>&1 && test -d .git/rebase-merge";

/// A script before the call, the call, and a condition that is true outside if it took effect.
type Case = (&'static str, &'static str, &'static str);

const PLANTS: [Case; 17] = [
    ("true", "echo evil >> tools/hooks/pre-commit", "grep -q evil tools/hooks/pre-commit"),
    ("true", "echo evil > tools/hooks/post-checkout", "test -e tools/hooks/post-checkout"),
    ("true", "chmod +x tools/hooks/pre-commit", "test -x tools/hooks/pre-commit"),
    ("git mv tools other-tools", "cp -r other-tools tools", "test -e tools/hooks/pre-commit"),
    ("true", "git config -f shared.gitconfig core.fsmonitor evil", "grep -q evil shared.gitconfig"),
    // An included file names another directory of hooks.
    (
        "git config --unset core.hooksPath && git config -f shared.gitconfig core.hooksPath plain",
        "echo evil > plain/pre-commit",
        "test -e plain/pre-commit",
    ),
    ("true", "echo evil >> config/environment", "grep -q evil config/environment"),
    // Links in a directory that is obeyed, and on the way to one.
    (
        "ln -s ../../plain/hook .git/hooks/pre-commit",
        "echo evil > plain/hook",
        "test -e plain/hook",
    ),
    (
        "mkdir -p .claude/hooks && ln -s ../../plain .claude/hooks/more",
        "echo evil > plain/file",
        "grep -q evil plain/file",
    ),
    (
        "ln -s tools t && git config core.hooksPath t/hooks",
        "echo evil >> tools/hooks/pre-commit",
        "grep -q evil tools/hooks/pre-commit",
    ),
    (
        "mv tools/hooks/pre-commit plain/one && ln -s ../../plain/two tools/hooks/pre-commit && \
         ln -s one plain/two",
        "echo evil >> plain/one",
        "grep -q evil plain/one",
    ),
    // Git reads a configuration file with other line ends, and with a byte order mark.
    (
        "sed -i 's/$/\\r/' .git/config && test $(git config core.hooksPath) = tools/hooks",
        "echo evil >> tools/hooks/pre-commit",
        "grep -q evil tools/hooks/pre-commit",
    ),
    (
        "{ printf '\\357\\273\\277'; cat .git/config; } > .git/new && mv .git/new .git/config && \
         test $(git config core.hooksPath) = tools/hooks",
        "echo evil >> tools/hooks/pre-commit",
        "grep -q evil tools/hooks/pre-commit",
    ),
    // Commands that people have set up.
    (
        "git config core.fsmonitor ./plain/watch && printf '#!/bin/sh\\nexit 1\\n' > plain/watch",
        "echo evil >> plain/watch",
        "grep -q evil plain/watch",
    ),
    (
        "git config alias.check '!sh \"plain/check\" --all' && echo ok > plain/check",
        "echo evil >> plain/check",
        "grep -q evil plain/check",
    ),
    (
        REBASE,
        "echo 'exec evil' >> .git/rebase-merge/git-rebase-todo",
        "grep -q evil .git/rebase-merge/git-rebase-todo",
    ),
    (
        "true",
        "mkdir .git/rebase-merge && echo 'x evil' > .git/rebase-merge/git-rebase-todo",
        "test -e .git/rebase-merge",
    ),
];

const HARMLESS: [Case; 11] = [
    // What no link of an obeyed directory leads to.
    (
        "ln -s ../../plain/hook .git/hooks/pre-commit && ln -s loop .git/hooks/loop && \
         ln -s /etc/passwd .git/hooks/far",
        "echo 4 > plain/file && ln -s file plain/other",
        "test -L plain/other",
    ),
    ("git config alias.all '!git log plain'", "echo 4 > plain/file", "grep -q 4 plain/file"),
    (
        "mkdir -p .github/workflows && ln -s workflows .github/more && echo x > .github/CODEOWNERS && \
         git add -A && git commit -qm more",
        "echo y > .github/CODEOWNERS",
        "grep -q y .github/CODEOWNERS",
    ),
    (
        "true",
        "echo 4 > plain/file && mkdir tools/more && echo x > tools/more/f",
        "test -e tools/more/f",
    ),
    ("true", "git rm -q -r tools", "! test -e tools"),
    (
        "true",
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other && \
     ! git rebase -q main",
        "test -d .git/rebase-merge",
    ),
    // The commands of a rebase that somebody outside has begun are known.
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other && \
         ! git rebase -q --exec true main 2>&1 && echo both > plain/file && git add plain/file",
        "GIT_EDITOR=true git rebase --continue",
        "! test -e .git/rebase-merge",
    ),
    // Operations that a command begins leave their own files.
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other",
        "! git rebase -q -s ort -X diff-algorithm=histogram main",
        "test -e .git/rebase-merge/strategy",
    ),
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other",
        "! git rebase -q --apply -C2 --whitespace=fix main",
        "grep -q -e -C2 .git/rebase-apply/apply-opt",
    ),
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other",
        "! git cherry-pick -x --strategy ort -X diff-algorithm=histogram main~1 main",
        "grep -q ort .git/sequencer/opts",
    ),
    (
        "git worktree add -q -b other tree HEAD~1 && cd tree && echo 3 > plain/file && \
         git commit -qam other",
        "cd tree && ! git rebase -q main",
        "test -d .git/worktrees/tree/rebase-merge",
    ),
];

fn run_all(cases: &[Case], expected: (bool, bool)) {
    let mut failures = Vec::new();
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        for (number, (setup, line, effect)) in cases.iter().enumerate() {
            if !mode.has_turn(number) {
                continue;
            }
            let directory = desk.world.outside().join(format!("case-{number}"));
            outside(&desk.world, &desk.world.outside(), &format!("mkdir case-{number}"));
            outside(&desk.world, &directory, &format!("{REPOSITORY} && {setup}"));
            desk.move_to(&directory);
            let result = desk.sandbox.bash(line);
            let is_denied = is_denied(&result);
            let failed = format!("{line}: {:?} {}", result.error, result.output);
            assert!(result.success || is_denied, "{failed}");
            let state = desk.world.state();
            let took_effect = unconfined(&desk.world, &directory, &state, effect).status.success();
            if (is_denied, took_effect) != expected {
                failures.push(format!("{mode:?}: {setup} | {failed}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn with_no_approver_nothing_that_git_or_a_link_leads_to_is_planted() {
    run_all(&PLANTS, (true, false));
}

#[test]
fn what_nothing_leads_to_needs_no_approval() {
    run_all(&HARMLESS, (false, true));
}

/// A script that begins an operation of git, what a plant adds to it, and how somebody outside
/// continues it. The plant then makes a file `ran`.
type Operation = (&'static str, &'static str, &'static str);

/// A script that stops a rebase of two commits.
const REBASE_OF_TWO: &str = "git switch -q -c other HEAD~1 && echo 3 > plain/file && \
    git commit -qam other && echo 4 > new && git add new && git commit -qm new && \
    ! git rebase -q main 2>&1 && test -d .git/rebase-merge";

/// Makes a program that git finds as the merge strategy `x/run`.
macro_rules! strategy {
    () => {
        "mkdir git-merge-x && printf '#!/bin/sh\\ntouch ran\\n' > git-merge-x/run && \
         chmod +x git-merge-x/run && "
    };
}

const CONTINUE: &str = "echo 9 > plain/file && git add plain/file && git rebase --continue";

const OPERATIONS: [Operation; 7] = [
    (REBASE, "echo ' x touch ran' >> .git/rebase-merge/git-rebase-todo", CONTINUE),
    (
        REBASE,
        "mv .git/rebase-merge state && ln -s ../state .git/rebase-merge && \
         echo 'exec touch ran' >> state/git-rebase-todo",
        CONTINUE,
    ),
    (REBASE_OF_TWO, concat!(strategy!(), "echo x/run > .git/rebase-merge/strategy"), CONTINUE),
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other && \
         ! git cherry-pick -x main~1 main 2>&1 && test -e .git/sequencer/opts",
        concat!(strategy!(), "printf '[options]\\n\\tstrategy = x/run\\n' > .git/sequencer/opts"),
        "echo 9 > plain/file && git add plain/file && git cherry-pick --continue",
    ),
    // The options are those of `git apply`, which then writes outside of the working tree.
    (
        "git switch -q -c other HEAD~1 && echo 3 > plain/file && git commit -qam other && \
         git format-patch -q -1 && git switch -q main && ! git am 0001-other.patch 2>&1",
        "cd .git/rebase-apply && echo \"'--apply' '--unsafe-paths'\" > apply-opt && echo 2 > last && \
         echo t > threeway && printf 'From %040d Mon Sep 17 00:00:00 2001\\nFrom: x <x@example.org>\\n\
         Date: Thu, 19 Nov 2020 10:00:00 +0000\\nSubject: x\\n\\n---\\ndiff --git a/../ran b/../ran\\n\
         new file mode 100644\\nindex 0000000..5626abf\\n--- /dev/null\\n+++ b/../ran\\n@@ -0,0 +1 @@\\n\
         +one\\n' 1 > 0002",
        "git am --skip",
    ),
    // In a linked worktree, and in a submodule.
    (
        "git worktree add -q -b other tree HEAD~1 && cd tree && echo 3 > plain/file && \
         git commit -qam other && ! git rebase -q main 2>&1",
        "echo 'exec touch ran' >> .git/worktrees/tree/rebase-merge/git-rebase-todo",
        "cd tree && echo 9 > plain/file && git add plain/file && git rebase --continue",
    ),
    (
        "mkdir .git/modules && git init -q -b main --separate-git-dir .git/modules/lib lib && cd lib && \
         git config user.name x && git config user.email x@example.org && echo 1 > f && git add f && \
         git commit -qm 1 && echo 2 > f && git commit -qam 2 && git switch -q -c other HEAD~1 && \
         echo 3 > f && git commit -qam 3 && ! git rebase -q main 2>&1",
        "echo 'exec touch ran' >> .git/modules/lib/rebase-merge/git-rebase-todo",
        "cd lib && echo 9 > f && git add f && git rebase --continue",
    ),
];

#[test]
fn whoever_continues_an_operation_of_git_runs_no_plant() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        for (number, (setup, plant, proceed)) in OPERATIONS.into_iter().enumerate() {
            if !mode.has_turn(number) {
                continue;
            }
            let [held, free] = ["held", "free"].map(|kind| {
                let above = desk.world.outside().join(format!("{kind}-{number}"));
                outside(&desk.world, &desk.world.outside(), &format!("mkdir -p {kind}-{number}/w"));
                outside(&desk.world, &above.join("w"), &format!("{REPOSITORY} && {setup}"));
                above.join("w")
            });
            let state = desk.world.state();
            let has_run = |desk: &Desk, directory: &Path| {
                let ran = "test -n \"$(find .. -name ran)\"";
                let line = format!("export GIT_EDITOR=true; ({proceed}); {ran}");
                unconfined(&desk.world, directory, &state, &line).status.success()
            };
            // The control: planted without a sandbox, git runs it.
            outside(&desk.world, &free, plant);
            assert!(has_run(&desk, &free), "{plant}");
            desk.move_to(&held);
            let result = desk.sandbox.bash(plant);
            assert!(is_denied(&result), "{mode:?} {plant}: {:?} {}", result.error, result.output);
            assert!(!has_run(&desk, &held), "{mode:?} {plant}");
        }
    }
}

/// Calls of file tools, and a condition that is true outside if they took effect. No name in their
/// paths tells what a link and git's configuration make of it.
const BY_FILE_TOOLS: [(&str, &str, &str); 6] = [
    (
        "write_file",
        r#"{"path": "scripts/post-merge", "content": "evil"}"#,
        "test -e scripts/post-merge",
    ),
    ("write_file", r#"{"path": "plain/tasks.json", "content": "{}"}"#, "test -e plain/tasks.json"),
    (
        "write_file",
        r#"{"path": "plain/new/deep.json", "content": "{}", "mode": "create"}"#,
        "test -e plain/new",
    ),
    (
        "edit",
        r#"{"path": "plain/file", "old_string": "2", "new_string": "evil"}"#,
        "grep -q evil plain/file",
    ),
    (
        "apply_patch",
        r#"{"patch": "*** Begin Patch\n*** Add File: scripts/post-merge\n+evil\n*** End Patch\n"}"#,
        "test -e scripts/post-merge",
    ),
    (
        "move_file",
        r#"{"from": "shared.gitconfig", "to": "plain/tasks.json"}"#,
        "test -e plain/tasks.json",
    ),
];

#[test]
fn file_tools_plant_nothing_that_git_or_a_link_leads_to() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        for (number, (tool, arguments, effect)) in BY_FILE_TOOLS.into_iter().enumerate() {
            let directory = desk.world.outside().join(format!("case-{number}"));
            outside(&desk.world, &desk.world.outside(), &format!("mkdir case-{number}"));
            let setup =
                "ln -s plain .vscode && git config core.hooksPath scripts && mkdir scripts other";
            outside(&desk.world, &directory, &format!("{REPOSITORY} && {setup}"));
            desk.move_to(&directory);
            let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
            let result = desk.sandbox.call(tool, arguments);
            let state = desk.world.state();
            let took_effect = unconfined(&desk.world, &directory, &state, effect).status.success();
            assert!(!took_effect && is_denied(&result), "{mode:?} {tool} {effect}: {result:?}");
            // The control: where nothing leads.
            let plain = serde_json::json!({"path": "other/new", "content": "{}"});
            let result = desk.sandbox.call("write_file", plain);
            assert!(result.success, "{mode:?}: {result:?}");
        }
    }
}
