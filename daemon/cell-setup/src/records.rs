//! Access to the kernel's audit records: a socket that receives only those about denials, and an
//! audit session that identifies the records of one runner. Runs in the cell.

use crate::kernel;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, setsockopt, socket, sockopt,
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

/// The record types received: changes of the audit configuration, denials by a filter, denials by
/// Landlock, and the Landlock domain of a denial. The rest of a host's audit log is no business of
/// the broker.
const TYPES: [u16; 4] = [1305, 1326, 1423, 1424];

/// The multicast group that receives all records.
const READ_LOG: u32 = 1;

/// The size of the receive buffer: some ten thousand records.
const BUFFER: usize = 4 << 20;

/// Opens a socket that receives the records.
pub(crate) fn listen() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let audit = SockProtocol::NetlinkAudit;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, audit)?;
    // Before binding, so that no other record is ever queued.
    kernel::socket_filter(socket.as_fd(), &mut filter())?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, READ_LOG))?;
    Ok(socket)
}

/// Builds a socket filter that passes messages of the [`TYPES`].
fn filter() -> Vec<libc::sock_filter> {
    const LOAD_HALF: u16 = 0x28;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut filter = vec![instruction(LOAD_HALF, 0, 4)];
    for (kind, after) in TYPES.into_iter().zip((1..=4).rev()) {
        // The filter loads in network byte order, and the field is in the host's byte order.
        filter.push(instruction(JUMP_EQUAL, after, kind.to_be().into()));
    }
    filter.push(instruction(RETURN, 0, 0));
    filter.push(instruction(RETURN, 0, u32::MAX));
    filter
}

/// Triggers one denial by the filter in this process, under the name of a call. When the record of
/// that has arrived, so has every record of the call's own denials. Nobody can forge it: nobody
/// else knows the name, and no program of the call is left that could read it.
pub fn fence(mark: Option<&CStr>) {
    let Some(mark) = mark else { return };
    let own = rustix::thread::name();
    if rustix::thread::set_name(mark).is_err() {
        return;
    }
    // Only the denial matters. If it were allowed after all, it would change nothing.
    rustix::process::chroot(c"/").unwrap_or_default();
    if let Ok(own) = own {
        // On failure only `ps` shows the wrong name.
        rustix::thread::set_name(&own).unwrap_or_default();
    }
}

/// Begins an audit session, which everything that this process starts will belong to, and returns
/// its number. Without privilege over the audit system, this works only for a process that does not
/// descend from a login.
pub(crate) fn begin_session(uid: u32) -> io::Result<u32> {
    std::fs::write("/proc/self/loginuid", uid.to_string())?;
    let text = std::fs::read_to_string("/proc/self/sessionid")?;
    match text.trim().parse() {
        Ok(u32::MAX) | Err(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
        Ok(number) => Ok(number),
    }
}
