//! A set of paths. A change set has tens of thousands of them, and the broker serves other users
//! meanwhile, so each is looked up and never compared with all others. Pure: no I/O.

use std::collections::HashSet;

/// A set of paths without `.`, `..` or a trailing slash.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathSet<'a>(HashSet<&'a [u8]>);

impl<'a> FromIterator<&'a [u8]> for PathSet<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(paths: I) -> Self {
        Self(paths.into_iter().collect())
    }
}

impl<'a> PathSet<'a> {
    /// Returns the directories above some paths.
    pub(crate) fn above(paths: impl IntoIterator<Item = &'a [u8]>) -> Self {
        paths.into_iter().flat_map(ancestors).collect()
    }

    /// Returns `true` if a path is in the set.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.0.contains(path)
    }

    /// Returns `true` if a path, or a directory above it, is in the set.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.has(path) || ancestors(path).any(|above| self.has(above))
    }
}

/// Returns the directories above a path, without the root.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| path.get(..at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_covered_by_itself_and_by_what_is_above_it() {
        let set: PathSet<'_> = [b"/w/a".as_slice(), b"/w/d/e"].into_iter().collect();
        for (path, has, covers) in [
            ("/w/a", true, true),
            ("/w/a/b/c", false, true),
            ("/w/ab", false, false),
            ("/w/d", false, false),
            ("/w/d/e/f", false, true),
            ("/w", false, false),
            ("", false, false),
        ] {
            let path = path.as_bytes();
            assert_eq!((set.has(path), set.covers(path)), (has, covers), "{path:?}");
        }
        let above = PathSet::above([b"/w/d/e".as_slice()]);
        assert!(above.has(b"/w") && above.has(b"/w/d") && !above.has(b"/w/d/e") && !above.has(b""));
    }
}
