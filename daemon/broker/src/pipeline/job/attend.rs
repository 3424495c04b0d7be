//! Supervises a job from its start to its end. Runs in the broker.

use super::{commit::CommitContext, place::JobPlace};
use crate::{
    base::{attachment::Attachment, error::CallError, task::Content},
    cells::{
        context::Deadline,
        job::{CommitRequest, Job, tape::Recorder},
        run::StartedProgram,
        session::Session,
        streams::{self, OutputConsumer, OutputPiece},
        watchdog::{RunnerReuse, Watchdog},
    },
    telemetry::audit::sessions::EndedJob,
};
use palisade_plan::cell::RunRequest;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::sleep_until,
};
use tokio_util::sync::CancellationToken;

/// Everything that is needed to supervise a job.
#[derive(Debug)]
pub(super) struct JobSupervision {
    pub(super) session: Arc<Session>,
    pub(super) job: Arc<Job>,
    pub(super) name: String,
    pub(super) begun: StartedProgram,
    pub(super) requests: mpsc::Receiver<RunRequest>,
    /// Requests to commit while the job runs, if it has a transaction.
    pub(super) orders: Option<mpsc::Receiver<CommitRequest>>,
    pub(super) deadline: Option<Deadline>,
    /// The standard input, if it came with the call.
    pub(super) input: (Option<Content>, Option<Attachment>),
    /// The call that still waits for the job.
    pub(super) tap: Option<mpsc::Sender<OutputPiece>>,
    pub(super) place: JobPlace,
}

/// Supervises a job until it and everything it started is gone.
pub(super) async fn attend(attended: JobSupervision) {
    let JobSupervision { session, job, name, begun, mut requests, orders, .. } = attended;
    let JobSupervision { deadline, input, tap, mut place, .. } = attended;
    let StartedProgram { channel, sink, source, watched, .. } = begun;
    let recorder = Recorder::new(session.profile.spool_bytes());
    let mut taking = JobOutputReceiver { job: &job, recorder, tap };
    let (over, is_over) = watch::channel(false);
    let feed = async {
        if let Some(sink) = sink {
            sink.feed(input.0, input.1).await;
        }
    };
    let grace = Duration::from_millis(session.profile.kill_grace_ms());
    let runner = match &place {
        JobPlace::Transaction(_) => RunnerReuse::Once,
        JobPlace::Runner(kind) => RunnerReuse::Shared(*kind),
    };
    let (tell_frozen, frozen) = mpsc::channel(1);
    let (stopping, idle) = (CancellationToken::new(), Mutex::new(()));
    let stop = async {
        let why = stopped(&job, deadline).await;
        // A commit that is under way is finished or given up before anything is killed.
        stopping.cancel();
        drop(idle.lock().await);
        why
    };
    let supervise = async {
        let mut watchdog =
            Watchdog::new(channel, watched, grace, runner).with_freeze_reports(tell_frozen);
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
            let committing = CommitContext { job: &job, held, requests, frozen, stopping, over };
            committing.serve(orders, &idle).await;
        }
    };
    let (pumped, (end, watchdog), ()) =
        tokio::join!(source.pump(is_over.clone(), &mut taking), supervise, commits);
    let pipe = pumped.unwrap_or_else(|error| {
        tracing::warn!(%error, "a job's output could not be read to its end");
        streams::PipeState::No
    });
    let (mut ended, channel) = watchdog.ended(end, &session, name).await;
    session.prepare_next();
    ended.stragglers |= pipe == streams::PipeState::Yes;
    if let (JobPlace::Transaction(held), Some(_)) = (place, &channel) {
        // If the runner has not answered, nothing is committed.
        job.progress.send_modify(|progress| progress.settling = true);
        held.settle(&mut ended).await;
    }
    // A writer that waits for room stops when it sees the end.
    job.end.cancel();
    *job.input.lock().await = None;
    *job.window() = None;
    taking.recorder.finish(&job.tape).await;
    // Calls that were judged meanwhile must be judged again: the job may have changed their
    // targets.
    session.changed();
    let lasted = job.started.elapsed();
    let record = EndedJob {
        call_id: &job.call_id,
        number: job.number,
        output_bytes: job.progress().total,
        lasted,
    };
    session.jobs.audit.job_ended(&session, &record, &ended).await;
    job.progress.send_modify(|progress| {
        progress.lasted = Some(lasted);
        progress.ended = Some(Arc::new(ended));
    });
}

/// Receives the output of a job.
struct JobOutputReceiver<'a> {
    job: &'a Job,
    recorder: Recorder,
    tap: Option<mpsc::Sender<OutputPiece>>,
}

impl OutputConsumer for JobOutputReceiver<'_> {
    async fn take(&mut self, (stream, bytes): OutputPiece) {
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
