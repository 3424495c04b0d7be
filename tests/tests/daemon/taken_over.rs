//! A broker in an attacker's hands gains nothing but its own sessions. The test speaks to a launcher as
//! such a broker would.

use palisade_tests::{
    Mode, World,
    rooms::status,
    taken_over::{AgentSocket, TakenOverBroker, client_uid},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixStream},
    },
    path::Path,
};

/// A socket that connects to a listener from an address of its own.
fn bound_and_connected(own: &Path, to: &Path) -> OwnedFd {
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    let address = |path: &Path| rustix::net::SocketAddrUnix::new(path).unwrap();
    rustix::net::bind(&socket, &address(own)).unwrap();
    rustix::net::connect(&socket, &address(to)).unwrap();
    socket
}

#[test]
fn an_identity_is_taken_only_from_a_connection_to_the_agent_socket() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let directory = world.outside();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o711)).unwrap();
        let agents = AgentSocket::listen(directory.join("agent.sock"));
        let others = AgentSocket::listen(directory.join("other.sock"));
        let path = agents.path.to_str().unwrap();
        let launcher = TakenOverBroker::start(mode, &["--agent-socket", path]);
        let workspace = world.workspace();
        // The control: who connected to the agent socket is who it is.
        let user = client_uid();
        let (client, _theirs) = agents.accepted(user);
        assert_eq!(launcher.identity(&client, &workspace), Ok(user), "{mode:?}");
        if mode == Mode::User {
            continue;
        }
        // Root's connection is served as the owner of the workspace.
        let (client, theirs) = agents.accepted(0);
        let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&workspace).unwrap());
        assert_eq!(launcher.identity(&client, &workspace), Ok(owner), "{mode:?}");
        // Whoever connects sees the listener's user as the peer: root, here and on every host.
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let (one, _other) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let connected: OwnedFd = UnixStream::connect(&others.path).unwrap().into();
        for (what, socket) in [
            ("a client's own end", theirs.into()),
            ("a socket of root's", connected),
            ("a connection to another socket", others.accepted(0).0),
            ("one with a name of its own", bound_and_connected(&directory.join("x"), &others.path)),
            ("a pair", one),
        ] {
            let why = launcher.identity(&socket, &workspace).expect_err(what);
            assert!(why.contains("did not connect to"), "{mode:?}, {what}: {why}");
        }
    }
}

#[test]
fn a_launcher_that_was_told_of_no_socket_takes_no_identity() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let pair = || mode.act(|| socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap());
        let ((client, _its), (other, _others)) = (pair(), pair());
        let found = TakenOverBroker::start(mode, &[]).identity(&client, &world.workspace());
        match mode {
            Mode::System => assert!(found.unwrap_err().contains("--agent-socket")),
            Mode::User => assert!(found.is_ok()),
        }
        let cookie = rustix::net::sockopt::socket_cookie(&client).unwrap().to_string();
        let launcher = TakenOverBroker::start(mode, &["--client-cookie", &cookie]);
        assert!(launcher.identity(&client, &world.workspace()).is_ok(), "{mode:?}");
        if mode == Mode::System {
            let why = launcher.identity(&other, &world.workspace()).unwrap_err();
            assert_eq!(why, "this is not the connection of the daemon's client");
        }
    }
}

/// A broker's own filter denies it what would help whoever takes it over.
#[test]
fn a_broker_is_held_by_a_filter() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let said = sandbox.wait(sandbox.client.status()).unwrap().broker;
        let pid = said.strip_prefix("pid ").and_then(|rest| rest.split(',').next()).unwrap();
        assert_eq!(status(pid.parse().unwrap(), "Seccomp"), "2", "{mode:?}: {said}");
    }
}
