//! Changes that a program outside of the sandbox would run, or be misled by: under the default
//! profile none is made with no approver. What git writes on an ordinary day is not among them.

use palisade_client::Answer;
use palisade_tests::{
    Desk, Disregarded, FixtureRepository, Mode, Table,
    TableCall::{Bash, Tool},
    TableCase, WorkingTree, is_denied, outside, profile_with,
};
use serde_json::json;

/// A script that makes files to rename or link to, and removes git's user name.
const PARTS: &str = "mkdir editor hooks && echo '{}' > editor/tasks.json && \
                     printf '#!/bin/sh\\n' > hooks/pre-commit && chmod +x hooks/pre-commit && \
                     git config --remove-section user && git init -q --bare .git/modules/lib && \
                     mkdir -p .git/modules/lib/hooks mirrors/project.git/hooks void";

/// Plants that git runs or obeys.
const GIT: [TableCase; 11] = [
    (
        &[Bash("printf '#!/bin/sh\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit")],
        "test -x .git/hooks/pre-commit",
    ),
    (&[Bash("cp hooks/pre-commit .git/hooks/post-checkout")], "test -x .git/hooks/post-checkout"),
    (&[Bash("git config core.fsmonitor ./editor/run")], "git config core.fsmonitor"),
    (&[Bash("git config core.hooksPath hooks")], "git config core.hooksPath"),
    (&[Bash("git config alias.st '!sh editor/run'")], "git config alias.st"),
    (&[Bash("git config gc.pruneExpire now")], "git config gc.pruneExpire"),
    (
        &[Bash("git config url.https://evil.example/.insteadOf https://good.example/")],
        "git config --get-regexp insteadof",
    ),
    (
        &[Tool(
            "apply_patch",
            r#"{"patch": "*** Begin Patch\n*** Update File: .git/config\n@@\n [core]\n+\tpager = sh editor/run\n*** End Patch\n"}"#,
        )],
        "grep -q pager .git/config",
    ),
    (&[Bash("mkdir other && echo ../other > .git/commondir")], "test -e .git/commondir"),
    (
        &[Bash("printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ./x\\n' > .gitmodules")],
        "test -e .gitmodules",
    ),
    (&[Bash("git init -q --bare editor/embedded")], "test -e editor/embedded/HEAD"),
];

/// Plants that editors, shells, agents, build tools and continuous integration run.
const OTHERS: [TableCase; 15] = [
    (
        &[Bash("mkdir -p .forgejo/workflows && echo 'on: push' > .forgejo/workflows/x.yml")],
        "test -e .forgejo/workflows/x.yml",
    ),
    (&[Bash("echo 'define hook-stop' > .gdbinit")], "test -e .gdbinit"),
    (
        &[Tool("write_file", r#"{"path": "bunfig.toml", "content": "preload = []\n"}"#)],
        "test -e bunfig.toml",
    ),
    (
        &[Tool("write_file", r#"{"path": ".vscode/tasks.json", "content": "{}"}"#)],
        "test -e .vscode/tasks.json",
    ),
    (&[Bash("ln -s editor .vscode")], "test -e .vscode/tasks.json"),
    (&[Tool("move_file", r#"{"from": "editor", "to": ".vscode"}"#)], "test -e .vscode/tasks.json"),
    (
        &[Tool("write_file", r#"{"path": ".github/workflows/x.yml", "content": "on: push\n"}"#)],
        "test -e .github/workflows/x.yml",
    ),
    (
        &[
            Bash(
                "mkdir -p node_modules/p/settings; ln -s settings node_modules/p/.cargo; \
                 printf '[build]\\nrustc-wrapper = \"x\"\\n' > node_modules/p/settings/config.toml",
            ),
            Tool("move_file", r#"{"from": "node_modules/p", "to": "tool"}"#),
        ],
        "test -e tool/.cargo/config.toml",
    ),
    (&[Bash("mv ci .github")], "test -e .github/workflows/check.yml"),
    (&[Bash("echo 'sh editor/run' > .envrc")], "test -e .envrc"),
    (&[Bash("python3 -c 'open(\".mcp.json\", \"w\").write(\"{}\")'")], "test -e .mcp.json"),
    (
        &[Bash("mkdir .claude && echo '{}' > .claude/settings.json")],
        "test -e .claude/settings.json",
    ),
    (
        &[Bash(
            "mkdir -p .cargo && printf '[build]\\nrustc-wrapper = \"x\"\\n' > .cargo/config.toml",
        )],
        "test -e .cargo/config.toml",
    ),
    (&[Bash("echo 'script-shell=./editor/run' > .npmrc")], "test -e .npmrc"),
    (
        &[
            Bash("cp editor/tasks.json plain.json"),
            Bash("mkdir .vscode && mv plain.json .vscode/tasks.json"),
        ],
        "test -e .vscode/tasks.json",
    ),
];

/// A git configuration that runs a program.
macro_rules! evil {
    () => {
        "printf '[core]\\n\\tfsmonitor = evil\\n' "
    };
}

/// A file `HEAD` that git takes for that of a repository.
macro_rules! head {
    () => {
        "echo 'ref: refs/heads/main' > "
    };
}

/// Plants in directories that become git's over several calls, or that are not called `.git`.
const GIT_DIRECTORIES: [TableCase; 17] = [
    (
        &[
            Bash("mkdir -p own/.git/refs"),
            Bash(concat!(
                "cd own && mkdir .git/objects; ",
                head!(),
                ".git/HEAD; ",
                evil!(),
                "> .git/config"
            )),
        ],
        "git -C own config core.fsmonitor",
    ),
    (
        &[
            Bash("mkdir -p own/.git/objects"),
            Bash(concat!(evil!(), "> own/.git/config")),
            Bash(concat!("mkdir own/.git/refs; ", head!(), "own/.git/HEAD")),
        ],
        "git -C own config core.fsmonitor",
    ),
    (
        &[
            Bash("git init -q own"),
            Bash("rm own/.git/HEAD"),
            Bash(concat!(evil!(), ">> own/.git/config")),
            Bash(concat!(head!(), "own/.git/HEAD")),
        ],
        "git -C own config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!("mkdir -p own/.git evil/objects evil/refs; ", head!(), "own/.git/HEAD")),
            Bash(concat!("echo ../../evil > own/.git/commondir; ", evil!(), "> evil/config")),
        ],
        "git -C own config core.fsmonitor",
    ),
    (
        &[Bash(concat!(evil!(), ">> .git/modules/lib/config"))],
        "git -C .git/modules/lib config core.fsmonitor",
    ),
    (
        &[Bash("cp hooks/pre-commit .git/modules/lib/hooks/post-checkout")],
        "test -x .git/modules/lib/hooks/post-checkout",
    ),
    (
        &[Bash(concat!(
            "mkdir -p .git/x/objects .git/x/refs; ",
            head!(),
            ".git/x/HEAD; ",
            evil!(),
            "> .git/x/config"
        ))],
        "git -C .git/x config core.fsmonitor",
    ),
    (
        &[Bash(concat!(evil!(), ">> mirrors/project.git/config"))],
        "git -C mirrors/project.git config core.fsmonitor",
    ),
    (
        &[Bash("cp hooks/pre-commit mirrors/project.git/hooks/post-update")],
        "test -x mirrors/project.git/hooks/post-update",
    ),
    (
        &[Tool(
            "write_file",
            r#"{"path": "mirrors/project.git/hooks/post-update", "content": "x"}"#,
        )],
        "test -e mirrors/project.git/hooks/post-update",
    ),
    (
        &[
            Bash(concat!("mkdir emb; ", head!(), "emb/HEAD")),
            Bash(concat!("mkdir emb/objects emb/refs; ", evil!(), "> emb/config")),
        ],
        "cd emb && git config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!("mkdir emb; ", evil!(), "> emb/config")),
            Bash("mkdir emb/objects emb/refs"),
            Bash(concat!(head!(), "emb/HEAD")),
        ],
        "cd emb && git config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!("mkdir -p emb/objects; ", head!(), "emb/HEAD; ", evil!(), "> emb/config")),
            Tool("make_dir", r#"{"path": "emb/refs"}"#),
        ],
        "cd emb && git config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!(
                "mkdir -p emb/objects emb/r; ",
                head!(),
                "emb/HEAD; ",
                evil!(),
                "> emb/config"
            )),
            Tool("move_file", r#"{"from": "emb/r", "to": "emb/refs"}"#),
        ],
        "cd emb && git config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!("mkdir -p emb made/objects made/refs; ", evil!(), "> made/config")),
            Tool("move_file", r#"{"from": "made", "to": "emb/.git"}"#),
        ],
        "test -e emb/.git/config",
    ),
    (
        &[
            Bash(concat!("mkdir emb; ", head!(), "emb/HEAD; ", evil!(), "> emb/config")),
            Bash("ln -s ../void emb/objects; ln -s ../void emb/refs"),
        ],
        "cd emb && git config core.fsmonitor",
    ),
    (
        &[
            Bash(concat!("mkdir -p emb evil/objects evil/refs; ", evil!(), "> evil/config")),
            Bash(concat!(head!(), "emb/HEAD; echo ../evil > emb/commondir")),
        ],
        "cd emb && git config core.fsmonitor",
    ),
];

const NONE: Disregarded = Disregarded { directories: &[], endings: &[] };

const TABLE: Table =
    Table { cases: &[&GIT, &GIT_DIRECTORIES, &OTHERS], more: PARTS, noise: NONE, ignored: NONE };

/// Commands that need no approval, and a condition that is true afterwards.
const HARMLESS: [(&str, &str); 12] = [
    (
        "mkdir -p config/objects src/refs && echo x > config/HEAD && echo x > src/hooks",
        "test -e config/HEAD",
    ),
    ("git push -q mirror main:pushed", "git -C mirrors/project.git rev-parse pushed"),
    (
        "git -C .git/modules/lib config user.name x",
        "test $(git -C .git/modules/lib config user.name) = x",
    ),
    ("git branch hooks/config && git branch hooks/hooks", "git rev-parse hooks/config"),
    ("git init -q fresh", "test -d fresh/.git/hooks && git -C fresh config core.bare"),
    (
        "git config user.name 'Eve Example' && git config user.email eve@example.org",
        "git config user.name | grep -qx 'Eve Example'",
    ),
    (
        "git remote add origin https://example.org/project.git",
        "git config remote.origin.url && git config remote.origin.fetch",
    ),
    ("git remote add other git@example.org:project.git", "git config remote.other.url"),
    (
        "git fetch -q mirror && git branch -q --track theirs mirror/theirs",
        "git config branch.theirs.merge",
    ),
    ("git push -q -u mirror main", "test $(git config branch.main.remote) = mirror"),
    (
        "mkdir -p examples/hooks && printf '#!/bin/sh\\n' > examples/hooks/pre-commit",
        "test -d examples",
    ),
    ("echo '{}' > tasks.json && echo 'on: push' > workflow.yml", "test -e workflow.yml"),
];

#[test]
fn with_no_approver_nothing_is_planted() {
    TABLE.nothing_counts_unasked("plants");
}

#[test]
fn with_an_approval_it_is_planted() {
    TABLE.everything_counts_approved("plants");
}

#[test]
fn what_git_writes_on_an_ordinary_day_is_not_asked_about() {
    let mut failures = Vec::new();
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        let repository = FixtureRepository::with(&desk.world, WorkingTree::Clean, PARTS);
        for (number, (line, check)) in HARMLESS.into_iter().enumerate() {
            let copy = repository.copy(&desk.world, &format!("copy-{number}"));
            desk.move_to(&copy);
            let result = desk.sandbox.bash(line);
            if result.success && result.checkpoint.is_none() {
                outside(&desk.world, &copy, check);
            } else {
                failures.push(format!("{mode:?}: {line}: {:?} {}", result.error, result.output));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_setting_that_the_session_made_may_go_again() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.attach();
        let workspace = desk.world.workspace();
        outside(&desk.world, &workspace, "git init -q . && git config core.pager cat");
        for (line, is_asked) in [
            ("git config user.name one", false),
            ("git config user.name two", false),
            ("git config --unset user.name", false),
            ("git config alias.st status", true),
            ("git config alias.st '!sh editor/run'", true),
            ("git config --unset alias.st", false),
            ("git config alias.st status", true),
            // The session did not make this one.
            ("git config --unset core.pager", true),
        ] {
            let (result, requests) = desk.bash(line, |_| Answer::approve());
            assert!(result.success, "{mode:?}: {line}: {:?}", result.error);
            assert_eq!(requests.len(), usize::from(is_asked), "{mode:?}: {line}");
        }
    }
}

/// A large directory of noise is not listed file by file, but each name in it counts.
#[test]
fn a_plant_in_a_large_renamed_directory_is_asked_about() {
    let make = "mkdir -p node_modules/plain node_modules/big/.vscode && cd node_modules && \
                (cd plain && touch $(seq 5000)) && (cd big && touch $(seq 5000)) && \
                echo '{}' > big/.vscode/tasks.json";
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        outside(&desk.world, &desk.world.workspace(), make);
        let rename = |name: &str| {
            let arguments = json!({"from": format!("node_modules/{name}"), "to": name});
            desk.sandbox.call("move_file", arguments)
        };
        let plain = rename("plain");
        assert!(plain.success, "{mode:?}: {:?}", plain.error);
        let big = rename("big");
        assert!(is_denied(&big), "{mode:?}: {:?}", big.error);
        assert!(!desk.path("big").exists());
    }
}
