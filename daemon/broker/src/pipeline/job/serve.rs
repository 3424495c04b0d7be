//! The tools for jobs: output, input, signals, commit and list. Runs in the broker.

use super::commit;
use crate::{
    base::{
        capture,
        error::CallError,
        outcome::Outcome,
        task::{JobFilter, JobTask, TypedInput},
    },
    cells::{
        context::{Context, Deadline},
        job::{Job, Progress, tape::OutputPart},
        session::Session,
    },
    telemetry::audit::docket::CallAudit,
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::JsonText;
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::Arc};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Carries out a task of the job tools.
pub(crate) async fn run(
    task: JobTask,
    context: Context,
    deadline: Deadline,
    docket: &CallAudit,
) -> Outcome {
    let (session, cancel) = (Arc::clone(&context.session), context.cancel.clone());
    let done = match task {
        JobTask::Output { job, cursor, wait, limit } => {
            let until = deadline.at.min(Instant::now() + wait);
            let read =
                async { output(&session, &session.jobs.get(job)?, cursor, limit, until).await };
            unless_cancelled(&cancel, read).await
        }
        JobTask::Input { job, typed } => {
            let typed = async { write_input(&session.jobs.get(job)?, typed, deadline).await };
            unless_cancelled(&cancel, typed).await
        }
        JobTask::Kill { job, signal } => {
            let killed = async { kill(&session.jobs.get(job)?, signal, deadline).await };
            unless_cancelled(&cancel, killed).await
        }
        // A commit itself reports what happened if it was cancelled.
        JobTask::Commit { job, if_refused } => {
            commit::run(job, if_refused, context, docket.for_job()).await
        }
        JobTask::List(which) => list(&session, which),
    };
    done.unwrap_or_else(Outcome::from)
}

async fn unless_cancelled(
    cancel: &CancellationToken,
    asked: impl Future<Output = Result<Outcome, CallError>>,
) -> Result<Outcome, CallError> {
    tokio::select! {
        done = asked => done,
        () = cancel.cancelled() => Err(CallError::Cancelled),
    }
}

fn outcome(output: String, data: &Value) -> Result<Outcome, CallError> {
    let data = JsonText::render(data).map_err(|error| CallError::Io(error.into()))?;
    Ok(Outcome { output, data: Some(data), ..Outcome::default() })
}

/// Extracts the part about the transaction from a result's data.
pub(super) fn transaction_of(data: Option<&JsonText>) -> Value {
    let text = data.map_or("null", JsonText::as_str);
    let mut data: Value = serde_json::from_str(text).unwrap_or_default();
    data["transaction"].take()
}

/// Describes a job for a result's data.
pub(super) fn described(job: &Job) -> Value {
    let Progress { total, settling, ended, lasted } = job.progress();
    let time = lasted.unwrap_or_else(|| job.started.elapsed());
    let mut data = json!({
        "job": job.number,
        "state": match (&ended, settling) {
            (Some(_), _) => "ended",
            (None, true) => "in review",
            (None, false) => "running",
        },
        "command": job.command,
        "call_id": job.call_id,
        "output_bytes": total,
        "time_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
    });
    if let Some(ended) = ended {
        data["exit_code"] = json!(ended.exit_code);
        data["signal"] = json!(ended.signal);
        data["timed_out"] = json!(ended.timed_out);
        data["killed"] = json!(ended.cancelled);
        data["oom"] = json!(ended.oom);
        data["error"] = json!(ended.error);
        if let Some(settled) = &ended.settled {
            data["transaction"] = transaction_of(settled.data.as_ref());
            data["undo"] = json!(settled.undo);
            data["checkpoint"] = json!(settled.checkpoint);
        }
        if !ended.denials.is_empty() {
            data["denials"] = json!(ended.denials);
        }
        if !ended.observed.is_empty() {
            data["observed"] = json!(ended.observed);
        }
    }
    data
}

/// Returns what a job printed from an offset on. Waits until there is something, or the job has
/// ended.
async fn output(
    session: &Session,
    job: &Arc<Job>,
    cursor: u64,
    limit: Option<u64>,
    until: Instant,
) -> Result<Outcome, CallError> {
    let mut progress = job.progress.subscribe();
    let new = progress.wait_for(|now| now.total > cursor || now.ended.is_some());
    // No new output in time is an answer too.
    timeout_at(until, new).await.ok();
    let Progress { total, ended, .. } = job.progress();
    if cursor > total {
        return Err(CallError::Cursor { cursor, total });
    }
    let most = session.profile.output_bytes();
    let limit = usize::try_from(limit.unwrap_or(most).min(most)).unwrap_or(usize::MAX);
    let OutputPart { start, mut bytes } = job.tape.read(cursor, limit).await;
    // A character that is incomplete at the end is left for the next call.
    let whole = capture::without_cut_end(&bytes).len();
    if whole > 0 || (ended.is_none() && start + bytes.len() as u64 == total) {
        bytes.truncate(whole);
    }
    let next = start + bytes.len() as u64;
    let (text, lossy) = capture::decode(&bytes);
    let mut data = described(job);
    data["cursor"] = next.into();
    data["omitted_bytes"] = (start - cursor).into();
    data["more"] = (next < total).into();
    Ok(Outcome { lossy, omitted: start - cursor, ..outcome(text, &data)? })
}

/// Writes to a job's input, ends the input, or changes the size of its terminal.
async fn write_input(
    job: &Arc<Job>,
    typed: TypedInput,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    if job.progress().ended.is_some() {
        return Err(CallError::JobOver(job.number));
    }
    if let Some(size) = typed.size {
        match job.window().as_ref() {
            Some(window) => window.resize(size)?,
            None => return Err(CallError::NoTerminal(job.number)),
        }
    }
    let mut written = 0;
    if !typed.data.is_empty() || typed.end {
        let mut input = job.input.lock().await;
        let Some(sink) = input.as_mut() else { return Err(CallError::NoInput(job.number)) };
        let write = async {
            while let Some(rest) = typed.data.as_bytes().get(written..).filter(|r| !r.is_empty()) {
                written += sink.write(rest).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        let done = tokio::select! {
            done = timeout_at(deadline.at, write) => done,
            () = job.end.cancelled() => return Err(CallError::JobOver(job.number)),
        };
        match done {
            Err(_) => return Err(CallError::NotRead { written, whole: typed.data.len() }),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a job did not read its input");
                return Err(CallError::NotRead { written, whole: typed.data.len() });
            }
            Ok(Ok(())) => {}
        }
        if typed.end
            && let Some(sink) = input.take()
        {
            sink.end().await?;
        }
    }
    let data = json!({"job": job.number, "written": written, "ended": typed.end});
    outcome(String::new(), &data)
}

/// Sends a signal to a job. Without a signal, and with KILL, the job has ended when this returns.
async fn kill(
    job: &Arc<Job>,
    signal: Option<i32>,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    const SIGKILL: i32 = 9;
    match signal {
        _ if job.progress().ended.is_some() => {}
        None => job.end.cancel(),
        // A job that ended just now needs no signal.
        Some(number) => job.requests.send(RunRequest::Signal(number)).await.unwrap_or_default(),
    }
    if matches!(signal, None | Some(SIGKILL)) && timeout_at(deadline.at, job.ended()).await.is_err()
    {
        return Err(deadline.error());
    }
    outcome(String::new(), &described(job))
}

fn list(session: &Session, which: JobFilter) -> Result<Outcome, CallError> {
    let (mut text, mut jobs) = (String::new(), Vec::new());
    for job in session.jobs.all() {
        let progress = job.progress();
        if which == JobFilter::Running && progress.ended.is_some() {
            continue;
        }
        let state = match progress.ended.as_ref().map(|ended| ended.exit_code) {
            None => "running".to_owned(),
            Some(Some(code)) => format!("ended with status {code}"),
            Some(None) => "ended".to_owned(),
        };
        // Writing to a string does not fail.
        writeln!(text, "{}\t{state}\t{} bytes\t{}", job.number, progress.total, job.command).ok();
        jobs.push(described(&job));
    }
    outcome(text, &json!({ "jobs": jobs }))
}
