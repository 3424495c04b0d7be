//! Tests which paths the commit that is checked out has.

use crate::git::Git;
use palisade_repository::HeadTree;

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
