//! Compares two states of a repository: what everyday commands lose, and what they do not.

use crate::git::Git;
use palisade_repository::{
    Bounds, Comparison, LossReason, LostStagedBlob, ObjectChanges, Repository, compare, lost_staged,
};
use std::fs;

/// Makes a repository with two branches with their own commits, a tag, a stash and a reflog.
pub(crate) fn project() -> Git {
    let git = Git::new();
    git.write("a", b"one\n");
    git.write("dir/b", b"b\n");
    git.commit("first");
    git.run(&["checkout", "-q", "-b", "feature"]);
    git.write("a", b"feature\n");
    git.commit("feature");
    git.run(&["checkout", "-q", "main"]);
    git.write("a", b"two\n");
    git.commit("second");
    git
}

pub(crate) fn changed(git: &Git, act: impl FnOnce(&Git)) -> Comparison {
    let (_copy, before) = git.snapshot();
    act(git);
    compare(&before, &git.open(), ObjectChanges::Possible).unwrap()
}

pub(crate) fn run(git: &Git, arguments: &[&str]) -> Comparison {
    changed(git, |git| drop(git.run(arguments)))
}

pub(crate) fn name(name: &str) -> Vec<u8> {
    name.as_bytes().to_vec()
}

#[test]
fn everyday_commands_lose_nothing() {
    let git = project();
    assert!(changed(&git, |_| {}).is_lossless(), "nothing happened");
    for line in [
        &["checkout", "-q", "feature"][..],
        &["checkout", "-q", "main"],
        &["commit", "-q", "--allow-empty", "-m", "empty"],
        &["commit", "-q", "--amend", "--allow-empty", "-m", "amended"],
        &["branch", "other"],
        &["tag", "-a", "-m", "tag", "v1"],
        &["merge", "-q", "-s", "ours", "-m", "merge", "feature"],
        &["reset", "-q", "--hard", "HEAD~"],
        &["rebase", "-q", "--root"],
        &["pack-refs", "--all"],
        &["gc", "-q"],
        &["worktree", "list"],
        &["config", "user.name", "Somebody"],
    ] {
        let found = run(&git, line);
        assert!(found.is_lossless(), "{line:?}: {found:?}");
    }
    git.write("a", b"stash me\n");
    assert!(run(&git, &["stash", "-q"]).is_lossless());
}

#[test]
fn merged_branch_goes_without_loss_and_unmerged_with_one() {
    let git = project();
    git.run(&["branch", "merged", "HEAD~"]);
    let found = run(&git, &["branch", "-q", "-d", "merged"]);
    assert_eq!(found.lost_tips, []);
    assert_eq!(found.deleted_logs, [name("refs/heads/merged")]);
    assert!(found.is_lossless(), "{found:?}");
    let found = run(&git, &["branch", "-m", "feature", "renamed"]);
    assert_eq!(found.deleted_logs, [name("refs/heads/feature")]);
    assert!(found.is_lossless(), "{found:?}");
    git.run(&["branch", "-m", "renamed", "feature"]);
    let found = changed(&git, |git| fs::remove_dir_all(git.git_dir().join("logs")).unwrap());
    assert!(found.shrunk_logs.contains(&name("refs/heads/main")), "{found:?}");
    assert!(found.shrunk_logs.contains(&name("HEAD")) && !found.is_lossless());
    git.run(&["commit", "-q", "--allow-empty", "-m", "the log begins again"]);
    git.run(&["checkout", "-q", "feature"]);
    git.run(&["checkout", "-q", "main"]);

    // The reflog of HEAD still leads to it.
    let feature = git.line(&["rev-parse", "feature"]);
    let found = run(&git, &["branch", "-q", "-D", "feature"]);
    assert_eq!(found.lost_tips, []);
    git.run(&["branch", "feature", &feature]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let found = run(&git, &["branch", "-q", "-D", "feature"]);
    let [lost] = found.lost_tips.as_slice() else { panic!("{found:?}") };
    assert_eq!(lost.reference, b"refs/heads/feature");
    assert_eq!(lost.object.to_string(), feature);
    assert_eq!(lost.reason, LossReason::Unreachable);
}

#[test]
fn removed_worktree_loses_its_detached_commits() {
    let git = project();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("linked");
    let linked = path.to_str().unwrap();
    git.run(&["worktree", "add", "-q", "--detach", linked]);
    let remove = ["worktree", "remove", "--force", linked];
    let found = run(&git, &remove);
    assert_eq!(found.lost_tips, [], "it had no commit of its own");
    git.run(&["worktree", "add", "-q", "--detach", linked]);
    fs::write(path.join("a"), b"detached\n").unwrap();
    let found = changed(&git, |git| drop(git.run_in(&path, &["commit", "-qam", "detached"])));
    assert!(found.is_lossless(), "{found:?}");
    let found = run(&git, &remove);
    let [lost] = found.lost_tips.as_slice() else { panic!("{found:?}") };
    assert_eq!(lost.reference, b"worktrees/linked/HEAD");
}

#[test]
fn tips_of_before_are_enough_to_find_lost_commits() {
    let git = project();
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let earlier = git.open().tips().unwrap();
    let feature = git.line(&["rev-parse", "feature"]);
    git.run(&["branch", "-q", "-D", "feature"]);
    let after = git.open();
    let lost = after.lost_since(&earlier, &after.tips().unwrap()).unwrap();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].object.to_string(), feature);
    // A tag that leads to it saves it.
    git.run(&["tag", "saved", &feature]);
    let after = git.open();
    assert_eq!(after.lost_since(&earlier, &after.tips().unwrap()).unwrap(), []);
}

#[test]
fn dropped_stash_is_a_loss_of_its_commits() {
    let git = project();
    git.write("a", b"first stash\n");
    git.run(&["stash", "-q"]);
    git.write("a", b"second stash\n");
    git.run(&["stash", "-q"]);
    let dropped = git.line(&["rev-parse", "stash@{1}"]);
    let found = run(&git, &["stash", "drop", "-q", "stash@{1}"]);
    let lost: Vec<_> = found.lost_tips.iter().map(|lost| lost.object.to_string()).collect();
    assert_eq!(lost, [dropped]);
    assert_eq!(found.shrunk_logs, [name("refs/stash")]);
    let last = git.line(&["rev-parse", "stash"]);
    let found = run(&git, &["stash", "clear"]);
    assert!(found.lost_tips.iter().any(|lost| lost.object == last), "{found:?}");
}

#[test]
fn expired_log_and_pruned_objects_are_losses() {
    let git = project();
    let old = git.line(&["rev-parse", "HEAD"]);
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    let found = run(&git, &["reflog", "expire", "--expire=all", "--all"]);
    assert!(found.lost_tips.iter().any(|lost| lost.object == old), "{found:?}");
    assert!(found.shrunk_logs.contains(&name("HEAD")));
    assert!(found.missing_objects.is_empty(), "{found:?}");
    let found = run(&git, &["gc", "-q", "--prune=now"]);
    assert!(found.missing_objects.iter().any(|id| *id == old), "{found:?}");
    // These are the commit, its tree and its blob.
    assert_eq!(found.missing_objects.len(), 3);
    assert_eq!(found.lost_tips, [], "it was not reachable before either");
}

#[test]
fn damaged_reference_is_reported_with_its_commit() {
    let git = project();
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let feature = git.line(&["rev-parse", "feature"]);
    let found = changed(&git, |git| {
        fs::write(git.git_dir().join("refs/heads/feature"), b"nonsense").unwrap();
    });
    assert_eq!(found.damaged_references, [name("refs/heads/feature")]);
    let lost: Vec<_> = found.lost_tips.iter().map(|lost| lost.object.to_string()).collect();
    assert_eq!(lost, [feature]);
}

#[test]
fn branch_whose_objects_are_elsewhere_is_still_lost() {
    // The objects are in a promisor pack, or behind alternates. They are not read, but not ignored
    // either.
    for borrowed in [false, true] {
        let git = project();
        git.run(&["gc", "-q"]);
        git.run(&["reflog", "expire", "--expire=all", "--all"]);
        if borrowed {
            let other = git.tree().join("elsewhere");
            fs::rename(git.git_dir().join("objects"), &other).unwrap();
            fs::create_dir_all(git.git_dir().join("objects/info")).unwrap();
            let line = format!("{}\n", other.display());
            fs::write(git.git_dir().join("objects/info/alternates"), line).unwrap();
        } else {
            fs::write(git.pack("pack").replace(".pack", ".promisor"), b"").unwrap();
        }
        let found = run(&git, &["commit", "-q", "--allow-empty", "-m", "more"]);
        assert_eq!(found.lost_tips, [], "a commit on top loses nothing");
        let found = run(&git, &["branch", "-q", "-D", "feature"]);
        let [lost] = found.lost_tips.as_slice() else { panic!("{found:?}") };
        assert_eq!(lost.reference, b"refs/heads/feature");
    }
}

#[test]
fn search_beyond_the_bounds_is_a_loss() {
    let git = project();
    for n in 0..20 {
        git.write("a", format!("{n}\n").as_bytes());
        git.commit("more");
    }
    git.run(&["branch", "old", "HEAD~19"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let (_copy, before) = git.snapshot();
    git.run(&["branch", "-q", "-D", "old"]);
    assert_eq!(
        compare(&before, &git.open(), ObjectChanges::Possible).unwrap().lost_tips,
        [],
        "control"
    );
    let bounds = Bounds { commits: 5, ..Bounds::default() };
    let after = Repository::open(&git.git_dir(), bounds).unwrap();
    let found = compare(&before, &after, ObjectChanges::Possible).unwrap();
    let [lost] = found.lost_tips.as_slice() else { panic!("{found:?}") };
    assert_eq!(lost.reason, LossReason::BeyondBound);
}

#[test]
fn forged_log_entry_does_not_excuse_a_moved_reference() {
    let git = project();
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let (feature, main) = (git.line(&["rev-parse", "feature"]), git.line(&["rev-parse", "main"]));
    let (_copy, before) = git.snapshot();
    let (head, log) = (git.git_dir().join("refs/heads/feature"), git.git_dir().join("logs/HEAD"));
    fs::write(head, format!("{main}\n")).unwrap();
    let line = format!("{feature} {main} A <a@b> 5 +0000\tlong ago\n");
    fs::write(log, line).unwrap();
    let at = |oldest| {
        let bounds = Bounds { oldest_log_entry: oldest, ..Bounds::default() };
        compare(
            &before,
            &Repository::open(&git.git_dir(), bounds).unwrap(),
            ObjectChanges::Possible,
        )
        .unwrap()
        .lost_tips
    };
    assert_eq!(at(None), [], "control");
    assert_eq!(at(Some(6)).len(), 1);
}

#[test]
fn staged_blob_that_is_nowhere_else_is_a_loss() {
    let git = project();
    git.write("a", b"staged\n");
    git.run(&["add", "a"]);
    let object = git.line(&["rev-parse", ":a"]);
    git.write("a", b"unstaged\n");
    let (_copy, before) = git.snapshot();
    let in_tree = |git: &Git| {
        let tree = git.tree();
        move |path: &[u8], _: palisade_repository::FileType, bytes: &[u8]| {
            let path = tree.join(String::from_utf8(path.to_vec()).unwrap());
            fs::read(path).is_ok_and(|content| content == bytes)
        }
    };
    assert_eq!(lost_staged(&before, &git.open(), in_tree(&git)).unwrap(), [], "still staged");
    git.run(&["reset", "-q", "--hard"]);
    let lost = lost_staged(&before, &git.open(), in_tree(&git)).unwrap();
    let [LostStagedBlob { path, object: found }] = lost.as_slice() else { panic!("{lost:?}") };
    assert_eq!((path.as_slice(), found.to_string()), (b"a".as_slice(), object));
    // A blob that is in the working tree or in a commit is not lost.
    git.write("a", b"staged\n");
    assert_eq!(lost_staged(&before, &git.open(), in_tree(&git)).unwrap(), []);
    git.commit("commit it");
    git.run(&["checkout", "-q", "HEAD~"]);
    assert_eq!(lost_staged(&before, &git.open(), in_tree(&git)).unwrap(), []);
}

#[test]
fn checkout_loses_no_staged_blob() {
    let git = project();
    let (_copy, before) = git.snapshot();
    git.run(&["checkout", "-q", "feature"]);
    assert_eq!(lost_staged(&before, &git.open(), |_, _, _| false).unwrap(), []);
    git.run(&["rm", "-q", "dir/b"]);
    assert_eq!(lost_staged(&before, &git.open(), |_, _, _| false).unwrap(), []);
}

#[test]
fn a_branch_that_only_a_log_leads_to_is_reported_when_it_is_deleted() {
    let git = project();
    let merged = changed(&git, |git| {
        git.run(&["branch", "copy"]);
    });
    assert!(merged.is_lossless());
    let found = run(&git, &["branch", "-D", "copy"]);
    assert!(found.is_lossless(), "another branch has its commit: {found:?}");
    let found = run(&git, &["branch", "-m", "feature", "renamed"]);
    assert!(found.is_lossless(), "it has another name: {found:?}");
    let found = run(&git, &["branch", "-D", "renamed"]);
    let names: Vec<_> = found.deleted_branches.iter().map(|tip| tip.reference.clone()).collect();
    assert_eq!(names, [name("refs/heads/renamed")], "{found:?}");
}

#[test]
fn a_stash_is_elsewhere_once_it_is_applied() {
    let git = project();
    git.write("a", b"worked on\n");
    git.write("untracked", b"new\n");
    git.run(&["stash", "-q", "--include-untracked"]);
    let stash = git.line(&["rev-parse", "refs/stash"]);
    let stash = palisade_repository::ObjectId::from_hex(stash.as_bytes()).unwrap();
    let has = |git: &Git| {
        let repository = git.open();
        let in_tree = |path: &[u8], _, bytes: &[u8]| {
            let path = std::str::from_utf8(path).unwrap();
            fs::read(git.tree().join(path)).is_ok_and(|there| there == bytes)
        };
        repository.has_contents_of_stash(&stash, &repository.tips().unwrap(), in_tree).unwrap()
    };
    git.run(&["stash", "drop", "-q"]);
    assert!(!has(&git), "its files are nowhere");
    git.run(&["stash", "store", "-q", &stash.to_string()]);
    git.run(&["stash", "pop", "-q"]);
    assert!(has(&git), "its files are in the working tree");
    git.write("a", b"something else\n");
    assert!(!has(&git), "one of them is not");
}

#[test]
fn a_deleted_branch_is_not_excused_by_what_gits_maintenance_ignores() {
    for path in [
        "MERGE_AUTOSTASH",
        "rebase-merge/autostash",
        "rebase-apply/autostash",
        "worktrees/fake/HEAD",
        "refs/bisect/bad",
        "refs/worktree/x",
        "refs/rewritten/x",
    ] {
        for is_earlier in [false, true] {
            let git = project();
            let feature = git.line(&["rev-parse", "feature"]);
            git.run(&["reflog", "expire", "--expire=all", "--all"]);
            let place = git.git_dir().join(path);
            let write = || {
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(&place, format!("{feature}\n")).unwrap();
            };
            if is_earlier {
                write();
            }
            let found = changed(&git, |git| {
                write();
                git.run(&["branch", "-q", "-D", "feature"]);
            });
            let [lost] = found.lost_tips.as_slice() else { panic!("{path}: {found:?}") };
            assert_eq!(lost.object.to_string(), feature, "{path}");
            let [deleted] = found.deleted_branches.as_slice() else { panic!("{path}: {found:?}") };
            assert_eq!(deleted, lost, "{path}");
        }
    }
}

#[test]
fn a_linked_worktree_has_what_its_head_leads_to() {
    let git = project();
    let place = tempfile::tempdir().unwrap();
    let linked = place.path().join("linked");
    git.run(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap(), "feature"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let delete = ["branch", "-q", "-D", "feature"];
    assert!(run(&git, &delete).is_lossless(), "the worktree has it");
    git.run(&["branch", "feature", "worktrees/linked/HEAD"]);
    for file in ["gitdir", "commondir", "index"] {
        let path = git.git_dir().join("worktrees/linked").join(file);
        let bytes = fs::read(&path).unwrap();
        let found = changed(&git, |git| {
            git.run(&delete);
            fs::remove_file(&path).unwrap();
        });
        assert_eq!(found.lost_tips.len(), 1, "{file}: {found:?}");
        fs::write(&path, bytes).unwrap();
        git.run(&["branch", "feature", "worktrees/linked/HEAD"]);
    }
}
