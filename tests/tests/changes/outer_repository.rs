//! A workspace that is a directory in the working tree of a repository: what git tracks there is
//! no noise, although the repository itself is outside of the session.

use palisade_tests::{Desk, Mode, is_denied, outside, profile_with};
use serde_json::json;
use std::path::PathBuf;

/// A script that makes a repository with a package in it. The package tracks a directory of noise,
/// which has changes, and has other noise.
const REPOSITORY: &str = "git init -q -b main . && git config user.name x && git config user.email \
    x@example.org && mkdir -p packages/app/target packages/app/node_modules && \
    echo committed > packages/app/target/mod.rs && git add -f packages && git commit -qm first && \
    chmod 600 .git/index && echo uncommitted >> packages/app/target/mod.rs && \
    echo noise > packages/app/node_modules/x.js";

/// The lines that would lose what the repository tracks.
const LOSING: [&[&str]; 4] = [
    &["rm -rf target"],
    &["echo x > target/mod.rs"],
    &["mv target node_modules/"],
    &["git init -q .", "rm -rf target"],
];

/// Makes the repository with a setup of its own, and opens a session in its package.
fn enter(desk: &mut Desk, name: &str, more: &str, package: &str) -> PathBuf {
    let top = desk.world.outside().join(name);
    outside(&desk.world, &desk.world.outside(), &format!("mkdir {name}"));
    outside(&desk.world, &top, &format!("{REPOSITORY} && {more}"));
    let package = top.join(package);
    desk.move_to(&package);
    package
}

#[test]
fn with_no_approver_nothing_that_the_repository_tracks_is_lost() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        for (at, lines) in LOSING.iter().enumerate() {
            let package = enter(&mut desk, &format!("losing-{at}"), "true", "packages/app");
            let results: Vec<_> = lines.iter().map(|line| desk.sandbox.bash(line)).collect();
            assert!(results.last().is_some_and(is_denied), "{mode:?}: {lines:?}: {results:?}");
            let kept = outside(&desk.world, &package, "cat target/mod.rs");
            assert_eq!(kept, "committed\nuncommitted\n", "{mode:?}: {lines:?}");
        }
        let package = enter(&mut desk, "tool", "true", "packages/app");
        let deleted = desk.sandbox.call("delete_file", json!({"path": "target/mod.rs"}));
        assert!(is_denied(&deleted), "{mode:?}: {deleted:?}");
        assert!(package.join("target/mod.rs").exists());
        // The control: noise that is not tracked.
        let cleaned = desk.sandbox.bash("rm -rf node_modules");
        assert!(cleaned.success, "{mode:?}: {:?}", cleaned.error);
        assert!(!package.join("node_modules").exists());
    }
}

#[test]
fn the_index_of_a_worktree_counts_and_one_that_can_not_be_read_lists_everything() {
    let tree = "git stash -q && git worktree add -q tree && mkdir tree/packages/app/node_modules && \
                echo noise > tree/packages/app/node_modules/x.js";
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        let package = enter(&mut desk, "linked", tree, "tree/packages/app");
        assert!(is_denied(&desk.sandbox.bash("echo x > target/mod.rs")), "{mode:?}");
        assert!(desk.sandbox.bash("rm -rf node_modules").success, "{mode:?}");
        assert!(package.join("target/mod.rs").exists() && !package.join("node_modules").exists());
        for (name, spoil) in [
            ("broken", "echo broken > .git/index"),
            ("split", "git update-index --split-index"),
            ("no-file", "rm .git/index && mkdir .git/index"),
        ] {
            let package = enter(&mut desk, name, spoil, "packages/app");
            let result = desk.sandbox.bash("rm -rf node_modules");
            assert!(is_denied(&result), "{mode:?}: {name}: {result:?}");
            assert!(package.join("node_modules/x.js").exists());
        }
    }
}

#[test]
fn programs_see_nothing_of_the_repository() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        enter(&mut desk, "closed", "true", "packages/app");
        for route in [None, Some("transaction")] {
            let line = "for f in /.palisade-outer-index /.palisade-outer-prefix ../../.git/index; do \
                        cat \"$f\" && exit 3; done; ls -d /.palisade-outer-index";
            let result = desk.sandbox.call("bash", json!({"command": line, "route": route}));
            // It is there, so the failures above are refusals.
            assert!(result.success, "{mode:?}: {route:?}: {:?} {}", result.error, result.output);
            assert!(result.output.contains("Permission denied"), "{}", result.output);
            assert!(!result.output.contains("DIRC"), "{}", result.output);
        }
        let read = desk.sandbox.call("read_file", json!({"path": "/.palisade-outer-index"}));
        assert!(!read.success, "{mode:?}: {}", read.output);
    }
}

#[test]
fn what_was_tracked_when_the_session_began_stays_tracked() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        let package = enter(&mut desk, "later", "true", "packages/app");
        // Git replaces the file of its index.
        outside(&desk.world, &package, "git -C ../.. rm -rq --cached packages/app/target");
        assert!(is_denied(&desk.sandbox.bash("rm -rf target")), "{mode:?}");
        assert!(package.join("target/mod.rs").exists());
    }
}
