//! What can go wrong with sessions and calls, and the one place where it becomes a wire error.

mod session;

pub(crate) use session::SessionError;

use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use palisade_policy::EnvironmentError;
use palisade_protocol::{ErrorCode, WireError};
use std::io;

/// What to do when the launcher is gone.
const LAUNCHER_HINT: &str = "nothing can be confined without it, so nothing runs; connect and open \
    again, and if that fails too, start the daemon anew";

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the launcher is gone: {0}")]
    LauncherGone(String),
    #[error("the session is over: its cell ended")]
    SessionOver,
    #[error("the cell failed: {0}")]
    Cell(String),
    #[error("the call did not end within {0} ms")]
    TimedOut(u128),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("the approval does not hold any more: {0} since it was shown; nothing was done")]
    Stale(String),
    #[error("the judgement does not hold any more: {0}; nothing was done")]
    Unforeseen(String),
    #[error("the change was being made, and whether it is done is not known: {0}")]
    Unknown(Box<Self>),
    #[error("{}", .0.message)]
    Refused(WireError),
    #[error("{program:?} could not be started: {act}: {errno}")]
    NotStarted { program: String, act: String, errno: io::Error },
    #[error("the program ended {0}")]
    CommandFailed(String),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("{}", .0.message)]
    File(FileError),
    #[error("{}", .failure.message)]
    Changing { failure: FileError, hint: &'static str },
    #[error("there is no transaction for it: {0}; nothing was run")]
    Transaction(String),
    #[error("{0:?} is not UTF-8 text")]
    NotText(String),
    #[error("{0}")]
    Provider(String),
    #[error("the client ended before its attachment did")]
    NoAttachment,
    #[error("{0} jobs run in this session already")]
    TooManyJobs(usize),
    #[error("there is no job {0} in this session")]
    NoJob(u64),
    #[error("job {0} has ended")]
    JobOver(u64),
    #[error("job {0} can not be typed into")]
    NoInput(u64),
    #[error("job {0} has no terminal")]
    NoTerminal(u64),
    #[error("job_commit was refused and said that the job ends then: what it changed is discarded")]
    Discarded,
    #[error("job {0} has no transaction: there is nothing to commit")]
    NoTransaction(u64),
    #[error("job {job} could not be made to stand still: {why}. Nothing was committed")]
    NotFrozen { job: u64, why: String },
    #[error("the job took {written} of {whole} bytes and does not read on")]
    NotRead { written: usize, whole: usize },
    #[error("`cursor`: {cursor} is after the end of what the job printed, {total}")]
    Cursor { cursor: u64, total: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl CallError {
    /// The name that is hidden or protected, where that is what is wrong.
    pub(crate) const fn about(&self) -> Option<&Path> {
        if let Self::File(failure) | Self::Changing { failure, .. } = self {
            return failure.about.as_ref();
        }
        None
    }
}

impl From<CallError> for WireError {
    fn from(error: CallError) -> Self {
        let (code, hint) = match &error {
            CallError::LauncherGone(_) => (ErrorCode::LauncherGone, LAUNCHER_HINT),
            CallError::SessionOver => (ErrorCode::CellFailed, "connect again and open another"),
            CallError::Cell(_) => {
                (ErrorCode::CellFailed, "try again; if it happens again, open another session")
            }
            CallError::TimedOut(_) => (
                ErrorCode::TimedOut,
                "give a longer timeout_ms, within what the profile allows, or do less at once",
            ),
            CallError::Cancelled => (ErrorCode::Cancelled, ""),
            CallError::Unforeseen(_) => (ErrorCode::StaleApproval, "make the call again"),
            CallError::Unknown(_) => {
                (ErrorCode::CellFailed, "look at what is there; undo with force takes it back")
            }
            CallError::Refused(refused) => return refused.clone(),
            CallError::Stale(_) => (ErrorCode::StaleApproval, "make the call again"),
            CallError::NotStarted { act, errno, .. } => {
                (ErrorCode::SpawnFailed, start_hint(act, errno))
            }
            CallError::CommandFailed(_) => {
                (ErrorCode::CommandFailed, "its own output says why, if it said anything")
            }
            CallError::Environment(_) => {
                (ErrorCode::InvalidArguments, "leave the variable out of `env`")
            }
            CallError::File(failure) => return file_error(failure),
            CallError::Changing { failure, hint } => {
                return Self { hint: (*hint).to_owned(), ..file_error(failure) };
            }
            CallError::Transaction(_) => (
                ErrorCode::LayerUnavailable,
                "mend what it names, or see `palisade doctor`; a session with guard = \"text\" does \
                 without, if its profile has no fs.hide and fs.protect, or both as optional",
            ),
            CallError::NotText(_) => (
                ErrorCode::InvalidArguments,
                "choose encoding base64, or raw for the exact bytes as events",
            ),
            CallError::Provider(_) => (
                ErrorCode::ProviderFailed,
                "what it has done is not known; `tools` says whether the tool is still there",
            ),
            CallError::NoAttachment => {
                (ErrorCode::InvalidRequest, "send `input` messages up to one with `end`")
            }
            CallError::TooManyJobs(_) => (
                ErrorCode::LimitReached,
                "end one with job_kill, or wait for one to end; limits.jobs of the profile says how \
                 many there may be",
            ),
            CallError::NoJob(_) => (ErrorCode::NotFound, "job_list shows which there are"),
            CallError::JobOver(_) => {
                (ErrorCode::NotFound, "job_output shows how it ended and what it printed")
            }
            CallError::NoInput(_) => (
                ErrorCode::InvalidArguments,
                "start it with `input`; input that was ended can not go on",
            ),
            CallError::NoTerminal(_) => (ErrorCode::InvalidArguments, "start it with `pty`"),
            CallError::Discarded => {
                (ErrorCode::Denied, "the result of job_commit says why it was refused")
            }
            CallError::NoTransaction(_) => (
                ErrorCode::InvalidArguments,
                "what a job of the direct route changes takes effect at once; one of the reading \
                 route changes nothing",
            ),
            CallError::NotFrozen { .. } => {
                (ErrorCode::LimitReached, "try again, or end the job: what it did is judged then")
            }
            CallError::NotRead { .. } => {
                (ErrorCode::TimedOut, "job_output shows what it does instead")
            }
            CallError::Cursor { .. } => {
                (ErrorCode::InvalidArguments, "give the cursor of the last result")
            }
            CallError::Io(_) => (ErrorCode::Internal, "see the daemon's log"),
        };
        Self::new(code, error.to_string(), hint)
    }
}

fn start_hint(act: &str, errno: &io::Error) -> &'static str {
    match (act, errno.kind()) {
        ("chdir", _) => "give a `cwd` that exists inside the session",
        ("landlock", io::ErrorKind::ArgumentListTooLong) => {
            "16 Landlock domains can be stacked, and others have used them up: start the daemon \
             outside of other sandboxes"
        }
        (_, io::ErrorKind::NotFound) => {
            "only the system's programs and the workspace are there; is it installed, and in PATH?"
        }
        (_, io::ErrorKind::PermissionDenied) => {
            "is it executable, and in a place where the profile lets programs run?"
        }
        (_, io::ErrorKind::ArgumentListTooLong) => {
            "hand the data over on standard input or in a file"
        }
        _ => "",
    }
}

fn file_error(failure: &FileError) -> WireError {
    let (code, hint) = match failure.kind {
        FileErrorKind::NotFound => (ErrorCode::NotFound, "list_files shows what is there"),
        FileErrorKind::OutsidePolicy => (
            ErrorCode::OutsidePolicy,
            "stay inside the workspace, or use a profile that grants the path",
        ),
        FileErrorKind::NotRegular => (ErrorCode::NotRegular, "give the path of a regular file"),
        FileErrorKind::TooLarge => (
            ErrorCode::TooLarge,
            "read some of its lines, or all with encoding raw; limits.file of the profile bounds both",
        ),
        FileErrorKind::AlreadyExists => {
            (ErrorCode::AlreadyExists, "choose another name, or mode overwrite")
        }
        FileErrorKind::Invalid => (ErrorCode::InvalidArguments, ""),
        FileErrorKind::FileSystem => (ErrorCode::FileSystem, ""),
        FileErrorKind::NoMatch => {
            (ErrorCode::NoMatch, "read the file again, and give its own lines exactly")
        }
        FileErrorKind::Conflict => {
            (ErrorCode::Conflict, "look at what is there now, and decide again")
        }
        FileErrorKind::Broken => (ErrorCode::CellFailed, "try again"),
        FileErrorKind::Hidden | FileErrorKind::Protected => {
            (ErrorCode::OutsidePolicy, "leave it as it is, or ask whoever wrote the profile")
        }
    };
    WireError::new(code, failure.message.clone(), hint)
}
