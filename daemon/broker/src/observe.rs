//! What a profile that is only observed would have refused to a call: of what its programs used, as
//! their runner noted it, and of what a tool is about. Broker, pure.

use crate::{ended::Ended, session::Session, why::Touched};
use palisade_plan::record::{Kind, Noted, Recorded, Right};
use palisade_policy::{Act, would_refuse, would_refuse_tool};
use palisade_protocol::{Denial, ToolSpec};

/// How many different ones of one call are told; the rest is counted.
const MOST: usize = 64;

/// Of what a tool is about, by its arguments.
pub(crate) fn asked(session: &Session, tool: &ToolSpec, touched: &Touched) -> Vec<Denial> {
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

/// Of what a program used.
pub(crate) fn used(session: &Session, recorded: &Recorded, ended: &mut Ended) {
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
        ended.unrecorded =
            format!("{left_out} accesses of this call were not held against the observed profile");
    }
}

/// What a note is an attempt of; none of what was only looked for, or is not there.
fn act(note: &Noted) -> Option<(Act, &str)> {
    let act = match (note.right, note.kind) {
        (Right::Read | Right::Execute, Kind::Missing) | (Right::Look | Right::Bind, _) => {
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
        let noted = |right, kind| Noted { right, path: Path(b"/a".to_vec()), kind };
        for (right, kind, expected) in [
            (Right::Look, Kind::File, None),
            (Right::Read, Kind::Missing, None),
            (Right::Execute, Kind::Missing, None),
            (Right::Read, Kind::File, Some(Act::Read)),
            // What is made was not there before.
            (Right::Write, Kind::Missing, Some(Act::Write)),
            (Right::Execute, Kind::File, Some(Act::Execute)),
            (Right::Connect, Kind::Address, Some(Act::Connect)),
        ] {
            assert_eq!(
                act(&noted(right, kind)).map(|(act, _)| act),
                expected,
                "{right:?} {kind:?}"
            );
        }
        let note = Noted { right: Right::Read, path: Path(b"/\xff".to_vec()), kind: Kind::File };
        assert_eq!(act(&note), None);
    }
}
