//! Nothing of a session reaches another process by a Unix socket, a queue or shared memory, nor is
//! reached: not a service's, not the daemon's, not another session's.

use palisade_client::Open;
use palisade_tests::{Mode, Sandbox, World, profile_reading};
use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

fn assert_nobody_else(answer: io::Result<impl Sized>, whom: &str) {
    let kind = answer.err().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::WouldBlock), "somebody else reached {whom}");
}

/// A listener that stands for a service's socket, open to everybody.
fn plant(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// A directory of the host's, as services have one in `/run`; gone at the end.
fn service_directories() -> Vec<tempfile::TempDir> {
    let in_run = rustix::process::geteuid().is_root().then_some("/run");
    let parents = ["/tmp", "/dev/shm", "/var/tmp"].into_iter().chain(in_run);
    parents
        .map(|parent| {
            let made = tempfile::Builder::new().prefix("service-").tempdir_in(parent).unwrap();
            fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
            made
        })
        .collect()
}

#[test]
fn no_socket_of_a_service_is_there() {
    let known = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/notify",
        "/run/systemd/private",
        "/run/user/0/bus",
        "/run/user/4242/bus",
        "/run/snapd.socket",
        "/run/nscd/socket",
        "/tmp/.X11-unix/X0",
        "/run/palisade/agent.sock",
    ];
    let known = known.map(|path| format!("unix:{path}"));
    let directories = service_directories();
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let in_outside = world.outside().join("docker.sock");
        let planted: Vec<(PathBuf, UnixListener)> = directories
            .iter()
            .map(|directory| directory.path().join("docker.sock"))
            .chain([in_outside.clone()])
            .map(|path| (path.clone(), plant(&path)))
            .collect();
        let attempts: Vec<String> =
            planted.iter().map(|(path, _)| format!("unix:{}", path.display())).collect();
        assert!(sandbox.told(&attempts).iter().all(|answer| answer == "ENOENT"), "{mode:?}");
        assert!(sandbox.told(&known).iter().all(|answer| answer == "ENOENT"), "{mode:?}");
        for (path, listener) in &planted {
            assert_nobody_else(listener.accept(), &path.display().to_string());
        }
        assert!(world.told_outside(&attempts).iter().all(|answer| answer == "ok"), "{mode:?}");
        for (path, listener) in &planted {
            listener.accept().expect("the control's connection");
            fs::remove_file(path).unwrap();
        }
        world.assert_canary_untouched();
    }
}

#[test]
fn datagrams_reach_no_socket_of_a_service() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let path = world.outside().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        world.give(&path);
        let attempts = ["unixgram", "unixgram_many"].map(|a| format!("{a}:{}", path.display()));
        let mut bytes = [0; 16];
        assert_eq!(sandbox.told(&attempts), ["ENOENT", "ENOENT"], "{mode:?}");
        assert_nobody_else(socket.recv(&mut bytes), "the service");
        assert_eq!(world.told_outside(&attempts), ["ok", "ok"]);
        for _ in 0..2 {
            assert_eq!(socket.recv(&mut bytes).expect("the control's datagram"), 5);
        }
    }
}

#[test]
fn the_daemons_own_socket_is_not_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let up = format!("unix:{}/../run/agent.sock", world.workspace().display());
        let by_proc = format!("unix:/proc/self/root{}", daemon.socket.display());
        let attempts = [format!("unix:{}", daemon.socket.display()), up, by_proc];
        assert_eq!(sandbox.told(&attempts), ["ENOENT"; 3], "{mode:?}");
        assert_eq!(world.told_outside(&attempts[..1]), ["ok"]);
        let status = sandbox.wait(sandbox.client.status()).unwrap();
        assert_eq!(status.sessions.len(), 1, "nobody inside has a session of its own");
    }
}

#[test]
fn abstract_names_are_the_sessions_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let name = format!("palisade-network-{}-{mode:?}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let gram = format!("{name}-datagram");
        let socket = UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(&gram).unwrap());
        let socket = socket.unwrap();
        socket.set_nonblocking(true).unwrap();
        let attempts = [format!("abstract:{name}"), format!("abstract_datagram:{gram}")];
        assert_eq!(sandbox.told(&attempts), ["ECONNREFUSED", "ECONNREFUSED"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's name");
        let mut bytes = [0; 16];
        assert_nobody_else(socket.recv(&mut bytes), "the host's name for datagrams");
        assert_eq!(world.told_outside(&attempts), ["ok", "ok"]);
        listener.accept().expect("the control's connection");
        socket.recv(&mut bytes).expect("the control's datagram");
        // Inside, the name is another one.
        assert_eq!(sandbox.told(&[format!("abstract_own:{name}")]), ["ok"], "{mode:?}");
        assert_nobody_else(listener.accept(), "the host's name");
    }
}

#[test]
fn two_sessions_share_no_place_for_a_socket() {
    for mode in Mode::all() {
        let (first, second) = (World::new(mode), World::new(mode));
        let (one, two) = (first.open(), second.open());
        for place in ["/tmp", "/var/tmp", "/dev/shm"] {
            let path = format!("{place}/meet");
            let line = format!(
                "./probe unix_serve:{path} & until [ -S {path} ]; do sleep 0.05; done; \
                 echo yes > up; until [ -e tried ]; do sleep 0.05; done; ./probe unix:{path}; wait"
            );
            let call = one.session.bash(line).timeout(Duration::from_secs(60));
            let running = one.wait(call.start()).unwrap();
            first.wait_for("up");
            let in_workspace = format!("unix:{}/meet", first.workspace().display());
            let attempts = [format!("unix:{path}"), in_workspace];
            assert_eq!(two.told(&attempts), ["ENOENT", "ENOENT"], "{mode:?}: {place}");
            assert!(!Path::new(&path).exists(), "it is not the host's either");
            fs::write(first.workspace().join("tried"), "yes").unwrap();
            let control = one.wait(running.result()).unwrap();
            let expected = [format!("unix:{path}=ok"), format!("unix_serve:{path}=ok")];
            // They may come in any order.
            let found: BTreeSet<_> = control.stdout.lines().map(str::to_owned).collect();
            assert_eq!(found, BTreeSet::from(expected), "{mode:?}");
            fs::remove_file(first.workspace().join("tried")).unwrap();
            fs::remove_file(first.workspace().join("up")).unwrap();
        }
    }
}

#[test]
fn a_socket_in_the_workspace_can_be_called_by_the_host_only_by_its_path() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let path = world.workspace().join("served");
        let call = sandbox.session.bash("./probe unix_serve:served");
        let running = sandbox.wait(call.timeout(Duration::from_secs(60)).start()).unwrap();
        let called = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::os::unix::net::UnixStream::connect(&path).is_ok()
        });
        assert!(called, "the workspace is the host's own directory");
        let result = sandbox.wait(running.result()).unwrap();
        assert_eq!(result.stdout, "unix_serve:served=ok\n", "{mode:?}");
        // Nowhere outside the workspace can it put one.
        let attempts = [format!("unix_serve:{}/served", world.outside().display())];
        assert_eq!(sandbox.told(&attempts), ["ENOENT"], "{mode:?}");
        world.assert_canary_untouched();
    }
}

/// Removes System V objects of the tests' own.
struct SystemV(u32);

impl Drop for SystemV {
    fn drop(&mut self) {
        let key = self.0.to_string();
        Command::new("ipcrm").args(["-M", &key, "-S", &key, "-Q", &key]).status().map(drop).ok();
    }
}

#[test]
fn shared_memory_semaphores_and_queues_are_the_sessions_own() {
    for (number, mode) in (0u32..).zip(Mode::all()) {
        let world = World::new(mode);
        let sandbox = world.open();
        let key = 0x5042_0000 | ((std::process::id() + number) & 0xffff);
        let find = [
            format!("sys:shmget:{key}:1:0"),
            format!("sys:semget:{key}:1:0"),
            format!("sys:msgget:{key}:0"),
        ];
        // IPC_CREAT, readable and writable for all.
        let make = [
            format!("sys:shmget:{key}:4096:0x3b6"),
            format!("sys:semget:{key}:1:0x3b6"),
            format!("sys:msgget:{key}:0x3b6"),
        ];
        {
            let _made = SystemV(key);
            assert_eq!(world.told_outside(&make), ["ok"; 3]);
            assert_eq!(sandbox.told(&find), ["ENOENT"; 3], "{mode:?}");
            assert_eq!(world.told_outside(&find), ["ok"; 3], "the control");
        }
        assert_eq!(world.told_outside(&find), ["ENOENT"; 3], "cleared away");
        assert_eq!(sandbox.told(&make), ["ok"; 3], "{mode:?}");
        assert_eq!(sandbox.told(&find), ["ok"; 3], "{mode:?}: from call to call");
        assert_eq!(world.told_outside(&find), ["ENOENT"; 3], "{mode:?}: and not the host's");
    }
}

#[test]
fn posix_queues_and_shared_files_of_the_host_are_not_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let name = format!("palisade-network-{}-{mode:?}", std::process::id());
        let [make, find] = [format!("queue:{name}:1"), format!("queue:{name}:0")];
        assert_eq!(world.told_outside(std::slice::from_ref(&make)), ["ok"]);
        let answers = sandbox.told(std::slice::from_ref(&find));
        let control = world.told_outside(&[find, format!("sys:mq_unlink:@{name}")]);
        assert_eq!(control, ["ok", "ok"]);
        assert_eq!(answers, ["ENOENT"], "{mode:?}");
        let shared = format!("/dev/shm/{name}");
        fs::write(&shared, "the host's").unwrap();
        let answers = sandbox.told(&[format!("read:{shared}"), format!("write:{shared}")]);
        let kept = fs::read_to_string(&shared).unwrap();
        fs::remove_file(&shared).unwrap();
        assert_eq!(answers, ["ENOENT", "ok"], "{mode:?}");
        assert_eq!(kept, "the host's");
        assert_eq!(sandbox.ok(&format!("cat {shared}")), "written by probe\n");
    }
}

/// A known gap, which SECURITY.md names: before Landlock ABI 9 nothing of the kernel tells a socket in
/// a readable directory from a file. If this fails, the gap is closed, and the page is wrong.
#[test]
fn a_socket_in_a_directory_that_a_profile_lets_read_can_be_called() {
    for mode in Mode::all() {
        let place = tempfile::Builder::new().prefix("readable-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = place.path().join("service.sock");
        let listener = plant(&path);
        let world = World::new(mode);
        world.add_profile("reading", &profile_reading(place.path()));
        let probe = format!(
            "/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); \
             s.connect(\"{}\"); print(\"called\")'",
            path.display()
        );
        // The control: without that entry the socket is not there.
        let hidden = world.open().bash(&probe);
        assert!(hidden.stderr.contains("FileNotFoundError"), "{mode:?}: {}", hidden.stderr);
        assert_nobody_else(listener.accept(), "a socket that is not there");
        assert_eq!(world.open_with("reading").ok(&probe), "called\n", "{mode:?}");
        assert!(listener.accept().is_ok(), "{mode:?}");
    }
}
