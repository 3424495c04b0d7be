//! The analyst's confinement: limits, no new privileges, no descriptors but its socket, and system
//! calls for memory and that socket alone.

use palisade_plan::{FilterError, SyscallAction, SyscallRule, assemble};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, setrlimit},
};
use seccompiler::sock_filter;

/// All memory, the parser's stack among it.
const MEMORY: u64 = 256 * 1024 * 1024;

/// Why the process is not confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A limit was refused.
    #[error("the limit {0} was refused: {1}")]
    Limit(&'static str, #[source] Errno),
    /// No new privileges was refused.
    #[error("no_new_privs was refused: {0}")]
    Privileges(#[source] Errno),
    /// The filter makes no sense.
    #[error("the filter of system calls: {0}")]
    Filter(#[from] FilterError),
    /// The kernel refused the filter.
    #[error("the kernel refused the filter of system calls: {0}")]
    Install(#[from] seccompiler::Error),
}

/// Sets the limits, before anything is read.
pub(crate) fn limit() -> Result<(), ConfineError> {
    let limits = [
        ("address space", Resource::As, MEMORY),
        ("open files", Resource::Nofile, 4),
        ("file size", Resource::Fsize, 0),
        ("core dumps", Resource::Core, 0),
    ];
    for (name, resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|errno| ConfineError::Limit(name, errno))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(ConfineError::Privileges)
}

/// What the parser's thread may ask of the kernel, and why.
const ALLOWED: [(libc::c_long, &str); 24] = [
    (libc::SYS_read, "the socket"),
    (libc::SYS_write, "why it ended, to standard error"),
    (libc::SYS_recvmsg, "questions"),
    (libc::SYS_sendmsg, "answers"),
    (libc::SYS_close, "descriptors that nobody should have sent"),
    (libc::SYS_mmap, "memory"),
    (libc::SYS_munmap, "memory"),
    (libc::SYS_mremap, "memory"),
    (libc::SYS_brk, "memory"),
    (libc::SYS_madvise, "memory"),
    (libc::SYS_mprotect, "memory"),
    (libc::SYS_futex, "locks, and the end of the thread"),
    (libc::SYS_rt_sigaction, "the end of the thread"),
    (libc::SYS_rt_sigprocmask, "the end of the thread"),
    (libc::SYS_rt_sigreturn, "the end of the thread"),
    (libc::SYS_sigaltstack, "the end of the thread"),
    (libc::SYS_clock_gettime, "caches of the parser"),
    (libc::SYS_getrandom, "seeds of hash maps"),
    (libc::SYS_sched_yield, "locks"),
    (libc::SYS_gettid, "a panic's message"),
    (libc::SYS_getpid, "an abort"),
    (libc::SYS_tgkill, "an abort"),
    (libc::SYS_exit, "the end of the thread"),
    (libc::SYS_exit_group, "the end of the process"),
];

/// Installs the filter on this thread. The other one only waits for it.
pub(crate) fn filter() -> Result<(), ConfineError> {
    let rules: Vec<SyscallRule> = ALLOWED
        .iter()
        .filter_map(|(number, _)| u32::try_from(*number).ok())
        .map(|number| SyscallRule { number, clauses: Vec::new(), otherwise: SyscallAction::Allow })
        .collect();
    let program: Vec<sock_filter> = assemble(&rules)?
        .iter()
        .map(|i| sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}
