//! Changes of files: prepared by the cell, what they would lose kept, then done whole or not at
//! all. Broker.

mod effects;
mod exchange;
mod held;
mod leave;
mod losses;
mod preview;
mod wanted;

pub(crate) use effects::{conflict, described, file_change, one, previewed, summary};
pub(crate) use held::{Done, Held};
pub(crate) use leave::Leave;
pub(crate) use losses::{losses, losses_of_undo};
pub(crate) use preview::{DIFF, Preview, preview, preview_on};
pub(crate) use wanted::{Author, paths_of_undo};

use crate::{
    context::{Attachment, Context, Deadline},
    error::CallError,
    files::FileChannels,
    outcome::Outcome,
    session::Session,
    task::ChangeTask,
    undo::UndoError,
};
use palisade_plan::{
    Path,
    cell::FileErrorKind,
    change::{Changed, Effect, EffectKind, Print},
};
use palisade_protocol::{JsonText, ToolName};
use std::collections::HashMap;

/// Makes a change; stops at the deadline or when cancelled, until it is being done.
pub(crate) async fn run(
    task: &ChangeTask,
    tool: &ToolName,
    leave: &Leave,
    mut context: Context,
    deadline: Deadline,
) -> Outcome {
    let input = context.input.take();
    let files = context.session.files.clone();
    let done = match prepare_on(&files, task, tool, input, &context, deadline).await {
        Ok(prepared) => prepared.commit(task, leave, &context, deadline).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(Done::Changed { changed, undo }) => told(task, &changed, undo),
        Ok(Done::Unknown(outcome, _)) => *outcome,
        Err(error) => error.into(),
    }
}

/// Has a change prepared on these channels; stops at the deadline or when cancelled.
pub(crate) async fn prepare_on(
    files: &FileChannels,
    task: &ChangeTask,
    tool: &ToolName,
    mut input: Option<Attachment>,
    context: &Context,
    deadline: Deadline,
) -> Result<Held, CallError> {
    tokio::select! {
        biased;
        prepared = Held::prepare(files, task, tool, (context, input.as_mut())) => prepared,
        stop = Context::stopped(&context.cancel, deadline) => Err(stop),
    }
}

/// What an effect leaves at its path, and where something was moved from.
fn left(effect: &Effect) -> Vec<(Path, Print)> {
    let there = (effect.path.clone(), effect.print.clone());
    match &effect.kind {
        EffectKind::Moved { from } => vec![(from.clone(), Print::Absent), there],
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Deleted { .. }
        | EffectKind::Mode
        | EffectKind::Touched => vec![there],
        EffectKind::Special => Vec::new(),
    }
}

fn told(task: &ChangeTask, changed: &Changed, undo: Option<String>) -> Outcome {
    match JsonText::render(&described(&changed.effects)) {
        Ok(data) => Outcome {
            output: summary(task, &changed.effects),
            data: Some(data),
            undo,
            ..Outcome::default()
        },
        Err(error) => Outcome { undo, ..CallError::Io(error.into()).into() },
    }
}

/// Files whose contents are all the session's own are its own until somebody changes them.
fn note(session: &Session, task: &ChangeTask, changed: &Changed) {
    // What is put back is what somebody else had there.
    if matches!(task, ChangeTask::Undo { .. }) {
        return;
    }
    let effects: HashMap<&Path, &Effect> =
        changed.effects.iter().map(|effect| (&effect.path, effect)).collect();
    for (path, version) in &changed.wrote {
        let Some(effect) = effects.get(path) else { continue };
        let own = || effect.replaces.is_some_and(|before| session.wrote(before));
        let is_own = match effect.kind {
            EffectKind::Created | EffectKind::Replaced => true,
            EffectKind::Appended | EffectKind::Edited | EffectKind::Mode | EffectKind::Touched => {
                own()
            }
            EffectKind::Moved { .. } | EffectKind::Deleted { .. } | EffectKind::Special => false,
        };
        if is_own {
            session.note_written(*version);
        }
    }
}

/// An error with what can be done about it, where that depends on the task.
fn explained(task: &ChangeTask, error: CallError) -> CallError {
    let CallError::File(failure) = error else { return error };
    match (task, failure.kind) {
        (ChangeTask::Undo { .. }, FileErrorKind::Conflict) => CallError::Changing {
            failure,
            hint: "look at what is there now; force: true undoes it all the same, which loses that",
        },
        (ChangeTask::Delete { .. }, FileErrorKind::TooLarge) => CallError::Changing {
            failure,
            hint: "permanent: true deletes it for good, with nothing kept for undo; limits.undo of \
                   the profile bounds what is kept",
        },
        (ChangeTask::Settle { .. }, FileErrorKind::Conflict) => CallError::Changing {
            failure,
            hint: "somebody changed it while the command ran; look at it and make the call again",
        },
        (ChangeTask::Move { .. }, FileErrorKind::AlreadyExists) => {
            CallError::Changing { failure, hint: "choose another name, or overwrite: true" }
        }
        _ => CallError::File(failure),
    }
}

impl From<UndoError> for CallError {
    fn from(error: UndoError) -> Self {
        Self::Refused(error.into())
    }
}
