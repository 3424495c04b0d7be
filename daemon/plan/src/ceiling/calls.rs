//! The ceiling's rules on system calls: what no filter lets through, whoever wrote it.

use super::error::CeilingError;
use crate::{Network, SyscallAction, SyscallRule};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the ceiling's system calls are for x86_64; another architecture needs its numbers");

/// Calls that are let through with no arguments whatever. Numbers of x86_64.
const NEVER: [(u32, &str); 40] = [
    (153, "vhangup"),
    (155, "pivot_root"),
    (161, "chroot"),
    (164, "settimeofday"),
    (165, "mount"),
    (166, "umount2"),
    (167, "swapon"),
    (168, "swapoff"),
    (169, "reboot"),
    (170, "sethostname"),
    (172, "iopl"),
    (173, "ioperm"),
    (175, "init_module"),
    (176, "delete_module"),
    (227, "clock_settime"),
    (246, "kexec_load"),
    (248, "add_key"),
    (249, "request_key"),
    (250, "keyctl"),
    (272, "unshare"),
    (298, "perf_event_open"),
    (300, "fanotify_init"),
    (304, "open_by_handle_at"),
    (308, "setns"),
    (310, "process_vm_readv"),
    (311, "process_vm_writev"),
    (313, "finit_module"),
    (320, "kexec_file_load"),
    (321, "bpf"),
    (323, "userfaultfd"),
    (425, "io_uring_setup"),
    (426, "io_uring_enter"),
    (427, "io_uring_register"),
    (428, "open_tree"),
    (429, "move_mount"),
    (432, "fsmount"),
    (435, "clone3"),
    (438, "pidfd_getfd"),
    (442, "mount_setattr"),
    (467, "open_tree_attr"),
];

/// Calls that are let through, but not with these first three arguments.
const NOT_WITH: [(u32, [u64; 3], &str); 16] = [
    (16, [0, 0x5412, 0], "ioctl(TIOCSTI)"),
    (16, [0, 0x1_0000_5412, 0], "ioctl(TIOCSTI with high bits)"),
    (16, [0, 0x541c, 0], "ioctl(TIOCLINUX)"),
    (41, [2, 1, 262], "socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP)"),
    (41, [2, 3, 1], "socket(AF_INET, SOCK_RAW)"),
    (41, [17, 3, 0], "socket(AF_PACKET)"),
    (41, [38, 5, 0], "socket(AF_ALG)"),
    (41, [40, 1, 0], "socket(AF_VSOCK)"),
    (56, [0x0002_0000, 0, 0], "clone(CLONE_NEWNS)"),
    (56, [0x0200_0000, 0, 0], "clone(CLONE_NEWCGROUP)"),
    (56, [0x0400_0000, 0, 0], "clone(CLONE_NEWUTS)"),
    (56, [0x0800_0000, 0, 0], "clone(CLONE_NEWIPC)"),
    (56, [0x1000_0000, 0, 0], "clone(CLONE_NEWUSER)"),
    (56, [0x2000_0000, 0, 0], "clone(CLONE_NEWPID)"),
    (56, [0x4000_0000, 0, 0], "clone(CLONE_NEWNET)"),
    (302, [1, 0, 0], "prlimit64 on another process"),
];

/// Calls that are not let through with these arguments by a session in the launcher's own network:
/// what Landlock's rules on ports do not see.
const NOT_ON_PORTS: [(u32, [u64; 4], &str); 11] = [
    (41, [2, 2, 0, 0], "socket(AF_INET, SOCK_DGRAM)"),
    (41, [2, 2, 17, 0], "socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP)"),
    (41, [10, 2, 0, 0], "socket(AF_INET6, SOCK_DGRAM)"),
    (41, [10, 2, 17, 0], "socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP)"),
    (41, [16, 3, 0, 0], "socket(AF_NETLINK, SOCK_RAW)"),
    (41, [16, 2, 0, 0], "socket(AF_NETLINK, SOCK_DGRAM)"),
    (44, [0, 0, 0, 0x2000_0000], "sendto(MSG_FASTOPEN)"),
    (46, [0, 0, 0x2000_0000, 0], "sendmsg(MSG_FASTOPEN)"),
    (307, [0, 0, 0, 0x2000_0000], "sendmmsg(MSG_FASTOPEN)"),
    (54, [0, 6, 30, 0], "setsockopt(TCP_FASTOPEN_CONNECT)"),
    // A socket that is not bound is given a port by it.
    (50, [0, 0, 0, 0], "listen"),
];

/// Holds a filter's rules against the lists.
pub(super) fn check(rules: &[SyscallRule], network: &Network) -> Result<(), CeilingError> {
    let on_ports = match network {
        Network::None | Network::Loopback => &[][..],
        Network::Ports(_) => &NOT_ON_PORTS[..],
    };
    if !rules.iter().any(may_allow) {
        return Err(CeilingError::Empty("system calls that are allowed"));
    }
    for rule in rules {
        let number = rule.number;
        let never = NEVER.iter().find(|(never, _)| *never == number);
        if let Some((_, call)) = never
            && may_allow(rule)
        {
            return Err(CeilingError::Syscall { call, number });
        }
        for (_, [a, b, c], call) in NOT_WITH.iter().filter(|(not, ..)| *not == number) {
            match rule.decide(&[*a, *b, *c, 0, 0, 0]) {
                SyscallAction::Allow => return Err(CeilingError::Syscall { call, number }),
                SyscallAction::Errno(_) => {}
            }
        }
        for (_, [a, b, c, d], call) in on_ports.iter().filter(|(not, ..)| *not == number) {
            match rule.decide(&[*a, *b, *c, *d, 0, 0]) {
                SyscallAction::Allow => return Err(CeilingError::Syscall { call, number }),
                SyscallAction::Errno(_) => {}
            }
        }
    }
    Ok(())
}

/// Whether any arguments could let the call through.
fn may_allow(rule: &SyscallRule) -> bool {
    let mut actions = rule.clauses.iter().map(|(_, action)| action).chain([&rule.otherwise]);
    actions.any(|action| *action == SyscallAction::Allow)
}
