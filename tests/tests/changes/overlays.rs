//! The effects of a program in a transaction are held back, told exactly, and committed whole or
//! not at all: the cell alone, without broker and launcher.

use palisade_plan::{Upper, cell::FileErrorKind};
use palisade_tests::{
    CHANGES, Cell, Mode, Pids, Transaction, Words as _, World, furnished, picture,
};
use std::{
    fs,
    os::{
        fd::AsFd as _,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
};

#[test]
fn nothing_is_done_until_it_is_committed_and_then_all_of_it() {
    let world = furnished();
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    let (status, output) = transaction.bash(&format!("{CHANGES}; cat file log made; ls dir"), &at);
    assert_eq!(status, 2, "{output}");
    assert!(output.starts_with("new\none\ntwo\nfresh\n"), "{output}");
    assert_eq!(picture(&at), before);
    let expected = [
        "replaced file",
        "mode keep",
        "replaced link",
        "appended log",
        "created made",
        "created tree 3",
        "deleted dir 4",
    ];
    assert_eq!(transaction.trial().unwrap().words(&at), expected);
    assert_eq!(picture(&at), before);
    let (draft, changed) = transaction.commit(&[]).unwrap();
    assert_eq!(draft.words(&at), expected);
    assert_eq!(changed.effects, draft.prepared.effects);
    let after = picture(&at);
    let read = |name: &str| after.get(name).map(|(_, what)| what.as_str());
    assert_eq!(read("file"), Some("file new\n"));
    assert_eq!(read("log"), Some("file one\ntwo\n"));
    assert_eq!(read("tree/x/y"), Some("file t\n"));
    assert_eq!(read("link"), Some("link log"));
    assert_eq!(read("made"), Some("file fresh\n"));
    assert_eq!(after.get("keep").unwrap().0, 0o600);
    assert!(!after.keys().any(|name| name.starts_with("dir") || name.contains("palisade-")));
    // Committed effects are not committed again.
    assert_eq!(transaction.trial().unwrap().effects, []);
    transaction.undo(&draft, false).unwrap();
    assert_eq!(picture(&at), before);
}

#[test]
fn what_is_not_committed_is_gone_with_the_process() {
    let world = furnished();
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash(CHANGES, &at).0, 0);
    drop(transaction);
    assert_eq!(picture(&at), before);
    let again = Transaction::new(&at).unwrap();
    assert_eq!(again.bash("cat file; ls", &at).1.lines().next(), Some("old"));
}

#[test]
fn the_program_is_confined_as_in_any_other_call() {
    let world = furnished();
    let at = world.workspace();
    let plan = palisade_tests::plan(&at);
    let plain = palisade_tests::Cell::session(&plan, palisade_tests::Pids::Own, |_, s| s).unwrap();
    let transaction = Transaction::new(&at).unwrap();
    let mut receipt = transaction.cell.receipt.clone();
    // Only it says which the workspace is: a runner has nothing to do with it.
    receipt.workspace = plain.receipt.workspace.clone();
    assert_eq!(receipt.upper.take(), Some(Upper::Memory));
    // A transaction may give a directory the set-gid bit, and has `openat2`.
    let may_set_gid = std::mem::take(&mut receipt.filter);
    let mut plain = plain.receipt.clone();
    assert_ne!(std::mem::take(&mut plain.filter), may_set_gid);
    assert_eq!(receipt, plain);
}

#[test]
fn what_was_changed_outside_meanwhile_is_a_conflict() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash("echo new > file; rm keep", &at).0, 0);
    Mode::User.act(|| fs::write(at.join("file"), "theirs\n").unwrap());
    let before = picture(&at);
    let error = transaction.trial().unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Conflict);
    assert!(error.message.contains("a file of 7 bytes now"), "{}", error.message);
    assert_eq!(picture(&at), before);
}

#[test]
fn a_directory_s_mode_that_was_changed_outside_is_not_changed_back() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash("echo z > dir/sub/z", &at).0, 0);
    fs::set_permissions(at.join("dir/sub"), fs::Permissions::from_mode(0o555)).unwrap();
    let before = picture(&at);
    let error = transaction.commit(&[]).err().unwrap();
    assert_eq!(error.kind, FileErrorKind::Conflict, "{}", error.message);
    assert_eq!(picture(&at), before);
    fs::set_permissions(at.join("dir/sub"), fs::Permissions::from_mode(0o755)).unwrap();
    transaction.commit(&[]).unwrap();
    assert_eq!(fs::read_to_string(at.join("dir/sub/z")).unwrap(), "z\n");
}

/// The words for what a line does to a furnished workspace; it is committed, and what is then
/// there is what the line does without a transaction, and undone.
fn same_as_outside(line: &str) -> Vec<String> {
    same_where(line, |_| {})
}

/// Like [`same_as_outside`], in workspaces that were changed first.
fn same_where(line: &str, prepare: impl Fn(&Path)) -> Vec<String> {
    let (inside, outside) = (furnished(), furnished());
    let (at, beside) = (inside.workspace(), outside.workspace());
    prepare(&at);
    prepare(&beside);
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    let (status, output) = transaction.bash(line, &at);
    assert_eq!(picture(&at), before, "{line}");
    let direct = Mode::User.act(|| {
        #[allow(clippy::disallowed_methods, reason = "the control, outside of any sandbox")]
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &format!("umask 022; {line}")]).current_dir(&beside);
        bash.output().unwrap()
    });
    assert_eq!(Some(status), direct.status.code(), "{line}: {output}");
    let (draft, _) = transaction.commit(&[]).unwrap_or_else(|e| panic!("{line}: {e:?}"));
    assert_eq!(picture(&at), picture(&beside), "{line}");
    let words = draft.words(&at);
    transaction.undo(&draft, false).unwrap_or_else(|e| panic!("undo {line}: {e:?}"));
    assert_eq!(picture(&at), before, "undo {line}");
    words
}

#[test]
fn what_is_committed_is_what_the_program_would_have_done_itself() {
    let cases: &[(&str, &[&str])] = &[
        ("true", &[]),
        ("cat file dir/a; ls -R . > /dev/null", &[]),
        ("echo new > file", &["replaced file"]),
        // A mask that would keep even the commit out of its own directories, and one of nothing.
        (
            "umask 277; mkdir m; echo x > n; rm file; echo y > file",
            &["replaced file", "created m", "created n"],
        ),
        ("umask 0; mkdir m; echo x > m/n; ln -s n m/l", &["created m 3"]),
        (": > file", &["replaced file"]),
        ("printf more >> file", &["appended file"]),
        ("rm file", &["deleted file 1"]),
        ("rm -r dir", &["deleted dir 4"]),
        ("mv file name", &["moved file name"]),
        ("mv file dir/name", &["moved file dir/name"]),
        ("mv keep file", &["replaced file", "deleted keep 1"]),
        ("mv dir folder", &["created folder 4", "deleted dir 4"]),
        ("mv dir/sub up", &["created up 2", "deleted dir/sub 2"]),
        ("cp -r dir copy", &["created copy 4"]),
        ("mkdir empty", &["created empty"]),
        ("mkdir -p x/y/z; echo 1 > x/y/z/f; ln -s ../f x/l", &["created x 5"]),
        ("rm file; mkdir file; echo in > file/in", &["deleted file 1", "created file 2"]),
        ("rm -r dir; echo now > dir", &["deleted dir 4", "created dir"]),
        ("rm -r dir; ln -s file dir", &["deleted dir 4", "created dir"]),
        ("rm link; echo plain > link", &["deleted link 1", "created link"]),
        ("rm file; ln -s keep file", &["deleted file 1", "created file"]),
        ("ln -sfn keep link", &["replaced link"]),
        ("rm -r dir; mkdir dir", &["deleted dir/a 1", "deleted dir/sub 2"]),
        (
            "rm -r dir; mkdir -p dir/sub; echo b > dir/sub/b; echo c > dir/sub/c",
            &["touched dir/sub/b", "created dir/sub/c", "deleted dir/a 1"],
        ),
        ("chmod 700 dir; echo new > dir/new", &["mode dir", "created dir/new"]),
        ("chmod +x file", &["mode file"]),
        ("touch -d @1000000000 file", &["touched file"]),
        ("chmod 755 file; chmod 644 file", &[]),
        ("touch made; rm made", &[]),
        ("printf 'a\\nb\\n' > \"$(printf 'odd \\xc3\\xa9 \\t')\"", &["created odd é \t"]),
        ("sed -i s/old/new/ file", &["replaced file"]),
        ("truncate -s 2 file", &["replaced file"]),
        ("truncate -s 100000 file", &["appended file"]),
        ("dd if=/dev/zero of=file bs=1 count=1 conv=notrunc 2> /dev/null", &["replaced file"]),
        ("(sleep 0.05; echo late >> log) & wait", &["appended log"]),
        ("mv file t; mv keep file; mv t keep", &["replaced file", "replaced keep"]),
        ("cp file new; rm file; cp new file", &["touched file", "created new"]),
    ];
    for (line, expected) in cases {
        assert_eq!(same_as_outside(line), *expected, "{line}");
    }
}

/// As in a directory that a group shares.
#[test]
fn new_directories_inherit_the_set_gid_bit() {
    let share = |at: &Path| {
        for path in [at.to_owned(), at.join("dir")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o2775)).unwrap();
        }
        // Control: the file system has the bit, and hands it down.
        let control = Mode::User.act(|| {
            fs::create_dir(at.join("control")).unwrap();
            let made = fs::metadata(at.join("control")).unwrap().mode();
            fs::remove_dir(at.join("control")).unwrap();
            made
        });
        assert_eq!(control & 0o7000, 0o2000);
    };
    for line in [
        "mkdir -p m/n; echo x > m/n/f",
        "umask 002; mkdir -p m/n; mkdir dir/m; echo x > dir/m/f",
        "cp -r dir/sub copy",
    ] {
        same_where(line, share);
    }
}

#[test]
fn the_workspaces_own_directory_keeps_its_mode() {
    let world = furnished();
    let at = world.workspace();
    let mode = fs::metadata(&at).unwrap().mode();
    for (line, words) in [
        ("chmod 700 .; echo 1 > new", &["created new"][..]),
        // What was done before it was closed is committed.
        ("echo 2 > file; chmod 000 .", &["replaced file"]),
    ] {
        let transaction = Transaction::new(&at).unwrap();
        assert_eq!(transaction.bash(line, &at).0, 0, "{line}");
        let (draft, _) = transaction.commit(&[]).unwrap_or_else(|e| panic!("{line}: {e:?}"));
        assert_eq!(draft.words(&at), words, "{line}");
        assert_eq!(fs::metadata(&at).unwrap().mode(), mode, "{line}");
    }
    assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "2\n");
}

#[test]
fn directories_that_may_not_be_written_are_filled_first() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    let line = "mkdir -p ro/in; echo x > ro/in/x; chmod 555 ro/in ro; echo new > dir/new; rm dir/a; \
                chmod 500 dir";
    assert_eq!(transaction.bash(line, &at).0, 0);
    let (draft, _) = transaction.commit(&[]).unwrap();
    assert_eq!(
        draft.words(&at),
        ["created ro 3", "created dir/new", "deleted dir/a 1", "mode dir"]
    );
    let after = picture(&at);
    assert_eq!(after["ro"].0, 0o555);
    assert_eq!(after["ro/in"].0, 0o555);
    assert_eq!(after["ro/in/x"].1, "file x\n");
    assert_eq!(after["dir"].0, 0o500);
    assert_eq!(after["dir/new"].1, "file new\n");
    for name in ["ro/in", "ro", "dir"] {
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_choice_leaves_the_rest_as_it_is() {
    let leave = |world: &World, names: &[&str]| -> Vec<palisade_plan::Path> {
        names.iter().map(|name| world.workspace().join(name).into()).collect()
    };
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    let line = "mv file name; rm -r dir; echo new > log; mkdir t; echo 1 > t/1";
    assert_eq!(transaction.bash(line, &at).0, 0);
    let all = ["replaced log", "moved file name", "created t 2", "deleted dir 4"];
    assert_eq!(transaction.trial().unwrap().words(&at), all);
    // Without the deletions: what was moved leaves both names.
    let (draft, _) = transaction.commit(&leave(&world, &["file", "dir", "t"])).unwrap();
    assert_eq!(draft.words(&at), ["replaced log", "created name"]);
    let after = picture(&at);
    assert_eq!(after["file"], after["name"]);
    assert!(after.contains_key("dir/sub/b") && !after.contains_key("t"));
    // A name that is not among it is not passed over.
    let error = transaction.prepare(&leave(&world, &["keep"])).unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Invalid);
}

#[test]
fn what_a_file_is_beside_its_content_is_kept() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    let line = "printf x > sparse; truncate -s 64M sparse; printf y >> sparse; \
                touch -d @1000000000 sparse; echo one > one; ln one two; mkdir d; ln one d/three; \
                chmod 755 one; python3 -c 'import os; os.setxattr(\"one\", \"user.mine\", b\"v\")'";
    let (status, output) = transaction.bash(line, &at);
    assert_eq!(status, 0, "{output}");
    let (draft, _) = transaction.commit(&[]).unwrap();
    assert_eq!(draft.words(&at), ["created d 2", "created one", "created sparse", "created two"]);
    let sparse = fs::metadata(at.join("sparse")).unwrap();
    assert_eq!((sparse.len(), sparse.mtime()), ((64 << 20) + 1, 1_000_000_000));
    assert!(sparse.blocks() < 64, "{} blocks", sparse.blocks());
    let inode = |name: &str| fs::metadata(at.join(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("two"));
    assert_eq!(inode("one"), inode("d/three"));
    assert_eq!(fs::metadata(at.join("one")).unwrap().mode() & 0o7777, 0o755);
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(at.join("one"), "user.mine", &mut value), Ok(1));
}

#[test]
fn what_a_directory_is_beside_its_entries_is_kept() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    let line = "mkdir -p new/in; echo x > new/in/file; ln -s file new/in/link; \
                python3 -c 'import os; [os.setxattr(d, \"user.mine\", b\"v\") \
                for d in (\"new\", \"new/in\")]'; chmod 555 new/in; \
                touch -h -d @1000000003 new/in/link; touch -d @1000000002 new/in; \
                touch -d @1000000001 new";
    let (status, output) = transaction.bash(line, &at);
    assert_eq!(status, 0, "{output}");
    let (draft, _) = transaction.commit(&[]).unwrap();
    assert_eq!(draft.words(&at), ["created new 4"]);
    let mut value = [0; 8];
    for (name, mode, mtime) in [("new", 0o755, 1_000_000_001), ("new/in", 0o555, 1_000_000_002)] {
        let made = fs::metadata(at.join(name)).unwrap();
        assert_eq!((made.mode() & 0o7777, made.mtime()), (mode, mtime), "{name}");
        assert_eq!(rustix::fs::getxattr(at.join(name), "user.mine", &mut value), Ok(1), "{name}");
    }
    assert_eq!(fs::symlink_metadata(at.join("new/in/link")).unwrap().mtime(), 1_000_000_003);
}

#[test]
fn a_full_transaction_is_refused_whole() {
    let world = furnished();
    let at = world.workspace();
    let mut plan = palisade_tests::plan(&at);
    plan.limits.transaction_bytes = 1 << 20;
    let before = picture(&at);
    let transaction = Transaction::of(&plan, |_, steps| steps).unwrap();
    let (status, output) = transaction.bash("echo new > file; head -c 4M /dev/zero > large", &at);
    assert_eq!(status, 1);
    assert!(output.contains("No space left on device"), "{output}");
    let error = transaction.trial().unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::TooLarge, 28));
    assert_eq!(picture(&at), before);
}

#[test]
fn the_layers_are_out_of_the_program_s_reach() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    // The runner is the first process; its descriptors lead to both layers.
    let line = "echo new > file; for fd in $(seq 0 40); do for w in file ../upper/file; do \
                if echo theirs 2>/dev/null > /proc/1/fd/$fd/$w; then echo wrote $fd; fi; done; \
                done 2>/dev/null; ls /proc/1/fd /proc/1/root /proc/1/cwd 2>&1 | grep -vc 'cannot'; \
                ls /proc/self/fd | tr '\\n' ' '; echo; umount . 2>/dev/null && echo unmounted; \
                mknod whiteout c 0 0 2>/dev/null && echo made; cat file";
    let (_, output) = transaction.bash(line, &at);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.first(), Some(&"0"), "{output}");
    assert!(!output.contains("wrote") && !output.contains("unmounted"), "{output}");
    assert!(!output.contains("made"), "{output}");
    assert_eq!(lines.last(), Some(&"new"), "{output}");
    assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "old\n");
    assert_eq!(transaction.trial().unwrap().words(&at), ["replaced file"]);
}

/// The runner may reach both layers, and its programs start under its Landlock domain: one of their
/// own is what keeps even a descriptor of a layer from being of use.
#[test]
fn landlock_alone_keeps_a_descriptor_of_a_layer_from_being_of_use() {
    let world = furnished();
    let at = world.workspace();
    let line = "exec 2>&1; cat /proc/self/fd/0/keep; echo theirs > /proc/self/fd/0/keep; cat keep";
    let run = |cell: &Cell| {
        let layer = fs::File::open(&at).unwrap();
        cell.run_on(&["bash", "-c", line], &at, layer.as_fd()).1
    };
    let output = run(&Transaction::new(&at).unwrap().cell);
    assert!(output.starts_with("cat: /proc/self/fd/0/keep: Permission denied\n"), "{output}");
    assert!(output.contains("/proc/self/fd/0/keep: Permission denied\nkeep\n"), "{output}");
    assert_eq!(fs::read_to_string(at.join("keep")).unwrap(), "keep\n");
    // The control: without that layer the descriptor is all that it takes.
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    assert_eq!(run(&free), "keep\ntheirs\n");
}

#[test]
fn a_mount_below_the_workspace_is_no_transaction() {
    let world = furnished();
    let at = world.workspace();
    let mut plan = palisade_tests::plan(&at);
    plan.tmpfs.push(palisade_plan::Tmpfs {
        path: at.join("dir").into(),
        bytes: 1 << 20,
        mode: 0o755,
    });
    let (step, why) = Transaction::of(&plan, |_, steps| steps).err().unwrap();
    assert_eq!(step, "overlay");
    assert!(why.contains("is a mount in it"), "{why}");
}
