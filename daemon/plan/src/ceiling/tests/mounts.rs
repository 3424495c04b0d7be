//! Tests which of a plan's mounts decides about a grant, against the definition.

use super::*;
use proptest::prelude::*;
use std::path::Path;

/// The kinds of mounts, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlannedMount {
    Private,
    Writable,
    ReadOnly,
}

const KINDS: [PlannedMount; 3] =
    [PlannedMount::Private, PlannedMount::Writable, PlannedMount::ReadOnly];

fn place() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "ab"]), 0..4).prop_map(|parts| {
        parts.iter().fold("/srv".to_owned(), |path, part| format!("{path}/{part}"))
    })
}

proptest! {
    #[test]
    fn the_innermost_mount_decides_and_of_two_at_one_place_the_stricter(
        mounts in prop::collection::vec((place(), prop::sample::select(KINDS.to_vec())), 0..12),
        written in place(),
    ) {
        let over = mounts.iter().filter(|(at, _)| Path::new(&written).starts_with(at));
        let innermost = over.max_by_key(|(at, kind)| (at.len(), *kind));
        let is_covered = innermost.is_some_and(|(_, kind)| *kind != PlannedMount::ReadOnly);
        let checked = check(|plan| {
            for (at, kind) in &mounts {
                match kind {
                    PlannedMount::Private => plan.tmpfs.push(tmpfs(at, 1 << 20)),
                    PlannedMount::Writable => plan.binds.push(bind(at, Access::Write)),
                    PlannedMount::ReadOnly => plan.binds.push(bind(at, Access::Read)),
                }
            }
            plan.grants.push(grant(&written, Access::Write));
        });
        let expected =
            if is_covered { Ok(()) } else { Err(CeilingError::Uncovered(written.into())) };
        prop_assert_eq!(checked, expected);
    }
}
