use super::*;

fn decide(number: libc::c_long, arguments: [u64; 6]) -> Option<SyscallAction> {
    let rules = rules();
    let rule = rules.iter().find(|rule| i64::from(rule.number) == number);
    rule.map(|rule| rule.decide(&arguments))
}

fn bits(flags: libc::c_int) -> u64 {
    u64::from(flags.cast_unsigned())
}

#[test]
fn the_filter_can_be_assembled() {
    assert!(assemble(&rules(), &[]).is_ok());
}

#[test]
fn calls_that_a_room_never_makes_have_no_rule() {
    for call in [
        libc::SYS_listen,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_open,
        libc::SYS_kill,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_mkdirat,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_userfaultfd,
        libc::SYS_memfd_create,
        libc::SYS_socketpair,
    ] {
        assert_eq!(decide(call, [0; 6]), None, "{call}");
    }
}

#[test]
fn arguments_are_checked() {
    let (allowed, refused) = (Some(SyscallAction::Allow), Some(SyscallAction::Errno(REFUSED)));
    let first = |value: libc::c_int| [bits(value), 0, 0, 0, 0, 0];
    let third = |value: libc::c_int| [0, 0, bits(value), 0, 0, 0];
    for (call, arguments, expected) in [
        (libc::SYS_socket, first(libc::AF_INET), allowed),
        (libc::SYS_socket, first(libc::AF_INET6), allowed),
        (libc::SYS_socket, first(libc::AF_UNIX), refused),
        (libc::SYS_socket, first(libc::AF_PACKET), refused),
        (libc::SYS_socket, first(libc::AF_VSOCK), refused),
        (libc::SYS_mmap, third(libc::PROT_READ | libc::PROT_EXEC), allowed),
        (libc::SYS_mmap, third(libc::PROT_READ | libc::PROT_WRITE), allowed),
        (libc::SYS_mmap, third(libc::PROT_WRITE | libc::PROT_EXEC), refused),
        (libc::SYS_mprotect, third(libc::PROT_READ), allowed),
        (libc::SYS_mprotect, third(libc::PROT_READ | libc::PROT_EXEC), refused),
        (libc::SYS_clone, first(libc::CLONE_VM | libc::CLONE_THREAD), allowed),
        (libc::SYS_clone, first(libc::SIGCHLD), refused),
        (libc::SYS_clone, first(libc::CLONE_VM | libc::CLONE_VFORK), refused),
        (libc::SYS_clone3, [0; 6], Some(SyscallAction::Errno(UNKNOWN))),
        (libc::SYS_prctl, first(libc::PR_SET_NAME), allowed),
        (libc::SYS_prctl, first(libc::PR_SET_DUMPABLE), refused),
        (libc::SYS_prlimit64, [0; 6], allowed),
        (libc::SYS_prlimit64, [0, 0, 1 << 40, 0, 0, 0], refused),
        (libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0], refused),
        (libc::SYS_ioctl, [0, libc::FIONBIO, 0, 0, 0, 0], allowed),
    ] {
        assert_eq!(decide(call, arguments), expected, "{call} {arguments:?}");
    }
}

#[test]
fn clone_makes_threads_and_never_a_namespace() {
    let thread = bits(libc::CLONE_VM | libc::CLONE_THREAD);
    let (flags, needed) = (0x7e02_0000, thread);
    // The rule looks at these bits; each of the others, and all, must make no difference.
    let looked = flags | needed;
    let others = (0..64).map(|bit| 1_u64 << bit).filter(|bit| bit & looked == 0);
    let others: Vec<u64> = others.chain([0, !looked]).collect();
    let mut subset = looked;
    loop {
        let is_thread = subset == needed;
        let answer = if is_thread { SyscallAction::Allow } else { SyscallAction::Errno(REFUSED) };
        for other in &others {
            let arguments = [subset | other, 0, 0, 0, 0, 0];
            assert_eq!(decide(libc::SYS_clone, arguments), Some(answer), "{:#x}", subset | other);
        }
        if subset == 0 {
            break;
        }
        subset = (subset - 1) & looked;
    }
}
