//! Tests that what is committed is what was shown: a file that was written in between through an
//! open descriptor is refused.

use super::*;
use std::os::unix::fs::FileExt as _;

type Prepare = fn(&Two);

/// The setup of each case, and the file in the upper layer that is then overwritten.
const CASES: [(&str, Prepare, &str); 5] = [
    ("new", |two| two.up("file", "good"), "file"),
    ("replaced", low_and_up, "file"),
    ("in a new directory", |two| two.up("made/deep/file", "good"), "made/deep/file"),
    ("of two names", two_names, "one"),
    (
        "added to",
        |two| {
            two.low("file", "one\n");
            two.up("file", "one\ngood");
        },
        "file",
    ),
];

fn low_and_up(two: &Two) {
    two.low("file", "old");
    two.up("file", "good");
}

fn two_names(two: &Two) {
    two.up("one", "good");
    fs::hard_link(two.upper.path().join("one"), two.upper.path().join("two")).unwrap();
}

/// Overwrites the word, through a descriptor that was open before.
fn overwrite(file: &fs::File) {
    let at = file.metadata().unwrap().len() - 4;
    file.write_all_at(b"evil", at).unwrap();
}

#[test]
fn what_is_written_after_it_was_shown_is_not_committed() {
    for (case, prepare, written) in CASES {
        let two = Two::new();
        prepare(&two);
        let open = fs::File::options().write(true).open(two.upper.path().join(written)).unwrap();
        let before = two.picture();
        let change = settle_all();
        let (lower, (_ours, theirs)) = (two.lower(), pair());
        let view = View::new(&lower, Default::default()).unwrap();
        let mut stage = Stage::new(&change, &view);
        settle(&mut stage, &theirs, &two.layers(), &[]).unwrap();
        overwrite(&open);
        let error = crate::tools::change::commit::commit(stage, |_| ()).unwrap_err();
        let kind = (error.kind, error.errno);
        assert_eq!(
            kind,
            (FileErrorKind::Conflict, Errno::STALE.raw_os_error()),
            "{case}: {error:?}"
        );
        assert_eq!(two.picture(), before, "{case}");
        // The control: in its present state it can be committed.
        two.settle_whole();
        let text = |(_, text): (PathBuf, String)| text;
        assert!(two.picture().into_iter().map(text).any(|text| text.contains("evil")), "{case}");
    }
}
