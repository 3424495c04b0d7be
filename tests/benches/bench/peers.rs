//! Other sandboxes that are installed here, each as its own documentation starts a program: the
//! whole file system readable, namespaces or Landlock of its own, nothing kept between two starts.

use std::process::{Command, Stdio};

/// The name of a sandbox, and the line that goes before the program.
const PEERS: &[(&str, &[&str])] = &[
    ("bwrap", &["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"]),
    ("firejail", &["--quiet", "--noprofile", "--private-tmp", "--net=none", "--seccomp"]),
    ("nsjail", &["-Mo", "--quiet", "--chroot", "/", "--disable_clone_newcgroup", "--"]),
    ("minijail0", &["-v", "-p", "-n", "--"]),
    ("landrun", &["--rox", "/usr", "--rox", "/lib", "--rox", "/lib64", "--ro", "/etc"]),
];

/// A sandbox that starts a program here.
pub(super) struct Peer {
    pub(super) name: &'static str,
    line: &'static [&'static str],
}

impl Peer {
    /// Finds the sandboxes that are installed and that can start `true` here.
    pub(super) fn all() -> Vec<Self> {
        let peers = PEERS.iter().map(|(name, line)| Self { name, line });
        peers.filter(Self::start).collect()
    }

    /// Starts a shell that does nothing. Returns whether it ended well.
    pub(super) fn start(&self) -> bool {
        let mut command = Command::new(self.name);
        command.args(self.line).args(["/usr/bin/bash", "-c", "true"]);
        let status =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
}
