//! The end of a program: its runner's reply, and what else is known. Pure: no I/O.

use crate::base::error::CallError;
use palisade_plan::{
    cell::{End, RunReply},
    record::Recorded,
};
use palisade_protocol::{Checkpoint, Denial, Finding, JsonText, WireError};
use std::io;

/// The end of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramEnd {
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    pub(crate) oom: bool,
    /// True if the program left processes running, which were killed.
    pub(crate) stragglers: bool,
    pub(crate) error: Option<WireError>,
    /// The working directory of the program when it ended.
    pub(crate) cwd: Option<Vec<u8>>,
    /// The accesses and resources of the program, if the session records them.
    pub(crate) recorded: Option<Box<Recorded>>,
    /// The operations that the kernel denied the program.
    pub(crate) denials: Vec<Denial>,
    /// The operations that the profile would have denied if it were enforced.
    pub(crate) observed: Vec<Denial>,
    /// The reason that the two lists of denials may be incomplete; empty if they are complete.
    pub(crate) unrecorded: String,
    /// The fate of the effects, if the program ran in a transaction.
    pub(crate) settled: Option<Box<SettledEffects>>,
}

/// The fate of a job's effects.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettledEffects {
    /// The effects, and whether they were committed.
    pub(crate) data: Option<JsonText>,
    /// The id for `undo`.
    pub(crate) undo: Option<String>,
    pub(crate) findings: Vec<Finding>,
    /// The answer of the approver, if approval was needed.
    pub(crate) checkpoint: Option<Checkpoint>,
}

impl ProgramEnd {
    /// Adds what went wrong.
    pub(crate) fn marked(mut self, error: CallError) -> Self {
        self.timed_out = matches!(error, CallError::TimedOut(_));
        self.cancelled = matches!(error, CallError::Cancelled);
        self.error = Some(error.into());
        self
    }

    /// Converts a runner's reply.
    pub(crate) fn of(reply: RunReply, stopped: Option<CallError>, program: String) -> Self {
        match reply {
            RunReply::NotStarted { act, errno } => {
                let errno = io::Error::from_raw_os_error(errno);
                let missing = errno.kind() == io::ErrorKind::NotFound;
                let exit_code = Some(if missing { 127 } else { 126 });
                let error = CallError::NotStarted { program, act, errno };
                Self { exit_code, ..Self::default() }.marked(error)
            }
            RunReply::Streams { .. } | RunReply::Recorded(_) | RunReply::Frozen(_) => {
                Self::default().marked(CallError::Cell("it sent an unexpected reply".to_owned()))
            }
            RunReply::Ended { end, cwd, stragglers } => {
                let (exit_code, signal, why) = match end {
                    End::Exit(0) => (0, None, None),
                    End::Exit(status) => (status, None, Some(format!("with status {status}"))),
                    End::Signal(number) => {
                        (128 + number, Some(number), Some(format!("by signal {number}")))
                    }
                };
                let ended = Self {
                    exit_code: Some(exit_code),
                    signal,
                    stragglers: stragglers > 0,
                    cwd: cwd.map(|path| path.0),
                    ..Self::default()
                };
                match stopped.or_else(|| why.map(CallError::CommandFailed)) {
                    Some(error) => ended.marked(error),
                    None => ended,
                }
            }
        }
    }
}
