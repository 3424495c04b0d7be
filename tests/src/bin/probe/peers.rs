//! Attempts of `probe` to accept connections from other processes, and to reach them.

use crate::{Answer, check, io, parse};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::{
    ffi::CString,
    io::{Error, Read as _, Write as _},
    mem::zeroed,
    net::{SocketAddrV4, TcpListener, TcpStream},
    os::{
        fd::{AsRawFd as _, FromRawFd as _},
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
    },
};

pub(crate) fn attempt(words: &[String]) -> Option<Answer> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    Some(match word(0) {
        "serve" => io(TcpListener::bind("0.0.0.0:0").and_then(|l| serve(&l, word(1)))),
        "bind_tcp" => bind(SocketType::STREAM, word(1), word(2)),
        "bind_udp" => bind(SocketType::DGRAM, word(1), word(2)),
        "serve_unbound" => io(unbound().and_then(|l| serve(&l, word(1)))),
        "fetch" => fetch(word(1), parse(word(2))),
        "unix_serve" => io(UnixListener::bind(word(1)).and_then(|l| l.accept())),
        "abstract_serve" => io(abstract_name(word(1))
            .and_then(|name| UnixListener::bind_addr(&name))
            .and_then(|listener| listener.accept())),
        "abstract_own" => abstract_own(word(1)),
        "abstract_datagram" => io(abstract_name(word(1)).and_then(|name| {
            UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(b"probe", &name))
        })),
        "unixgram_many" => unixgram_many(word(1)),
        "queue" => queue(word(1), parse(word(2))),
        _ => return None,
    })
}

/// Takes an address, and shares it with whoever else would.
fn bind(kind: SocketType, host: &str, port: &str) -> Answer {
    let Ok(address) = format!("{host}:{port}").parse::<SocketAddrV4>() else {
        return Err(libc::EINVAL);
    };
    let taken = || {
        let socket = rustix::net::socket(AddressFamily::INET, kind, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        rustix::net::bind(&socket, &address)
    };
    taken().map_err(|error| error.raw_os_error())
}

/// Writes its port to a file, then sends one line to one client.
fn serve(listener: &TcpListener, file: &str) -> std::io::Result<()> {
    let port = listener.local_addr()?.port();
    std::fs::write(file, port.to_string())?;
    let (mut caller, _) = listener.accept()?;
    caller.write_all(b"served\n")
}

/// Calls `listen` without `bind`: the kernel chooses a port, which bypasses a rule on `bind`.
fn unbound() -> std::io::Result<TcpListener> {
    // SAFETY: socket touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    // SAFETY: listen touches no memory.
    if fd < 0 || unsafe { libc::listen(fd, 1) } < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nothing else owns it.
    Ok(unsafe { TcpListener::from_raw_fd(fd) })
}

/// Connects to `serve` and checks the line that it sends.
fn fetch(file: &str, host: libc::c_long) -> Answer {
    let read = || {
        let port: u16 = std::fs::read_to_string(file)?.parse().map_err(Error::other)?;
        let mut text = String::new();
        let host = if host == 0 { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
        TcpStream::connect((std::net::Ipv4Addr::from(host), port))?.read_to_string(&mut text)?;
        if text == "served\n" { Ok(()) } else { Err(Error::other(text)) }
    };
    io(read())
}

fn abstract_name(name: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Binds an abstract socket name and connects to it.
fn abstract_own(name: &str) -> Answer {
    io(abstract_name(name).and_then(|name| {
        let _listener = UnixListener::bind_addr(&name)?;
        UnixStream::connect_addr(&name)
    }))
}

/// Sends one datagram with `sendmmsg`.
fn unixgram_many(path: &str) -> Answer {
    let socket = UnixDatagram::unbound().map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: all-zero is a value of this plain structure.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    // SAFETY: all-zero is a value of this plain structure.
    let mut header: libc::mmsghdr = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (slot, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
        *slot = byte as libc::c_char;
    }
    let mut bytes = *b"probe";
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    header.msg_hdr.msg_name = (&raw mut address).cast();
    header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_un>() as u32;
    header.msg_hdr.msg_iov = &raw mut part;
    header.msg_hdr.msg_iovlen = 1;
    // SAFETY: one header, whose pointers are to live values of the sizes given.
    check(unsafe { libc::sendmmsg(socket.as_raw_fd(), &raw mut header, 1, 0) }.into())
}

/// Opens a POSIX message queue; creates it if requested.
fn queue(name: &str, make: libc::c_long) -> Answer {
    let Ok(name) = CString::new(format!("/{name}")) else { return Err(libc::EINVAL) };
    // SAFETY: all-zero is a value of this plain structure.
    let mut attributes: libc::mq_attr = unsafe { zeroed() };
    (attributes.mq_maxmsg, attributes.mq_msgsize) = (1, 8);
    let flags = if make == 0 { libc::O_RDONLY } else { libc::O_RDONLY | libc::O_CREAT };
    // SAFETY: a C string, and attributes that live through the call.
    check(unsafe { libc::mq_open(name.as_ptr(), flags, 0o666, &raw mut attributes) }.into())
}
