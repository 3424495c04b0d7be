//! Confines the room before it hears anything: limits, no privilege, no files but those that looking
//! up names needs, and only the system calls of a program that waits for sockets.

use caps::CapSet;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use palisade_plan::{Compare, Condition, FilterError, SyscallAction, SyscallRule, assemble};
use rustix::{
    io::Errno,
    process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit},
};
use seccompiler::sock_filter;

/// The limit of memory that can be written to.
const MEMORY: u64 = 1024 * 1024 * 1024;

/// Most descriptors: two for each connection of the sessions of a user.
const DESCRIPTORS: u64 = 65_536;

/// The files that the C library reads to look up names: its settings and plug-ins, and the resolver files
/// that links in `/etc` lead to. A directory that does not exist is left out. All of `/etc`, because a
/// rule for one file would be for its inode: `resolv.conf` and `hosts` are replaced while a room runs.
const READABLE: [&str; 11] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/nix/store",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/connman",
    "/run/netconfig",
];

/// The reason why the process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused a resource limit.
    #[error("the limit {0} was refused: {1}")]
    Limit(&'static str, #[source] Errno),
    /// The capabilities could not be given up.
    #[error("capabilities could not be given up: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// The process still has capabilities.
    #[error("the process still has capabilities after giving them up")]
    Left,
    /// The kernel refused `no_new_privs` or to make the process undumpable.
    #[error("{0} was refused: {1}")]
    Process(&'static str, #[source] Errno),
    /// The kernel refused the Landlock rules.
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    /// The kernel has no Landlock.
    #[error("the kernel has no Landlock, or it is disabled; add landlock to the lsm= parameter")]
    NoLandlock,
    /// The filter is invalid.
    #[error("the filter of system calls: {0}")]
    Filter(#[from] FilterError),
    /// The kernel refused the filter.
    #[error("the kernel refused the filter of system calls: {0}")]
    Install(#[from] seccompiler::Error),
}

/// Confines this process. Must be called before another thread is started.
///
/// # Errors
/// If any part of it can not be enforced.
pub(crate) fn confine() -> Result<(), ConfineError> {
    limit()?;
    give_up_capabilities()?;
    let failed = |what| move |errno| ConfineError::Process(what, errno);
    rustix::thread::set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("undumpable"))?;
    restrict_files()?;
    filter()
}

fn limit() -> Result<(), ConfineError> {
    // An ordinary user can not raise the hard limit.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let limits = [
        ("memory", Resource::Data, MEMORY),
        ("open files", Resource::Nofile, descriptors),
        ("file size", Resource::Fsize, 0),
        ("core dumps", Resource::Core, 0),
    ];
    for (name, resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|errno| ConfineError::Limit(name, errno))?;
    }
    Ok(())
}

fn give_up_capabilities() -> Result<(), ConfineError> {
    // Clearing the bounding set needs a capability, so it comes first.
    if caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP)? {
        caps::clear(None, CapSet::Bounding)?;
    }
    let sets = [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted];
    for set in sets {
        caps::clear(None, set)?;
    }
    for set in sets {
        if !caps::read(None, set)?.is_empty() {
            return Err(ConfineError::Left);
        }
    }
    Ok(())
}

/// Leaves reading the directories above, connecting, and nothing else. Rights that an older kernel
/// does not know are not enforced there; the filter covers them.
fn restrict_files() -> Result<(), ConfineError> {
    let abi = ABI::V9;
    let readable = path_beneath_rules(READABLE, AccessFs::ReadFile | AccessFs::ReadDir);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(readable)?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::NoLandlock);
    }
    Ok(())
}

/// `EPERM`: the error for an allowed system call with arguments that are not allowed.
const REFUSED: u16 = 1;

/// `ENOSYS`: makes the C library use an older system call.
const UNKNOWN: u16 = 38;

/// System calls with any arguments, each with its reason.
const ALLOWED: [(libc::c_long, &str); 65] = [
    (libc::SYS_accept4, "connections of sessions"),
    (libc::SYS_connect, "connections to destinations, name servers and sessions"),
    (libc::SYS_bind, "UDP sockets; Landlock refuses TCP"),
    (libc::SYS_shutdown, "the end of one direction"),
    (libc::SYS_getsockname, "the synthetic address of a connection"),
    (libc::SYS_getpeername, "the C library's lookups"),
    (libc::SYS_getsockopt, "the result of connecting"),
    (libc::SYS_setsockopt, "the C library's lookups"),
    (libc::SYS_sendto, "sockets"),
    (libc::SYS_recvfrom, "sockets"),
    (libc::SYS_sendmsg, "the broker, and name servers"),
    (libc::SYS_recvmsg, "the broker, and name servers"),
    (libc::SYS_sendmmsg, "name servers"),
    (libc::SYS_recvmmsg, "name servers"),
    (libc::SYS_read, "the runtime's wake-up, and files of the resolver"),
    (libc::SYS_readv, "sockets"),
    (libc::SYS_pread64, "the C library's plug-ins, and credentials"),
    (libc::SYS_write, "the runtime's wake-up, and standard error"),
    (libc::SYS_writev, "sockets"),
    (libc::SYS_close, "sockets and files"),
    (libc::SYS_fcntl, "sockets and files"),
    (libc::SYS_lseek, "files of the resolver"),
    (libc::SYS_openat, "files of the resolver; Landlock refuses the rest"),
    (libc::SYS_fstat, "files of the resolver"),
    (libc::SYS_newfstatat, "files of the resolver"),
    (libc::SYS_statx, "files of the resolver"),
    (libc::SYS_ppoll, "the C library's lookups"),
    (libc::SYS_epoll_create1, "the runtime"),
    (libc::SYS_epoll_ctl, "the runtime"),
    (libc::SYS_epoll_pwait, "the runtime"),
    (libc::SYS_epoll_pwait2, "the runtime"),
    (libc::SYS_eventfd2, "the runtime"),
    (libc::SYS_munmap, "memory"),
    (libc::SYS_mremap, "memory"),
    (libc::SYS_brk, "memory"),
    (libc::SYS_madvise, "memory"),
    (libc::SYS_futex, "locks"),
    (libc::SYS_set_robust_list, "threads of lookups"),
    (libc::SYS_rseq, "threads of lookups"),
    (libc::SYS_sched_getaffinity, "threads of lookups"),
    (libc::SYS_sched_yield, "locks"),
    (libc::SYS_rt_sigaction, "threads"),
    (libc::SYS_rt_sigprocmask, "threads"),
    (libc::SYS_rt_sigreturn, "threads"),
    (libc::SYS_sigaltstack, "threads"),
    (libc::SYS_restart_syscall, "waiting that was interrupted"),
    (libc::SYS_clock_gettime, "timers"),
    (libc::SYS_clock_nanosleep, "the C library's lookups"),
    (libc::SYS_gettimeofday, "the C library's lookups"),
    (libc::SYS_getrandom, "seeds of hash maps, and numbers of queries"),
    (libc::SYS_uname, "the C library's lookups"),
    (libc::SYS_getuid, "the C library's lookups"),
    (libc::SYS_geteuid, "the C library's lookups"),
    (libc::SYS_getgid, "the C library's lookups"),
    (libc::SYS_getegid, "the C library's lookups"),
    (libc::SYS_gettid, "a panic's message"),
    (libc::SYS_getpid, "an abort"),
    (libc::SYS_tgkill, "an abort"),
    (libc::SYS_exit, "the end of a thread"),
    (libc::SYS_exit_group, "the end of the process"),
    (libc::SYS_faccessat, "the C library's plug-ins"),
    (libc::SYS_faccessat2, "the C library's plug-ins"),
    (libc::SYS_readlinkat, "links in /etc"),
    (libc::SYS_fstatfs, "files of the resolver"),
    (libc::SYS_membarrier, "locks"),
];

/// Older forms of the calls above, which only some architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: [(libc::c_long, &str); 5] = [
    (libc::SYS_poll, "the C library's lookups"),
    (libc::SYS_epoll_wait, "the runtime"),
    (libc::SYS_stat, "files of the resolver"),
    (libc::SYS_access, "the C library's plug-ins"),
    (libc::SYS_readlink, "links in /etc"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [(libc::c_long, &str); 0] = [];

fn filter() -> Result<(), ConfineError> {
    let program: Vec<sock_filter> = assemble(&rules(), &[])?
        .iter()
        .map(|i| sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}

/// Returns the filter rules. A system call without a rule fails with `ENOSYS`: among them all that
/// start programs, make namespaces, listen, write files, or look into other processes.
fn rules() -> Vec<SyscallRule> {
    let whole = u64::from(u32::MAX);
    let bits = |flags: libc::c_int| u64::from(flags.cast_unsigned());
    let is = |argument, value: libc::c_int| vec![equal(argument, whole, bits(value))];
    let write_execute = bits(libc::PROT_WRITE | libc::PROT_EXEC);
    let execute = bits(libc::PROT_EXEC);
    let thread = bits(libc::CLONE_VM | libc::CLONE_THREAD);
    // CLONE_NEWNS, and the six from CLONE_NEWCGROUP on.
    let namespaces = 0x7e02_0000;
    let no_limit = vec![Condition { wide: true, ..equal(2, u64::MAX, 0) }];
    let mut rules = vec![
        // No Unix sockets: those of the host's services could be connected to. The C library then
        // asks name servers by itself. Netlink tells it which addresses the host has.
        only(libc::SYS_socket, [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|f| is(0, f))),
        only(
            libc::SYS_ioctl,
            [libc::FIONBIO, libc::FIONREAD].map(|request| vec![equal(1, whole, request & whole)]),
        ),
        // No code that is written while the process runs.
        except(libc::SYS_mmap, equal(2, write_execute, write_execute)),
        except(libc::SYS_mprotect, equal(2, execute, execute)),
        only(libc::SYS_clone, [vec![equal(0, thread | namespaces, thread)]]),
        rule(libc::SYS_clone3, Vec::new(), SyscallAction::Errno(UNKNOWN)),
        // The names of threads and of memory.
        only(libc::SYS_prctl, [libc::PR_SET_NAME, libc::PR_SET_VMA].map(|option| is(0, option))),
        // Reading limits, to make a thread's stack.
        only(libc::SYS_prlimit64, [no_limit]),
    ];
    let listed = ALLOWED.iter().chain(&OLDER);
    rules.extend(listed.map(|(number, _)| rule(*number, Vec::new(), SyscallAction::Allow)));
    rules
}

const fn equal(argument: u8, mask: u64, value: u64) -> Condition {
    Condition { argument, wide: false, mask, compare: Compare::Equal, value }
}

/// Allows a call if one of the lists of conditions holds.
fn only<const N: usize>(number: libc::c_long, lists: [Vec<Condition>; N]) -> SyscallRule {
    let clauses = lists.into_iter().map(|list| (list, SyscallAction::Allow)).collect();
    rule(number, clauses, SyscallAction::Errno(REFUSED))
}

/// Allows a call unless a condition holds.
fn except(number: libc::c_long, condition: Condition) -> SyscallRule {
    let clauses = vec![(vec![condition], SyscallAction::Errno(REFUSED))];
    rule(number, clauses, SyscallAction::Allow)
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
#[path = "confine_tests.rs"]
mod tests;
