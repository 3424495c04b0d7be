//! A service manager for egress rooms: it listens on a socket, and starts a room for each connection.

use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    shutdown, socket_with,
};
use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread::JoinHandle,
};

/// A service manager for egress rooms. It and its rooms end with this value.
#[derive(Debug)]
pub(crate) struct RoomService {
    listener: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl RoomService {
    /// Listens on a path, and runs a command for each connection, which is its standard input.
    pub(crate) fn start(path: &Path, mut room: Command) -> Self {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(path).expect("a path")).expect("bind");
        // The user that the daemon switches to connects.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("chmod");
        listen(&listener, 8).expect("listen");
        let listener = Arc::new(listener);
        let accepting = Arc::clone(&listener);
        let thread = std::thread::spawn(move || {
            let mut rooms = Vec::new();
            while let Ok(connection) = accept_with(&accepting, SocketFlags::CLOEXEC) {
                room.stdin(Stdio::from(connection)).stdout(Stdio::null());
                rooms.push(room.spawn().expect("start a room"));
                // The command would keep the connection open.
                room.stdin(Stdio::null());
            }
            for mut room in rooms {
                // It may have ended with its daemon already.
                drop(room.kill());
                drop(room.wait());
            }
        });
        Self { listener, thread: Some(thread) }
    }
}

impl Drop for RoomService {
    fn drop(&mut self) {
        // Accepting fails from now on.
        shutdown(&*self.listener, Shutdown::Both).expect("shutdown");
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
