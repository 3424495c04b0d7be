//! A commit is cut off by the end of the process that does it, of the launcher, or of the daemon:
//! each file is what it was or what the command left, all of them alike, and nothing is left over.

use palisade_audit::verify;
use palisade_client::Open;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Daemon, Dice, Mode, Sandbox, World, effort, processes, profile_with, rooms::until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The number of files; a third of them is replaced, a third is deleted, and as many are new.
const FILES: usize = 240;

const LINE: &str = "python3 -c 'import os
for i in range(240):
    if i % 3 == 0: open(f\"f{i}\", \"w\").write(\"new\\n\")
    if i % 3 == 1: os.unlink(f\"f{i}\")
    if i % 3 == 2: open(f\"n{i}\", \"w\").write(\"new\\n\")'";

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Broker,
    Launcher,
    Runner,
}

/// The state of all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Old,
    New,
}

fn fill(world: &World) {
    for name in fs::read_dir(world.workspace()).unwrap().flatten() {
        let name = name.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(['f', 'n'])) {
            fs::remove_file(world.workspace().join(name)).unwrap();
        }
    }
    for file in 0..FILES {
        let path = world.workspace().join(format!("f{file}"));
        fs::write(&path, "old\n").unwrap();
        world.give(&path);
    }
}

fn found(world: &World, context: &str) -> Found {
    let read = |name: String| fs::read_to_string(world.workspace().join(name)).ok();
    let mut all = Vec::new();
    for file in 0..FILES {
        let (text, made) = (read(format!("f{file}")), read(format!("n{file}")));
        let (old, new) = (Some("old\n".to_owned()), Some("new\n".to_owned()));
        let is = match (file % 3, text, made) {
            (_, text, None) if text == old && file % 3 != 2 => Found::Old,
            (0, text, None) if text == new => Found::New,
            (1, None, None) => Found::New,
            (2, text, None) if text == old => Found::Old,
            (2, text, made) if text == old && made == new => Found::New,
            other => panic!("{file} is torn: {other:?}, {context}"),
        };
        all.push(is);
    }
    let first = all[0];
    let others = all.iter().filter(|one| **one != first).count();
    assert_eq!(others, 0, "half of it is there: {context}");
    let left: Vec<_> = fs::read_dir(world.workspace())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".palisade-"))
        .collect();
    assert!(left.is_empty(), "{left:?}: {context}");
    first
}

fn committing(world: &World) -> bool {
    let entries = fs::read_dir(world.workspace()).unwrap().flatten();
    let begun = |entry: fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(".palisade-")
            && entry.path().join("journal").exists()
    };
    entries.into_iter().any(begun)
}

fn open(world: &World, daemon: &Daemon) -> Sandbox {
    let open = Open::new(world.workspace()).profile("held");
    Sandbox::over(daemon.connect(world.mode), None, open).unwrap()
}

fn kill(victim: Victim, broker: i32) {
    let all = processes::tree(broker);
    let is = |process: &&processes::Process| match victim {
        Victim::Broker => process.pid == broker,
        Victim::Launcher => process.name == "palisade-launch",
        Victim::Runner => process.name.ends_with(" once"),
    };
    for process in all.iter().filter(is) {
        // It may be gone by now, with the one before.
        kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL).ok();
    }
}

/// Has a command's commit cut off; what the caller was told, if anything.
fn cut(world: &World, daemon: &Daemon, victim: Victim, after: Duration) -> Option<CallResult> {
    let broker = i32::try_from(daemon.child.id()).unwrap();
    let sandbox = open(world, daemon);
    let over = AtomicBool::new(false);
    let before = processes::tree(broker);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !committing(world) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
            std::thread::sleep(after);
            kill(victim, broker);
        });
        let result = sandbox.wait(async { sandbox.session.bash(LINE).await });
        over.store(true, Ordering::Relaxed);
        result.ok()
    });
    if victim == Victim::Runner {
        return result;
    }
    kill(Victim::Broker, broker);
    let gone = || !processes::all().iter().any(|one| before.iter().any(|was| was.pid == one.pid));
    until("the rooms are gone", gone);
    result
}

#[test]
fn a_commit_that_is_cut_off_counts_whole_or_not_at_all() {
    for mode in Mode::all() {
        let mut dice = Dice::new(&format!("cuts, {mode:?}"));
        let mut seen = [0; 2];
        for victim in [Victim::Broker, Victim::Launcher, Victim::Runner] {
            let world = World::new(mode);
            let allowed = [
                ("guard = \"auto\"", "guard = \"transaction\""),
                ("replacements = \"ask\"", "replacements = \"allow\""),
                ("deletions = \"ask\"", "deletions = \"allow\""),
            ];
            world.add_profile("held", &profile_with(&allowed));
            let mut daemon = world.daemon();
            for round in 0..effort(1, 40) {
                fill(&world);
                let after = Duration::from_micros(dice.roll(30_000) as u64);
                let result = cut(&world, &daemon, victim, after);
                let context = format!("{mode:?} {victim:?} {round} {after:?}: {result:?}");
                if victim != Victim::Runner {
                    drop(daemon);
                    daemon = world.daemon();
                }
                let sandbox = open(&world, &daemon);
                let next = sandbox.bash("true");
                assert!(next.success, "{next:?}, {context}");
                let found = found(&world, &context);
                seen[usize::from(found == Found::New)] += 1;
                let told = |result: &CallResult| {
                    result.findings.iter().any(|one| one.kind == "taken_back")
                };
                if found == Found::New {
                    assert!(!told(&next), "{next:?}, {context}");
                    assert!(result.as_ref().is_none_or(|result| !told(result)), "{context}");
                } else if victim == Victim::Runner {
                    let error = result.and_then(|result| result.error);
                    let error = error.unwrap_or_else(|| panic!("{context}"));
                    assert_eq!(error.code, ErrorCode::CellFailed, "{context}");
                    assert!(error.message.contains("which was rolled back"), "{context}");
                }
            }
            drop(daemon);
            let audit = verify(&world.state().join("audit"), &[]).unwrap();
            assert!(audit.is_good(), "{mode:?} {victim:?}: {audit:?}");
        }
        eprintln!("{mode:?}: {} taken back, {} done", seen[0], seen[1]);
    }
}
