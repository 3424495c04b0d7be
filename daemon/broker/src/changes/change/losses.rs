//! Assesses what a change would lose, with what the session remembers. Runs in the broker.

use super::wanted::Author;
use crate::{
    base::{preview::Preview, task::ChangeTask},
    cells::session::Session,
};
use palisade_plan::change::{Effect, Version};
use palisade_policy::{Assessment, DESTRUCTIVE, LossContext, UndoRecord, assess};
use palisade_protocol::{Finding, Severity, ToolName};

/// Assesses a change. `approved` lists files whose loss was approved before the call ran.
pub(crate) fn assessed(
    session: &Session,
    tool: &ToolName,
    preview: &Preview,
    approved: &[Version],
    undo: UndoRecord,
) -> Assessment {
    let memory = session.memory();
    let context = LossContext {
        profile: &session.profile,
        tool,
        workspace: &session.workspace.0,
        memory: &memory,
        approved,
        undo,
    };
    assess(context, &preview.effects, &preview.evidence)
}

/// The findings of a file tool's change that need approval: its losses and plants.
pub(crate) fn losses(
    session: &Session,
    tool: &ToolName,
    task: &ChangeTask,
    preview: &Preview,
) -> Vec<Finding> {
    let undo = if task.is_kept() { UndoRecord::Kept } else { UndoRecord::Unavailable };
    assessed(session, tool, preview, &[], undo).findings
}

/// The losses of an undo. If everything is as the session's own calls left it, only their work is
/// lost. The exception is a file of a git repository that by now keeps the bytes of deleted files.
pub(crate) fn losses_of_undo(
    session: &Session,
    tool: &ToolName,
    task: &ChangeTask,
    preview: &Preview,
    (author, force): (Author, bool),
) -> Vec<Finding> {
    match (author, force) {
        (Author::Itself, false) => pinned(session, tool, preview),
        (Author::Itself | Author::Others, _) => losses(session, tool, task, preview),
    }
}

/// A finding for each file of a repository that keeps bytes of deleted or replaced files.
fn pinned(session: &Session, tool: &ToolName, preview: &Preview) -> Vec<Finding> {
    let memory = session.memory();
    let of = |effect: &Effect| {
        let git_dir =
            String::from_utf8_lossy(memory.pinned_repository(&effect.path.0)?).into_owned();
        let path = String::from_utf8_lossy(&effect.path.0).into_owned();
        let why = format!(
            "{tool} changes {path:?}, and {git_dir:?} keeps files that the session deleted or replaced"
        );
        let targets = vec![path];
        Some(Finding { targets, ..Finding::new(DESTRUCTIVE, Severity::Warning, why) })
    };
    preview.effects.iter().filter_map(of).collect()
}
