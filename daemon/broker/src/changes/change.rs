//! Changes of files. The cell prepares a change and sends what it would replace, which goes into an
//! undo record. The change is then committed whole or not at all. Runs in the broker.

mod effects;
mod exchange;
mod explained;
mod held;
mod leave;
mod losses;
mod preview;
mod wanted;

pub(crate) use effects::{MOST_LISTED, described, kept, one, previewed, summary};
pub(crate) use held::{CommitResult, PreparedChange};
pub(crate) use leave::ChangeClearance;
pub(crate) use losses::{assessed, losses, losses_of_undo};
pub(crate) use preview::{DIFF, preview, preview_on};
pub(crate) use wanted::{Author, paths_of_undo};

use crate::{
    base::{
        attachment::Attachment,
        error::CallError,
        outcome::Outcome,
        task::{ChangeTask, Content},
    },
    cells::{
        commit_lock::CommitTurn,
        context::{Context, Deadline},
        files::FileChannels,
    },
};
use palisade_plan::change::{Changed, EvidenceDepth};
use palisade_policy::Reason;
use palisade_protocol::{JsonText, ToolName};

/// Makes a change. Stops at the deadline or when cancelled, until the commit begins.
pub(crate) async fn run(
    task: &ChangeTask,
    tool: &ToolName,
    leave: &ChangeClearance,
    mut context: Context,
    deadline: Deadline,
) -> Outcome {
    let mut input = context.input.take();
    let files = context.session.cell.files.clone();
    let session = std::sync::Arc::clone(&context.session);
    let mut turn = session.files.commits.turn();
    // While the client sends content, others may commit: the lock is taken with the last piece.
    if !matches!(task, ChangeTask::Write { content: Content::Attached, .. }) {
        tokio::select! {
            biased;
            () = turn.take() => {}
            stop = Context::stopped(&context.cancel, deadline) => return stop.into(),
        }
    }
    let wanted = (tool, leave.evidence());
    let attached = input.as_mut().map(|input| (input, &mut turn));
    let done = match prepare_on(&files, task, wanted, attached, &context, deadline).await {
        Ok(_) if !turn.is_held() => Err(session.channel_error("it answered before the content")),
        Ok(prepared) => prepared.commit(task, leave, &context, deadline).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(CommitResult::Changed { changed, undo, reasons }) => {
            outcome(task, &changed, undo, &reasons)
        }
        Ok(CommitResult::Unknown(outcome, _)) => *outcome,
        Err(error) => error.into(),
    }
}

/// Prepares a change on these channels. Stops at the deadline or when cancelled. `input` is the
/// content that the client sends, with the turn whose lock is taken before the last piece.
pub(crate) async fn prepare_on(
    files: &FileChannels,
    task: &ChangeTask,
    tool: (&ToolName, EvidenceDepth),
    input: Option<(&mut Attachment, &mut CommitTurn<'_>)>,
    context: &Context,
    deadline: Deadline,
) -> Result<PreparedChange, CallError> {
    tokio::select! {
        biased;
        change = PreparedChange::prepare(files, task, tool, (context, input)) => change,
        stop = Context::stopped(&context.cancel, deadline) => Err(stop),
    }
}

fn outcome(
    task: &ChangeTask,
    changed: &Changed,
    undo: Option<String>,
    reasons: &[(Vec<u8>, Reason)],
) -> Outcome {
    let mut data = described(&changed.effects);
    data["kept"] = kept(reasons);
    let mut output = summary(task, &changed.effects);
    if !changed.notes.is_empty() {
        data["notes"] = changed.notes.clone().into();
        changed.notes.iter().for_each(|note| output.push_str(&format!("{note}\n")));
    }
    if let ChangeTask::Edit { .. } = task {
        data["replacements"] = changed.replacements.into();
        if changed.replacements > 1 {
            output.push_str(&format!("replaced {} occurrences\n", changed.replacements));
        }
    }
    match JsonText::render(&data) {
        Ok(data) => Outcome { output, data: Some(data), undo, ..Outcome::default() },
        Err(error) => Outcome { undo, ..CallError::Io(error.into()).into() },
    }
}
