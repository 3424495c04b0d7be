//! Tests which paths the commit that is checked out has.

use crate::git::Git;
use palisade_repository::{HeadTree, paths_gone_from_head};

fn head(git: &Git) -> HeadTree {
    HeadTree::of(git.open())
}

#[test]
fn committed_paths_are_found_whatever_the_index_lists() {
    let git = Git::new();
    git.write("src/deep/main.c", b"int main;\n");
    git.write("top", b"top\n");
    assert!(!head(&git).has(b"top"), "there is no commit");
    git.commit("first");
    git.run(&["rm", "-q", "-r", "--cached", "src", "top"]);
    git.write("new", b"new\n");
    git.run(&["add", "new"]);
    for detach in [false, true] {
        let mut head = head(&git);
        for path in ["top", "src", "src/deep", "src/deep/main.c"] {
            assert!(head.has(path.as_bytes()), "{path}");
        }
        for path in ["new", "to", "src/deep/main.c/x", "src/main.c", "deep", "top/x"] {
            assert!(!head.has(path.as_bytes()), "{path}");
        }
        if !detach {
            git.run(&["pack-refs", "--all"]);
            git.run(&["checkout", "-q", "--detach"]);
        }
    }
}

#[test]
fn a_commit_that_can_not_be_read_may_have_everything() {
    let git = Git::new();
    git.write("top", b"top\n");
    let commit = git.commit("first");
    std::fs::remove_file(git.loose(&commit)).unwrap();
    assert!(head(&git).has(b"anything"));
}

#[test]
fn paths_that_only_the_earlier_commit_has_are_listed() {
    let git = Git::new();
    for path in ["kept/a", "gone/deep/b", "gone/c", "d", "file", "directory/x"] {
        git.write(path, b"x\n");
    }
    git.commit("first");
    let (_copy, before) = git.snapshot();
    let gone = |most| {
        let paths = paths_gone_from_head(&before, &git.open(), most)?;
        let mut paths: Vec<_> =
            paths.into_iter().map(|path| String::from_utf8(path).unwrap()).collect();
        paths.sort();
        Some(paths)
    };
    assert_eq!(gone(0).unwrap(), [""; 0], "the same commit");
    git.run(&["rm", "-q", "-r", "--cached", "gone", "d"]);
    assert_eq!(gone(0).unwrap(), [""; 0], "the index does not matter");
    git.run(&["commit", "-qm", "second"]);
    assert_eq!(gone(100).unwrap(), ["d", "gone/c", "gone/deep/b"]);
    assert_eq!(gone(3), None);
    git.shell("rm -r file directory; mkdir file; touch file/x directory; git add file directory");
    git.run(&["commit", "-qm", "third"]);
    assert_eq!(gone(100).unwrap(), ["d", "directory/x", "gone/c", "gone/deep/b"]);
    git.run(&["symbolic-ref", "HEAD", "refs/heads/none"]);
    assert_eq!(gone(100).unwrap().len(), 6);
}
