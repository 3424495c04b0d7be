//! Tests what git keeps, with ordinary repositories made by the git program.

use crate::git::{Git, ask, keeps, tips};
use palisade_repository::{Bounds, ContentQuery, FileType, NotKeptReason, Repository};

#[test]
fn committed_bytes_are_kept_and_others_are_not() {
    let git = Git::new();
    git.write("src/main.c", b"int main;\n");
    git.write("top", b"top\n");
    let commit = git.commit("first");
    let kept = keeps(&git, "src/main.c", b"int main;\n").unwrap();
    assert_eq!(kept.commit.to_string(), commit);
    assert_eq!(kept.object.to_string(), git.line(&["rev-parse", "HEAD:src/main.c"]));
    assert_eq!(keeps(&git, "src/main.c", b"int main; "), Err(NotKeptReason::NoObject));
    // The same bytes at another path do not count.
    assert_eq!(keeps(&git, "src/other.c", b"int main;\n"), Err(NotKeptReason::NoCommit));
    assert_eq!(keeps(&git, "main.c", b"int main;\n"), Err(NotKeptReason::NoCommit));
    assert_eq!(keeps(&git, "src", b"int main;\n"), Err(NotKeptReason::NoCommit));
    for path in ["", "/top", "./top", "src/../top", ".git/top", "src//main.c", "top/"] {
        assert_eq!(keeps(&git, path, b"top\n"), Err(NotKeptReason::Path), "{path}");
    }
    assert!(keeps(&git, "top", b"top\n").is_ok());
}

#[test]
fn staged_bytes_without_a_commit_are_not_kept() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    git.run(&["add", "a"]);
    assert_eq!(keeps(&git, "a", b"two\n"), Err(NotKeptReason::NoCommit));
    git.run(&["commit", "-qm", "second"]);
    assert!(keeps(&git, "a", b"two\n").is_ok());
    assert!(keeps(&git, "a", b"one\n").is_ok(), "an ancestor has it");
}

#[test]
fn amended_rebased_and_reset_commits_are_kept_by_logs() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    let second = git.commit("second");
    git.write("a", b"three\n");
    git.run(&["add", "."]);
    git.run(&["commit", "-q", "--amend", "-m", "amended"]);
    assert_eq!(keeps(&git, "a", b"two\n").unwrap().commit.to_string(), second);
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    assert!(keeps(&git, "a", b"three\n").is_ok());
    git.run(&["checkout", "-q", "-b", "side"]);
    git.write("b", b"side\n");
    let side = git.commit("side");
    git.run(&["checkout", "-q", "main"]);
    git.write("c", b"main\n");
    git.commit("main");
    git.run(&["checkout", "-q", "side"]);
    git.run(&["rebase", "-q", "main"]);
    assert!(keeps(&git, "b", b"side\n").is_ok());
    assert_ne!(git.line(&["rev-parse", "side"]), side);
    // Without reflogs only what references reach is kept.
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    assert_eq!(keeps(&git, "a", b"two\n"), Err(NotKeptReason::NoCommit));
    assert!(keeps(&git, "a", b"one\n").is_ok());
}

#[test]
fn stashed_bytes_are_kept_until_the_stash_is_dropped() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"stashed\n");
    git.write("new", b"untracked\n");
    git.run(&["stash", "-q", "--include-untracked"]);
    assert!(keeps(&git, "a", b"stashed\n").is_ok());
    assert!(keeps(&git, "new", b"untracked\n").is_ok());
    git.write("a", b"again\n");
    git.run(&["stash", "-q"]);
    assert!(keeps(&git, "a", b"stashed\n").is_ok(), "an older entry of the stash");
    git.run(&["stash", "drop", "-q", "stash@{1}"]);
    assert_eq!(keeps(&git, "a", b"stashed\n"), Err(NotKeptReason::NoCommit));
    assert!(keeps(&git, "a", b"again\n").is_ok());
}

#[test]
fn packs_with_deltas_and_packed_references_are_read() {
    let git = Git::new();
    let content = |revision: usize| -> Vec<u8> {
        let line = |n: usize| format!("line {n} of {}\n", if n == revision { revision } else { 0 });
        (0..400).map(line).collect::<String>().into_bytes()
    };
    for revision in 1..=30 {
        git.write("deep/er/file", &content(revision));
        git.commit("revision");
    }
    git.run(&["tag", "-a", "-m", "a tag", "v1", "HEAD~7"]);
    git.run(&["gc", "-q", "--aggressive"]);
    git.run(&["pack-refs", "--all"]);
    let chains = git.text(&["verify-pack", "-v", &git.pack("idx")]);
    assert!(chains.contains("chain length = 1"), "{chains}");
    assert_eq!(git.loose_objects(), 0);
    for revision in 1..=30 {
        assert!(keeps(&git, "deep/er/file", &content(revision)).is_ok(), "{revision}");
    }
    assert_eq!(keeps(&git, "deep/er/file", &content(31)), Err(NotKeptReason::NoObject));
    // These deltas name their base by id.
    git.run(&["-c", "repack.useDeltaBaseOffset=false", "repack", "-qadf"]);
    for revision in 1..=30 {
        assert!(keeps(&git, "deep/er/file", &content(revision)).is_ok(), "{revision}");
    }
    assert!(tips(&git).references().contains_key(b"refs/tags/v1".as_slice()));
}

#[test]
fn annotated_tag_alone_keeps_its_commit() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"tagged\n");
    git.commit("second");
    git.run(&["tag", "-a", "-m", "inner", "inner"]);
    git.run(&["tag", "-a", "-m", "outer", "outer", "inner"]);
    git.run(&["tag", "-d", "inner"]);
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    assert!(keeps(&git, "a", b"tagged\n").is_ok());
    git.run(&["tag", "-d", "outer"]);
    assert_eq!(keeps(&git, "a", b"tagged\n"), Err(NotKeptReason::NoCommit));
}

#[test]
fn links_are_kept_as_links() {
    let git = Git::new();
    std::os::unix::fs::symlink("target", git.tree().join("link")).unwrap();
    git.write("file", b"target");
    git.write("run", b"#!/bin/sh\n");
    git.run(&["add", "."]);
    git.run(&["update-index", "--chmod=+x", "run"]);
    git.run(&["commit", "-qm", "first"]);
    let repository = git.open();
    let tips = repository.tips().unwrap();
    let of = |path, file_type, content| {
        let content: Box<dyn std::io::Read> = Box::new(content);
        repository.keeps(&tips, ContentQuery { path, file_type, content }).unwrap()
    };
    assert!(of(b"link", FileType::SymbolicLink, b"target".as_slice()).is_ok());
    assert_eq!(of(b"link", FileType::Regular, b"target"), Err(NotKeptReason::NoCommit));
    assert!(of(b"file", FileType::Regular, b"target").is_ok());
    assert_eq!(of(b"file", FileType::SymbolicLink, b"target"), Err(NotKeptReason::NoCommit));
    assert!(of(b"run", FileType::Regular, b"#!/bin/sh\n").is_ok());
}

#[test]
fn empty_and_unborn_repositories_keep_nothing() {
    let git = Git::new();
    git.write("a", b"");
    assert_eq!(keeps(&git, "a", b""), Err(NotKeptReason::NoObject));
    assert!(tips(&git).references().is_empty());
    assert!(tips(&git).unreadable().is_empty(), "a HEAD that points at nothing is readable");
    git.commit("first");
    assert!(keeps(&git, "a", b"").is_ok(), "an empty file");
}

#[test]
fn sha256_repository_is_read_like_any_other() {
    let git = Git::with(&["--object-format=sha256"]);
    git.write("dir/a", b"one\n");
    git.commit("first");
    git.write("dir/a", b"two\n");
    git.commit("second");
    assert_eq!(keeps(&git, "dir/a", b"one\n").unwrap().commit.to_string().len(), 64);
    git.run(&["gc", "-q"]);
    assert!(keeps(&git, "dir/a", b"one\n").is_ok());
    assert_eq!(git.open().index().unwrap().entries().len(), 1);
}

#[test]
fn reference_storage_that_is_not_files_is_refused() {
    let git = Git::with(&["--ref-format=reftable"]);
    let error = Repository::open(&git.git_dir(), Bounds::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the repository uses extensions.refstorage = reftable, which is not supported"
    );
}

#[test]
fn linked_worktree_has_its_own_head_and_shares_the_rest() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    let linked = tempfile::tempdir().unwrap();
    let path = linked.path().join("linked");
    git.run(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
    std::fs::write(path.join("a"), b"two\n").unwrap();
    git.run_in(&path, &["commit", "-qam", "detached"]);
    // For the main repository, a worktree that may be pruned keeps nothing.
    assert_eq!(keeps(&git, "a", b"two\n"), Err(NotKeptReason::NoCommit));
    assert!(tips(&git).references().contains_key(b"worktrees/linked/HEAD".as_slice()));
    let own = std::fs::File::open(git.git_dir().join("worktrees/linked")).unwrap();
    let common = std::fs::File::open(git.git_dir()).unwrap();
    let repository =
        Repository::open_worktree(own.into(), common.into(), Bounds::default()).unwrap();
    assert!(ask(&repository, "a", b"two\n").is_ok());
    assert!(ask(&repository, "a", b"one\n").is_ok());
    assert_eq!(repository.index().unwrap().entries().len(), 1);
    // Its own directory alone is not a repository: the location of the rest would have to be
    // trusted.
    let error =
        Repository::open(&git.git_dir().join("worktrees/linked"), Bounds::default()).unwrap_err();
    assert!(error.to_string().contains("commondir"), "{error}");
    assert!(Repository::open(&path.join(".git"), Bounds::default()).is_err(), "a gitdir: file");
}

#[test]
fn submodule_is_tracked_and_its_files_belong_to_itself() {
    let inner = Git::new();
    inner.write("lib.c", b"lib\n");
    inner.commit("first");
    let git = Git::new();
    git.write("a", b"one\n");
    git.run(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        inner.tree().to_str().unwrap(),
        "sub",
    ]);
    git.commit("with a submodule");
    assert_eq!(keeps(&git, "sub/lib.c", b"lib\n"), Err(NotKeptReason::NoObject));
    let index = git.open().index().unwrap();
    let entry = index.of_path(b"sub").first().unwrap();
    assert_eq!(entry.entry_type, palisade_repository::StagedType::Submodule);
    assert!(Repository::open(&git.tree().join("sub/.git"), Bounds::default()).is_err());
    let own = Repository::open(&git.git_dir().join("modules/sub"), Bounds::default()).unwrap();
    assert!(ask(&own, "lib.c", b"lib\n").is_ok());
}

#[test]
fn index_agrees_with_git_in_every_version() {
    for version in ["2", "3", "4"] {
        let git = Git::new();
        for n in 0..50 {
            git.write(&format!("dir{}/sub/file-{n}", n % 7), format!("{n}\n").as_bytes());
        }
        git.write("dir1/sub/file-announced", b"later\n");
        git.run(&["add", "--intent-to-add", "dir1/sub/file-announced"]);
        git.run(&["add", "dir0", "dir2", "dir3", "dir4", "dir5", "dir6"]);
        git.run(&["update-index", "--index-version", version]);
        let index = git.open().index().unwrap();
        let listed: String = index
            .entries()
            .iter()
            .map(|entry| {
                let path = String::from_utf8_lossy(&entry.path);
                format!("100644 {} {}\t{path}\n", entry.object, entry.stage)
            })
            .collect();
        assert_eq!(listed, git.text(&["ls-files", "--stage"]), "version {version}");
        let announced: Vec<_> =
            index.entries().iter().filter(|entry| entry.intent_to_add).collect();
        assert_eq!(announced.len(), 1);
        assert!(index.is_tracked(b"dir2/sub/file-2") && !index.is_tracked(b"dir2/sub/file"));
    }
}
