//! Ways to lose something by other doors than a command: by undo, by an approval of a part, by
//! deleting for good, by two files that claim one copy.

use palisade_client::Answer;
use palisade_protocol::{ErrorCode, RawPath};
use palisade_tests::{Desk, Mode, is_denied, profile_with, unconfined};
use serde_json::json;
use std::fs;

/// A repository with one commit, and an untracked file that nothing else has.
fn desk(mode: Mode) -> Desk {
    let desk = Desk::new(mode, &profile_with(&[]));
    desk.file("tracked.txt", "tracked\n");
    let line = "git init -q && git add tracked.txt && \
                git -c user.name=x -c user.email=x@y commit -qm first";
    let done = unconfined(&desk.world, &desk.world.workspace(), &desk.world.state(), line);
    assert!(done.status.success(), "{done:?}");
    desk.file("victim.txt", "only here\n");
    desk
}

/// Commits the untracked file by plumbing, so that git's index does not know of it.
const COMMIT_BY_HAND: &str = "blob=$(git hash-object -w victim.txt) && \
    tree=$(printf '100644 blob %s\\tvictim.txt\\n' $blob | git mktree) && \
    commit=$(git -c user.name=x -c user.email=x@y commit-tree $tree -m kept) && \
    git update-ref refs/heads/keeper $commit";

#[test]
fn undo_of_a_commit_that_keeps_a_deleted_file_is_asked_about() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let made = desk.sandbox.call("bash", json!({"command": COMMIT_BY_HAND}));
        assert!(made.success, "{mode:?}: {:?}", made.error);
        // Git keeps it now, and the call changes something of git, so that git is asked.
        let gone = desk.sandbox.call("bash", json!({"command": "rm victim.txt && git tag gone"}));
        assert!(gone.success, "{mode:?}: {:?}", gone.error);
        assert_eq!(desk.text("victim.txt"), None);
        let call = made.undo.expect("an undo");
        let (code, message) = desk.sandbox.refused("undo", json!({"call_id": call}));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}: {message}");
        let line = "git cat-file -p refs/heads/keeper:victim.txt | grep -qx 'only here'";
        let workspace = desk.world.workspace();
        let kept = unconfined(&desk.world, &workspace, &desk.world.state(), line);
        assert!(kept.status.success(), "{mode:?}: {kept:?}");
    }
}

#[test]
fn undo_of_a_commit_that_keeps_nothing_is_not_asked_about() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let made = desk.sandbox.call("bash", json!({"command": COMMIT_BY_HAND}));
        let undone = desk.sandbox.call("undo", json!({"call_id": made.undo.expect("an undo")}));
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
    }
}

#[test]
fn a_repository_that_is_left_out_keeps_nothing() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.attach();
        let git = RawPath::from(desk.path(".git/config"));
        // The configuration is asked about; the file is not shown as a loss, since the commit has it.
        let line = format!("{COMMIT_BY_HAND} && rm victim.txt && git config core.pager less");
        let (result, asked) = desk.bash(&line, |_| Answer::approve_without([git.clone()]));
        assert_eq!(asked.len(), 1, "{mode:?}: {:?}", result.error);
        assert!(!result.success, "{mode:?}: the rest loses what was not shown");
        assert_eq!(desk.text("victim.txt").as_deref(), Some("only here\n"), "{mode:?}");
    }
}

#[test]
fn one_copy_keeps_one_file() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("twin.txt", "only here\n");
        let (code, message) = desk
            .sandbox
            .refused("bash", json!({"command": "mv victim.txt moved.txt; rm twin.txt"}));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}: {message}");
        assert!(desk.text("victim.txt").is_some() && desk.text("twin.txt").is_some());
        let moved = desk.sandbox.call("bash", json!({"command": "mv victim.txt moved.txt"}));
        assert!(moved.success, "{mode:?}: {:?}", moved.error);
    }
}

#[test]
fn deleting_for_good_is_always_asked_about() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let made = desk.sandbox.call("write_file", json!({"path": "own", "content": "own"}));
        assert!(made.success, "{:?}", made.error);
        let asked = json!({"path": "own", "permanent": true});
        let (code, message) = desk.sandbox.refused("delete_file", asked);
        assert_eq!(code, ErrorCode::Denied, "{mode:?}: {message}");
        assert!(desk.text("own").is_some());
        let gone = desk.sandbox.call("delete_file", json!({"path": "own"}));
        assert!(gone.success, "its own file, with undo: {mode:?}: {:?}", gone.error);
    }
}

#[test]
fn a_directory_that_nobody_can_read_any_more_is_asked_about() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let (code, message) =
            desk.sandbox.refused("bash", json!({"command": "mkdir x; chmod 000 .git"}));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}: {message}");
        assert!(desk.text("tracked.txt").is_some());
    }
}

/// Edits name what they replace and additions replace nothing, but the file has other names.
#[test]
fn a_file_tool_that_breaks_a_hard_link_is_asked_about() {
    let patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-one\n+two\n*** End Patch\n";
    let calls = [
        ("edit", json!({"path": "notes.txt", "old_string": "one", "new_string": "two"}), "two\n"),
        ("apply_patch", json!({"patch": patch}), "two\n"),
        (
            "write_file",
            json!({"path": "notes.txt", "content": "two\n", "mode": "append"}),
            "one\ntwo\n",
        ),
    ];
    for mode in Mode::all() {
        for (tool, arguments, expected) in &calls {
            let desk = Desk::new(mode, &profile_with(&[]));
            desk.file("notes.txt", "one\n");
            let (notes, other) = (desk.path("notes.txt"), desk.path("other.txt"));
            fs::hard_link(notes, other).unwrap();
            let denied = desk.sandbox.call(tool, arguments.clone());
            assert!(is_denied(&denied), "{mode:?}: {tool}: {:?}", denied.error);
            let why = format!("{:?}", denied.error);
            assert!(why.contains("other names (hard links)"), "{mode:?}: {tool}: {why}");
            assert_eq!(desk.text("notes.txt").as_deref(), Some("one\n"));
            desk.attach();
            let (approved, asked) = desk.call(tool, arguments, |_| Some(Answer::approve()));
            let error = &approved.error;
            assert_eq!((approved.success, asked.len()), (true, 1), "{mode:?}: {tool}: {error:?}");
            assert_eq!(desk.text("notes.txt").as_deref(), Some(*expected), "{mode:?}: {tool}");
            assert_eq!(desk.text("other.txt").as_deref(), Some("one\n"), "{mode:?}: {tool}");
        }
    }
}

/// A program that adds to a file writes the same file, so that all names have the addition.
#[test]
fn an_addition_by_a_program_keeps_hard_links() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("notes.txt", "one\n");
        fs::hard_link(desk.path("notes.txt"), desk.path("other.txt")).unwrap();
        let added = desk.sandbox.bash("echo two >> notes.txt");
        assert!(added.success, "{mode:?}: {:?}", added.error);
        assert_eq!(desk.text("other.txt").as_deref(), Some("one\ntwo\n"), "{mode:?}");
    }
}
