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

/// In which networks an escape is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// In each.
    Every,
    /// In one of the session's own.
    Own,
    /// In one of its own in which nothing is up.
    Nothing,
    /// In one of its own with a loopback.
    Loopback,
    /// In the host's, of which the session has some ports.
    Ports,
}

impl Within {
    /// Whether a network is one of them, as receipts name it. What has no network namespace, by the
    /// profile's leave, is tried as if it had one.
    #[must_use]
    pub fn has(self, mode: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Own => mode != "ports",
            Self::Nothing => mode == "none",
            Self::Loopback => mode != "ports" && mode != "none",
            Self::Ports => mode == "ports",
        }
    }
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
    /// In which networks.
    pub within: Within,
}

impl Probe {
    const fn within(self, within: Within) -> Self {
        Self { within, ..self }
    }
}

pub(crate) const fn kept(
    name: &'static str,
    tries: &'static str,
    layer: Layer,
    (attempt, stopped): (&'static str, &'static str),
    control: &'static str,
    outside: Outside,
) -> Probe {
    Probe {
        name,
        tries,
        layer,
        call: None,
        stopped,
        attempt,
        control,
        outside,
        when: When::AtOnce,
        scope: None,
        within: Within::Every,
    }
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
pub const PROBES: [Probe; 42] = [
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
        "{own}",
        Untried,
    )
    .within(Within::Own),
    kept(
        "send-away",
        "send a datagram to an address of the internet",
        Layer::Network,
        ("send-udp 192.0.2.1:53", "ENETUNREACH"),
        "{own}",
        Untried,
    )
    .within(Within::Own),
    kept(
        "reach-metadata",
        "connect to the address at which clouds give out credentials",
        Layer::Network,
        ("connect-tcp 169.254.169.254:80", "ENETUNREACH"),
        "{own}",
        Untried,
    )
    .within(Within::Own),
    kept(
        "reach-host-loopback",
        "connect to a service on the host's loopback",
        Layer::Network,
        ("connect-tcp 127.0.0.1:{port}", "ECONNREFUSED"),
        "{own}",
        Succeeds,
    )
    .within(Within::Loopback),
    kept(
        "reach-any-loopback",
        "connect to any loopback",
        Layer::Network,
        ("connect-tcp 127.0.0.1:{port}", "ENETUNREACH"),
        "{own}",
        Succeeds,
    )
    .within(Within::Nothing),
    kept(
        "reach-abstract-socket",
        "connect to an abstract socket outside",
        Layer::Network,
        ("connect-abstract {abstract}", "ECONNREFUSED"),
        "pair",
        Succeeds,
    )
    .within(Within::Own),
    kept(
        "reach-other-port",
        "connect to a port of the host that the profile does not have",
        Layer::Landlock,
        ("connect-tcp 127.0.0.1:{port}", "EACCES"),
        "reach-tcp 127.0.0.1:{listed}",
        Succeeds,
    )
    .within(Within::Ports),
    kept(
        "serve",
        "serve on a port of the host",
        Layer::Landlock,
        ("serve-tcp 127.0.0.1:0", "EACCES"),
        "reach-tcp 127.0.0.1:{listed}",
        Succeeds,
    )
    .within(Within::Ports),
    Probe {
        scope: Some("AbstractUnixSocket"),
        ..kept(
            "reach-host-abstract",
            "connect to an abstract socket of the network that it is in",
            Layer::Landlock,
            ("connect-abstract {abstract}", "EPERM"),
            "pair",
            Succeeds,
        )
        .within(Within::Ports)
    },
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
        "socket inet",
    ),
    filtered("send-datagram", "send a datagram", "socket", "send-udp 192.0.2.1:53", "socket inet")
        .within(Within::Ports),
    filtered("list-interfaces", "list interfaces", "socket", "socket route", "socket inet")
        .within(Within::Ports),
    filtered("listen", "be given a port of the host by listening", "listen", "listen", "pair")
        .within(Within::Ports),
];
