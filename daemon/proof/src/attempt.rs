//! Makes one attempt, given by a word and its subject, and returns the kernel's answer. It judges
//! nothing. This runs inside a session, and changes nothing on the host even if nothing stops it.
//! Names that it creates are its own, and what it opens is only opened.

use crate::{
    acts::names,
    answer::{Answer, answer},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::{
        fanotify::{EventFFlags, Fanotify, InitFlags},
        inotify::{AddWatchFlags, InitFlags as InotifyFlags, Inotify},
        personality::{self, Persona},
        signal::kill,
        socket::{AddressFamily, Backlog, SockFlag, SockProtocol, SockType, listen, socket},
        stat::{Mode, SFlag, makedev, mknod},
        uio::{RemoteIoVec, process_vm_readv},
    },
    time::{ClockId, clock_gettime, clock_settime},
    unistd::Pid,
};
use rustix::fs::{CWD, RenameFlags};
use std::{
    fs,
    io::{self, IoSliceMut},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixStream},
        },
    },
    path::Path,
    time::Duration,
};

/// The time to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The flag for reporting file ids instead of descriptors.
const FAN_REPORT_FID: u32 = 0x200;

/// Makes attempts one after another, and returns a line for each.
pub fn report<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    words.into_iter().map(|word| format!("{}\n", attempt(word.as_ref()))).collect()
}

/// Makes one attempt.
#[must_use]
pub fn attempt(word: &str) -> Answer {
    let (act, about) = word.split_once(' ').unwrap_or((word, ""));
    let files = files(act, about).or_else(|| others(act, about));
    let files = files.or_else(|| names(act, Path::new(about)));
    match files.or_else(|| filtered(act, about)) {
        Some(answer) => answer,
        None => Answer::Refused(Errno::ENOTSUP),
    }
}

fn kernel<T>(result: nix::Result<T>) -> Answer {
    result.map_or_else(Answer::Refused, |_| Answer::Done)
}

fn files(act: &str, about: &str) -> Option<Answer> {
    Some(match act {
        "read" => answer(fs::File::open(about)),
        "append" => {
            // A missing file is created only where the session may have files of its own.
            let own = about.ends_with("/palisade-proof");
            answer(fs::OpenOptions::new().append(true).create(own).open(about))
        }
        // Without NOCTTY it could become the terminal of this process.
        "open-terminal" => {
            let flags = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            kernel(open(about, flags, Mode::empty()))
        }
        "make-directory" => answer(fs::create_dir(about)),
        "directory" => answer(fs::read_dir(about)),
        "make-fifo" => kernel(mknod(about, SFlag::S_IFIFO, Mode::S_IRWXU, 0)),
        "connect-path" => answer(UnixStream::connect(about)),
        "connect-abstract" => answer(
            SocketAddr::from_abstract_name(about)
                .and_then(|address| UnixStream::connect_addr(&address)),
        ),
        "pair" => answer(UnixStream::pair()),
        _ => return None,
    })
}

fn others(act: &str, about: &str) -> Option<Answer> {
    Some(match act {
        "signal" => match about.parse() {
            Ok(pid) => kernel(kill(Pid::from_raw(pid), None)),
            Err(_) => kernel(kill(Pid::this(), None)),
        },
        "process" => process(about),
        "connect-tcp" => match about.parse() {
            Ok(address) => answer(TcpStream::connect_timeout(&address, PATIENCE)),
            Err(_) => Answer::Refused(Errno::EINVAL),
        },
        // It does not matter whether anybody listens there: nothing stopped the connection attempt.
        "reach-tcp" => match others("connect-tcp", about)? {
            Answer::Refused(Errno::ECONNREFUSED) => Answer::Done,
            answer @ (Answer::Done | Answer::Refused(_) | Answer::Another) => answer,
        },
        "serve-tcp" => answer(TcpListener::bind(about)),
        "send-udp" => answer(
            UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"palisade", about)),
        ),
        "loopback" => answer(TcpListener::bind("127.0.0.1:0").and_then(|listener| {
            let connected = TcpStream::connect(listener.local_addr()?)?;
            listener.accept().map(|accepted| (connected, accepted))
        })),
        "namespace" => namespace(about),
        "open-namespace" => answer(fs::File::open(format!("/proc/self/ns/{about}"))),
        "thread" => answer(std::thread::Builder::new().spawn(|| ())),
        _ => return None,
    })
}

fn filtered(act: &str, about: &str) -> Option<Answer> {
    let nothing = None::<&str>;
    Some(match act {
        "mount" => kernel(mount(Some("palisade"), about, Some("tmpfs"), MsFlags::empty(), nothing)),
        "change-root" => kernel(nix::unistd::chroot(about)),
        "pivot-root" => kernel(nix::unistd::pivot_root(about, about)),
        "unshare" => kernel(unshare(CloneFlags::CLONE_NEWUSER)),
        "enter" => {
            let namespace = open(
                format!("/proc/self/ns/{about}").as_str(),
                OFlag::O_RDONLY | OFlag::O_CLOEXEC,
                Mode::empty(),
            );
            kernel(namespace.and_then(|namespace| setns(namespace, CloneFlags::empty())))
        }
        // The device number of an overlay whiteout, which can be created without a capability.
        "make-device" => {
            let whiteout = makedev(0, 0);
            kernel(mknod(about, SFlag::S_IFCHR, Mode::S_IRWXU, whiteout))
        }
        "rename-whiteout" => answer(renamed(about, RenameFlags::WHITEOUT)),
        "rename-plain" => answer(renamed(about, RenameFlags::empty())),
        "set-user-id" => answer(with_mode(about, 0o4700)),
        "set-mode" => answer(with_mode(about, 0o700)),
        "read-memory" => read_memory(),
        "unrandomise" => kernel(personality::set(Persona::ADDR_NO_RANDOMIZE)),
        "persona" => kernel(personality::get()),
        // The form of fanotify that an ordinary user may use.
        "watch-all" => {
            let flags = InitFlags::from_bits_retain(FAN_REPORT_FID);
            kernel(Fanotify::init(flags, EventFFlags::O_RDONLY))
        }
        "watch" => kernel(
            Inotify::init(InotifyFlags::IN_CLOEXEC)
                .and_then(|watch| watch.add_watch(about, AddWatchFlags::IN_CREATE)),
        ),
        "load-module" => match fs::File::open(about) {
            Ok(file) => {
                let flags = nix::kmod::ModuleInitFlags::empty();
                kernel(nix::kmod::finit_module(&file, c"", flags))
            }
            Err(error) => answer(Err::<(), _>(error)),
        },
        "name-host" => kernel(nix::unistd::gethostname().and_then(nix::unistd::sethostname)),
        "host-name" => kernel(nix::unistd::gethostname()),
        "set-clock" => kernel(
            clock_gettime(ClockId::CLOCK_REALTIME)
                .and_then(|now| clock_settime(ClockId::CLOCK_REALTIME, now)),
        ),
        "clock" => kernel(clock_gettime(ClockId::CLOCK_REALTIME)),
        "socket" => make_socket(about),
        "listen" => kernel(
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
                .and_then(|socket| listen(&socket, Backlog::new(1)?)),
        ),
        _ => return None,
    })
}

fn make_socket(kind: &str) -> Answer {
    let (family, kind, protocol) = match kind {
        "packet" => (AddressFamily::Packet, SockType::Raw, None),
        "vsock" => (AddressFamily::Vsock, SockType::Stream, None),
        "audit" => (AddressFamily::Netlink, SockType::Raw, Some(SockProtocol::NetlinkAudit)),
        "route" => (AddressFamily::Netlink, SockType::Raw, Some(SockProtocol::NetlinkRoute)),
        "inet" => (AddressFamily::Inet, SockType::Stream, None),
        _ => return Answer::Refused(Errno::EINVAL),
    };
    kernel(socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol))
}

/// Creates a file and renames it.
fn renamed(path: &str, flags: RenameFlags) -> io::Result<()> {
    fs::write(path, "palisade\n")?;
    let other = format!("{path}.renamed");
    rustix::fs::renameat_with(CWD, path, CWD, other.as_str(), flags).map_err(Into::into)
}

/// Creates a file and changes its mode.
fn with_mode(path: &str, mode: u32) -> io::Result<()> {
    fs::write(path, "palisade\n")?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Reads this process's own memory, with the call that can read another's.
fn read_memory() -> Answer {
    let (source, mut target) = ([7_u8; 8], [0_u8; 8]);
    let remote = [RemoteIoVec { base: source.as_ptr().addr(), len: source.len() }];
    kernel(process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut target)], &remote))
}

/// Checks whether this process is in a namespace, given by its type and the kernel's name for it.
fn namespace(about: &str) -> Answer {
    let (kind, name) = about.split_once(' ').unwrap_or((about, ""));
    match fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(found) if found.as_os_str() == name => Answer::Done,
        Ok(_) => Answer::Another,
        Err(error) => answer(Err::<(), _>(error)),
    }
}

/// Signals a process that is identified by its pid and start time, since the pid alone may belong
/// to another process here.
fn process(about: &str) -> Answer {
    let about = if about == "self" { identity() } else { Ok(about.to_owned()) };
    let Ok(about) = about else { return Answer::Refused(Errno::EIO) };
    let (number, start) = about.split_once(' ').unwrap_or((&about, ""));
    let found = fs::read_to_string(format!("/proc/{number}/stat"));
    match (found.ok().and_then(|stat| started(&stat)), number.parse()) {
        (Some(found), Ok(pid)) if found == start => kernel(kill(Pid::from_raw(pid), None)),
        (Some(_) | None, _) => Answer::Refused(Errno::ESRCH),
    }
}

/// Returns the pid and start time of this process.
pub(crate) fn identity() -> io::Result<String> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let start = started(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(format!("{} {start}", std::process::id()))
}

/// Returns the start time from field 22 of `stat`. The second field may contain any characters.
fn started(stat: &str) -> Option<String> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19).map(str::to_owned)
}
