//! One attempt: a word and what it is about, and the kernel's answer. It decides nothing. What runs
//! inside a session is this, and nothing it does changes the host if nothing stops it: names that
//! are made are its own, and what is opened is only opened.

use crate::{
    acts::names,
    answer::{Answer, told},
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
use std::{
    fs,
    io::{self, IoSliceMut},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixStream},
    },
    path::Path,
    time::Duration,
};

/// How long a connection is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports names instead of descriptors.
const FAN_REPORT_FID: u32 = 0x200;

/// Makes attempts, one after another; a line for each.
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
        "read" => told(fs::File::open(about)),
        "append" => {
            // A file that is not there is made only where the session may keep files of its own.
            let own = about.starts_with("/tmp/") || about.starts_with("/dev/shm/palisade-proof");
            told(fs::OpenOptions::new().append(true).create(own).open(about))
        }
        "make-directory" => told(fs::create_dir(about)),
        "directory" => told(fs::read_dir(about)),
        "make-fifo" => kernel(mknod(about, SFlag::S_IFIFO, Mode::S_IRWXU, 0)),
        "connect-path" => told(UnixStream::connect(about)),
        "connect-abstract" => told(
            SocketAddr::from_abstract_name(about)
                .and_then(|address| UnixStream::connect_addr(&address)),
        ),
        "pair" => told(UnixStream::pair()),
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
            Ok(address) => told(TcpStream::connect_timeout(&address, PATIENCE)),
            Err(_) => Answer::Refused(Errno::EINVAL),
        },
        // Whether somebody is there does not matter: nothing kept it from going there.
        "reach-tcp" => match others("connect-tcp", about)? {
            Answer::Refused(Errno::ECONNREFUSED) => Answer::Done,
            answer @ (Answer::Done | Answer::Refused(_) | Answer::Another) => answer,
        },
        "serve-tcp" => told(TcpListener::bind(about)),
        "send-udp" => {
            told(UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"palisade", about)))
        }
        "loopback" => told(TcpListener::bind("127.0.0.1:0").and_then(|listener| {
            let connected = TcpStream::connect(listener.local_addr()?)?;
            listener.accept().map(|accepted| (connected, accepted))
        })),
        "namespace" => namespace(about),
        "open-namespace" => told(fs::File::open(format!("/proc/self/ns/{about}"))),
        "thread" => told(std::thread::Builder::new().spawn(|| ())),
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
        // The device of an overlay's whiteout: the one that needs no capability.
        "make-device" => {
            let whiteout = makedev(0, 0);
            kernel(mknod(about, SFlag::S_IFCHR, Mode::S_IRWXU, whiteout))
        }
        "read-memory" => read_memory(),
        "unrandomise" => kernel(personality::set(Persona::ADDR_NO_RANDOMIZE)),
        "persona" => kernel(personality::get()),
        // What an ordinary user may have of it.
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
            Err(error) => told(Err::<(), _>(error)),
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

/// Reads this process's own memory, by the call that reads another's.
fn read_memory() -> Answer {
    let (source, mut target) = ([7_u8; 8], [0_u8; 8]);
    let remote = [RemoteIoVec { base: source.as_ptr().addr(), len: source.len() }];
    kernel(process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut target)], &remote))
}

/// Whether this process is in a namespace: its kind, and the kernel's name of it.
fn namespace(about: &str) -> Answer {
    let (kind, name) = about.split_once(' ').unwrap_or((about, ""));
    match fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(found) if found.as_os_str() == name => Answer::Done,
        Ok(_) => Answer::Another,
        Err(error) => told(Err::<(), _>(error)),
    }
}

/// Signals a process that is known by its number and the time of its start: the number alone may be
/// somebody else's here.
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

/// This process by number and start.
pub(crate) fn identity() -> io::Result<String> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let start = started(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(format!("{} {start}", std::process::id()))
}

/// The time of the start, the 22nd field; the second may have anything in it.
fn started(stat: &str) -> Option<String> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19).map(str::to_owned)
}
