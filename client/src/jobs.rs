//! Jobs: programs that keep running in a session after their call has returned.

use crate::{Call, ChangeSet, Session};
use palisade_protocol::{
    CallId, CallResult, WireError,
    arguments::{
        Bash, BashRoute, IfRefused, JobCommit, JobInput, JobKill, JobList, JobOutput, Signal,
    },
};
use serde::Deserialize;
use std::time::Duration;

/// The state of a job, as results describe it.
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
    /// The job's number in the session.
    pub job: u64,
    /// The job's state: `running`, `in review` (its processes are gone, its changes wait for
    /// approval) or `ended`.
    pub state: String,
    /// The job's command, shortened.
    pub command: String,
    /// The call that started the job; the job's full output is stored under this id.
    pub call_id: CallId,
    /// The number of bytes the job has printed so far.
    pub output_bytes: u64,
    /// The job's run time.
    pub time_ms: u64,
    /// The job's exit status, once it has ended.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended the job.
    #[serde(default)]
    pub signal: Option<i32>,
    /// True if the job's own time limit ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// True if `job_kill` ended the job.
    #[serde(default)]
    pub killed: bool,
    /// True if the kernel killed a process of the session meanwhile because memory ran out.
    #[serde(default)]
    pub oom: bool,
    /// The reason the job did not succeed.
    #[serde(default)]
    pub error: Option<WireError>,
    /// The job's change set, and whether it was committed; `None` while the job runs.
    #[serde(default)]
    pub transaction: Option<ChangeSet>,
    /// The id to give to `undo`.
    #[serde(default)]
    pub undo: Option<String>,
    /// The position at which the next [`Session::job_output`] continues.
    #[serde(default)]
    pub cursor: u64,
    /// The number of bytes before this output that could not be stored.
    #[serde(default)]
    pub omitted_bytes: u64,
    /// True if there is already more output to read.
    #[serde(default)]
    pub more: bool,
}

impl JobStatus {
    /// Returns the job that a result is about: the result of `job_output`, `job_commit`,
    /// `job_kill`, or of a `bash` call that became a job.
    #[must_use]
    pub fn of(result: &CallResult) -> Option<Self> {
        serde_json::from_str(result.data.as_ref()?.as_str()).ok()
    }

    /// Returns the jobs of a `job_list` result.
    #[must_use]
    pub fn all_of(result: &CallResult) -> Vec<Self> {
        #[derive(Deserialize)]
        struct JobListing {
            jobs: Vec<JobStatus>,
        }
        let listed = result.data.as_ref().and_then(|data| serde_json::from_str(data.as_str()).ok());
        listed.map(|JobListing { jobs }| jobs).unwrap_or_default()
    }

    /// Returns `true` if the job has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state == "ended"
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    /// Prepares a call that reads a job's output.
    pub fn job_output(&self, job: u64) -> Call<JobOutput> {
        self.call("job_output", JobOutput { job, ..JobOutput::default() })
    }

    /// Prepares a call that sends input to a job that was started with [`Call::typing`].
    pub fn job_input(&self, job: u64, data: impl Into<String>) -> Call<JobInput> {
        self.call("job_input", JobInput { job, data: data.into(), ..JobInput::default() })
    }

    /// Prepares a call that changes the size of a job's terminal.
    pub fn job_resize(&self, job: u64, rows: u16, cols: u16) -> Call<JobInput> {
        let (rows, cols) = (Some(rows), Some(cols));
        self.call("job_input", JobInput { job, rows, cols, ..JobInput::default() })
    }

    /// Prepares a call that commits what a job has changed so far; the job goes on.
    pub fn job_commit(&self, job: u64) -> Call<JobCommit> {
        self.call("job_commit", JobCommit { job, if_refused: IfRefused::Keep })
    }

    /// Prepares a call that ends a job. All its processes are gone when the result comes.
    pub fn job_kill(&self, job: u64) -> Call<JobKill> {
        self.call("job_kill", JobKill { job, signal: None })
    }

    /// Prepares a call that lists the jobs of this session.
    pub fn job_list(&self) -> Call<JobList> {
        self.call("job_list", JobList::default())
    }
}

impl Call<Bash> {
    /// Runs the command in a transaction, even if it seems to be read-only.
    pub fn in_transaction(mut self) -> Self {
        self.arguments_mut().route = Some(BashRoute::Transaction);
        self
    }

    /// Runs a job in the live workspace, which is read-only for it. The job sees edits at once.
    pub fn watching(mut self) -> Self {
        self.arguments_mut().route = Some(BashRoute::Watch);
        self
    }

    /// Runs a job in the workspace itself: its changes take effect at once. An approver is asked
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

    /// Waits only this long; a program that still runs then continues as a job.
    pub fn yield_after(mut self, patience: Duration) -> Self {
        self.arguments_mut().yield_ms = Some(milliseconds(patience));
        self
    }

    /// Keeps the job's standard input open for [`Session::job_input`].
    pub fn typing(mut self) -> Self {
        self.arguments_mut().input = true;
        self
    }

    /// Runs the command on a terminal of this size.
    pub fn pty(mut self, rows: u16, cols: u16) -> Self {
        let arguments = self.arguments_mut();
        (arguments.pty, arguments.rows, arguments.cols) = (true, Some(rows), Some(cols));
        self
    }
}

impl Call<JobOutput> {
    /// Sets the position in the output to continue from.
    pub fn cursor(mut self, cursor: u64) -> Self {
        self.arguments_mut().cursor = Some(cursor);
        self
    }

    /// Sets how long to wait for new output or for the job's end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.arguments_mut().wait_ms = Some(milliseconds(wait));
        self
    }

    /// Sets the maximum number of bytes to return.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.arguments_mut().limit = Some(bytes);
        self
    }
}

impl Call<JobInput> {
    /// Ends the job's standard input after this data.
    pub fn end(mut self) -> Self {
        self.arguments_mut().end = true;
        self
    }
}

impl Call<JobCommit> {
    /// Ends the job and discards its changes if they are not committed.
    pub fn or_end(mut self) -> Self {
        self.arguments_mut().if_refused = IfRefused::End;
        self
    }
}

impl Call<JobKill> {
    /// Sends only this signal, and does not wait for the job's end (except for `KILL`).
    pub fn signal(mut self, name: impl Into<String>) -> Self {
        self.arguments_mut().signal = Some(Signal::Name(name.into()));
        self
    }
}
