//! A change that is prepared and held: nothing of it is done, and what it would replace is kept. It
//! is then done, or let go of. Broker.

use super::{exchange, explained::explained, leave::Leave, preview::Preview, wanted::Wanted};
use crate::{
    attachment::Attachment,
    context::{Context, Deadline},
    error::CallError,
    files::{FileChannels, Lease},
    outcome::Outcome,
    session::Session,
    task::ChangeTask,
    undo::{Begun, CALL_ENTRIES, Term, Writing},
};
use palisade_plan::{
    Path,
    cell::{FileReply, FileRequest},
    change::{Change, Changed, Effect, EffectKind, Keep, Print},
};
use palisade_protocol::ToolName;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// How long the cell has beyond the call's own time to do what was prepared. It is not stopped
/// half-way.
const COMMIT: Duration = Duration::from_secs(30);

/// What it has for each path on top: a slow disk takes a while to let go of what was replaced.
const COMMIT_PATH: Duration = Duration::from_millis(5);

/// What became of a change that was begun.
#[derive(Debug)]
pub(crate) enum Done {
    /// It is done; it can be undone by this id.
    Changed { changed: Changed, undo: Option<String> },
    /// Whether it is done is not known, and the outcome says so. It is known by its digest.
    Unknown(Box<Outcome>, [u8; 32]),
}

/// A prepared change. Dropped, it is let go of.
#[derive(Debug)]
pub(crate) struct Held {
    lease: Lease,
    writing: Option<Writing>,
    /// What it would do, without a diff.
    pub(crate) preview: Preview,
}

impl Held {
    /// Prepares a change, and takes what it will replace.
    pub(super) async fn prepare(
        files: &FileChannels,
        task: &ChangeTask,
        tool: &ToolName,
        (context, input): (&Context, Option<&mut Attachment>),
    ) -> Result<Self, CallError> {
        let session = &context.session;
        let wanted = Wanted::of(task, session).await?;
        let room = session.profile.undo_bytes();
        let mut writing = if task.is_kept() || task.is_journalled() {
            let begun = Begun {
                owner: session.owner(),
                session: session.id.clone(),
                call_id: context.call_id.clone(),
                tool: tool.clone(),
                term: if task.is_kept() { Term::ForUndo { room } } else { Term::WhileDone },
            };
            Some(session.undos.begin(begun).await?)
        } else {
            None
        };
        let keep = if task.is_kept() {
            Keep::Sent { bytes: room, entries: CALL_ENTRIES }
        } else {
            Keep::Nothing
        };
        let Some(mut lease) = files.lease().await else {
            return Err(session.channel_error("all its file channels are broken"));
        };
        let change = Change { act: wanted.act, most: task.most(&session.profile), keep, diff: 0 };
        let prepared =
            exchange::prepare(&mut lease, session, change, wanted.source, input, writing.as_mut())
                .await
                .map_err(|error| explained(task, error))?;
        Ok(Self { lease, writing, preview: prepared.into() })
    }

    /// Has it done if it is what there is leave for, and says what was.
    pub(crate) async fn commit(
        mut self,
        task: &ChangeTask,
        leave: &Leave,
        context: &Context,
        deadline: Deadline,
    ) -> Result<Done, CallError> {
        let session = &context.session;
        leave.check(session, task, &self.preview)?;
        if let Some(writing) = &mut self.writing {
            tokio::select! {
                biased;
                ready = writing.ready(&self.preview.digest) => ready?,
                stop = Context::stopped(&context.cancel, deadline) => return Err(stop),
            }
        }
        if !self.preview.effects.is_empty() {
            let change = (self.preview.effects.as_slice(), self.preview.digest);
            let recorded = session.audit.committing(session, &context.call_id, change).await;
            recorded.map_err(|error| CallError::Refused(error.into()))?;
        }
        if let Some(writing) = &mut self.writing {
            writing.keep();
        }
        let digest = self.preview.digest;
        let undo = self.writing.as_ref().filter(|_| task.is_kept());
        let undo = undo.map(|writing| writing.call().to_string());
        let unknown = |why: CallError| {
            let error = CallError::Unknown(Box::new(why)).into();
            Done::Unknown(Box::new(Outcome { undo: undo.clone(), ..error }), digest)
        };
        let lease = &mut self.lease;
        let done = async {
            lease.send(&[FileRequest::Commit]).await?;
            lease.receive().await
        };
        let paths = u32::try_from(self.preview.effects.len()).unwrap_or(u32::MAX);
        let until = deadline.at.max(Instant::now()) + COMMIT + COMMIT_PATH * paths;
        let changed = match tokio::time::timeout_at(until, done).await {
            Ok(Ok(FileReply::Changed(changed))) => changed,
            Ok(Ok(FileReply::Failed(failure))) => {
                if let Some(writing) = &mut self.writing {
                    writing.take_back();
                }
                return Err(explained(task, CallError::File(failure)));
            }
            Ok(Ok(_)) => return Ok(unknown(session.channel_error("it answered another request"))),
            Ok(Err(error)) => return Ok(unknown(session.channel_error(error))),
            Err(_) => return Ok(unknown(deadline.error())),
        };
        note(session, task, &changed);
        if let Some(writing) = self.writing.as_mut().filter(|_| !task.is_kept()) {
            // It only said that the change was begun.
            writing.take_back();
        } else if let Some(writing) = &mut self.writing {
            let left: Vec<_> = changed.effects.iter().flat_map(left).collect();
            if let Err(error) = writing.complete(&left).await {
                // It is done; undoing it will need force.
                tracing::warn!(%error, call = %context.call_id, "what a change left was not kept");
            }
        }
        Ok(Done::Changed { changed, undo })
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
