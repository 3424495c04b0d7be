//! Tests of undo: later changes are noticed, and any sequence of changes can be undone.

use super::{
    change::edit,
    tree::{Kept, snapshot},
};
use crate::tools::testing::Broker;
use palisade_plan::{
    cell::FileErrorKind,
    change::{Act, WriteMode},
};
use proptest::prelude::*;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

const ABOUT: [&str; 7] = ["a", "b", "dir", "dir/c", "dir/sub/d", "new/e", "link"];

fn acts(broker: &Broker, kind: usize, one: usize, other: usize) -> (Act, Vec<Vec<u8>>) {
    let path = |at: usize| broker.path(ABOUT[at % ABOUT.len()]);
    let data = vec![format!("content {one} {other}\n").into_bytes()];
    let write = |mode| Act::Write { path: path(one), mode };
    match kind % 8 {
        0 => (write(WriteMode::Overwrite), data),
        1 => (write(WriteMode::Append), data),
        2 => (write(WriteMode::Create), data),
        3 => (Act::Edit { files: vec![edit(path(one), "content", "other")] }, Vec::new()),
        4 => (Act::Delete { path: path(one), recursive: true }, Vec::new()),
        5 => (Act::MakeDir { path: path(one) }, Vec::new()),
        6 => (Act::Move { from: path(one), to: path(other), overwrite: false }, Vec::new()),
        _ => (Act::Move { from: path(one), to: path(other), overwrite: true }, Vec::new()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_undone_in_reverse_leave_what_was(
        steps in prop::collection::vec((0..8_usize, 0..7_usize, 0..7_usize), 1..12)
    ) {
        let broker = Broker::new();
        fs::create_dir_all(broker.path("dir/sub").as_path()).unwrap();
        fs::write(broker.path("a").as_path(), "content a\n").unwrap();
        fs::write(broker.path("dir/c").as_path(), "content c\n").unwrap();
        symlink("a", broker.path("link").as_path()).unwrap();
        let before = snapshot(&broker, Kept::NotTimes);
        let mut drafts = Vec::new();
        for (kind, one, other) in steps {
            let (act, contents) = acts(&broker, kind, one, other);
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            let now = snapshot(&broker, Kept::Everything);
            match broker.change(act, &contents) {
                Ok((draft, _)) => drafts.push(draft),
                Err(error) => {
                    prop_assert_eq!(snapshot(&broker, Kept::Everything), now, "{}", error.message);
                }
            }
        }
        for draft in drafts.iter().rev() {
            broker.undo(draft, false).unwrap();
        }
        prop_assert_eq!(snapshot(&broker, Kept::NotTimes), before);
    }
}

#[test]
fn what_changed_since_is_a_conflict_with_a_diff_unless_forced() {
    let broker = Broker::new();
    let path = broker.path("file");
    fs::write(path.as_path(), "old\n").unwrap();
    let act = Act::Write { path: path.clone(), mode: WriteMode::Overwrite };
    let (draft, _) = broker.change(act, &[b"new\n"]).unwrap();
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(path.as_path(), "theirs\n").unwrap(),
        &|| fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o700)).unwrap(),
        &|| fs::remove_file(path.as_path()).unwrap(),
        &|| {
            fs::remove_file(path.as_path()).unwrap();
            symlink("elsewhere", path.as_path()).unwrap();
        },
    ];
    for (at, change) in changes.iter().enumerate() {
        fs::remove_file(path.as_path()).ok();
        fs::write(path.as_path(), "new\n").unwrap();
        change();
        let before = snapshot(&broker, Kept::Everything);
        let error = broker.undo(&draft, false).unwrap_err();
        assert_eq!((error.kind, error.errno), (FileErrorKind::Conflict, 0), "{at}");
        if at == 0 {
            assert!(error.message.ends_with("-theirs\n+old\n"), "{}", error.message);
        }
        assert_eq!(snapshot(&broker, Kept::Everything), before, "{at}");
        let (redo, _) = broker.undo(&draft, true).unwrap();
        assert_eq!(fs::read(path.as_path()).unwrap(), b"old\n");
        broker.undo(&redo, false).unwrap();
        assert_eq!(snapshot(&broker, Kept::NotTimes), before.without_times(), "{at}");
    }
}

#[test]
fn a_directory_with_somebody_else_s_file_stays() {
    let broker = Broker::new();
    let (draft, _) = broker.change(Act::MakeDir { path: broker.path("dir") }, &[]).unwrap();
    fs::write(broker.path("dir/theirs").as_path(), "theirs").unwrap();
    let before = snapshot(&broker, Kept::Everything);
    assert_eq!(broker.undo(&draft, false).unwrap_err().kind, FileErrorKind::Conflict);
    assert_eq!(snapshot(&broker, Kept::Everything), before);
    let (redo, _) = broker.undo(&draft, true).unwrap();
    assert_eq!(broker.names(), Vec::<String>::new());
    broker.undo(&redo, false).unwrap();
    assert_eq!(snapshot(&broker, Kept::NotTimes), before.without_times());
}
