//! Errors of sessions and calls, and the one place where they become wire errors. Runs in the
//! broker.

use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use palisade_policy::EnvironmentError;
use palisade_protocol::{ErrorCode, WireError};
use std::io;

/// The hint when the launcher is gone.
pub(crate) const LAUNCHER_HINT: &str = "nothing can be confined without it, so nothing runs; connect and open \
                             a session again, and if that fails too, restart the daemon";

/// An error for which a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the launcher is gone: {0}")]
    LauncherGone(String),
    #[error("the session has ended: its cell ended")]
    SessionOver,
    #[error("an operator ended the session")]
    Aborted,
    #[error("the cell failed: {0}")]
    Cell(String),
    #[error("the call did not end within {0} ms")]
    TimedOut(u128),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("the approval is no longer valid: {0} since it was shown; nothing was done")]
    Stale(String),
    #[error("the decision is no longer valid: {0}; nothing was done")]
    Unforeseen(String),
    #[error("the change was interrupted, and it is unknown whether it was made: {0}")]
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
    #[error("no transaction is available for it: {0}; nothing was run")]
    Transaction(String),
    #[error("{0:?} is not UTF-8 text")]
    NotText(String),
    #[error("{0}")]
    Provider(String),
    #[error("the client stopped before its attachment was complete")]
    NoAttachment,
    #[error("{0} jobs are already running in this session")]
    TooManyJobs(usize),
    #[error("there is no job {0} in this session")]
    NoJob(u64),
    #[error("job {0} has ended")]
    JobOver(u64),
    #[error("job {0} does not accept input")]
    NoInput(u64),
    #[error("job {0} has no terminal")]
    NoTerminal(u64),
    #[error("job_commit was denied, so the job was ended (if_refused): its changes are discarded")]
    Discarded,
    #[error("job {0} has no transaction: there is nothing to commit")]
    NoTransaction(u64),
    #[error("job {job} can not be committed now: {why}. Nothing was committed")]
    NotFrozen { job: u64, why: String },
    #[error("the job read {written} of {whole} bytes and then stopped reading")]
    NotRead { written: usize, whole: usize },
    #[error("`cursor`: {cursor} is past the end of the job's output, {total}")]
    Cursor { cursor: u64, total: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl CallError {
    /// The hidden or protected name that the error is about, if it is about one.
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
            CallError::SessionOver => {
                (ErrorCode::CellFailed, "connect again and open another session")
            }
            CallError::Aborted => (
                ErrorCode::Aborted,
                "do not open another session to repeat it: ask the operator what to do instead",
            ),
            CallError::Cell(_) => {
                (ErrorCode::CellFailed, "try again; if it happens again, open another session")
            }
            CallError::TimedOut(_) => (
                ErrorCode::TimedOut,
                "set a longer timeout_ms, up to the profile's limit, or do less in one call",
            ),
            CallError::Cancelled => (ErrorCode::Cancelled, ""),
            CallError::Unforeseen(_) => (ErrorCode::StaleApproval, "make the call again"),
            CallError::Unknown(_) => {
                (ErrorCode::CellFailed, "check the files; undo with force reverts the change")
            }
            CallError::Refused(refused) => return refused.clone(),
            CallError::Stale(_) => (ErrorCode::StaleApproval, "make the call again"),
            CallError::NotStarted { act, errno, .. } => {
                (ErrorCode::SpawnFailed, start_hint(act, errno))
            }
            CallError::CommandFailed(_) => {
                (ErrorCode::CommandFailed, "see its output for the reason")
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
                "fix the named cause, or see `palisade doctor`; guard = \"text\" needs no \
                 transaction if the profile has no fs.hide and fs.protect, or lists both as \
                 optional",
            ),
            CallError::NotText(_) => (
                ErrorCode::InvalidArguments,
                "choose encoding base64, or raw for the exact bytes as events",
            ),
            CallError::Provider(_) => (
                ErrorCode::ProviderFailed,
                "its effects are unknown; `tools` shows whether the tool is still available",
            ),
            CallError::NoAttachment => {
                (ErrorCode::InvalidRequest, "send `input` messages, the last one with `end`")
            }
            CallError::TooManyJobs(_) => (
                ErrorCode::LimitReached,
                "end one with job_kill, or wait for one to end; the profile's limits.jobs is the \
                 maximum",
            ),
            CallError::NoJob(_) => (ErrorCode::NotFound, "job_list shows the jobs of the session"),
            CallError::JobOver(_) => {
                (ErrorCode::NotFound, "job_output shows how it ended and what it printed")
            }
            CallError::NoInput(_) => (
                ErrorCode::InvalidArguments,
                "start it with `input`; once its input has ended, no more can be sent",
            ),
            CallError::NoTerminal(_) => (ErrorCode::InvalidArguments, "start it with `pty`"),
            CallError::Discarded => {
                (ErrorCode::Denied, "the result of job_commit says why it was denied")
            }
            CallError::NoTransaction(_) => (
                ErrorCode::InvalidArguments,
                "changes of a job on the direct route take effect at once; a job on the reading \
                 route changes nothing",
            ),
            CallError::NotFrozen { .. } => {
                (ErrorCode::LimitReached, "try again, or end the job: its changes are judged then")
            }
            CallError::NotRead { .. } => {
                (ErrorCode::TimedOut, "job_output shows what the job is doing")
            }
            CallError::Cursor { .. } => {
                (ErrorCode::InvalidArguments, "give the cursor of the last result")
            }
            CallError::Io(_) => (ErrorCode::Internal, "see the daemon's log"),
        };
        let wire = Self::new(code, error.to_string(), hint);
        if let CallError::NotStarted { errno, .. } = &error {
            return wire.with_errno(errno.raw_os_error().unwrap_or_default());
        }
        wire
    }
}

fn start_hint(act: &str, errno: &io::Error) -> &'static str {
    match (act, errno.kind()) {
        ("chdir", _) => "give a `cwd` that exists inside the session",
        ("landlock", io::ErrorKind::ArgumentListTooLong) => {
            "at most 16 Landlock domains can be stacked, and other sandboxes have used them up: \
             start the daemon outside of them"
        }
        (_, io::ErrorKind::NotFound) => {
            "check that it is installed and in PATH; only system programs and the workspace are \
             visible"
        }
        (_, io::ErrorKind::PermissionDenied) => {
            "check that it is executable, and in a place where the profile allows programs to run"
        }
        (_, io::ErrorKind::ArgumentListTooLong) => "pass the data on standard input or in a file",
        _ => "",
    }
}

fn file_error(failure: &FileError) -> WireError {
    let (code, hint) = match failure.kind {
        FileErrorKind::NotFound => (ErrorCode::NotFound, "list_files shows which files exist"),
        FileErrorKind::OutsidePolicy => (
            ErrorCode::OutsidePolicy,
            "stay inside the workspace, or use a profile that grants the path",
        ),
        FileErrorKind::NotRegular => (ErrorCode::NotRegular, "give the path of a regular file"),
        FileErrorKind::TooLarge => (
            ErrorCode::TooLarge,
            "read a range of lines, or all of it with encoding raw; the profile's limits.file \
             bounds both",
        ),
        FileErrorKind::AlreadyExists => {
            (ErrorCode::AlreadyExists, "choose another name, or change what exists")
        }
        FileErrorKind::Invalid => (ErrorCode::InvalidArguments, ""),
        FileErrorKind::FileSystem => (ErrorCode::FileSystem, ""),
        FileErrorKind::NoMatch => (
            ErrorCode::NoMatch,
            "read the file again, and copy its lines exactly, as many as make the place unique",
        ),
        FileErrorKind::Conflict | FileErrorKind::InterruptedCommit => {
            (ErrorCode::Conflict, "check the current content, and decide again")
        }
        FileErrorKind::Unreadable => {
            (ErrorCode::OutsidePolicy, "change its mode first (bash: chmod u+rw)")
        }
        FileErrorKind::StillOpen => (
            ErrorCode::Conflict,
            "end the job that has the file (job_list, job_kill), and make the call again",
        ),
        FileErrorKind::Broken => (ErrorCode::CellFailed, "try again"),
        FileErrorKind::Hidden | FileErrorKind::Protected => {
            (ErrorCode::OutsidePolicy, "leave it alone, or ask the author of the profile")
        }
    };
    WireError::new(code, failure.message.clone(), hint).with_errno(failure.errno)
}
