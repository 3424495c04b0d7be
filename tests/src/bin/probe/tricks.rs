//! Attempts that take more than one system call: on identity, on the filter, on other processes.

use super::{Answer, check, last, parse, syscall_number, yes};
use std::{fs, os::fd::AsRawFd as _};

/// Makes an attempt. An unknown attempt returns a number that is not an errno.
pub(super) fn try_it(words: &[String]) -> Answer {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let number = |n: usize| parse(word(n));
    match word(0) {
        // SAFETY: geteuid touches no memory.
        "euid" => yes(libc::c_long::from(unsafe { libc::geteuid() }) == number(1)),
        "capset" => capset(number(1)),
        "securebits" => securebits(number(1)),
        "clone3" => clone3(number(1)),
        "setns" => setns(word(1), number(2)),
        "signal_by_pidfd" => signal_by_pidfd(number(1), number(2)),
        "trace_child" => trace_child(),
        "dumpable" => dumpable(),
        "own_filter" => install(0, 1).map(drop),
        // SECCOMP_FILTER_FLAG_NEW_LISTENER.
        "listener" => install(8, 1).map(drop),
        "filters" => stack_filters(),
        "by_sigreturn" => by_sigreturn(word(1)),
        "vsyscall" => vsyscall(),
        "vdso" => vdso(),
        _ => Err(9998),
    }
}

/// Raises one capability in the effective and permitted sets.
fn capset(capability: libc::c_long) -> Answer {
    // Version 3 of the header, this process; then two times effective, permitted, inheritable.
    let header: [u32; 2] = [0x2008_0522, 0];
    let mut data = [0u32; 6];
    let (place, bit) = (capability as usize / 32 * 3, 1 << (capability % 32));
    data[place] = bit;
    data[place + 1] = bit;
    // SAFETY: a header and two data structures as version 3 has them; the kernel only reads.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })
}

fn securebits(expected: libc::c_long) -> Answer {
    // SAFETY: PR_GET_SECUREBITS touches no memory.
    let found = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) };
    check(found.into())?;
    yes(libc::c_long::from(found) == expected)
}

/// Calls `clone3` with these flags and nothing else.
fn clone3(flags: libc::c_long) -> Answer {
    // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
    let arguments = [flags as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    // SAFETY: without CLONE_VM this is fork(2); both sides go on with their own copy.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) };
    if pid == 0 {
        // SAFETY: the child has nothing to do.
        unsafe { libc::_exit(0) };
    }
    check(pid)
}

fn setns(path: &str, kind: libc::c_long) -> Answer {
    let file = fs::File::open(path).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: setns touches no memory.
    check(unsafe { libc::syscall(libc::SYS_setns, file.as_raw_fd(), kind) })
}

fn signal_by_pidfd(pid: libc::c_long, signal: libc::c_long) -> Answer {
    // SAFETY: pidfd_open touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check(fd)?;
    // SAFETY: with a null siginfo the kernel reads no memory.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, 0, 0) })
}

/// Traces a child of its own, as gdb and strace do.
fn trace_child() -> Answer {
    // SAFETY: this process has one thread; the child only waits.
    let child = unsafe { libc::fork() };
    check(child.into())?;
    if child == 0 {
        // SAFETY: pause touches no memory.
        unsafe { libc::pause() };
    }
    // SAFETY: PTRACE_SEIZE takes no memory.
    let answer = check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0) });
    // SAFETY: kill touches no memory, and the child is ours.
    check(unsafe { libc::kill(child, libc::SIGKILL) }.into())?;
    answer
}

/// Requests core dumps, and raises their size limit.
fn dumpable() -> Answer {
    // SAFETY: PR_SET_DUMPABLE touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }.into())?;
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is an rlimit, which the kernel reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) }.into())
}

/// Installs a filter of `length` instructions that allows everything; returns the kernel's answer.
fn install(flags: libc::c_long, length: usize) -> Result<libc::c_long, i32> {
    // BPF_RET | BPF_K with SECCOMP_RET_ALLOW.
    let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let mut filter = vec![allow; length];
    let program = libc::sock_fprog { len: length as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and its instructions live until the call is over; the kernel copies them.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, 1, flags, &raw const program) };
    check(result).map(|()| result)
}

/// Stacks filters until the kernel accepts no more. What was refused before must still be refused.
fn stack_filters() -> Answer {
    let mut layers = 0;
    let refused = loop {
        match install(0, 4096) {
            Ok(_) => layers += 1,
            Err(errno) => break errno,
        }
    };
    if layers == 0 {
        return Err(refused);
    }
    // SAFETY: keyctl(KEYCTL_GET_KEYRING_ID) touches no memory.
    let keyctl = unsafe { libc::syscall(libc::SYS_keyctl, 0, -3, 0, 0, 0) };
    match (refused, check(keyctl)) {
        (libc::ENOMEM, Err(libc::EPERM)) => Ok(()),
        (libc::ENOMEM, Err(errno)) => Err(errno),
        (libc::ENOMEM, Ok(())) => Err(9997),
        (other, _) => Err(other),
    }
}

/// The number of the system call that the forged return makes.
#[cfg(target_arch = "x86_64")]
static FORGED: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

/// The target of the forged return: makes the system call, and ends the child with its answer.
#[cfg(target_arch = "x86_64")]
extern "C" fn landing() {
    let number = FORGED.load(std::sync::atomic::Ordering::Relaxed);
    // SAFETY: tests name calls that the filter answers; with zeroes they touch no memory.
    let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
    let status = if result < 0 { last() } else { 0 };
    // SAFETY: the process ends.
    unsafe { libc::_exit(status) };
}

#[cfg(target_arch = "x86_64")]
extern "C" fn forge(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel hands a handler with SA_SIGINFO its own context, which rt_sigreturn will
    // load: the instruction pointer leads to `landing`, with the stack as after a call.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize] = landing as *const () as i64;
    registers[libc::REG_RSP as usize] = ((registers[libc::REG_RSP as usize] - 512) & !15) - 8;
}

/// Makes a system call from a forged context that `rt_sigreturn` loads.
#[cfg(target_arch = "x86_64")]
fn by_sigreturn(name: &str) -> Answer {
    let Some(number) = syscall_number(name) else { return Err(9999) };
    FORGED.store(number, std::sync::atomic::Ordering::Relaxed);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    check(child.into())?;
    if child == 0 {
        // SAFETY: sigaction is plain data for which all zeroes is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = forge as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: `action` names a handler of the right type, which stays where it is.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
        // SAFETY: raise touches no memory. What comes after is `landing`.
        unsafe { libc::raise(libc::SIGUSR1) };
        // SAFETY: not reached unless the forged return did nothing.
        unsafe { libc::_exit(255) };
    }
    let mut status = 0;
    // SAFETY: `status` is an int.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) }.into())?;
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, errno) => Err(errno),
        (false, _) => Err(9996),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn by_sigreturn(name: &str) -> Answer {
    let Some(number) = syscall_number(name) else { return Err(9999) };
    // SAFETY: tests name calls that the filter answers; with zeroes they touch no memory.
    check(unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) })
}

/// Reads the time at the fixed vsyscall address of old binaries. Without that page it is a fault.
#[cfg(target_arch = "x86_64")]
fn vsyscall() -> Answer {
    let result: i64;
    // SAFETY: the entry of time(2) with a null pointer reads and writes no memory; where the page
    // is not mapped, the child is killed.
    unsafe {
        std::arch::asm!(
            "call {entry}",
            entry = in(reg) 0xffff_ffff_ff60_0400u64,
            in("rdi") 0,
            out("rax") result,
            clobber_abi("C"),
        );
    }
    yes(result > 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn vsyscall() -> Answer {
    Err(libc::ENOSYS)
}

/// Reads the clock through the vDSO, as every program does.
fn vdso() -> Answer {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec.
    check(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) }.into())?;
    let maps = fs::read("/proc/self/maps").map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    yes(time.tv_sec > 0 && maps.windows(6).any(|window| window == b"[vdso]"))
}
