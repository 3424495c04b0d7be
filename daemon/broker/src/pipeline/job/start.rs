//! Starts jobs: at once, or when a call takes longer than its caller waits. Runs in the broker.

use super::{attend, commit, place::JobPlace, serve};
use crate::{
    base::{
        ended::SettledEffects,
        error::CallError,
        outcome::Outcome,
        task::{DirectoryPolicy, JobNumber, Program, StdinMode},
    },
    cells::{
        context::{Context, Deadline},
        job::{CommitRequest, Job, Progress, tape::Tape},
        output::Output,
        run::{self, ProgramRoute, StartedProgram},
        streams::{OutputConsumer as _, OutputPiece, PIECES},
    },
};
use palisade_plan::cell::RunRequest;
use palisade_protocol::JsonText;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant as Moment, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The number of requests to a job that are queued.
const REQUESTS: usize = 16;
/// The most characters of a command that are shown.
const SHOWN: usize = 200;

/// Starts a job and returns its description.
pub(crate) async fn background(
    program: Program,
    mut context: Context,
    deadline: Deadline,
    place: JobPlace,
) -> Result<Outcome, CallError> {
    let job = begin(program, &mut context, deadline, (place, None)).await?;
    let output = format!("started job {}: {}\n", job.number, job.command);
    Ok(Outcome { output, data: Some(job_data(&job)?), ..Outcome::default() })
}

fn job_data(job: &Job) -> Result<JsonText, CallError> {
    JsonText::render(&serve::described(job)).map_err(|error| CallError::Io(error.into()))
}

/// Runs a program to its end, or until the caller stops waiting; then it becomes a job.
pub(crate) async fn yielding(
    program: Program,
    mut context: Context,
    deadline: Deadline,
    (patience, place): (Duration, JobPlace),
) -> Result<Outcome, CallError> {
    let directory = program.final_directory();
    let until = Moment::now() + patience;
    let (tap, mut pieces) = mpsc::channel::<OutputPiece>(PIECES);
    let job = begin(program, &mut context, deadline, (place, Some(tap))).await?;
    let mut output = Output::of_job(&context);
    loop {
        tokio::select! {
            biased;
            piece = pieces.recv() => match piece {
                Some(piece) => output.take(piece).await,
                None => break,
            },
            // The end of the job closes the queue.
            () = context.cancel.cancelled(), if !job.end.is_cancelled() => job.end.cancel(),
            () = sleep_until(until), if !job.end.is_cancelled() => {
                return yielded(&job, output).await;
            }
        }
    }
    let ended = job.ended().await;
    context.session.jobs.forget(job.number);
    let spooled = output.total() > 0;
    let mut outcome = output.finish().await;
    // The stored output is only of use if the result does not show everything.
    if outcome.omitted > 0 {
        outcome.spooled = spooled;
    } else if spooled {
        context.spools.remove(&context.call_id).await;
    }
    let mut ended = (*ended).clone();
    let settled = ended.settled.take().map(|settled| *settled).unwrap_or_default();
    run::finish(ended, directory, &context, &mut outcome);
    let SettledEffects { data, undo, findings, checkpoint } = settled;
    Ok(Outcome { data, undo, findings, checkpoint, ..outcome })
}

async fn yielded(job: &Job, output: Output<'_>) -> Result<Outcome, CallError> {
    let mut data = serve::described(job);
    data["cursor"] = output.total().into();
    let data = JsonText::render(&data).map_err(|error| CallError::Io(error.into()))?;
    Ok(Outcome { data: Some(data), ..output.finish().await })
}

async fn begin(
    program: Program,
    context: &mut Context,
    deadline: Deadline,
    (mut place, tap): (JobPlace, Option<mpsc::Sender<OutputPiece>>),
) -> Result<Arc<Job>, CallError> {
    let session = Arc::clone(&context.session);
    let (sender, requests) = mpsc::channel(REQUESTS);
    let (commits, orders) = match &place {
        JobPlace::Transaction(_) => {
            let (commits, orders) = mpsc::channel(commit::ORDERS);
            (Some(commits), Some(orders))
        }
        JobPlace::Runner(_) => (None, None),
    };
    context.room_for_output().await?;
    // The job is counted before anything runs.
    let counted = session.jobs.places.take()?;
    let make = |number| made(number, &program, context, (sender, commits));
    let job = session.jobs.enter(make)?;
    let reserved = JobReservation { context, number: Some(job.number) };
    let mut via = match &mut place {
        JobPlace::Transaction(held) => ProgramRoute::Transaction(&mut held.unsettled.transaction),
        JobPlace::Runner(kind) => ProgramRoute::Runners(*kind),
    };
    let mut begun: StartedProgram =
        run::begin(&program, reserved.context, deadline, &mut via).await?;
    reserved.keep();
    // Prepares a runner or a transaction for the next call.
    match &place {
        JobPlace::Runner(kind) => session.cell.runners(*kind).prepare().await,
        JobPlace::Transaction(_) => session.cell.transactions.prepare().await,
    }
    if program.typing == StdinMode::Open {
        *job.input.lock().await = begun.sink.take();
    }
    *job.window() = begun.window.take();
    let input = (program.stdin.clone(), context.input.take());
    let lifetime = program.lifetime.map(Deadline::after);
    let attended = attend::JobSupervision {
        session,
        job: Arc::clone(&job),
        name: program.name(),
        begun,
        requests,
        orders,
        deadline: lifetime,
        input,
        tap,
        place,
    };
    tokio::spawn(async move {
        attend::attend(attended).await;
        drop(counted);
    });
    Ok(job)
}

/// An entry in the list of jobs, which is removed unless a program was started for it.
struct JobReservation<'a> {
    context: &'a Context,
    number: Option<JobNumber>,
}

impl JobReservation<'_> {
    fn keep(mut self) {
        self.number = None;
    }
}

impl Drop for JobReservation<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.context.session.jobs.forget(number);
        }
    }
}

fn made(
    number: JobNumber,
    program: &Program,
    context: &Context,
    (requests, commits): (mpsc::Sender<RunRequest>, Option<mpsc::Sender<CommitRequest>>),
) -> Job {
    let session = &context.session;
    let most = usize::try_from(session.profile.output_bytes()).unwrap_or(usize::MAX);
    let (spools, call_id) = (context.spools.clone(), context.call_id.clone());
    Job {
        number,
        call_id: call_id.clone(),
        command: shown(program),
        started: Instant::now(),
        progress: watch::Sender::new(Progress::default()),
        tape: Tape::new(most, spools, call_id, session.uid()),
        requests,
        commits,
        end: CancellationToken::new(),
        input: tokio::sync::Mutex::new(None),
        window: Mutex::new(None),
    }
}

/// The command in short.
fn shown(program: &Program) -> String {
    let text = match (program.directory, &program.script) {
        (DirectoryPolicy::Kept, Some(script)) => script.clone(),
        (DirectoryPolicy::Kept, None) => program.argv.last().cloned().unwrap_or_default(),
        (DirectoryPolicy::Left, _) => program.argv.join(" "),
    };
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
