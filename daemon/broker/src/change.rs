//! Changes of files: prepared by the cell, what they would lose kept, then done whole or not at
//! all. Broker.

mod effects;
mod exchange;
mod explained;
mod held;
mod leave;
mod losses;
mod preview;
mod wanted;

pub(crate) use effects::{TOLD, described, file_change, one, previewed, summary, word};
pub(crate) use held::{Done, Held};
pub(crate) use leave::Leave;
pub(crate) use losses::{losses, losses_of_undo};
pub(crate) use preview::{DIFF, Preview, preview, preview_on};
pub(crate) use wanted::{Author, paths_of_undo};

use crate::{
    attachment::Attachment,
    context::{Context, Deadline},
    error::CallError,
    files::FileChannels,
    outcome::Outcome,
    task::ChangeTask,
};
use palisade_plan::change::Changed;
use palisade_protocol::{JsonText, ToolName};

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
