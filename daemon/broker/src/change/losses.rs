//! What a change would lose that is not the session's own, for the judge. Broker, pure.

use super::wanted::Author;
use crate::session::Session;
use palisade_plan::change::{Effect, EffectKind, Version};
use palisade_protocol::{Finding, Severity, ToolName};

/// Findings for whatever would be lost. Edits name what they replace, and lose nothing unseen; what
/// the session itself wrote is its own.
pub(crate) fn losses(session: &Session, tool: &ToolName, effects: &[Effect]) -> Vec<Finding> {
    found(tool, effects, |version| session.wrote(version))
}

/// An undo that finds everything as the session's own calls left it loses only their work.
pub(crate) fn losses_of_undo(
    session: &Session,
    tool: &ToolName,
    effects: &[Effect],
    author: Author,
    force: bool,
) -> Vec<Finding> {
    match (author, force) {
        (Author::Itself, false) => Vec::new(),
        (Author::Itself | Author::Others, _) => losses(session, tool, effects),
    }
}

fn found(tool: &ToolName, effects: &[Effect], own: impl Fn(Version) -> bool) -> Vec<Finding> {
    let lost = |effect: &&Effect| match effect.kind {
        EffectKind::Replaced => !effect.replaces.is_some_and(&own),
        EffectKind::Moved { .. } => effect.replaces.is_some_and(|version| !own(version)),
        EffectKind::Deleted { .. } => true,
        EffectKind::Created
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => false,
    };
    effects.iter().filter(lost).map(|effect| finding(tool, effect)).collect()
}

fn finding(tool: &ToolName, effect: &Effect) -> Finding {
    let shown = String::from_utf8_lossy(&effect.path.0).into_owned();
    let why = match effect.kind {
        EffectKind::Deleted { entries } if entries > 1 => {
            format!("{tool} deletes {shown:?} with everything in it, {entries} entries")
        }
        EffectKind::Deleted { .. } => format!("{tool} deletes {shown:?}"),
        EffectKind::Moved { .. } => format!("{tool} moves something over {shown:?}"),
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Mode
        | EffectKind::Touched
        | EffectKind::Special => format!("{tool} replaces the file {shown:?}"),
    };
    let targets = vec![shown];
    Finding { targets, ..Finding::new("destructive", Severity::Warning, why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{Path, change::Print};

    fn effect(kind: EffectKind, replaces: Option<u64>) -> Effect {
        Effect {
            path: Path(b"/w/f".to_vec()),
            kind,
            size_before: 1,
            size_after: 2,
            print: Print::Absent,
            replaces: replaces.map(version),
            below: None,
        }
    }

    fn version(ino: u64) -> Version {
        Version { dev: 1, ino, ctime: (1, 1) }
    }

    #[test]
    fn what_somebody_else_had_there_is_lost_and_the_rest_is_not() {
        let moved = || EffectKind::Moved { from: Path(b"/w/g".to_vec()) };
        let deleted = |entries| EffectKind::Deleted { entries };
        for (kind, replaces, expected) in [
            (EffectKind::Created, None, None),
            (EffectKind::Replaced, Some(7), None),
            (EffectKind::Replaced, Some(8), Some("x replaces the file \"/w/f\"")),
            (EffectKind::Replaced, None, Some("x replaces the file \"/w/f\"")),
            (EffectKind::Appended, Some(8), None),
            (EffectKind::Edited, Some(8), None),
            (EffectKind::Mode, Some(8), None),
            (moved(), None, None),
            (moved(), Some(7), None),
            (moved(), Some(8), Some("x moves something over \"/w/f\"")),
            (deleted(1), Some(7), Some("x deletes \"/w/f\"")),
            (deleted(3), None, Some("x deletes \"/w/f\" with everything in it, 3 entries")),
        ] {
            let own = |found: Version| found == version(7);
            let findings = found(&"x".parse().unwrap(), &[effect(kind.clone(), replaces)], own);
            let whys: Vec<&str> = findings.iter().map(|found| found.why.as_str()).collect();
            assert_eq!(whys, expected.into_iter().collect::<Vec<_>>(), "{kind:?} {replaces:?}");
            assert!(findings.iter().all(|found| found.targets == ["/w/f"]));
        }
    }
}
