//! Finds out what a change would do without doing it: for the judge, an approver, or a dry run.
//! Runs in the broker.

use super::{
    exchange,
    explained::explained,
    wanted::{ChangeRequest, ContentSource},
};
use crate::{
    base::{error::CallError, preview::Preview, task::ChangeTask},
    cells::{files::FileChannels, session::Session},
};
use palisade_plan::{
    cell::{FileReply, FileRequest},
    change::{Change, EvidenceDepth, Keep},
};

/// The most bytes of a diff that are shown.
pub(crate) const DIFF: u32 = 32 * 1024;

/// Has the cell prepare a change and discard it. `held` is the content that is sent after the call,
/// if it has already arrived.
pub(crate) async fn preview(
    session: &Session,
    task: &ChangeTask,
    held: Option<&[u8]>,
    diff: u32,
) -> Result<Preview, CallError> {
    preview_on(&session.cell.files, session, task, held, diff).await
}

/// Previews a change like [`preview`], on the given channels, for example those of a transaction.
pub(crate) async fn preview_on(
    files: &FileChannels,
    session: &Session,
    task: &ChangeTask,
    held: Option<&[u8]>,
    diff: u32,
) -> Result<Preview, CallError> {
    let ChangeRequest { act, source, .. } = ChangeRequest::of(task, session).await?;
    let source = match (source, held) {
        (ContentSource::Attached, Some(bytes)) => ContentSource::Here(bytes),
        (source, _) => source,
    };
    let Some(mut lease) = files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    let (most, keep, evidence) = (task.most(&session.profile), Keep::Nothing, EvidenceDepth::Full);
    let change = Change { act, most, keep, diff, evidence };
    let prepared = exchange::prepare(&mut lease, session, change, source, None, None)
        .await
        .map_err(|error| explained(task, error))?;
    let failed = |error: crate::cells::channel::ChannelError| session.channel_error(error);
    lease.send(&[FileRequest::Abandon]).await.map_err(failed)?;
    if lease.receive().await.map_err(failed)? != FileReply::Abandoned {
        return Err(session.channel_error("it answered another request"));
    }
    Ok(prepared.into())
}
