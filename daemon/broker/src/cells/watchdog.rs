//! Supervises a runner with a program until the program ends, and ends it if necessary. Runs in the
//! broker.

use crate::{
    base::{ended::ProgramEnd, error::CallError},
    cells::{
        channel::{Channel, ChannelError},
        observe,
        records::{CallDenials, CallWatch, CompletionStatus},
        runner::RunnerKind,
        session::Session,
        why,
    },
};
use palisade_plan::{
    cell::{End, RunReply, RunRequest},
    record::{Recorded, Recording},
};
use std::time::Duration;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The time limit for a runner to answer after everything was killed. On a busy host each of its
/// processes has to get its turn before it is gone.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Supervises a runner with a program.
#[derive(Debug)]
pub(crate) struct Watchdog {
    channel: Channel,
    watched: Option<CallWatch>,
    grace: Duration,
    stopped: Option<CallError>,
    runner: RunnerReuse,
    recorded: Option<Box<Recorded>>,
    /// The channel for the report that the processes are frozen, or why they are not.
    frozen: Option<mpsc::Sender<Option<String>>>,
}

/// The use of a runner after its program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerReuse {
    /// It is reused for the session's next program of this kind.
    Shared(RunnerKind),
    /// It was for one program; its channel is returned to whoever settles the program's changes.
    Once,
}

impl Watchdog {
    pub(crate) const fn new(
        channel: Channel,
        watched: Option<CallWatch>,
        grace: Duration,
        runner: RunnerReuse,
    ) -> Self {
        Self { channel, watched, grace, stopped: None, runner, recorded: None, frozen: None }
    }

    /// Sets where to report that processes are frozen, or why they are not.
    pub(crate) fn with_freeze_reports(self, frozen: mpsc::Sender<Option<String>>) -> Self {
        Self { frozen: Some(frozen), ..self }
    }

    /// Waits for the runner to report the end. Passes on requests. When `stop` completes, ends all
    /// processes with SIGTERM and then SIGKILL.
    pub(crate) async fn wait(
        &mut self,
        stop: impl Future<Output = CallError>,
        requests: &mut mpsc::Receiver<RunRequest>,
    ) -> Result<RunReply, ChannelError> {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                reply = self.answer() => return reply,
                why = &mut stop => {
                    self.stopped = Some(why);
                    break;
                }
                Some(request) = requests.recv() => self.channel.send(&request, &[]).await?,
            }
        }
        for (signal, patience) in [(SIGTERM, self.grace), (SIGKILL, LAST_WORD)] {
            self.channel.send(&RunRequest::Signal(signal), &[]).await?;
            let until = Instant::now() + patience;
            tokio::select! {
                biased;
                reply = self.answer() => return reply,
                () = sleep_until(until) => {}
            }
        }
        tracing::error!("a runner did not answer after its program was killed; it is abandoned");
        Err(ChannelError::Closed)
    }

    /// Waits for the runner's message about the end. Messages about recorded accesses and frozen
    /// processes come before it.
    async fn answer(&mut self) -> Result<RunReply, ChannelError> {
        loop {
            match self.channel.receive().await? {
                RunReply::Recorded(used) => self.recorded = Some(used),
                RunReply::Frozen(why) => {
                    if let Some(frozen) = &self.frozen {
                        // Nobody may be waiting for it any more.
                        frozen.try_send(why).unwrap_or_default();
                    }
                }
                reply @ (RunReply::NotStarted { .. }
                | RunReply::Ended { .. }
                | RunReply::Streams { .. }) => return Ok(reply),
            }
        }
    }

    /// Interprets the runner's message. A runner that can be reused goes back to its session, or is
    /// returned if it was for one program.
    pub(crate) async fn ended(
        self,
        end: Result<RunReply, ChannelError>,
        session: &Session,
        name: String,
    ) -> (ProgramEnd, Option<Channel>) {
        // Must happen before the runner gets another program.
        let told = match self.watched {
            Some(watched) => {
                watched
                    .end(match &end {
                        Ok(RunReply::Ended { end: End::Exit(0), .. }) => CompletionStatus::Success,
                        Ok(RunReply::Ended { .. } | RunReply::NotStarted { .. }) => {
                            CompletionStatus::Failure
                        }
                        Ok(
                            RunReply::Streams { .. } | RunReply::Recorded(_) | RunReply::Frozen(_),
                        )
                        | Err(_) => CompletionStatus::Unknown,
                    })
                    .await
            }
            None => CallDenials::default(),
        };
        let (mut ended, channel) = match (end, self.runner) {
            (Ok(reply), RunnerReuse::Shared(kind)) => {
                session.cell.runners(kind).give_back(self.channel).await;
                (ProgramEnd::of(reply, self.stopped, name), None)
            }
            (Ok(reply), RunnerReuse::Once) => {
                (ProgramEnd::of(reply, self.stopped, name), Some(self.channel))
            }
            (Err(error), runner) => {
                drop(self.channel);
                let failure = self.stopped.unwrap_or_else(|| session.channel_error(error));
                if let RunnerReuse::Shared(kind) = runner {
                    session.cell.runners(kind).prepare().await;
                }
                (ProgramEnd::default().marked(failure), None)
            }
        };
        ended.oom = session.cell.oom.has_new_kills();
        ended.unrecorded = told.missing;
        if let Some(recorded) = &self.recorded {
            observe::used(session, recorded, &mut ended);
        }
        ended.recorded = self.recorded.filter(|_| session.recording == Recording::Yes);
        if let Some(recorded) = &mut ended.recorded {
            let (hosts, lost) = session.network.used_hosts.accesses();
            recorded.noted.extend(hosts);
            recorded.lost += lost;
        }
        ended.denials = why::kernel_denials(session, &told.refused);
        (ended, channel)
    }
}
