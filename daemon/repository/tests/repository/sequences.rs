//! Tests random sequences of git commands. The bytes answered as kept are exactly those that plain
//! git finds in reachable commits, and they survive git's own maintenance.

use crate::git::{Git, question};
use palisade_repository::{ObjectChanges, compare};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The number of sequences, by default and with `PALISADE_LONG`, and of commands in each.
const SEQUENCES: u64 = 5;
const LONG_SEQUENCES: u64 = 500;
const COMMANDS: usize = 14;

/// A small random number generator, which gives the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn choose<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// All paths and contents that were ever written.
type Written = BTreeSet<(String, Vec<u8>)>;

fn write(git: &Git, numbers: &mut Numbers, written: &mut Written) {
    let path = numbers.choose(&["a", "b", "dir/a", "dir/deep/c", "dir/deep/d"]).to_owned();
    let lines = 1 + numbers.below(60);
    let salt = numbers.below(4);
    let content: String = (0..lines).map(|line| format!("{line} {salt}\n")).collect();
    if git.tree().join(path.split('/').next().unwrap()).is_file() && path.contains('/') {
        return;
    }
    git.write(&path, content.as_bytes());
    written.insert((path, content.into_bytes()));
}

/// Runs one random command. Some fail, which leaves an equally valid state.
fn act(git: &Git, numbers: &mut Numbers, written: &mut Written) -> String {
    let branch = numbers.choose(&["one", "two", "three"]);
    let commands: [&[&str]; 20] = [
        &["add", "-A"],
        &["commit", "-qam", "commit"],
        &["commit", "-qam", "commit again"],
        &["commit", "-q", "--amend", "-am", "amended"],
        &["reset", "-q", "--hard", "HEAD~"],
        &["reset", "-q", "--hard", "ORIG_HEAD"],
        &["checkout", "-q", "-f", "-B", branch],
        &["checkout", "-q", "-f", "main"],
        &["checkout", "-q", "--detach", "HEAD~"],
        &["branch", "-q", "-D", branch],
        &["stash", "-q", "--include-untracked"],
        &["stash", "pop", "-q"],
        &["stash", "drop", "-q"],
        &["tag", "-f", "-a", "-m", "tag", branch],
        &["tag", "-d", branch],
        &["merge", "-q", "-X", "ours", "-m", "merged", branch],
        &["rebase", "-q", "-X", "ours", branch],
        &["gc", "-q"],
        &["pack-refs", "--all"],
        &["reflog", "expire", "--expire=all", "HEAD"],
    ];
    for _ in 0..numbers.below(3) {
        write(git, numbers, written);
    }
    let command = commands[numbers.below(commands.len())];
    git.attempt_in(&git.tree(), command);
    if git.git_dir().join("rebase-merge").exists() {
        git.attempt_in(&git.tree(), &["rebase", "--abort"]);
    }
    command.join(" ")
}

/// Returns the commits and tags that plain git reaches, and every path with its blob in them.
fn reachable(git: &Git) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let commits: BTreeSet<String> =
        git.text(&["rev-list", "--all", "--reflog", "HEAD"]).lines().map(str::to_owned).collect();
    let mut blobs = BTreeSet::new();
    let tags = git.text(&["for-each-ref", "--format=%(objecttype) %(objectname)"]);
    let tags = tags.lines().filter_map(|line| line.strip_prefix("tag "));
    let named = commits.iter().cloned().chain(tags.map(str::to_owned)).collect();
    let list: String = commits.iter().map(|id| format!("git ls-tree -r {id}\n")).collect();
    for line in String::from_utf8(git.shell(&list)).unwrap().lines() {
        let (head, path) = line.split_once('\t').unwrap();
        blobs.insert((path.to_owned(), head.split(' ').nth(2).unwrap().to_owned()));
    }
    (named, blobs)
}

fn check(git: &Git, written: &Written, what: &str) -> BTreeMap<(String, Vec<u8>), String> {
    let repository = git.open();
    let tips = repository.tips().unwrap();
    let (commits, blobs) = reachable(git);
    let questions = written.iter().map(|(path, content)| question(path, content));
    let answers = repository.keeps_all(&tips, questions).unwrap();
    let mut kept = BTreeMap::new();
    for ((path, content), answer) in written.iter().zip(answers) {
        let id = repository.blob_id(content).unwrap().to_string();
        let expected = blobs.contains(&(path.clone(), id));
        assert_eq!(answer.is_ok(), expected, "{what}: {path}: {answer:?}");
        if let Ok(answer) = answer {
            assert!(commits.contains(&answer.commit.to_string()), "{what}");
            kept.insert((path.clone(), content.clone()), answer.commit.to_string());
        }
    }
    kept
}

#[test]
fn what_is_kept_is_what_plain_git_recovers() {
    let is_long = std::env::var_os("PALISADE_LONG").is_some();
    let sequences = if is_long { LONG_SEQUENCES } else { SEQUENCES };
    let mut answered = 0;
    for seed in 1..=sequences {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (git, mut written) = (Git::new(), Written::new());
        write(&git, &mut numbers, &mut written);
        git.commit("first");
        let mut done = String::new();
        for _ in 0..COMMANDS {
            let (_copy, before) = git.snapshot();
            let earlier = reachable(&git).0;
            done += &format!("; {}", act(&git, &mut numbers, &mut written));
            let what = format!("seed {seed}{done}");
            check(&git, &written, &what);
            let found = compare(&before, &git.open(), ObjectChanges::Possible).unwrap();
            let later = reachable(&git).0;
            assert_eq!(
                found.lost_tips.is_empty(),
                later.is_superset(&earlier),
                "{what}: {found:?}"
            );
            assert!(found.missing_objects.is_empty(), "{what}: {found:?}");
        }
        // Maintenance that immediately deletes everything unreachable.
        let kept = check(&git, &written, "before pruning");
        git.run(&[
            "-c",
            "gc.reflogExpire=never",
            "-c",
            "gc.reflogExpireUnreachable=never",
            "gc",
            "-q",
            "--prune=now",
        ]);
        for ((path, content), commit) in &kept {
            assert_eq!(&git.run(&["cat-file", "blob", &format!("{commit}:{path}")]), content);
        }
        git.run(&["fsck", "--strict"]);
        assert_eq!(check(&git, &written, "after pruning").len(), kept.len());
        answered += kept.len();
    }
    assert!(answered > 10, "control: {answered} kept");
}

#[test]
fn damage_anywhere_never_makes_bytes_kept_that_git_cannot_show() {
    let git = Git::new();
    let mut numbers = Numbers(77);
    let mut written = Written::new();
    for _ in 0..6 {
        write(&git, &mut numbers, &mut written);
        git.commit("more");
    }
    let mut files = Vec::new();
    let mut waiting = vec![git.git_dir()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { waiting.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    // Git refuses to work with some values of its configuration, although the bytes are still
    // there.
    let aside = |file: &str| file.contains("hooks") || file.ends_with("config");
    for file in files.iter().filter(|file| !aside(&file.to_string_lossy())) {
        let bytes = fs::read(file).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let mut damaged = bytes.clone();
        let at = numbers.below(bytes.len());
        damaged[at] ^= 1 << numbers.below(8);
        fs::remove_file(file).unwrap();
        fs::write(file, &damaged).unwrap();
        let answers = palisade_repository::Repository::open(&git.git_dir(), Default::default())
            .and_then(|repository| {
                let questions = written.iter().map(|(path, content)| question(path, content));
                repository.keeps_all(&repository.tips()?, questions)
            });
        for ((path, content), answer) in written.iter().zip(answers.unwrap_or_default()) {
            if let Ok(kept) = answer {
                let name = format!("{}:{path}", kept.commit);
                let shown = git.attempt_in(&git.tree(), &["cat-file", "blob", &name]).stdout;
                assert_eq!(&shown, content, "{}", file.display());
            }
        }
        fs::write(file, &bytes).unwrap();
    }
}
