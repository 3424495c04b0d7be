//! The kernel's audit records: a socket that gets those about refusals and no others, and an audit
//! session by which those of one runner are known. Room: the cell.

use crate::kernel;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, setsockopt, socket, sockopt,
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

/// Changes of the audit's own settings, refusals of a filter, refusals of Landlock, and whose domain
/// that was. Nothing else of a host's audit log is any business of the broker's.
const TYPES: [u16; 4] = [1305, 1326, 1423, 1424];

/// The group that hears all records.
const READ_LOG: u32 = 1;

/// What may wait to be read: some ten thousand records.
const BUFFER: usize = 4 << 20;

/// Listens for records.
pub(crate) fn listen() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let audit = SockProtocol::NetlinkAudit;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, audit)?;
    // Before it is bound, so that nothing else ever waits in it.
    kernel::socket_filter(socket.as_fd(), &mut filter())?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, READ_LOG))?;
    Ok(socket)
}

/// Lets through messages of the [`TYPES`].
fn filter() -> Vec<libc::sock_filter> {
    const LOAD_HALF: u16 = 0x28;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut filter = vec![instruction(LOAD_HALF, 0, 4)];
    for (kind, after) in TYPES.into_iter().zip((1..=4).rev()) {
        // Loaded as if it came from a network, and written as this machine does.
        filter.push(instruction(JUMP_EQUAL, after, kind.to_be().into()));
    }
    filter.push(instruction(RETURN, 0, 0));
    filter.push(instruction(RETURN, 0, u32::MAX));
    filter
}

/// Has the filter refuse something to this process while it goes by the name of a call: when the
/// record of that has come, so has every record of what the call was refused. Nobody else can make
/// it, since the name is known to nobody else, and no program of the call is left that could read it.
pub(crate) fn fence(mark: Option<&CStr>) {
    let Some(mark) = mark else { return };
    let own = rustix::thread::name();
    if rustix::thread::set_name(mark).is_err() {
        return;
    }
    // That it is refused is all that matters; were it allowed after all it would do nothing.
    rustix::process::chroot(c"/").unwrap_or_default();
    if let Ok(own) = own {
        // Only `ps` shows it.
        rustix::thread::set_name(&own).unwrap_or_default();
    }
}

/// Begins an audit session, which everything that this process starts will be in; gives its number.
/// Only a process that no login has led to may, unless it has privilege over the audit.
pub(crate) fn begin_session(uid: u32) -> io::Result<u32> {
    std::fs::write("/proc/self/loginuid", uid.to_string())?;
    let text = std::fs::read_to_string("/proc/self/sessionid")?;
    match text.trim().parse() {
        Ok(u32::MAX) | Err(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
        Ok(number) => Ok(number),
    }
}
