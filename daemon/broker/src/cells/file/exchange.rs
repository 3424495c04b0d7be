//! The common part of file tools that only read: one request, and the one reply that belongs to it.
//! Runs in the broker.

use crate::{
    base::{error::CallError, outcome::Outcome},
    cells::{context::Context, files::Lease},
};
use palisade_plan::cell::{FileReply, FileRequest};
use palisade_protocol::JsonText;

/// Sends a request to the cell, and passes on its progress until it answers.
pub(super) async fn ask(
    request: FileRequest,
    lease: &mut Lease,
    context: &Context,
) -> Result<FileReply, CallError> {
    let failed = |error| context.session.channel_error(error);
    lease.send(&[request]).await.map_err(failed)?;
    loop {
        let reply = lease.receive().await.map_err(failed)?;
        let FileReply::Progress { done } = reply else { return Ok(reply) };
        context.tell("looked at", done);
    }
}

/// The error for any reply other than the one that belongs to the request.
pub(in crate::cells) fn unexpected(reply: FileReply) -> CallError {
    match reply {
        FileReply::Failed(failure) => CallError::File(failure),
        FileReply::Content(_)
        | FileReply::Read { .. }
        | FileReply::Listed { .. }
        | FileReply::Looked { .. }
        | FileReply::Before(_)
        | FileReply::Attributes(_)
        | FileReply::Effects(_)
        | FileReply::Evidence(_)
        | FileReply::Wrote(_)
        | FileReply::Prepared(_)
        | FileReply::Changed(_)
        | FileReply::Globbed(_)
        | FileReply::Scanned { .. }
        | FileReply::Noise(_)
        | FileReply::Grepped(_)
        | FileReply::Progress { .. }
        | FileReply::Abandoned => CallError::Cell("it answered another request".to_owned()),
    }
}

/// Makes an outcome with data.
pub(super) fn done(data: serde_json::Value) -> Result<Outcome, CallError> {
    let data = JsonText::render(&data).map_err(std::io::Error::from)?;
    Ok(Outcome { data: Some(data), ..Outcome::default() })
}
