//! Finds grants that add nothing to the grants of directories above them. Pure: no I/O.

use crate::{Access, Grant};
use std::{collections::HashMap, path::Path};

impl Access {
    /// Returns `true` if this access includes everything that another one allows.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Write, _)
            | (_, Self::List)
            | (Self::Read | Self::Execute | Self::Device, Self::Read)
            | (Self::Execute, Self::Execute)
            | (Self::Device, Self::Device) => true,
            (Self::List, Self::Read | Self::Execute | Self::Write | Self::Device)
            | (Self::Read, Self::Execute | Self::Write | Self::Device)
            | (Self::Execute, Self::Write | Self::Device)
            | (Self::Device, Self::Execute | Self::Write) => false,
        }
    }
}

/// The access that is granted at each path.
#[derive(Debug)]
pub struct Cover<'a>(HashMap<&'a Path, Vec<Access>>);

impl<'a> Cover<'a> {
    /// Collects the access that all grants together give.
    #[must_use]
    pub fn of(grants: &'a [Grant]) -> Self {
        let mut given: HashMap<&Path, Vec<Access>> = HashMap::with_capacity(grants.len());
        for grant in grants {
            given.entry(grant.path.as_path()).or_default().push(grant.access);
        }
        Self(given)
    }

    /// Returns `true` if a directory above a grant's path is granted at least as much. Paths are
    /// compared as text, which is right only if no part of the path is a symbolic link. A mount in
    /// between changes nothing, since Landlock rules apply across mounts.
    #[must_use]
    pub fn has(&self, grant: &Grant) -> bool {
        let above = grant.path.as_path().ancestors().skip(1);
        above.filter_map(|path| self.0.get(path)).flatten().any(|given| given.covers(grant.access))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MissingPath;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const ALL: [Access; 5] =
        [Access::List, Access::Read, Access::Execute, Access::Write, Access::Device];

    /// Returns the rights that an access consists of, as the cell translates it.
    fn rights(access: Access) -> BTreeSet<&'static str> {
        let names: &[&str] = match access {
            Access::List => &["list"],
            Access::Read => &["list", "read"],
            Access::Execute => &["list", "read", "run"],
            Access::Device => &["list", "read", "write", "control"],
            Access::Write => &["list", "read", "run", "write", "control", "make", "remove"],
        };
        names.iter().copied().collect()
    }

    fn grant(path: &str, access: Access) -> Grant {
        Grant { path: path.into(), access, missing: MissingPath::Refuse }
    }

    /// Returns the rights that rules give to a path: those for the path and for everything above
    /// it.
    fn given(grants: &[&Grant], path: &Path) -> BTreeSet<&'static str> {
        let over = grants.iter().filter(|grant| path.starts_with(grant.path.as_path()));
        over.flat_map(|grant| rights(grant.access)).collect()
    }

    #[test]
    fn a_kind_of_access_covers_what_it_has_all_rights_of() {
        for (a, b) in ALL.into_iter().flat_map(|a| ALL.map(|b| (a, b))) {
            assert_eq!(a.covers(b), rights(a).is_superset(&rights(b)), "{a:?} {b:?}");
        }
    }

    #[test]
    fn only_a_directory_above_covers_and_not_one_whose_name_begins_alike() {
        let grants = [grant("/w", Access::Write), grant("/w/a", Access::Read)];
        let cover = Cover::of(&grants);
        assert!(cover.has(&grants[1]) && !cover.has(&grants[0]));
        assert!(!cover.has(&grant("/wa", Access::Read)));
        assert!(!cover.has(&grant("/w", Access::Read)), "a path is not above itself");
        assert!(Cover::of(&[grant("/", Access::List)]).has(&grant("/a", Access::List)));
        assert!(!Cover::of(&[grant("/", Access::List)]).has(&grant("/a", Access::Read)));
    }

    fn path() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "ab"]), 0..5)
            .prop_map(|parts| format!("/{}", parts.join("/")))
    }

    proptest! {
        #[test]
        fn nothing_is_given_or_taken_by_leaving_out_what_is_covered(
            grants in prop::collection::vec((path(), prop::sample::select(ALL.to_vec())), 0..24),
            paths in prop::collection::vec(path(), 1..24),
        ) {
            let grants: Vec<_> = grants.iter().map(|(path, access)| grant(path, *access)).collect();
            let cover = Cover::of(&grants);
            let all: Vec<_> = grants.iter().collect();
            let left: Vec<_> = grants.iter().filter(|grant| !cover.has(grant)).collect();
            for path in paths.iter().map(Path::new) {
                prop_assert_eq!(given(&all, path), given(&left, path), "{:?}", path);
            }
        }
    }
}
