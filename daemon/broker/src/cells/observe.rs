//! Finds what a profile that is only observed, not enforced, would have denied to a call. It judges
//! the accesses that the runner recorded of the call's programs, and the paths in a tool's
//! arguments. Runs in the broker. Pure: no I/O.

use crate::{
    base::ended::ProgramEnd,
    cells::{session::Session, why::AccessedPaths},
};
use palisade_plan::record::{Recorded, RecordedUse, Right, TargetKind};
use palisade_policy::{Act, would_refuse, would_refuse_tool};
use palisade_protocol::{Denial, ToolSpec};

/// The most different denials reported for one call; the rest is counted.
const MOST: usize = 64;

/// Returns the denials that the observed profile would have for a tool call, judged by its
/// arguments.
pub(crate) fn asked(session: &Session, tool: &ToolSpec, touched: &AccessedPaths) -> Vec<Denial> {
    let (profile, scene) = (&session.profile, &session.scene);
    let of_path = |(act, path): (Act, &[u8])| {
        let path = String::from_utf8(session.absolute(path)).ok()?;
        would_refuse(profile, scene, act, &path)
    };
    would_refuse_tool(profile, tool)
        .into_iter()
        .chain(touched.each().filter_map(of_path))
        .take(MOST)
        .collect()
}

/// Adds to `ended` the denials that the observed profile would have for a program's recorded
/// accesses.
pub(crate) fn used(session: &Session, recorded: &Recorded, ended: &mut ProgramEnd) {
    if session.profile.observed_under().is_none() {
        return;
    }
    let mut left_out = recorded.lost;
    for note in &recorded.noted {
        let Some((act, target)) = act(note) else { continue };
        let would = would_refuse(&session.profile, &session.scene, act, target);
        match would {
            Some(would) if ended.observed.contains(&would) => {}
            Some(_) if ended.observed.len() >= MOST => left_out += 1,
            Some(would) => ended.observed.push(would),
            None => {}
        }
    }
    if left_out > 0 {
        ended.unrecorded = format!(
            "{left_out} accesses of this call were not checked against the observed profile"
        );
    }
}

/// Maps a recorded access to the act it attempts; `None` for lookups and for missing files.
fn act(note: &RecordedUse) -> Option<(Act, &str)> {
    let act = match (note.right, note.kind) {
        (Right::Read | Right::Execute, TargetKind::Missing)
        | (Right::Look | Right::Bind | Right::Trace, _) => {
            return None;
        }
        (Right::Read, _) => Act::Read,
        (Right::Write, _) => Act::Write,
        (Right::Execute, _) => Act::Execute,
        (Right::Connect, _) => Act::Connect,
    };
    Some((act, std::str::from_utf8(&note.path.0).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::Path;

    #[test]
    fn what_was_only_looked_for_or_is_not_there_is_no_attempt() {
        let noted = |right, kind| RecordedUse { right, path: Path(b"/a".to_vec()), kind };
        for (right, kind, expected) in [
            (Right::Look, TargetKind::File, None),
            (Right::Read, TargetKind::Missing, None),
            (Right::Execute, TargetKind::Missing, None),
            (Right::Read, TargetKind::File, Some(Act::Read)),
            // A file that is created was missing before.
            (Right::Write, TargetKind::Missing, Some(Act::Write)),
            (Right::Execute, TargetKind::File, Some(Act::Execute)),
            (Right::Connect, TargetKind::Address, Some(Act::Connect)),
        ] {
            assert_eq!(
                act(&noted(right, kind)).map(|(act, _)| act),
                expected,
                "{right:?} {kind:?}"
            );
        }
        let note = RecordedUse {
            right: Right::Read,
            path: Path(b"/\xff".to_vec()),
            kind: TargetKind::File,
        };
        assert_eq!(act(&note), None);
    }
}
