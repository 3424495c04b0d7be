//! System calls that no safe wrapper offers. Each `unsafe` block says why it is sound. A function that
//! is sound only in some callers is `unsafe` itself; `program.rs` and `descriptors.rs` call those.
//! Runs in the cell.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

/// Program, arguments and environment, laid out before a fork so that nothing allocates after it.
#[derive(Debug)]
pub struct Image {
    candidates: Vec<CString>,
    // The pointer arrays below point into these; they are never changed after `new`.
    _strings: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Image {
    /// Lays out an image. `candidates` are the paths to try, in order.
    #[must_use]
    pub fn new(candidates: Vec<CString>, argv: Vec<CString>, environment: Vec<CString>) -> Self {
        // A CString's text is on the heap, so moving the CString leaves the pointer valid.
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        let (argv_pointers, envp) = (pointers(&argv), pointers(&environment));
        let strings = argv.into_iter().chain(environment).collect();
        Self { candidates, _strings: strings, argv: argv_pointers, envp }
    }

    /// Returns the address of the environment array. It identifies this image's own `execve` among
    /// others.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.envp.as_ptr().expose_provenance() as u64
    }

    /// Executes the first candidate that can be executed. Returns only on failure, with the most
    /// informative errno: `EACCES` of any candidate, otherwise `ENOENT`.
    #[must_use]
    pub fn execute(&self) -> i32 {
        let mut told = libc::ENOENT;
        for path in &self.candidates {
            // SAFETY: `path` is a C string; `argv` and `envp` are null-terminated arrays of
            // pointers into `_strings`, which lives as long as `self` and is never changed.
            unsafe { libc::execve(path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => told = libc::EACCES,
                other => return other,
            }
        }
        told
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The size of the stack on which a child runs until it executes a program. Sixteen times the need.
const CHILD_STACK: usize = 64 * 1024;

/// The size of the page below the stack that nobody can touch. No page is larger.
const GUARD: usize = 64 * 1024;

/// A stack for children, one at a time.
#[derive(Debug)]
pub struct ChildStack(ptr::NonNull<libc::c_void>);

impl ChildStack {
    /// Allocates a stack.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), GUARD + CHILD_STACK, libc::PROT_NONE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self(ptr::NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?);
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        let bottom = base.wrapping_byte_add(GUARD);
        // SAFETY: this is the upper part of the mapping just made, which nobody else knows.
        let opened = unsafe { libc::mprotect(bottom, CHILD_STACK, usable) };
        check(opened.into())?;
        Ok(stack)
    }

    /// Returns the address above the stack.
    const fn top(&self) -> *mut libc::c_void {
        self.0.as_ptr().wrapping_byte_add(GUARD + CHILD_STACK)
    }

    /// Starts a child that runs `act`, waits until it has executed a program or ended, and returns
    /// its process id.
    ///
    /// The child shares this process's current directory permanently. When the program changes it,
    /// this process's changes too, so that the program's last directory is known afterwards. Until
    /// the execution the child also shares this process's memory, so nothing is copied and `act`
    /// can report a failure there.
    ///
    /// # Safety
    /// `act` does nothing but system calls. It neither allocates nor takes a lock, because another
    /// thread may hold one, and it drops no value that owns a descriptor: the child's descriptors
    /// are its own, and those values are shared.
    ///
    /// # Errors
    /// The kernel's error (`EAGAIN` at the limit of processes).
    pub(crate) unsafe fn start<F: FnMut() -> i32>(&mut self, act: &mut F) -> io::Result<i32> {
        // SAFETY: as the caller promises, and the child needs little of the stack for that.
        unsafe { self.clone(libc::CLONE_FS | libc::SIGCHLD, act) }
    }

    /// Runs `act` in a child, and waits until it has ended. The child shares this process's memory
    /// and descriptors, so that `act` may do whatever a function may. An identity, a namespace or a
    /// current directory that it takes on stays its own.
    ///
    /// # Errors
    /// The kernel's error (`EINVAL` if this process has more than one thread), or the status of a
    /// child that did not exit with 0.
    pub(crate) fn run_apart<F: FnMut()>(&mut self, act: &mut F) -> io::Result<()> {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        // It changes nothing, and fails if there is another thread, which would run beside the
        // child.
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_THREAD)?;
        let mut child = || {
            act();
            0
        };
        // SAFETY: the child shares memory and descriptors with this process, whose only thread waits
        // for it. So it may do what that thread may.
        let pid = unsafe { self.clone(libc::CLONE_FILES, &mut child) }?;
        // Its end is no signal: whoever started this process may have SIGCHLD ignored, and the
        // kernel would throw the status away.
        let ended = waitpid(nix::unistd::Pid::from_raw(pid), Some(WaitPidFlag::__WALL))?;
        if matches!(ended, WaitStatus::Exited(_, 0)) {
            return Ok(());
        }
        Err(io::Error::other(format!("the child ended: {ended:?}")))
    }

    /// Starts a child that shares this process's memory, and whatever the flags in `more` name, which
    /// has the signal of its end. Waits until it has executed a program or ended.
    ///
    /// # Safety
    /// `act` can run in the child beside every other thread of this process, without descriptors in
    /// common unless `more` has `CLONE_FILES`.
    unsafe fn clone<F: FnMut() -> i32>(
        &mut self,
        more: libc::c_int,
        act: &mut F,
    ) -> io::Result<i32> {
        extern "C" fn run<F: FnMut() -> i32>(act: *mut libc::c_void) -> libc::c_int {
            // SAFETY: `clone` passes a pointer to the `F` that it borrows until the child has
            // executed or ended, and does not touch it meanwhile.
            let act = unsafe { &mut *act.cast::<F>() };
            act()
        }
        let flags = more | libc::CLONE_VM | libc::CLONE_VFORK;
        let top = self.top();
        // SAFETY: the child runs on a stack of its own, aligned to a page, that nobody else uses
        // while it does: CLONE_VFORK holds this thread until the child has executed or ended. An
        // overflow meets the guard page. A panic can not leave `run`: it is `extern "C"`, and would
        // abort.
        let pid = unsafe { libc::clone(run::<F>, top.cast(), flags, ptr::from_mut(act).cast()) };
        check(pid.into()).map(|_| pid)
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no child uses it any more.
        unsafe { libc::munmap(self.0.as_ptr(), GUARD + CHILD_STACK) };
    }
}

/// Ends this process at once, without running destructors or exit handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit touches no memory of this process.
    unsafe { libc::_exit(status) }
}

/// Makes `number` refer to the same open file as `fd`, and inheritable across an execution.
///
/// # Safety
/// No value that owns `number` is used or dropped afterwards.
///
/// # Errors
/// The kernel's error.
pub(crate) unsafe fn place_descriptor(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        // SAFETY: F_SETFD takes an integer and touches no memory.
        return check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: dup2 touches no memory, and the caller promises that nobody owns `number` any more.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }.into()).map(drop)
}

/// Marks every descriptor from `first` on to be closed at the next execution.
///
/// # Errors
/// The kernel's error.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC nothing is closed now, so no owner is invalidated.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check(result).map(drop)
}

/// Closes every open descriptor that is not in `keep`.
///
/// # Safety
/// `keep` has every descriptor that a live value owns.
///
/// # Errors
/// The kernel's error.
pub(crate) unsafe fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first = 0u32;
    for last in keep.into_iter().map(Some).chain([None]) {
        let end = last.map_or(u32::MAX, |fd| fd.wrapping_sub(1));
        if last != Some(0) && first <= end {
            // SAFETY: nobody owns these descriptors, as the caller promises. They were inherited.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, end, 0) })?;
        }
        first = last.map_or(u32::MAX, |fd| fd + 1);
    }
    Ok(())
}

/// Resets every signal to its default disposition. This includes the signals that the C library
/// reserves and those that a parent left ignored.
pub fn default_signals() {
    // The kernel's own layout: handler, flags, restorer, mask. All zero is the default disposition.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads four words and writes nothing; no handler is installed that
        // could dangle. SIGKILL and SIGSTOP are refused, which is what is wanted.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
}

/// Ignores `SIGXFSZ`, so that a write over the file size limit fails with `EFBIG` instead of
/// killing this process. Not for a process that starts programs, because they would inherit this.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is not a function pointer that could dangle.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Brings up the loopback interface of the current network namespace.
///
/// # Errors
/// The kernel's error.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: socket touches no memory.
    let fd = check(
        unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }.into(),
    )?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
    // SAFETY: `fd` was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = from.cast_signed();
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags =
        i16::try_from(flags).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is, and keeps no pointer to it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}

/// Sets attributes on a mount, and with `recursive` on all mounts below it. It also makes them
/// private: a copy shares mount events with its original where a service's mounts are shared, and
/// later mounts on it must not show there.
///
/// # Errors
/// The kernel's error.
pub fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    recursive: Recursive,
) -> io::Result<()> {
    let propagation = libc::MS_PRIVATE;
    let attr = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation, userns_fd: 0 };
    set_attributes(mount, attr, recursive)
}

/// The mount attribute that maps file owners by a user namespace. `linux/mount.h` defines it, libc
/// does not.
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Sets attributes on a mount like [`set_mount_attributes`], and maps the owners of its files by
/// the user namespace `users`.
///
/// # Errors
/// The kernel's error; `EINVAL` if the file system does not support mapped mounts.
pub fn map_mount(
    mount: BorrowedFd<'_>,
    attributes: u64,
    users: BorrowedFd<'_>,
    recursive: Recursive,
) -> io::Result<()> {
    let userns_fd = u64::try_from(users.as_raw_fd()).map_err(io::Error::other)?;
    let attr_set = attributes | MOUNT_ATTR_IDMAP;
    let attr = libc::mount_attr { attr_set, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd };
    set_attributes(mount, attr, recursive)
}

fn set_attributes(
    mount: BorrowedFd<'_>,
    attr: libc::mount_attr,
    recursive: Recursive,
) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH
        | match recursive {
            Recursive::Yes => libc::AT_RECURSIVE,
            Recursive::No => 0,
        };
    // SAFETY: the path is a C string, `attr` a mount_attr whose size is given; the kernel reads
    // both and keeps neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// A process that does nothing in a user namespace of its own, and so keeps that namespace alive.
#[derive(Debug)]
pub struct NamespaceHolder(i32);

impl NamespaceHolder {
    /// Starts the process.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` or `ENOSPC` where user namespaces are unavailable.
    pub fn start() -> io::Result<Self> {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        // SAFETY: without CLONE_VM this is a fork: the child has a copy of this process's memory
        // and continues here. It makes only the two system calls below, which touch no memory, so
        // locks held by other threads do not matter.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        if pid == 0 {
            // SAFETY: it reads no memory.
            unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                // SAFETY: it touches no memory.
                unsafe { libc::syscall(libc::SYS_pause) };
            }
        }
        let pid = check(pid)?;
        i32::try_from(pid).map(Self).map_err(io::Error::other)
    }

    /// Returns its process id in this process's PID namespace.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.0
    }

    /// Kills the process, and waits until it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn end(self) -> io::Result<()> {
        let pid = nix::unistd::Pid::from_raw(self.0);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)?;
        nix::sys::wait::waitpid(pid, None)?;
        Ok(())
    }
}

/// The reach of an operation on a mount: with or without the mounts below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursive {
    /// The mounts below are included.
    Yes,
    /// Only the mount itself is affected.
    No,
}

/// Asks `landlock_create_ruleset` for the Landlock version (`flag` 1) or errata (`flag` 2).
///
/// # Errors
/// `ENOSYS` or `EOPNOTSUPP` where Landlock is unavailable, `EINVAL` where errata can not be
/// queried.
pub fn landlock_query(flag: u32) -> io::Result<u32> {
    // SAFETY: with a null attribute and a query flag the kernel reads no memory.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0usize, flag)
    };
    check(result).map(|value| u32::try_from(value).unwrap_or(0))
}

/// The denials that the kernel writes to its audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialLogging {
    /// Only those that the kernel logs by default.
    Usual,
    /// Every denial, including those of programs that are executed later.
    All,
}

/// Puts this thread into a Landlock domain. Allocates nothing.
///
/// # Errors
/// The kernel's error (`E2BIG` beyond sixteen layers, `EINVAL` where Landlock has no audit
/// support).
pub fn landlock_restrict(ruleset: BorrowedFd<'_>, logged: DenialLogging) -> io::Result<()> {
    const LOG_NEW_EXEC_ON: u32 = 2;
    let flags = match logged {
        DenialLogging::Usual => 0,
        DenialLogging::All => LOG_NEW_EXEC_ON,
    };
    // SAFETY: landlock_restrict_self touches no memory.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) };
    check(result).map(drop)
}

/// Installs a system call filter on this thread for good. `no_new_privs` must be set already.
///
/// # Errors
/// The kernel's error.
pub fn seccomp_filter(program: &mut [libc::sock_filter], logged: DenialLogging) -> io::Result<()> {
    let flags = match logged {
        DenialLogging::Usual => 0,
        DenialLogging::All => libc::SECCOMP_FILTER_FLAG_LOG,
    };
    let program = program_of(program)?;
    // SAFETY: the kernel reads a sock_fprog, which `program` is, and copies what it points to.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    check(result).map(drop)
}

/// Attaches a filter to a socket and locks it. The socket then receives only what the filter
/// passes.
///
/// # Errors
/// The kernel's error.
pub fn socket_filter(socket: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = program_of(program)?;
    let locked: libc::c_int = 1;
    set_option(socket, libc::SO_ATTACH_FILTER, &program)?;
    set_option(socket, libc::SO_LOCK_FILTER, &locked)
}

fn program_of(instructions: &mut [libc::sock_filter]) -> io::Result<libc::sock_fprog> {
    let len =
        u16::try_from(instructions.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    Ok(libc::sock_fprog { len, filter: instructions.as_mut_ptr() })
}

fn set_option<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<T>())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the kernel reads `size` bytes, which are `value`'s, and keeps no pointer to them; a
    // program that `value` points to lives as long as the caller's borrow of it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            ptr::from_ref(value).cast(),
            size,
        )
    };
    check(result.into()).map(drop)
}

/// A system call filter, laid out before a fork so that nothing allocates after it.
#[derive(Debug)]
pub struct FilterProgram(Vec<libc::sock_filter>);

impl FilterProgram {
    /// Lays out a filter from its instructions.
    #[must_use]
    pub fn new(instructions: &[palisade_plan::Instruction]) -> Self {
        let lay = |i: &palisade_plan::Instruction| libc::sock_filter {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        };
        Self(instructions.iter().map(lay).collect())
    }

    /// Installs the filter on this thread. Allocates nothing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn install(&self) -> io::Result<()> {
        self.set(0).map(drop)
    }

    /// Installs the filter, and returns the listener that is notified of the system calls which the
    /// filter does not decide. Allocates nothing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn install_listening(&self) -> io::Result<OwnedFd> {
        let listening = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let made = match self.set(listening | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
            // Kernels before 5.19 do not know the flag; there a signal makes the system call start
            // again.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.set(listening),
            made => made,
        }?;
        let fd = i32::try_from(made).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
        // SAFETY: `fd` was just made and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn set(&self, flags: libc::c_ulong) -> io::Result<libc::c_long> {
        let length =
            u16::try_from(self.0.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let program = libc::sock_fprog { len: length, filter: self.0.as_ptr().cast_mut() };
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: `program` holds a pointer to as many instructions as it says, which live as long
        // as `self`; the kernel copies them and writes nothing.
        check(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) })
    }
}

/// A system call that waits for a listener's answer.
#[derive(Debug, Clone, Copy)]
pub struct Notification {
    /// The id to answer with.
    pub id: u64,
    /// The thread that makes the call.
    pub pid: u32,
    /// The system call number.
    pub number: i32,
    /// The arguments.
    pub arguments: [u64; 6],
}

/// Receives the next notification of a listener.
///
/// # Errors
/// The kernel's error (`ENOENT` if the thread that made the call has ended).
pub fn notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // SAFETY: seccomp_notif is plain data for which all zeroes is valid, and what the kernel wants.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one seccomp_notif, which `asked` is, and keeps no pointer to it.
    let received = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked)
    };
    check(received.into())?;
    let libc::seccomp_notif { id, pid, data, .. } = asked;
    Ok(Notification { id, pid, number: data.nr, arguments: data.args })
}

/// Lets a notified system call continue. All other layers still apply to it.
///
/// # Errors
/// The kernel's error (`ENOENT` if the thread that made the call has ended).
pub fn continue_syscall(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one seccomp_notif_resp, which `answer` is.
    let sent = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
    };
    check(sent.into()).map(drop)
}
