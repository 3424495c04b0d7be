//! Changes of files: prepared by the cell, what they would lose kept, then done whole or not at
//! all. Broker.

mod effects;
mod exchange;
mod leave;
mod losses;
mod preview;
mod wanted;

pub(crate) use effects::{conflict, described, file_change, one, previewed, summary};
pub(crate) use leave::Leave;
pub(crate) use losses::{losses, losses_of_undo};
pub(crate) use preview::{DIFF, Preview, preview, preview_on};
pub(crate) use wanted::{Author, paths_of_undo};

use crate::{
    context::{Attachment, Context, Deadline},
    error::CallError,
    files::{FileChannels, Lease},
    outcome::Outcome,
    session::Session,
    task::ChangeTask,
    undo::{Begun, CALL_ENTRIES, UndoError, Writing},
};
use palisade_plan::{
    Path,
    cell::{FileErrorKind, FileReply, FileRequest},
    change::{Change, Changed, Effect, EffectKind, Keep, Print},
};
use palisade_protocol::{JsonText, ToolName};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;
use wanted::Wanted;

/// How long the cell has beyond the call's own time to do what was prepared. It is not stopped
/// half-way.
const COMMIT: Duration = Duration::from_secs(30);

/// Makes a change; stops at the deadline or when cancelled, until it is being done.
pub(crate) async fn run(
    task: &ChangeTask,
    tool: &ToolName,
    leave: &Leave,
    mut context: Context,
    deadline: Deadline,
) -> Outcome {
    let mut input = context.input.take();
    let files = &context.session.files;
    let begin = begin(files, task, tool, leave, (&context, input.as_mut()));
    let begun = tokio::select! {
        biased;
        begun = begin => begun,
        stop = Context::stopped(&context.cancel, deadline) => Err(stop),
    };
    let done = match begun {
        Ok((lease, writing)) => commit(task, lease, writing, &context, deadline).await,
        Err(error) => Err(error),
    };
    done.unwrap_or_else(Outcome::from)
}

/// The same on channels of a transaction.
pub(crate) async fn run_on(
    files: &FileChannels,
    task: &ChangeTask,
    tool: &ToolName,
    leave: &Leave,
    context: &Context,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    let (lease, writing) = tokio::select! {
        biased;
        begun = begin(files, task, tool, leave, (context, None)) => begun?,
        stop = Context::stopped(&context.cancel, deadline) => return Err(stop),
    };
    commit(task, lease, writing, context, deadline).await
}

/// Prepares it, and keeps what it will replace.
async fn begin(
    files: &FileChannels,
    task: &ChangeTask,
    tool: &ToolName,
    leave: &Leave,
    (context, input): (&Context, Option<&mut Attachment>),
) -> Result<(Lease, Option<Writing>), CallError> {
    let session = &context.session;
    let wanted = Wanted::of(task, session).await?;
    let (mut writing, keep) = if task.is_kept() {
        let begun = Begun {
            owner: session.owner(),
            session: session.id.clone(),
            call_id: context.call_id.clone(),
            tool: tool.clone(),
            room: session.profile.undo_bytes(),
        };
        let writing = session.undos.begin(begun).await?;
        (Some(writing), Keep::Sent { bytes: session.profile.undo_bytes(), entries: CALL_ENTRIES })
    } else {
        (None, Keep::Nothing)
    };
    let Some(mut lease) = files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    let change = Change { act: wanted.act, most: task.most(session), keep, diff: 0 };
    let prepared =
        exchange::prepare(&mut lease, session, change, wanted.source, input, writing.as_mut())
            .await
            .map_err(|error| explained(task, error))?;
    leave.check(session, task, &prepared)?;
    if let Some(writing) = &mut writing {
        writing.ready().await?;
    }
    Ok((lease, writing))
}

/// Has it done, and says what was.
async fn commit(
    task: &ChangeTask,
    mut lease: Lease,
    mut writing: Option<Writing>,
    context: &Context,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    let session = &context.session;
    if let Some(writing) = &mut writing {
        writing.keep();
    }
    let undo = writing.as_ref().map(|writing| writing.call().to_string());
    let unknown =
        |why: CallError| Outcome { undo: undo.clone(), ..CallError::Unknown(Box::new(why)).into() };
    let done = async {
        lease.send(&[FileRequest::Commit]).await?;
        lease.receive().await
    };
    let until = deadline.at.max(Instant::now()) + COMMIT;
    let changed = match tokio::time::timeout_at(until, done).await {
        Ok(Ok(FileReply::Changed(changed))) => changed,
        Ok(Ok(FileReply::Failed(failure))) => {
            if let Some(writing) = &mut writing {
                writing.take_back();
            }
            return Err(explained(task, CallError::File(failure)));
        }
        Ok(Ok(_)) => return Ok(unknown(session.channel_error("it answered another request"))),
        Ok(Err(error)) => return Ok(unknown(session.channel_error(error))),
        Err(_) => return Ok(unknown(deadline.error())),
    };
    note(session, task, &changed);
    if let Some(writing) = &mut writing {
        let left: Vec<_> = changed.effects.iter().flat_map(left).collect();
        if let Err(error) = writing.complete(&left).await {
            // It is done; undoing it will need force.
            tracing::warn!(%error, call = %context.call_id, "what a change left was not kept");
        }
    }
    Ok(told(task, &changed, undo))
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
            EffectKind::Moved { .. } | EffectKind::Deleted { .. } => false,
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
