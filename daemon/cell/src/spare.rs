//! A spare shell: a shell that was started, confined and loaded ahead of the call that needs it, and
//! waits before its own `main` for a command line, environment and streams. It then behaves as if
//! it had just been executed with them.
//!
//! While a program runs there is never a spare shell in the same PID namespace, so that no program
//! can reach one. A spare shell serves one call. Runs in the cell.

use crate::lookup::Lookup;
use nix::{
    errno::Errno as WaitErrno,
    sys::wait::{WaitStatus, waitpid},
};
use palisade_cell_setup::{
    kernel::Image,
    program::{ChildProgram, ProgramDomain},
};
use palisade_plan::cell::{PrepareShell, Run, Streams};
use palisade_workspace::memory_file;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, Stat},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, recv, sendmsg, socketpair,
    },
    process::{Pid, Signal},
};
use std::{
    ffi::{CStr, CString},
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

/// The object that makes a shell wait; `preload/spare.rs` is its source.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spare.so"));

/// The number of the object among the descriptors of a spare shell. Its socket has the one before.
const OBJECT_NUMBER: i32 = 4;

/// Most bytes of a command line and its environment, with their lengths. The same as in
/// `preload/spare.rs`.
const MOST: usize = 64 * 1024;

/// The number of arguments of a command that can use a spare shell, with its name.
const ARGUMENTS: usize = 3;

/// Most variables of a call that can use a spare shell.
const MOST_VARIABLES: usize = 256;

/// The messages of a spare shell: it waits, or has taken its command.
const WAITING: u8 = b'w';
const TAKEN: u8 = b't';

/// The status of a shell in which the object was not loaded, or can not do its work.
const UNUSABLE: i32 = 125;

/// The command of a shell in which the object was not loaded.
const PLACEHOLDER: &CStr = c"exit 125";

/// The time after which a spare shell that nobody needed is ended.
const REST: Duration = Duration::from_secs(60);

/// The time limit for a spare shell to take its command. On a busy machine it may still be loading.
pub(crate) const TAKE: Duration = Duration::from_secs(5);

/// Prefixes of variables that the dynamic linker reads when a program is executed.
const LOADER_VARIABLES: [&[u8]; 3] = [b"LD_", b"GLIBC_TUNABLES", b"MALLOC_"];

/// A shell that waits.
#[derive(Debug)]
struct SpareShell {
    pid: i32,
    socket: OwnedFd,
    prepared: PrepareShell,
    /// The shell's file when it was executed.
    file: ProgramFile,
    since: Instant,
}

/// The file that a path names, by everything on which the result of executing the path depends.
#[derive(Debug, PartialEq, Eq)]
struct ProgramFile {
    /// The last part of the path, which is the name of the process.
    name: Vec<u8>,
    /// The path without symbolic links, as `/proc/PID/exe` shows it. Rules are about places, so
    /// another link to the same file is another program.
    place: CString,
    device: u64,
    inode: u64,
    /// Changes when the file is written, or its mode or owner changes.
    changed: (i64, u64),
}

impl ProgramFile {
    fn of(path: &[u8]) -> Result<Self, Errno> {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let place =
            rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
        let stat: Stat = rustix::fs::fstat(file)?;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_vec();
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        Ok(Self { name, place, device: stat.st_dev, inode: stat.st_ino, changed })
    }
}

/// A runner's spare shell, if it has one.
#[derive(Debug)]
pub(crate) struct Spares {
    waiting: Option<SpareShell>,
    object: Option<OwnedFd>,
    usable: bool,
}

/// The result of offering a command to a spare shell.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The shell has begun, with this process id.
    By(i32),
    /// The shell is gone and has not begun; the command can be started in another process.
    ByNobody,
    /// The shell did not answer in time, and is gone. It is not known how far it came, so the command
    /// must not be started again.
    Unknown,
}

/// Everything that a process needs to become a spare shell, made before it is started.
#[derive(Debug)]
pub(crate) struct SpareImage {
    image: Image,
    null: OwnedFd,
    theirs: OwnedFd,
    object: OwnedFd,
    shell: (OwnedFd, PrepareShell, ProgramFile),
}

/// A command that was sent to a spare shell.
#[derive(Debug)]
pub(crate) struct Offer(SpareShell);

impl Spares {
    /// Makes the spares of a runner. If they are not usable, no shell is ever prepared.
    pub(crate) const fn new(usable: bool) -> Self {
        Self { waiting: None, object: None, usable }
    }

    /// Returns `true` if, as far as is known, spare shells can be used here.
    pub(crate) const fn are_usable(&self) -> bool {
        self.usable
    }

    /// Prepares to start a spare shell; `None` if there is one already, or can not be one.
    pub(crate) fn image(
        &mut self,
        prepared: PrepareShell,
        lookup: &mut Lookup,
    ) -> Option<SpareImage> {
        if !self.usable || self.waiting.is_some() {
            return None;
        }
        let image = self.try_image(prepared, lookup).ok();
        self.usable = image.is_some();
        image
    }

    fn try_image(&mut self, prepared: PrepareShell, lookup: &mut Lookup) -> io::Result<SpareImage> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = lookup.candidates(&prepared.program, &prepared.search);
        let path = path.into_iter().next().ok_or_else(missing)?;
        let file = ProgramFile::of(&path)?;
        let object = match &self.object {
            Some(object) => object,
            None => self.object.insert(memory_file::make(c"spare", OBJECT)?),
        };
        let object = rustix::io::fcntl_dupfd_cloexec(object, OBJECT_NUMBER)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
        let argv =
            vec![CString::new(prepared.program.clone())?, c"-c".to_owned(), PLACEHOLDER.to_owned()];
        let preload = CString::new(format!("LD_PRELOAD=/proc/self/fd/{OBJECT_NUMBER}"))?;
        let mut environment = vec![preload];
        // Space for the call's own variables.
        environment.resize(MOST_VARIABLES, c"_=".to_owned());
        let image = Image::new(vec![CString::new(path)?], argv, environment);
        Ok(SpareImage { image, null, theirs, object, shell: (ours, prepared, file) })
    }

    /// Keeps a shell that was started. `None` if it was not: perhaps there are too many processes
    /// just now, and the call will say so if it is so then.
    pub(crate) fn keep(&mut self, started: Option<i32>, image: SpareImage) {
        let (socket, prepared, file) = image.shell;
        let since = Instant::now();
        self.waiting = started.map(|pid| SpareShell { pid, socket, prepared, file, since });
    }

    /// Returns how long the runner may wait before it looks again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let shell = self.waiting.as_ref()?;
        Some(REST.saturating_sub(shell.since.elapsed()))
    }

    /// Ends a shell that nobody needed for a while.
    pub(crate) fn end_idle(&mut self) {
        if self.waiting.as_ref().is_some_and(|shell| shell.since.elapsed() >= REST) {
            self.end();
        }
    }

    /// Ends the shell that waits, if there is one, and waits until it is gone.
    pub(crate) fn end(&mut self) {
        if let Some(shell) = self.waiting.take() {
            let status = shell.kill();
            self.learn(status);
        }
    }

    /// Notes that a process has ended, if it is the shell that waits.
    pub(crate) fn ended(&mut self, pid: i32, exit: Option<i32>) {
        if self.waiting.take_if(|shell| shell.pid == pid).is_some() {
            self.learn(exit);
        }
    }

    fn learn(&mut self, exit: Option<i32>) {
        if exit == Some(UNUSABLE) {
            self.usable = false;
        }
    }

    /// Offers a command to the shell that waits. `None` if it can not serve this command; it is
    /// gone then.
    pub(crate) fn offer(
        &mut self,
        run: &Run,
        streams: &[OwnedFd; 3],
        lookup: &mut Lookup,
    ) -> Option<Offer> {
        let shell = self.waiting.take()?;
        let message = message(&shell, run, lookup);
        let sent = message.is_some_and(|message| send(&shell.socket, &message, streams).is_ok());
        if sent {
            return Some(Offer(shell));
        }
        let status = shell.kill();
        self.learn(status);
        None
    }

    /// Waits until the shell has taken the command that it was offered.
    pub(crate) fn taken(&mut self, Offer(shell): Offer, patience: Duration) -> Taken {
        match shell.wait(patience) {
            Answer::Taken => Taken::By(shell.pid),
            Answer::Gone | Answer::Late => {
                let status = shell.kill();
                self.learn(status);
                // It may have taken its command at the very last moment.
                match shell.wait(Duration::ZERO) {
                    Answer::Taken => Taken::Unknown,
                    Answer::Gone | Answer::Late => Taken::ByNobody,
                }
            }
        }
    }
}

/// A shell's answer to an offer.
enum Answer {
    Taken,
    Gone,
    Late,
}

impl SpareShell {
    /// Kills the shell and waits until it is gone; returns its status if it had exited by itself.
    fn kill(&self) -> Option<i32> {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // A process that has ended needs no signal.
            rustix::process::kill_process(pid, Signal::KILL).unwrap_or_default();
        }
        loop {
            match waitpid(nix::unistd::Pid::from_raw(self.pid), None) {
                Ok(WaitStatus::Exited(_, status)) => return Some(status),
                Ok(WaitStatus::Signaled(..)) => return None,
                Ok(_) | Err(WaitErrno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn wait(&self, patience: Duration) -> Answer {
        let until = Instant::now() + patience;
        loop {
            let mut byte = [0];
            match recv(&self.socket, &mut byte, RecvFlags::DONTWAIT) {
                Ok((1, _)) if byte == [TAKEN] => return Answer::Taken,
                Ok((1, _)) if byte == [WAITING] => continue,
                Ok(_) => return Answer::Gone,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Answer::Gone,
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            let left = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Answer::Late,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return Answer::Gone,
            }
        }
    }
}

/// Returns the message for a shell: two lengths, the arguments, the environment. `None` if the shell
/// can not serve the command.
fn message(shell: &SpareShell, run: &Run, lookup: &mut Lookup) -> Option<Vec<u8>> {
    // The array that the shell's `main` gets has as many places, and the shell reads it afterwards.
    let fits = run.argv.len() == ARGUMENTS;
    let is_same = fits && run.mark == shell.prepared.mark;
    let is_plain = run.script.is_none() && matches!(run.streams, Streams::Pipes(_));
    let is_loaded =
        |variable: &Vec<u8>| LOADER_VARIABLES.iter().any(|prefix| variable.starts_with(prefix));
    let variables = &run.environment;
    if !is_same || !is_plain || variables.len() >= MOST_VARIABLES || variables.iter().any(is_loaded)
    {
        return None;
    }
    let path = lookup.candidates(run.argv.first()?, &run.search).into_iter().next()?;
    if ProgramFile::of(&path).ok()? != shell.file {
        return None;
    }
    let strings = |list: &[Vec<u8>]| -> Option<Vec<u8>> {
        let mut joined = Vec::new();
        for string in list {
            if string.contains(&0) {
                return None;
            }
            joined.extend_from_slice(string);
            joined.push(0);
        }
        Some(joined)
    };
    let (arguments, environment) = (strings(&run.argv)?, strings(variables)?);
    let lengths = [arguments.len(), environment.len()].map(u32::try_from);
    let [Ok(argument_length), Ok(environment_length)] = lengths else { return None };
    let mut message = Vec::with_capacity(8 + arguments.len() + environment.len());
    message.extend_from_slice(&argument_length.to_ne_bytes());
    message.extend_from_slice(&environment_length.to_ne_bytes());
    message.extend_from_slice(&arguments);
    message.extend_from_slice(&environment);
    (message.len() <= MOST).then_some(message)
}

fn send(socket: &OwnedFd, message: &[u8], streams: &[OwnedFd; 3]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let streams = streams.each_ref().map(|stream| stream.as_fd());
    if !control.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(Errno::INVAL);
    }
    // It never blocks: the socket has held one byte so far, and a message fits.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(message)], &mut control, flags).map(drop)
}

impl SpareImage {
    /// Returns the program that a child becomes.
    pub(crate) fn program<'a>(&'a self, domain: Option<ProgramDomain<'a>>) -> ChildProgram<'a> {
        ChildProgram {
            image: &self.image,
            streams: [self.null.as_fd(); 3],
            has_terminal: false,
            more: [Some(self.theirs.as_fd()), Some(self.object.as_fd())],
            domain,
            recording: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_cell_setup::kernel::ChildStack;
    use palisade_plan::cell::Stdin;
    use std::{fs, io::Read as _, os::unix::fs::PermissionsExt as _};

    fn prepared(program: &str, search: &str) -> PrepareShell {
        PrepareShell { program: program.into(), search: search.into(), mark: None }
    }

    fn start(spares: &mut Spares, shell: PrepareShell) {
        let image = spares.image(shell, &mut Lookup::default()).unwrap();
        let started = image.program(None).start(&mut ChildStack::new().unwrap());
        spares.keep(started.ok(), image);
    }

    fn line(program: &str, search: &str, line: &str) -> Run {
        Run {
            argv: [program, "-c", line].map(|word| word.as_bytes().to_vec()).to_vec(),
            environment: vec![b"A=first".to_vec(), b"B=second".to_vec()],
            search: search.into(),
            cwd: "/".into(),
            script: None,
            streams: Streams::Pipes(Stdin::Null),
            mark: None,
        }
    }

    fn streams() -> ([OwnedFd; 3], fs::File) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let null = || fs::File::open("/dev/null").unwrap().into();
        ([null(), write, null()], read.into())
    }

    /// Offers a line, and returns its output and how it was taken.
    fn offered(spares: &mut Spares, run: &Run, patience: Duration) -> Option<(Taken, String)> {
        let (streams, mut output) = streams();
        let offer = spares.offer(run, &streams, &mut Lookup::default())?;
        let taken = spares.taken(offer, patience);
        drop(streams);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        if let Taken::By(pid) = taken {
            waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
        }
        Some((taken, text))
    }

    const LONG: Duration = Duration::from_secs(300);
    const BIN: &str = "/usr/bin:/bin";

    #[test]
    fn a_shell_takes_its_line_environment_and_streams() {
        let mut spares = Spares::new(true);
        start(&mut spares, prepared("bash", BIN));
        let run = line(
            "bash",
            BIN,
            "echo $A $B $0; tr '\\0' ' ' < /proc/$$/cmdline; ls /proc/$$/fd; true",
        );
        let (taken, output) = offered(&mut spares, &run, LONG).unwrap();
        assert!(matches!(taken, Taken::By(_)), "{taken:?}");
        let shown = "first second bash\nbash -c echo $A $B $0; tr '\\0' ' ' < /proc/$$/cmdline; \
                     ls /proc/$$/fd; true 0\n1\n2\n";
        assert_eq!(output, shown);
        assert!(spares.waiting.is_none() && spares.are_usable());
    }

    #[test]
    fn a_line_that_does_not_fit_ends_the_shell() {
        let fitting = line("bash", BIN, "true");
        let others = [
            Run { mark: Some(b"mark".to_vec()), ..fitting.clone() },
            Run { search: b"/nowhere".to_vec(), ..fitting.clone() },
            line("sh", BIN, "true"),
            line("/proc/self/exe", BIN, "true"),
            Run { argv: vec![b"bash".to_vec(), b"-c".to_vec()], ..fitting.clone() },
            Run { argv: [&fitting.argv[..], &[b"more".to_vec()]].concat(), ..fitting.clone() },
            Run { script: Some(b"true".to_vec()), ..fitting.clone() },
            Run { environment: vec![b"LD_PRELOAD=x".to_vec()], ..fitting.clone() },
            Run { environment: vec![b"A=1".to_vec(); MOST_VARIABLES], ..fitting.clone() },
            Run { environment: vec![vec![b'x'; MOST]], ..fitting.clone() },
        ];
        for run in others {
            let mut spares = Spares::new(true);
            start(&mut spares, prepared("bash", BIN));
            let pid = spares.waiting.as_ref().map(|shell| shell.pid).unwrap();
            assert!(offered(&mut spares, &run, LONG).is_none(), "{run:?}");
            let gone = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
            assert_eq!(gone, Err(nix::errno::Errno::ESRCH));
            assert!(spares.are_usable());
        }
    }

    #[test]
    fn every_way_to_the_same_file_is_the_same_shell() {
        let directory = tempfile::tempdir().unwrap();
        let [links, copies, hard] = ["links", "copies", "hard"].map(|name| {
            let at = directory.path().join(name);
            fs::create_dir(&at).unwrap();
            at
        });
        let original = copies.join("bash");
        fs::copy("/bin/bash", &original).unwrap();
        std::os::unix::fs::symlink(&original, links.join("bash")).unwrap();
        std::os::unix::fs::symlink(&original, links.join("rbash")).unwrap();
        fs::hard_link(&original, hard.join("bash")).unwrap();
        let [links, copies, hard] = [links, copies, hard].map(|at| at.to_str().unwrap().to_owned());
        let cases = [
            ("bash", links.as_str(), true),
            (&format!("{copies}/bash"), "", true),
            (&format!("{links}/bash"), "", true),
            (&format!("{links}/../links/bash"), "", true),
            // It would be another kind of shell.
            ("rbash", &links, false),
            // A rule about its place may not allow it.
            ("bash", &hard, false),
            ("bash", BIN, false),
        ];
        for (program, search, expected) in cases {
            let mut spares = Spares::new(true);
            start(&mut spares, prepared("bash", &copies));
            let run = line(program, search, "echo $0; true");
            let taken = offered(&mut spares, &run, LONG).map(|(_, output)| output);
            assert_eq!(taken, expected.then(|| format!("{program}\n")), "{program} in {search}");
            spares.end();
        }
    }

    #[test]
    fn a_shell_that_was_killed_or_stopped_has_taken_nothing() {
        for signal in [Signal::KILL, Signal::STOP] {
            let mut spares = Spares::new(true);
            start(&mut spares, prepared("bash", BIN));
            let pid = spares.waiting.as_ref().map(|shell| shell.pid).unwrap();
            let pid = Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            let patience = Duration::from_millis(10);
            let run = line("bash", BIN, "echo ran");
            match offered(&mut spares, &run, patience) {
                Some((taken, output)) => {
                    assert!(matches!(taken, Taken::ByNobody), "{signal:?}: {taken:?}");
                    assert_eq!(output, "");
                }
                // It was gone before it could be sent anything.
                None => assert_eq!(signal, Signal::KILL),
            }
            assert!(spares.waiting.is_none() && spares.are_usable());
        }
    }

    #[test]
    fn a_shell_that_can_not_wait_is_not_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("bash");
        // The object is loaded, but into a program with other arguments.
        fs::write(&script, "#!/bin/sh\nexit 125\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let search = directory.path().to_str().unwrap();
        let mut spares = Spares::new(true);
        start(&mut spares, prepared("bash", search));
        let run = line("bash", search, "echo ran");
        if let Some((taken, output)) = offered(&mut spares, &run, LONG) {
            assert!(matches!(taken, Taken::ByNobody), "{taken:?}");
            assert_eq!(output, "");
        }
        assert!(!spares.are_usable());
        assert!(spares.image(prepared("bash", search), &mut Lookup::default()).is_none());
    }

    #[test]
    fn a_shell_whose_file_was_replaced_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let shell = directory.path().join("bash");
        fs::copy("/bin/bash", &shell).unwrap();
        let search = directory.path().to_str().unwrap();
        let mut spares = Spares::new(true);
        start(&mut spares, prepared("bash", search));
        let newer = directory.path().join("newer");
        fs::copy("/bin/bash", &newer).unwrap();
        fs::rename(newer, &shell).unwrap();
        assert!(offered(&mut spares, &line("bash", search, "echo ran"), LONG).is_none());
    }
}
