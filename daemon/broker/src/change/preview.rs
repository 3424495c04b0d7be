//! What a change would do, found out without doing it: for the judge, an approver, a dry run.
//! Broker.

use super::{
    exchange,
    explained::explained,
    wanted::{Source, Wanted},
};
use crate::{error::CallError, files::FileChannels, session::Session, task::ChangeTask};
use palisade_plan::{
    cell::{FileReply, FileRequest},
    change::{Change, Conflict, Effect, EffectKind, Keep, Prepared},
};

/// The most bytes of a diff that are shown.
pub(crate) const DIFF: u32 = 32 * 1024;

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) effects: Vec<Effect>,
    pub(crate) digest: [u8; 32],
    pub(crate) diff: String,
    pub(crate) complete: bool,
    /// What somebody else changed as well.
    pub(crate) conflicts: Vec<Conflict>,
}

impl From<Prepared> for Preview {
    fn from(prepared: Prepared) -> Self {
        let Prepared { effects, digest, diff, diff_complete, conflicts } = prepared;
        Self { effects, digest, diff, complete: diff_complete, conflicts }
    }
}

impl Preview {
    /// Every path that would be touched, also those that would be no more.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        touched(&self.effects).map(<[u8]>::to_vec).collect()
    }
}

/// The paths of effects.
pub(super) fn touched(effects: &[Effect]) -> impl Iterator<Item = &[u8]> {
    effects.iter().flat_map(|effect| {
        let from = match &effect.kind {
            EffectKind::Moved { from } => Some(from.0.as_slice()),
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Deleted { .. }
            | EffectKind::Mode
            | EffectKind::Touched
            | EffectKind::Special => None,
        };
        std::iter::once(effect.path.0.as_slice()).chain(from)
    })
}

/// Has a change prepared, and lets it go. `held` is content that follows the call, if it is here.
pub(crate) async fn preview(
    session: &Session,
    task: &ChangeTask,
    held: Option<&[u8]>,
    diff: u32,
) -> Result<Preview, CallError> {
    preview_on(&session.files, session, task, held, diff).await
}

/// The same on channels of a transaction.
pub(crate) async fn preview_on(
    files: &FileChannels,
    session: &Session,
    task: &ChangeTask,
    held: Option<&[u8]>,
    diff: u32,
) -> Result<Preview, CallError> {
    let Wanted { act, source } = Wanted::of(task, session).await?;
    let source = match (source, held) {
        (Source::Attached, Some(bytes)) => Source::Here(bytes),
        (source, _) => source,
    };
    let Some(mut lease) = files.lease().await else {
        return Err(session.channel_error("all its file channels are broken"));
    };
    let change = Change { act, most: task.most(&session.profile), keep: Keep::Nothing, diff };
    let prepared = exchange::prepare(&mut lease, session, change, source, None, None)
        .await
        .map_err(|error| explained(task, error))?;
    let failed = |error: crate::channel::ChannelError| session.channel_error(error);
    lease.send(&[FileRequest::Abandon]).await.map_err(failed)?;
    if lease.receive().await.map_err(failed)? != FileReply::Abandoned {
        return Err(session.channel_error("it answered another request"));
    }
    Ok(prepared.into())
}
