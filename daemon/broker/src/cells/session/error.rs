//! Errors of opening a session, and their conversion for the client. Runs in the broker.

use crate::{
    base::{
        error::LAUNCHER_HINT,
        own::DaemonPathError,
        quotas::{SOON, quota_error},
        services::ServicesError,
    },
    cells::{channel::ChannelError, launcher::LauncherError},
};
use palisade_plan::{cell::Fault, launcher::Refusal};
use palisade_policy::{AddedHostError, AskError, GuardError, PlanError};
use palisade_protocol::{ErrorCode, WireError};
use std::io;

/// An error from opening a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("there is no profile {name:?}")]
    NoProfile { name: String, known: String },
    #[error("the profile {name:?} is invalid: {why}")]
    InvalidProfile { name: String, why: String, known: String },
    #[error("the profile {name:?} is not available to this user ({who})")]
    NotForYou { name: String, who: String },
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the profile {name:?} is not served: {why}")]
    Unproved { name: String, why: String },
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Hosts(#[from] AddedHostError),
    #[error(transparent)]
    Services(#[from] ServicesError),
    #[error("{0} sessions are already open, which is the limit for one user")]
    TooMany(usize),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Own(#[from] DaemonPathError),
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    #[error("the launcher refused the session")]
    Refused(Refusal),
    #[error("{}", step_failed(.step, .why, *.fault))]
    Step { step: String, why: String, fault: Fault },
    #[error("guard is \"transaction\", but transactions are unavailable: {why}")]
    Unheld { why: String, fault: Fault },
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the cell was not ready within {0} s")]
    Silent(u64),
    #[error("the cell could not be requested: {0}")]
    Io(#[from] io::Error),
    #[error("the authority for the hosts of net.rule could not be made: {0}")]
    Authority(#[source] io::Error),
}

/// Describes a failed step. A failure that is the workspace's is described without the step.
fn step_failed(step: &str, why: &str, fault: Fault) -> String {
    match fault {
        Fault::Workspace | Fault::Mount => why.to_owned(),
        Fault::Host => format!("step {step:?} of the cell failed: {why}"),
    }
}

impl From<SessionError> for WireError {
    fn from(error: SessionError) -> Self {
        let (code, hint) = match &error {
            SessionError::NoProfile { known, .. } => {
                (ErrorCode::ProfileNotFound, format!("available profiles: {known}"))
            }
            SessionError::InvalidProfile { known, .. } => (
                ErrorCode::ProfileNotFound,
                format!(
                    "correct it and reload the daemon, or choose another profile; available: {known}"
                ),
            ),
            SessionError::NotForYou { .. } => (
                ErrorCode::Denied,
                "choose another profile, or ask an operator to add you to its [who]".into(),
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
            SessionError::Hosts(AddedHostError::NotAllowed { .. }) => (
                ErrorCode::Denied,
                "leave out `allow_domains`, or ask the operator to add the host to net.allow; only a \
                 daemon that you start for yourself adds it for one session"
                    .into(),
            ),
            SessionError::Hosts(
                AddedHostError::Entry { .. }
                | AddedHostError::Denied { .. }
                | AddedHostError::Ports(_)
                | AddedHostError::Profile(_),
            ) => (
                ErrorCode::InvalidRequest,
                "give hosts as in net.allow of a profile: NAME, *.NAME or NAME:PORT".into(),
            ),
            SessionError::Services(refused) => (
                ErrorCode::OverCeiling,
                format!(
                    "choose another profile, or ask the operator to add {} to {} of palisaded.toml \
                     (or to the option of that name)",
                    refused.services, refused.key
                ),
            ),
            SessionError::TooMany(_) => {
                let hint = "close a session that is no longer needed".to_owned();
                return quota_error(error.to_string(), hint, SOON);
            }
            SessionError::Plan(_) => (ErrorCode::WorkspaceRefused, String::new()),
            SessionError::Own(DaemonPathError::Workspace { .. }) => (
                ErrorCode::WorkspaceRefused,
                "open a directory beside it, or start the daemon with its own files \
                 elsewhere"
                    .into(),
            ),
            SessionError::Own(DaemonPathError::Profile { .. }) => {
                (ErrorCode::InvalidRequest, "choose another profile, or change this one".into())
            }
            SessionError::Launcher(error) => return launcher_error(error),
            SessionError::Refused(refusal) => return refusal_error(refusal),
            SessionError::Step { fault: Fault::Workspace, .. } => {
                (ErrorCode::WorkspaceRefused, WORKSPACE_HINT.into())
            }
            SessionError::Step { fault: Fault::Mount, .. } => (
                ErrorCode::WorkspaceRefused,
                "work on a file system that supports idmapped mounts (ext4, xfs, btrfs, tmpfs and \
                 others; not NFS, overlayfs and most of FUSE), unmount what is below the \
                 directory, or ask the operator to set identity = \"peer\""
                    .into(),
            ),
            SessionError::Unheld { fault: Fault::Workspace | Fault::Mount, .. } => (
                ErrorCode::WorkspaceRefused,
                "do that, or open the session with guard = \"auto\", which falls back to \"text\" \
                 and says so"
                    .into(),
            ),
            SessionError::Unheld { fault: Fault::Host, .. } => (
                ErrorCode::LayerUnavailable,
                "see `palisade doctor`, or open the session on another file system, or with guard \
                 = \"auto\", which falls back to \"text\" and says so"
                    .into(),
            ),
            SessionError::Step { fault: Fault::Host, .. }
            | SessionError::Channel(_)
            | SessionError::Silent(_) => {
                (ErrorCode::CellFailed, "`palisade doctor` shows what this host can enforce".into())
            }
            SessionError::Io(_) | SessionError::Authority(_) => (ErrorCode::CellFailed, "see the daemon's log".into()),
        };
        Self::new(code, error.to_string(), hint)
    }
}

/// The hint about a workspace that can not be used.
const WORKSPACE_HINT: &str = "give a directory that exists and that you can enter";

/// Converts the launcher's absence into an error for clients.
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
            format!("the profile requires {}, which is unavailable: {}", absent.layer, absent.why),
            format!(
                "see `palisade doctor`, or use a profile for which {} is optional, such as `container`",
                absent.layer
            ),
        ),
        Refusal::Ceiling(why) => WireError::new(
            ErrorCode::OverCeiling,
            format!("the profile asks for more than this host allows: {why}"),
            "choose another profile, or ask root to raise the ceiling",
        ),
        Refusal::Identity(why) => WireError::new(
            ErrorCode::InvalidRequest,
            format!("this user can not open a session: {why}"),
            "",
        ),
        Refusal::Workspace(why) => {
            WireError::new(ErrorCode::WorkspaceRefused, why.clone(), WORKSPACE_HINT)
        }
        Refusal::Transaction(why) => WireError::new(
            ErrorCode::LayerUnavailable,
            format!("changes to the workspace can not be held in a transaction: {why}"),
            "see `palisade doctor`, or use a profile with another guard",
        ),
        Refusal::NoUid(why) => WireError::new(
            ErrorCode::LayerUnavailable,
            format!("the session needs a uid of its own, and none is available: {why}"),
            "give the system's launcher an unused range (--session-uids, by `systemctl edit \
             palisade-launcher`; session_uids where the daemon starts it), or set identity = \
             \"peer\"",
        ),
        Refusal::UidsTaken(why) => quota_error(
            format!("no uid is left for another session: {why}"),
            "close a session that is no longer needed, or ask for a larger range (--session-uids)"
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
