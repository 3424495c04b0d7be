//! Checks the descriptors that the broker sends for a session. A cell writes to them before it has
//! given up its privilege, so they must be what the broker itself made.

use crate::wanted::RunnerRequest;
use palisade_plan::launcher::Refusal;
use rustix::{
    fs::{FileType, SealFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketType, sockopt},
};
use std::os::fd::OwnedFd;

/// Refuses channels that are not ends of socket pairs. A connection to a socket of the host would
/// carry the cell's identity to whoever listens there.
pub(crate) fn check_channels(channels: &[OwnedFd]) -> Result<(), Refusal> {
    match channels.iter().all(is_end_of_pair) {
        true => Ok(()),
        false => Err(Refusal::Session("a channel is not one end of a stream socket pair".into())),
    }
}

/// Refuses descriptors of a runner that are not what they must be.
pub(crate) fn check(wanted: &RunnerRequest) -> Result<(), Refusal> {
    check_channels(wanted.channels())?;
    match wanted.scanned().map(is_memory_file) {
        None | Some(true) => Ok(()),
        Some(false) => Err(Refusal::Session("the hidden names are not in a memory file".into())),
    }
}

fn is_end_of_pair(fd: &OwnedFd) -> bool {
    sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(fd) == Ok(SocketType::STREAM)
        && rustix::net::getsockname(fd).is_ok_and(is_unnamed)
        && rustix::net::getpeername(fd).is_ok_and(|peer| peer.is_none_or(is_unnamed))
}

fn is_unnamed(address: rustix::net::SocketAddrAny) -> bool {
    let address = SocketAddrUnix::try_from(address);
    address.is_ok_and(|address| {
        address.path_bytes().is_none() && address.abstract_name().is_none_or(<[u8]>::is_empty)
    })
}

/// Returns `true` if a descriptor is a file in memory, which reading can not hold up. Only these
/// have seals.
fn is_memory_file(fd: &OwnedFd) -> bool {
    let seals: Result<SealFlags, Errno> = rustix::fs::fcntl_get_seals(fd);
    let stat = rustix::fs::fstat(fd);
    seals.is_ok()
        && stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
