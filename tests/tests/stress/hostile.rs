//! Three users of one daemon for a while: one is hostile, with a client that sends mutated bytes
//! and with programs that attack whatever they reach; two work as on any other day. No call of
//! theirs fails, nothing of theirs reaches the hostile user, and the daemon does not grow.
//!
//! Short in CI; `tests/endure` takes half an hour, or `PALISADE_SECONDS`.

use palisade_audit::verify;
use palisade_client::{Client, Open, Session};
use palisade_protocol::{CallOptions, Request, limits::VERSION, wire::Dialect};
use palisade_tests::{
    Daemon, Dice, Mode, ORDINARY, UNASKED, World, act_as, effort, processes,
    raw::{DIALECTS, call, encode, hello, open},
    report, resident,
    rooms::{Rooms, until},
    setting,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// More than a room may grow by between the first quarter of the time and its end.
const GROWTH: u64 = 48 << 20;

/// A user with a workspace that nobody else may enter, in which a canary lies.
struct Resident {
    uid: u32,
    workspace: PathBuf,
    canary: String,
}

/// A daemon that lets everybody in.
struct Town {
    world: World,
    daemon: Daemon,
}

impl Town {
    fn new() -> Self {
        let world = World::new(Mode::System);
        world.configure("log = \"error\"\n");
        let daemon = world.configured_daemon(|_| {});
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        Self { world, daemon }
    }

    fn resident(&self, number: u32, dice: &mut Dice) -> Resident {
        let uid = ORDINARY + number;
        let workspace = self.world.workspace().join(format!("user-{number}"));
        let canary = format!("canary-{number}-{:016x}", dice.seed());
        fs::create_dir(&workspace).unwrap();
        fs::write(workspace.join("canary"), &canary).unwrap();
        for path in [workspace.clone(), workspace.join("canary")] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&path, Some(uid), Some(uid)).unwrap();
        }
        Resident { uid, workspace, canary }
    }

    fn connect(&self, uid: u32) -> Option<UnixStream> {
        act_as(uid, || UnixStream::connect(&self.daemon.socket).ok())
    }
}

async fn session(town: &Town, user: &Resident) -> (Client, Session) {
    let stream = town.connect(user.uid).expect("a connection");
    stream.set_nonblocking(true).unwrap();
    let stream = tokio::net::UnixStream::from_std(stream).unwrap();
    let client = Client::from_stream(stream).await.expect("a client");
    let open = Open::new(&user.workspace).profile(UNASKED);
    let session = client.open(open).await.unwrap_or_else(|error| panic!("{error}"));
    (client, session)
}

/// Works until the time is over, in sessions of up to forty calls. Returns the number of calls.
fn work(town: &Town, user: &Resident, mut dice: Dice, end: Instant) -> usize {
    let runtime = Runtime::new().unwrap();
    let doc = format!("doc-{:x}", dice.seed());
    let mut calls = 0;
    runtime.block_on(async {
        loop {
            let (_client, session) = session(town, user).await;
            for turn in 0..1 + dice.roll(40) {
                let text = format!("turn {turn} {}\n", dice.roll(1_000_000));
                let write = json!({"path": doc, "content": text});
                let (tool, arguments, expected) = match dice.roll(5) {
                    0 => (
                        "bash",
                        json!({"command": format!("echo '{text}' > {doc}; cat {doc}")}),
                        &text,
                    ),
                    1 => ("read_file", json!({"path": "canary"}), &user.canary),
                    2 => ("grep", json!({"pattern": "^canary-", "path": "canary"}), &user.canary),
                    3 => ("bash", json!({"command": "cat canary"}), &user.canary),
                    _ => ("read_file", json!({"path": doc}), &text),
                };
                let written = session.call("write_file", write).await.expect("an answer");
                assert!(written.success, "{:?}", written.error);
                let result = session.call(tool, &arguments).await.expect("an answer");
                assert!(result.success, "{tool} {arguments}: {:?}", result.error);
                let said = format!("{}{}", result.output, result.stdout);
                assert!(said.contains(expected.trim_end()), "{tool} {arguments}: {said:?}");
                calls += 2;
            }
            session.close().await.expect("closed");
            if Instant::now() >= end {
                break;
            }
        }
    });
    calls
}

/// Lines that attack the host, the daemon and the others. `@` stands for a path of another user.
const ATTACKS: [&str; 20] = [
    "cat @/canary; ls -la @; find / -name 'canary*' -exec cat {} + 2>/dev/null",
    ":(){ :|:& };:",
    "yes | head -c 300000000",
    "python3 -c 'x = bytearray(1 << 33)'",
    "tail /dev/zero",
    "kill -9 -1; kill -STOP 1",
    "for i in $(seq 2000); do sleep 100 & done; wait",
    "cat /proc/*/environ /proc/*/cmdline /proc/*/maps 2>&1 | grep -a canary",
    "ln -sfn @/canary link; cat link; cp link copied",
    "ln @/canary hard; mv @ mine; chmod -R 777 @",
    "dd if=/dev/zero of=/tmp/full bs=1M; dd if=/dev/zero of=full bs=1M",
    "for i in $(seq 20000); do : > /tmp/n-$i; done",
    "python3 -c 'import socket,os\nfor i in range(5000): socket.socketpair()'",
    "python3 -c 'import os\nwhile True: os.fork()'",
    "exec 3<>/dev/tcp/127.0.0.1/22; cat <&3",
    "mount -t tmpfs x /mnt; unshare -Ur id; nsenter -t 1 -a cat @/canary",
    "grep -ra canary- /dev/shm /tmp /run /var 2>/dev/null",
    "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000",
    "mkdir -p .git/hooks; printf '#!/bin/sh\\ncat @/canary' > .git/hooks/pre-commit",
    "printf '\\033]0;canary\\007'; head -c 100000 /dev/urandom",
];

/// Requests that a hostile client begins with, and then mutates.
fn requests(own: &Path, others: &[&Path], dice: &mut Dice) -> Request {
    let other = others[dice.roll(others.len())];
    let line = ATTACKS[dice.roll(ATTACKS.len())].replace('@', other.to_str().unwrap());
    let path = [own.join("x"), own.join("canary"), other.join("canary"), "/etc/shadow".into()]
        [dice.roll(4)]
    .clone();
    let timeout = Some(500 + dice.roll(1500) as u64);
    let options =
        CallOptions { timeout_ms: timeout, stream: dice.roll(2) == 0, ..CallOptions::default() };
    let made = |tool: &str, arguments: Value| call(tool, &arguments, options.clone());
    match dice.roll(8) {
        0 => open(other, UNASKED),
        1 => made("read_file", json!({"path": path})),
        2 => made("write_file", json!({"path": path, "content": "x".repeat(dice.roll(200_000))})),
        3 => made("grep", json!({"pattern": "canary-", "path": path})),
        4 => Request::Ping,
        5 => made("delete_file", json!({"path": path, "recursive": true})),
        _ => made("bash", json!({"command": line})),
    }
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.roll(4) {
        let at = dice.roll(bytes.len());
        match dice.roll(4) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = [0, 0xfb, 0x7f, b'"', 0xff][dice.roll(5)],
            2 => bytes.truncate(at.max(1)),
            _ => {
                let piece = bytes[at..].iter().take(64).copied().collect::<Vec<_>>();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// The replies to the hostile user, and the number of its connections.
#[derive(Default)]
struct Booty {
    bytes: Vec<u8>,
    connections: usize,
    /// The number of times that its own canary was found.
    own: usize,
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

impl Booty {
    /// Looks for what is another user's, and then keeps only the end of what came.
    fn search(&mut self, own: &Resident, others: &[Resident]) {
        self.own += usize::from(contains(&self.bytes, &own.canary));
        for Resident { canary, .. } in others {
            assert!(!contains(&self.bytes, canary), "{canary} reached the hostile user");
        }
        let all = self.bytes.len();
        self.bytes.drain(..all.saturating_sub(64));
    }

    /// Reads the hostile user's own canary, to show that what comes is searched.
    fn read_own(&mut self, town: &Town, own: &Resident) {
        let mut stream = town.connect(own.uid).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let read = call("read_file", &json!({"path": "canary"}), CallOptions::default());
        for (id, request) in (1..).zip([hello(VERSION), open(&own.workspace, UNASKED), read]) {
            stream.write_all(&encode(Dialect::Frames, id, request)).unwrap();
        }
        let mut piece = vec![0; 64 << 10];
        while !contains(&self.bytes, &own.canary) {
            let read = stream.read(&mut piece).expect("an answer");
            assert!(read > 0, "the connection ended");
            self.bytes.extend_from_slice(&piece[..read]);
        }
    }

    /// Takes what comes within a moment.
    fn take(&mut self, stream: &mut UnixStream, own: &Resident, others: &[Resident]) -> bool {
        let mut piece = vec![0; 256 << 10];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => return false,
                Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return true;
                }
                Err(_) => return false,
            }
            if self.bytes.len() > 4 << 20 {
                self.search(own, others);
            }
        }
    }
}

/// Attacks until the time is over.
fn attack(town: &Town, own: &Resident, others: &[Resident], mut dice: Dice, end: Instant) -> Booty {
    let paths: Vec<&Path> = others.iter().map(|other| other.workspace.as_path()).collect();
    let mut booty = Booty::default();
    booty.read_own(town, own);
    while Instant::now() < end {
        let Some(mut stream) = town.connect(own.uid) else { continue };
        booty.connections += 1;
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let dialect: Dialect = DIALECTS[dice.roll(2)];
        let mut said = encode(dialect, 1, hello(VERSION));
        said.extend(encode(dialect, 2, open(&own.workspace, UNASKED)));
        let mut is_open = stream.write_all(&said).is_ok();
        for id in 3..3 + dice.roll(30) as u64 {
            let mut bytes = encode(dialect, id, requests(&own.workspace, &paths, &mut dice));
            if dice.roll(3) > 0 {
                mutate(&mut bytes, &mut dice);
            }
            is_open = is_open && stream.write_all(&bytes).is_ok();
            // Often it does not listen.
            if !is_open || dice.roll(3) == 0 && !booty.take(&mut stream, own, others) {
                break;
            }
        }
        booty.take(&mut stream, own, others);
        booty.search(own, others);
    }
    booty
}

#[test]
fn two_users_work_undisturbed_beside_a_hostile_one() {
    let seconds = setting("PALISADE_SECONDS").unwrap_or_else(|| effort(6, 30 * 60));
    // An ordinary user's daemon serves nobody else.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut dice = Dice::new("hostile user");
    let town = Town::new();
    let residents = [0, 1, 2].map(|number| town.resident(number, &mut dice));
    let [hostile, workers @ ..] = &residents;
    // The launcher is started with the first session.
    assert!(work(&town, &workers[0], dice.beside(), Instant::now()) > 0);
    let (broker, launcher) = (town.daemon.child.id(), Rooms::of(town.daemon.child.id()).inner.pid);
    let rooms = [("broker", broker), ("launcher", launcher.cast_unsigned())];
    let end = Instant::now() + Duration::from_secs(seconds);
    let [calls, connections, found] = [(); 3].map(|()| AtomicUsize::new(0));
    let warm = std::thread::scope(|scope| {
        for user in workers {
            for _ in 0..2 {
                let dice = dice.beside();
                let (town, calls) = (&town, &calls);
                scope.spawn(move || {
                    calls.fetch_add(work(town, user, dice, end), Ordering::Relaxed);
                });
            }
        }
        for _ in 0..2 {
            let dice = dice.beside();
            let (town, connections, found) = (&town, &connections, &found);
            scope.spawn(move || {
                let booty = attack(town, hostile, workers, dice, end);
                connections.fetch_add(booty.connections, Ordering::Relaxed);
                found.fetch_add(booty.own, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs(seconds) / 4);
        rooms.map(|(_, pid)| resident(pid))
    });
    for ((room, pid), warm) in rooms.into_iter().zip(warm) {
        let after = resident(pid);
        report(
            &format!("hostile: {room}'s memory after a quarter, and at the end"),
            format!("{} MiB, {} MiB", warm >> 20, after >> 20),
        );
        assert!(after < warm + GROWTH, "the {room} grew from {warm} to {after}");
    }
    until("every session's processes are gone", || {
        let tree = processes::tree(broker.cast_signed());
        !tree.iter().any(|process| process.name.starts_with("cell "))
    });
    report(
        "hostile: calls of the ordinary users, connections of the hostile one",
        format!("{calls:?}, {connections:?}"),
    );
    assert!(calls.into_inner() > 0 && connections.into_inner() > 0);
    // The hostile user's own canary did reach it, so the search finds what comes.
    assert!(found.into_inner() > 0, "not even its own");
    for user in workers {
        assert_eq!(fs::read_to_string(user.workspace.join("canary")).unwrap(), user.canary);
    }
    let found = verify(&town.world.state().join("audit"), &[]).unwrap();
    assert!(found.is_good(), "{found:?}");
}
