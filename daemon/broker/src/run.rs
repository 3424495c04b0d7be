//! Runs a program in the cell: pipes, deadline, cancelling, and what its end means. Broker.

use crate::{
    channel::{Channel, ChannelError},
    context::{Context, Deadline},
    error::CallError,
    outcome::Outcome,
    output::Output,
    task::{Content, Directory, Program},
};
use palisade_plan::{
    Path,
    cell::{End, Run, RunReply, RunRequest},
};
use palisade_protocol::Input;
use rustix::{
    fs::{Mode, OFlags},
    pipe::{PipeFlags, pipe_with},
};
use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// How long a runner may take to answer after everything was killed.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What has to be known of a program when it ends.
struct Started {
    name: String,
    directory: Directory,
}

/// The program's ends of its streams, and ours.
struct Streams {
    theirs: [OwnedFd; 3],
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
}

impl Streams {
    fn new(stdin: Option<&Content>) -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        // Never a socket: bash would take that for a remote shell and read its start-up files.
        let (their_stdin, stdin) = match stdin {
            None => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
            }
            Some(_) => {
                let (reader, writer) = pipe()?;
                (reader, Some(Sender::from_owned_fd(writer)?))
            }
        };
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        Ok(Self { theirs: [their_stdin, out, err], stdin, stdout, stderr })
    }
}

/// Runs a program to its end.
pub(crate) async fn run(program: Program, mut context: Context, deadline: Deadline) -> Outcome {
    match start(&program, &context, deadline).await {
        Ok((channel, streams)) => {
            let input = context.input.take();
            let started = Started {
                name: program.argv.first().cloned().unwrap_or_default(),
                directory: program.directory,
            };
            let feed = feed(streams.stdin, program.stdin, input);
            let pipes = (streams.stdout, streams.stderr);
            drop(streams.theirs);
            follow(channel, pipes, feed, &started, &context, deadline).await
        }
        Err(error) => error.into(),
    }
}

async fn start(
    program: &Program,
    context: &Context,
    deadline: Deadline,
) -> Result<(Channel, Streams), CallError> {
    let session = &context.session;
    let request = RunRequest::Run(Run {
        argv: argv(program),
        environment: environment(program, context)?,
        cwd: Path(program.cwd.as_ref().map_or_else(|| session.cwd(), |cwd| session.absolute(cwd))),
        script: program.script.clone().map(String::into_bytes),
    });
    let streams = Streams::new(program.stdin.as_ref())?;
    let send = async {
        // A runner that died while it was idle is noticed only now; nothing was started yet.
        let mut again = true;
        loop {
            let mut channel =
                session.runners.take().await.map_err(|error| session.channel_error(error))?;
            let descriptors = streams.theirs.each_ref().map(|end| end.as_fd());
            match channel.send(&request, &descriptors).await {
                Ok(()) => return Ok(channel),
                Err(ChannelError::Closed) if again => again = false,
                Err(error) => return Err(session.channel_error(error)),
            }
        }
    };
    tokio::select! {
        sent = send => Ok((sent?, streams)),
        stop = Context::stopped(&context.cancel, deadline) => Err(stop),
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
fn environment(program: &Program, context: &Context) -> Result<Vec<Vec<u8>>, CallError> {
    let session = &context.session;
    let mut extra: BTreeMap<String, String> = session
        .profile
        .passed_variables()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    extra.extend(program.environment.clone());
    Ok(session.profile.environment(&session.scene, &extra)?)
}

/// Follows a program that was started until it and everything it started is gone.
async fn follow(
    channel: Channel,
    (stdout, stderr): (Receiver, Receiver),
    feed: impl Future<Output = ()>,
    started: &Started,
    context: &Context,
    deadline: Deadline,
) -> Outcome {
    let session = &context.session;
    let (over, is_over) = watch::channel(false);
    let mut output = Output::new(context);
    let grace = Duration::from_millis(session.profile.kill_grace_ms());
    let supervise = async {
        let mut watchdog = Watchdog { channel, grace, stopped: None };
        let end = tokio::select! {
            end = watchdog.wait(&context.cancel, deadline) => end,
            never = async { feed.await; std::future::pending().await } => never,
        };
        over.send_replace(true);
        (end, watchdog)
    };
    let (pumped, (end, watchdog)) = tokio::join!(output.pump(stdout, stderr, is_over), supervise);
    if let Err(error) = pumped {
        tracing::warn!(%error, "a program's output could not be read to its end");
    }
    let mut outcome = output.finish().await;
    outcome.oom = session.oom.grew();
    match end {
        Ok(reply) => {
            session.runners.give_back(watchdog.channel).await;
            ended(reply, watchdog.stopped, started, context, &mut outcome);
        }
        Err(error) => {
            drop(watchdog.channel);
            let failure = watchdog.stopped.unwrap_or_else(|| session.channel_error(error));
            mark(failure, &mut outcome);
            session.runners.prepare().await;
        }
    }
    outcome
}

fn mark(error: CallError, outcome: &mut Outcome) {
    outcome.timed_out = matches!(error, CallError::TimedOut(_));
    outcome.cancelled = matches!(error, CallError::Cancelled);
    outcome.error = Some(error.into());
}

/// What the runner's answer means for the result.
fn ended(
    reply: RunReply,
    stopped: Option<CallError>,
    started: &Started,
    context: &Context,
    outcome: &mut Outcome,
) {
    match reply {
        RunReply::NotStarted { act, errno } => {
            let errno = io::Error::from_raw_os_error(errno);
            let missing = errno.kind() == io::ErrorKind::NotFound;
            outcome.exit_code = Some(if missing { 127 } else { 126 });
            let program = started.name.clone();
            mark(CallError::NotStarted { program, act, errno }, outcome);
        }
        RunReply::Ended { end, cwd, stragglers } => {
            if let (Some(cwd), Directory::Kept) = (cwd, started.directory) {
                context.session.set_cwd(cwd.0);
            }
            outcome.pipe_held |= stragglers > 0;
            let why = match end {
                End::Exit(status) => {
                    outcome.exit_code = Some(status);
                    (status != 0).then(|| format!("with status {status}"))
                }
                End::Signal(number) => {
                    outcome.exit_code = Some(128 + number);
                    outcome.signal = Some(number);
                    Some(format!("by signal {number}"))
                }
            };
            if let Some(error) = stopped.or_else(|| why.map(CallError::CommandFailed)) {
                mark(error, outcome);
            }
        }
    }
}

/// Watches over a runner with a program.
struct Watchdog {
    channel: Channel,
    grace: Duration,
    stopped: Option<CallError>,
}

impl Watchdog {
    /// The runner's answer; after the deadline or a cancel everything is ended, first gently.
    async fn wait(
        &mut self,
        cancel: &CancellationToken,
        deadline: Deadline,
    ) -> Result<RunReply, ChannelError> {
        tokio::select! {
            biased;
            reply = self.channel.receive() => return reply,
            why = Context::stopped(cancel, deadline) => self.stopped = Some(why),
        }
        for (signal, patience) in [(SIGTERM, self.grace), (SIGKILL, LAST_WORD)] {
            self.channel.send(&RunRequest::Signal(signal), &[]).await?;
            let until = Instant::now() + patience;
            tokio::select! {
                biased;
                reply = self.channel.receive() => return reply,
                () = sleep_until(until) => {}
            }
        }
        tracing::error!("a runner did not answer after killing its program; it is given up");
        Err(ChannelError::Closed)
    }
}

/// Feeds standard input. A program that does not read on is no error.
async fn feed(
    stdin: Option<Sender>,
    content: Option<Content>,
    input: Option<mpsc::Receiver<Input>>,
) {
    let Some(mut stdin) = stdin else { return };
    let fed = match content {
        Some(Content::Inline(text)) => stdin.write_all(text.as_bytes()).await,
        Some(Content::Attached) => feed_attachment(&mut stdin, input).await,
        None => Ok(()),
    };
    if let Err(error) = fed {
        tracing::debug!(%error, "a program did not read all of its input");
    }
}

async fn feed_attachment(
    stdin: &mut Sender,
    input: Option<mpsc::Receiver<Input>>,
) -> io::Result<()> {
    let Some(mut input) = input else { return Ok(()) };
    while let Some(piece) = input.recv().await {
        stdin.write_all(&piece.data.0).await?;
        if piece.end {
            break;
        }
    }
    Ok(())
}
