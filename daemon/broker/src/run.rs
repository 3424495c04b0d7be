//! Runs a program in the cell: started, followed to its end, and what that end means. Broker.

use crate::{
    attachment::Attachment,
    channel::{Channel, ChannelError},
    context::{Context, Deadline},
    ended::Ended,
    error::CallError,
    lookup,
    outcome::Outcome,
    output::Output,
    records::Watched,
    runner::{RunnerError, RunnerKind},
    streams::{self, Pipes, Sink, Source, Window},
    task::{Directory, Program},
    transaction::Transaction,
    watchdog::{Runner, Watchdog},
};
use palisade_plan::{
    Path,
    cell::{self, Run, RunReply, RunRequest},
};
use palisade_policy::Search;
use std::{collections::BTreeMap, io, os::fd::AsFd as _, time::Duration};
use tokio::sync::{mpsc, watch};

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) channel: Channel,
    pub(crate) sink: Option<Sink>,
    pub(crate) source: Source,
    pub(crate) window: Option<Window>,
    pub(crate) watched: Option<Watched>,
}

/// Where a program runs.
#[derive(Debug)]
pub(crate) enum Via<'a> {
    /// In the session's runner of this kind.
    Runners(RunnerKind),
    /// In a transaction.
    Transaction(&'a mut Transaction),
}

/// Runs a program to its end.
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
        followed(program, &context, input, deadline, &mut Via::Runners(kind)).await?;
    if let Some(cwd) = cwd {
        context.session.set_cwd(cwd);
    }
    Ok(outcome)
}

/// Runs a program to its end in a transaction; also where a shell ended. What it changed does not
/// count yet.
pub(crate) async fn in_transaction(
    program: Program,
    context: &mut Context,
    deadline: Deadline,
    transaction: &mut Transaction,
) -> (Outcome, Option<Vec<u8>>) {
    let input = context.input.take();
    let via = &mut Via::Transaction(transaction);
    match followed(program, context, input, deadline, via).await {
        Ok((outcome, cwd, channel)) => {
            // Its process lives as long as its channels.
            transaction.run = channel;
            (outcome, cwd)
        }
        Err(error) => (error.into(), None),
    }
}

/// How a program ended: where, and the channel that is left of its runner.
type Followed = (Outcome, Option<Vec<u8>>, Option<Channel>);

async fn followed(
    program: Program,
    context: &Context,
    input: Option<Attachment>,
    deadline: Deadline,
    via: &mut Via<'_>,
) -> Result<Followed, CallError> {
    context.room_for_output().await?;
    let begun = begin(&program, context, deadline, via).await?;
    let (name, directory) = (program.name(), program.directory);
    let runner = match via {
        Via::Runners(kind) => Runner::Shared(*kind),
        Via::Transaction(_) => Runner::Once,
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
    via: &mut Via<'_>,
) -> Result<Begun, CallError> {
    let session = &context.session;
    let search = lookup::of(program);
    let mut request = RunRequest::Run(Run {
        argv: argv(program),
        environment: environment(program, context, search)?,
        search: lookup::path(program, session, search)?,
        cwd: Path(program.cwd.as_ref().map_or_else(|| session.cwd(), |cwd| session.absolute(cwd))),
        script: program.script.clone().map(String::into_bytes),
        streams: program.terminal.map_or(cell::Streams::Given, cell::Streams::Terminal),
        mark: None,
    });
    let pipes = match program.terminal {
        None => Some(Pipes::new(program)?),
        Some(_) => None,
    };
    let shared = match via {
        Via::Runners(kind) => Some(*kind),
        Via::Transaction(_) => None,
    };
    let send = async {
        // A runner that died while it was idle is noticed only now; nothing was started yet.
        let mut again = true;
        loop {
            let taken = match via {
                Via::Runners(kind) => session.runners(*kind).take().await,
                Via::Transaction(one) => match one.run.take() {
                    Some(channel) => Ok(channel),
                    None => {
                        **one = session.transaction().await?;
                        one.run.take().ok_or(RunnerError::Channel(ChannelError::Closed))
                    }
                },
            };
            let mut channel = taken.map_err(|error| session.channel_error(error))?;
            let watched = session.watch(channel.audit_session);
            if let RunRequest::Run(run) = &mut request {
                run.mark = watched.as_ref().map(|watched| watched.mark.clone().into_bytes());
            }
            let theirs = pipes.iter().flat_map(|pipes| &pipes.theirs);
            let descriptors: Vec<_> = theirs.map(|end| end.as_fd()).collect();
            match channel.send(&request, &descriptors).await {
                Ok(()) => return Ok((channel, watched)),
                Err(ChannelError::Closed) if again => again = false,
                Err(error) => return Err(session.channel_error(error)),
            }
        }
    };
    let begin = async {
        let (channel, watched) = send.await?;
        let (channel, terminal) = match pipes.as_ref() {
            Some(_) => (channel, None),
            None => terminal(channel, program, context, shared).await?,
        };
        Ok::<_, CallError>((channel, terminal, watched))
    };
    let (channel, terminal, watched) = tokio::select! {
        begun = begin => begun?,
        stop = Context::stopped(&context.cancel, deadline) => return Err(stop),
    };
    match (pipes, terminal) {
        (Some(Pipes { sink, source, .. }), _) => {
            Ok(Begun { channel, sink, source, window: None, watched })
        }
        (None, Some((sink, source, window))) => {
            Ok(Begun { channel, sink: Some(sink), source, window: Some(window), watched })
        }
        (None, None) => Err(CallError::Cell("a program without streams".to_owned())),
    }
}

/// Takes over the terminal that the runner made for its program.
async fn terminal(
    mut channel: Channel,
    program: &Program,
    context: &Context,
    shared: Option<RunnerKind>,
) -> Result<(Channel, Option<(Sink, Source, Window)>), CallError> {
    let session = &context.session;
    let reply = channel.receive_with::<RunReply>().await;
    match reply.map_err(|error| session.channel_error(error))? {
        (RunReply::Terminal, Some(master)) => Ok((channel, Some(streams::terminal(master)?))),
        (RunReply::NotStarted { act, errno }, _) => {
            if let Some(kind) = shared {
                session.runners(kind).give_back(channel).await;
            }
            let errno = io::Error::from_raw_os_error(errno);
            Err(CallError::NotStarted { program: program.name(), act, errno })
        }
        (
            RunReply::Terminal
            | RunReply::Ended { .. }
            | RunReply::Recorded(_)
            | RunReply::Frozen(_),
            _,
        ) => Err(CallError::Cell("a terminal was asked for and none came".to_owned())),
    }
}

/// The arguments as they are run.
fn argv(program: &Program) -> Vec<Vec<u8>> {
    let mut argv: Vec<_> = program.argv.iter().map(|a| a.clone().into_bytes()).collect();
    // A shell that has come to the end of its line becomes the last command instead of starting it,
    // and then that command's directory (`git -C`, `make -C`) would be taken for the shell's. With
    // an empty line to come it stays a shell.
    if let (Directory::Kept, Some(line)) = (program.directory, argv.last_mut()) {
        line.extend(b"\n\n");
    }
    argv
}

/// What the profile passes on from the daemon's own environment, and what the call adds.
fn environment(
    program: &Program,
    context: &Context,
    search: Search,
) -> Result<Vec<Vec<u8>>, CallError> {
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
    Ok(session.profile.environment(&session.scene, &extra, search)?)
}

/// Follows a program that was started until it and everything it started is gone.
async fn follow(
    (channel, watched): (Channel, Option<Watched>),
    source: Source,
    feed: impl Future<Output = ()>,
    (name, directory, runner): (String, Directory, Runner),
    context: &Context,
    deadline: Deadline,
) -> Followed {
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
    let cwd = ended.cwd.take().filter(|_| directory == Directory::Kept);
    finish(ended, directory, context, &mut outcome);
    (outcome, cwd, channel)
}

/// What a program's end means for the result.
pub(crate) fn finish(ended: Ended, directory: Directory, context: &Context, outcome: &mut Outcome) {
    if let (Some(cwd), Directory::Kept) = (ended.cwd, directory) {
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
