//! Watches over a runner with a program: until its end, which it brings about if it has to. Broker.

use crate::{
    channel::{Channel, ChannelError},
    error::CallError,
    observe,
    records::{Ending, Told, Watched},
    session::Session,
    why,
};
use palisade_plan::{
    cell::{End, RunReply, RunRequest},
    record::{Recorded, Recording},
};
use palisade_protocol::{Denial, WireError};
use std::{io, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// How long a runner may take to answer after everything was killed.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Watches over a runner with a program.
#[derive(Debug)]
pub(crate) struct Watchdog {
    channel: Channel,
    watched: Option<Watched>,
    grace: Duration,
    stopped: Option<CallError>,
    runner: Runner,
    recorded: Option<Box<Recorded>>,
}

/// What becomes of a runner when its program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The session's next program has it.
    Shared,
    /// It was for one program; it is given to whoever asks what became of that.
    Once,
}

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
}

impl Watchdog {
    pub(crate) const fn new(
        channel: Channel,
        watched: Option<Watched>,
        grace: Duration,
        runner: Runner,
    ) -> Self {
        Self { channel, watched, grace, stopped: None, runner, recorded: None }
    }

    /// The runner's answer. Signals are passed on; when `stop` says why, everything is ended, first
    /// gently.
    pub(crate) async fn wait(
        &mut self,
        stop: impl Future<Output = CallError>,
        signals: &mut mpsc::Receiver<i32>,
    ) -> Result<RunReply, ChannelError> {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                reply = answer(&mut self.channel, &mut self.recorded) => return reply,
                why = &mut stop => {
                    self.stopped = Some(why);
                    break;
                }
                Some(signal) = signals.recv() => {
                    self.channel.send(&RunRequest::Signal(signal), &[]).await?;
                }
            }
        }
        for (signal, patience) in [(SIGTERM, self.grace), (SIGKILL, LAST_WORD)] {
            self.channel.send(&RunRequest::Signal(signal), &[]).await?;
            let until = Instant::now() + patience;
            tokio::select! {
                biased;
                reply = answer(&mut self.channel, &mut self.recorded) => return reply,
                () = sleep_until(until) => {}
            }
        }
        tracing::error!("a runner did not answer after killing its program; it is given up");
        Err(ChannelError::Closed)
    }

    /// What the runner's answer means. A runner that is still of use goes back to its session, or is
    /// given back here if it was for one program.
    pub(crate) async fn ended(
        self,
        end: Result<RunReply, ChannelError>,
        session: &Session,
        name: String,
    ) -> (Ended, Option<Channel>) {
        // Before its runner has another program.
        let told = match self.watched {
            Some(watched) => {
                watched
                    .end(match &end {
                        Ok(RunReply::Ended { end: End::Exit(0), .. }) => Ending::Well,
                        Ok(RunReply::Ended { .. } | RunReply::NotStarted { .. }) => Ending::Badly,
                        Ok(RunReply::Terminal | RunReply::Recorded(_)) | Err(_) => Ending::Unknown,
                    })
                    .await
            }
            None => Told::default(),
        };
        let (mut ended, channel) = match (end, self.runner) {
            (Ok(reply), Runner::Shared) => {
                session.runners.give_back(self.channel).await;
                (Ended::of(reply, self.stopped, name), None)
            }
            (Ok(reply), Runner::Once) => (Ended::of(reply, self.stopped, name), Some(self.channel)),
            (Err(error), runner) => {
                drop(self.channel);
                let failure = self.stopped.unwrap_or_else(|| session.channel_error(error));
                if runner == Runner::Shared {
                    session.runners.prepare().await;
                }
                (Ended::default().marked(failure), None)
            }
        };
        ended.oom = session.oom.grew();
        ended.unrecorded = told.missing;
        if let Some(recorded) = &self.recorded {
            observe::used(session, recorded, &mut ended);
        }
        ended.recorded = self.recorded.filter(|_| session.recording == Recording::Yes);
        ended.denials = why::told(session, &told.refused);
        (ended, channel)
    }
}

/// The runner's answer; what it recorded comes before.
async fn answer(
    channel: &mut Channel,
    recorded: &mut Option<Box<Recorded>>,
) -> Result<RunReply, ChannelError> {
    loop {
        match channel.receive().await? {
            RunReply::Recorded(used) => *recorded = Some(used),
            reply @ (RunReply::NotStarted { .. } | RunReply::Ended { .. } | RunReply::Terminal) => {
                return Ok(reply);
            }
        }
    }
}

impl Ended {
    fn marked(mut self, error: CallError) -> Self {
        self.timed_out = matches!(error, CallError::TimedOut(_));
        self.cancelled = matches!(error, CallError::Cancelled);
        self.error = Some(error.into());
        self
    }

    fn of(reply: RunReply, stopped: Option<CallError>, program: String) -> Self {
        match reply {
            RunReply::NotStarted { act, errno } => {
                let errno = io::Error::from_raw_os_error(errno);
                let missing = errno.kind() == io::ErrorKind::NotFound;
                let exit_code = Some(if missing { 127 } else { 126 });
                let error = CallError::NotStarted { program, act, errno };
                Self { exit_code, ..Self::default() }.marked(error)
            }
            RunReply::Terminal | RunReply::Recorded(_) => Self::default()
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
