//! Commits that are cut off by a kill, or that somebody else writes into: the cell alone, without broker
//! and launcher.

use palisade_plan::{Durable, cell::FileErrorKind};
use palisade_tests::{Mode, Transaction, World, effort, picture};
use std::{collections::BTreeMap, fs, path::Path};

/// Returns the least number of commits to kill; it goes on until one was cut off between its first
/// step and its last.
fn kills() -> u32 {
    effort(6, 300)
}

/// Waits until a commit in a workspace has written its journal, or is over.
fn wait_for_journal(at: &Path) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::time::Instant::now() < until {
        let mut staging = fs::read_dir(at)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("/.palisade-"));
        if staging.any(|path| path.join("journal").exists()) || at.join("n1").exists() {
            return;
        }
    }
}

#[test]
fn a_process_killed_in_its_commit_leaves_each_file_old_or_new_and_is_taken_back() {
    let world = World::new(Mode::User);
    let at = world.workspace();
    Mode::User.act(|| {
        for name in 0..100 {
            fs::write(at.join(format!("f{name}")), "old\n").unwrap();
        }
    });
    let line = "for f in f*; do echo new > $f; done; for n in $(seq 100); do echo n > n$n; done; \
                rm f1 f2 f3; mkdir -p t/u; for n in $(seq 50); do echo t > t/u/$n; done";
    let (mut cut, mut whole) = (0, 0);
    let before = picture(&at);
    for round in 0_u32..1000 {
        if round >= kills() && cut > 0 {
            break;
        }
        let mut plan = palisade_tests::plan(&at);
        plan.transactions.durable = Durable::No;
        let transaction = Transaction::of(&plan, |_, steps| steps).unwrap();
        assert_eq!(transaction.bash(line, &at).0, 0);
        let draft = transaction.prepare(&[]).unwrap();
        let pid = transaction.process();
        transaction.settling().begin_commit();
        // Some are killed while they prepare, and most after their journal is there.
        if round % 5 != 0 {
            wait_for_journal(&at);
        }
        std::thread::sleep(std::time::Duration::from_micros(u64::from(round * 7 % 48) * 50));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap_or_default();
        let ended = transaction.settling().end_commit();
        for (name, (_, what)) in
            picture(&at).iter().filter(|(name, _)| !name.contains(".palisade-"))
        {
            let known = ["file old\n", "file new\n", "file n\n", "file t\n", "directory"];
            assert!(known.contains(&what.as_str()) || name == "probe", "{name}: {what:?}");
        }
        let changed = transaction.resolve(&[draft.prepared.digest]).unwrap();
        assert_eq!(changed.notes, Vec::<String>::new());
        // Killed before its first step, or after its last: the journal was not there, or not any more.
        match (&ended, changed.resolved.as_slice()) {
            (Some(_), []) => whole += 1,
            (None, [digest]) => {
                assert_eq!(*digest, draft.prepared.digest);
                cut += 1;
            }
            (None, []) => {}
            (_, more) => panic!("{ended:?} {more:?}"),
        }
        if changed.resolved.is_empty() {
            transaction.undo(&draft, true).unwrap();
        }
        let ours = |name: &String| name.starts_with(".palisade-");
        let after: BTreeMap<_, _> =
            picture(&at).into_iter().filter(|(name, _)| !ours(name)).collect();
        assert_eq!(after, before, "round {round}");
    }
    assert!(cut > 0, "none of {whole} commits was cut off");
    // The next commit deletes what they left.
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash("echo last > last", &at).0, 0);
    transaction.commit(&[]).unwrap();
    let left: Vec<_> = picture(&at).into_keys().filter(|name| name.contains("palisade-")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn what_somebody_else_writes_at_any_time_is_never_lost() {
    let world = World::new(Mode::User);
    let at = world.workspace();
    let file = at.join("file");
    let (mut done, mut refused) = (0, 0);
    // Two moments are sure to occur, however slow the machine is.
    const BEFORE: u64 = 0;
    const BETWEEN: u64 = 1;
    for round in 0..40_u64 {
        Mode::User.act(|| fs::write(&file, "old").unwrap());
        let transaction = Transaction::new(&at).unwrap();
        let theirs = at.join("theirs");
        Mode::User.act(|| fs::write(&theirs, "theirs").unwrap());
        let rename = || fs::rename(&theirs, &file).unwrap();
        let settled = std::thread::scope(|scope| {
            // From before the program reads it to after it is committed.
            if round == BEFORE {
                rename();
            } else if round != BETWEEN {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(round * 2));
                    rename();
                });
            }
            let line = "x=$(cat file); sleep 0.01; printf '%s and mine' \"$x\" > file";
            assert_eq!(transaction.bash(line, &at).0, 0);
            if round == BETWEEN {
                rename();
            }
            transaction.commit(&[])
        });
        let last = fs::read_to_string(&file).unwrap();
        match settled {
            Ok(_) => {
                done += 1;
                assert!(["theirs", "theirs and mine"].contains(&last.as_str()), "{round}: {last}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind, FileErrorKind::Conflict, "{}", error.message);
                assert_eq!(last, "theirs", "{round}");
            }
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}
