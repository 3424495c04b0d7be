//! Rolls back a commit that was interrupted by the end of its process, of the launcher or of the
//! daemon. The next session in the workspace does it, in its cell, from the commit's journal. Runs
//! in the broker.

use crate::{
    base::error::CallError,
    cells::{channel::ChannelError, files::Lease, session::Session},
    stores::undo::UnfinishedCall,
};
use palisade_plan::{
    cell::{FileReply, FileRequest},
    change::{Act, Change, Changed, EvidenceDepth, Keep},
};
use palisade_protocol::{CallId, Finding, Severity, WireError};
use std::time::Duration;

/// The number of times to look for what a killed process left, with a pause after each: the kernel
/// may still hold it.
const LOOKS: u32 = 40;

const PAUSE: Duration = Duration::from_millis(25);

/// The kind of the finding that reports a rollback.
const TAKEN_BACK: &str = "taken_back";

/// The message about a journal that belongs to no commit of this daemon.
const STRANGE: &str = "the workspace has a directory .palisade-*.tmp with the journal of a commit \
                       that this daemon did not begin. The directory stays; until somebody deletes \
                       it, no command's changes can be committed here";

/// The result of a rollback.
#[derive(Debug, Default)]
pub(crate) struct RollbackResult {
    /// The digests of the changes that were rolled back.
    changes: Vec<[u8; 32]>,
    /// The findings for whoever uses the session.
    pub(crate) findings: Vec<Finding>,
}

/// Rolls back interrupted commits in a session's workspace, if there are any. Each is recorded in
/// the audit log first.
///
/// Only commits that this daemon knows it began are rolled back. A journal in the workspace may
/// come from a program, and what it says would be done without approval.
pub(crate) async fn resolve(session: &Session) -> Result<RollbackResult, CallError> {
    let Some(mut lease) = session.cell.files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    if prepare(&mut lease, session, None).await? == 0 {
        let changed = commit(&mut lease, session).await?;
        return Ok(RollbackResult { changes: changed.resolved, findings: Vec::new() });
    }
    lease.send(&[FileRequest::Abandon]).await.map_err(|error| session.channel_error(error))?;
    let reply = lease.receive().await.map_err(|error| session.channel_error(error))?;
    let FileReply::Abandoned = reply else { return Err(other(session, reply)) };
    let unfinished = session.files.undos.unfinished(&session.owner()).await?;
    let begun = unfinished.iter().map(|one| one.change).collect();
    let paths = prepare(&mut lease, session, Some(begun)).await?;
    if paths > 0 {
        let calls: Vec<CallId> = unfinished.iter().map(|one| one.call.clone()).collect();
        let recorded = session.audit.rolling_back(session, &calls, paths).await;
        recorded.map_err(|error| CallError::Refused(WireError::from(error)))?;
    }
    let changed = commit(&mut lease, session).await?;
    rollback_result(session, changed, paths, unfinished)
}

/// Prepares a rollback; returns how many paths it would restore.
async fn prepare(
    lease: &mut Lease,
    session: &Session,
    begun: Option<Vec<[u8; 32]>>,
) -> Result<usize, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    let act = Act::Resolve { begun };
    let change = Change {
        act,
        most: u64::MAX,
        keep: Keep::Nothing,
        diff: 0,
        evidence: EvidenceDepth::Paths,
    };
    lease.send(&[FileRequest::Change(change)]).await.map_err(failed)?;
    let reply = lease.receive().await.map_err(failed)?;
    let FileReply::Prepared(prepared) = reply else { return Err(other(session, reply)) };
    Ok(prepared.effects.len())
}

async fn commit(lease: &mut Lease, session: &Session) -> Result<Changed, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    lease.send(&[FileRequest::Commit]).await.map_err(failed)?;
    let reply = lease.receive().await.map_err(failed)?;
    let FileReply::Changed(changed) = reply else { return Err(other(session, reply)) };
    Ok(changed)
}

fn other(session: &Session, reply: FileReply) -> CallError {
    if let FileReply::Failed(failure) = reply {
        return CallError::File(failure);
    }
    session.channel_error("it sent an unexpected reply")
}

fn rollback_result(
    session: &Session,
    changed: Changed,
    paths: usize,
    unfinished: Vec<UnfinishedCall>,
) -> Result<RollbackResult, CallError> {
    let Changed { resolved: changes, notes, .. } = changed;
    let note = |why| Finding::new(TAKEN_BACK, Severity::Notice, why);
    if paths == 0 {
        tracing::warn!(session = %session.id, STRANGE);
        return Ok(RollbackResult { changes, findings: vec![note(STRANGE.to_owned())] });
    }
    let cut = unfinished.into_iter().filter(|one| changes.contains(&one.change));
    let calls: Vec<CallId> = cut.map(|one| one.call).collect();
    session.files.undos.discard(&calls)?;
    let named: Vec<String> = calls.iter().map(|call| format!(" {call}")).collect();
    let why = format!(
        "the commit of a command{} was interrupted and rolled back: {paths} paths were restored",
        named.join(",")
    );
    tracing::warn!(session = %session.id, why);
    let findings = std::iter::once(why).chain(notes).map(note).collect();
    Ok(RollbackResult { changes, findings })
}

/// Rolls back a commit of this session whose process ended; `None` if that was not possible.
pub(super) async fn roll_back(session: &Session, change: &[u8; 32]) -> Option<RollbackResult> {
    for _look in 0..LOOKS {
        match resolve(session).await {
            Ok(taken) if taken.changes.contains(change) => return Some(taken),
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                tracing::warn!(%error, "an interrupted commit is not rolled back yet");
                return None;
            }
        }
    }
    None
}
