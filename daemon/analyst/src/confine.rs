//! Confines the analyst: resource limits, no new privileges, and only the system calls that it
//! needs for memory and its socket. Runs in the analyst.

use palisade_plan::{Compare, Condition, FilterError, SyscallAction, SyscallRule, assemble};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, setrlimit},
};
use seccompiler::sock_filter;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

/// The memory limit, including the parser's stack.
const MEMORY: u64 = 256 * 1024 * 1024;

/// `EPERM`: the error for an allowed system call with arguments that are not allowed.
const REFUSED: u16 = 1;

/// The reason why the process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused a resource limit.
    #[error("the limit {0} was refused: {1}")]
    Limit(&'static str, #[source] Errno),
    /// The kernel refused `no_new_privs`.
    #[error("no_new_privs was refused: {0}")]
    Privileges(#[source] Errno),
    /// The filter is invalid.
    #[error("the filter of system calls: {0}")]
    Filter(#[from] FilterError),
    /// The kernel refused the filter.
    #[error("the kernel refused the filter of system calls: {0}")]
    Install(#[from] seccompiler::Error),
}

/// Sets the resource limits, before any input is read.
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

/// System calls that both threads may make with any arguments, each with its reason.
const ALLOWED: [(libc::c_long, &str); 19] = [
    (libc::SYS_close, "descriptors that nobody should have sent"),
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

/// Installs the filter on all threads.
pub(crate) fn filter(socket: BorrowedFd<'_>) -> Result<(), ConfineError> {
    let program: Vec<sock_filter> = assemble(&rules(socket.as_raw_fd()), &[])?
        .iter()
        .map(|i| sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}

/// Returns the filter rules. Descriptors that leak from the parent process are useless: only the
/// socket can be read, only it and standard error can be written to, and no file can be mapped.
fn rules(socket: RawFd) -> Vec<SyscallRule> {
    let anonymous = u64::from(libc::MAP_ANONYMOUS.cast_unsigned());
    let on = |fd: RawFd| equal(0, u64::from(u32::MAX), u64::from(fd.cast_unsigned()));
    let mut rules = vec![
        only(libc::SYS_recvmsg, on(socket)),
        only(libc::SYS_sendmsg, on(socket)),
        only(libc::SYS_write, on(libc::STDERR_FILENO)),
        only(libc::SYS_mmap, equal(3, anonymous, anonymous)),
    ];
    rules.extend(ALLOWED.iter().map(|(number, _)| rule(*number, Vec::new(), SyscallAction::Allow)));
    rules
}

const fn equal(argument: u8, mask: u64, value: u64) -> Condition {
    Condition { argument, wide: false, mask, compare: Compare::Equal, value }
}

fn only(number: libc::c_long, condition: Condition) -> SyscallRule {
    let clauses = vec![(vec![condition], SyscallAction::Allow)];
    rule(number, clauses, SyscallAction::Errno(REFUSED))
}

fn rule(
    number: libc::c_long,
    clauses: Vec<(Vec<Condition>, SyscallAction)>,
    otherwise: SyscallAction,
) -> SyscallRule {
    // An invalid number is refused when the filter is assembled.
    SyscallRule { number: u32::try_from(number).unwrap_or(u32::MAX), clauses, otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_and_memory() {
        let rules = rules(7);
        let decide = |number: libc::c_long, arguments: [u64; 6]| {
            let rule = rules.iter().find(|rule| i64::from(rule.number) == number);
            rule.map(|rule| rule.decide(&arguments))
        };
        let refused = Some(SyscallAction::Errno(REFUSED));
        let allowed = Some(SyscallAction::Allow);
        for call in [libc::SYS_recvmsg, libc::SYS_sendmsg] {
            assert_eq!(decide(call, [7, 0, 0, 0, 0, 0]), allowed);
            assert_eq!(decide(call, [3, 0, 0, 0, 0, 0]), refused);
        }
        assert_eq!(decide(libc::SYS_write, [2, 0, 0, 0, 0, 0]), allowed);
        assert_eq!(decide(libc::SYS_write, [7, 0, 0, 0, 0, 0]), refused);
        assert_eq!(decide(libc::SYS_mmap, [0, 0, 0, 0x22, u64::MAX, 0]), allowed);
        assert_eq!(decide(libc::SYS_mmap, [0, 0, 0, 0x2, 3, 0]), refused);
        for call in [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_socket,
            libc::SYS_execve,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_prctl,
            libc::SYS_io_uring_setup,
        ] {
            assert_eq!(decide(call, [0; 6]), None);
        }
        assert!(assemble(&rules, &[]).is_ok());
    }
}
