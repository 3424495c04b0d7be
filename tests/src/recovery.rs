//! Checks whether every byte that a directory had at first is still available: at its path,
//! elsewhere in the directory, or from git. The check runs outside of the sandbox, with plain git.

use crate::{World, unconfined};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Prints everything that is reachable from a ref or a reflog, with `git cat-file --batch`.
const REACHABLE: &str =
    "git rev-list --objects --all --reflog | cut -d' ' -f1 | git cat-file --batch";

/// Prints everything that is staged, with `git cat-file --batch`.
const STAGED: &str = "git ls-files -s | cut -d' ' -f2 | git cat-file --batch";

/// Names under which a copy of lost bytes does not count: noise, and what git ignores.
#[derive(Debug, Clone, Copy)]
pub struct Disregarded {
    /// Names of directories; nothing below them counts.
    pub directories: &'static [&'static str],
    /// Endings of file names.
    pub endings: &'static [&'static str],
}

impl Disregarded {
    /// Returns `true` if a path has such a name.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let is_below = |above: &Path| {
            above
                .components()
                .any(|part| self.directories.iter().any(|name| part.as_os_str() == *name))
        };
        let name = path.to_string_lossy();
        path.parent().is_some_and(is_below) || self.endings.iter().any(|end| name.ends_with(end))
    }
}

/// The objects of a repository, by name: kind and bytes.
type Objects = BTreeMap<String, (String, Vec<u8>)>;

/// The contents of a directory at some moment.
#[derive(Debug)]
struct Contents {
    /// Regular files and links outside of git directories that can be read; for a link, its target.
    files: BTreeMap<PathBuf, Vec<u8>>,
    reachable: Objects,
    staged: Objects,
    tracked: BTreeSet<PathBuf>,
}

/// The initial contents of a directory.
#[derive(Debug)]
pub struct InitialState {
    contents: Contents,
    noise: Disregarded,
    ignored: Disregarded,
}

impl InitialState {
    /// Records the contents of a directory. Untracked noise in it may be lost.
    #[must_use]
    pub fn of(world: &World, directory: &Path, noise: Disregarded, ignored: Disregarded) -> Self {
        Self { contents: look(world, directory, |_| true), noise, ignored }
    }

    /// Lists the initial contents that are not available any more.
    #[must_use]
    pub fn lost(&self, world: &World, directory: &Path) -> BTreeSet<String> {
        let now = look(world, directory, |path| !self.is_disregarded(path));
        let elsewhere = now.files.iter().filter(|(path, _)| !self.is_disregarded(path));
        let elsewhere: Vec<&Vec<u8>> = elsewhere.map(|(_, bytes)| bytes).collect();
        let committed: HashSet<&Vec<u8>> = now.reachable.values().map(|(_, bytes)| bytes).collect();
        // A file that was appended to still contains its old bytes.
        let is_kept = |bytes: &Vec<u8>| {
            bytes.is_empty()
                || committed.contains(bytes)
                || elsewhere.iter().any(|found| found.starts_with(bytes))
        };
        let files = self.contents.files.iter().filter(|(path, bytes)| {
            let is_noise = self.noise.has(path) && !self.contents.tracked.contains(*path);
            let is_there = now.files.get(*path).is_some_and(|found| found.starts_with(bytes));
            !is_noise && !is_there && !is_kept(bytes)
        });
        let files = files.map(|(path, _)| format!("file {}", path.display()));
        let staged = self.contents.staged.iter();
        let staged = staged
            .filter(|(name, (_, bytes))| {
                let is_there = now.files.values().any(|file| file == bytes);
                !now.staged.contains_key(*name) && !is_there && !is_kept(bytes)
            })
            .map(|(name, _)| format!("staged {name}"));
        let objects = self.contents.reachable.iter();
        let objects = objects.filter(|(name, (kind, bytes))| {
            !now.reachable.contains_key(*name) && !is_excused(kind, bytes, &is_kept)
        });
        let objects = objects.map(|(name, (kind, _))| format!("{kind} {name}"));
        files.chain(staged).chain(objects).collect()
    }

    fn is_disregarded(&self, path: &Path) -> bool {
        self.noise.has(path) || self.ignored.has(path)
    }
}

/// Returns `true` if the loss of an object is acceptable: a blob whose bytes are elsewhere, or the commits of
/// a stash. A tree is lost only with its commit.
fn is_excused(kind: &str, bytes: &Vec<u8>, is_kept: &impl Fn(&Vec<u8>) -> bool) -> bool {
    const STASHES: [&str; 4] = ["WIP on ", "On ", "index on ", "untracked files on "];
    match kind {
        "blob" => is_kept(bytes),
        "tree" => true,
        _ => {
            let text = String::from_utf8_lossy(bytes);
            let message = text.split_once("\n\n").map_or("", |(_, message)| message);
            STASHES.iter().any(|beginning| message.starts_with(beginning))
        }
    }
}

/// Reads the contents of a directory, and of those git directories in it that count.
fn look(world: &World, directory: &Path, counts: impl Fn(&Path) -> bool) -> Contents {
    let (mut files, mut repositories) = (BTreeMap::new(), Vec::new());
    walk(directory, directory, &mut files, &mut repositories);
    repositories.retain(|repository: &PathBuf| {
        counts(&repository.strip_prefix(directory).expect("below").join(".git"))
    });
    let (mut reachable, mut staged) = (Objects::new(), Objects::new());
    let mut tracked = BTreeSet::new();
    for repository in repositories {
        reachable.extend(objects(world, &repository, REACHABLE));
        staged.extend(objects(world, &repository, STAGED));
        let names = run(world, &repository, "git ls-files");
        let below = repository.strip_prefix(directory).expect("below").to_owned();
        let names = String::from_utf8_lossy(&names).into_owned();
        tracked.extend(names.lines().map(|name| below.join(name)));
    }
    Contents { files, reachable, staged, tracked }
}

/// Collects files and links, and the directories that have a `.git`.
fn walk(
    top: &Path,
    directory: &Path,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
    repositories: &mut Vec<PathBuf>,
) {
    // The owner must be able to read the directory, even if root runs the test.
    let entries = fs::read_dir(directory).ok().filter(|_| has_mode(directory, 0o500));
    for entry in entries.into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        let name = path.strip_prefix(top).expect("below").to_owned();
        if entry.file_name() == ".git" && kind.is_dir() {
            repositories.push(directory.to_owned());
        } else if kind.is_dir() {
            walk(top, &path, files, repositories);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).expect("a link");
            files.insert(name, target.into_os_string().into_encoded_bytes());
        } else if kind.is_file() && has_mode(&path, 0o400) {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
}

fn has_mode(path: &Path, mode: u32) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & mode == mode)
}

fn run(world: &World, directory: &Path, line: &str) -> Vec<u8> {
    let line = format!("export GIT_OPTIONAL_LOCKS=0; {line}");
    // A repository that git can not read yields nothing.
    unconfined(world, directory, &world.state(), &line).stdout
}

/// Parses the output of `git cat-file --batch`.
fn objects(world: &World, repository: &Path, line: &str) -> Objects {
    let output = run(world, repository, line);
    let mut found = Objects::new();
    let mut rest = &output[..];
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (head, body) = rest.split_at(end);
        let head = String::from_utf8_lossy(head).into_owned();
        let [name, kind, size] = head.split(' ').collect::<Vec<_>>()[..] else {
            // The line of a missing object has no size.
            rest = body.get(1..).unwrap_or_default();
            continue;
        };
        let size: usize = size.parse().expect("a size");
        let bytes = body.get(1..=size).expect("an object").to_vec();
        found.insert(name.to_owned(), (kind.to_owned(), bytes));
        rest = body.get(size + 2..).unwrap_or_default();
    }
    found
}
