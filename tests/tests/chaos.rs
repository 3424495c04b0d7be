//! SIGKILL of any room at any moment, from before the first session to the last reply: no process,
//! mount, cgroup or half of a file is left, and the next start works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that can not go on fails"
)]

use palisade_client::{Error, Open};
use palisade_protocol::CallResult;
use palisade_tests::{
    Mode, Sandbox, World, processes,
    rooms::{Before, cgroups, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{collections::BTreeSet, fs, process::Child, time::Duration};

/// How often each room is killed.
const ROUNDS: usize = 25;
/// Of the files that are being written when it happens.
const SIZE: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Broker,
    OuterLauncher,
    InnerLauncher,
    Files,
    Runner,
}

/// A small generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn new(room: Room) -> Self {
        let given = std::env::var("PALISADE_CHAOS_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64 | 1
        });
        println!("{room:?}: PALISADE_CHAOS_SEED={seed}");
        Self(seed)
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The pid of a room, if it is there already.
fn find(room: Room, broker: i32) -> Option<i32> {
    let tree = processes::tree(broker);
    let launchers: Vec<_> = tree.iter().filter(|p| p.name == "palisade-launch").collect();
    let cell = |end: &str| {
        let found = tree.iter().find(|p| p.name.starts_with("cell ") && p.name.ends_with(end));
        found.map(|process| process.pid)
    };
    match room {
        Room::Broker => Some(broker),
        Room::OuterLauncher => launchers.first().map(|process| process.pid),
        Room::InnerLauncher => launchers.get(1).map(|process| process.pid),
        Room::Files => cell(" files"),
        Room::Runner => cell(" run"),
    }
}

/// Kills a room after a while; says which pid the launcher had, if it was seen.
fn kill_after(room: Room, broker: i32, wait: Duration) -> Option<i32> {
    std::thread::sleep(wait);
    let mut launcher = find(Room::InnerLauncher, broker);
    // Before it is there, the moment of its coming is as good as any.
    for _ in 0..200 {
        launcher = launcher.or_else(|| find(Room::InnerLauncher, broker));
        if let Some(pid) = find(room, broker) {
            let pid = Pid::from_raw(pid).unwrap();
            // It may end by itself in between.
            kill_process(pid, Signal::KILL).unwrap_or_default();
            return launcher;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    launcher
}

/// Calls of every kind, until one is not answered by a result.
async fn mix(sandbox: &Sandbox, round: usize, mark: &str) {
    let session = &sandbox.session;
    let patience = Duration::from_secs(60);
    let payload = format!(
        "(setsid bash -c 'exec -a {mark} sleep 600' &); for n in 1 2 3; do (exec -a {mark} sleep 0.01); done"
    );
    for step in 0..3_u8 {
        let letter = b'a' + step;
        let content = vec![letter; SIZE];
        let create = json!({"path": format!("new-{round}-{step}"), "mode": "create"});
        let over = json!({"path": "old"});
        let (bash, created, replaced, read, listed) = tokio::join!(
            async { session.bash(&payload).timeout(patience).await },
            async {
                session.call("write_file", create).attach(content.clone()).timeout(patience).await
            },
            async {
                session.call("write_file", over).attach(content.clone()).timeout(patience).await
            },
            async { session.call("read_file", json!({"path": "seed"})).timeout(patience).await },
            async { session.call("list_files", json!({"path": "."})).timeout(patience).await },
        );
        let results = [bash, created, replaced, read, listed];
        for result in &results {
            assert_typed(result);
        }
        if results.iter().any(Result::is_err) {
            return;
        }
    }
}

/// Whatever happens, there is an answer, and it says what happened.
fn assert_typed(result: &Result<CallResult, Error>) {
    match result {
        Ok(result) if result.success => {}
        Ok(result) => {
            let error = result.error.as_ref().expect("a failed call says why");
            assert!(!result.timed_out, "a call hung: {error}");
            assert!(!error.message.is_empty());
        }
        Err(Error::Remote(error)) => assert!(!error.message.is_empty()),
        Err(Error::Disconnected(_)) => {}
        Err(other) => panic!("not a typed answer: {other:?}"),
    }
}

/// Every file is whole, and there are no others than those that were written.
fn assert_files_whole(world: &World) {
    for entry in fs::read_dir(world.workspace()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name == "probe" || name == "seed" {
            continue;
        }
        assert!(name == "old" || name.starts_with("new-"), "{name} was left behind");
        let content = fs::read(entry.path()).unwrap();
        let letters: BTreeSet<_> = content.iter().collect();
        let first = name == "old" && content == b"the first";
        let whole = content.len() == SIZE && letters.len() == 1;
        assert!(first || whole, "{name} has {} bytes of {letters:?}", content.len());
    }
}

fn wait(child: &mut Child) {
    until("the daemon has ended", || child.try_wait().unwrap().is_some());
}

fn chaos(room: Room) {
    let mut dice = Dice::new(room);
    let modes = Mode::all();
    let worlds: Vec<_> = modes.iter().map(|mode| World::new(*mode)).collect();
    for world in &worlds {
        for (name, content) in [("old", "the first"), ("seed", "seed")] {
            fs::write(world.workspace().join(name), content).unwrap();
            world.give(&world.workspace().join(name));
        }
    }
    let before = Before::look();
    for round in 0..ROUNDS {
        let world = &worlds[round % worlds.len()];
        let mark = format!("mark-{room:?}-{round}-{}", std::process::id());
        let (stream, mut child) = world.embedded(&["--log", "off"]);
        let broker = i32::try_from(child.id()).unwrap();
        let moment = Duration::from_micros(dice.roll(250_000));
        let killer = std::thread::spawn(move || kill_after(room, broker, moment));
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        match Sandbox::over(stream, None, open) {
            Ok(sandbox) => sandbox.wait(mix(&sandbox, round, &mark)),
            Err(Error::Remote(error)) => assert!(!error.message.is_empty()),
            Err(Error::Disconnected(_) | Error::Socket(_)) => {}
            Err(other) => panic!("not a typed answer: {other:?}"),
        }
        let launcher = killer.join().unwrap();
        wait(&mut child);
        before.assert_nothing_left_of(&mark);
        if let (Some(launcher), Room::Broker | Room::Files | Room::Runner) = (launcher, room) {
            until("cgroups gone", || cgroups(launcher).is_empty());
        }
        // A launcher that was killed leaves its cgroups to the next.
        let next = world.open();
        if let Some(launcher) = launcher {
            until("cgroups swept", || cgroups(launcher).is_empty());
        }
        assert_eq!(next.ok("echo next"), "next\n");
        drop(next);
        assert_files_whole(world);
    }
}

#[test]
fn the_broker_killed_at_any_moment() {
    chaos(Room::Broker);
}

#[test]
fn the_launcher_killed_at_any_moment() {
    chaos(Room::InnerLauncher);
}

#[test]
fn the_launchers_outer_process_killed_at_any_moment() {
    chaos(Room::OuterLauncher);
}

#[test]
fn a_cells_first_process_killed_at_any_moment() {
    chaos(Room::Files);
}

#[test]
fn a_runner_killed_at_any_moment() {
    chaos(Room::Runner);
}
