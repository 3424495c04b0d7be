//! Runs a program in the cell: starts it, follows it to its end, and interprets that end. Runs in
//! the broker.

use crate::{
    base::{
        attachment::Attachment,
        ended::ProgramEnd,
        error::CallError,
        outcome::Outcome,
        task::{DirectoryPolicy, Program},
    },
    cells::{
        channel::{Channel, ChannelError},
        context::{Context, Deadline},
        output::Output,
        records::CallWatch,
        runner::{RunnerError, RunnerKind},
        spare::SpareShells,
        streams::{self, InputSink, OutputSource, StreamEnds, Window},
        transaction::Transaction,
        watchdog::{RunnerReuse, Watchdog},
    },
};
use palisade_plan::{
    Path,
    cell::{Run, RunReply, RunRequest},
};
use std::{collections::BTreeMap, io, os::fd::OwnedFd, time::Duration};
use tokio::sync::{mpsc, watch};

/// A program that was started, with its streams and its runner's channel.
#[derive(Debug)]
pub(crate) struct StartedProgram {
    pub(crate) channel: Channel,
    pub(crate) sink: Option<InputSink>,
    pub(crate) source: OutputSource,
    pub(crate) window: Option<Window>,
    pub(crate) watched: Option<CallWatch>,
}

/// The route of a program.
#[derive(Debug)]
pub(crate) enum ProgramRoute<'a> {
    /// One of the session's shared runners of this kind.
    Runners(RunnerKind),
    /// A runner of its own, in a transaction.
    Transaction(&'a mut Transaction),
}

/// Runs a program to its end in a shared runner.
pub(crate) async fn run(
    program: Program,
    context: Context,
    deadline: Deadline,
    kind: RunnerKind,
) -> Outcome {
    to_its_end(program, context, deadline, kind).await.unwrap_or_else(Outcome::from)
}

async fn to_its_end(
    program: Program,
    mut context: Context,
    deadline: Deadline,
    kind: RunnerKind,
) -> Result<Outcome, CallError> {
    let input = context.input.take();
    let (outcome, cwd, _) =
        followed(program, &context, input, deadline, &mut ProgramRoute::Runners(kind)).await?;
    if let Some(cwd) = cwd {
        context.session.set_cwd(cwd);
    }
    Ok(outcome)
}

/// Runs a program to its end in a transaction, and returns the directory in which a shell ended.
/// Its changes are not committed yet.
pub(crate) async fn in_transaction(
    program: Program,
    context: &mut Context,
    deadline: Deadline,
    transaction: &mut Transaction,
) -> (Outcome, Option<Vec<u8>>) {
    let input = context.input.take();
    let via = &mut ProgramRoute::Transaction(transaction);
    match followed(program, context, input, deadline, via).await {
        Ok((outcome, cwd, channel)) => {
            // The runner's process lives as long as its channel.
            transaction.run = channel;
            (outcome, cwd)
        }
        Err(error) => (error.into(), None),
    }
}

/// The outcome of a program, the directory in which its shell ended, and the channel of its runner
/// if that is still usable.
type FinishedProgram = (Outcome, Option<Vec<u8>>, Option<Channel>);

async fn followed(
    program: Program,
    context: &Context,
    input: Option<Attachment>,
    deadline: Deadline,
    via: &mut ProgramRoute<'_>,
) -> Result<FinishedProgram, CallError> {
    context.room_for_output().await?;
    let begun = begin(&program, context, deadline, via).await?;
    let (name, directory) = (program.name(), program.final_directory());
    let runner = match via {
        ProgramRoute::Runners(kind) => RunnerReuse::Shared(*kind),
        ProgramRoute::Transaction(_) => RunnerReuse::Once,
    };
    let feed = async {
        if let Some(sink) = begun.sink {
            sink.feed(program.stdin, input).await;
        }
    };
    let of = (name, directory, runner);
    let held = (begun.channel, begun.watched);
    Ok(follow(held, begun.source, feed, of, context, deadline).await)
}

/// Starts a program in a runner of the session.
pub(crate) async fn begin(
    program: &Program,
    context: &Context,
    deadline: Deadline,
    via: &mut ProgramRoute<'_>,
) -> Result<StartedProgram, CallError> {
    let session = &context.session;
    let streams = streams::wanted(program);
    let mut request = RunRequest::Run(Run {
        argv: argv(program),
        environment: environment(program, context)?,
        search: session.search_paths.program(program).to_vec(),
        cwd: Path(program.cwd.as_ref().map_or_else(|| session.cwd(), |cwd| session.absolute(cwd))),
        script: program.script.clone().map(String::into_bytes),
        streams,
        mark: None,
    });
    let shared = match via {
        ProgramRoute::Runners(kind) => Some(*kind),
        ProgramRoute::Transaction(_) => None,
    };
    let send = async {
        // A runner that died while idle is noticed only now. Nothing was started yet, so another is
        // tried.
        let mut again = true;
        loop {
            let taken = match via {
                ProgramRoute::Runners(kind) => session.cell.runners(*kind).take().await,
                ProgramRoute::Transaction(one) => match one.run.take() {
                    Some(channel) => Ok(channel),
                    None => {
                        **one = session.transaction().await?;
                        one.run.take().ok_or(RunnerError::Channel(ChannelError::Closed))
                    }
                },
            };
            let mut channel = taken.map_err(|error| session.channel_error(error))?;
            let reserved = channel.reserved.take().filter(|_| SpareShells::serve(program));
            let watched = match reserved {
                Some(reserved) => reserved.begin(channel.audit_session),
                None => session.watch(channel.audit_session),
            };
            if let RunRequest::Run(run) = &mut request {
                run.mark = watched.as_ref().map(|watched| watched.mark.clone().into_bytes());
            }
            match channel.send(&request, &[]).await {
                Ok(()) => return Ok((channel, watched)),
                Err(ChannelError::Closed) if again => again = false,
                Err(error) => return Err(session.channel_error(error)),
            }
        }
    };
    let begin = async {
        let (channel, watched) = send.await?;
        let (channel, came) = receive_streams(channel, program, context, shared).await?;
        Ok::<_, CallError>((channel, came, watched))
    };
    let (channel, came, watched) = tokio::select! {
        // A program that has begun is killed, and its result says so.
        biased;
        begun = begin => begun?,
        stop = Context::stopped(&context.cancel, deadline) => return Err(stop),
    };
    let StreamEnds { sink, source, window } = StreamEnds::new(streams, came)?;
    Ok(StartedProgram { channel, sink, source, window, watched })
}

/// Receives the streams that the runner created for its program.
async fn receive_streams(
    mut channel: Channel,
    program: &Program,
    context: &Context,
    shared: Option<RunnerKind>,
) -> Result<(Channel, Vec<OwnedFd>), CallError> {
    let session = &context.session;
    let reply = channel.receive_with::<RunReply>().await;
    match reply.map_err(|error| session.channel_error(error))? {
        (RunReply::Streams { spares }, came) => {
            if !spares {
                session.cell.spares.give_up();
            }
            Ok((channel, came))
        }
        (RunReply::NotStarted { act, errno }, _) => {
            if let Some(kind) = shared {
                session.cell.runners(kind).give_back(channel).await;
            }
            let errno = io::Error::from_raw_os_error(errno);
            Err(CallError::NotStarted { program: program.name(), act, errno })
        }
        (RunReply::Ended { .. } | RunReply::Recorded(_) | RunReply::Frozen(_), _) => {
            Err(CallError::Cell("it sent no streams for a program".to_owned()))
        }
    }
}

/// Returns the arguments with which the program is started.
fn argv(program: &Program) -> Vec<Vec<u8>> {
    let mut argv: Vec<_> = program.argv.iter().map(|a| a.clone().into_bytes()).collect();
    // At the end of its line a shell replaces itself by the last command instead of forking. That
    // command's directory (`git -C`, `make -C`) would then be taken for the shell's. A further
    // empty line keeps it a shell.
    if let (DirectoryPolicy::Kept, Some(line)) = (program.directory, argv.last_mut()) {
        line.extend(b"\n\n");
    }
    argv
}

/// Returns the program's environment: what the profile passes on from the daemon's own, what the call
/// adds, and the placeholders of credentials, which no profile needs to pass on.
fn environment(program: &Program, context: &Context) -> Result<Vec<Vec<u8>>, CallError> {
    let session = &context.session;
    let mut extra: BTreeMap<String, String> = session
        .profile
        .passed_variables()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    if program.terminal.is_some() {
        extra.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    extra.extend(program.environment.clone());
    let path = session.search_paths.environment(program);
    let mut all = session.profile.environment(&session.scene, &extra, path)?;
    if let Some(inspection) = &session.network.inspection {
        for (name, placeholder) in &inspection.variables {
            let start = format!("{name}=");
            // One that the profile or the call sets is left as it is.
            if !all.iter().any(|set| set.starts_with(start.as_bytes())) {
                all.push(format!("{start}{placeholder}").into_bytes());
            }
        }
        all.sort();
    }
    Ok(all)
}

/// Follows a started program until it and every process it started are gone.
async fn follow(
    (channel, watched): (Channel, Option<CallWatch>),
    source: OutputSource,
    feed: impl Future<Output = ()>,
    (name, directory, runner): (String, DirectoryPolicy, RunnerReuse),
    context: &Context,
    deadline: Deadline,
) -> FinishedProgram {
    let session = &context.session;
    let (over, is_over) = watch::channel(false);
    let mut output = Output::new(context);
    let grace = Duration::from_millis(session.profile.kill_grace_ms());
    let supervise = async {
        let mut watchdog = Watchdog::new(channel, watched, grace, runner);
        let stop = Context::stopped(&context.cancel, deadline);
        let (_, mut requests) = mpsc::channel(1);
        let end = tokio::select! {
            end = watchdog.wait(stop, &mut requests) => end,
            never = async { feed.await; std::future::pending().await } => never,
        };
        over.send_replace(true);
        (end, watchdog)
    };
    let (pumped, (end, watchdog)) = tokio::join!(output.pump(source, is_over), supervise);
    if let Err(error) = pumped {
        tracing::warn!(%error, "a program's output could not be read to its end");
    }
    let mut outcome = output.finish().await;
    let (mut ended, channel) = watchdog.ended(end, session, name).await;
    let cwd = ended.cwd.take().filter(|_| directory == DirectoryPolicy::Kept);
    finish(ended, directory, context, &mut outcome);
    (outcome, cwd, channel)
}

/// Copies how a program ended into the outcome, and stores the directory in which a shell ended.
pub(crate) fn finish(
    ended: ProgramEnd,
    directory: DirectoryPolicy,
    context: &Context,
    outcome: &mut Outcome,
) {
    if let (Some(cwd), DirectoryPolicy::Kept) = (ended.cwd, directory) {
        context.session.set_cwd(cwd);
    }
    outcome.exit_code = ended.exit_code;
    outcome.signal = ended.signal;
    outcome.timed_out = ended.timed_out;
    outcome.cancelled = ended.cancelled;
    outcome.oom = ended.oom;
    outcome.pipe_held |= ended.stragglers;
    outcome.error = ended.error;
    outcome.recorded = ended.recorded;
    outcome.denials = ended.denials;
    outcome.observed = ended.observed;
    outcome.unrecorded = ended.unrecorded;
}
