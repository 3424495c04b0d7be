//! Starts a program in a child process, under the restrictions of its call. Until the execution the
//! child makes system calls only. Runs in the cell, after privilege is gone.
#![allow(unsafe_code)]

use crate::kernel::{self, ChildStack, DenialLogging, FilterProgram, Image};
use nix::sys::signal::SigSet;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::{
    ffi::CStr,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd},
};

/// The exit status of a child that could not execute its program; nobody reads it.
const NOT_STARTED: i32 = 126;

/// The act at which a program's start failed, and the kernel's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartFailure {
    /// The act.
    pub act: &'static str,
    /// The error's number.
    pub errno: i32,
}

impl StartFailure {
    /// Returns a closure for `map_err` that wraps the error of a failed act.
    pub fn at<E: Into<io::Error>>(act: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self { act, errno: error.into().raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// A Landlock domain for one program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramDomain<'a> {
    /// The ruleset.
    pub ruleset: BorrowedFd<'a>,
    /// The name of the domain in the kernel's records; `None` if its denials are not read.
    pub name: Option<&'a CStr>,
}

impl ProgramDomain<'_> {
    /// Enters the domain. The kernel names it after this process. The execution then changes the
    /// process name, before any code of the program could use it for another domain.
    fn enter(self) -> io::Result<()> {
        let logged = match self.name {
            None => DenialLogging::Usual,
            Some(name) => {
                rustix::thread::set_name(name)?;
                DenialLogging::All
            }
        };
        kernel::landlock_restrict(self.ruleset, logged)
    }
}

/// The filters of a program whose system calls are recorded.
#[derive(Debug, Clone, Copy)]
pub struct ProgramRecording<'a> {
    /// The filter that notifies its listener of each system call to record.
    pub notifying: &'a FilterProgram,
    /// The session's complete filter.
    pub filter: &'a FilterProgram,
    /// The socket to the runner, which gets the listener.
    pub runner: BorrowedFd<'a>,
}

impl ProgramRecording<'_> {
    /// Installs both filters, and sends the listener to the runner.
    fn begin(&self) -> io::Result<()> {
        let listener = self.notifying.install_listening()?;
        let fds = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let body = [IoSlice::new(b"l")];
        rustix::net::sendmsg(self.runner, &body, &mut control, SendFlags::NOSIGNAL)?;
        self.filter.install()
    }
}

/// A program to start, with everything that its process needs, made before that process exists.
#[derive(Debug)]
pub struct ChildProgram<'a> {
    /// The program.
    pub image: &'a Image,
    /// Its standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// True if the standard input becomes its controlling terminal.
    pub has_terminal: bool,
    /// Its descriptors 3 and 4.
    pub more: [Option<BorrowedFd<'a>>; 2],
    /// Its Landlock domain.
    pub domain: Option<ProgramDomain<'a>>,
    /// The filters that record its system calls.
    pub recording: Option<ProgramRecording<'a>>,
}

impl ChildProgram<'_> {
    /// Starts the program in a child, and returns the child's process id.
    ///
    /// # Errors
    /// The act that failed. The child has ended then, and can be waited for.
    pub fn start(&self, stack: &mut ChildStack) -> Result<i32, StartFailure> {
        let mut failed = None;
        let mut act = || {
            failed = Some(self.execute());
            NOT_STARTED
        };
        // SAFETY: `execute` makes system calls only, so it needs little of the stack. The child
        // never returns to code that owns descriptors.
        let started = unsafe { stack.start(&mut act) };
        let pid = started.map_err(StartFailure::at("fork"))?;
        failed.map_or(Ok(pid), Err)
    }

    /// Turns the child into the program. Returns only on failure.
    fn execute(&self) -> StartFailure {
        match self.prepare() {
            Ok(()) => StartFailure { act: "exec", errno: self.image.execute() },
            Err(failure) => failure,
        }
    }

    fn prepare(&self) -> Result<(), StartFailure> {
        self.take_streams().map_err(StartFailure::at("set up streams"))?;
        if let Some(domain) = self.domain {
            domain.enter().map_err(StartFailure::at("landlock"))?;
        }
        if let Some(recording) = self.recording {
            recording.begin().map_err(StartFailure::at("record"))?;
        }
        let [third, fourth] = self.more;
        if let Some(fd) = fourth {
            // Not earlier, because the ruleset may have this number.
            place(fd, 4).map_err(StartFailure::at("set up streams"))?;
        }
        let first_unused = match (third, fourth) {
            (_, Some(_)) => 5,
            (Some(_), None) => 4,
            (None, None) => 3,
        };
        kernel::close_on_exec_from(first_unused).map_err(StartFailure::at("close descriptors"))
    }

    /// Gives the program its own session, signal mask, streams and descriptor 3.
    fn take_streams(&self) -> io::Result<()> {
        rustix::process::setsid()?;
        if self.has_terminal {
            rustix::process::ioctl_tiocsctty(self.streams[0])?;
        }
        SigSet::empty().thread_set_mask()?;
        // Descriptors 0 to 2 are this process's own streams and 3 is its socket to the launcher
        // (the first it ever made). None of these four is needed here any more, and every
        // descriptor received from outside has a higher number.
        for (number, fd) in (0..).zip(self.streams.into_iter().chain(self.more[0])) {
            place(fd, number)?;
        }
        Ok(())
    }
}

fn place(fd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: this runs in the child, which has descriptors of its own and drops none of the values
    // that own them before it executes or ends.
    unsafe { kernel::place_descriptor(fd, number) }
}
