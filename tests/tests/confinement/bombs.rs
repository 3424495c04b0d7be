//! A session that takes all it can of a resource of the kernel is held to a bound; meanwhile another
//! user's session and a plain process outside get theirs.
//!
//! `resources.rs` has processes, memory, files, descriptors, huge pages and buffers of IP sockets.

use crate::resources::{PROFILE, limited_to, number_in};
use palisade_client::{JobStatus, Open};
use palisade_tests::{Daemon, Mode, Sandbox, UNASKED, World, act_as, rooms::until};
use serde_json::json;
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, RecvTimeoutError::Timeout},
    thread,
    time::Duration,
};

const BOMBS: &str = include_str!("../../src/bombs.py");

/// The users of the sessions that take all they can, where root runs the tests: of counted resources,
/// and of memory. Some bounds are of all processes of a user, so each is the user of one test only.
const GREEDY: [u32; 2] = [4747, 4748];

/// A user who has no session.
const OTHER: u32 = 4343;

/// More than any bound that a count has.
const MANY: u32 = 10_000;

/// What a plain process takes of a resource while a session has all that it gets.
#[derive(Debug, Clone, Copy)]
enum Outside {
    /// This many, also as the session's own user: the bound is the session's.
    Anybody(u32),
    /// This many, as another user: what is bounded is what a user has in all, on the host too.
    Others(u32),
}

/// A resource, the most that a session has of it, the error of the next one, and who gets more.
type Row = (&'static str, u32, &'static str, Outside);

/// The descriptors that a process of the session may have.
const DESCRIPTORS: u32 = 2048;

const COUNTED: [Row; 13] = [
    // `RLIMIT_SIGPENDING`, which the session's processes have lower than those outside.
    ("timers", 4096, "EAGAIN", Outside::Anybody(4200)),
    ("signals", 4096, "EAGAIN", Outside::Anybody(4200)),
    // `RLIMIT_NOFILE`.
    ("timerfds", DESCRIPTORS, "EMFILE", Outside::Anybody(2100)),
    ("eventfds", DESCRIPTORS, "EMFILE", Outside::Anybody(2100)),
    ("epolls", DESCRIPTORS, "EMFILE", Outside::Anybody(2100)),
    ("memfds", DESCRIPTORS, "EMFILE", Outside::Anybody(2100)),
    ("sockets", DESCRIPTORS, "EMFILE", Outside::Anybody(2100)),
    // `RLIMIT_NOFILE` again.
    ("flying", DESCRIPTORS + 1, "ETOOMANYREFS", Outside::Others(2100)),
    // `RLIMIT_MSGQUEUE`: 64 KiB.
    ("queues", 64, "EMFILE", Outside::Anybody(100)),
    // The session's own file system of terminals.
    ("terminals", 32, "ENOSPC", Outside::Anybody(40)),
    // The filter of system calls.
    ("events", 0, "ENOSYS", Outside::Anybody(8)),
    ("keys", 0, "EPERM", Outside::Anybody(8)),
    // `fs.pipe-user-pages-soft`: 64 MiB.
    ("pipes", 64, "EPERM", Outside::Others(32)),
];

/// Resources that are memory of the kernel: the number of each that makes 180 MiB or more.
const MEMORY: [(&str, u32); 5] = [
    ("semaphores", 100),
    ("messages", 26_000),
    ("segments", 200),
    ("watches", 700_000),
    ("buffers", 480),
];

const MIB: u64 = 1 << 20;

/// A daemon with a session of another user's that is there throughout.
struct Stage {
    mode: Mode,
    /// The user of the session that takes all it can.
    uid: u32,
    daemon: Daemon,
    other: Sandbox,
    world: World,
    _place: World,
}

impl Stage {
    fn new(mode: Mode, greedy: u32) -> Self {
        let world = World::new(mode);
        let uid = if mode == Mode::System { greedy } else { mode.uid() };
        if mode == Mode::System {
            chown(world.workspace(), Some(uid), Some(uid)).unwrap();
        }
        let profile = PROFILE.replace("open_files = 64", &format!("open_files = {DESCRIPTORS}"));
        world.add_unasked("full", &profile);
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let place = World::new(Mode::User);
        let open = Open::new(place.workspace()).profile(UNASKED);
        let other = Sandbox::over(daemon.connect(Mode::User), None, open).unwrap();
        Self { mode, uid, daemon, other, world, _place: place }
    }

    /// Opens a session that is soon full.
    fn open(&self) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile("full");
        let connect = || UnixStream::connect(&self.daemon.socket).unwrap();
        let stream = match self.mode {
            Mode::System => act_as(self.uid, connect),
            Mode::User => self.mode.act(connect),
        };
        Sandbox::over(stream, None, open).unwrap()
    }

    /// Returns the cgroups of sessions that may become full.
    fn limited(&self) -> Vec<PathBuf> {
        let limit = if is_v1() { "memory.limit_in_bytes" } else { "memory.max" };
        limited_to(self.daemon.child.id(), limit, 96 * MIB)
    }

    /// Another session gets some of a resource, if it is another user's.
    fn assert_others_have(&self, name: &str, expected: &str) {
        if self.mode == Mode::User {
            assert_eq!(self.other.ok("echo alive"), "alive\n", "{name}");
            return;
        }
        let argv = json!({"argv": ["python3", "-c", BOMBS, name, "4"]});
        let result = self.other.call("bash", argv);
        assert_eq!(result.stdout.trim(), expected, "{:?} {name}: {result:?}", self.mode);
    }
}

/// Returns `true` if the host has version 1 of cgroups for memory.
fn is_v1() -> bool {
    Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
}

fn bomb(name: &str, count: u32) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", BOMBS, name, &count.to_string()]);
    python
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a bomb as a plain process of this user.
fn outside(uid: u32, name: &str, count: u32) -> String {
    match rustix::process::geteuid().is_root() {
        true => act_as(uid, || said(&mut bomb(name, count))),
        false => said(&mut bomb(name, count)),
    }
}

#[test]
fn a_session_takes_no_more_of_a_counted_resource_than_its_bound() {
    let is_root = rustix::process::geteuid().is_root();
    for mode in Mode::all() {
        let stage = Stage::new(mode, GREEDY[0]);
        for (name, most, error, others) in COUNTED {
            if mode == Mode::User && matches!(others, Outside::Others(_)) {
                continue;
            }
            let sandbox = stage.open();
            let argv = ["python3", "-c", BOMBS, name, &MANY.to_string(), "hold"];
            let job = sandbox.done("bash", json!({"argv": argv, "background": true}));
            let job = JobStatus::of(&job).unwrap().job;
            let mut heard = String::new();
            until("a bomb", || {
                heard += &sandbox.done("job_output", json!({"job": job})).output;
                heard.ends_with('\n')
            });
            let (taken, why) = heard.trim().split_once(' ').unwrap();
            let taken: u32 = taken.parse().unwrap();
            assert_eq!(why, error, "{mode:?} {name}: {taken}");
            assert!(taken <= most && (taken > most / 2 || most == 0), "{mode:?} {name}: {taken}");
            // All of it is still taken now.
            let expected = if most == 0 { heard.trim() } else { "4 all" };
            stage.assert_others_have(name, expected);
            let other = is_root.then_some(OTHER);
            let (wanted, users) = match others {
                Outside::Anybody(wanted) => (wanted, [Some(stage.uid), other]),
                Outside::Others(wanted) => (wanted, [None, other]),
            };
            for uid in users.into_iter().flatten() {
                let got = outside(uid, name, wanted);
                assert_eq!(got, format!("{wanted} all"), "{mode:?} {name}: uid {uid}");
            }
        }
    }
}

#[test]
fn kernel_memory_that_a_session_takes_counts_as_its_memory() {
    let most = if is_v1() { "memory.max_usage_in_bytes" } else { "memory.peak" };
    for mode in Mode::all() {
        let stage = Stage::new(mode, GREEDY[1]);
        for (name, count) in MEMORY {
            let others = stage.limited();
            let sandbox = stage.open();
            let held_by = &sandbox.session.receipt().limits;
            if !held_by.iter().any(|l| l.name == "memory" && l.by.starts_with("cgroup")) {
                // Then limits are of each process, and the receipt says so.
                continue;
            }
            let mut opened = stage.limited();
            // The session before this one may be ending still.
            opened.retain(|cgroup| !others.contains(cgroup));
            let [cgroup] = &opened[..] else { panic!("{mode:?} {name}: {opened:?}") };
            let most_used = cgroup.join(most);
            let arguments = json!({"argv": ["python3", "-c", BOMBS, name, &count.to_string()]});
            // The kernel kills what took it, and may kill the session with it: then its cgroup goes.
            let (result, used) = thread::scope(|scope| {
                let (ended, is_over) = mpsc::channel::<()>();
                let watch = scope.spawn(move || {
                    let mut used = 0;
                    while is_over.recv_timeout(Duration::from_millis(2)) == Err(Timeout) {
                        used = number_in(&most_used).unwrap_or(used);
                    }
                    number_in(&most_used).unwrap_or(used)
                });
                let result = sandbox.wait(async { sandbox.session.call("bash", &arguments).await });
                drop(ended);
                (result, watch.join().unwrap())
            });
            let reached = result.as_ref().is_ok_and(|result| result.stdout.contains("all"));
            assert!(!reached, "{mode:?} {name}: {result:?}");
            let is_bounded = (64 * MIB..=144 * MIB).contains(&used);
            assert!(is_bounded, "{mode:?} {name}: {used} {result:?}");
            assert_eq!(stage.other.ok("echo alive"), "alive\n", "{mode:?} {name}");
        }
    }
    // Without a sandbox the same is had, in a namespace that ends with it.
    for (name, count) in MEMORY {
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-current-user"]);
        }
        unshare.args(["--ipc", "python3", "-c", BOMBS, name, &count.to_string()]);
        assert_eq!(said(&mut unshare), format!("{count} all"), "{name}");
    }
}
