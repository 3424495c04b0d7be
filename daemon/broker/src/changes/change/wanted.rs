//! Translates the task of a call into the request that the cell gets. Runs in the broker.

use crate::{
    base::{
        error::CallError,
        task::{ChangeTask, Content, EditedFile, UndoTarget},
    },
    cells::session::Session,
    stores::undo::{ContentPiece, Force, Restore, UndoError, assemble},
};
use palisade_plan::{
    Path,
    change::{Act, FileEdits, Restoration},
    codec::MAX_MESSAGE,
};
use palisade_protocol::{CallId, ErrorCode, WireError};

/// The most bytes of edits that fit into one message with its other fields.
const MOST_EDITS: usize = MAX_MESSAGE - 64 * 1024;

/// The request to the cell.
#[derive(Debug)]
pub(super) struct ChangeRequest<'a> {
    pub(super) act: Act,
    pub(super) source: ContentSource<'a>,
    /// The calls that this change undoes.
    pub(super) undoes: Vec<CallId>,
}

/// The source of a change's content.
#[derive(Debug)]
pub(super) enum ContentSource<'a> {
    /// The change has no content.
    None,
    /// The content came with the call.
    Here(&'a [u8]),
    /// The client sends the content after the call.
    Attached,
    /// The content is read from undo records.
    Kept(Vec<ContentPiece>),
}

impl<'a> ChangeRequest<'a> {
    /// Makes the request for a task.
    pub(super) async fn of(task: &'a ChangeTask, session: &Session) -> Result<Self, CallError> {
        let at = |path: &[u8]| Path(session.absolute(path));
        let undoes = Vec::new();
        let plain = |act| Ok(Self { act, source: ContentSource::None, undoes: Vec::new() });
        match task {
            ChangeTask::Write { path, mode, content } => {
                let source = match content {
                    Content::Inline(text) => ContentSource::Here(text.as_bytes()),
                    Content::Attached => ContentSource::Attached,
                };
                Ok(Self { act: Act::Write { path: at(path), mode: *mode }, source, undoes })
            }
            ChangeTask::Edit { files } => {
                fits(files)?;
                let edits = |file: &EditedFile| FileEdits {
                    path: at(&file.path),
                    edits: file.edits.clone(),
                };
                plain(Act::Edit { files: files.iter().map(edits).collect() })
            }
            ChangeTask::Patch { patch } => Ok(Self {
                act: Act::Patch { base: Path(session.cwd()) },
                source: ContentSource::Here(patch.as_bytes()),
                undoes,
            }),
            ChangeTask::Delete { path, recursive, .. } => {
                plain(Act::Delete { path: at(path), recursive: *recursive })
            }
            ChangeTask::Move { from, to, overwrite } => {
                plain(Act::Move { from: at(from), to: at(to), overwrite: *overwrite })
            }
            ChangeTask::MakeDir { path } => plain(Act::MakeDir { path: at(path) }),
            ChangeTask::Settle { without, conflicts, .. } => {
                let leave = without.iter().cloned().map(Path).collect();
                plain(Act::Settle { leave, conflicts: *conflicts })
            }
            ChangeTask::Undo { which, force } => {
                let Restore { entries, pieces, calls, .. } =
                    restore(which, *force, session).await?;
                let source = if pieces.is_empty() {
                    ContentSource::None
                } else {
                    ContentSource::Kept(pieces)
                };
                Ok(Self { act: Act::Restore { entries, force: *force }, source, undoes: calls })
            }
        }
    }
}

fn fits(files: &[EditedFile]) -> Result<(), CallError> {
    let edits = files.iter().flat_map(|file| &file.edits);
    let size: usize = edits.map(|edit| edit.old.len() + edit.new.len() + 32).sum();
    let names: usize = files.iter().map(|file| file.path.len() + 32).sum();
    if size + names <= MOST_EDITS {
        return Ok(());
    }
    let message = format!("the edits have {} bytes; the limit is {MOST_EDITS}", size + names);
    let hint = "split them into several calls, or write the whole file";
    Err(CallError::Refused(WireError::new(ErrorCode::TooLarge, message, hint)))
}

async fn restore(which: &UndoTarget, force: bool, session: &Session) -> Result<Restore, UndoError> {
    let owner = session.owner();
    let records = match which {
        UndoTarget::Call(call) => vec![session.files.undos.one(&owner, call).await?],
        UndoTarget::After(call) => session.files.undos.since(&owner, call).await?,
    };
    assemble(&records, if force { Force::Forced } else { Force::Careful })
}

/// The sessions whose calls an undo reverts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// Calls of this session only.
    Itself,
    /// Calls of earlier sessions, alone or besides those of this one.
    Others,
}

/// The paths that an undo touches, and whose calls had changed them.
pub(crate) async fn paths_of_undo(
    which: &UndoTarget,
    force: bool,
    session: &Session,
) -> Result<(Vec<Vec<u8>>, Author), UndoError> {
    let Restore { entries, sessions, .. } = restore(which, force, session).await?;
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Restoration::Put { path, .. } | Restoration::Revert { path, .. } => paths.push(path.0),
            Restoration::Rename { from, to, .. } => paths.extend([from.0, to.0]),
        }
    }
    let own = sessions.iter().all(|id| id == session.id.as_str());
    Ok((paths, if own { Author::Itself } else { Author::Others }))
}
