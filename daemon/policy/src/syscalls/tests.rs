//! Tests of the built-in list: it is complete, has reasons, and gives each attack the right answer.

use super::*;
use palisade_plan::{Network, SetIdBits, Sockets, assemble, fixed_rules};

const ALLOW: SyscallAction = SyscallAction::Allow;
const EPERM: SyscallAction = SyscallAction::Errno(1);
const ENOSYS: SyscallAction = SyscallAction::Errno(38);

fn decide(name: &str, arguments: &[u64]) -> SyscallAction {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let number = number(name).unwrap_or_else(|| panic!("{name} has no number"));
    let list = SyscallList::builtin().unwrap();
    let entry = list.entries().iter().find(|entry| entry.rule.number == number);
    entry.map_or(ENOSYS, |entry| entry.rule.decide(&all))
}

#[test]
fn every_entry_has_a_reason_and_a_number() {
    let list = SyscallList::builtin().unwrap();
    assert!(list.entries().len() > 350);
    for entry in list.entries() {
        assert!(entry.why.len() >= 8, "{}: {:?}", entry.name, entry.why);
        assert!(!entry.group.is_empty(), "{}", entry.name);
        assert_eq!(number(&entry.name), Some(entry.rule.number));
    }
}

#[test]
fn the_filter_is_small_and_its_rules_are_sorted() {
    let rules = SyscallList::builtin().unwrap().rules();
    assert!(rules.is_sorted_by_key(|rule| rule.number));
    let code = assemble(&rules, &[]).unwrap();
    assert!(code.len() < 600, "{}", code.len());
    // The fixed rules cost little where the list has the same ones.
    let bounded =
        assemble(&rules, &fixed_rules(Sockets::of(&Network::Loopback), SetIdBits::SetGid)).unwrap();
    assert!(bounded.len() < code.len() + 80, "{} and {}", code.len(), bounded.len());
}

#[test]
fn what_programs_need_is_allowed() {
    let names = "read write close openat2 execve execveat fork vfork wait4 waitid kill tgkill tkill \
        rt_sigqueueinfo mmap mprotect brk futex futex_waitv futex_wake futex_wait futex_requeue \
        epoll_wait epoll_pwait2 timerfd_create signalfd4 eventfd2 inotify_init1 copy_file_range \
        splice vmsplice sendfile statx faccessat2 close_range pidfd_open pidfd_send_signal getrandom \
        mlock mlock2 mseal cachestat map_shadow_stack set_tid_address set_robust_list rseq membarrier \
        arch_prctl memfd_create landlock_create_ruleset landlock_add_rule landlock_restrict_self shmget \
        shmat semget semop msgget mq_open setuid setgid setresuid setgroups capset getpeername \
        getsockname bind connect listen accept4 recvmsg ptrace sched_getaffinity getpriority uname \
        clock_gettime clock_nanosleep fchown unlinkat renameat2 linkat setxattr sigaltstack getdents64";
    for name in names.split_whitespace() {
        assert_eq!(decide(name, &[]), ALLOW, "{name}");
    }
}

#[test]
fn dangerous_calls_are_refused() {
    let names = "mount umount2 pivot_root chroot swapon swapoff reboot kexec_load kexec_file_load \
        init_module finit_module delete_module create_module query_module acct quotactl quotactl_fd \
        sethostname setdomainname syslog settimeofday clock_settime adjtimex clock_adjtime iopl ioperm \
        modify_ldt vhangup bpf perf_event_open lookup_dcookie keyctl add_key request_key userfaultfd \
        process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp \
        open_by_handle_at name_to_handle_at fanotify_init fanotify_mark setns unshare nfsservctl";
    for name in names.split_whitespace() {
        for arguments in [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6]] {
            assert_eq!(decide(name, &arguments), EPERM, "{name}");
        }
    }
}

#[test]
fn what_has_a_fallback_does_not_exist() {
    let names = "io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig \
        fsmount fspick mount_setattr open_tree_attr statmount listmount clone3 memfd_secret _sysctl \
        uselib lsm_set_self_attr io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents";
    for name in names.split_whitespace() {
        assert_eq!(decide(name, &[]), ENOSYS, "{name}");
    }
    let known = SyscallList::builtin().unwrap().rules();
    assert!(known.iter().all(|rule| rule.number < 500));
}

#[test]
fn clone_makes_no_namespaces() {
    // The flags of glibc's fork and pthread_create.
    assert_eq!(decide("clone", &[0x0120_0011]), ALLOW);
    assert_eq!(decide("clone", &[0x003d_0f00]), ALLOW);
    for flag in [
        0x0002_0000,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
        0x80,
    ] {
        assert_eq!(decide("clone", &[0x0120_0011 | flag]), EPERM, "{flag:#x}");
        assert_eq!(decide("clone", &[flag | 1 << 40]), EPERM, "{flag:#x}");
    }
}

#[test]
fn sockets_are_those_that_the_rules_see() {
    let (unix, inet, inet6, netlink) = (1, 2, 10, 16);
    let (stream, dgram, raw, seqpacket) = (1, 2, 3, 5);
    let flags = 0x800 | 0x8_0000;
    for (family, kind, protocol) in [
        (unix, stream, 0),
        (unix, dgram, 0),
        (unix, seqpacket, 0),
        (inet, stream, 0),
        (inet, stream, 6),
        (inet, dgram, 0),
        (inet, dgram, 17),
        (inet6, stream, 0),
        (inet6, stream, 6),
        (inet6, dgram, 0),
        (inet6, dgram, 17),
        (netlink, raw, 0),
        (netlink, dgram, 0),
    ] {
        assert_eq!(decide("socket", &[family, kind, protocol]), ALLOW);
        assert_eq!(decide("socket", &[family, kind | flags, protocol]), ALLOW);
    }
    let (mptcp, sctp, smc, icmp) = (262, 132, 256, 1);
    for (family, kind, protocol) in [
        (unix, raw, 0),
        (inet, stream, mptcp),
        (inet6, stream, mptcp),
        (inet, stream, sctp),
        (inet, stream, smc),
        (inet, seqpacket, sctp),
        (inet, raw, icmp),
        (inet, dgram, icmp),
        (inet6, dgram, 58),
        (inet, raw, 0),
        (inet, 6, 33),
        (inet, dgram, 136),
        (netlink, raw, 9),
        (netlink, raw, 16),
        (17, raw, 0),
        (15, raw, 2),
        (29, raw, 1),
        (30, stream, 0),
        (31, raw, 0),
        (38, seqpacket, 0),
        (40, stream, 0),
        (43, stream, 0),
        (44, raw, 0),
        (0, 10, 3),
    ] {
        assert_eq!(
            decide("socket", &[family, kind, protocol]),
            EPERM,
            "{family} {kind} {protocol}"
        );
        assert_eq!(decide("socket", &[family, kind | flags, protocol]), EPERM);
        // The kernel uses the low 32 bits of each argument.
        assert_eq!(decide("socket", &[family | 1 << 32, kind | 1 << 32, protocol]), EPERM);
    }
    assert_eq!(decide("socketpair", &[unix, stream, 0]), ALLOW);
    assert_eq!(decide("socketpair", &[inet, stream, 0]), EPERM);
    assert_eq!(decide("socketpair", &[30, stream, 0]), EPERM);
}

#[test]
fn tcp_fast_open_is_refused() {
    let fast_open = 0x2000_0000;
    for (name, before) in [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)] {
        let mut arguments = [0; 6];
        arguments[before] = 0x4000;
        assert_eq!(decide(name, &arguments), ALLOW, "{name}");
        arguments[before] |= fast_open;
        assert_eq!(decide(name, &arguments), EPERM, "{name}");
    }
    assert_eq!(decide("setsockopt", &[3, 6, 30]), EPERM);
    assert_eq!(decide("setsockopt", &[3, 6, 31]), EPERM);
    assert_eq!(decide("setsockopt", &[3, 6, 1]), ALLOW);
    assert_eq!(decide("setsockopt", &[3, 1, 30]), ALLOW);
}

#[test]
fn terminals_can_not_be_typed_into() {
    for request in [0x5412, 0x541c, 0x5423, 0x541d] {
        for high in [0, 1 << 32, 0xffff_ffff << 32] {
            assert_eq!(decide("ioctl", &[0, request | high, 0]), EPERM, "{request:#x}");
        }
    }
    assert_eq!(decide("ioctl", &[0, 0x540e, 1]), EPERM);
    // TIOCSCTTY without stealing, TCGETS, TIOCGWINSZ, FIONREAD.
    for request in [0x540e, 0x5401, 0x5413, 0x541b] {
        assert_eq!(decide("ioctl", &[0, request, 0]), ALLOW, "{request:#x}");
    }
}

#[test]
fn other_processes_are_left_alone() {
    for name in [
        "prlimit64",
        "sched_setscheduler",
        "sched_setparam",
        "sched_setattr",
        "sched_setaffinity",
        "move_pages",
        "migrate_pages",
        "get_robust_list",
    ] {
        assert_eq!(decide(name, &[0, 5]), ALLOW, "{name}");
        assert_eq!(decide(name, &[1, 5]), EPERM, "{name}");
        assert_eq!(decide(name, &[u64::MAX, 5]), EPERM, "{name}");
    }
    assert_eq!(decide("setpriority", &[0, 0, 5]), ALLOW);
    assert_eq!(decide("ioprio_set", &[1, 0, 5]), ALLOW);
    for (which, who) in [(0, 1), (1, 0), (2, 0)] {
        assert_eq!(decide("setpriority", &[which, who, 5]), EPERM);
    }
    for (which, who) in [(1, 1), (2, 0), (3, 0)] {
        assert_eq!(decide("ioprio_set", &[which, who, 5]), EPERM);
    }
}

#[test]
fn no_set_user_id_bits_and_no_devices() {
    for (name, at, set_gid) in [
        // Where a change takes effect at once, the fixed rules deny it.
        ("chmod", 1, ALLOW),
        ("fchmod", 1, ALLOW),
        ("fchmodat", 2, ALLOW),
        ("fchmodat2", 2, ALLOW),
        ("creat", 1, EPERM),
        ("mknod", 1, EPERM),
        ("mknodat", 2, EPERM),
    ] {
        let with = |mode| {
            let mut arguments = [0; 6];
            arguments[at] = mode;
            decide(name, &arguments)
        };
        assert_eq!(with(0o1777), ALLOW, "{name}");
        assert_eq!(with(0o2755), set_gid, "{name}");
        for bit in [0o4000, 0o6000] {
            assert_eq!(with(0o755 | bit), EPERM, "{name} {bit:o}");
        }
    }
    let (create, temporary) = (0o100 | 0o1, 0o20_200_000 | 0o2);
    for flags in [create, temporary] {
        assert_eq!(decide("open", &[0, flags, 0o644]), ALLOW);
        assert_eq!(decide("openat", &[0, 0, flags, 0o644]), ALLOW);
        assert_eq!(decide("open", &[0, flags, 0o4755]), EPERM);
        assert_eq!(decide("openat", &[0, 0, flags, 0o2755]), EPERM);
    }
    // Without O_CREAT the mode is ignored, and may be anything.
    assert_eq!(decide("open", &[0, 0, 0o7777]), ALLOW);
    assert_eq!(decide("openat", &[0, 0, 0o200_000, 0o7777]), ALLOW);
    for (kind, expected) in [
        (0, ALLOW),
        (0o100_000, ALLOW),
        (0o010_000, ALLOW),
        (0o140_000, ALLOW),
        (0o020_000, EPERM),
        (0o060_000, EPERM),
        (0o040_000, EPERM),
    ] {
        assert_eq!(decide("mknod", &[0, kind | 0o644, 0]), expected, "{kind:o}");
        assert_eq!(decide("mknodat", &[0, 0, kind | 0o644, 0]), expected, "{kind:o}");
    }
}

#[test]
fn personality_prctl_and_seccomp_are_bounded() {
    for (persona, expected) in
        [(0, ALLOW), (0xffff_ffff, ALLOW), (0x004_0000, EPERM), (0x040_0000, EPERM), (8, EPERM)]
    {
        assert_eq!(decide("personality", &[persona]), expected, "{persona:#x}");
    }
    // PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS.
    for option in [15, 1, 22, 38] {
        assert_eq!(decide("prctl", &[option]), ALLOW, "{option}");
    }
    for option in [35, 28, 0x5961_6d61, 35 | 1 << 32] {
        assert_eq!(decide("prctl", &[option]), EPERM, "{option}");
    }
    // PR_SET_MM_MAP, and PR_SET_MM_EXE_FILE.
    assert_eq!(decide("prctl", &[35, 14]), ALLOW);
    assert_eq!(decide("prctl", &[35, 13]), EPERM);
    assert_eq!(decide("seccomp", &[1, 0]), ALLOW);
    assert_eq!(decide("seccomp", &[1, 1]), ALLOW);
    assert_eq!(decide("seccomp", &[1, 8]), EPERM);
    assert_eq!(decide("seccomp", &[1, 9]), EPERM);
}

#[test]
fn leases_and_notifications_of_files_are_refused() {
    // F_SETLEASE, F_NOTIFY, F_SETDELEG. The kernel reads the low 32 bits.
    for command in [1024, 1026, 1040, 1024 | 1 << 32, 1040 | 1 << 63] {
        assert_eq!(decide("fcntl", &[3, command]), EPERM, "{command}");
    }
    // F_DUPFD, F_SETFD, F_SETFL, F_SETLK, F_OFD_SETLK, F_GETLEASE, F_DUPFD_CLOEXEC, F_ADD_SEALS.
    for command in [0, 2, 4, 6, 37, 1025, 1030, 1033] {
        assert_eq!(decide("fcntl", &[3, command]), ALLOW, "{command}");
    }
}

#[test]
fn broken_lists_are_refused() {
    let list = |calls: &str| {
        SyscallList::parse(&format!("[[group]]\nname = \"g\"\ncalls = [{calls}]")).map(|_| ())
    };
    assert_eq!(list(r#"{ name = "read", why = "reading" }"#), Ok(()));
    assert_eq!(SyscallList::parse("").map(|_| ()), Err(SyscallError::Empty));
    assert_eq!(list(""), Err(SyscallError::Empty));
    assert_eq!(list(r#"{ name = "read" }"#), Err(SyscallError::NoReason("read".to_owned())));
    let blank = r#"{ name = "read", why = " " }"#;
    assert_eq!(list(blank), Err(SyscallError::NoReason("read".to_owned())));
    let unknown = r#"{ name = "reed", why = "x" }"#;
    assert_eq!(list(unknown), Err(SyscallError::Unknown("reed".to_owned())));
    let twice = r#"{ name = "read", why = "x" }, { name = "read", why = "y" }"#;
    assert_eq!(list(twice), Err(SyscallError::Duplicate("read".to_owned())));
    let key = r#"{ name = "read", why = "x", whenn = [] }"#;
    assert!(matches!(list(key), Err(SyscallError::Text(text)) if text.contains("whenn")));
    for (clause, why) in [
        ("arg0 == 1", "has no `->`"),
        ("arg0 = 1 -> EPERM", "has a condition without `==` or `!=`"),
        ("arg6 == 1 -> EPERM", "compares what is not arg0 to arg5"),
        ("fd == 1 -> EPERM", "compares what is not arg0 to arg5"),
        ("arg0 == one -> EPERM", "has an invalid number"),
        ("arg0 & 1 == 2 -> EPERM", "can never hold: the value has bits that are masked away"),
        ("arg0 == 0x100000000 -> EPERM", "can never hold: the value has bits that are masked away"),
        ("arg0 == 1 -> EACCES", "does not answer with allow, EPERM or ENOSYS"),
    ] {
        let found = list(&format!(r#"{{ name = "read", why = "x", when = ["{clause}"] }}"#));
        let call = "read".to_owned();
        assert_eq!(found, Err(SyscallError::Clause { call, clause: clause.to_owned(), why }));
    }
    let wide = r#"{ name = "read", why = "x", when = ["wide arg0 == 0x100000000 -> EPERM"] }"#;
    assert_eq!(list(wide), Ok(()));
}
