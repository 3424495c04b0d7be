//! The fixed rules: what no session may do, whatever its plan says. The ceiling proves that a plan's
//! filter allows nothing more, and the cell puts them into every filter that it assembles.
//!
//! They deny only what no profile allows. `ptrace` is therefore not among them.

use super::{Compare, Condition, SyscallAction, SyscallRule};
use crate::Network;
use bincode::{Decode, Encode};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the fixed rules are for x86_64; another architecture needs its numbers");

/// The first number that no system call of a kernel known to this build has. What a later kernel
/// has there can not be judged, so nothing allows it.
pub const FIRST_UNKNOWN: u32 = 470;

/// `EPERM`.
const DENIED: SyscallAction = SyscallAction::Errno(1);

/// `ENOSYS`.
const MISSING: SyscallAction = SyscallAction::Errno(38);

/// All bits that the kernel reads of most arguments.
const ALL: u32 = u32::MAX;

/// The types of a socket without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const TYPE: u32 = 0xfff7_f7ff;

/// An argument's number, the bits that are compared, and their value.
type Test = (u8, u32, u32);

/// System calls that are never allowed.
const NEVER: [(u32, &str); 67] = [
    (103, "syslog"),
    (134, "uselib"),
    (153, "vhangup"),
    (154, "modify_ldt"),
    (155, "pivot_root"),
    (156, "_sysctl"),
    (159, "adjtimex"),
    (161, "chroot"),
    (163, "acct"),
    (164, "settimeofday"),
    (165, "mount"),
    (166, "umount2"),
    (167, "swapon"),
    (168, "swapoff"),
    (169, "reboot"),
    (170, "sethostname"),
    (171, "setdomainname"),
    (172, "iopl"),
    (173, "ioperm"),
    (174, "create_module"),
    (175, "init_module"),
    (176, "delete_module"),
    (177, "get_kernel_syms"),
    (178, "query_module"),
    (179, "quotactl"),
    (180, "nfsservctl"),
    // Its events are counted for the whole host, in no session's limits.
    (206, "io_setup"),
    (212, "lookup_dcookie"),
    (227, "clock_settime"),
    (246, "kexec_load"),
    (248, "add_key"),
    (249, "request_key"),
    (250, "keyctl"),
    (272, "unshare"),
    (298, "perf_event_open"),
    (300, "fanotify_init"),
    (301, "fanotify_mark"),
    (303, "name_to_handle_at"),
    (304, "open_by_handle_at"),
    (305, "clock_adjtime"),
    (308, "setns"),
    (310, "process_vm_readv"),
    (311, "process_vm_writev"),
    (312, "kcmp"),
    (313, "finit_module"),
    (320, "kexec_file_load"),
    (321, "bpf"),
    (323, "userfaultfd"),
    (425, "io_uring_setup"),
    (426, "io_uring_enter"),
    (427, "io_uring_register"),
    (428, "open_tree"),
    (429, "move_mount"),
    (430, "fsopen"),
    (431, "fsconfig"),
    (432, "fsmount"),
    (433, "fspick"),
    // Its flags are behind a pointer, so that a filter can not see namespaces.
    (435, "clone3"),
    (438, "pidfd_getfd"),
    (440, "process_madvise"),
    (442, "mount_setattr"),
    (443, "quotactl_fd"),
    (447, "memfd_secret"),
    (448, "process_mrelease"),
    (457, "statmount"),
    (458, "listmount"),
    (467, "open_tree_attr"),
];

/// System calls that are allowed unless one of these lists of tests holds.
const NOT_WITH: [(u32, &str, &[&[Test]]); 4] = [
    (
        16,
        "ioctl that types into or takes over a terminal",
        &[
            // TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, and TIOCSCTTY that takes it from others.
            &[(1, ALL, 0x5412)],
            &[(1, ALL, 0x541c)],
            &[(1, ALL, 0x5423)],
            &[(1, ALL, 0x541d)],
            &[(1, ALL, 0x540e), (2, ALL, 1)],
        ],
    ),
    // F_SETLEASE and F_SETDELEG hold up programs of the host that open the file, for up to 45 seconds.
    // F_NOTIFY tells when they use a directory.
    (
        72,
        "fcntl with a lease or a notification",
        &[&[(1, ALL, 1024)], &[(1, ALL, 1026)], &[(1, ALL, 1040)]],
    ),
    (133, "mknod of a device", &[&[(1, 0o170_000, 0o020_000)], &[(1, 0o170_000, 0o060_000)]]),
    (259, "mknodat of a device", &[&[(2, 0o170_000, 0o020_000)], &[(2, 0o170_000, 0o060_000)]]),
];

/// System calls that are allowed only if one of these lists of tests holds.
const ONLY_WITH: [(u32, &str, &[&[Test]]); 10] = [
    // The host's pool of huge pages is in no session's limits.
    (9, "mmap of huge pages", &[&[(3, 0x4_0000, 0)]]),
    (29, "shmget of huge pages", &[&[(2, 0o4000, 0)]]),
    (319, "memfd_create of huge pages", &[&[(1, 4, 0)]]),
    // Creating a file with a set-id bit lends its owner's rights to whoever runs it.
    (2, "open of a new set-id file", &[&[(1, 0o20_000_100, 0)], &[(2, 0o6000, 0)]]),
    (257, "openat of a new set-id file", &[&[(2, 0o20_000_100, 0)], &[(3, 0o6000, 0)]]),
    (85, "creat of a set-id file", &[&[(1, 0o6000, 0)]]),
    (53, "socketpair of other than Unix sockets", &[&[(0, ALL, 1)]]),
    // Mount, cgroup, UTS, IPC, user, PID and network namespaces.
    (56, "clone with a new namespace", &[&[(0, 0x7e02_0000, 0)]]),
    (302, "prlimit64 on another process", &[&[(0, ALL, 0)]]),
    // It leaves a device node behind, which needs no privilege.
    (316, "renameat2 with RENAME_WHITEOUT", &[&[(4, 4, 0)]]),
];

/// System calls that change modes, with the argument that has the mode.
const MODE_CHANGES: [(u32, &str, u8); 4] = [
    (90, "chmod to a set-id mode", 1),
    (91, "fchmod to a set-id mode", 1),
    (268, "fchmodat to a set-id mode", 2),
    (452, "fchmodat2 to a set-id mode", 2),
];

/// The set-id bits that the fixed rules leave to a process of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SetIdBits {
    /// Set-gid, by changing a mode: what the process changes is committed without it, or never.
    SetGid,
    /// None. The process may call `openat2`, whose mode a filter can not see.
    None,
    /// None, whatever it calls: `openat2` fails with `ENOSYS`, as on an older kernel, and programs
    /// call `openat` instead.
    NoneByAnyCall,
}

/// The kinds of sockets that the fixed rules leave to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Sockets {
    /// The sockets of networks.
    pub network: NetworkSockets,
    /// The right to make Unix sockets. Without a mount namespace they would reach every socket of the
    /// host that the session's user may connect to, which Landlock does not prevent.
    pub unix: bool,
}

/// The kinds of network sockets that the fixed rules leave to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum NetworkSockets {
    /// The session has its own network: TCP, UDP and `NETLINK_ROUTE`.
    Own,
    /// The session is in the launcher's network and may connect to some ports: TCP.
    Ports,
    /// The session is in the launcher's network because the host has no other for it: none.
    /// Landlock could refuse TCP, but not UDP.
    None,
}

impl Sockets {
    /// Returns the sockets of a session with this network, on a host that has every layer.
    #[must_use]
    pub const fn of(network: &Network) -> Self {
        let network = match network {
            Network::None | Network::Loopback | Network::Domains(_) => NetworkSockets::Own,
            Network::Ports(_) => NetworkSockets::Ports,
        };
        Self { network, unix: true }
    }
}

/// Unix sockets. Like the other lists, this one is in the order of the built-in list of system calls:
/// a rule that is the same needs no second check.
const UNIX_SOCKETS: [&[Test]; 3] =
    [&[(0, ALL, 1), (1, TYPE, 1)], &[(0, ALL, 1), (1, TYPE, 2)], &[(0, ALL, 1), (1, TYPE, 5)]];

/// The network sockets that a session may have in its own network.
const OWN_NETWORK_SOCKETS: [&[Test]; 10] = [
    &[(0, ALL, 2), (1, TYPE, 1), (2, ALL, 0)],
    &[(0, ALL, 2), (1, TYPE, 1), (2, ALL, 6)],
    &[(0, ALL, 2), (1, TYPE, 2), (2, ALL, 0)],
    &[(0, ALL, 2), (1, TYPE, 2), (2, ALL, 17)],
    &[(0, ALL, 10), (1, TYPE, 1), (2, ALL, 0)],
    &[(0, ALL, 10), (1, TYPE, 1), (2, ALL, 6)],
    &[(0, ALL, 10), (1, TYPE, 2), (2, ALL, 0)],
    &[(0, ALL, 10), (1, TYPE, 2), (2, ALL, 17)],
    &[(0, ALL, 16), (1, TYPE, 3), (2, ALL, 0)],
    &[(0, ALL, 16), (1, TYPE, 2), (2, ALL, 0)],
];

/// The network sockets that a session may have in the launcher's own network.
const ON_PORTS_SOCKETS: [&[Test]; 4] = [
    &[(0, ALL, 2), (1, TYPE, 1), (2, ALL, 0)],
    &[(0, ALL, 2), (1, TYPE, 1), (2, ALL, 6)],
    &[(0, ALL, 10), (1, TYPE, 1), (2, ALL, 0)],
    &[(0, ALL, 10), (1, TYPE, 1), (2, ALL, 6)],
];

/// System calls that a session in the launcher's own network may make only with these arguments.
/// Landlock's port rules do not cover the others: TCP Fast Open connects without `connect`.
const ON_PORTS_ONLY_WITH: [(u32, &str, &[&[Test]]); 4] = [
    (44, "sendto with MSG_FASTOPEN", &[&[(3, 0x2000_0000, 0)]]),
    (46, "sendmsg with MSG_FASTOPEN", &[&[(2, 0x2000_0000, 0)]]),
    (307, "sendmmsg with MSG_FASTOPEN", &[&[(3, 0x2000_0000, 0)]]),
    // `listen` on a socket that is not bound assigns a port of the host to it.
    (50, "listen", &[]),
];

/// The fixed rule of one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedRule {
    /// The system call that is denied, in words for messages.
    pub call: &'static str,
    /// The rule. It allows everything that some profile allows.
    pub rule: SyscallRule,
}

/// Returns the fixed rules for processes with these sockets and set-id bits, one for each system call,
/// sorted by number. A call without a rule is allowed, if its number is below [`FIRST_UNKNOWN`].
#[must_use]
pub fn fixed_rules(sockets: Sockets, bits: SetIdBits) -> Vec<FixedRule> {
    let never = NEVER.iter().map(|(number, call)| only_with(*number, call, &[]));
    let not = NOT_WITH.iter().map(|(number, call, tests)| not_with(*number, call, tests));
    let only = ONLY_WITH.iter().map(|(number, call, tests)| only_with(*number, call, tests));
    // A set-gid directory hands its group down, and nothing tells it from a file here.
    let denied = match bits {
        SetIdBits::SetGid => 0o4000,
        SetIdBits::None | SetIdBits::NoneByAnyCall => 0o6000,
    };
    let modes = MODE_CHANGES
        .iter()
        .map(|(number, call, mode)| only_with(*number, call, &[&[(*mode, denied, 0)]]));
    let mut rules: Vec<_> = never.chain(not).chain(only).chain(modes).collect();
    if bits == SetIdBits::NoneByAnyCall {
        rules.push(rule(437, "openat2, which could set a set-id bit", &[], [MISSING; 2]));
    }
    let network: &[&[Test]] = match sockets.network {
        NetworkSockets::Own => &OWN_NETWORK_SOCKETS,
        NetworkSockets::Ports => {
            let on_ports = ON_PORTS_ONLY_WITH.iter();
            rules.extend(on_ports.map(|(number, call, tests)| only_with(*number, call, tests)));
            // TCP_FASTOPEN_CONNECT.
            let fast_open: &[Test] = &[(1, ALL, 6), (2, ALL, 30)];
            rules.push(not_with(54, "setsockopt of TCP_FASTOPEN_CONNECT", &[fast_open]));
            &ON_PORTS_SOCKETS
        }
        NetworkSockets::None => &[],
    };
    let unix: &[&[Test]] = if sockets.unix { &UNIX_SOCKETS } else { &[] };
    let allowed = [unix, network].concat();
    rules.push(only_with(41, "socket of a kind that no session may have", &allowed));
    rules.sort_by_key(|fixed| fixed.rule.number);
    rules
}

fn only_with(number: u32, call: &'static str, tests: &[&[Test]]) -> FixedRule {
    rule(number, call, tests, [SyscallAction::Allow, DENIED])
}

fn not_with(number: u32, call: &'static str, tests: &[&[Test]]) -> FixedRule {
    rule(number, call, tests, [DENIED, SyscallAction::Allow])
}

fn rule(
    number: u32,
    call: &'static str,
    tests: &[&[Test]],
    [action, otherwise]: [SyscallAction; 2],
) -> FixedRule {
    let conditions = |tests: &&[Test]| (tests.iter().map(condition).collect(), action);
    let clauses = tests.iter().map(conditions).collect();
    FixedRule { call, rule: SyscallRule { number, clauses, otherwise } }
}

fn condition(&(argument, mask, value): &Test) -> Condition {
    let (mask, value) = (u64::from(mask), u64::from(value));
    Condition { argument, wide: false, mask, compare: Compare::Equal, value }
}
