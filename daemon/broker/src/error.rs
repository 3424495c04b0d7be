//! What can go wrong with sessions and calls, and the one place where it becomes a wire error.

use crate::{
    channel::ChannelError,
    launcher::LauncherError,
    own::OwnError,
    quotas::{SOON, past},
};
use palisade_plan::{
    Path,
    cell::{Fault, FileError, FileErrorKind},
    launcher::Refusal,
};
use palisade_policy::{AskError, EnvironmentError, GuardError, PlanError};
use palisade_protocol::{ErrorCode, WireError};
use std::io;

/// What to do when the launcher is gone.
const LAUNCHER_HINT: &str = "nothing can be confined without it, so nothing runs; connect and open \
    again, and if that fails too, start the daemon anew";

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("there is no profile {name:?}")]
    NoProfile { name: String, known: String },
    #[error("the profile {name:?} is not for this peer ({who})")]
    NotForYou { name: String, who: String },
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the profile {name:?} is not served: {why}")]
    Unproved { name: String, why: String },
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("{0} sessions are open already, which is the limit for one user")]
    TooMany(usize),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Own(#[from] OwnError),
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    #[error("the launcher refused the session")]
    Refused(Refusal),
    #[error("step {step:?} of the cell failed: {why}")]
    Step { step: String, why: String, fault: Fault },
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the cell was not ready within {0} s")]
    Silent(u64),
    #[error("the cell could not be asked for: {0}")]
    Io(#[from] io::Error),
}

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
    #[error("what the profile hides or protects could not be: {0}; nothing was run")]
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

impl From<SessionError> for WireError {
    fn from(error: SessionError) -> Self {
        let (code, hint) = match &error {
            SessionError::NoProfile { known, .. } => {
                (ErrorCode::ProfileNotFound, format!("there are {known}"))
            }
            SessionError::NotForYou { .. } => (
                ErrorCode::Denied,
                "choose another profile, or have an operator name you in its [who]".into(),
            ),
            SessionError::Unproved { name, .. } => (
                ErrorCode::Unproved,
                format!(
                    "choose another profile; `palisade doctor --prove {name}` shows every escape that was tried"
                ),
            ),
            SessionError::Ask(_) => {
                (ErrorCode::InvalidRequest, "leave out `ask`, or choose another profile".into())
            }
            SessionError::Guard(_) => {
                (ErrorCode::InvalidRequest, "leave out `guard`, or choose another profile".into())
            }
            SessionError::TooMany(_) => {
                let hint = "close a session that is not needed any more".to_owned();
                return past(error.to_string(), hint, SOON);
            }
            SessionError::Plan(_) => (ErrorCode::WorkspaceRefused, String::new()),
            SessionError::Own(OwnError::Workspace { .. }) => (
                ErrorCode::WorkspaceRefused,
                "open a directory beside it, or start the daemon with its things elsewhere".into(),
            ),
            SessionError::Own(OwnError::Profile { .. }) => {
                (ErrorCode::InvalidRequest, "choose another profile, or change this one".into())
            }
            SessionError::Launcher(error) => return launcher_error(error),
            SessionError::Refused(refusal) => return refusal_error(refusal),
            SessionError::Step { fault: Fault::Workspace, .. } => (
                ErrorCode::WorkspaceRefused,
                "give a directory that exists and that you may enter".into(),
            ),
            SessionError::Step { fault: Fault::Mount, .. } => (
                ErrorCode::WorkspaceRefused,
                "work in a directory on a file system that has idmapped mounts (ext4, xfs, btrfs, \
                 tmpfs and others do; NFS, overlayfs and most of FUSE do not), unmount what is below \
                 it, or have the operator set identity = \"peer\""
                    .into(),
            ),
            SessionError::Step { fault: Fault::Host, .. }
            | SessionError::Channel(_) | SessionError::Silent(_) => {
                (ErrorCode::CellFailed, "`palisade doctor` shows what this host can enforce".into())
            }
            SessionError::Io(_) => (ErrorCode::CellFailed, "see the daemon's log".into()),
        };
        Self::new(code, error.to_string(), hint)
    }
}

/// The launcher's absence, as clients are told.
pub(crate) fn launcher_error(error: &LauncherError) -> WireError {
    WireError::new(
        ErrorCode::LauncherGone,
        match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
        LAUNCHER_HINT,
    )
}

fn refusal_error(refusal: &Refusal) -> WireError {
    match refusal {
        Refusal::LayerMissing(absent) => WireError::new(
            ErrorCode::LayerUnavailable,
            format!(
                "the profile requires {}, which is not to be had: {}",
                absent.layer, absent.why
            ),
            format!(
                "`palisade doctor` says what to do; or use a profile that names {} as optional",
                absent.layer
            ),
        ),
        Refusal::Ceiling(why) => WireError::new(
            ErrorCode::OverCeiling,
            format!("the profile asks for more than this host allows: {why}"),
            "choose another profile, or have the ceiling raised by root",
        ),
        Refusal::Identity(why) => WireError::new(
            ErrorCode::InvalidRequest,
            format!("no session for this user: {why}"),
            "",
        ),
        Refusal::Transaction(why) => WireError::new(
            ErrorCode::LayerUnavailable,
            format!("what the command does to the workspace can not be held back: {why}"),
            "`palisade doctor` says what to do; or use a profile with another guard",
        ),
        Refusal::NoUid(why) => WireError::new(
            ErrorCode::LayerUnavailable,
            format!("the session is to have a uid of its own, and there is none to be had: {why}"),
            "give the system's launcher a range that nobody has (--session-uids, by `systemctl edit \
             palisade-launcher`; session_uids where the daemon starts it), or set identity = \"peer\"",
        ),
        Refusal::UidsTaken(why) => past(
            format!("there is no uid left for another session: {why}"),
            "close a session that is not needed any more, or have the range made larger \
             (--session-uids)"
                .to_owned(),
            SOON,
        ),
        Refusal::Session(why) => WireError::new(ErrorCode::Internal, why.clone(), ""),
        Refusal::Spawn(why) => WireError::new(
            ErrorCode::CellFailed,
            format!("the cell could not be started: {why}"),
            "`palisade doctor` shows what this host can enforce",
        ),
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
                "`palisade doctor` says what to do; or use a profile that names hide and protect as \
                 optional, or has neither fs.hide nor fs.protect",
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
