//! Attends a job from its start to its end. Broker.

use super::{
    Job,
    commit::{Committing, Order},
    place::JobPlace,
    tape::Recorder,
};
use crate::{
    attachment::Attachment,
    context::Deadline,
    error::CallError,
    run::Begun,
    session::Session,
    streams::{self, Piece, Taker},
    task::Content,
    watchdog::{Runner, Watchdog},
};
use palisade_plan::cell::RunRequest;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::sleep_until,
};
use tokio_util::sync::CancellationToken;

/// What a job is followed with.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) session: Arc<Session>,
    pub(super) job: Arc<Job>,
    pub(super) name: String,
    pub(super) begun: Begun,
    pub(super) requests: mpsc::Receiver<RunRequest>,
    /// What is to be committed while it runs, if it has a transaction.
    pub(super) orders: Option<mpsc::Receiver<Order>>,
    pub(super) deadline: Option<Deadline>,
    /// What it reads, if that came with its call.
    pub(super) input: (Option<Content>, Option<Attachment>),
    /// The call that still waits for it.
    pub(super) tap: Option<mpsc::Sender<Piece>>,
    pub(super) place: JobPlace,
}

/// Follows a job until it and everything it started is gone.
pub(super) async fn attend(attended: Attended) {
    let Attended { session, job, name, begun, mut requests, orders, .. } = attended;
    let Attended { deadline, input, tap, mut place, .. } = attended;
    let Begun { channel, sink, source, watched, .. } = begun;
    let recorder = Recorder::new(session.profile.spool_bytes());
    let mut taking = Taking { job: &job, recorder, tap };
    let (over, is_over) = watch::channel(false);
    let feed = async {
        if let Some(sink) = sink {
            sink.feed(input.0, input.1).await;
        }
    };
    let grace = Duration::from_millis(session.profile.kill_grace_ms());
    let runner = match &place {
        JobPlace::Transaction(_) => Runner::Once,
        JobPlace::Runner(kind) => Runner::Shared(*kind),
    };
    let (tell_frozen, frozen) = mpsc::channel(1);
    let (stopping, idle) = (CancellationToken::new(), Mutex::new(()));
    let stop = async {
        let why = stopped(&job, deadline).await;
        // A commit that is under way is done, or given up, before anything is killed.
        stopping.cancel();
        drop(idle.lock().await);
        why
    };
    let supervise = async {
        let mut watchdog = Watchdog::new(channel, watched, grace, runner).telling(tell_frozen);
        let end = tokio::select! {
            end = watchdog.wait(stop, &mut requests) => end,
            never = async { feed.await; std::future::pending().await } => never,
        };
        over.send_replace(true);
        (end, watchdog)
    };
    let commits = async {
        if let (JobPlace::Transaction(held), Some(orders)) = (&mut place, orders) {
            let (requests, over) = (job.requests.clone(), is_over.clone());
            let stopping = stopping.clone();
            let committing = Committing { job: &job, held, requests, frozen, stopping, over };
            committing.serve(orders, &idle).await;
        }
    };
    let (pumped, (end, watchdog), ()) =
        tokio::join!(source.pump(is_over.clone(), &mut taking), supervise, commits);
    let pipe = pumped.unwrap_or_else(|error| {
        tracing::warn!(%error, "a job's output could not be read to its end");
        streams::Held::No
    });
    let (mut ended, channel) = watchdog.ended(end, &session, name).await;
    ended.stragglers |= pipe == streams::Held::Yes;
    if let (JobPlace::Transaction(held), Some(_)) = (place, &channel) {
        // Without an answer of its runner there is nothing to be had of it.
        job.progress.send_modify(|progress| progress.settling = true);
        held.settle(&mut ended).await;
    }
    // A writer that waits for room lets go when it sees the end.
    job.end.cancel();
    *job.input.lock().await = None;
    *job.window() = None;
    taking.recorder.finish(&job.tape).await;
    // Whatever was judged meanwhile may have been changed by it.
    session.changed();
    let lasted = job.started.elapsed();
    session.jobs.audit.job_ended(&session, &job, &ended, lasted).await;
    job.progress.send_modify(|progress| {
        progress.lasted = Some(lasted);
        progress.ended = Some(Arc::new(ended));
    });
}

/// Takes in what a job prints.
struct Taking<'a> {
    job: &'a Job,
    recorder: Recorder,
    tap: Option<mpsc::Sender<Piece>>,
}

impl Taker for Taking<'_> {
    async fn take(&mut self, (stream, bytes): Piece) {
        let total = self.recorder.take(&self.job.tape, &bytes).await;
        self.job.progress.send_modify(|progress| progress.total = total);
        if let Some(waiting) = &self.tap
            && waiting.send((stream, bytes)).await.is_err()
        {
            self.tap = None;
        }
    }
}

/// Returns when the job must stop, with the reason.
async fn stopped(job: &Job, deadline: Option<Deadline>) -> CallError {
    let too_late = async {
        match deadline {
            Some(deadline) => {
                sleep_until(deadline.at).await;
                deadline.error()
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = job.end.cancelled() => CallError::Cancelled,
        error = too_late => error,
    }
}
