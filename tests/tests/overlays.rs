//! What a program does in a transaction is held back, told exactly, and done whole or not at all:
//! the cell alone, without broker and launcher.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on fails"
)]

use palisade_channel::{Channel, Datagrams};
use palisade_plan::{
    BUILD_ID, Durable, Found, LaunchPlan, Upper,
    cell::{End, FILE_CHANNELS, FileErrorKind, FileReply, Ready, RunReply},
    change::Keep,
    launcher::{Refusal, Reply, Request, Whose},
};
use palisade_tests::{Mode, Settling, Transaction, Words as _, World, binary};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
};

fn world() -> World {
    World::new(Mode::User)
}

/// Everything in a workspace: kind, mode, and content or target.
fn picture(dir: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    add(dir, dir, &mut found);
    found
}

fn add(top: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            add(top, &path, found);
            "directory".to_owned()
        } else {
            format!("file {}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
        };
        let name = path.strip_prefix(top).unwrap().display().to_string();
        found.insert(name, (meta.mode() & 0o7777, what));
    }
}

/// A workspace with a few of everything.
fn furnished() -> World {
    let world = world();
    let at = world.workspace();
    Mode::User.act(|| {
        fs::create_dir_all(at.join("dir/sub")).unwrap();
        fs::write(at.join("file"), "old\n").unwrap();
        fs::write(at.join("log"), "one\n").unwrap();
        fs::write(at.join("dir/a"), "a\n").unwrap();
        fs::write(at.join("dir/sub/b"), "b\n").unwrap();
        fs::write(at.join("keep"), "keep\n").unwrap();
        std::os::unix::fs::symlink("file", at.join("link")).unwrap();
    });
    world
}

const ALL: &str = "echo new > file; echo two >> log; rm -r dir; mkdir -p tree/x; echo t > tree/x/y; \
                   ln -sfn log link; chmod 600 keep; echo fresh > made";

#[test]
fn nothing_is_done_until_it_is_committed_and_then_all_of_it() {
    let world = furnished();
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    let (status, output) = transaction.bash(&format!("{ALL}; cat file log made; ls dir"), &at);
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
    // What is done is not there to be done again.
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
    assert_eq!(transaction.bash(ALL, &at).0, 0);
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
    assert_eq!(receipt, plain.receipt);
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
    let (inside, outside) = (furnished(), furnished());
    let (at, beside) = (inside.workspace(), outside.workspace());
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

/// A place for transactions on the disk, as a launcher has one.
fn store() -> tempfile::TempDir {
    let store = tempfile::tempdir().unwrap();
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o711)).unwrap();
    store
}

#[test]
fn on_the_disk_it_is_the_same_and_as_much_out_of_reach() {
    let (world, store) = (furnished(), store());
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::stored(&palisade_tests::plan(&at), store.path(), "one").unwrap();
    assert_eq!(transaction.cell.receipt.upper, Some(Upper::Disk));
    let place = store.path().join("one");
    let line = format!(
        "{ALL}; ls -d {store} {place} /proc/1/root/. 2>&1 | grep -vc cannot; \
         find / -xdev -name upper 2>/dev/null; cat made",
        store = store.path().display(),
        place = place.display()
    );
    let (status, output) = transaction.bash(&line, &at);
    assert_eq!((status, output.as_str()), (0, "0\nfresh\n"));
    // It is there, for the session alone; and the workspace is as it was.
    let meta = fs::metadata(&place).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o700, palisade_tests::own().uid));
    assert_eq!(fs::read_to_string(place.join("upper/made")).unwrap(), "fresh\n");
    let (upper, workspace) = (place.join("upper").metadata().unwrap(), at.metadata().unwrap());
    let like = |meta: &fs::Metadata| (meta.mode(), meta.uid(), meta.gid(), meta.dev());
    assert_eq!(like(&upper), like(&workspace));
    assert_eq!(picture(&at), before);
    let (draft, _) = transaction.commit(&[]).unwrap();
    assert_eq!(fs::read_to_string(at.join("log")).unwrap(), "one\ntwo\n");
    assert_eq!(draft.words(&at).len(), 7);
    transaction.undo(&draft, false).unwrap();
    assert_eq!(picture(&at), before);
}

#[test]
fn what_is_on_another_file_system_than_the_workspace_is_not_used() {
    let world = furnished();
    let at = world.workspace();
    let store = tempfile::tempdir_in("/dev/shm").unwrap();
    assert_ne!(store.path().metadata().unwrap().dev(), at.metadata().unwrap().dev());
    let transaction = Transaction::stored(&palisade_tests::plan(&at), store.path(), "one").unwrap();
    assert_eq!(transaction.cell.receipt.upper, Some(Upper::Memory));
    assert_eq!(transaction.bash("echo new > made", &at).0, 0);
    assert!(!store.path().join("one/upper").exists());
    transaction.commit(&[]).unwrap();
    assert_eq!(fs::read_to_string(at.join("made")).unwrap(), "new\n");
}

#[test]
fn a_program_that_writes_too_much_to_the_disk_is_ended_and_nothing_counts() {
    let (world, store) = (furnished(), store());
    let at = world.workspace();
    let mut plan = palisade_tests::plan(&at);
    plan.limits.transaction_bytes = 1 << 20;
    let before = picture(&at);
    let transaction = Transaction::stored(&plan, store.path(), "one").unwrap();
    let line = "echo new > file; head -c 4M /dev/zero > large; sync large; sleep 600";
    let (reply, output) = transaction.cell.run(&["bash", "-c", line], &at);
    let RunReply::Ended { end, .. } = reply else { panic!("{reply:?}: {output}") };
    assert_eq!(end, End::Signal(9), "{output}");
    let error = transaction.trial().unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::TooLarge, 28));
    assert!(error.message.contains("limits.transaction"), "{}", error.message);
    assert_eq!(picture(&at), before);
    // One that is over before it is looked at is held to the same.
    let transaction = Transaction::stored(&plan, store.path(), "two").unwrap();
    assert_eq!(transaction.bash("head -c 4M /dev/zero > large; sync large", &at).0, 0);
    assert_eq!(transaction.trial().unwrap_err().errno, 28);
}

/// The most memory that the process of a transaction has had, in bytes.
fn peak(transaction: &Transaction) -> u64 {
    let pid = once(transaction).as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_file_of_gigabytes_is_changed_and_committed_without_being_held_in_memory() {
    const SIZE: u64 = 2 << 30;
    let long = std::env::var_os("PALISADE_LONG").is_some();
    for dense in [false, true].into_iter().take(if long { 2 } else { 1 }) {
        let (world, store) = (world(), store());
        let at = world.workspace();
        let big = at.join("big");
        Mode::User.act(|| {
            let file = fs::File::create(&big).unwrap();
            file.set_len(SIZE).unwrap();
            file.write_at(b"first", 0).unwrap();
            file.write_at(b"last", SIZE - 4).unwrap();
            let piece = vec![7; 1 << 20];
            for at in (0..if dense { SIZE >> 20 } else { 0 }).map(|number| number << 20) {
                file.write_at(&piece, at).unwrap();
            }
        });
        let mut plan = palisade_tests::plan(&at);
        plan.limits.file_bytes = 2 * SIZE;
        plan.limits.transaction_bytes = if dense { 2 * SIZE } else { 64 << 20 };
        let transaction = Transaction::stored(&plan, store.path(), "one").unwrap();
        let line = "printf middle | dd of=big bs=1 seek=1G conv=notrunc 2>&1 | grep -c copied";
        assert_eq!(transaction.bash(line, &at), (0, "1\n".to_owned()));
        let draft = transaction.settling().prepare_with(&[], Keep::Nothing, 1 << 20).unwrap();
        assert_eq!(draft.words(&at), ["replaced big"]);
        transaction.settling().begin_commit();
        let ended = transaction.settling().end_commit();
        assert!(matches!(ended, Some(FileReply::Changed(_))), "{ended:?}");
        assert!(peak(&transaction) < 64 << 20, "{} bytes", peak(&transaction));
        let (meta, file) = (fs::metadata(&big).unwrap(), fs::File::open(&big).unwrap());
        assert_eq!(meta.len(), SIZE);
        assert!(dense || meta.blocks() * 512 < 16 << 20, "{} blocks", meta.blocks());
        let read = |at, length| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        assert_eq!(read(SIZE / 2, 6), b"middle");
        let ends =
            if dense { (vec![7; 5], vec![7; 4]) } else { (b"first".to_vec(), b"last".to_vec()) };
        assert_eq!((read(0, 5), read(SIZE - 4, 4)), ends);
    }
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

/// A launcher with a session, as root's and as an ordinary user's.
struct Launcher {
    socket: Datagrams,
    child: std::process::Child,
    _files: Vec<(OwnedFd, OwnedFd)>,
}

impl Launcher {
    fn start(mode: Mode, arguments: &[&OsStr], plan: LaunchPlan) -> Self {
        let (socket, child) = mode.act(|| {
            let (ours, theirs) = pair(SocketType::SEQPACKET);
            #[allow(clippy::disallowed_methods, reason = "the program under test")]
            let mut command = std::process::Command::new(binary("palisade-launcher"));
            let command = command.args(arguments).env_clear();
            let child = command.stdin(std::process::Stdio::from(theirs)).spawn().unwrap();
            (Datagrams::new(ours), child)
        });
        let files = mode.act(|| (0..1 + FILE_CHANNELS).map(|_| pair(SocketType::STREAM)).collect());
        let launcher = Self { socket, child, _files: files };
        launcher.socket.send(&Request::Hello { build_id: BUILD_ID.to_owned() }, &[]).unwrap();
        let Some(Reply::Welcome { facts, .. }) = launcher.heard() else { panic!("{mode:?}") };
        assert_eq!(facts.overlay, Found::Yes("overlayfs on tmpfs".to_owned()), "{mode:?}");
        let theirs: Vec<_> = launcher._files.iter().map(|(_, theirs)| theirs.as_fd()).collect();
        let request = Request::Session { session: 1, whose: Whose::Client, plan: Box::new(plan) };
        launcher.socket.send(&request, &theirs).unwrap();
        assert!(matches!(launcher.heard(), Some(Reply::Started { session: 1, .. })), "{mode:?}");
        launcher
    }

    fn heard(&self) -> Option<Reply> {
        self.socket.receive::<Reply>().unwrap().map(|(reply, _)| reply)
    }

    /// A transaction: its two channels, and where it is kept.
    fn transaction(&self) -> (Channel, Channel, Option<Upper>) {
        let [(run, run_end), (file, file_end)] =
            [pair(SocketType::STREAM), pair(SocketType::STREAM)];
        let ends = [run_end.as_fd(), file_end.as_fd()];
        self.socket.send(&Request::Transaction { session: 1 }, &ends).unwrap();
        drop((run_end, file_end));
        let (run, file) = (Channel::new(run), Channel::new(file));
        let (ready, _) = run.receive::<Ready>().unwrap().unwrap();
        let Ready::Confined(receipt) = ready else { panic!("{ready:?}") };
        (run, file, receipt.upper)
    }
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// With the launcher's own few capabilities, as root's and as an ordinary user's.
#[test]
fn a_launcher_makes_transactions_with_what_privilege_it_has() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let at = world.workspace();
        mode.act(|| fs::write(at.join("file"), "old\n").unwrap());
        let mut launcher = Launcher::start(mode, &[], palisade_tests::plan(&at));
        for line in ["echo new > file; mkdir d; rm file; echo again > file", "rm -r d"] {
            let (run, file, upper) = launcher.transaction();
            assert_eq!(upper, Some(Upper::Memory));
            let (reply, output) = palisade_tests::run(&run, &["bash", "-c", line], &at);
            let RunReply::Ended { end, .. } = reply else { panic!("{mode:?}: {reply:?}") };
            assert_eq!(end, End::Exit(0), "{mode:?}: {output}");
            let before = picture(&at);
            let settling = Settling(&file);
            let words = settling.trial().unwrap().words(&at);
            assert_eq!(picture(&at), before, "{mode:?}");
            let (draft, _) = settling.commit(&[]).unwrap();
            assert_eq!(draft.words(&at), words, "{mode:?}");
            assert_ne!(picture(&at), before, "{mode:?}");
        }
        assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "again\n");
        assert!(!at.join("d").exists());
        // Two descriptors, and a session that there is.
        let (one, _other) = pair(SocketType::STREAM);
        launcher.socket.send(&Request::Transaction { session: 1 }, &[one.as_fd()]).unwrap();
        let Some(Reply::Refused { session: 1, refusal: Refusal::Session(why) }) = launcher.heard()
        else {
            panic!("{mode:?}")
        };
        assert_eq!(why, "1 descriptors for a runner");
        drop(launcher.socket);
        assert_eq!(launcher.child.wait().unwrap().code(), Some(0), "{mode:?}");
    }
}

/// Every entry below a directory, once it is as expected or it took too long.
fn eventually(dir: &Path, expected: usize) -> Vec<std::path::PathBuf> {
    fn all(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            found.push(entry.path());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                all(&entry.path(), found);
            }
        }
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let mut found = Vec::new();
        all(dir, &mut found);
        if found.len() == expected || std::time::Instant::now() > until {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_a_launcher_keeps_on_the_disk_goes_with_its_transaction_and_with_a_killed_launcher() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let at = world.workspace();
        let place = mode.act(|| tempfile::tempdir().unwrap());
        let store = place.path().to_owned();
        let mut plan = palisade_tests::plan(&at);
        plan.transactions.upper = Upper::Disk;
        let arguments = [OsStr::new("--store"), store.as_os_str()];
        let mut launcher = Launcher::start(mode, &arguments, plan.clone());
        let line = "echo new > made; mkdir -p d/closed; echo x > d/closed/x; chmod 0 d/closed";
        for _round in 0..2 {
            let (run, file, upper) = launcher.transaction();
            assert_eq!(upper, Some(Upper::Disk), "{mode:?}");
            let (reply, output) = palisade_tests::run(&run, &["bash", "-c", line], &at);
            assert!(matches!(reply, RunReply::Ended { end: End::Exit(0), .. }), "{output}");
            assert!(store.join("0").exists(), "{mode:?}");
            drop((run, file));
            // The launcher's own directory stays, empty.
            assert_eq!(eventually(&store, 1), [store.join("0")], "{mode:?}");
        }
        let (run, _file, _) = launcher.transaction();
        let (reply, _) = palisade_tests::run(&run, &["bash", "-c", line], &at);
        assert!(matches!(reply, RunReply::Ended { .. }));
        launcher.child.kill().unwrap();
        launcher.child.wait().unwrap();
        assert!(store.join("0/3/upper").exists(), "{mode:?}: a killed launcher leaves it");
        let mut next = Launcher::start(mode, &arguments, plan);
        assert_eq!(eventually(&store, 0), Vec::<std::path::PathBuf>::new(), "{mode:?}");
        drop(next.socket);
        assert_eq!(next.child.wait().unwrap().code(), Some(0), "{mode:?}");
        assert!(!at.join("made").exists(), "{mode:?}");
    }
}

/// The process of a transaction.
fn once(transaction: &Transaction) -> rustix::process::Pid {
    let mut processes = transaction.cell.processes().into_iter();
    let once = processes.find(|process| process.name == "cell 1 once").unwrap();
    rustix::process::Pid::from_raw(once.pid).unwrap()
}

/// How many rounds there are at least, and how long they go on.
fn rounds(least: u32) -> impl Iterator<Item = u32> {
    let long = std::env::var_os("PALISADE_LONG").is_some();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let goes_on = move |round: &u32| {
        *round < least || (!long && std::time::Instant::now() < until) || (long && *round < 300)
    };
    (0..300).take_while(goes_on)
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
    let world = world();
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
    for round in rounds(8) {
        let mut plan = palisade_tests::plan(&at);
        plan.transactions.durable = Durable::No;
        let transaction = Transaction::of(&plan, |_, steps| steps).unwrap();
        assert_eq!(transaction.bash(line, &at).0, 0);
        let draft = transaction.prepare(&[]).unwrap();
        let pid = once(&transaction);
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
    // What they left goes with the next.
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash("echo last > last", &at).0, 0);
    transaction.commit(&[]).unwrap();
    let left: Vec<_> = picture(&at).into_keys().filter(|name| name.contains("palisade-")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn what_somebody_else_writes_at_any_time_is_never_lost() {
    let world = world();
    let at = world.workspace();
    let file = at.join("file");
    let (mut done, mut refused) = (0, 0);
    for round in 0..40_u64 {
        Mode::User.act(|| fs::write(&file, "old").unwrap());
        let transaction = Transaction::new(&at).unwrap();
        let theirs = at.join("theirs");
        Mode::User.act(|| fs::write(&theirs, "theirs").unwrap());
        let settled = std::thread::scope(|scope| {
            scope.spawn(|| {
                // From before the program reads it to after it is committed.
                std::thread::sleep(std::time::Duration::from_millis(round * 2));
                fs::rename(&theirs, &file).unwrap();
            });
            let line = "x=$(cat file); sleep 0.01; printf '%s and mine' \"$x\" > file";
            assert_eq!(transaction.bash(line, &at).0, 0);
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
