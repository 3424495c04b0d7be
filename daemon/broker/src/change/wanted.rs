//! From what a call will change to what the cell is asked for. Broker.

use crate::{
    error::CallError,
    session::Session,
    task::{ChangeTask, Content, Edited, Undone},
    undo::{Force, Piece, Restore, UndoError, assemble},
};
use palisade_plan::{
    Path,
    change::{Act, FileEdits, Restoration},
    codec::MAX_MESSAGE,
};
use palisade_protocol::{ErrorCode, WireError};

/// The most bytes of edits that fit into one message beside the rest of it.
const MOST_EDITS: usize = MAX_MESSAGE - 64 * 1024;

/// What the cell is asked for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) act: Act,
    pub(super) source: Source<'a>,
}

/// Where the content of a change comes from.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// It has none.
    None,
    /// It came with the call.
    Here(&'a [u8]),
    /// It follows the call.
    Attached,
    /// It was kept.
    Kept(Vec<Piece>),
}

impl<'a> Wanted<'a> {
    /// What a task needs.
    pub(super) async fn of(task: &'a ChangeTask, session: &Session) -> Result<Self, CallError> {
        let at = |path: &[u8]| Path(session.absolute(path));
        let plain = |act| Ok(Self { act, source: Source::None });
        match task {
            ChangeTask::Write { path, mode, content } => {
                let source = match content {
                    Content::Inline(text) => Source::Here(text.as_bytes()),
                    Content::Attached => Source::Attached,
                };
                Ok(Self { act: Act::Write { path: at(path), mode: *mode }, source })
            }
            ChangeTask::Edit { files } => {
                fits(files)?;
                let edits =
                    |file: &Edited| FileEdits { path: at(&file.path), edits: file.edits.clone() };
                plain(Act::Edit { files: files.iter().map(edits).collect() })
            }
            ChangeTask::Patch { patch } => Ok(Self {
                act: Act::Patch { base: Path(session.cwd()) },
                source: Source::Here(patch.as_bytes()),
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
                let Restore { entries, pieces, .. } = restore(which, *force, session).await?;
                let source = if pieces.is_empty() { Source::None } else { Source::Kept(pieces) };
                Ok(Self { act: Act::Restore { entries, force: *force }, source })
            }
        }
    }
}

fn fits(files: &[Edited]) -> Result<(), CallError> {
    let edits = files.iter().flat_map(|file| &file.edits);
    let size: usize = edits.map(|edit| edit.old.len() + edit.new.len() + 32).sum();
    let names: usize = files.iter().map(|file| file.path.len() + 32).sum();
    if size + names <= MOST_EDITS {
        return Ok(());
    }
    let message = format!("the edits have {} bytes, and the most is {MOST_EDITS}", size + names);
    let hint = "make several calls of it, or write the file whole";
    Err(CallError::Refused(WireError::new(ErrorCode::TooLarge, message, hint)))
}

async fn restore(which: &Undone, force: bool, session: &Session) -> Result<Restore, UndoError> {
    let owner = session.owner();
    let records = match which {
        Undone::Call(call) => vec![session.undos.one(&owner, call).await?],
        Undone::After(call) => session.undos.since(&owner, call).await?,
    };
    assemble(&records, if force { Force::Forced } else { Force::Careful })
}

/// Whose calls an undo is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The session's own.
    Itself,
    /// Of an earlier session, or of both.
    Others,
}

/// The paths that an undo is about, and who had changed them.
pub(crate) async fn paths_of_undo(
    which: &Undone,
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
