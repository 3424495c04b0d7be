//! Compares two states of a repository: what everyday commands lose, and what they do not.

use crate::git::Git;
use palisade_repository::{
    Bounds, Comparison, LossReason, LostStagedBlob, ObjectChanges, Repository, compare, lost_staged,
};
use std::fs;

/// Makes a repository with two branches with their own commits, a tag, a stash and a reflog.
fn project() -> Git {
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

fn changed(git: &Git, act: impl FnOnce(&Git)) -> Comparison {
    let (_copy, before) = git.snapshot();
    act(git);
    compare(&before, &git.open(), ObjectChanges::Possible).unwrap()
}

/// Compares like [`changed`], but is told which files below `objects` are new.
fn added(git: &Git, paths: &[&str], act: impl FnOnce(&Git)) -> Comparison {
    let (_copy, before) = git.snapshot();
    act(git);
    let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let found = compare(&before, &git.open(), ObjectChanges::Added(&paths)).unwrap();
    let (missing, packs) = (&found.missing_objects, &found.missing_packs);
    let all = compare(&before, &git.open(), ObjectChanges::Possible).unwrap();
    assert_eq!((missing, packs), (&all.missing_objects, &all.missing_packs));
    found
}

/// Writes a pack that has `EVIL` for the object with this id.
fn forge_pack(git: &Git, id: &str) {
    let script = r"import hashlib, struct, sys, zlib
victim = bytes.fromhex(sys.argv[1])
blob = bytes([0x34]) + zlib.compress(b'EVIL')
pack = b'PACK' + struct.pack('>II', 2, 1) + blob
pack += hashlib.sha1(pack).digest()
counts = b''.join(struct.pack('>I', int(first >= victim[0])) for first in range(256))
index = b'\xfftOc' + struct.pack('>I', 2) + counts + victim
index += struct.pack('>II', zlib.crc32(blob), 12) + pack[-20:]
index += hashlib.sha1(index).digest()
open('.git/objects/pack/pack-forged.pack', 'wb').write(pack)
open('.git/objects/pack/pack-forged.idx', 'wb').write(index)";
    git.write("forge.py", script.as_bytes());
    git.shell(&format!("python3 forge.py {id}; rm forge.py"));
}

fn run(git: &Git, arguments: &[&str]) -> Comparison {
    changed(git, |git| drop(git.run(arguments)))
}

fn name(name: &str) -> Vec<u8> {
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
fn deleted_and_damaged_objects_are_missing() {
    let git = project();
    let blob = git.line(&["rev-parse", "HEAD:dir/b"]);
    let path = git.loose(&blob);
    let ids = |found: Comparison| -> Vec<_> {
        found.missing_objects.iter().map(ToString::to_string).collect()
    };
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        ids(changed(&git, |_| fs::remove_file(&path).unwrap())),
        std::slice::from_ref(&blob)
    );
    fs::write(&path, &bytes).unwrap();
    assert_eq!(
        ids(changed(&git, |_| fs::write(&path, b"nonsense").unwrap())),
        std::slice::from_ref(&blob)
    );
    // It was already damaged, so nothing more is lost.
    assert_eq!(ids(changed(&git, |_| fs::remove_file(&path).unwrap())), Vec::<String>::new());
    fs::write(&path, &bytes).unwrap();
    git.run(&["gc", "-q"]);
    let count = git.text(&["cat-file", "--batch-all-objects", "--batch-check"]).lines().count();
    let pack = git.pack("pack");
    let found = changed(&git, |_| fs::remove_file(&pack).unwrap());
    assert_eq!(found.missing_objects.len(), count);
    assert!(!found.lost_tips.is_empty() || !found.missing_objects.is_empty());
}

#[test]
fn new_files_that_stand_in_for_known_objects_are_found() {
    let forged = ["pack/pack-forged.idx", "pack/pack-forged.pack"];
    for is_packed in [false, true] {
        let git = project();
        if is_packed {
            git.run(&["gc", "-q"]);
        }
        let blob = git.line(&["rev-parse", "HEAD:a"]);
        let is_lost = |found: Comparison| {
            found.missing_objects.iter().map(ToString::to_string).eq([blob.clone()])
        };
        // Git reads the new pack, whatever its name.
        assert!(is_lost(added(&git, &forged, |git| forge_pack(git, &blob))));
        assert!(is_packed || git.text(&["cat-file", "blob", "HEAD:a"]) == "EVIL");
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        let promised = |git: &Git| {
            forge_pack(git, &blob);
            git.shell("touch .git/objects/pack/pack-forged.promisor");
        };
        assert!(is_lost(added(&git, &forged, promised)));
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        // An object that was not there may have any bytes.
        assert!(added(&git, &forged, |git| forge_pack(git, &"12".repeat(20))).is_lossless());
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        let linked = |git: &Git| {
            forge_pack(git, &blob);
            git.shell(
                "cd .git/objects/pack; mv pack-forged.pack pack-forged.idx ../../..; \
                 ln -s ../../../pack-forged.pack ../../../pack-forged.idx .",
            );
        };
        assert!(!added(&git, &forged, linked).is_lossless());
    }
    let git = project();
    git.run(&["gc", "-q"]);
    let blob = git.line(&["rev-parse", "HEAD:a"]);
    let loose = format!("{}/{}", &blob[..2], &blob[2..]);
    let found = added(&git, &[&loose], |git| {
        fs::create_dir_all(git.loose(&blob).parent().unwrap()).unwrap();
        git.shell(&format!("echo nonsense > .git/objects/{loose}"));
    });
    assert_eq!(found.missing_objects.len(), 1, "{found:?}");
}

#[test]
fn new_files_of_everyday_commands_are_no_losses() {
    let git = project();
    git.run(&["repack", "-q", "-a"]);
    let (_copy, before) = git.snapshot();
    git.run(&["repack", "-q", "-a", "-f", "--depth=1"]);
    git.write("a", b"three\n");
    git.commit("third");
    git.run(&["repack", "-q"]);
    let found = compare(&before, &git.open(), ObjectChanges::Added(&[])).unwrap();
    assert!(found.is_lossless(), "{found:?}");
}

#[test]
fn index_of_a_pack_that_lists_what_is_not_there_does_not_hide_a_loss() {
    let git = project();
    git.run(&["gc", "-q"]);
    let (pack, index) = (git.pack("pack"), git.pack("idx"));
    let found = changed(&git, |_| {
        // The same index, and a pack with the same header and trailer but nothing in between.
        let mut bytes = fs::read(&pack).unwrap();
        let end = bytes.len() - 20;
        bytes[12..end].fill(0);
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, &bytes).unwrap();
        assert!(fs::metadata(&index).is_ok());
    });
    assert!(found.missing_objects.len() > 5, "{found:?}");
}

#[test]
fn files_that_lead_git_elsewhere_are_reported() {
    for path in ["objects/info/alternates", "info/grafts", "shallow", "worktrees/x/gitdir"] {
        let git = project();
        let path_of = git.git_dir().join(path);
        fs::create_dir_all(path_of.parent().unwrap()).unwrap();
        let content = format!("{}\n", "1".repeat(40));
        let found = changed(&git, |_| fs::write(&path_of, &content).unwrap());
        assert_eq!(found.changed_links, [name(path)]);
        assert!(changed(&git, |_| {}).changed_links.is_empty());
        let found = changed(&git, |_| fs::remove_file(&path_of).unwrap());
        assert_eq!(found.changed_links, [name(path)]);
    }
}

#[test]
fn commit_graph_that_lies_is_reported() {
    let git = project();
    git.run(&["merge", "-q", "-s", "ours", "-m", "two parents", "feature"]);
    for branch in ["x", "y", "z"] {
        git.run(&["checkout", "-q", "-b", branch, "main"]);
        git.commit(branch);
    }
    git.run(&["checkout", "-q", "main"]);
    git.run(&["merge", "-q", "-m", "three parents", "x", "y", "z"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let found = run(&git, &["commit-graph", "write", "--reachable"]);
    assert!(found.is_lossless(), "control: {found:?}");
    let path = git.git_dir().join("objects/info/commit-graph");
    let bytes = fs::read(&path).unwrap();
    let data = {
        let at = bytes.windows(4).position(|four| four == b"CDAT").unwrap();
        let offset = u64::from_be_bytes(bytes[at + 4..at + 12].try_into().unwrap());
        usize::try_from(offset).unwrap()
    };
    let commits = git.text(&["rev-list", "--all"]).lines().count();
    let mut lies = 0;
    for commit in 0..commits {
        for parent in 0..2 {
            // The forged graph says that the commit has no such parent.
            let at = data + commit * 36 + 20 + parent * 4;
            let mut forged = bytes.clone();
            forged[at..at + 4].copy_from_slice(&0x7000_0000u32.to_be_bytes());
            fs::remove_file(&path).unwrap();
            fs::write(&path, &bytes).unwrap();
            let found = changed(&git, |_| fs::write(&path, &forged).unwrap());
            let is_lie = forged != bytes;
            assert_eq!(found.is_lossless(), !is_lie, "{found:?}");
            lies += usize::from(is_lie);
            if is_lie {
                assert_eq!(found.changed_links, [name("objects/info/commit-graph")]);
            }
        }
    }
    assert!(lies > 5, "control: {lies}");
    // Truncated or damaged anywhere, it never panics.
    fs::remove_file(&path).unwrap();
    let (_copy, before) = git.snapshot();
    for at in (0..bytes.len()).step_by(5) {
        fs::write(&path, &bytes[..at]).unwrap();
        let found = compare(&before, &git.open(), ObjectChanges::Possible).unwrap();
        assert!(!found.is_lossless() || at + 20 >= bytes.len(), "{at} of {}", bytes.len());
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        fs::write(&path, &damaged).unwrap();
        drop(compare(&before, &git.open(), ObjectChanges::Possible).unwrap());
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    let found = run(&git, &["commit-graph", "write", "--reachable", "--split=replace"]);
    // The chain, and the graph that it names.
    assert_eq!(found.changed_links.len(), 2, "{found:?}");
    assert_eq!(found.changed_links[0], name("objects/info/commit-graphs/commit-graph-chain"));
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

#[test]
fn files_of_a_split_commit_graph_are_compared() {
    let git = project();
    git.run(&["commit-graph", "write", "--reachable", "--split"]);
    let directory = git.git_dir().join("objects/info/commit-graphs");
    let graph = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let graph = graph.into_iter().find(|path| path.extension().is_some_and(|e| e == "graph"));
    let graph = graph.unwrap();
    let bytes = fs::read(&graph).unwrap();
    let found = changed(&git, |git| drop(git.commit("third")));
    assert!(found.is_lossless(), "control: {found:?}");
    let rewrite = |bytes: &[u8]| {
        fs::remove_file(&graph).unwrap();
        fs::write(&graph, bytes).unwrap();
    };
    assert!(changed(&git, |_| rewrite(&bytes)).is_lossless(), "the same bytes");
    let mut forged = bytes.clone();
    let end = forged.len() - 30;
    forged[end] ^= 1;
    let graph_name = graph.file_name().unwrap().to_str().unwrap();
    let path = name(&format!("objects/info/commit-graphs/{graph_name}"));
    assert_eq!(changed(&git, |_| rewrite(&forged)).changed_links, std::slice::from_ref(&path));
    // One that a chain names and that was not there.
    fs::remove_file(&graph).unwrap();
    assert_eq!(changed(&git, |_| fs::write(&graph, &bytes).unwrap()).changed_links, [path]);
    let moved = git.git_dir().join("elsewhere");
    let found = changed(&git, |_| {
        fs::rename(&directory, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &directory).unwrap();
    });
    assert!(found.changed_links.contains(&name("objects/info/commit-graphs")), "{found:?}");
}

#[test]
fn incremental_multi_pack_index_is_reported() {
    let git = project();
    git.run(&["repack", "-q", "-a", "-d"]);
    // Only newer versions of git write such a directory; they read what is in it.
    let directory = "objects/pack/multi-pack-index.d/";
    fs::create_dir(git.git_dir().join(directory)).unwrap();
    let found = changed(&git, |git| drop(git.commit("third")));
    assert!(found.is_lossless(), "control: {found:?}");
    for file in ["multi-pack-index-chain", "multi-pack-index-1.midx", "multi-pack-index-1.bitmap"] {
        let path = format!("{directory}{file}");
        let found = changed(&git, |git| {
            fs::write(git.git_dir().join(&path), b"forged").unwrap();
        });
        assert_eq!(found.changed_links, [name(&path)]);
    }
}
