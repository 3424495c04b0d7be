//! Changes of very many files at once: with a bounded number of descriptors and bounded messages,
//! committed, judged, undone, and refused by a stated bound.

use palisade_client::Answer;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Desk, Mode, Transaction, World, effort, profile_with, report};
use serde_json::json;
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path, time::Instant};

/// Returns how many paths a call changes: more than was ever possible, or all that is promised.
fn many() -> usize {
    effort(12_000, 50_000)
}

/// The most memory that a process had, and for how many descriptors it has had room.
fn of_process(pid: i32) -> (String, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim();
    (of("VmHWM:").to_owned(), of("FDSize:").parse().unwrap())
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Makes, writes over or deletes files of an existing directory.
fn program(act: &str, many: usize) -> String {
    let act = match act {
        "create" => "open(p, 'w').write(str(n))",
        "replace" => "open(p, 'w').write('other ' + str(n))",
        "delete" => "os.remove(p)",
        other => panic!("{other}"),
    };
    format!("python3 -c \"import os\nfor n in range({many}):\n p = 'd/file-' + str(n)\n {act}\"")
}

#[test]
fn a_transaction_of_very_many_files_has_few_descriptors() {
    let world = World::new(Mode::User);
    let workspace = world.workspace();
    fs::create_dir(workspace.join("d")).unwrap();
    world.give(&workspace.join("d"));
    for act in ["create", "replace", "delete"] {
        // As many new files are made as are promised, however short the test.
        let many = if act == "create" { 50_000 } else { many() };
        let transaction = Transaction::new(&workspace).unwrap();
        let (status, said) = transaction.bash(&program(act, many), &workspace);
        assert_eq!(status, 0, "{act}: {said}");
        let process = transaction.process().as_raw_nonzero().get();
        let begun = Instant::now();
        let draft = transaction.prepare(&[]).unwrap();
        let prepared = begun.elapsed();
        assert_eq!(draft.prepared.effects.len(), many);
        assert_eq!(draft.befores.len(), many);
        let (_, room) = of_process(process);
        assert!(room <= 256, "room for {room} descriptors");
        transaction.settling().begin_commit();
        let changed = transaction.settling().changed().unwrap();
        let most = of_process(process).0;
        report(&format!("{act} {many} files, prepared"), format!("{prepared:?}"));
        report(&format!("{act} {many} files, committed"), format!("{:?}", begun.elapsed()));
        report(&format!("{act} {many} files, most memory"), most);
        assert_eq!(changed.effects.len(), many);
        let left = if act == "delete" { 50_000 - many } else { 50_000 };
        assert_eq!(count(&workspace.join("d")), left);
    }
}

fn desk(mode: Mode) -> Desk {
    let desk = Desk::new(
        mode,
        &profile_with(&[
            ("guard = \"auto\"", "guard = \"transaction\""),
            ("timeout_ms = 30_000", "timeout_ms = 300_000"),
        ]),
    );
    desk.file("d/first", "");
    desk.attach();
    desk
}

fn run(desk: &Desk, line: &str) -> CallResult {
    let (result, _) = desk.bash(line, |_| Answer::approve());
    assert!(result.success, "{line}: {result:?}");
    result
}

fn undo(desk: &Desk, result: &CallResult) {
    let call = json!({"call_id": result.undo.clone().expect("an undo id")});
    let (undone, _) = desk.call("undo", call, |_| Some(Answer::approve()));
    assert!(undone.success, "{:?}", undone.error);
}

#[test]
fn very_many_files_are_made_replaced_and_deleted_by_one_call_and_undone() {
    let modes = Mode::all();
    for mode in effort(modes.get(..1).unwrap(), &modes) {
        let desk = desk(*mode);
        let (d, many) = (desk.path("d"), many());
        for act in ["create", "replace", "delete"] {
            let begun = Instant::now();
            let result = run(&desk, &program(act, many));
            let took = format!("{:?}", begun.elapsed());
            report(&format!("call that {act}s {many} files, {mode:?}"), took);
            let most = of_process(i32::try_from(desk.daemon.child.id()).unwrap()).0;
            report(&format!("daemon, {act} {many} files, {mode:?}"), most);
            let left = if act == "delete" { 1 } else { many + 1 };
            assert_eq!(count(&d), left, "{mode:?} {act}");
            if act != "create" {
                let begun = Instant::now();
                undo(&desk, &result);
                let took = format!("{:?}", begun.elapsed());
                report(&format!("undo of {act} {many} files, {mode:?}"), took);
                assert_eq!(count(&d), many + 1, "{mode:?} {act}");
                let last = desk.text(&format!("d/file-{}", many - 1));
                assert_eq!(last, Some((many - 1).to_string()), "{mode:?} {act}");
            }
        }
    }
}

#[test]
fn very_many_directories_are_changed_and_undone() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let all = |act: &str| {
            format!("python3 -c \"import os\nfor n in range(700):\n p = 'd/' + str(n)\n {act}\"")
        };
        run(&desk, &all("os.mkdir(p); open(p + '/f', 'w').write('old')"));
        let line = all("open(p + '/f', 'w').write('newer'); open(p + '/g', 'w').write('g')");
        let result = run(&desk, &line);
        assert_eq!(desk.text("d/699/f").as_deref(), Some("newer"), "{mode:?}");
        undo(&desk, &result);
        for n in 0..700 {
            assert_eq!(desk.text(&format!("d/{n}/f")).as_deref(), Some("old"), "{mode:?} {n}");
            assert_eq!(desk.text(&format!("d/{n}/g")), None, "{mode:?} {n}");
        }
        let result = run(&desk, "rm -r d");
        undo(&desk, &result);
        assert_eq!(desk.text("d/699/f").as_deref(), Some("old"), "{mode:?}");
    }
}

#[test]
fn more_than_the_most_is_refused_and_nothing_is_changed() {
    let guarded = profile_with(&[("guard = \"auto\"", "guard = \"transaction\"")]);
    let desk = Desk::new(Mode::all()[0], &guarded);
    desk.file("d/first", "");
    let line = "python3 -c \"import os\nfor n in range(100_001): os.symlink('x', 'd/' + str(n))\"";
    let result = desk.sandbox.bash(line);
    let error = result.error.expect("refused");
    assert_eq!(error.code, ErrorCode::TooLarge, "{error:?}");
    assert!(error.message.contains("100001 paths"), "{error:?}");
    assert_eq!(count(&desk.path("d")), 1);
}

/// Names that are different as bytes and the same as text, in an order in which neighbours differ.
#[test]
fn names_that_look_alike_cost_the_broker_no_more_than_others() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let odd =
            |n: usize| [0x80 + u8::try_from(n % 64).unwrap(), 0x80 + u8::try_from(n / 64).unwrap()];
        for n in 0..1_500 {
            for end in [b"".as_slice(), b"a"] {
                let name = [&odd(n), end].concat();
                let path = desk.path("d").join(OsStr::from_bytes(&name));
                fs::write(&path, "x").unwrap();
                desk.world.give(&path);
            }
        }
        run(&desk, "rm -- d/*");
        assert_eq!(count(&desk.path("d")), 0, "{mode:?}");
        let (most, _) = of_process(i32::try_from(desk.daemon.child.id()).unwrap());
        let kib: u64 = most.trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 400 << 10, "{mode:?}: {most}");
    }
}
