//! Starts jobs: at once, or when a call has outlived its patience. Broker.

use super::{Job, Progress, attend, commit, place::JobPlace, serve, tape::Tape};
use crate::{
    context::{Context, Deadline},
    ended::Settled,
    error::CallError,
    outcome::Outcome,
    output::Output,
    run::{self, Begun, Via},
    streams::{PIECES, Piece, Taker as _},
    task::{Directory, JobNumber, Program, Typing},
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

/// How many requests wait to be passed on.
const REQUESTS: usize = 16;
/// How much of a command is kept to show it.
const SHOWN: usize = 200;

/// Starts a job and says which it is.
pub(crate) async fn background(
    program: Program,
    mut context: Context,
    deadline: Deadline,
    place: JobPlace,
) -> Result<Outcome, CallError> {
    let job = begin(program, &mut context, deadline, (place, None)).await?;
    let output = format!("job {} runs: {}\n", job.number, job.command);
    Ok(Outcome { output, data: Some(told(&job)?), ..Outcome::default() })
}

fn told(job: &Job) -> Result<JsonText, CallError> {
    JsonText::render(&serve::described(job)).map_err(|error| CallError::Io(error.into()))
}

/// Runs a program to its end, or as long as the caller waits; then it is a job.
pub(crate) async fn yielding(
    program: Program,
    mut context: Context,
    deadline: Deadline,
    (patience, place): (Duration, JobPlace),
) -> Result<Outcome, CallError> {
    let directory = program.directory;
    let until = Moment::now() + patience;
    let (tap, mut pieces) = mpsc::channel::<Piece>(PIECES);
    let job = begin(program, &mut context, deadline, (place, Some(tap))).await?;
    let mut output = Output::of_job(&context);
    loop {
        tokio::select! {
            biased;
            piece = pieces.recv() => match piece {
                Some(piece) => output.take(piece).await,
                None => break,
            },
            // Its end closes the queue.
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
    // Its spool is only of use if the result does not show everything.
    if outcome.omitted > 0 {
        outcome.spooled = spooled;
    } else if spooled {
        context.spools.remove(&context.call_id).await;
    }
    let mut ended = (*ended).clone();
    let settled = ended.settled.take().map(|settled| *settled).unwrap_or_default();
    run::finish(ended, directory, &context, &mut outcome);
    let Settled { data, undo, findings, checkpoint } = settled;
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
    (mut place, tap): (JobPlace, Option<mpsc::Sender<Piece>>),
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
    // Counted before anything runs.
    let counted = session.jobs.places.take()?;
    let make = |number| made(number, &program, context, (sender, commits));
    let job = session.jobs.enter(make)?;
    let reserved = Reserved { context, number: Some(job.number) };
    let mut via = match &mut place {
        JobPlace::Transaction(held) => Via::Transaction(&mut held.unsettled.transaction),
        JobPlace::Runner(kind) => Via::Runners(*kind),
    };
    let mut begun: Begun = run::begin(&program, reserved.context, deadline, &mut via).await?;
    reserved.keep();
    // The next call has its runner ready too.
    match &place {
        JobPlace::Runner(kind) => session.runners(*kind).prepare().await,
        JobPlace::Transaction(_) => session.transactions.prepare().await,
    }
    if program.typing == Typing::Open {
        *job.input.lock().await = begun.sink.take();
    }
    *job.window() = begun.window.take();
    let input = (program.stdin.clone(), context.input.take());
    let lifetime = program.lifetime.map(Deadline::after);
    let attended = attend::Attended {
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

/// A place among the jobs that is given back unless a program was started for it.
struct Reserved<'a> {
    context: &'a Context,
    number: Option<JobNumber>,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.number = None;
    }
}

impl Drop for Reserved<'_> {
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
    (requests, commits): (mpsc::Sender<RunRequest>, Option<mpsc::Sender<commit::Order>>),
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

/// What a job runs, in short.
fn shown(program: &Program) -> String {
    let text = match (program.directory, &program.script) {
        (Directory::Kept, Some(script)) => script.clone(),
        (Directory::Kept, None) => program.argv.last().cloned().unwrap_or_default(),
        (Directory::Left, _) => program.argv.join(" "),
    };
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
