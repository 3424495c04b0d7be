//! A commit that was cut off, by the end of its process, of the launcher or of the daemon, is taken
//! back by the next session there: in its cell, by the journal that the commit left. Broker.

use crate::{channel::ChannelError, error::CallError, session::Session, undo::Unfinished};
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

/// What was taken back.
#[derive(Debug, Default)]
pub(crate) struct TakenBack {
    /// The digests of the changes.
    changes: Vec<[u8; 32]>,
    /// For whoever uses the session.
    pub(crate) findings: Vec<Finding>,
}

/// Takes back what was cut off in a session's workspace, if anything was. It is recorded first.
pub(crate) async fn resolve(session: &Session) -> Result<TakenBack, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    let Some(mut lease) = session.files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    let change = Change { act: Act::Resolve, most: u64::MAX, keep: Keep::Nothing, diff: 0 };
    lease.send(&[FileRequest::Change(change)]).await.map_err(failed)?;
    let reply = lease.receive().await.map_err(failed)?;
    let FileReply::Prepared(prepared) = reply else { return Err(other(session, reply)) };
    let paths = prepared.effects.len();
    let unfinished = if paths == 0 {
        Vec::new()
    } else {
        let unfinished = session.undos.unfinished(&session.owner()).await?;
        let calls: Vec<CallId> = unfinished.iter().map(|one| one.call.clone()).collect();
        let recorded = session.audit.taking_back(session, &calls, paths).await;
        recorded.map_err(|error| CallError::Refused(WireError::from(error)))?;
        unfinished
    };
    lease.send(&[FileRequest::Commit]).await.map_err(failed)?;
    let reply = lease.receive().await.map_err(failed)?;
    let FileReply::Changed(changed) = reply else { return Err(other(session, reply)) };
    told(session, changed, paths, unfinished)
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
    if paths == 0 {
        return Ok(TakenBack { changes, findings: Vec::new() });
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
    let note = |why| Finding::new(TAKEN_BACK, Severity::Notice, why);
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
