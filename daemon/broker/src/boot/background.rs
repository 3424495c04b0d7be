//! Moves a daemon that outlives the command that started it to the background. Runs in the broker, as
//! the first thing it does.

use std::{fs, io};

/// Leaves the session of the starter with its controlling terminal, and closes every descriptor that
/// was inherited besides the standard ones.
pub(crate) fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    let names = fs::read_dir("/proc/self/fd")?;
    let inherited = names.map(|entry| Ok(entry?.file_name().to_str().and_then(|n| n.parse().ok())));
    let inherited = inherited.collect::<io::Result<Vec<Option<i32>>>>()?;
    for descriptor in inherited.into_iter().flatten().filter(|descriptor| *descriptor > 2) {
        match nix::unistd::close(descriptor) {
            // The directory's own descriptor is closed already.
            Ok(()) | Err(nix::errno::Errno::EBADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
