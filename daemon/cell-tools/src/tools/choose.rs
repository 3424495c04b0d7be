//! Chooses the entries of a tree that a call means: by glob, by a leading dot, by the tree's own
//! ignore rules. Runs in the cell.

use super::{
    failure,
    rules::{Allowance, Kind, Rules, Scope, Sources},
};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use palisade_plan::{
    cell::{EntryKind, FileError, FileErrorKind},
    names,
    search::Choice,
};
use palisade_workspace::View;
use std::{
    ffi::OsStr,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt as _},
    sync::Arc,
};

/// The maximum length of a glob.
const LONGEST: usize = 4096;

/// A choice in compiled form.
#[derive(Debug)]
pub(super) struct Chooser<'v> {
    view: &'v View,
    /// The real path of the directory where the walk begins.
    top: Vec<u8>,
    glob: Option<Glob>,
    hidden: bool,
    ignored: bool,
    allowance: Allowance,
}

#[derive(Debug)]
struct Glob {
    set: GlobSet,
    inverted: bool,
}

impl<'v> Chooser<'v> {
    /// Compiles the choice.
    pub(super) fn new(choice: &Choice, view: &'v View) -> Result<Self, FileError> {
        let glob = choice.glob.as_deref().map(compile).transpose()?;
        let (hidden, ignored) = (choice.hidden, choice.ignored);
        let (top, allowance) = (Vec::new(), Allowance::default());
        Ok(Self { view, top, glob, hidden, ignored, allowance })
    }

    /// Sets the real path of the directory where the walk begins.
    pub(super) fn begin(&mut self, real: &[u8]) {
        self.top = real.to_vec();
        if self.top.last() != Some(&b'/') {
            self.top.push(b'/');
        }
    }

    /// Returns the ignore rules that apply where the walk begins.
    pub(super) fn scope(&self) -> Scope {
        if self.ignored {
            return Scope::default();
        }
        let real = self.top.strip_suffix(b"/").filter(|top| !top.is_empty());
        Scope::of(real.unwrap_or(&self.top), &self.view.workspace, &self.allowance)
    }

    /// Returns `true` if an entry is hidden from the session. `path` is relative to the start of
    /// the walk, and no directory above it is hidden.
    pub(super) fn hides(&self, path: &[u8], kind: EntryKind) -> bool {
        let hidden = &self.view.matchers.hidden;
        if hidden.is_empty() {
            return false;
        }
        let kind = match kind {
            EntryKind::Directory => names::Kind::Directory,
            EntryKind::File | EntryKind::Symlink | EntryKind::Other => names::Kind::Other,
        };
        let whole = [self.top.as_slice(), path].concat();
        self.view.below(&whole).is_some_and(|path| hidden.names(path, kind).is_some())
    }

    /// Returns the ignore rules that apply in a directory on the way down.
    pub(super) fn rules(
        &self,
        above: Option<&Arc<Rules>>,
        dir: BorrowedFd<'_>,
        sources: Sources,
        start: usize,
    ) -> Option<Arc<Rules>> {
        if self.ignored {
            return None;
        }
        Rules::within(above, dir, sources, start, &self.allowance)
    }

    /// Returns `true` if a walk visits an entry at all. `path` is relative to the directory that
    /// the rules apply to.
    pub(super) fn enters(&self, rules: Option<&Arc<Rules>>, path: &[u8], kind: Kind) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        name != b".git"
            && (self.hidden || !name.starts_with(b"."))
            && !Rules::leave_out(rules, path, kind)
    }

    /// Returns `true` if the glob matches a path relative to the start of the walk.
    pub(super) fn takes(&self, path: &[u8]) -> bool {
        let matches = |glob: &Glob| glob.set.is_match(OsStr::from_bytes(path)) != glob.inverted;
        self.glob.as_ref().is_none_or(matches)
    }
}

fn compile(text: &str) -> Result<Glob, FileError> {
    let (inverted, bare) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if bare.is_empty() || bare.len() > LONGEST {
        return Err(unusable(text, &format!("it is empty, or longer than {LONGEST} bytes")));
    }
    let bare = bare.strip_prefix("./").unwrap_or(bare);
    if bare.split('/').any(|part| part == "..") {
        return Err(unusable(text, "it has .. in it: give the directory as path"));
    }
    let anywhere = if bare.contains('/') { String::new() } else { "**/".to_owned() };
    let glob = GlobBuilder::new(&format!("{anywhere}{}", bare.trim_start_matches('/')))
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build();
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map(|set| Glob { set, inverted }).map_err(|error| unusable(text, &error.kind().to_string()))
}

fn unusable(glob: &str, problem: &str) -> FileError {
    let shown: String = glob.chars().take(100).flat_map(char::escape_default).collect();
    let message = format!("the glob \"{shown}\" can not be used: {problem}");
    failure(FileErrorKind::Invalid, None, message)
}
