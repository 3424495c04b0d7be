//! Ways to lose what git tracks, has staged or stashed, or can not store, although each step looks
//! harmless: in repositories that keep nothing, in one that the session made inside of another, and
//! by a file that keeps what was staged. What must still pass is beside it.

use palisade_tests::{Desk, Mode, is_denied, outside, profile_with, unconfined};
use serde_json::{Value, json};

/// A script that makes a repository in which a directory of noise is tracked, and has changes.
const REPOSITORY: &str = "git init -q -b main . && git config user.name x && git config user.email \
    x@example.org && mkdir -p src/target node_modules && echo committed > src/target/mod.rs && \
    echo kept > README.md && git add -f src README.md && git commit -qm first && \
    echo uncommitted >> src/target/mod.rs && echo noise > node_modules/x.js && \
    echo 'only here' > scratch.txt && ";

/// The calls of a case: lines of bash. The last one is denied, or passes.
struct Case {
    /// A script that runs outside of the sandbox before, in the repository.
    setup: &'static str,
    calls: &'static [&'static str],
    /// A condition that is true outside if the last call took effect.
    effect: &'static str,
}

const fn case(setup: &'static str, calls: &'static [&'static str], effect: &'static str) -> Case {
    Case { setup, calls, effect }
}

/// Makes a submodule `lib` that tracks a directory of noise, with changes, and has other noise.
const SUBMODULE: &str = "git init -q -b main lib && cd lib && git config user.name x && \
    git config user.email x@example.org && mkdir target node_modules && echo t > target/mod.rs && \
    git add -f target && git commit -qm lib && echo n > node_modules/x.js && cd .. && \
    git -c advice.addEmbeddedRepo=false add lib && mkdir .git/modules && \
    mv lib/.git .git/modules/lib && echo 'gitdir: ../.git/modules/lib' > lib/.git && \
    git -C .git/modules/lib config core.worktree ../../../lib && git -C lib status && \
    echo uncommitted >> lib/target/mod.rs";

/// Gives a file an access control list with an entry for its own user.
const LISTED: &str = "python3 -c 'import os, struct; n = 2**32 - 1; os.setxattr(\"scratch.txt\", \
    \"system.posix_acl_access\", struct.pack(\"<I\", 2) + b\"\".join(struct.pack(\"<HHI\", *e) for e in \
    [(1, 6, n), (2, 4, os.getuid()), (4, 4, n), (16, 4, n), (32, 4, n)]))'";

const LOSING: [Case; 28] = [
    // A repository that the session makes inside of the one that tracks the file.
    case("true", &["git init -q src", "rm -rf src/target"], "! test -e src/target/mod.rs"),
    case(
        "true",
        &["git init -q src", "echo x > src/target/mod.rs"],
        "grep -qx x src/target/mod.rs",
    ),
    // Indexes and repositories that can not be read.
    case("git update-index --split-index", &["rm -rf src/target"], "! test -e src/target/mod.rs"),
    case(
        "git config core.repositoryFormatVersion 1 && git config extensions.refStorage reftable",
        &["rm -rf src/target"],
        "! test -e src/target/mod.rs",
    ),
    case(
        "mv .git ../moved-$$ && echo \"gitdir: $PWD/../moved-$$\" > .git",
        &["rm -rf src/target"],
        "! test -e src/target/mod.rs",
    ),
    case(SUBMODULE, &["rm -rf lib/target"], "! test -e lib/target/mod.rs"),
    // What is committed is tracked, although the index was told otherwise before the session.
    case("git rm -q -r --cached src/target", &["rm -rf src/target"], "! test -e src/target/mod.rs"),
    case(
        "git rm -q -r --cached src/target",
        &["git commit -qm gone", "rm -rf src/target"],
        "! test -e src/target/mod.rs",
    ),
    case(
        "git rm -q -r --cached src/target",
        &["git symbolic-ref HEAD refs/heads/none", "rm -rf src/target"],
        "! test -e src/target/mod.rs",
    ),
    // A cache of reachability that git believes.
    case("git repack -qad", &["git repack -qadb"], "ls .git/objects/pack/*.bitmap"),
    // What a mode and attributes hide or lose, beside an addition.
    case("true", &["echo x >> scratch.txt && chmod 000 scratch.txt"], "! test -r scratch.txt"),
    case(
        "true",
        &["python3 -c 'import os; os.setxattr(\"scratch.txt\", \"user.x\", b\"1\")' && \
           chmod 000 scratch.txt"],
        "test $(stat -c %a scratch.txt) = 0",
    ),
    case(
        "python3 -c 'import os; os.setxattr(\"scratch.txt\", \"user.note\", b\"1\")'",
        &["echo x >> scratch.txt && \
           python3 -c 'import os; os.removexattr(\"scratch.txt\", \"user.note\")'"],
        "grep -qx x scratch.txt",
    ),
    case(
        "python3 -c 'import os; os.setxattr(\"scratch.txt\", \"user.note\", b\"1\")'",
        &["cp scratch.txt copy.txt && rm scratch.txt"],
        "! test -e scratch.txt",
    ),
    case(
        LISTED,
        &["python3 -c 'import os; os.removexattr(\"scratch.txt\", \"system.posix_acl_access\")'"],
        "! python3 -c 'import os; os.getxattr(\"scratch.txt\", \"system.posix_acl_access\")'",
    ),
    case(
        "python3 -c 'import os, struct; n = 2**32 - 1; os.setxattr(\"scratch.txt\", \
         \"system.posix_acl_access\", struct.pack(\"<I\", 2) + b\"\".join(struct.pack(\"<HHI\", *e) for e \
         in [(1, 6, n), (2, 4, 1), (4, 4, n), (16, 4, n), (32, 4, n)]))'",
        &["cp scratch.txt copy.txt && mv copy.txt scratch.txt"],
        "! python3 -c 'import os; os.getxattr(\"scratch.txt\", \"system.posix_acl_access\")'",
    ),
    // One new link for two that are gone, and a link to something else.
    case("ln -s a one && ln -s a two", &["mv one three && rm two"], "! test -L two"),
    case("ln -s a one", &["ln -s b two && rm one"], "! test -L one"),
    // What was staged or put aside before the session, and is only in a file that it wrote.
    case(
        "cp README.md was && echo staged > README.md && git add README.md && mv was README.md",
        &["echo staged > README.md", "git reset -q", "echo x > README.md"],
        "grep -qx x README.md",
    ),
    case(
        "echo 'put aside' >> README.md && git stash -q",
        &["git stash pop -q", "echo x > README.md"],
        "grep -qx x README.md",
    ),
    case(
        "echo 'not committed' >> README.md",
        &["git stash -q", "git stash pop -q", "echo x > README.md"],
        "grep -qx x README.md",
    ),
    // A stash that only a rebase under way has.
    case(
        "git checkout -q src && echo 1 > c && git add c && git commit -qm c && \
         git switch -q -c other && echo 2 > c && git commit -qam other && git switch -q main && \
         echo 3 > c && git commit -qam main && echo 'put aside' >> README.md && \
         { git rebase -q --autostash other || test -e .git/rebase-merge/autostash; }",
        &["rm -rf .git/rebase-merge"],
        "! test -e .git/rebase-merge",
    ),
    // Files that were renamed without git: what a commit has of them is only the version that it
    // has, at a path of the same repository, and git does not agree that it is gone.
    case("true", &["mv README.md new.md", "rm new.md"], "! test -e new.md"),
    case(
        "echo uncommitted >> README.md",
        &["mv README.md new.md", "sed -i s/kept/x/ new.md"],
        "grep -qx x new.md",
    ),
    case("echo mine > new.md && rm README.md", &["echo x > new.md"], "grep -qx x new.md"),
    case(
        "ln README.md second.md",
        &["mv README.md new.md", "sed -i s/kept/x/ new.md"],
        "grep -qx x new.md",
    ),
    case(
        "git init -q sub",
        &["mv README.md sub/new.md", "echo x > sub/new.md"],
        "grep -qx x sub/new.md",
    ),
    case(
        "rm -rf .git",
        &[
            "git init -q . && git add README.md && \
             git -c user.name=x -c user.email=x@example.org commit -qm mine",
            "mv README.md new.md",
            "sed -i s/kept/x/ new.md",
            "rm -rf .git",
        ],
        "! test -e .git",
    ),
];

const HARMLESS: [Case; 18] = [
    case("true", &["git init -q src", "rm -rf node_modules"], "! test -e node_modules"),
    case(SUBMODULE, &["rm -rf lib/node_modules"], "! test -e lib/node_modules"),
    case("git rm -q -r --cached README.md", &["rm README.md"], "! test -e README.md"),
    case("true", &["git repack -qad"], "ls .git/objects/pack/*.pack"),
    case("ln -s a one", &["mv one two"], "test $(readlink two) = a && ! test -L one"),
    case(
        "mkdir d && echo x > d/f && ln -s f d/l",
        &["cp -a d e && rm -r d"],
        "test $(readlink e/l) = f && ! test -e d",
    ),
    case(
        "python3 -c 'import os; os.setxattr(\"scratch.txt\", \"user.note\", b\"1\")'",
        &["cp --preserve=xattr scratch.txt copy.txt && rm scratch.txt"],
        "python3 -c 'import os; os.getxattr(\"copy.txt\", \"user.note\")'",
    ),
    // A list stays with its file.
    case(LISTED, &["chmod 600 scratch.txt"], "test $(stat -c %a scratch.txt) = 600"),
    case(
        LISTED,
        &["echo more >> scratch.txt"],
        "python3 -c 'import os; os.getxattr(\"scratch.txt\", \"system.posix_acl_access\")' && \
         grep -q more scratch.txt",
    ),
    // What the session staged or put aside itself.
    case(
        "true",
        &["echo a > n && git add n", "echo b > n", "git add n"],
        "test $(git cat-file -p :n) = b",
    ),
    case(
        "true",
        &["echo a >> README.md && git add README.md", "echo b >> README.md && git add README.md"],
        "git diff --quiet README.md",
    ),
    case("true", &["echo a > n && git add n", "echo b > n && git reset -q"], "grep -qx b n"),
    case(
        "git checkout -q src",
        &["echo a > README.md", "git stash -q", "git stash pop -q", "echo b > README.md"],
        "grep -qx b README.md",
    ),
    // The rebase applies its stash at its end.
    case(
        "git checkout -q src && echo 1 > c && git add c && git commit -qm c && \
         git switch -q -c other && echo 2 > c && git commit -qam other && git switch -q main && \
         echo 3 > c && git commit -qam main && echo 'put aside' >> README.md && \
         { git rebase -q --autostash other || test -e .git/rebase-merge/autostash; } && \
         echo both > c && git add c",
        &["GIT_EDITOR=true git rebase --continue"],
        "grep -qx 'put aside' README.md && ! test -e .git/rebase-merge",
    ),
    // Files that were renamed without git.
    case(
        "true",
        &["mv README.md new.md", "sed -i s/kept/x/ new.md"],
        "grep -qx x new.md && test $(git show HEAD:README.md) = kept",
    ),
    case(
        "true",
        &["mv README.md new.md", "mv new.md newer.md", "echo x > newer.md"],
        "grep -qx x newer.md && test $(git show HEAD:README.md) = kept",
    ),
    case(
        "true",
        &["mv README.md new.md", "echo more >> new.md", "sed -i s/kept/x/ new.md"],
        "grep -qx x new.md && grep -qx more new.md",
    ),
    case(
        "true",
        &["mv README.md new.md", "sed -i s/kept/x/ new.md && git add -A && git commit -qm moved"],
        "test $(git show HEAD:new.md) = x && test $(git show HEAD~1:README.md) = kept",
    ),
];

/// Runs a case, and returns whether its last call was denied, and whether it took effect.
fn run(desk: &mut Desk, number: usize, case: &Case) -> (bool, bool) {
    let directory = desk.world.outside().join(format!("case-{number}"));
    outside(&desk.world, &desk.world.outside(), &format!("mkdir case-{number}"));
    outside(&desk.world, &directory, &[REPOSITORY, case.setup].concat());
    desk.move_to(&directory);
    let mut is_last_denied = false;
    for line in case.calls {
        let result = desk.sandbox.bash(line);
        is_last_denied = is_denied(&result);
        assert!(result.success || is_last_denied, "{line}: {:?} {}", result.error, result.output);
    }
    let state = desk.world.state();
    let took_effect = unconfined(&desk.world, &directory, &state, case.effect).status.success();
    (is_last_denied, took_effect)
}

fn run_all(cases: &[Case], expected: (bool, bool)) {
    let mut failures = Vec::new();
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        for (number, case) in cases.iter().enumerate().filter(|(at, _)| mode.has_turn(*at)) {
            let found = run(&mut desk, number, case);
            if found != expected {
                failures.push(format!("{mode:?}: {} | {:?}: {found:?}", case.setup, case.calls));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn with_no_approver_nothing_that_is_tracked_or_put_aside_is_lost() {
    run_all(&LOSING, (true, false));
}

#[test]
fn noise_links_and_what_the_session_staged_need_no_approval() {
    run_all(&HARMLESS, (false, true));
}

/// File tools replace a file by a new one, which must have the attributes of the old one.
#[test]
fn file_tools_keep_attributes() {
    let tools: [(&str, Value); 3] = [
        ("edit", json!({"path": "f", "old_string": "one", "new_string": "two"})),
        ("write_file", json!({"path": "f", "content": "more\n", "mode": "append"})),
        (
            "apply_patch",
            json!({"patch": "*** Begin Patch\n*** Update File: f\n@@\n-two\n+three\n*** End Patch\n"}),
        ),
    ];
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let workspace = desk.world.workspace();
        let set =
            "echo one > f && python3 -c 'import os; os.setxattr(\"f\", \"user.note\", b\"1\")'";
        outside(&desk.world, &workspace, set);
        for (tool, arguments) in &tools {
            let result = desk.sandbox.call(tool, arguments.clone());
            assert!(result.success, "{mode:?}: {tool}: {:?}", result.error);
            let get = "python3 -c 'import os; print(os.getxattr(\"f\", \"user.note\").decode())'";
            assert_eq!(outside(&desk.world, &workspace, get), "1\n", "{mode:?}: {tool}");
        }
        assert_eq!(desk.text("f").as_deref(), Some("three\nmore\n"));
    }
}

/// What was deleted comes back with its attributes, and with the list that names this user.
#[test]
fn undo_restores_attributes_and_access_control_lists() {
    let get = |name: &str| {
        format!("python3 -c 'import os; print(os.getxattr(\"dist/f\", \"{name}\").hex())'")
    };
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let workspace = desk.world.workspace();
        let list = LISTED.replace("scratch.txt", "dist/f");
        let note = "python3 -c 'import os; os.setxattr(\"dist/f\", \"user.note\", b\"1\")'";
        let set = "git init -q . && echo dist/ > .gitignore && mkdir dist && echo one > dist/f";
        outside(&desk.world, &workspace, &format!("{set} && {note} && {list}"));
        let names = ["user.note", "system.posix_acl_access"];
        let before = names.map(|name| outside(&desk.world, &workspace, &get(name)));
        let deleted = desk.sandbox.bash("rm -r dist");
        assert!(deleted.success, "{mode:?}: {:?}", deleted.error);
        assert!(!workspace.join("dist").exists());
        let undone = desk.sandbox.call("undo", json!({"call_id": deleted.undo}));
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
        let after = names.map(|name| outside(&desk.world, &workspace, &get(name)));
        assert_eq!(before, after, "{mode:?}");
    }
}
