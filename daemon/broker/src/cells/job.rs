//! The jobs of a session: programs that keep running after their call has been answered. Runs in
//! the broker.

mod ring;
pub(crate) mod tape;

use crate::{
    base::{
        census::{Census, CensusEntry, CountedKind},
        ended::ProgramEnd,
        error::CallError,
        outcome::Outcome,
        quotas::{SOON, quota_error},
        task::{JobNumber, RefusalAction},
    },
    cells::{
        context::Context,
        streams::{InputSink, Window},
    },
    telemetry::audit::{Audit, docket::CallAudit},
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::{
    Bytes, CallId, JobInfo, OutputPage, OutputQuery, SessionId, limits::MAX_CHUNK,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tape::OutputPart;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// The most ended jobs that stay listed; the oldest are dropped.
const MOST_ENDED: usize = 256;

/// The time limit for recording the ends of a session's jobs when the session ends.
const ACCOUNTED: Duration = Duration::from_secs(5);

/// The progress of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The number of bytes printed so far.
    pub(crate) total: u64,
    /// True if the effects are being reviewed: the job's processes are gone or frozen.
    pub(crate) settling: bool,
    /// Set once all processes of the job are gone.
    pub(crate) ended: Option<Arc<ProgramEnd>>,
    /// The time that the job ran.
    pub(crate) lasted: Option<Duration>,
}

/// A call's request to commit what a job has changed so far.
#[derive(Debug)]
pub(crate) struct CommitRequest {
    pub(crate) context: Context,
    pub(crate) docket: CallAudit,
    pub(crate) if_refused: RefusalAction,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// A background job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: JobNumber,
    /// The call that started the job; its stored output has this name.
    pub(crate) call_id: CallId,
    /// The command in short.
    pub(crate) command: String,
    pub(crate) started: Instant,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) tape: tape::Tape,
    pub(crate) requests: mpsc::Sender<RunRequest>,
    /// Takes requests to commit what the job changed so far; `None` if it has no transaction.
    pub(crate) commits: Option<mpsc::Sender<CommitRequest>>,
    /// Ends the job, first gently.
    pub(crate) end: CancellationToken,
    /// The standard input; `None` if it was not asked for, or has ended.
    pub(crate) input: tokio::sync::Mutex<Option<InputSink>>,
    /// The terminal; `None` if the job has none, or has ended.
    pub(crate) window: Mutex<Option<Window>>,
}

impl Job {
    pub(crate) fn is_over(&self) -> bool {
        self.progress.borrow().ended.is_some()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(crate) fn window(&self) -> MutexGuard<'_, Option<Window>> {
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

    /// Returns a page of what the job has printed so far. Its offset is later than the one asked for
    /// if the bytes between are not stored.
    pub(crate) async fn page(&self, query: &OutputQuery) -> OutputPage {
        let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_CHUNK);
        let total = self.progress().total;
        let OutputPart { start, bytes } = self.tape.read(query.offset.min(total), limit).await;
        OutputPage {
            call_id: self.call_id.clone(),
            offset: start,
            data: Bytes(bytes),
            spooled: total,
            total,
        }
    }

    /// Waits for the end of the job.
    pub(crate) async fn ended(&self) -> Arc<ProgramEnd> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.ended.is_some()).await;
        // The sender belongs to the job, so it still exists.
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
    pub(crate) audit: Audit,
    pub(crate) places: JobQuota,
}

/// The quota of jobs that all sessions of a user share.
#[derive(Debug)]
pub(crate) struct JobQuota {
    pub(crate) census: Census,
    pub(crate) uid: u32,
    /// The most jobs; `None`: as many as the user's sessions allow.
    pub(crate) most: Option<u32>,
}

impl JobQuota {
    pub(crate) fn take(&self) -> Result<Option<CensusEntry>, CallError> {
        let Some(most) = self.most else { return Ok(None) };
        let enrolled = self.census.enroll(CountedKind::Job, self.uid, most as usize);
        enrolled.map(Some).map_err(|count| {
            CallError::Refused(quota_error(
                format!("{count} jobs of this user are already running"),
                format!("quotas.jobs allows {most}; end one with job_kill, or wait for one to end"),
                SOON,
            ))
        })
    }
}

impl Jobs {
    /// Makes a list for at most `most` running jobs.
    pub(crate) fn new(most: u64, audit: Audit, places: JobQuota) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { table: Mutex::default(), most, audit, places }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, unless the session has too many.
    pub(crate) fn enter(&self, make: impl FnOnce(JobNumber) -> Job) -> Result<Arc<Job>, CallError> {
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

    /// Removes a job that no client was told of.
    pub(crate) fn forget(&self, number: JobNumber) {
        self.table().jobs.remove(&number);
    }

    /// Finds a job by its number.
    pub(crate) fn get(&self, number: JobNumber) -> Result<Arc<Job>, CallError> {
        self.table().jobs.get(&number).cloned().ok_or(CallError::NoJob(number))
    }

    /// All jobs, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.table().jobs.values().cloned().collect()
    }

    /// Returns the running job that a call started.
    pub(crate) fn running(&self, call: &CallId) -> Option<Arc<Job>> {
        self.all().into_iter().find(|job| job.call_id == *call && !job.is_over())
    }

    /// Describes the jobs for requests from outside their session.
    pub(crate) fn infos(&self, session: &SessionId) -> Vec<JobInfo> {
        self.all().iter().map(|job| job.info(session)).collect()
    }

    /// Accepts no more jobs. Those that run end with their session.
    pub(crate) fn close(&self) {
        self.table().closed = true;
    }

    /// Waits until the end of each job is recorded. Their processes are gone already.
    pub(crate) async fn accounted(&self) {
        let all = async {
            for job in self.all() {
                job.ended().await;
            }
        };
        if timeout(ACCOUNTED, all).await.is_err() {
            tracing::warn!("a job of an ended session did not end in time");
        }
    }
}
