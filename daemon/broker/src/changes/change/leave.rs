//! Compares what a change was cleared for with what it turns out to do. Runs in the broker.

use super::losses;
use crate::{
    base::{
        error::CallError,
        path_set::PathSet,
        preview::{Preview, touched},
        task::ChangeTask,
    },
    cells::session::Session,
};
use palisade_plan::change::{Effect, EffectKind, EvidenceDepth, Print};
use palisade_protocol::{Ask, Finding, ToolName};
use std::collections::HashSet;

/// The clearance of a change: the effects that it may have.
#[derive(Debug)]
pub(crate) enum ChangeClearance {
    /// Exactly the effects that an approver was shown, by their digest.
    Shown([u8; 32]),
    /// The effects that the judge knew of.
    Judged {
        tool: ToolName,
        /// The depth of the evidence about what existed before the change.
        evidence: EvidenceDepth,
        /// The losses that were known.
        losses: Vec<Finding>,
        /// The paths that the change was known to touch.
        paths: Vec<Vec<u8>>,
    },
}

impl ChangeClearance {
    /// Returns the depth of the evidence to collect when the change is prepared again.
    pub(super) const fn evidence(&self) -> EvidenceDepth {
        match self {
            Self::Shown(_) => EvidenceDepth::Full,
            Self::Judged { evidence, .. } => *evidence,
        }
    }

    /// Checks that a change does no more than it was cleared for.
    pub(super) fn check(
        &self,
        session: &Session,
        task: &ChangeTask,
        prepared: &Preview,
    ) -> Result<(), CallError> {
        let (tool, evidence, known, paths) = match self {
            Self::Shown(digest) if *digest == prepared.digest => return Ok(()),
            Self::Shown(_) => {
                let what = "the effects of the call have changed";
                return Err(CallError::Stale(what.to_owned()));
            }
            Self::Judged { tool, evidence, losses, paths } => (tool, evidence, losses, paths),
        };
        let profile = &session.profile;
        if profile.has_path_rules() {
            check_paths_judged(paths, prepared)?;
        }
        let nobody_asks = session.ask.max(profile.ask()) == Ask::Never && !profile.has_rules();
        if nobody_asks {
            return Ok(());
        }
        // An undo has only the losses that were judged: without `force` it fails where it finds
        // others.
        if matches!(task, ChangeTask::Undo { force: false, .. }) {
            return match evidence {
                EvidenceDepth::Full => Ok(()),
                EvidenceDepth::Paths => check_nothing_pinned(session, prepared),
            };
        }
        let known: HashSet<_> = known.iter().flat_map(|finding| &finding.targets).collect();
        let found = losses(session, tool, task, prepared);
        match found.iter().flat_map(|finding| &finding.targets).find(|path| !known.contains(path)) {
            None => Ok(()),
            Some(path) => Err(CallError::Unforeseen(format!("{path:?} would also be lost"))),
        }
    }
}

/// Checks that no repository that the change touches keeps bytes of deleted files. When it was
/// judged, none did; another session may have come to rely on one since.
fn check_nothing_pinned(session: &Session, prepared: &Preview) -> Result<(), CallError> {
    let memory = session.memory();
    match touched(&prepared.effects).find(|path| memory.pinned_repository(path).is_some()) {
        None => Ok(()),
        Some(path) => {
            let path = String::from_utf8_lossy(path);
            Err(CallError::Unforeseen(format!("{path:?} now keeps bytes of deleted files")))
        }
    }
}

/// Checks that the rules have seen every path that the change touches. Parent directories that have
/// to be created are part of what was asked for.
fn check_paths_judged(paths: &[Vec<u8>], prepared: &Preview) -> Result<(), CallError> {
    let paths = || paths.iter().map(Vec::as_slice);
    let (judged, above) = (paths().collect::<PathSet<'_>>(), PathSet::above(paths()));
    let is_new =
        |effect: &&Effect| effect.kind == EffectKind::Created && effect.print == Print::Directory;
    let made = prepared.effects.iter().filter(is_new).map(|effect| effect.path.0.as_slice());
    let made: PathSet<'_> = made.collect();
    let is_judged = |path: &[u8]| judged.has(path) || (made.has(path) && above.has(path));
    match touched(&prepared.effects).find(|path| !is_judged(path)) {
        None => Ok(()),
        Some(path) => {
            let path = String::from_utf8_lossy(path);
            Err(CallError::Unforeseen(format!("the call would now change {path:?}")))
        }
    }
}
