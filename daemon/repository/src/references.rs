//! References of a repository: loose, packed and `HEAD`. A symbolic reference adds nothing to the
//! one that it points at, so only direct ones are stored.

use crate::directory::{EntryType, GitDirectory};
use crate::{Bounds, ObjectId, RepositoryError};
use gix_hash::Kind;
use std::collections::BTreeMap;

/// The deepest directory below `refs` or `logs` that is read.
const DEPTH: usize = 32;
/// The longest loose reference: an id, or the name of another one.
const LOOSE_BYTES: u64 = 4096;

/// Prefixes of the references of which each worktree has its own.
const PER_WORKTREE: [&[u8]; 3] = [b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/"];

/// The value of a loose reference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReferenceTarget {
    Object(ObjectId),
    Symbolic(Vec<u8>),
}

/// The direct references by name, and the names of those that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct References {
    pub(crate) direct: BTreeMap<Vec<u8>, ObjectId>,
    pub(crate) unreadable: Vec<Vec<u8>>,
}

impl References {
    /// Reads all references of a directory.
    pub(crate) fn read(
        directory: &GitDirectory,
        kind: Kind,
        bounds: &Bounds,
    ) -> Result<Self, RepositoryError> {
        let mut references = References::default();
        if let Some(bytes) = directory.read(b"packed-refs", bounds.file_bytes)? {
            references.parse_packed(&bytes, kind, bounds)?;
        }
        references.read_loose(directory, kind, bounds, |_| true)?;
        Ok(references)
    }

    /// Reads the references that belong to one linked worktree, in its own directory. Git ignores
    /// all others there.
    pub(crate) fn read_worktree(
        &mut self,
        own: &GitDirectory,
        kind: Kind,
        bounds: &Bounds,
    ) -> Result<(), RepositoryError> {
        self.read_loose(own, kind, bounds, is_per_worktree)
    }

    /// Reads loose references only, which override packed ones of the same name.
    fn read_loose(
        &mut self,
        directory: &GitDirectory,
        kind: Kind,
        bounds: &Bounds,
        counts: impl Fn(&[u8]) -> bool,
    ) -> Result<(), RepositoryError> {
        let all = walk(directory, b"refs", bounds)?;
        for (name, is) in all.into_iter().filter(|(name, _)| counts(name)) {
            let target = match is {
                EntryType::File if is_name(&name) => read_target(directory, &name, kind),
                EntryType::File | EntryType::Directory | EntryType::Other => None,
            };
            self.direct.remove(&name);
            match target {
                Some(ReferenceTarget::Object(id)) => {
                    self.direct.insert(name, id);
                }
                Some(ReferenceTarget::Symbolic(_)) => {}
                None => self.unreadable.push(name),
            }
        }
        Ok(())
    }

    fn parse_packed(
        &mut self,
        bytes: &[u8],
        kind: Kind,
        bounds: &Bounds,
    ) -> Result<(), RepositoryError> {
        let malformed = |reason| RepositoryError::malformed(b"packed-refs", reason);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").ok_or(malformed("the last line is cut"))?;
            if line.starts_with(b"#") || line.starts_with(b"^") {
                continue;
            }
            let (id, name) = line
                .split_at_checked(kind.len_in_hex())
                .ok_or(malformed("a line without a reference"))?;
            let id = ObjectId::from_hex(id).map_err(|_| malformed("a line without an id"))?;
            let name = name.strip_prefix(b" ").ok_or(malformed("a line without a name"))?;
            if self.direct.len() >= bounds.references {
                return Err(RepositoryError::bound("references", bounds.references));
            }
            if !is_name(name) {
                self.unreadable.push(name.to_vec());
            } else if self.direct.insert(name.to_vec(), id).is_some() {
                return Err(malformed("a name that stands twice"));
            }
        }
        Ok(())
    }
}

/// Reads the value of a loose reference or of `HEAD`; `None` if git would treat it as broken.
pub(crate) fn read_target(
    directory: &GitDirectory,
    name: &[u8],
    kind: Kind,
) -> Option<ReferenceTarget> {
    let bytes = directory.read(name, LOOSE_BYTES).ok()??;
    if let Some(target) = bytes.strip_prefix(b"ref:") {
        let target = target.trim_ascii();
        return is_name(target).then(|| ReferenceTarget::Symbolic(target.to_vec()));
    }
    let (id, rest) = bytes.split_at_checked(kind.len_in_hex())?;
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    ObjectId::from_hex(id).ok().filter(|id| ends && !id.is_null()).map(ReferenceTarget::Object)
}

/// Returns `true` if each worktree has its own reference of this name. Git's maintenance in another
/// worktree does not see it.
pub(crate) fn is_per_worktree(name: &[u8]) -> bool {
    PER_WORKTREE.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns `true` if a name is a valid reference name below `refs`.
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.starts_with(b"refs/") && gix_validate::reference::name(name.into()).is_ok()
}

/// Lists everything below a directory except directories and git's own lock files.
pub(crate) fn walk(
    directory: &GitDirectory,
    top: &[u8],
    bounds: &Bounds,
) -> Result<Vec<(Vec<u8>, EntryType)>, RepositoryError> {
    let (mut found, mut visited) = (Vec::new(), 0);
    let mut waiting = vec![(top.to_vec(), 0)];
    while let Some((path, depth)) = waiting.pop() {
        let names = directory.names(&path, bounds.references)?;
        visited += names.len();
        if visited > bounds.references {
            return Err(RepositoryError::bound("references", bounds.references));
        }
        for (name, is) in names {
            if name.ends_with(b".lock") || name.starts_with(b".") {
                continue;
            }
            let name = [path.as_slice(), b"/", &name].concat();
            match is {
                EntryType::Directory if depth < DEPTH => waiting.push((name, depth + 1)),
                EntryType::Directory => return Err(RepositoryError::bound("depth", DEPTH)),
                EntryType::File | EntryType::Other => found.push((name, is)),
            }
        }
    }
    Ok(found)
}
