//! Transactions whose layer is on the disk, and those of a launcher of its own: the cell and the launcher
//! alone, without a broker.

use palisade_channel::{Channel, Datagrams};
use palisade_plan::{
    BUILD_ID, Found, LaunchPlan, Upper,
    cell::{End, FILE_CHANNELS, FileErrorKind, FileReply, Ready, RunReply},
    change::Keep,
    launcher::{Refusal, Reply, Request, SessionOwner},
};
use palisade_tests::{
    CHANGES, Mode, Place, Settling, Transaction, Words as _, World, binary, effort, furnished,
    picture,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    ffi::OsStr,
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::Path,
};

/// A place for transactions on the disk, as a launcher has one.
fn store() -> Place {
    let store = Place::new();
    store.set_mode(0o711);
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
        "{CHANGES}; ls -d {store} {place} /proc/1/root/. 2>&1 | grep -vc cannot; \
         find / -xdev -name upper 2>/dev/null; cat made",
        store = store.path().display(),
        place = place.display()
    );
    let (status, output) = transaction.bash(&line, &at);
    assert_eq!((status, output.as_str()), (0, "0\nfresh\n"));
    // It is there, for who made the store alone; and the workspace is as it was.
    let meta = fs::metadata(&place).unwrap();
    let owner = fs::metadata(store.path()).unwrap().uid();
    assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o700, owner));
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
    let store = Place::below(Path::new("/dev/shm"));
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
    // One that has ended before it is looked at is held to the same. On a slow machine it is looked
    // at before.
    let transaction = Transaction::stored(&plan, store.path(), "two").unwrap();
    let line = "head -c 4M /dev/zero > large; sync large";
    let (reply, output) = transaction.cell.run(&["bash", "-c", line], &at);
    let RunReply::Ended { end, .. } = reply else { panic!("{reply:?}: {output}") };
    assert!(matches!(end, End::Exit(0) | End::Signal(9)), "{end:?}: {output}");
    assert_eq!(transaction.trial().unwrap_err().errno, 28);
}

/// The most memory that the process of a transaction has had, in bytes.
fn peak(transaction: &Transaction) -> u64 {
    let pid = transaction.process().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_file_far_larger_than_the_memory_bound_is_changed_and_committed() {
    let size = effort(512 << 20, 2 << 30);
    let long = std::env::var_os("PALISADE_LONG").is_some();
    for dense in [false, true].into_iter().take(if long { 2 } else { 1 }) {
        let (world, store) = (World::new(Mode::User), store());
        let at = world.workspace();
        let big = at.join("big");
        Mode::User.act(|| {
            let file = fs::File::create(&big).unwrap();
            file.set_len(size).unwrap();
            file.write_at(b"first", 0).unwrap();
            file.write_at(b"last", size - 4).unwrap();
            let piece = vec![7; 1 << 20];
            for at in (0..if dense { size >> 20 } else { 0 }).map(|number| number << 20) {
                file.write_at(&piece, at).unwrap();
            }
        });
        let mut plan = palisade_tests::plan(&at);
        plan.limits.file_bytes = 2 * size;
        plan.limits.transaction_bytes = if dense { 2 * size } else { 64 << 20 };
        let transaction = Transaction::stored(&plan, store.path(), "one").unwrap();
        let middle = size / 2;
        let line = format!(
            "printf middle | dd of=big bs=1 seek={middle} conv=notrunc 2>&1 | grep -c copied"
        );
        assert_eq!(transaction.bash(&line, &at), (0, "1\n".to_owned()));
        let draft = transaction.settling().prepare_with(&[], Keep::Nothing, 1 << 20).unwrap();
        assert_eq!(draft.words(&at), ["replaced big"]);
        transaction.settling().begin_commit();
        let ended = transaction.settling().end_commit();
        assert!(matches!(ended, Some(FileReply::Changed(_))), "{ended:?}");
        assert!(peak(&transaction) < 64 << 20, "{} bytes", peak(&transaction));
        let (meta, file) = (fs::metadata(&big).unwrap(), fs::File::open(&big).unwrap());
        assert_eq!(meta.len(), size);
        assert!(dense || meta.blocks() * 512 < 16 << 20, "{} blocks", meta.blocks());
        let read = |at, length| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        assert_eq!(read(size / 2, 6), b"middle");
        let ends =
            if dense { (vec![7; 5], vec![7; 4]) } else { (b"first".to_vec(), b"last".to_vec()) };
        assert_eq!((read(0, 5), read(size - 4, 4)), ends);
    }
}

/// A launcher with a session, as root's and as an ordinary user's.
struct Launcher {
    socket: Datagrams,
    child: std::process::Child,
    _files: Vec<(OwnedFd, OwnedFd)>,
}

impl Launcher {
    fn start(mode: Mode, arguments: &[&OsStr], plan: LaunchPlan) -> Self {
        let files: Vec<(OwnedFd, OwnedFd)> =
            mode.act(|| (0..1 + FILE_CHANNELS).map(|_| pair(SocketType::STREAM)).collect());
        let cookie = rustix::net::sockopt::socket_cookie(&files[0].1).unwrap().to_string();
        let (socket, child) = mode.act(|| {
            let (ours, theirs) = pair(SocketType::SEQPACKET);
            #[allow(clippy::disallowed_methods, reason = "the program under test")]
            let mut command = std::process::Command::new(binary("palisade-launcher"));
            let command = command.args(arguments).args(["--client-cookie", &cookie]).env_clear();
            let child = command.stdin(std::process::Stdio::from(theirs)).spawn().unwrap();
            (Datagrams::new(ours), child)
        });
        let launcher = Self { socket, child, _files: files };
        launcher.socket.send(&Request::Hello { build_id: BUILD_ID.to_owned() }, &[]).unwrap();
        let Some(Reply::Welcome { facts, .. }) = launcher.heard() else { panic!("{mode:?}") };
        assert_eq!(facts.overlay.write, Found::Yes("overlayfs on tmpfs".to_owned()), "{mode:?}");
        let theirs: Vec<_> = launcher._files.iter().map(|(_, theirs)| theirs.as_fd()).collect();
        let request =
            Request::Session { session: 1, whose: SessionOwner::Client, plan: Box::new(plan) };
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
        assert_eq!(why, "1 is the wrong number of descriptors for a runner");
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
        let place = mode.act(Place::new);
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
