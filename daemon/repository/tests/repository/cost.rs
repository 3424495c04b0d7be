//! Measures the cost of judging 1,000 changed paths of 5,000. It prints times, and asserts only the
//! answers: `cargo test -p palisade-repository --test repository cost:: -- --nocapture`.

use crate::git::{Git, question};
use palisade_repository::{Bounds, ObjectChanges, Repository, compare, lost_staged};
use std::time::Instant;

const FILES: usize = 5_000;
const CHANGED: usize = 1_000;

fn path(n: usize) -> String {
    format!("src/module{}/part{}/file{n}.rs", n % 50, n % 7)
}

fn content(n: usize, revision: usize) -> Vec<u8> {
    let line =
        |line: usize| format!("fn f{n}_{line}() -> u32 {{ {} }}\n", n * 31 + line * revision);
    (0..40).map(line).collect::<String>().into_bytes()
}

#[test]
fn checkout_of_a_thousand_files_is_judged() {
    let git = Git::new();
    for n in 0..FILES {
        git.write(&path(n), &content(n, 1));
    }
    git.commit("first");
    git.run(&["checkout", "-q", "-b", "feature"]);
    for n in 0..CHANGED {
        git.write(&path(n * 5), &content(n * 5, 2));
    }
    git.commit("second");
    let old: Vec<_> = (0..CHANGED).map(|n| (path(n * 5), content(n * 5, 2))).collect();
    for packed in ["loose", "packed"] {
        if packed == "packed" {
            git.run(&["gc", "-q"]);
        }
        git.run(&["checkout", "-q", "feature"]);
        let (_copy, before) = git.snapshot();
        git.run(&["checkout", "-q", "main"]);

        let start = Instant::now();
        let repository = Repository::open(&git.git_dir(), Bounds::default()).unwrap();
        let tips = repository.tips().unwrap();
        let opened = start.elapsed();
        let questions = old.iter().map(|(path, content)| question(path, content));
        let answers = repository.keeps_all(&tips, questions).unwrap();
        let kept = start.elapsed() - opened;
        assert!(answers.iter().all(Result::is_ok));

        let start = Instant::now();
        assert!(compare(&before, &repository, ObjectChanges::Possible).unwrap().is_lossless());
        let compared = start.elapsed();
        let start = Instant::now();
        assert_eq!(lost_staged(&before, &repository, |_, _, _| false).unwrap(), []);
        let staged = start.elapsed();
        // The same directory twice, as in an overlay in which nothing in .git/objects changed.
        let start = Instant::now();
        assert!(compare(&repository, &repository, ObjectChanges::Possible).unwrap().is_lossless());
        let same = start.elapsed();
        // A new pack with every object that was there.
        git.run(&["repack", "-q", "-a"]);
        let again = Repository::open(&git.git_dir(), Bounds::default()).unwrap();
        let start = Instant::now();
        assert!(compare(&before, &again, ObjectChanges::Added(&[])).unwrap().is_lossless());
        let repacked = start.elapsed();
        // The same pack for a repository that had none of it, as after a fetch.
        let empty = Git::new();
        let (_empty, before) = empty.snapshot();
        let start = Instant::now();
        assert!(compare(&before, &again, ObjectChanges::Added(&[])).unwrap().is_lossless());
        let fetched = start.elapsed();
        println!("{packed}: a new pack with known objects {repacked:?}, with unknown {fetched:?}");
        println!(
            "{packed}: open and tips {opened:?}, keeps_all {kept:?}, compare with a copy {compared:?}, \
             compare with itself {same:?}, lost_staged {staged:?}"
        );
    }
}
