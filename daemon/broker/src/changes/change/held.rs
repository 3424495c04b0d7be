//! A change that the cell has prepared but not committed, with an undo record of what it would
//! replace. It is then committed or discarded. Runs in the broker.

use super::{
    exchange, explained::explained, leave::ChangeClearance, losses::assessed, wanted::ChangeRequest,
};
use crate::{
    base::{
        attachment::Attachment, error::CallError, outcome::Outcome, preview::Preview,
        task::ChangeTask,
    },
    cells::{
        commit_lock::CommitTurn,
        context::{Context, Deadline},
        files::{FileChannels, Lease},
    },
    stores::undo::{CALL_ENTRIES, DeletionLoss, NewUndoRecord, RecordLifetime, UndoWriter},
};
use palisade_plan::{
    Path,
    cell::{FileReply, FileRequest},
    change::{Change, Changed, Effect, EffectKind, EvidenceDepth, Keep, Print},
};
use palisade_policy::{Reason, UndoRecord};
use palisade_protocol::ToolName;
use std::time::Duration;
use tokio::time::Instant;

/// The time that a commit may take in the cell, beyond the call's own time. A commit is not stopped
/// half-way.
const COMMIT: Duration = Duration::from_secs(30);

/// The time for each path on top of that: a slow disk takes a while to delete what was replaced.
const COMMIT_PATH: Duration = Duration::from_millis(5);

/// The result of a commit that was begun.
#[derive(Debug)]
pub(crate) enum CommitResult {
    /// The change is committed; `undo` is the id by which it can be undone.
    Changed {
        changed: Changed,
        undo: Option<String>,
        /// The reason that each change to something that existed before was no loss, by path.
        reasons: Vec<(Vec<u8>, Reason)>,
    },
    /// The change may or may not be committed, and the outcome says so. The bytes are its digest.
    Unknown(Box<Outcome>, [u8; 32]),
}

/// A prepared change. Dropping it discards the change.
#[derive(Debug)]
pub(crate) struct PreparedChange {
    lease: Lease,
    writing: Option<UndoWriter>,
    tool: ToolName,
    /// The effects that the change would have, without a diff.
    pub(crate) preview: Preview,
}

impl PreparedChange {
    /// Prepares a change, and begins its undo record with what it will replace.
    pub(super) async fn prepare(
        files: &FileChannels,
        task: &ChangeTask,
        (tool, evidence): (&ToolName, EvidenceDepth),
        (context, input): (&Context, Option<(&mut Attachment, &mut CommitTurn<'_>)>),
    ) -> Result<Self, CallError> {
        let session = &context.session;
        let wanted = ChangeRequest::of(task, session).await?;
        let room = session.profile.undo_bytes();
        let mut writing = if task.is_kept() || task.is_journalled() {
            let begun = NewUndoRecord {
                owner: session.owner(),
                session: session.id.clone(),
                call_id: context.call_id.clone(),
                tool: tool.clone(),
                undoes: wanted.undoes,
                term: if task.is_kept() {
                    RecordLifetime::ForUndo { room }
                } else {
                    RecordLifetime::WhileDone
                },
            };
            Some(session.files.undos.begin(begun).await?)
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
        let most = task.most(&session.profile);
        let change = Change { act: wanted.act, most, keep, diff: 0, evidence };
        let prepared =
            exchange::prepare(&mut lease, session, change, wanted.source, input, writing.as_mut())
                .await
                .map_err(|error| explained(task, error))?;
        Ok(Self { lease, writing, tool: tool.clone(), preview: prepared.into() })
    }

    /// Refuses the change if undo has no room for the rest of its record.
    pub(crate) fn check_undo_room(&mut self) -> Result<(), CallError> {
        match &mut self.writing {
            Some(writing) if !self.preview.effects.is_empty() => Ok(writing.check_room()?),
            Some(_) | None => Ok(()),
        }
    }

    /// Commits the change if its effects are covered by the clearance, and returns what was
    /// changed.
    pub(crate) async fn commit(
        mut self,
        task: &ChangeTask,
        leave: &ChangeClearance,
        context: &Context,
        deadline: Deadline,
    ) -> Result<CommitResult, CallError> {
        let session = &context.session;
        leave.check(session, task, &self.preview)?;
        let undone = if task.is_kept() { UndoRecord::Kept } else { UndoRecord::Unavailable };
        let assessed = assessed(session, &self.tool, &self.preview, &[], undone);
        if let Some(writing) = &mut self.writing {
            let loses =
                if assessed.needs_undo { DeletionLoss::Loss } else { DeletionLoss::OwnWork };
            tokio::select! {
                biased;
                ready = writing.ready(&self.preview.digest, loses) => {
                    ready.map_err(|error| explained(task, error.into()))?;
                }
                stop = Context::stopped(&context.cancel, deadline) => return Err(stop),
            }
        }
        if !self.preview.effects.is_empty() {
            let change = (self.preview.effects.as_slice(), self.preview.digest);
            let recorded =
                session.audit.committing(session, &context.call_id, change, undone).await;
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
            CommitResult::Unknown(Box::new(Outcome { undo: undo.clone(), ..error }), digest)
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
        // An undo puts back bytes that somebody else had written, so they are not the session's
        // own.
        let wrote = if matches!(task, ChangeTask::Undo { .. }) { &[][..] } else { &changed.wrote };
        session.files.commits.tell_others(|memory| memory.heed(&assessed.lessons));
        session.memory().remember(assessed.lessons, &changed.effects, wrote);
        if let Some(writing) = self.writing.as_mut().filter(|_| !task.is_kept()) {
            // The record only said that the commit had begun; nothing is kept for undo.
            writing.take_back();
        } else if let Some(writing) = &mut self.writing {
            let left: Vec<_> = changed.effects.iter().flat_map(left).collect();
            if let Err(error) = writing.complete(&left).await {
                // The change is committed; undoing it will need `force`.
                tracing::warn!(%error, call = %context.call_id, "an undo record is incomplete");
            }
        }
        Ok(CommitResult::Changed { changed, undo, reasons: assessed.reasons })
    }
}

/// The state that an effect leaves at its path, and at the path that something was moved from.
fn left(effect: &Effect) -> Vec<(Path, Print)> {
    let there = (effect.path.clone(), effect.print.clone());
    if effect.kind == EffectKind::Special {
        return Vec::new();
    }
    let from = effect.kind.moved_from().map(|from| (from.clone(), Print::Absent));
    from.into_iter().chain([there]).collect()
}
