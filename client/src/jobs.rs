//! Jobs: programs that run on in a session after their call has been answered.

use crate::{Call, ChangeSet, Session};
use palisade_protocol::{
    CallId, CallResult, WireError,
    arguments::{
        Bash, BashRoute, IfRefused, JobCommit, JobInput, JobKill, JobList, JobOutput, Signal,
    },
};
use serde::Deserialize;
use std::time::Duration;

/// A job as results describe it.
///
/// ```
/// # use palisade_client::{Client, JobStatus, Open};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let client = Client::embedded().await?;
/// # let session = client.open(Open::new(directory.path())).await?;
/// let started = session.bash("echo one; sleep 0.1; echo two").background().await?;
/// let job = JobStatus::of(&started).ok_or("no job")?.job;
/// let (mut text, mut cursor) = (String::new(), 0);
/// loop {
///     let result =
///         session.job_output(job).cursor(cursor).wait(Duration::from_secs(10)).await?;
///     text.push_str(&result.output);
///     let status = JobStatus::of(&result).ok_or("no job")?;
///     cursor = status.cursor;
///     if status.has_ended() && !status.more {
///         break;
///     }
/// }
/// assert_eq!(text, "one\ntwo\n");
/// # client.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct JobStatus {
    /// Its number in the session.
    pub job: u64,
    /// `running`, `in review` (its processes are gone, its changes wait for an answer) or `ended`.
    pub state: String,
    /// What it runs, in short.
    pub command: String,
    /// The call that started it; its whole output can be paged through by this.
    pub call_id: CallId,
    /// How much it has printed so far.
    pub output_bytes: u64,
    /// How long it has run.
    pub time_ms: u64,
    /// Its status, once it has ended.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// Its own time limit ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// `job_kill` ended it.
    #[serde(default)]
    pub killed: bool,
    /// The kernel killed something of the session for want of memory meanwhile.
    #[serde(default)]
    pub oom: bool,
    /// Why it did not succeed.
    #[serde(default)]
    pub error: Option<WireError>,
    /// What it changed in the workspace, and whether that was committed; none while it runs.
    #[serde(default)]
    pub transaction: Option<ChangeSet>,
    /// An id for `undo`.
    #[serde(default)]
    pub undo: Option<String>,
    /// Where the next [`Session::job_output`] goes on.
    #[serde(default)]
    pub cursor: u64,
    /// How much before this output could not be kept.
    #[serde(default)]
    pub omitted_bytes: u64,
    /// There is more to read already.
    #[serde(default)]
    pub more: bool,
}

impl JobStatus {
    /// The job that a result is about: of `bash` that became a job, `job_output`, `job_commit`,
    /// `job_kill`.
    #[must_use]
    pub fn of(result: &CallResult) -> Option<Self> {
        serde_json::from_str(result.data.as_ref()?.as_str()).ok()
    }

    /// The jobs of a `job_list` result.
    #[must_use]
    pub fn all_of(result: &CallResult) -> Vec<Self> {
        #[derive(Deserialize)]
        struct Listed {
            jobs: Vec<JobStatus>,
        }
        let listed = result.data.as_ref().and_then(|data| serde_json::from_str(data.as_str()).ok());
        listed.map(|Listed { jobs }| jobs).unwrap_or_default()
    }

    /// Whether it is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state == "ended"
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    /// What a job has printed.
    pub fn job_output(&self, job: u64) -> Call<JobOutput> {
        self.call("job_output", JobOutput { job, ..JobOutput::default() })
    }

    /// Types something into a job that was started with [`Call::typing`].
    pub fn job_input(&self, job: u64, data: impl Into<String>) -> Call<JobInput> {
        self.call("job_input", JobInput { job, data: data.into(), ..JobInput::default() })
    }

    /// Changes the size of a job's terminal.
    pub fn job_resize(&self, job: u64, rows: u16, cols: u16) -> Call<JobInput> {
        let (rows, cols) = (Some(rows), Some(cols));
        self.call("job_input", JobInput { job, rows, cols, ..JobInput::default() })
    }

    /// Commits what a job has changed so far; the job goes on.
    pub fn job_commit(&self, job: u64) -> Call<JobCommit> {
        self.call("job_commit", JobCommit { job, if_refused: IfRefused::Keep })
    }

    /// Ends a job; nothing of it runs when the result comes.
    pub fn job_kill(&self, job: u64) -> Call<JobKill> {
        self.call("job_kill", JobKill { job, signal: None })
    }

    /// The jobs of this session.
    pub fn job_list(&self) -> Call<JobList> {
        self.call("job_list", JobList::default())
    }
}

impl Call<Bash> {
    /// Runs it in a transaction, also if it seems to read only.
    pub fn in_transaction(mut self) -> Self {
        self.arguments_mut().route = Some(BashRoute::Transaction);
        self
    }

    /// Runs a job in the live workspace, which is read-only for it: what is edited is seen at once.
    pub fn watching(mut self) -> Self {
        self.arguments_mut().route = Some(BashRoute::Watch);
        self
    }

    /// Runs a job in the workspace itself: what it changes takes effect at once. An approver is asked
    /// before it starts.
    pub fn direct(mut self) -> Self {
        self.arguments_mut().route = Some(BashRoute::Direct);
        self
    }

    /// Returns at once; the program goes on as a job.
    pub fn background(mut self) -> Self {
        self.arguments_mut().background = true;
        self
    }

    /// Waits only so long; what still runs then goes on as a job.
    pub fn yield_after(mut self, patience: Duration) -> Self {
        self.arguments_mut().yield_ms = Some(milliseconds(patience));
        self
    }

    /// Keeps the job's standard input open for [`Session::job_input`].
    pub fn typing(mut self) -> Self {
        self.arguments_mut().input = true;
        self
    }

    /// Runs it on a terminal of this size.
    pub fn pty(mut self, rows: u16, cols: u16) -> Self {
        let arguments = self.arguments_mut();
        (arguments.pty, arguments.rows, arguments.cols) = (true, Some(rows), Some(cols));
        self
    }
}

impl Call<JobOutput> {
    /// Where to go on.
    pub fn cursor(mut self, cursor: u64) -> Self {
        self.arguments_mut().cursor = Some(cursor);
        self
    }

    /// How long to wait for something new, or for the job's end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.arguments_mut().wait_ms = Some(milliseconds(wait));
        self
    }

    /// How many bytes at most.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.arguments_mut().limit = Some(bytes);
        self
    }
}

impl Call<JobInput> {
    /// Ends the job's standard input after that.
    pub fn end(mut self) -> Self {
        self.arguments_mut().end = true;
        self
    }
}

impl Call<JobCommit> {
    /// Ends the job, and discards what it changed, if that is not committed.
    pub fn or_end(mut self) -> Self {
        self.arguments_mut().if_refused = IfRefused::End;
        self
    }
}

impl Call<JobKill> {
    /// Sends only this signal, and does not wait for the job's end (but for `KILL`).
    pub fn signal(mut self, name: impl Into<String>) -> Self {
        self.arguments_mut().signal = Some(Signal::Name(name.into()));
        self
    }
}
