//! Does something to files as root, as who may become anybody can. The launcher.

use caps::CapSet;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use std::io;

/// Does something to files as root; as this user where that is root already, or may not be root. A
/// process that does not know whose rights it has afterwards ends.
pub(crate) fn as_root<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if nix::unistd::geteuid().is_root() {
        return act();
    }
    let effective = caps::read(None, CapSet::Effective).map_err(io::Error::other)?;
    let own = (setfsuid(Uid::from_raw(0)), setfsgid(Gid::from_raw(0)));
    let done = act();
    setfsuid(own.0);
    setfsgid(own.1);
    // The kernel takes those over files from who was root.
    let restored = caps::set(None, CapSet::Effective, &effective);
    if restored.is_err() || setfsuid(own.0) != own.0 || setfsgid(own.1) != own.1 {
        eprintln!("palisade-launcher: own identity could not be taken back");
        std::process::abort();
    }
    done
}
