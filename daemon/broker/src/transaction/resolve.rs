//! A commit that was cut off, by the end of its process, of the launcher or of the daemon, is taken
//! back by the next session there: in its cell, by the journal that the commit left. Broker.

use crate::{
    channel::ChannelError, error::CallError, files::Lease, session::Session, undo::Unfinished,
};
use palisade_plan::{
    cell::{FileReply, FileRequest},
    change::{Act, Change, Changed, Keep},
};
use palisade_protocol::{CallId, Finding, Severity, WireError};
use std::time::Duration;

/// How often it is looked for what a killed process left: until the kernel has let go of it.
const LOOKS: u32 = 40;

const PAUSE: Duration = Duration::from_millis(25);

/// The kind of the finding that tells of it.
const TAKEN_BACK: &str = "taken_back";

/// What is said of a journal that is not of a commit of this daemon's.
const STRANGE: &str = "the workspace has a directory .palisade-*.tmp with the journal of a commit that this daemon did not \
                       begin: it is left as it is, and until somebody removes it nothing that a command changes here counts";

/// What was taken back.
#[derive(Debug, Default)]
pub(crate) struct TakenBack {
    /// The digests of the changes.
    changes: Vec<[u8; 32]>,
    /// For whoever uses the session.
    pub(crate) findings: Vec<Finding>,
}

/// Takes back what was cut off in a session's workspace, if anything was. It is recorded first.
///
/// Only what this daemon knows that it began: a journal in the workspace may be a program's, and what
/// it says would be done unasked.
pub(crate) async fn resolve(session: &Session) -> Result<TakenBack, CallError> {
    let Some(mut lease) = session.files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    if prepare(&mut lease, session, None).await? == 0 {
        let changed = commit(&mut lease, session).await?;
        return Ok(TakenBack { changes: changed.resolved, findings: Vec::new() });
    }
    lease.send(&[FileRequest::Abandon]).await.map_err(|error| session.channel_error(error))?;
    let reply = lease.receive().await.map_err(|error| session.channel_error(error))?;
    let FileReply::Abandoned = reply else { return Err(other(session, reply)) };
    let unfinished = session.undos.unfinished(&session.owner()).await?;
    let begun = unfinished.iter().map(|one| one.change).collect();
    let paths = prepare(&mut lease, session, Some(begun)).await?;
    if paths > 0 {
        let calls: Vec<CallId> = unfinished.iter().map(|one| one.call.clone()).collect();
        let recorded = session.audit.taking_back(session, &calls, paths).await;
        recorded.map_err(|error| CallError::Refused(WireError::from(error)))?;
    }
    let changed = commit(&mut lease, session).await?;
    told(session, changed, paths, unfinished)
}

/// Asks what was cut off; says how many paths would be what they were.
async fn prepare(
    lease: &mut Lease,
    session: &Session,
    begun: Option<Vec<[u8; 32]>>,
) -> Result<usize, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    let act = Act::Resolve { begun };
    let change = Change { act, most: u64::MAX, keep: Keep::Nothing, diff: 0 };
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
    session.channel_error("it answered another request")
}

fn told(
    session: &Session,
    changed: Changed,
    paths: usize,
    unfinished: Vec<Unfinished>,
) -> Result<TakenBack, CallError> {
    let Changed { resolved: changes, notes, .. } = changed;
    let note = |why| Finding::new(TAKEN_BACK, Severity::Notice, why);
    if paths == 0 {
        tracing::warn!(session = %session.id, STRANGE);
        return Ok(TakenBack { changes, findings: vec![note(STRANGE.to_owned())] });
    }
    let cut = unfinished.into_iter().filter(|one| changes.contains(&one.change));
    let calls: Vec<CallId> = cut.map(|one| one.call).collect();
    session.undos.discard(&calls)?;
    let named: Vec<String> = calls.iter().map(|call| format!(" {call}")).collect();
    let why = format!(
        "a command{} was cut off while what it had changed was being kept: it was taken back, {paths} \
         paths are what they were",
        named.join(",")
    );
    tracing::warn!(session = %session.id, why);
    let findings = std::iter::once(why).chain(notes).map(note).collect();
    Ok(TakenBack { changes, findings })
}

/// Whether a commit of this session, whose process ended, could be taken back.
pub(super) async fn take_back(session: &Session, change: &[u8; 32]) -> Option<TakenBack> {
    for _look in 0..LOOKS {
        match resolve(session).await {
            Ok(taken) if taken.changes.contains(change) => return Some(taken),
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                tracing::warn!(%error, "a commit that was cut off is not taken back yet");
                return None;
            }
        }
    }
    None
}
