//! Runs a session's programs, one at a time: the first process of its PID namespace, so that when
//! a program ends, everything it started can be found and ended too. One thread. Room: the cell.

use crate::{
    channel::Channel,
    files::{Pending, settle_one},
    freeze::Frozen,
    kernel::{self, ChildStack, Image, Logged},
    landlock::Enforced,
    lookup::Lookup,
    moment::{self, Moment},
    overlay::Layers,
    record::{Prepared, Recorder},
    records, terminal,
    tree::Tree,
    usage::Watch,
    victim::Victim,
    view::View,
};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
    wait::{WaitPidFlag, WaitStatus, waitpid},
};
use palisade_channel::Datagrams;
use palisade_plan::{
    Path, Upper,
    cell::{End, Run, RunReply, RunRequest, Streams},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::Mode,
    io::Errno,
};
use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

/// Where a program finds a script that is too long to be an argument.
const SCRIPT: i32 = 3;

/// Why a runner can not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The broker is gone or talks nonsense.
    #[error("channel to the broker: {0}")]
    Channel(String),
    /// The kernel refused something that can not be done without.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] std::io::Error),
    /// A second program while one runs, or a program without its three streams.
    #[error("out of order: {0}")]
    Order(&'static str),
}

fn kernel<E: Into<std::io::Error>>(act: &'static str) -> impl FnOnce(E) -> RunnerError {
    move |error| RunnerError::Kernel(act, error.into())
}

/// What the steps left for a runner.
#[derive(Debug)]
pub(crate) struct Held {
    /// The Landlock domain of each program is made of this.
    pub(crate) landlock: Option<Enforced>,
    /// Makes programs go first.
    pub(crate) victim: Victim,
    /// Notes what they use.
    pub(crate) recorder: Option<Recorder>,
}

/// The runner between calls.
struct Runner {
    channel: Channel,
    control: Datagrams,
    held: Held,
    children: SignalFd,
    tree: Tree,
    stack: ChildStack,
    lookup: Lookup,
}

/// A program under way.
struct Running {
    pid: i32,
    /// The name of its domain.
    mark: Option<CString>,
    /// Held until its end: between two programs on it a terminal must not look hung up.
    _terminal: Option<OwnedFd>,
}

/// Why no program is run any more.
#[derive(Debug)]
pub(crate) enum Left {
    /// The broker or the launcher is gone.
    Nobody,
    /// The one program has ended, and everything that it started.
    Launcher {
        /// Its socket.
        control: Datagrams,
        /// When the program was started.
        since: Moment,
    },
}

/// What a transaction's runner settles with, whose program stands still.
pub(crate) struct Settling<'a> {
    pub(crate) layers: &'a mut Layers,
    pub(crate) view: &'a View,
    /// The broker asks on it.
    pub(crate) file: &'a Channel,
}

/// Runs programs, one after another; in a transaction one.
pub(crate) fn serve(
    channel: Channel,
    control: Datagrams,
    held: Held,
    settling: Option<Settling<'_>>,
) -> Result<Left, RunnerError> {
    let tree = Tree::new().map_err(kernel("become the reaper"))?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().map_err(kernel("block SIGCHLD"))?;
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(kernel("signalfd"))?;
    let stack = ChildStack::new();
    let lookup = Lookup::default();
    let mut runner = Runner { channel, control, held, children, tree, stack, lookup };
    let end = runner.serve(settling);
    runner.tree.end_with_this_process();
    match end? {
        Over::Gone => Ok(Left::Nobody),
        Over::Ran(since) => Ok(Left::Launcher { control: runner.control, since }),
    }
}

/// How serving ended.
enum Over {
    Gone,
    Ran(Moment),
}

/// A layer that no file system of its own bounds, to look at it every now and then.
fn watched(layers: &Layers) -> Result<Option<OwnedFd>, RunnerError> {
    match layers.kept.upper {
        Upper::Memory => Ok(None),
        Upper::Disk => {
            let upper = rustix::io::fcntl_dupfd_cloexec(&layers.upper, 4);
            upper.map(Some).map_err(kernel("open the layer"))
        }
    }
}

/// A program that stands still.
struct Still {
    frozen: Frozen,
    /// What may still come on the channel on which it is asked about.
    pending: Pending,
}

/// What there is to do.
struct Woken {
    request: bool,
    children: bool,
    gone: bool,
    /// A program is about to use something.
    noted: bool,
    /// What it did until now is asked about.
    asked: bool,
}

impl Runner {
    fn serve(&mut self, mut settling: Option<Settling<'_>>) -> Result<Over, RunnerError> {
        let mut running = None;
        let mut since = None;
        let upper =
            settling.as_ref().map(|settling| watched(settling.layers)).transpose()?.flatten();
        let mut watch = None;
        let mut still = None;
        loop {
            let asks = still.as_ref().and(settling.as_ref()).map(|settling| settling.file);
            let woken = self.wait(watch.as_ref().map(Watch::patience), asks)?;
            if woken.gone {
                return Ok(Over::Gone);
            }
            if let (Some(watch), Some(Running { pid, .. })) = (&mut watch, &running)
                && watch.is_over()
            {
                // What the program is told by is what settling says: its layer is full.
                self.tree.signal(*pid, Signal::SIGKILL as i32);
            }
            if let (true, Some(recorder)) = (woken.noted, &mut self.held.recorder) {
                recorder.hear();
            }
            if woken.children {
                running = self.reap(running)?;
            }
            if woken.request {
                let Some((request, fds)) = self
                    .channel
                    .receive::<RunRequest>()
                    .map_err(|e| RunnerError::Channel(e.to_string()))?
                else {
                    return Ok(Over::Gone);
                };
                if let (Some(settling), RunRequest::Run(_)) = (&settling, &request) {
                    since = Some(moment::now(&settling.layers.lower));
                    watch = upper.as_ref().map(|upper| Watch::new(upper, settling.layers.bytes));
                }
                match (request, &mut settling, since) {
                    (RunRequest::Freeze, Some(settling), Some(since)) => {
                        settling.layers.since = since;
                        still = self.freeze(settling.layers)?;
                    }
                    (RunRequest::Thaw, ..) => {
                        if let Some(Still { frozen, .. }) = still.take() {
                            frozen.thaw().map_err(kernel("let processes go on"))?;
                        }
                    }
                    (request, ..) => running = self.hear(request, fds, running)?,
                }
            }
            if let (true, Some(still), Some(settling)) = (woken.asked, &mut still, &mut settling) {
                let Settling { layers, view, file } = settling;
                // Without the channel there is nothing to go on for.
                if settle_one(file, view, layers, &mut still.pending).is_err() {
                    return Ok(Over::Gone);
                }
            }
            if let (Some(since), None) = (since, &running) {
                return Ok(Over::Ran(since));
            }
        }
    }

    /// Stops every process; says so, or why not.
    fn freeze(&self, layers: &mut Layers) -> Result<Option<Still>, RunnerError> {
        kernel::ignore_file_size_signal();
        match Frozen::freeze(self.tree) {
            Ok(frozen) => {
                layers.committed.get_or_insert_default();
                self.reply(&RunReply::Frozen(None))?;
                Ok(Some(Still { frozen, pending: Pending::default() }))
            }
            Err(error) => {
                self.reply(&RunReply::Frozen(Some(error.to_string())))?;
                Ok(None)
            }
        }
    }

    fn wait(
        &self,
        patience: Option<Duration>,
        asks: Option<&Channel>,
    ) -> Result<Woken, RunnerError> {
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
        Ok(Woken {
            request: next || woken(0),
            children: woken(1),
            // The launcher never speaks twice: whatever comes means that it is gone.
            gone: woken(2),
            noted: listener.is_some() && woken(noted),
            asked: more || woken(asked),
        })
    }

    fn hear(
        &mut self,
        request: RunRequest,
        fds: Vec<OwnedFd>,
        running: Option<Running>,
    ) -> Result<Option<Running>, RunnerError> {
        match (request, running) {
            (RunRequest::Run(run), None) => self.start(&run, &fds),
            (RunRequest::Run(_), Some(_)) => Err(RunnerError::Order("a program runs already")),
            (RunRequest::Signal(number), Some(running)) => {
                self.tree.signal(running.pid, number);
                Ok(Some(running))
            }
            // It ended by itself just before.
            (RunRequest::Signal(_) | RunRequest::Freeze | RunRequest::Thaw, None) => Ok(None),
            (RunRequest::Freeze | RunRequest::Thaw, Some(_)) => {
                Err(RunnerError::Order("only a transaction's program stands still"))
            }
        }
    }

    /// Starts a program, or says why it can not be started.
    fn start(&mut self, run: &Run, fds: &[OwnedFd]) -> Result<Option<Running>, RunnerError> {
        let mark = mark(run);
        let started = match (run.streams, fds) {
            (Streams::Given, [stdin, stdout, stderr]) => {
                let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                let started = self.try_start(run, mark.as_deref(), streams);
                started.map(|pid| Running { pid, mark: mark.clone(), _terminal: None })
            }
            (Streams::Terminal(size), []) => match terminal::make(size) {
                Ok((master, slave)) => {
                    self.channel
                        .send_with(&RunReply::Terminal, &[master.as_fd()])
                        .map_err(|e| RunnerError::Channel(e.to_string()))?;
                    drop(master);
                    let started = self.try_start(run, mark.as_deref(), [slave.as_fd(); 3]);
                    started.map(|pid| Running { pid, mark: mark.clone(), _terminal: Some(slave) })
                }
                Err(error) => Err(NotStarted::errno("terminal", error)),
            },
            (Streams::Given | Streams::Terminal(_), _) => {
                return Err(RunnerError::Order("a program needs three streams or a terminal"));
            }
        };
        match started {
            Ok(running) => Ok(Some(running)),
            Err(NotStarted { act, errno }) => {
                self.tree.end();
                self.reply(&RunReply::NotStarted { act: act.to_owned(), errno })?;
                records::fence(mark.as_deref());
                Ok(None)
            }
        }
    }

    fn try_start(
        &mut self,
        run: &Run,
        mark: Option<&CStr>,
        streams: [BorrowedFd<'_>; 3],
    ) -> Result<i32, NotStarted> {
        let image = image(run, &mut self.lookup)?;
        let script = match &run.script {
            Some(text) => Some(
                kernel::memory_file(c"script", text).map_err(|e| NotStarted::io("script", &e))?,
            ),
            None => None,
        };
        // The child shares the current directory with this process, so it is set here.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        rustix::process::chdir(run.cwd.as_path()).map_err(|e| NotStarted::errno("chdir", e))?;
        let prepared = self.held.recorder.as_ref().map(|recorder| recorder.prepare(&image));
        let prepared = prepared.transpose().map_err(|e| NotStarted::io("record", &e))?;
        let domain = self.held.landlock.as_ref().map(|landlock| domain(landlock, mark));
        let under = Under { domain, recorded: self.held.recorder.as_ref().zip(prepared.as_ref()) };
        let mut failed = None;
        let mut child = || {
            failed = Some(become_program(&image, run.streams, streams, script.as_ref(), &under));
            NOT_STARTED
        };
        let stack = &mut self.stack;
        let started = self.held.victim.start(|| stack.start(&mut child));
        let pid = started.map_err(|e| NotStarted::io("fork", &e))?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        if let (Some(made), Some(recorder)) = (&prepared, &mut self.held.recorder) {
            let places = places(run, &mut self.lookup);
            recorder.begin(made, &places).map_err(|e| NotStarted::io("record", &e))?;
        }
        Ok(pid)
    }

    /// Collects what has ended. When the program itself has, ends everything it started, and only
    /// then says so.
    fn reap(&mut self, running: Option<Running>) -> Result<Option<Running>, RunnerError> {
        while self.children.read_signal().map_err(kernel("read signalfd"))?.is_some() {}
        let mut running = running;
        loop {
            let end = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) => (pid.as_raw(), End::Exit(status)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    (pid.as_raw(), End::Signal(signal as i32))
                }
                Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return Ok(running),
                Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(kernel("waitpid")(error)),
            };
            if let Some(program) = running.take_if(|program| program.pid == end.0) {
                let stragglers = self.tree.end();
                if let Some(recorder) = &mut self.held.recorder {
                    let recorded = RunReply::Recorded(Box::new(recorder.finish()));
                    self.reply(&recorded)?;
                }
                self.reply(&RunReply::Ended { end: end.1, cwd: current_directory(), stragglers })?;
                if end.1 != End::Exit(0) {
                    // The broker reads the rest of the output meanwhile.
                    records::fence(program.mark.as_deref());
                }
            }
        }
    }

    fn reply(&self, reply: &RunReply) -> Result<(), RunnerError> {
        self.channel.send(reply).map_err(|e| RunnerError::Channel(e.to_string()))
    }
}

/// The name of a program's domain. One that can not be a name is none: its records are then missed,
/// which the broker notices.
fn mark(run: &Run) -> Option<CString> {
    run.mark.as_ref().and_then(|mark| CString::new(mark.as_slice()).ok())
}

/// Where the program was when it ended; none if that is gone.
fn current_directory() -> Option<Path> {
    let path = rustix::process::getcwd(Vec::new()).ok()?;
    path.to_bytes().starts_with(b"/").then(|| Path(path.into_bytes()))
}

/// A program that could not be started: at which act, and the kernel's answer.
struct NotStarted {
    act: &'static str,
    errno: i32,
}

/// The status of a child that could not become a program; nobody looks at it.
const NOT_STARTED: i32 = 126;

impl NotStarted {
    fn errno(act: &'static str, errno: Errno) -> Self {
        Self { act, errno: errno.raw_os_error() }
    }

    fn io(act: &'static str, error: &std::io::Error) -> Self {
        Self { act, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Everything that can be prepared before the fork.
fn image(run: &Run, lookup: &mut Lookup) -> Result<Image, NotStarted> {
    let invalid = |_| NotStarted { act: "exec", errno: libc::EINVAL };
    let strings = |list: &[Vec<u8>]| -> Result<Vec<CString>, NotStarted> {
        list.iter().map(|bytes| CString::new(bytes.as_slice()).map_err(invalid)).collect()
    };
    let argv = strings(&run.argv)?;
    let Some(program) = run.argv.first().filter(|program| !program.is_empty()) else {
        return Err(NotStarted { act: "exec", errno: libc::EINVAL });
    };
    let candidates = lookup.candidates(program, &run.search);
    let candidates = candidates.into_iter().map(|path| CString::new(path).map_err(invalid));
    Ok(Image::new(candidates.collect::<Result<_, _>>()?, argv, strings(&run.environment)?))
}

/// Where the program may be, from the root on.
fn places(run: &Run, lookup: &mut Lookup) -> Vec<PathBuf> {
    let name = run.argv.first().map_or(&[][..], Vec::as_slice);
    let from = |path: Vec<u8>| run.cwd.as_path().join(Path(path).as_path());
    lookup.candidates(name, &run.search).into_iter().map(from).collect()
}

/// What a program is put under, beside what its runner is under.
struct Under<'a> {
    domain: Option<Domain<'a>>,
    recorded: Option<(&'a Recorder, &'a Prepared)>,
}

/// The child's side: nothing but system calls from here to the execution. Comes back only if it
/// failed.
fn become_program(
    image: &Image,
    kind: Streams,
    streams: [BorrowedFd<'_>; 3],
    script: Option<&OwnedFd>,
    under: &Under<'_>,
) -> NotStarted {
    if let Err(error) = set_up(kind, streams, script) {
        return NotStarted::io("set up streams", &error);
    }
    if let Some(Err(error)) = under.domain.map(restrict) {
        return NotStarted::io("landlock", &error);
    }
    if let Some(Err(error)) = under.recorded.map(|(recorder, made)| recorder.enter(made)) {
        return NotStarted::io("record", &error);
    }
    let first = if script.is_some() { 4 } else { 3 };
    if let Err(error) = kernel::close_on_exec_from(first) {
        return NotStarted::io("close descriptors", &error);
    }
    NotStarted { act: "exec", errno: image.execute() }
}

/// The ruleset of a Landlock domain, and the name under which the kernel's records know it.
type Domain<'a> = (BorrowedFd<'a>, Option<&'a CStr>);

/// What the domain of a program is made of. One whose refusals are read must itself refuse them,
/// since their records name the innermost domain that did.
fn domain<'a>(landlock: &'a Enforced, mark: Option<&'a CStr>) -> Domain<'a> {
    let ruleset = match mark {
        Some(_) => &landlock.ruleset,
        None => landlock.apart.as_ref().unwrap_or(&landlock.ruleset),
    };
    (ruleset.as_fd(), mark)
}

/// Makes the domain of one program. It has this process's name, which the program then loses by its
/// execution, before anything of its own runs that could take the name for another domain.
fn restrict((ruleset, mark): Domain<'_>) -> std::io::Result<()> {
    let Some(mark) = mark else { return kernel::landlock_restrict(ruleset, Logged::Usual) };
    rustix::thread::set_name(mark)?;
    kernel::landlock_restrict(ruleset, Logged::All)
}

/// A session, signal mask and streams of the program's own.
fn set_up(
    kind: Streams,
    streams: [BorrowedFd<'_>; 3],
    script: Option<&OwnedFd>,
) -> std::io::Result<()> {
    rustix::process::setsid()?;
    if let (Streams::Terminal(_), [terminal, ..]) = (kind, streams) {
        rustix::process::ioctl_tiocsctty(terminal)?;
    }
    SigSet::empty().thread_set_mask()?;
    // Descriptors 0 to 2 are this process's own streams and 3 is its socket to the launcher (the
    // first it ever made), so none of the four numbers set here is still needed, and whatever
    // came from outside has a higher one.
    for (number, stream) in (0..).zip(streams) {
        kernel::place_descriptor(stream, number)?;
    }
    match script {
        Some(script) => kernel::place_descriptor(script.as_fd(), SCRIPT),
        None => Ok(()),
    }
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
            streams: Streams::Given,
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
