//! What all file tools that look have in common: one request, and one reply that belongs to it.
//! Broker.

use crate::{context::Context, error::CallError, files::Lease, outcome::Outcome};
use palisade_plan::cell::{FileReply, FileRequest};
use palisade_protocol::JsonText;

/// Asks the cell, and passes on how far it is until it answers.
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

/// Any reply but the one that belongs to the request.
pub(super) fn unexpected(reply: FileReply) -> CallError {
    match reply {
        FileReply::Failed(failure) => CallError::File(failure),
        FileReply::Content(_)
        | FileReply::Read { .. }
        | FileReply::Listed { .. }
        | FileReply::Looked { .. }
        | FileReply::Before(_)
        | FileReply::Effects(_)
        | FileReply::Wrote(_)
        | FileReply::Prepared(_)
        | FileReply::Changed(_)
        | FileReply::Globbed(_)
        | FileReply::Scanned { .. }
        | FileReply::Grepped(_)
        | FileReply::Progress { .. }
        | FileReply::Abandoned => CallError::Cell("it answered another request".to_owned()),
    }
}

/// An outcome with data.
pub(super) fn done(data: serde_json::Value) -> Result<Outcome, CallError> {
    let data = JsonText::render(&data).map_err(std::io::Error::from)?;
    Ok(Outcome { data: Some(data), ..Outcome::default() })
}
