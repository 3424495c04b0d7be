//! What a change was cleared for, held against what it turns out to do. Broker.

use super::{
    losses,
    preview::{Preview, touched},
};
use crate::{error::CallError, session::Session, task::ChangeTask};
use palisade_plan::change::{EffectKind, Print};
use palisade_protocol::{Ask, Finding, ToolName};

/// What a change was cleared for.
#[derive(Debug)]
pub(crate) enum Leave {
    /// Exactly what an approver was shown.
    Shown([u8; 32]),
    /// What the judge knew of it.
    Judged {
        tool: ToolName,
        /// What it was known to lose.
        losses: Vec<Finding>,
        /// The paths that it was known to be about.
        paths: Vec<Vec<u8>>,
    },
}

impl Leave {
    /// Whether a change does no more than it was cleared for.
    pub(super) fn check(
        &self,
        session: &Session,
        task: &ChangeTask,
        prepared: &Preview,
    ) -> Result<(), CallError> {
        let (tool, known, paths) = match self {
            Self::Shown(digest) if *digest == prepared.digest => return Ok(()),
            Self::Shown(_) => {
                let what = "what the call would change is not what it was";
                return Err(CallError::Stale(what.to_owned()));
            }
            Self::Judged { tool, losses, paths } => (tool, losses, paths),
        };
        let profile = &session.profile;
        if profile.has_path_rules() {
            foreseen(paths, prepared)?;
        }
        let nobody_asks = session.ask.max(profile.ask()) == Ask::Never && !profile.has_rules();
        // An undo has no other losses than those that were judged: it refuses where it finds others.
        if nobody_asks || matches!(task, ChangeTask::Undo { force: false, .. }) {
            return Ok(());
        }
        let known = |path: &String| known.iter().any(|finding| finding.targets.contains(path));
        let found = losses(session, tool, &prepared.effects);
        match found.iter().flat_map(|finding| &finding.targets).find(|target| !known(target)) {
            None => Ok(()),
            Some(path) => Err(CallError::Unforeseen(format!("{path:?} would be lost as well"))),
        }
    }
}

/// Every path was there for the rules to see. Directories above them that have to be made are no
/// more than what was asked for.
fn foreseen(paths: &[Vec<u8>], prepared: &Preview) -> Result<(), CallError> {
    let above = |path: &[u8]| {
        let made = prepared.effects.iter().any(|effect| {
            effect.path.0 == path
                && effect.kind == EffectKind::Created
                && effect.print == Print::Directory
        });
        let below =
            |known: &Vec<u8>| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
        made && paths.iter().any(below)
    };
    let mut touched = touched(&prepared.effects);
    match touched.find(|path| !paths.iter().any(|known| known == path) && !above(path)) {
        None => Ok(()),
        Some(path) => {
            let path = String::from_utf8_lossy(path);
            Err(CallError::Unforeseen(format!("{path:?} is where it leads now")))
        }
    }
}
