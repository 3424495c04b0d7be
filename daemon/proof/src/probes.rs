//! The probes. Each has an attempt, the layer that must stop it and with which answer, and a
//! control: an attempt of the same kind that must succeed.

use palisade_plan::Layer;

/// The outcome of the same attempt outside the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideOutcome {
    /// The attempt succeeds, which is tested each time: only the session prevents it.
    Succeeds,
    /// The attempt is not made outside.
    Untried,
}

/// The time at which the outcome of an attempt is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeTime {
    /// At once, from the kernel's answer.
    AtOnce,
    /// At the end of the program, when its changes are committed or discarded.
    AtTheEnd,
}

/// The networks in which an attempt is an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeNetworks {
    /// All networks.
    Every,
    /// The session's own network.
    Own,
    /// The session's own network in which nothing is up.
    Nothing,
    /// The session's own network with a loopback.
    Loopback,
    /// The host's network, of which the session may use some ports.
    Ports,
}

impl ProbeNetworks {
    /// Returns `true` if a network, given by its name in receipts, is one of these. A session
    /// without a network namespace, which the profile allows, is tested as if it had one.
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

/// One escape attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The name of the probe.
    pub name: &'static str,
    /// A short description of the attempt.
    pub tries: &'static str,
    /// The layer that must stop it.
    pub layer: Layer,
    /// The system call that the filter must refuse, if the layer is the filter.
    pub call: Option<&'static str>,
    /// The answer of that layer.
    pub stopped: &'static str,
    /// The attempt, with placeholders.
    pub(crate) attempt: &'static str,
    /// The control: an attempt of the same kind that must succeed inside.
    pub(crate) control: &'static str,
    /// The outcome of the attempt outside, if it is made there.
    pub(crate) outside: OutsideOutcome,
    /// The time at which the outcome is known.
    pub when: OutcomeTime,
    /// A Landlock scope without which the kernel can not stop the attempt.
    pub(crate) scope: Option<&'static str>,
    /// The networks in which the attempt is an escape.
    pub within: ProbeNetworks,
}

impl Probe {
    const fn within(self, within: ProbeNetworks) -> Self {
        Self { within, ..self }
    }
}

pub(crate) const fn kept(
    name: &'static str,
    tries: &'static str,
    layer: Layer,
    (attempt, stopped): (&'static str, &'static str),
    control: &'static str,
    outside: OutsideOutcome,
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
        when: OutcomeTime::AtOnce,
        scope: None,
        within: ProbeNetworks::Every,
    }
}

/// Defines a probe for the filter. The filter comes before anything else in the kernel, so a call
/// that it refuses is stopped by it, whatever else would stop it.
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

use OutsideOutcome::{Succeeds, Untried};

/// The probes for every profile, by layer.
pub const PROBES: [Probe; 47] = [
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
        "append {scratch}/palisade-proof",
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
        "add a program to the system's",
        Layer::Mount,
        ("make-directory /usr/palisade-proof", "EROFS"),
        "make-directory {scratch}/palisade-proof-1",
        Untried,
    ),
    kept(
        "write-root",
        "make a directory in the root",
        Layer::Mount,
        ("make-directory /palisade-proof", "EROFS"),
        "make-directory {scratch}/palisade-proof-2",
        Untried,
    ),
    kept(
        "write-proc",
        "open one of its own settings in /proc for writing",
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
        "append {shared-scratch}/palisade-proof",
        Succeeds,
    ),
    kept(
        "read-closed",
        "read a file of the workspace that is closed to everybody",
        Layer::Mount,
        ("read {closed}", "EACCES"),
        "read {inside}",
        Untried,
    ),
    kept(
        "write-terminal",
        "write to a terminal of the same user outside",
        Layer::Mount,
        ("open-terminal {terminal}", "ENOENT"),
        "read /dev/null",
        Succeeds,
    ),
    kept(
        "list-keys",
        "list the keys of the user in the kernel",
        Layer::Mount,
        ("read /proc/keys", "EACCES"),
        "read /proc/self/stat",
        Untried,
    ),
    kept(
        "reach-socket",
        "connect to a socket of the same user outside",
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
        "make-directory {scratch}/palisade-proof-3",
        Untried,
    ),
    Probe {
        scope: Some("Signal"),
        ..kept(
            "signal-keeper",
            "signal the process that supervises the session's programs, which has the same user",
            Layer::Landlock,
            ("signal 1", "EPERM"),
            "signal self",
            Untried,
        )
    },
    kept(
        "reach-process",
        "find and signal a process of the same user outside",
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
    .within(ProbeNetworks::Own),
    kept(
        "send-away",
        "send a datagram to an address of the internet",
        Layer::Network,
        ("send-udp 192.0.2.1:53", "ENETUNREACH"),
        "{own}",
        Untried,
    )
    .within(ProbeNetworks::Own),
    kept(
        "reach-metadata",
        "connect to the address at which clouds serve credentials",
        Layer::Network,
        ("connect-tcp 169.254.169.254:80", "ENETUNREACH"),
        "{own}",
        Untried,
    )
    .within(ProbeNetworks::Own),
    kept(
        "reach-host-loopback",
        "connect to a service on the host's loopback",
        Layer::Network,
        ("connect-tcp 127.0.0.1:{port}", "ECONNREFUSED"),
        "{own}",
        Succeeds,
    )
    .within(ProbeNetworks::Loopback),
    kept(
        "reach-any-loopback",
        "connect to any loopback",
        Layer::Network,
        ("connect-tcp 127.0.0.1:{port}", "ENETUNREACH"),
        "{own}",
        Succeeds,
    )
    .within(ProbeNetworks::Nothing),
    kept(
        "reach-abstract-socket",
        "connect to an abstract socket outside",
        Layer::Network,
        ("connect-abstract {abstract}", "ECONNREFUSED"),
        "pair",
        Succeeds,
    )
    .within(ProbeNetworks::Own),
    kept(
        "reach-other-port",
        "connect to a port of the host that the profile does not list",
        Layer::Landlock,
        ("connect-tcp 127.0.0.1:{port}", "EACCES"),
        "reach-tcp 127.0.0.1:{listed}",
        Succeeds,
    )
    .within(ProbeNetworks::Ports),
    kept(
        "serve",
        "serve on a port of the host",
        Layer::Landlock,
        ("serve-tcp 127.0.0.1:0", "EACCES"),
        "reach-tcp 127.0.0.1:{listed}",
        Succeeds,
    )
    .within(ProbeNetworks::Ports),
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
        .within(ProbeNetworks::Ports)
    },
    kept(
        "share-ipc",
        "use the System V and POSIX IPC of the host",
        Layer::Ipc,
        ("namespace {ipc}", "another"),
        "open-namespace ipc",
        Succeeds,
    ),
    kept(
        "share-host-name",
        "share the host's name",
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
    filtered("mount", "mount a file system", "mount", "mount {scratch}", "directory {scratch}"),
    filtered(
        "change-root",
        "change the root",
        "chroot",
        "change-root {scratch}",
        "directory {scratch}",
    ),
    filtered(
        "pivot-root",
        "replace the root",
        "pivot_root",
        "pivot-root {scratch}",
        "directory {scratch}",
    ),
    filtered("make-user-namespace", "become root of a namespace", "unshare", "unshare", "thread"),
    filtered("enter-namespace", "enter a namespace", "setns", "enter net", "open-namespace net"),
    filtered(
        "make-device",
        "make a device",
        "mknodat",
        "make-device {scratch}/device",
        "make-fifo {scratch}/fifo",
    ),
    filtered(
        "leave-device",
        "leave a device behind by renaming a file",
        "renameat2",
        "rename-whiteout {scratch}/palisade-proof-whiteout",
        "rename-plain {scratch}/palisade-proof-plain",
    ),
    filtered(
        "lend-rights",
        "make a file run with its owner's rights",
        "chmod",
        "set-user-id {scratch}/palisade-proof-owner",
        "set-mode {scratch}/palisade-proof-mode",
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
        "watch {scratch}",
    ),
    filtered(
        "load-module",
        "load code into the kernel",
        "finit_module",
        "load-module /dev/null",
        "read /dev/null",
    ),
    filtered("name-host", "set the host's name", "sethostname", "name-host", "host-name"),
    filtered("set-clock", "set the host's clock", "clock_settime", "set-clock", "clock"),
    filtered("raw-packets", "see all packets", "socket", "socket packet", "{inet}"),
    filtered(
        "virtual-sockets",
        "open a socket to the hypervisor",
        "socket",
        "socket vsock",
        "{inet}",
    ),
    filtered(
        "kernel-audit",
        "open a socket to the kernel audit",
        "socket",
        "socket audit",
        "{inet}",
    ),
    filtered("send-datagram", "send a datagram", "socket", "send-udp 192.0.2.1:53", "{inet}")
        .within(ProbeNetworks::Ports),
    filtered("list-interfaces", "list interfaces", "socket", "socket route", "{inet}")
        .within(ProbeNetworks::Ports),
    filtered("listen", "get a port of the host by listening", "listen", "listen", "pair")
        .within(ProbeNetworks::Ports),
];
