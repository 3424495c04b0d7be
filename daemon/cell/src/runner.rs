//! Runs a session's programs, one at a time. It is the first process of its PID namespace, so that
//! when a program ends, everything that it started can be found and ended too. One thread. Runs in
//! the cell.

mod frozen;

use crate::{
    lookup::Lookup,
    record::Recorder,
    spare::{self, Spares, Taken},
    streams::ProgramStreams,
    tree::{ProcessTree, reap},
};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use palisade_cell_setup::{
    kernel::{self, ChildStack, Image},
    landlock::LandlockRestrictions,
    oom_score::OomScore,
    program::{ChildProgram, ProgramDomain, StartFailure},
    recording::RecordingRules,
    records,
};
use palisade_cell_tools::{change_time, files::settle_one, usage::UsageWatch};
use palisade_channel::{Channel, Datagrams};
use palisade_plan::{
    Path, Upper,
    cell::{End, PrepareShell, Run, RunReply, RunRequest, Streams},
};
use palisade_workspace::{ChangeTime, Layers, View, memory_file};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::Mode,
    io::Errno,
    process::WaitOptions,
};
use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    time::Duration,
};

/// The reason why a runner can not continue.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The broker closed the channel or sent nonsense.
    #[error("channel to the broker: {0}")]
    Channel(String),
    /// A required system call failed.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] std::io::Error),
    /// A second program came while one runs, or a program came with too many descriptors.
    #[error("out of order: {0}")]
    Order(&'static str),
}

fn kernel<E: Into<std::io::Error>>(act: &'static str) -> impl FnOnce(E) -> RunnerError {
    move |error| RunnerError::Kernel(act, error.into())
}

/// The resources that the steps left for a runner.
#[derive(Debug)]
pub(crate) struct RunnerResources {
    /// The rulesets for each program's Landlock domain.
    pub(crate) landlock: Option<LandlockRestrictions>,
    /// Makes programs the first victims of the OOM killer.
    pub(crate) oom_score: OomScore,
    /// Records what programs use.
    pub(crate) recorder: Option<Recorder>,
}

impl RunnerResources {
    /// Gathers the resources.
    pub(crate) fn new(
        landlock: Option<LandlockRestrictions>,
        oom_score: OomScore,
        recording: Option<RecordingRules>,
    ) -> Self {
        Self { landlock, oom_score, recorder: recording.map(Recorder::new) }
    }
}

/// The file mode mask of every program at its start.
const UMASK: Mode = Mode::from_raw_mode(0o022);

/// The file mode mask of the runner when it commits: every mode is one that the program set.
const COMMIT_UMASK: Mode = Mode::empty();

/// The number of processes that are reaped before requests are looked at again.
const MOST_REAPED: usize = 256;

/// The state that a runner keeps between calls.
struct Runner {
    channel: Channel,
    control: Datagrams,
    held: RunnerResources,
    children: SignalFd,
    /// True if processes that have ended may be left to reap.
    unreaped: bool,
    tree: ProcessTree,
    stack: ChildStack,
    lookup: Lookup,
    spares: Spares,
}

/// The program that runs now.
struct RunningProgram {
    pid: i32,
    /// The name of its Landlock domain in the kernel's records.
    mark: Option<CString>,
    /// Held until the program ends: a terminal must not look hung up between two of its processes.
    _terminal: Option<OwnedFd>,
}

/// The reason why the runner stopped.
#[derive(Debug)]
pub(crate) enum RunnerExit {
    /// The broker or the launcher is gone.
    Nobody,
    /// The one program of a transaction has ended, with everything that it started.
    Launcher {
        /// The launcher's socket.
        control: Datagrams,
        /// The time at which the program was started.
        since: ChangeTime,
    },
}

/// The resources with which a transaction's runner commits while its program is frozen.
pub(crate) struct CommitResources<'a> {
    pub(crate) layers: &'a mut Layers,
    pub(crate) view: &'a View,
    /// The channel on which the broker sends the requests for that.
    pub(crate) file: &'a Channel,
}

/// Runs programs one after another; in a transaction only one.
pub(crate) fn serve(
    channel: Channel,
    control: Datagrams,
    held: RunnerResources,
    settling: Option<CommitResources<'_>>,
) -> Result<RunnerExit, RunnerError> {
    let tree = ProcessTree::new().map_err(kernel("become the reaper"))?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().map_err(kernel("block SIGCHLD"))?;
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(kernel("signalfd"))?;
    let stack = ChildStack::new().map_err(kernel("map a stack"))?;
    let lookup = Lookup::default();
    // Without a PID namespace a program could reach a spare shell. What is recorded begins with the
    // execution.
    let spares = Spares::new(tree == ProcessTree::Namespace && held.recorder.is_none());
    let unreaped = false;
    let mut runner =
        Runner { channel, control, held, children, unreaped, tree, stack, lookup, spares };
    let end = runner.serve(settling);
    runner.tree.end_with_this_process();
    match end? {
        ServeEnd::Gone => Ok(RunnerExit::Nobody),
        ServeEnd::Ran(since) => Ok(RunnerExit::Launcher { control: runner.control, since }),
    }
}

/// The way in which serving ended.
enum ServeEnd {
    Gone,
    Ran(ChangeTime),
}

/// Returns the upper layers if they are on a disk. Their size is then not bounded by a file system
/// of their own, and must be checked from time to time.
fn watched(layers: &Layers) -> Result<Vec<OwnedFd>, RunnerError> {
    match layers.kept.upper {
        Upper::Memory => Ok(Vec::new()),
        Upper::Disk => {
            let upper = |layers: &Layers| rustix::io::fcntl_dupfd_cloexec(&layers.upper, 4);
            layers.roots().map(upper).collect::<Result<_, _>>().map_err(kernel("open the layer"))
        }
    }
}

/// The events that a wait returned.
struct WaitEvents {
    request: bool,
    children: bool,
    gone: bool,
    /// A program is about to make a recorded system call.
    noted: bool,
    /// The broker asks about the changes made so far.
    asked: bool,
}

impl Runner {
    fn serve(
        &mut self,
        mut settling: Option<CommitResources<'_>>,
    ) -> Result<ServeEnd, RunnerError> {
        let mut running = None;
        let mut since = None;
        let uppers = settling.as_ref().map(|settling| watched(settling.layers)).transpose()?;
        let uppers = uppers.unwrap_or_default();
        let mut watches: Vec<UsageWatch<'_>> = Vec::new();
        let mut still = None;
        loop {
            let asks = still.as_ref().and(settling.as_ref()).map(|settling| settling.file);
            let patience = watches.iter().map(UsageWatch::patience).min();
            let patience = patience.or(self.spares.patience());
            let patience = if self.unreaped { Some(Duration::ZERO) } else { patience };
            let woken = self.wait(patience, asks)?;
            if woken.gone {
                return Ok(ServeEnd::Gone);
            }
            self.spares.end_idle();
            if let Some(RunningProgram { pid, .. }) = &running
                && watches.iter_mut().any(UsageWatch::is_over)
            {
                // The reply about the transaction says that the layer is full.
                self.tree.signal(*pid, Signal::SIGKILL as i32);
            }
            if let (true, Some(recorder)) = (woken.noted, &mut self.held.recorder) {
                recorder.handle_notification();
            }
            if woken.children || self.unreaped {
                running = self.reap(running)?;
            }
            if woken.request {
                let Some((request, fds)) = self
                    .channel
                    .receive::<RunRequest>()
                    .map_err(|e| RunnerError::Channel(e.to_string()))?
                else {
                    return Ok(ServeEnd::Gone);
                };
                if let (Some(settling), RunRequest::Run(_)) = (&settling, &request) {
                    since = Some(change_time::now(&settling.layers.lower));
                    let bytes = settling.layers.bytes;
                    watches = uppers.iter().map(|upper| UsageWatch::new(upper, bytes)).collect();
                }
                match (request, &mut settling, since) {
                    (RunRequest::Freeze { may_share }, Some(settling), Some(since)) => {
                        settling.layers.set_since(since);
                        still = self.freeze(settling.layers, may_share)?;
                    }
                    (RunRequest::Thaw, ..) => {
                        if let (Some(program), Some(settling)) = (still.take(), &mut settling) {
                            rustix::process::umask(program.umask);
                            self.thaw(program.frozen, settling.layers)?;
                        }
                    }
                    (request, ..) => running = self.handle_request(request, fds, running)?,
                }
            }
            if let (true, Some(still), Some(settling)) = (woken.asked, &mut still, &mut settling) {
                let CommitResources { layers, view, file } = settling;
                // Without this channel there is no reason to continue.
                if settle_one(file, view, layers, &mut still.pending).is_err() {
                    return Ok(ServeEnd::Gone);
                }
            }
            if let (Some(since), None) = (since, &running) {
                // What is left of the program's mask must not become the commit's.
                rustix::process::umask(COMMIT_UMASK);
                return Ok(ServeEnd::Ran(since));
            }
        }
    }

    fn wait(
        &self,
        patience: Option<Duration>,
        asks: Option<&Channel>,
    ) -> Result<WaitEvents, RunnerError> {
        let listener = self.held.recorder.as_ref().and_then(Recorder::listener);
        let mut polled = vec![
            PollFd::new(&self.channel, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
        ];
        let noted = polled.len();
        polled.extend(listener.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let asked = polled.len();
        polled.extend(asks.map(|channel| PollFd::new(channel, PollFlags::IN)));
        let next = self.channel.has_next();
        let more = asks.is_some_and(Channel::has_next);
        let patience = if next || more { Some(Duration::ZERO) } else { patience };
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        loop {
            match rustix::event::poll(&mut polled, patience.as_ref()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(kernel("poll")(error)),
            }
        }
        let woken =
            |place| polled.get(place).is_some_and(|fd: &PollFd<'_>| !fd.revents().is_empty());
        Ok(WaitEvents {
            request: next || woken(0),
            children: woken(1),
            // The launcher sends nothing but answers, which are awaited where it is asked: any event
            // here means that it is gone.
            gone: woken(2),
            noted: listener.is_some() && woken(noted),
            asked: more || woken(asked),
        })
    }

    fn handle_request(
        &mut self,
        request: RunRequest,
        fds: Vec<OwnedFd>,
        running: Option<RunningProgram>,
    ) -> Result<Option<RunningProgram>, RunnerError> {
        match (request, running) {
            (RunRequest::Run(run), None) => self.start(&run, fds),
            (RunRequest::Prepare(shell), None) => {
                self.prepare(shell);
                Ok(None)
            }
            (RunRequest::Prepare(_), Some(running)) => {
                // A program could reach the shell. There is none, so the next call starts one.
                Ok(Some(running))
            }
            (RunRequest::Run(_), Some(_)) => {
                Err(RunnerError::Order("a program is already running"))
            }
            (RunRequest::Signal(number), Some(running)) => {
                self.tree.signal(running.pid, number);
                Ok(Some(running))
            }
            // The program ended by itself just before.
            (RunRequest::Signal(_) | RunRequest::Freeze { .. } | RunRequest::Thaw, None) => {
                Ok(None)
            }
            (RunRequest::Freeze { .. } | RunRequest::Thaw, Some(_)) => {
                Err(RunnerError::Order("only a transaction's program stands still"))
            }
        }
    }

    /// Starts a program, or replies why it can not be started.
    fn start(
        &mut self,
        run: &Run,
        mut fds: Vec<OwnedFd>,
    ) -> Result<Option<RunningProgram>, RunnerError> {
        let mark = mark(run.mark.as_deref());
        let given = fds.pop();
        if !fds.is_empty() {
            return Err(RunnerError::Order("a program came with more than one descriptor"));
        }
        let started = match ProgramStreams::new(run.streams, given) {
            Ok(streams) => self.start_with(run, mark.as_deref(), streams)?,
            Err(error) => Err(StartFailure::at("create streams")(error)),
        };
        // A program that failed to start leaves no shell behind either.
        self.spares.end();
        let started =
            started.map(|(pid, _terminal)| RunningProgram { pid, mark: mark.clone(), _terminal });
        match started {
            Ok(running) => Ok(Some(running)),
            Err(StartFailure { act, errno }) => {
                self.tree.end();
                self.reply(&RunReply::NotStarted { act: act.to_owned(), errno })?;
                records::fence(mark.as_deref());
                Ok(None)
            }
        }
    }

    /// Starts a program with these streams: in the spare shell if that can serve it, or else in a
    /// new process. Sends the streams' other ends to the broker.
    fn start_with(
        &mut self,
        run: &Run,
        mark: Option<&CStr>,
        streams: ProgramStreams,
    ) -> Result<Result<(i32, Option<OwnedFd>), StartFailure>, RunnerError> {
        let ProgramStreams { program, broker, terminal } = streams;
        let entered = enter_directory(run);
        let offer = match &entered {
            Ok(()) => self.spares.offer(run, &program, &mut self.lookup),
            Err(_) => None,
        };
        let mut started = match (entered, &offer) {
            (Err(failure), _) => Err(failure),
            (Ok(()), Some(_)) => Ok(0),
            (Ok(()), None) => self.try_start(run, mark, program.each_ref()),
        };
        // After the start, so that the broker takes its ends while the program loads.
        let ends: Vec<_> = broker.iter().map(|end| end.as_fd()).collect();
        let spares = self.spares.are_usable();
        self.channel
            .send_with(&RunReply::Streams { spares }, &ends)
            .map_err(|e| RunnerError::Channel(e.to_string()))?;
        if let Some(offer) = offer {
            started = match self.spares.taken(offer, spare::TAKE) {
                Taken::By(pid) => Ok(pid),
                Taken::ByNobody => self.try_start(run, mark, program.each_ref()),
                Taken::Unknown => Err(StartFailure { act: "start", errno: libc::ETIMEDOUT }),
            };
        }
        Ok(started.map(|pid| (pid, terminal)))
    }

    /// Starts a shell ahead of the call that needs it.
    fn prepare(&mut self, shell: PrepareShell) {
        let mark = mark(shell.mark.as_deref());
        let Some(image) = self.spares.image(shell, &mut self.lookup) else { return };
        let domain = self.held.landlock.as_ref().map(|landlock| domain(landlock, mark.as_deref()));
        let (program, stack) = (image.program(domain), &mut self.stack);
        let started = self.held.oom_score.start(|| Ok(program.start(stack)));
        self.spares.keep(started.ok().and_then(Result::ok), image);
    }

    fn try_start(
        &mut self,
        run: &Run,
        mark: Option<&CStr>,
        streams: [&OwnedFd; 3],
    ) -> Result<i32, StartFailure> {
        let image = image(run, &mut self.lookup)?;
        let script = match &run.script {
            Some(text) => {
                Some(memory_file::make(c"script", text).map_err(StartFailure::at("script"))?)
            }
            None => None,
        };
        let prepared = self.held.recorder.as_ref().map(|recorder| recorder.prepare(&image));
        let prepared = prepared.transpose().map_err(StartFailure::at("record"))?;
        let recorded = self.held.recorder.as_ref().zip(prepared.as_ref());
        let script = script.as_ref().map(|script| script.as_fd());
        let program = ChildProgram {
            image: &image,
            streams: streams.map(|stream| stream.as_fd()),
            has_terminal: matches!(run.streams, Streams::Terminal(_)),
            more: [script, None],
            domain: self.held.landlock.as_ref().map(|landlock| domain(landlock, mark)),
            recording: recorded.map(|(recorder, made)| recorder.filters(made)),
        };
        let stack = &mut self.stack;
        let started = self.held.oom_score.start(|| Ok(program.start(stack)));
        let pid = started.map_err(StartFailure::at("fork")).flatten()?;
        if let (Some(made), Some(recorder)) = (&prepared, &mut self.held.recorder) {
            let places = places(run, &mut self.lookup);
            recorder.begin(made, &places).map_err(StartFailure::at("record"))?;
        }
        Ok(pid)
    }

    /// Reaps the processes that have ended. When the program itself has ended, ends everything that
    /// it started, and only then replies. A program that makes processes faster than they are reaped
    /// does not keep requests waiting: what is left is noted.
    fn reap(
        &mut self,
        running: Option<RunningProgram>,
    ) -> Result<Option<RunningProgram>, RunnerError> {
        while self.children.read_signal().map_err(kernel("read signalfd"))?.is_some() {}
        let mut running = running;
        self.unreaped = false;
        for _ in 0..MOST_REAPED {
            let (pid, end) = match reap(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) | Err(Errno::CHILD) => return Ok(running),
                Err(error) => return Err(kernel("wait for children")(error)),
            };
            let exit = match end {
                End::Exit(status) => Some(status),
                End::Signal(_) => None,
            };
            self.spares.ended(pid, exit);
            if let Some(program) = running.take_if(|program| program.pid == pid) {
                let stragglers = self.tree.end();
                if let Some(recorder) = &mut self.held.recorder {
                    let recorded = RunReply::Recorded(Box::new(recorder.finish()));
                    self.reply(&recorded)?;
                }
                self.reply(&RunReply::Ended { end, cwd: current_directory(), stragglers })?;
                if end != End::Exit(0) {
                    // Meanwhile the broker reads the rest of the output.
                    records::fence(program.mark.as_deref());
                }
            }
        }
        self.unreaped = true;
        Ok(running)
    }

    fn reply(&self, reply: &RunReply) -> Result<(), RunnerError> {
        self.channel.send(reply).map_err(|e| RunnerError::Channel(e.to_string()))
    }
}

/// Returns the name of a program's Landlock domain. If the mark can not be a name there is none;
/// the broker notices that the records are missing.
fn mark(mark: Option<&[u8]>) -> Option<CString> {
    mark.and_then(|mark| CString::new(mark).ok())
}

/// Sets the current directory and the file mode mask of the program, which it shares with this
/// process.
fn enter_directory(run: &Run) -> Result<(), StartFailure> {
    rustix::process::umask(UMASK);
    rustix::process::chdir(run.cwd.as_path()).map_err(StartFailure::at("chdir"))
}

/// Returns the program's last current directory; `None` if it was deleted.
fn current_directory() -> Option<Path> {
    let path = rustix::process::getcwd(Vec::new()).ok()?;
    path.to_bytes().starts_with(b"/").then(|| Path(path.into_bytes()))
}

/// Prepares, before the fork, everything that the execution needs.
fn image(run: &Run, lookup: &mut Lookup) -> Result<Image, StartFailure> {
    let invalid = |_| StartFailure { act: "exec", errno: libc::EINVAL };
    let strings = |list: &[Vec<u8>]| -> Result<Vec<CString>, StartFailure> {
        list.iter().map(|bytes| CString::new(bytes.as_slice()).map_err(invalid)).collect()
    };
    let argv = strings(&run.argv)?;
    let Some(program) = run.argv.first().filter(|program| !program.is_empty()) else {
        return Err(StartFailure { act: "exec", errno: libc::EINVAL });
    };
    let candidates = lookup.candidates(program, &run.search);
    let candidates = candidates.into_iter().map(|path| CString::new(path).map_err(invalid));
    Ok(Image::new(candidates.collect::<Result<_, _>>()?, argv, strings(&run.environment)?))
}

/// Returns the absolute paths where the program may be.
fn places(run: &Run, lookup: &mut Lookup) -> Vec<PathBuf> {
    let name = run.argv.first().map_or(&[][..], Vec::as_slice);
    let from = |path: Vec<u8>| run.cwd.as_path().join(Path(path).as_path());
    lookup.candidates(name, &run.search).into_iter().map(from).collect()
}

/// Returns the ruleset for a program's domain. If its denials are to be read, the domain needs the
/// full ruleset, because a record names the innermost domain that denied.
fn domain<'a>(landlock: &'a LandlockRestrictions, mark: Option<&'a CStr>) -> ProgramDomain<'a> {
    let ruleset = match mark {
        Some(_) => &landlock.ruleset,
        None => landlock.apart.as_ref().unwrap_or(&landlock.ruleset),
    };
    ProgramDomain { ruleset: ruleset.as_fd(), name: mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_programs_and_nul_bytes_are_refused_before_a_fork() {
        let run = |argv: &[&[u8]]| Run {
            argv: argv.iter().map(|a| a.to_vec()).collect(),
            environment: vec![],
            search: b"/usr/bin:/bin".to_vec(),
            cwd: "/".into(),
            script: None,
            streams: Streams::Pipes(palisade_plan::cell::Stdin::Null),
            mark: None,
        };
        for argv in [&[][..], &[b"".as_slice()], &[b"a\0b".as_slice()]] {
            assert_eq!(
                image(&run(argv), &mut Lookup::default()).err().map(|e| e.errno),
                Some(libc::EINVAL)
            );
        }
        assert!(image(&run(&[b"true"]), &mut Lookup::default()).is_ok());
    }
}
