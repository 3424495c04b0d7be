//! Why there is no session, and what its client is told. Broker.

use super::LAUNCHER_HINT;
use crate::{
    channel::ChannelError,
    launcher::LauncherError,
    own::OwnError,
    quotas::{SOON, past},
};
use palisade_plan::{cell::Fault, launcher::Refusal};
use palisade_policy::{AskError, GuardError, PlanError};
use palisade_protocol::{ErrorCode, WireError};
use std::io;

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
    #[error("guard is \"transaction\", and there is no transaction to be had: {why}")]
    Unheld { why: String, fault: Fault },
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the cell was not ready within {0} s")]
    Silent(u64),
    #[error("the cell could not be asked for: {0}")]
    Io(#[from] io::Error),
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
            SessionError::Guard(GuardError::Laxer { .. }) => {
                (ErrorCode::InvalidRequest, "leave out `guard`, or choose another profile".into())
            }
            SessionError::Guard(GuardError::Unheld { .. }) => (
                ErrorCode::InvalidRequest,
                "leave out `guard`, choose another profile, or move the directory to fs.unguarded"
                    .into(),
            ),
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
            SessionError::Unheld { fault: Fault::Workspace | Fault::Mount, .. } => (
                ErrorCode::WorkspaceRefused,
                "do that, or open the session with guard = \"auto\", which goes on by text and says so"
                    .into(),
            ),
            SessionError::Unheld { fault: Fault::Host, .. } => (
                ErrorCode::LayerUnavailable,
                "`palisade doctor` says what to do; or open the session on another file system, or with \
                 guard = \"auto\", which goes on by text and says so"
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
fn launcher_error(error: &LauncherError) -> WireError {
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
