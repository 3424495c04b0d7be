//! Watches over a runner with a program: until its end, which it brings about if it has to. Broker.

use crate::{
    channel::{Channel, ChannelError},
    ended::Ended,
    error::CallError,
    observe,
    records::{Ending, Told, Watched},
    runner::RunnerKind,
    session::Session,
    why,
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
    /// Who asks that processes stand still.
    frozen: Option<mpsc::Sender<Option<String>>>,
}

/// What becomes of a runner when its program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The session's next program of this kind has it.
    Shared(RunnerKind),
    /// It was for one program; it is given to whoever asks what became of that.
    Once,
}

impl Watchdog {
    pub(crate) const fn new(
        channel: Channel,
        watched: Option<Watched>,
        grace: Duration,
        runner: Runner,
    ) -> Self {
        Self { channel, watched, grace, stopped: None, runner, recorded: None, frozen: None }
    }

    /// The same with somebody who learns whether processes stand still, or why not.
    pub(crate) fn telling(self, frozen: mpsc::Sender<Option<String>>) -> Self {
        Self { frozen: Some(frozen), ..self }
    }

    /// The runner's answer. Requests are passed on; when `stop` says why, everything is ended, first
    /// gently.
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
        tracing::error!("a runner did not answer after killing its program; it is given up");
        Err(ChannelError::Closed)
    }

    /// The runner's answer about the end; what it recorded, and that processes stand still, comes
    /// before.
    async fn answer(&mut self) -> Result<RunReply, ChannelError> {
        loop {
            match self.channel.receive().await? {
                RunReply::Recorded(used) => self.recorded = Some(used),
                RunReply::Frozen(why) => {
                    if let Some(frozen) = &self.frozen {
                        // Nobody asks any more.
                        frozen.try_send(why).unwrap_or_default();
                    }
                }
                reply @ (RunReply::NotStarted { .. }
                | RunReply::Ended { .. }
                | RunReply::Terminal) => return Ok(reply),
            }
        }
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
                        Ok(RunReply::Terminal | RunReply::Recorded(_) | RunReply::Frozen(_))
                        | Err(_) => Ending::Unknown,
                    })
                    .await
            }
            None => Told::default(),
        };
        let (mut ended, channel) = match (end, self.runner) {
            (Ok(reply), Runner::Shared(kind)) => {
                session.runners(kind).give_back(self.channel).await;
                (Ended::of(reply, self.stopped, name), None)
            }
            (Ok(reply), Runner::Once) => (Ended::of(reply, self.stopped, name), Some(self.channel)),
            (Err(error), runner) => {
                drop(self.channel);
                let failure = self.stopped.unwrap_or_else(|| session.channel_error(error));
                if let Runner::Shared(kind) = runner {
                    session.runners(kind).prepare().await;
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
