//! A network with public addresses: a network namespace of the daemon, and one of a server. No packet of it
//! leaves this host.

use crate::World;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The network of a daemon that can reach a server with public and private addresses: 11.0.0.2, and
/// 10.1.2.3 and 10.1.2.4. The server also answers queries for names: with the public address until it has
/// had a request, and then with 10.1.2.3. `inward.test`, `metadata.test` and `outward.test` are aliases of other
/// names, and the last of these has a private address, that of a metadata service, and the public one.
#[derive(Debug)]
pub struct PublicNetwork {
    directory: PathBuf,
}

impl PublicNetwork {
    /// Writes the files that make the network when the daemon is started.
    pub(crate) fn new(world: &World) -> Self {
        let directory = world.outside().parent().expect("a directory").join("network");
        fs::create_dir(&directory).expect("mkdir");
        for (name, text) in [
            ("network.sh", include_str!("public_network.sh")),
            ("server.py", include_str!("public_network.py")),
            ("resolv.conf", "nameserver 11.0.0.2\n"),
        ] {
            let path = directory.join(name);
            fs::write(&path, text).expect("write");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        }
        Self { directory }
    }

    /// Returns the directory with the script `network.sh`.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the file that names the server, and the path at which hosts have such a file.
    pub(crate) fn resolver_file(&self) -> (PathBuf, &'static Path) {
        (self.directory.join("resolv.conf"), Path::new("/etc/resolv.conf"))
    }

    /// Returns what the server has heard: `name NAME` for each query, and `request ADDRESS PATH` for each
    /// request, at the address that was connected to.
    ///
    /// # Panics
    /// If the server was not started.
    #[must_use]
    pub fn heard(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.join("heard")).expect("the server's file");
        text.lines().map(ToOwned::to_owned).collect()
    }
}
