//! The ignore rules of a tree: its own `.gitignore`, `.ignore` and `.git/info/exclude`, read in
//! bounded memory from regular files only. Runs in the cell.

use super::{open, open_with};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::{
    fs::{CWD, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::Read as _,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path as StdPath,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The maximum size of one file of rules in bytes; a larger one is ignored.
const MOST_BYTES: u64 = 64 * 1024;

/// The maximum size of all such files in one walk; the rest are ignored.
const MOST_IN_ALL: u64 = 4 * 1024 * 1024;

/// The maximum number of directories on one path that may have rules of their own.
const MOST_NESTED: usize = 100;

/// The files with rules that were seen in a directory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sources {
    git: bool,
    gitignore: bool,
    ignore: bool,
}

impl Sources {
    /// Records an entry's name, if it is one of these files.
    pub(super) fn note(&mut self, name: &[u8]) {
        match name {
            b".git" => self.git = true,
            b".gitignore" => self.gitignore = true,
            b".ignore" => self.ignore = true,
            _ => {}
        }
    }

    const fn any(self) -> bool {
        self.git || self.gitignore || self.ignore
    }

    /// The files that git itself obeys.
    pub(super) const GIT: Self = Self { git: true, gitignore: true, ignore: false };

    /// All files that may exist.
    pub(super) const ALL: Self = Self { git: true, gitignore: true, ignore: true };
}

/// The rules of one directory, and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Self>>,
    matcher: Gitignore,
    /// The number of bytes of a path before the part below this directory.
    start: usize,
    depth: usize,
}

/// The number of bytes of rules that may still be read.
#[derive(Debug)]
pub(super) struct Allowance(AtomicU64);

impl Default for Allowance {
    fn default() -> Self {
        Self(AtomicU64::new(MOST_IN_ALL))
    }
}

/// The start of a walk: its path relative to the workspace, with a slash at its end, and the rules
/// that apply there.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) base: Vec<u8>,
    pub(super) rules: Option<Arc<Rules>>,
}

impl Scope {
    /// Collects the rules for a directory: those of every directory above it, up to the workspace.
    /// Outside the workspace there are none.
    pub(super) fn of(real: &[u8], workspace: &StdPath, allowance: &Allowance) -> Self {
        let Ok(below) = StdPath::new(OsStr::from_bytes(real)).strip_prefix(workspace) else {
            return Self::default();
        };
        let mut scope = Self::default();
        let mut dir = workspace.to_owned();
        for name in below {
            let there = open(CWD, dir.as_os_str().as_bytes(), OFlags::PATH | OFlags::DIRECTORY);
            if let Ok(there) = there {
                let rules = scope.rules.as_ref();
                let own =
                    Rules::within(rules, there.as_fd(), Sources::ALL, scope.base.len(), allowance);
                scope.rules = own;
            }
            dir.push(name);
            scope.base.extend(name.as_bytes());
            scope.base.push(b'/');
        }
        scope
    }
}

impl Rules {
    /// Returns the rules that apply in a directory. `start` is the length of its path, including
    /// the slash. In a repository within another one, the outer rules do not apply.
    pub(super) fn within(
        above: Option<&Arc<Self>>,
        dir: BorrowedFd<'_>,
        sources: Sources,
        start: usize,
        allowance: &Allowance,
    ) -> Option<Arc<Self>> {
        let depth = above.map_or(0, |above| above.depth + 1);
        if !sources.any() || depth > MOST_NESTED {
            return above.cloned();
        }
        let mut builder = GitignoreBuilder::new("");
        // Later patterns take precedence.
        let files: [(bool, &[u8]); 3] = [
            (sources.git, b".git/info/exclude"),
            (sources.gitignore, b".gitignore"),
            (sources.ignore, b".ignore"),
        ];
        for (there, name) in files {
            if !there {
                continue;
            }
            for line in read(dir, name, allowance).unwrap_or_default().lines() {
                // As in git, a line that is not a valid pattern is ignored.
                builder.add_line(None, line).ok();
            }
        }
        let above = above.filter(|_| !sources.git || !is_repository(dir)).cloned();
        match builder.build() {
            Ok(matcher) if !matcher.is_empty() => {
                Some(Arc::new(Self { above, matcher, start, depth }))
            }
            Ok(_) | Err(_) => above,
        }
    }

    /// Returns `true` if the rules exclude a path. The nearest directory with a matching rule
    /// decides.
    pub(super) fn leave_out(rules: Option<&Arc<Self>>, path: &[u8], kind: Kind) -> bool {
        let mut next = rules;
        while let Some(rules) = next {
            let below = path.get(rules.start..).unwrap_or_default();
            match rules.matcher.matched(OsStr::from_bytes(below), kind == Kind::Directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => next = rules.above.as_ref(),
            }
        }
        false
    }
}

/// The kinds of entries that rules tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Other,
}

fn is_repository(dir: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    open_with(dir, b".git", flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS).is_ok()
}

/// Reads a file; `None` if it is not a regular file of acceptable size.
fn read(dir: BorrowedFd<'_>, name: &[u8], allowance: &Allowance) -> Option<String> {
    let file = regular(dir, name).ok()??;
    let mut bytes = Vec::new();
    File::from(file).take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let size = bytes.len() as u64;
    let taken = allowance
        .0
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
    (size <= MOST_BYTES && taken.is_ok()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn regular(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = open_with(dir, name, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(file))
}
