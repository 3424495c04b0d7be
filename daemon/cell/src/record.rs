//! Records which paths and addresses the programs of a recording session use. A second filter makes
//! the kernel notify the runner of each such system call before it continues through every other
//! layer. It only records and decides nothing: a program can change the arguments after they were
//! read. Runs in the cell.

mod calls;
mod notes;

use calls::Shape;
use notes::Notes;
use palisade_cell_setup::{
    kernel::{self, FilterProgram, Image, Notification},
    program::ProgramRecording,
    recording::RecordingRules,
};
use palisade_plan::{
    Path,
    record::{Recorded, ResourceUsage, Right},
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::{
    fs::File,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    path::PathBuf,
};

/// The maximum length of a path that is read from a program's memory.
const PATH_MAX: usize = 4096;

/// The recorder of a runner.
#[derive(Debug)]
pub(crate) struct Recorder {
    rules: RecordingRules,
    listener: Option<OwnedFd>,
    notes: Notes,
}

/// The resources that a child needs to be recorded, made before the fork.
#[derive(Debug)]
pub(crate) struct RecordingSetup {
    notifying: FilterProgram,
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Recorder {
    /// Makes a recorder that has recorded nothing.
    pub(crate) fn new(rules: RecordingRules) -> Self {
        let notes = Notes::new(&rules.own, &rules.bound);
        Self { rules, listener: None, notes }
    }

    /// Makes the resources for the child that will execute `image`.
    pub(crate) fn prepare(&self, image: &Image) -> io::Result<RecordingSetup> {
        let notifying = FilterProgram::new(&calls::program(image.address()));
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(RecordingSetup { notifying, ours, theirs })
    }

    /// Returns the filters of the child.
    pub(crate) fn filters<'a>(&'a self, prepared: &'a RecordingSetup) -> ProgramRecording<'a> {
        let RecordingSetup { notifying, theirs, .. } = prepared;
        ProgramRecording { notifying, filter: &self.rules.filter, runner: theirs.as_fd() }
    }

    /// Receives, in the runner, the listener of a program that was started.
    pub(crate) fn begin(
        &mut self,
        prepared: &RecordingSetup,
        candidates: &[PathBuf],
    ) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut body = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&prepared.ours, &mut body, &mut control, flags)?;
        let given = control.drain().find_map(|message| {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message { fds.next() } else { None }
        });
        self.notes = Notes::new(&self.rules.own, &self.rules.bound);
        self.listener = given;
        if let Some(program) = candidates.iter().find(|path| path.is_file()) {
            self.notes.executed(program);
        }
        match self.listener {
            Some(_) => Ok(()),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Returns the listener to poll while a program runs.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|fd| fd.as_fd())
    }

    /// Records the system call that a program is about to make, and lets it continue.
    pub(crate) fn handle_notification(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        match kernel::notification(listener.as_fd()) {
            Ok(asked) => {
                self.note(&asked);
                match kernel::continue_syscall(listener.as_fd(), asked.id) {
                    // An error means that the program was killed meanwhile.
                    Ok(()) | Err(_) => self.listener = Some(listener),
                }
            }
            // The program was killed before the notification was read.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {
                self.listener = Some(listener);
            }
            // No process is left under the filter.
            Err(_) => {}
        }
    }

    /// Returns the record of a program that has ended.
    pub(crate) fn finish(&mut self) -> Recorded {
        self.listener = None;
        let mut recorded =
            std::mem::replace(&mut self.notes, Notes::new(&self.rules.own, &self.rules.bound))
                .finish();
        recorded.used = ResourceUsage { processes: recorded.used.processes, ..used() };
        recorded
    }

    fn note(&mut self, asked: &Notification) {
        for shape in calls::shapes(asked.number) {
            match *shape {
                Shape::Address { right } => self.address(asked, right),
                Shape::Process if calls::attaches(argument(asked, 0)) => {
                    self.notes.traced(argument(asked, 1));
                }
                Shape::Process => {}
                Shape::Path { right, directory, path, follow } => {
                    let Some(text) = text(asked, argument(asked, path)) else { continue };
                    let directory = directory.map(|d| argument(asked, d));
                    let Some(path) = resolve(asked, directory, &text) else { continue };
                    let right = match right {
                        calls::PathUse::Right(right) => right,
                        calls::PathUse::Flags(place) => calls::opened(argument(asked, place)),
                        calls::PathUse::FlagsAt(place) => match word(asked, argument(asked, place))
                        {
                            Some(flags) => calls::opened(flags),
                            None => continue,
                        },
                        calls::PathUse::Directory if path.symlink_metadata().is_ok() => Right::Look,
                        calls::PathUse::Directory => Right::Write,
                    };
                    self.notes.used(right, &path, follow.of(asked.arguments));
                }
            }
        }
    }

    fn address(&mut self, asked: &Notification, right: Right) {
        let length = usize::try_from(argument(asked, 2)).unwrap_or(0).min(128);
        let mut bytes = vec![0; length];
        let Ok(memory) = memory(asked) else { return };
        if memory.read_exact_at(&mut bytes, argument(asked, 1)).is_ok()
            && let Some(address) = calls::address(&bytes)
        {
            self.notes.addressed(right, address);
        }
    }
}

/// Returns the absolute path that a call means; `None` for a descriptor of a pipe or socket, which
/// has no path.
fn resolve(asked: &Notification, directory: Option<u64>, text: &[u8]) -> Option<PathBuf> {
    let pid = asked.pid;
    let absolute = text.starts_with(b"/");
    // A directory descriptor is the low half of its argument.
    let number = directory.map_or(libc::AT_FDCWD, |number| (number as u32).cast_signed());
    let base = match (absolute, number) {
        (true, _) => PathBuf::from("/"),
        (false, libc::AT_FDCWD) => link(format!("/proc/{pid}/cwd")),
        (false, number) => link(format!("/proc/{pid}/fd/{number}")),
    };
    if !base.is_absolute() {
        return None;
    }
    Some(if text.is_empty() { base } else { base.join(Path(text.to_vec()).as_path()) })
}

fn argument(asked: &Notification, place: usize) -> u64 {
    asked.arguments.get(place).copied().unwrap_or(0)
}

fn memory(asked: &Notification) -> io::Result<File> {
    File::open(format!("/proc/{}/mem", asked.pid))
}

/// Reads a string from a program's memory. `None` if it can not be read or has no end.
fn text(asked: &Notification, at: u64) -> Option<Vec<u8>> {
    if at == 0 {
        return Some(Vec::new());
    }
    let memory = memory(asked).ok()?;
    for length in [256, PATH_MAX] {
        let mut bytes = vec![0; length];
        let read = memory.read_at(&mut bytes, at).ok()?;
        if let Some(end) = bytes.iter().take(read).position(|byte| *byte == 0) {
            bytes.truncate(end);
            return Some(bytes);
        }
    }
    None
}

fn word(asked: &Notification, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(asked).ok()?.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Returns the target of a link in `/proc`; an empty path if it can not be read.
fn link(path: String) -> PathBuf {
    std::fs::read_link(path).unwrap_or_default()
}

/// Returns the resources used by all children that this process has waited for.
fn used() -> ResourceUsage {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return ResourceUsage::default() };
    let ms = |time: nix::sys::time::TimeVal| {
        time.tv_sec().unsigned_abs() * 1000 + time.tv_usec().unsigned_abs() / 1000
    };
    ResourceUsage {
        memory_bytes: usage.max_rss().unsigned_abs() * 1024,
        processes: 0,
        cpu_ms: ms(usage.user_time()) + ms(usage.system_time()),
    }
}
