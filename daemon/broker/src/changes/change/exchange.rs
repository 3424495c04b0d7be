//! The first half of a change on a file channel: from the request to the preview. Runs in the
//! broker.

use super::wanted::ContentSource;
use crate::{
    base::{attachment::Attachment, error::CallError},
    cells::{channel::ChannelError, commit_lock::CommitTurn, files::Lease, session::Session},
    stores::undo::{ContentPiece, UndoWriter},
};
use palisade_plan::{
    cell::{CHUNK, FileReply, FileRequest},
    change::{Act, Change, Prepared},
    parts::{ActPart, parts},
};
use std::io;

/// Has the cell prepare a change. The bytes that it would replace go to `keep`.
pub(super) async fn prepare(
    lease: &mut Lease,
    session: &Session,
    change: Change,
    source: ContentSource<'_>,
    input: Option<(&mut Attachment, &mut CommitTurn<'_>)>,
    mut keep: Option<&mut UndoWriter>,
) -> Result<Prepared, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    let change = requests(change);
    let mut early = None;
    match source {
        ContentSource::None => lease.send(&change).await.map_err(failed)?,
        ContentSource::Here(bytes) => send(lease, change, bytes).await.map_err(failed)?,
        ContentSource::Attached => early = attached(lease, session, change, input).await?,
        ContentSource::Kept(pieces) => kept(lease, session, change, pieces).await?,
    }
    loop {
        let reply = match early.take() {
            Some(reply) => reply,
            None => lease.receive().await.map_err(failed)?,
        };
        match (reply, keep.as_mut()) {
            (FileReply::Before(before), Some(keep)) => keep.before(&before).await?,
            (FileReply::Attributes(attributes), Some(keep)) => {
                keep.attributes(&attributes).await?;
            }
            (FileReply::Content(piece), Some(keep)) => keep.content(&piece).await?,
            (FileReply::Before(_) | FileReply::Attributes(_) | FileReply::Content(_), None) => {}
            (FileReply::Prepared(prepared), _) => return Ok(prepared),
            (FileReply::Failed(failure), _) => return Err(CallError::File(failure)),
            (_, _) => return Err(session.channel_error("it answered another request")),
        }
    }
}

/// Splits a change into as many messages as its list needs.
fn requests(mut change: Change) -> Vec<FileRequest> {
    let mut first: Vec<FileRequest> = Vec::new();
    if let Act::Settle { leave, .. } = &mut change.act {
        let mut all = parts(std::mem::take(leave));
        *leave = all.pop().unwrap_or_default();
        first.extend(all.into_iter().map(|part| FileRequest::Part(ActPart::Leave(part))));
    } else if let Act::Restore { entries, .. } = &mut change.act {
        let mut all = parts(std::mem::take(entries));
        *entries = all.pop().unwrap_or_default();
        first.extend(all.into_iter().map(|part| FileRequest::Part(ActPart::Entries(part))));
    }
    first.push(FileRequest::Change(change));
    first
}

/// Sends content that the broker already has, in pieces; the first goes with the request.
async fn send(
    lease: &mut Lease,
    change: Vec<FileRequest>,
    bytes: &[u8],
) -> Result<(), ChannelError> {
    let mut requests = change;
    let mut pieces = bytes.chunks(CHUNK).peekable();
    loop {
        let data = pieces.next().unwrap_or_default().to_vec();
        let end = pieces.peek().is_none();
        requests.push(FileRequest::Content { data, end });
        lease.send(&requests).await?;
        if end {
            return Ok(());
        }
        requests.clear();
    }
}

/// Sends content that the client sends after the call. The cell answers a change that can not
/// succeed before all of it has arrived. It looks at what exists after the last piece, which is
/// sent once the turn to commit has come: until then the client delays nobody else.
async fn attached(
    lease: &mut Lease,
    session: &Session,
    change: Vec<FileRequest>,
    input: Option<(&mut Attachment, &mut CommitTurn<'_>)>,
) -> Result<Option<FileReply>, CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    let (input, turn) = input.ok_or(CallError::NoAttachment)?;
    lease.send(&change).await.map_err(failed)?;
    loop {
        let piece = tokio::select! {
            biased;
            reply = lease.receive() => return reply.map(Some).map_err(failed),
            piece = input.recv() => piece.ok_or(CallError::NoAttachment)?,
        };
        if piece.end {
            turn.take().await;
        }
        let content = FileRequest::Content { data: piece.data.0, end: piece.end };
        lease.send(&[content]).await.map_err(failed)?;
        if piece.end {
            return Ok(None);
        }
    }
}

/// Sends content of an undo record, read piece by piece.
async fn kept(
    lease: &mut Lease,
    session: &Session,
    change: Vec<FileRequest>,
    pieces: Vec<ContentPiece>,
) -> Result<(), CallError> {
    let failed = |error: ChannelError| session.channel_error(error);
    lease.send(&change).await.map_err(failed)?;
    for piece in pieces {
        let end = piece.end;
        let read = tokio::task::spawn_blocking(move || piece.read());
        let data = read.await.map_err(io::Error::other)??;
        lease.send(&[FileRequest::Content { data, end }]).await.map_err(failed)?;
    }
    Ok(())
}
