//! Tests of commits that are interrupted after any of their steps, and rolled back.

use super::{super::journal, *};
use palisade_plan::change::Changed;
use std::collections::BTreeSet;

/// The number of commits that are interrupted in all.
const ROUNDS: usize = 300;

/// A generator of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Makes files and directories, and changes some of them in every way.
fn anything(seed: u64) -> Two {
    // In memory, because there are hundreds.
    let memory = || tempfile::tempdir_in("/dev/shm").unwrap();
    let (two, mut numbers) = (
        Two { broker: Broker::at(memory(), 1), upper: memory(), names: Default::default() },
        Numbers(seed),
    );
    for number in 0..12 {
        let name = format!("d{}/f{number}", number % 3);
        two.low(&name, &format!("{name}\n"));
        match numbers.below(8) {
            0 => two.up(&name, "replaced\n"),
            1 => two.up(&name, &format!("{name}\nand more\n")),
            2 => two.white(&name),
            3 => {
                two.white(&name);
                let moved = format!("moved-{number}");
                two.up(&moved, &format!("{name}\n"));
                let time = fs::metadata(two.lower().join(&name)).unwrap().modified().unwrap();
                let file = fs::File::options().write(true).open(two.upper.path().join(moved));
                file.unwrap().set_modified(time).unwrap();
            }
            4 => two.up(&format!("{name}/now/a/tree"), "tree\n"),
            5 => {
                two.up(&name, &format!("{name}\n"));
                let mode = fs::Permissions::from_mode(0o751);
                fs::set_permissions(two.upper.path().join(&name), mode).unwrap();
            }
            6 => two.up(&format!("new-{number}/sub/file"), "new\n"),
            _ => {}
        }
    }
    if numbers.below(2) == 0 {
        two.low("tree/a/b", "b\n");
        two.white("tree");
        two.up("closed/in/file", "closed\n");
        for name in ["closed/in", "closed"] {
            let mode = fs::Permissions::from_mode(0o555);
            fs::set_permissions(two.upper.path().join(name), mode).unwrap();
        }
    }
    two
}

impl Two {
    /// Returns the digests of the changes whose journals are left.
    fn begun(&self) -> Option<Vec<[u8; 32]>> {
        let read = |name: &String| journal::read(fs::File::open(self.lower().join(name)).unwrap());
        Some(self.left().iter().filter_map(read).map(|(head, _)| head.digest).collect())
    }

    pub(super) fn resolve(&self) -> Changed {
        let draft = self.broker.prepare(Act::Resolve { begun: self.begun() }, &[]).unwrap();
        let reply = self.broker.ask(&FileRequest::Commit);
        let FileReply::Changed(changed) = reply else { panic!("{reply:?}") };
        assert_eq!(changed.effects.len(), draft.prepared.effects.len());
        changed
    }

    /// Commits completely, and returns the draft.
    fn commit(&self) -> Result<Draft, FileError> {
        let draft = self.settle(None)?.0;
        self.settle_whole();
        Ok(draft)
    }

    /// Commits completely.
    pub(super) fn settle_whole(&self) -> Changed {
        let change = settle_all();
        let (lower, (_ours, theirs)) = (self.lower(), pair());
        let view = View::new(&lower, Default::default()).unwrap();
        let mut stage = Stage::new(&change, &view);
        settle(&mut stage, &theirs, &self.layers(), &[]).unwrap();
        crate::tools::change::commit::commit(stage, |_| ()).unwrap()
    }

    /// Returns the times of all files, which a rolled back commit must not have changed.
    fn times(&self) -> BTreeSet<(String, i64, i64)> {
        let files = self.picture().into_keys();
        let of = |path: PathBuf| {
            let meta = fs::symlink_metadata(&path).unwrap();
            (path.display().to_string(), meta.mtime(), meta.mtime_nsec(), meta.is_dir())
        };
        files.map(of).filter(|found| !found.3).map(|(p, s, n, _)| (p, s, n)).collect()
    }

    fn left(&self) -> Vec<String> {
        self.broker.names().into_iter().filter(|name| name.starts_with(".palisade-")).collect()
    }
}

#[test]
fn a_commit_that_is_cut_off_is_taken_back_whole_wherever_it_was() {
    let (mut rounds, mut seed) = (0, 0);
    while rounds < ROUNDS {
        seed += 1;
        let whole = {
            let two = anything(seed);
            let steps = two.settle(None).unwrap().1;
            let before = two.picture();
            let draft = two.commit().unwrap();
            assert_eq!(two.left(), Vec::<String>::new());
            let after = two.relative();
            assert_eq!(two.resolve(), Changed::default());
            // The tools do not delete what is in a directory that may not be written.
            if !two.lower().join("closed").exists() {
                two.broker.undo(&draft, false).unwrap();
                assert_eq!(two.picture(), before, "seed {seed}");
            }
            (after, steps)
        };
        for cut in 0..=whole.1 {
            rounds += 1;
            let two = anything(seed);
            let (before, old, times) = (two.picture(), two.relative(), two.times());
            // Whether a file gets another time depends on the clock, so there may be fewer steps.
            let (draft, steps) = two.settle(Some(cut)).unwrap();
            for (name, what) in two.relative() {
                let known = [old.get(&name), whole.0.get(&name)];
                let is = known.contains(&Some(&what)) || name.starts_with("closed");
                assert!(is, "seed {seed}: after {cut} steps {name:?} is {what:?}");
            }
            if steps == 0 {
                continue;
            }
            let refused = two.commit_again();
            assert_eq!(refused.kind, FileErrorKind::InterruptedCommit, "{}", refused.message);
            assert!(refused.message.contains("was cut off"), "{}", refused.message);
            let changed = two.resolve();
            assert_eq!(changed.resolved, [draft.prepared.digest], "seed {seed} cut {cut}");
            let done = cut.min(steps);
            assert_eq!((changed.effects.len(), changed.notes), (done, vec![]), "{seed} {cut}");
            assert_eq!(two.picture(), before, "seed {seed}: taken back after {cut} steps");
            assert_eq!(two.times(), times, "seed {seed}: taken back after {cut} steps");
            assert_eq!(two.left(), Vec::<String>::new());
        }
    }
}

impl Two {
    fn relative(&self) -> BTreeMap<PathBuf, String> {
        let lower = self.lower();
        let below = |path: PathBuf| path.strip_prefix(&lower).unwrap().to_owned();
        self.picture().into_iter().map(|(path, what)| (below(path), what)).collect()
    }

    /// Returns the error that another commit gets.
    fn commit_again(&self) -> FileError {
        let other = tempfile::tempdir().unwrap();
        put(other.path().join("unrelated"), "unrelated\n");
        let layers = Layers { upper: dir(other.path()), ..self.layers() };
        let change = settle_all();
        let (lower, (_ours, theirs)) = (self.lower(), pair());
        let view = View::new(&lower, Default::default()).unwrap();
        let mut stage = Stage::new(&change, &view);
        settle(&mut stage, &theirs, &layers, &[]).unwrap();
        crate::tools::change::commit::commit(stage, |_| ()).unwrap_err()
    }
}

#[test]
fn taking_back_is_begun_again_where_it_was_cut_off() {
    for part in 0..8 {
        let two = everything();
        let before = two.picture();
        let steps = two.settle(None).unwrap().1;
        two.settle(Some(steps)).unwrap();
        // As if a process was killed during the rollback: the last steps are rolled back already.
        let staging = two.lower().join(two.left().first().unwrap());
        let names: Vec<_> = fs::read_dir(&staging).unwrap().map(|e| e.unwrap().path()).collect();
        let taken = names.iter().filter(|path| path.is_dir()).take(part);
        for path in taken {
            let gone = two.lower().join("dir");
            if !gone.exists() && path.join("a").exists() {
                fs::rename(path, gone).unwrap();
            }
        }
        two.resolve();
        assert_eq!(two.picture(), before);
        assert_eq!(two.left(), Vec::<String>::new());
    }
}

#[test]
fn what_somebody_changed_since_stays_and_what_it_replaced_is_kept() {
    let two = Two::new();
    for name in ["one", "two", "gone", "tree/x"] {
        two.low(name, "old\n");
    }
    for name in ["one", "two"] {
        two.up(name, "new\n");
    }
    two.white("gone");
    two.up("made/file", "made\n");
    let steps = two.settle(None).unwrap().1;
    two.settle(Some(steps)).unwrap();
    // Three changes from outside, and one file that nobody touched.
    two.low("one", "theirs\n");
    two.low("gone", "theirs too\n");
    two.low("made/more", "and this\n");
    let changed = two.resolve();
    let named = |name: &str| changed.notes.iter().any(|note| note.contains(name));
    assert!(named("/one") && named("/gone") && named("/made"), "{:?}", changed.notes);
    assert!(!named("/two"), "{:?}", changed.notes);
    let read = |name: &str| fs::read_to_string(two.lower().join(name)).unwrap();
    assert_eq!([read("one"), read("two"), read("gone")], ["theirs\n", "old\n", "theirs too\n"]);
    assert_eq!([read("made/file"), read("made/more")], ["made\n", "and this\n"]);
    let [kept] = two.left().try_into().unwrap();
    assert!(kept.ends_with(".kept"), "{kept}");
    let mut contents: Vec<_> = fs::read_dir(two.lower().join(kept))
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .filter(|text| text.ends_with("old\n"))
        .collect();
    contents.sort();
    assert_eq!(contents, ["old\n", "old\n"]);
    // It is resolved, and does not block the next commit.
    assert_eq!(two.resolve(), Changed::default());
    let other = tempfile::tempdir().unwrap();
    put(other.path().join("next"), "next\n");
    let layers = Layers { upper: dir(other.path()), ..two.layers() };
    two.settle_with(&layers, &[], Some(1)).unwrap();
}

#[test]
fn a_journal_that_somebody_made_up_reaches_nothing_else() {
    let (two, outside) = (Two::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("file"), "theirs\n").unwrap();
    two.low("file", "old\n");
    two.up("file", "new\n");
    two.settle(Some(1)).unwrap();
    let staging = two.lower().join(two.left().first().unwrap());
    let journal = fs::read(staging.join("journal")).unwrap();
    // Replace a step's path by one of the same length that leads outside.
    let at = journal.windows(4).position(|part| part == b"file").unwrap();
    for name in ["../f", "/etc", "a/..", "..//", "./fi"] {
        let mut other = journal.clone();
        other[at..at + 4].copy_from_slice(name.as_bytes());
        fs::write(staging.join("journal"), &other).unwrap();
        let draft = two.broker.prepare(Act::Resolve { begun: two.begun() }, &[]).unwrap();
        assert_eq!(draft.prepared.effects, [], "{name}");
        assert_eq!(two.broker.ask(&FileRequest::Abandon), FileReply::Abandoned);
    }
    // A journal that is truncated or has another format is left alone, and blocks commits.
    for other in [&journal[..journal.len() - 1], b"", &[9; 64]] {
        fs::write(staging.join("journal"), other).unwrap();
        assert_eq!(two.resolve(), Changed::default());
        assert_eq!(two.commit_again().kind, FileErrorKind::InterruptedCommit);
    }
    fs::write(staging.join("journal"), &journal).unwrap();
    assert_eq!(two.resolve().effects.len(), 1);
    assert_eq!(fs::read_to_string(two.lower().join("file")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "theirs\n");
}

#[test]
fn a_journal_of_a_change_that_nobody_began_is_told_of_and_left_alone() {
    let two = Two::new();
    two.low("file", "old\n");
    two.up("file", "new\n");
    two.settle(Some(1)).unwrap();
    let new = |two: &Two| fs::read_to_string(two.lower().join("file")).unwrap();
    assert_eq!(new(&two), "new\n");
    for (begun, effects) in [(None, 1), (Some(Vec::new()), 0), (Some(vec![[7; 32]]), 0)] {
        let draft = two.broker.prepare(Act::Resolve { begun }, &[]).unwrap();
        assert_eq!(draft.prepared.effects.len(), effects);
        let reply = two.broker.ask(&FileRequest::Commit);
        assert_eq!(reply, FileReply::Changed(Changed::default()));
        assert_eq!((new(&two).as_str(), two.left().len()), ("new\n", 1));
    }
    assert_eq!(two.resolve().effects.len(), 1);
    assert_eq!((new(&two).as_str(), two.left().len()), ("old\n", 0));
}

#[test]
fn a_commit_that_is_cut_off_leaves_each_path_old_or_new_and_is_undone() {
    let (whole, steps) = {
        let two = everything();
        let before = two.picture();
        let steps = two.settle(None).unwrap().1;
        two.settle(Some(steps)).unwrap();
        let after: BTreeMap<_, _> = two
            .picture()
            .into_iter()
            .map(|(path, what)| (path.strip_prefix(two.lower()).unwrap().to_owned(), what))
            .collect();
        let before: BTreeMap<_, _> = before
            .into_iter()
            .map(|(path, what)| (path.strip_prefix(two.lower()).unwrap().to_owned(), what))
            .collect();
        ((before, after), steps)
    };
    assert!(steps > 12, "{steps}");
    for cut in 0..=steps {
        let two = everything();
        let before = two.picture();
        let (draft, _) = two.settle(Some(cut)).unwrap();
        for (path, what) in two.picture() {
            let name = path.strip_prefix(two.lower()).unwrap().to_owned();
            let known = [whole.0.get(&name), whole.1.get(&name)];
            assert!(known.contains(&Some(&what)), "after {cut} steps {name:?} is {what:?}");
        }
        two.broker.undo(&draft, true).unwrap();
        assert_eq!(two.picture(), before, "undone after {cut} steps");
    }
}

#[test]
fn the_next_commit_takes_away_what_a_killed_one_left_and_not_what_is_in_use() {
    let two = Two::new();
    two.low(".palisade-01234567.tmp/0/old", "old\n");
    two.low(".palisade-89abcdef.tmp/0", "in use\n");
    two.low(".palisade-89abcdef.kept/0", "kept\n");
    let used = dir(&two.lower().join(".palisade-89abcdef.tmp"));
    rustix::fs::flock(&used, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    two.up("file", "new\n");
    let change = settle_all();
    let (lower, (_ours, theirs)) = (two.lower(), pair());
    let view = View::new(lower, Default::default()).unwrap();
    let mut stage = Stage::new(&change, &view);
    settle(&mut stage, &theirs, &two.layers(), &[]).unwrap();
    crate::tools::change::commit::commit(stage, |_| ()).unwrap();
    assert_eq!(two.broker.names(), [".palisade-89abcdef.kept", ".palisade-89abcdef.tmp", "file"]);
}

#[test]
fn a_commit_that_fails_half_way_is_taken_back() {
    let two = everything();
    // The last directory can not be written, because of a mode that both layers have.
    two.low("zz/file", "zz\n");
    two.up("zz/file", "other\n");
    two.up("zz/new", "new\n");
    for layer in [two.lower(), two.upper.path().to_owned()] {
        fs::set_permissions(layer.join("zz"), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = two.picture();
    let error = std::thread::scope(|scope| {
        let committed = scope.spawn(|| {
            caps::clear(None, caps::CapSet::Effective).unwrap();
            let change = settle_all();
            let (lower, (_ours, theirs)) = (two.lower(), pair());
            let view = View::new(lower, Default::default()).unwrap();
            let mut stage = Stage::new(&change, &view);
            settle(&mut stage, &theirs, &two.layers(), &[]).unwrap();
            crate::tools::change::commit::commit(stage, |_| ()).unwrap_err()
        });
        committed.join().unwrap()
    });
    assert_eq!(error.errno, Errno::ACCESS.raw_os_error(), "{}", error.message);
    assert!(!error.message.contains("could not be restored"), "{}", error.message);
    assert_eq!(two.picture(), before);
    assert!(!two.broker.names().iter().any(|name| name.starts_with(".palisade-")));
    // Otherwise an ordinary user could not delete them.
    for layer in [two.lower(), two.upper.path().to_owned()] {
        fs::set_permissions(layer.join("zz"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
