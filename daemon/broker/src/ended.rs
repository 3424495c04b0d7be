//! How a program ended: what its runner says, and what else is known of it. Broker, pure.

use crate::error::CallError;
use palisade_plan::{
    cell::{End, RunReply},
    record::Recorded,
};
use palisade_protocol::{Checkpoint, Denial, Finding, JsonText, WireError};
use std::io;

/// How a program ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended {
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    pub(crate) oom: bool,
    /// It left something running, which was killed.
    pub(crate) stragglers: bool,
    pub(crate) error: Option<WireError>,
    /// Where it was then.
    pub(crate) cwd: Option<Vec<u8>>,
    /// What it used, if the session records.
    pub(crate) recorded: Option<Box<Recorded>>,
    /// What the kernel refused it.
    pub(crate) denials: Vec<Denial>,
    /// What the profile would have refused it, were it enforced.
    pub(crate) observed: Vec<Denial>,
    /// Why there may be more of that; empty if there are none.
    pub(crate) unrecorded: String,
    /// What became of its effects, if it ran in a transaction.
    pub(crate) settled: Option<Box<Settled>>,
}

/// What became of the effects of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    /// The effects, and whether they were committed.
    pub(crate) data: Option<JsonText>,
    /// An id for `undo`.
    pub(crate) undo: Option<String>,
    pub(crate) findings: Vec<Finding>,
    /// The answer, if somebody had to be asked.
    pub(crate) checkpoint: Option<Checkpoint>,
}

impl Ended {
    /// The same with what went wrong.
    pub(crate) fn marked(mut self, error: CallError) -> Self {
        self.timed_out = matches!(error, CallError::TimedOut(_));
        self.cancelled = matches!(error, CallError::Cancelled);
        self.error = Some(error.into());
        self
    }

    /// What a runner's answer says.
    pub(crate) fn of(reply: RunReply, stopped: Option<CallError>, program: String) -> Self {
        match reply {
            RunReply::NotStarted { act, errno } => {
                let errno = io::Error::from_raw_os_error(errno);
                let missing = errno.kind() == io::ErrorKind::NotFound;
                let exit_code = Some(if missing { 127 } else { 126 });
                let error = CallError::NotStarted { program, act, errno };
                Self { exit_code, ..Self::default() }.marked(error)
            }
            RunReply::Terminal | RunReply::Recorded(_) | RunReply::Frozen(_) => Self::default()
                .marked(CallError::Cell("a terminal or a record came unasked".to_owned())),
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
