//! The probes: what each tries, which layer must stop it and with which answer, and beside it an
//! attempt of the same kind that must succeed.

use palisade_plan::Layer;

/// What the same attempt comes to outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// It succeeds, which is tried each time: only the session keeps it from doing so.
    Succeeds,
    /// It is not tried there.
    Untried,
}

/// When it is known what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// By the kernel's answer.
    AtOnce,
    /// When the program has ended, and what it did counts or does not.
    AtTheEnd,
}

/// One escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: &'static str,
    /// What it tries, in a few words.
    pub tries: &'static str,
    /// The layer that must stop it.
    pub layer: Layer,
    /// The system call that the filter looks at, if it is the filter.
    pub call: Option<&'static str>,
    /// How that layer answers.
    pub stopped: &'static str,
    /// The attempt, with places to be filled in.
    pub(crate) attempt: &'static str,
    /// One of the same kind that must succeed inside.
    pub(crate) control: &'static str,
    /// Whether it is tried outside as well.
    pub(crate) outside: Outside,
    /// When it is known what came of it.
    pub when: When,
    /// A scope of Landlock's without which the kernel can not stop it.
    pub(crate) scope: Option<&'static str>,
}

pub(crate) const fn kept(
    name: &'static str,
    tries: &'static str,
    layer: Layer,
    (attempt, stopped): (&'static str, &'static str),
    control: &'static str,
    outside: Outside,
) -> Probe {
    let when = When::AtOnce;
    Probe { name, tries, layer, call: None, stopped, attempt, control, outside, when, scope: None }
}

/// The filter answers before anything else in the kernel looks at the call, so a call that it
/// refuses is stopped by it, whatever else would.
const fn filtered(
    name: &'static str,
    tries: &'static str,
    call: &'static str,
    attempt: &'static str,
    control: &'static str,
) -> Probe {
    let probe = kept(name, tries, Layer::Seccomp, (attempt, "EPERM"), control, Untried);
    Probe { call: Some(call), ..probe }
}

use Outside::{Succeeds, Untried};

/// What is tried of every profile, by layer.
pub const PROBES: [Probe; 35] = [
    kept(
        "read-beside",
        "read a file beside the workspace",
        Layer::Mount,
        ("read {outside}", "ENOENT"),
        "read {inside}",
        Succeeds,
    ),
    kept(
        "write-beside",
        "change a file beside the workspace",
        Layer::Mount,
        ("append {outside}", "ENOENT"),
        "append /tmp/palisade-proof",
        Untried,
    ),
    kept(
        "read-passwords",
        "read the system's password hashes",
        Layer::Mount,
        ("read /etc/shadow", "ENOENT"),
        "read {inside}",
        Untried,
    ),
    kept(
        "write-programs",
        "put a program among the system's",
        Layer::Mount,
        ("make-directory /usr/palisade-proof", "EROFS"),
        "make-directory /tmp/palisade-proof-1",
        Untried,
    ),
    kept(
        "write-root",
        "make a directory in the root",
        Layer::Mount,
        ("make-directory /palisade-proof", "EROFS"),
        "make-directory /tmp/palisade-proof-2",
        Untried,
    ),
    kept(
        "write-proc",
        "open a setting of its own in /proc to change it",
        Layer::Mount,
        ("append /proc/self/oom_score_adj", "EROFS"),
        "read /proc/self/oom_score_adj",
        Untried,
    ),
    kept(
        "read-memory-device",
        "open the host's memory",
        Layer::Mount,
        ("read /dev/mem", "ENOENT"),
        "read /dev/null",
        Untried,
    ),
    kept(
        "read-shared-memory",
        "read a file of the host's /dev/shm",
        Layer::Mount,
        ("read {shared}", "ENOENT"),
        "append /dev/shm/palisade-proof",
        Succeeds,
    ),
    kept(
        "reach-socket",
        "connect to a socket of the user's own outside",
        Layer::Mount,
        ("connect-path {socket}", "ENOENT"),
        "pair",
        Succeeds,
    ),
    kept(
        "write-run",
        "make a directory in /run, where nothing is granted",
        Layer::Landlock,
        ("make-directory /run/palisade-proof", "EACCES"),
        "make-directory /tmp/palisade-proof-3",
        Untried,
    ),
    Probe {
        scope: Some("Signal"),
        ..kept(
            "signal-keeper",
            "signal the process that looks after the session's programs, of the same user",
            Layer::Landlock,
            ("signal 1", "EPERM"),
            "signal self",
            Untried,
        )
    },
    kept(
        "reach-process",
        "find and signal a process of the user's own outside",
        Layer::Pid,
        ("process {process}", "ESRCH"),
        "process self",
        Succeeds,
    ),
    kept(
        "connect-away",
        "connect to an address of the internet",
        Layer::Network,
        ("connect-tcp 192.0.2.1:443", "ENETUNREACH"),
        "loopback",
        Untried,
    ),
    kept(
        "send-away",
        "send a datagram to an address of the internet",
        Layer::Network,
        ("send-udp 192.0.2.1:53", "ENETUNREACH"),
        "loopback",
        Untried,
    ),
    kept(
        "reach-metadata",
        "connect to the address at which clouds give out credentials",
        Layer::Network,
        ("connect-tcp 169.254.169.254:80", "ENETUNREACH"),
        "loopback",
        Untried,
    ),
    kept(
        "reach-host-loopback",
        "connect to a service on the host's loopback",
        Layer::Network,
        ("connect-tcp 127.0.0.1:{port}", "ECONNREFUSED"),
        "loopback",
        Succeeds,
    ),
    kept(
        "reach-abstract-socket",
        "connect to an abstract socket outside",
        Layer::Network,
        ("connect-abstract {abstract}", "ECONNREFUSED"),
        "pair",
        Succeeds,
    ),
    kept(
        "share-ipc",
        "be in the System V and POSIX IPC of the host",
        Layer::Ipc,
        ("namespace {ipc}", "another"),
        "open-namespace ipc",
        Succeeds,
    ),
    kept(
        "share-host-name",
        "be where the host's name is",
        Layer::Uts,
        ("namespace {uts}", "another"),
        "open-namespace uts",
        Succeeds,
    ),
    kept(
        "share-cgroups",
        "see the host's cgroups",
        Layer::Cgroup,
        ("namespace {cgroup}", "another"),
        "open-namespace cgroup",
        Succeeds,
    ),
    filtered("mount", "mount a file system", "mount", "mount /tmp", "directory /tmp"),
    filtered("change-root", "change the root", "chroot", "change-root /tmp", "directory /tmp"),
    filtered("pivot-root", "exchange the root", "pivot_root", "pivot-root /tmp", "directory /tmp"),
    filtered("make-user-namespace", "become root of a namespace", "unshare", "unshare", "thread"),
    filtered("enter-namespace", "enter a namespace", "setns", "enter net", "open-namespace net"),
    filtered(
        "make-device",
        "make a device",
        "mknodat",
        "make-device /tmp/device",
        "make-fifo /tmp/fifo",
    ),
    filtered(
        "read-other-memory",
        "read a process's memory from outside it",
        "process_vm_readv",
        "read-memory self",
        "read /proc/self/stat",
    ),
    filtered(
        "unrandomise",
        "switch off address randomisation",
        "personality",
        "unrandomise",
        "persona",
    ),
    filtered(
        "watch-file-systems",
        "watch whole file systems",
        "fanotify_init",
        "watch-all",
        "watch /tmp",
    ),
    filtered(
        "load-module",
        "load code into the kernel",
        "finit_module",
        "load-module /dev/null",
        "read /dev/null",
    ),
    filtered("name-host", "name the host", "sethostname", "name-host", "host-name"),
    filtered("set-clock", "set the host's clock", "clock_settime", "set-clock", "clock"),
    filtered("raw-packets", "see all packets", "socket", "socket packet", "socket inet"),
    filtered("virtual-sockets", "speak to the hypervisor", "socket", "socket vsock", "socket inet"),
    filtered(
        "kernel-audit",
        "speak to the kernel's audit",
        "socket",
        "socket audit",
        "socket route",
    ),
];
