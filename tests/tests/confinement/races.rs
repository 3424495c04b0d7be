//! Somebody swaps what a path names while a file tool changes it. What is outside never changes,
//! and what is inside is always whole.

use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, World, effort, profile_reading};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// The maximum number of rounds until both outcomes were seen, on a busy machine.
const MOST_ROUNDS: u64 = 12_000;

/// The number of swaps below which a run shows nothing.
const FEWEST_SWAPS: u64 = 100;

/// The number of swaps without a pause; even, so that what was there at first is there again.
const BURST: u64 = 50;
/// The pause after a burst.
const REST: Duration = Duration::from_millis(5);

/// Read-only, a link, changed meanwhile, or not there in that moment: there is no other reason.
const REASONS: [ErrorCode; 6] = [
    ErrorCode::OutsidePolicy,
    ErrorCode::FileSystem,
    ErrorCode::Conflict,
    ErrorCode::NotFound,
    ErrorCode::NoMatch,
    ErrorCode::NotRegular,
];

const CONTENT: &str = "whole\n";

/// Writes again and again while another thread swaps.
fn race_writes(path: &str, write: &str, swap: impl Fn(&World, u64) + Sync) {
    race("write_file", &json!({"path": path, "content": CONTENT, "mode": write}), swap);
}

/// Calls a tool again and again while another thread swaps; looks at everything afterwards.
fn race(tool: &str, arguments: &Value, swap: impl Fn(&World, u64) + Sync) {
    for mode in Mode::all() {
        let world = World::new(mode);
        // To be seen, so that a link leads to something; not to be written.
        world.add_unasked("seen", &profile_reading(&world.outside()));
        swap(&world, 0);
        let sandbox = world.open_with("seen");
        let over = AtomicBool::new(false);
        let swaps = AtomicU64::new(1);
        let (mut done, rounds) = (0, effort(100, 1000));
        let mut refused = BTreeMap::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let turn = swaps.fetch_add(1, Ordering::Relaxed);
                    swap(&world, turn);
                    // Whoever swaps without a pause never lets a change through, where it has a core
                    // for itself. It rests with the right thing in place.
                    if turn.is_multiple_of(BURST) {
                        std::thread::sleep(REST);
                    }
                }
            });
            for round in 0..MOST_ROUNDS {
                match sandbox.call(tool, arguments.clone()).error {
                    None => done += 1,
                    Some(error) => {
                        refused.insert(error.code.name(), error.message);
                    }
                }
                let swapped = swaps.load(Ordering::Relaxed) > FEWEST_SWAPS;
                if round >= rounds && swapped && done > 0 && !refused.is_empty() {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        world.assert_canary_untouched();
        let swaps = swaps.load(Ordering::Relaxed);
        assert!(done > 0 && swaps > FEWEST_SWAPS, "{tool}: {done} times done, {swaps} swaps");
        assert!(!refused.is_empty(), "a link was in the way now and then");
        let known = REASONS.map(ErrorCode::name);
        assert!(refused.keys().all(|code| known.contains(code)), "{tool}: {refused:?}");
        look_for_leftovers(&world.workspace());
    }
}

/// Nothing written aside is left, and each file has whole writes only. What somebody else's swap kept
/// from getting its name back has one that says so.
fn look_for_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kept = name.starts_with(".palisade-") && name.ends_with(".kept");
        assert!(kept || !name.starts_with(".palisade"), "{name} is left");
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            look_for_leftovers(&entry.path());
        } else if kind.is_file() && name != "probe" {
            let text = fs::read_to_string(entry.path()).unwrap();
            assert_eq!(text.replace(CONTENT, ""), "", "{name} has a part of a write");
        }
    }
}

fn fresh_file(world: &World, path: &Path) {
    fs::write(path, CONTENT).unwrap();
    world.give(path);
}

/// A file and a link to the canary take turns at one name, each renamed over the other.
fn rename_over(world: &World, turn: u64) {
    let (target, aside) = (world.workspace().join("target"), world.workspace().join("aside"));
    if turn.is_multiple_of(2) {
        fresh_file(world, &aside);
    } else {
        symlink(world.canary(), &aside).unwrap();
    }
    fs::rename(&aside, &target).unwrap();
}

/// A file and a link exchange places in one step, so that the name is never without one of them.
fn exchange(world: &World, turn: u64) {
    let (target, aside) = (world.workspace().join("target"), world.workspace().join("aside"));
    if turn == 0 {
        return fresh_file(world, &target);
    }
    if turn.is_multiple_of(2) {
        fresh_file(world, &aside);
    } else {
        symlink(world.canary(), &aside).unwrap();
    }
    renameat_with(CWD, &aside, CWD, &target, RenameFlags::EXCHANGE).unwrap();
    fs::remove_file(&aside).unwrap();
}

/// A directory and a link to the one outside take turns.
fn exchange_parents(world: &World, turn: u64) {
    let (parent, aside) = (world.workspace().join("parent"), world.workspace().join("aside"));
    if turn == 0 {
        fs::create_dir(&parent).unwrap();
        world.give(&parent);
        return symlink(world.outside(), &aside).unwrap();
    }
    renameat_with(CWD, &aside, CWD, &parent, RenameFlags::EXCHANGE).unwrap();
}

/// Exchanges parents while there is always a file in the directory for a tool to take away.
fn exchange_parents_with_a_file(world: &World, turn: u64) {
    exchange_parents(world, turn);
    // Of the two names the directory has one; the other leads outside.
    for name in ["parent", "aside"] {
        let directory = world.workspace().join(name);
        if fs::symlink_metadata(&directory).unwrap().is_dir() {
            let fresh = world.workspace().join("fresh");
            fresh_file(world, &fresh);
            fs::rename(&fresh, directory.join("canary")).unwrap();
        }
    }
}

#[test]
fn a_link_renamed_over_the_file_does_not_lead_a_write_outside() {
    race_writes("target", "overwrite", rename_over);
}

#[test]
fn a_link_exchanged_for_the_file_does_not_lead_an_append_outside() {
    race_writes("target", "append", exchange);
}

#[test]
fn a_link_exchanged_for_the_directory_does_not_lead_a_write_outside() {
    race_writes("parent/canary", "overwrite", exchange_parents);
}

#[test]
fn nor_when_directories_are_made_on_the_way() {
    // The directories below are missing at first, and made by the write.
    race_writes("parent/a/b/new", "overwrite", exchange_parents);
}

#[test]
fn a_link_exchanged_for_the_file_does_not_lead_an_edit_outside() {
    let edit = json!({"path": "target", "old_string": "whole\n", "new_string": "whole\nwhole\n"});
    race("edit", &edit, exchange);
}

#[test]
fn a_link_exchanged_for_the_file_does_not_lead_a_patch_outside() {
    let patch = "--- a/target\n+++ b/target\n@@ -1 +1,2 @@\n whole\n+whole\n";
    race("apply_patch", &json!({"patch": patch}), exchange);
}

#[test]
fn a_link_exchanged_for_the_directory_does_not_lead_a_deletion_outside() {
    race("delete_file", &json!({"path": "parent/canary"}), exchange_parents_with_a_file);
}

#[test]
fn a_link_exchanged_for_the_directory_does_not_lead_a_move_outside() {
    let away = json!({"from": "parent/canary", "to": "moved", "overwrite": true});
    race("move_file", &away, exchange_parents_with_a_file);
}
