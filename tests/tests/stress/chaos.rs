//! SIGKILL, or SIGSTOP for a while, of any room at any moment, from before the first session to the
//! last reply: no process, mount, cgroup, temporary file or half of a file is left, the audit log
//! verifies and tells of every effect, and the next start works.

use palisade_audit::{Verification, verify};
use palisade_client::{Error, Open};
use palisade_protocol::CallResult;
use palisade_tests::{
    Dice, Mode, Sandbox, UNASKED, World, effort, processes, profile_with, report,
    rooms::{Before, cgroups, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{collections::BTreeSet, fs, path::Path, process::Child, time::Duration};

/// The size of the files that are being written when a room is struck.
const SIZE: usize = 128 << 10;
/// The profile in which a command's effects are committed when it has ended, all or nothing.
const HELD: &str = "held";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Broker,
    OuterLauncher,
    InnerLauncher,
    Files,
    Runner,
    Analyst,
}

/// The fate of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    /// The room is stopped for this time.
    Stopped(Duration),
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
        Room::Analyst => {
            tree.iter().find(|p| p.name.starts_with("palisade-anal")).map(|process| process.pid)
        }
    }
}

/// The outcome of an attempt to strike a room.
struct Strike {
    /// The pid of the launcher, if it was seen.
    launcher: Option<i32>,
    /// `false` if the room was never there, or had ended by itself.
    hit: bool,
}

/// Kills or stops a room after a while.
fn strike(room: Room, fate: Fate, broker: i32, wait: Duration) -> Strike {
    std::thread::sleep(wait);
    let mut launcher = find(Room::InnerLauncher, broker);
    // Before it is there, the moment of its coming is as good as any.
    for _ in 0..200 {
        launcher = launcher.or_else(|| find(Room::InnerLauncher, broker));
        if let Some(pid) = find(room, broker) {
            let pid = Pid::from_raw(pid).unwrap();
            let hit = match fate {
                Fate::Killed => kill_process(pid, Signal::KILL).is_ok(),
                Fate::Stopped(time) => {
                    let hit = kill_process(pid, Signal::STOP).is_ok();
                    std::thread::sleep(time);
                    // It may have been killed in between.
                    kill_process(pid, Signal::CONT).unwrap_or_default();
                    hit
                }
            };
            return Strike { launcher, hit };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Strike { launcher, hit: false }
}

/// Calls of every kind, until one is not answered by a result; how many were done.
async fn mix(sandbox: &Sandbox, round: usize, mark: &str, held: bool) -> usize {
    let session = &sandbox.session;
    let patience = Duration::from_secs(60);
    let mut done = 0;
    for step in 0..3_u8 {
        let letter = b'a' + step;
        // Half of a file is a command's own affair, unless it counts as a whole.
        let write = if held {
            format!(
                "head -c {SIZE} /dev/zero | tr '\\0' {} > held-{round}-{step}; ",
                letter as char
            )
        } else {
            String::new()
        };
        let payload = format!(
            "{write}(setsid bash -c 'exec -a {mark} sleep 600' &); for n in 1 2 3; do (exec -a {mark} sleep 0.01); done"
        );
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
        done += results.iter().filter(|result| matches!(result, Ok(r) if r.success)).count();
        if results.iter().any(Result::is_err) {
            break;
        }
    }
    done
}

/// Asserts that a call was answered, and that a failure says what happened.
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
        let known = ["new-", "held-"].iter().any(|start| name.starts_with(start));
        assert!(name == "old" || known, "{name} was left behind");
        let content = fs::read(entry.path()).unwrap();
        let letters: BTreeSet<_> = content.iter().collect();
        let first = name == "old" && content == b"the first";
        let whole = content.len() == SIZE && letters.len() == 1;
        assert!(first || whole, "{name} has {} bytes of {letters:?}", content.len());
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// The log verifies, and tells of every file that a call of this round made.
fn assert_told(world: &World, round: usize) {
    let audit = world.state().join("audit");
    // Killed before it wrote its first record, the broker has done nothing to tell of.
    let mut files = fs::read_dir(&audit).into_iter().flatten();
    let began = files.any(|entry| entry.unwrap().metadata().unwrap().len() > 0);
    let found = began.then(|| verify(&audit, &[]).unwrap());
    assert!(found.as_ref().is_none_or(Verification::is_good), "{found:?}");
    let files = fs::read_dir(&audit).into_iter().flatten();
    let log: String = files.map(|entry| text(&entry.unwrap().path())).collect();
    for entry in fs::read_dir(world.workspace()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.contains(&format!("-{round}-")) {
            assert!(log.contains(&name), "{name} is there, and the log does not tell of it");
        }
    }
}

/// Asserts that everything stored is under the id of a call, without any temporary files.
fn assert_state_clean(world: &World) {
    for directory in ["spool", "undo"] {
        for entry in fs::read_dir(world.state().join(directory)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let id = name.split('.').next().unwrap_or_default();
            let is_id = id.len() == 36 && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
            let is_known = name == id || name.ends_with(".meta");
            assert!(is_id && is_known, "{directory}/{name} was left behind");
        }
    }
}

fn wait(child: &mut Child) {
    until("the daemon has ended", || child.try_wait().unwrap().is_some());
}

fn worlds() -> Vec<World> {
    let worlds: Vec<_> = Mode::all().into_iter().map(World::new).collect();
    for world in &worlds {
        for (name, content) in [("old", "the first"), ("seed", "seed")] {
            fs::write(world.workspace().join(name), content).unwrap();
            world.give(&world.workspace().join(name));
        }
        let guard = ("guard = \"auto\"", "guard = \"transaction\"");
        world.add_unasked(HELD, &profile_with(&[guard]));
    }
    worlds
}

/// One daemon's life with a strike somewhere in it: how many calls were done, and whether the room
/// was hit.
fn live(
    room: Room,
    fate: Fate,
    world: &World,
    (round, moment): (usize, Duration),
) -> (usize, bool) {
    let before = Before::look();
    let mark = processes::mark();
    let (stream, mut child) = world.embedded(&["--log", "off"]);
    let broker = i32::try_from(child.id()).unwrap();
    let striker = std::thread::spawn(move || strike(room, fate, broker, moment));
    let held = round / 2 % 2 == 1;
    let profile = if held { HELD } else { UNASKED };
    let done = match Sandbox::over(stream, None, Open::new(world.workspace()).profile(profile)) {
        Ok(sandbox) => sandbox.wait(mix(&sandbox, round, &mark, held)),
        Err(Error::Remote(error)) => {
            assert!(!error.message.is_empty());
            0
        }
        Err(Error::Disconnected(_) | Error::Socket(_)) => 0,
        Err(other) => panic!("not a typed answer: {other:?}"),
    };
    let Strike { launcher, hit } = striker.join().unwrap();
    wait(&mut child);
    before.assert_nothing_left_of(&mark);
    let launcher_lives = !matches!(room, Room::OuterLauncher | Room::InnerLauncher);
    if let (Some(launcher), true) = (launcher, launcher_lives || fate != Fate::Killed) {
        until("cgroups gone", || cgroups(launcher).is_empty());
    }
    assert_told(world, round);
    // A launcher that was killed leaves its cgroups to the next.
    let next = world.open();
    if let Some(launcher) = launcher {
        until("cgroups swept", || cgroups(launcher).is_empty());
    }
    assert_eq!(next.ok("echo next"), "next\n");
    drop(next);
    assert_files_whole(world);
    assert_told(world, round);
    assert_state_clean(world);
    (done, hit)
}

fn chaos(room: Room) {
    let mut dice = Dice::new(&format!("{room:?}"));
    let worlds = worlds();
    let (kills, stops) = effort((4, 1), (84, 16));
    let (mut hits, mut round) = (0, 0);
    while hits < kills + stops {
        // Whichever mode the last of the short form gets is as good as the other.
        let world = &worlds[(hits + dice.roll(2) * usize::from(hits >= kills)) % worlds.len()];
        let moment = Duration::from_micros(dice.roll(250_000) as u64);
        let fate = if hits < kills {
            Fate::Killed
        } else {
            Fate::Stopped(Duration::from_millis(20 + dice.roll(300) as u64))
        };
        let (done, hit) = live(room, fate, world, (round, moment));
        // A room that is only stopped, or can be replaced, costs nobody a call.
        if fate != Fate::Killed || room == Room::Analyst || !hit {
            assert_eq!(done, 15, "{room:?} {fate:?} in round {round}");
        }
        hits += usize::from(hit);
        round += 1;
        // A strike that comes too late does not count.
        assert!(round < 4 * (kills + stops), "{room:?} was hit {hits} times in {round} rounds");
    }
    report(&format!("{room:?}: rounds of SIGKILL"), kills);
    report(&format!("{room:?}: rounds of SIGSTOP"), stops);
}

#[test]
fn the_broker_struck_at_any_moment() {
    chaos(Room::Broker);
}

#[test]
fn the_launcher_struck_at_any_moment() {
    chaos(Room::InnerLauncher);
}

#[test]
fn the_launchers_outer_process_struck_at_any_moment() {
    chaos(Room::OuterLauncher);
}

#[test]
fn a_cells_first_process_struck_at_any_moment() {
    chaos(Room::Files);
}

#[test]
fn a_runner_struck_at_any_moment() {
    chaos(Room::Runner);
}

#[test]
fn an_analyst_struck_at_any_moment() {
    chaos(Room::Analyst);
}
