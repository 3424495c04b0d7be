//! The changes of a command, with its losses and the conflicts with changes from outside. Runs in
//! the broker. Pure: no I/O.

use super::{undo_room::UndoRoom, unsettled::UnsettledCall};
use crate::{
    base::{path_set::PathSet, preview::Preview},
    changes::change::assessed,
};
use palisade_plan::change::{Conflict, Effect};
use palisade_policy::{CONFLICT, Facts, UndoRecord};
use palisade_protocol::{Finding, Severity};
use palisade_text::escape_bytes;

/// The changes of a command, and the facts for judging them.
#[derive(Debug)]
pub(super) struct ChangeSet {
    pub(super) preview: Preview,
    pub(super) facts: Facts,
    /// The room that undo has for the replaced content.
    pub(super) room: UndoRoom,
}

impl ChangeSet {
    pub(super) fn new(of: &UnsettledCall, preview: Preview, room: UndoRoom) -> Self {
        let facts = facts(of, &preview, &room);
        Self { preview, facts, room }
    }

    /// Returns the effects that need approval; all of them where a rule asks.
    pub(super) fn asked(&self) -> Vec<&Effect> {
        let found = self.facts.findings.iter();
        let targets: PathSet<'_> =
            found.flat_map(|found| found.targets.iter().map(String::as_bytes)).collect();
        let lost =
            |effect: &&Effect| targets.covers(String::from_utf8_lossy(&effect.path.0).as_bytes());
        let asked: Vec<&Effect> = self.preview.effects.iter().filter(lost).collect();
        if asked.is_empty() { self.preview.effects.iter().collect() } else { asked }
    }
}

/// Returns the facts for the judge: the changed paths, and the losses.
pub(super) fn facts(of: &UnsettledCall, preview: &Preview, room: &UndoRoom) -> Facts {
    let (session, tool) = (&of.context.session, &of.tool.spec.name);
    let assessed = assessed(session, tool, preview, &of.approved, room.record());
    let mut findings = assessed.findings;
    findings.extend(preview.conflicts.iter().map(contested));
    if assessed.needs_undo {
        findings.splice(0..0, room.loss());
    }
    let is_permanent = room.record() == UndoRecord::Unavailable;
    Facts { paths: preview.paths(), findings, is_permanent, ..session.places() }
}

fn contested(conflict: &Conflict) -> Finding {
    let Conflict { path, theirs, ours } = conflict;
    let why = format!(
        "another program changed {} while the command ran: there is {theirs} now, and the command \
         left {ours}",
        escape_bytes(&path.0)
    );
    let targets = vec![String::from_utf8_lossy(&path.0).into_owned()];
    Finding { targets, ..Finding::new(CONFLICT, Severity::Warning, why) }
}
