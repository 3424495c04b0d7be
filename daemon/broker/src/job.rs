//! The jobs of a session: programs that run on after their call has been answered. Broker.

mod attend;
pub(crate) mod commit;
pub(crate) mod place;
mod ring;
pub(crate) mod serve;
pub(crate) mod start;
mod tape;

use crate::{
    audit::Audit,
    census::{Census, Counted, Enrolled},
    ended::Ended,
    error::CallError,
    quotas::{SOON, past},
    streams::{Sink, Window},
    task::JobNumber,
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::{CallId, JobInfo, SessionId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How many jobs that are over stay listed; the oldest are forgotten.
const MOST_ENDED: usize = 256;

/// How long the jobs of a session that ends may take to be accounted for.
const ACCOUNTED: Duration = Duration::from_secs(5);

/// How far a job is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Bytes printed so far.
    pub(crate) total: u64,
    /// Its effects are being settled: its processes are gone, or stand still.
    pub(crate) settling: bool,
    /// Set once everything of it is gone.
    pub(crate) ended: Option<Arc<Ended>>,
    /// How long it ran.
    pub(crate) lasted: Option<Duration>,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: JobNumber,
    /// The call that started it, which its spool is named by.
    pub(crate) call_id: CallId,
    /// What it runs, in short.
    pub(crate) command: String,
    pub(crate) started: Instant,
    progress: watch::Sender<Progress>,
    tape: tape::Tape,
    requests: mpsc::Sender<RunRequest>,
    /// What it did so far is committed by these; none if it has no transaction.
    commits: Option<mpsc::Sender<commit::Order>>,
    /// Ends it, first gently.
    end: CancellationToken,
    /// None if it was not asked for, or has ended.
    input: tokio::sync::Mutex<Option<Sink>>,
    /// None if it has no terminal, or has ended.
    window: Mutex<Option<Window>>,
}

impl Job {
    pub(crate) fn is_over(&self) -> bool {
        self.progress.borrow().ended.is_some()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    fn window(&self) -> MutexGuard<'_, Option<Window>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn info(&self, session: &SessionId) -> JobInfo {
        let Progress { total, ended, lasted, .. } = self.progress();
        let time = lasted.unwrap_or_else(|| self.started.elapsed());
        JobInfo {
            session: session.clone(),
            job: self.number,
            call_id: self.call_id.clone(),
            command: self.command.clone(),
            running: ended.is_none(),
            exit_code: ended.as_ref().and_then(|ended| ended.exit_code),
            signal: ended.as_ref().and_then(|ended| ended.signal),
            output_bytes: total,
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Waits for its end.
    async fn ended(&self) -> Arc<Ended> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.ended.is_some()).await;
        // The sender is the job's own.
        ended.ok().and_then(|progress| progress.ended.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Table {
    last: JobNumber,
    jobs: BTreeMap<JobNumber, Arc<Job>>,
    closed: bool,
}

/// The jobs of a session.
#[derive(Debug)]
pub(crate) struct Jobs {
    table: Mutex<Table>,
    most: usize,
    audit: Audit,
    places: Places,
}

/// The places for jobs that all sessions of a user share.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) census: Census,
    pub(crate) uid: u32,
    /// None: as many as their sessions allow.
    pub(crate) most: Option<u32>,
}

impl Places {
    fn take(&self) -> Result<Option<Enrolled>, CallError> {
        let Some(most) = self.most else { return Ok(None) };
        let enrolled = self.census.enroll(Counted::Job, self.uid, most as usize);
        enrolled.map(Some).map_err(|count| {
            CallError::Refused(past(
                format!("{count} jobs of this user run already"),
                format!("quotas.jobs allows {most}; end one with job_kill, or wait for one to end"),
                SOON,
            ))
        })
    }
}

impl Jobs {
    /// At most `most` at once.
    pub(crate) fn new(most: u64, audit: Audit, places: Places) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { table: Mutex::default(), most, audit, places }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a job, if it is not one too many.
    fn enter(&self, make: impl FnOnce(JobNumber) -> Job) -> Result<Arc<Job>, CallError> {
        let mut table = self.table();
        if table.closed {
            return Err(CallError::SessionOver);
        }
        let over: Vec<JobNumber> = table
            .jobs
            .values()
            .filter(|job| job.progress().ended.is_some())
            .map(|j| j.number)
            .collect();
        if table.jobs.len() - over.len() >= self.most {
            return Err(CallError::TooManyJobs(self.most));
        }
        for number in over.iter().take(over.len().saturating_sub(MOST_ENDED)) {
            table.jobs.remove(number);
        }
        table.last += 1;
        let job = Arc::new(make(table.last));
        table.jobs.insert(job.number, Arc::clone(&job));
        Ok(job)
    }

    /// Forgets a job that never was one for anybody.
    fn forget(&self, number: JobNumber) {
        self.table().jobs.remove(&number);
    }

    /// A job by its number.
    pub(crate) fn get(&self, number: JobNumber) -> Result<Arc<Job>, CallError> {
        self.table().jobs.get(&number).cloned().ok_or(CallError::NoJob(number))
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.table().jobs.values().cloned().collect()
    }

    /// What is told of them outside of their session.
    pub(crate) fn infos(&self, session: &SessionId) -> Vec<JobInfo> {
        self.all().iter().map(|job| job.info(session)).collect()
    }

    /// No more of them; those that run are over with their session.
    pub(crate) fn close(&self) {
        self.table().closed = true;
    }

    /// Waits until the end of each is accounted for. Their processes are gone already.
    pub(crate) async fn accounted(&self) {
        let all = async {
            for job in self.all() {
                job.ended().await;
            }
        };
        if timeout(ACCOUNTED, all).await.is_err() {
            tracing::warn!("a job of a session that is over is not accounted for");
        }
    }
}
