//! What a command replaces and undo has no room for is asked about; with no approver it stays.

use palisade_audit::{Effects, ReadError, Reader, Record};
use palisade_client::{Answer, ApprovalRequest, Open};
use palisade_protocol::{CallResult, ErrorCode, Finding};
use palisade_tests::{Desk, Mode, Sandbox, UNASKED, outside, profile_with, tree};
use serde_json::json;
use std::thread;

/// Room for two files of [`SIZE`] bytes, and for a small one.
const LITTLE: &str = "[quotas]\nundo_bytes = 100000\n\n[undo]\nkeep = \"2d\"\n";
const SIZE: usize = 40_000;

const NO_ROOM: &str = "undo has no room for what the command replaced or deleted";

/// A workspace with the files `a` to `d`, whose user's undo store is then filled with `a` and `b`.
fn full(mode: Mode, profile: &str) -> (Desk, CallResult) {
    let desk = desk(mode, profile);
    let filled = fill(&desk);
    (desk, filled)
}

fn desk(mode: Mode, profile: &str) -> Desk {
    let desk = Desk::configured(mode, profile, LITTLE);
    for name in ["a", "b", "c", "d"] {
        desk.file(name, &name.repeat(SIZE));
    }
    desk
}

/// Fills the undo store by a session that nobody is asked about.
fn fill(desk: &Desk) -> CallResult {
    let free = Open::new(desk.world.workspace()).profile(UNASKED);
    let sandbox = Sandbox::over(desk.daemon.connect(desk.world.mode), None, free).unwrap();
    let [first, _] = ["a", "b"].map(|path| sandbox.done("delete_file", json!({"path": path})));
    assert!(first.undo.is_some(), "{first:?}");
    first
}

fn approve(_: &ApprovalRequest) -> Answer {
    Answer::approve()
}

/// The findings of a kind.
fn of_kind<'a>(findings: &'a [Finding], kind: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|found| found.kind == kind).collect()
}

/// The effects that the audit log has of a call.
fn recorded(desk: &Desk, call: &CallResult) -> Effects {
    let mut found = Vec::new();
    Reader::new(&desk.world.state().join("audit"))
        .read::<ReadError>(|sighted| {
            if let Record::Effects(effects) = sighted?.entry.record
                && effects.call_id == call.call_id.as_str()
            {
                found.push(effects);
            }
            Ok(())
        })
        .unwrap();
    let [effects] = &found[..] else { panic!("{found:?}") };
    effects.clone()
}

#[test]
fn an_approver_is_told_that_undo_has_no_room_and_may_commit_without() {
    for mode in Mode::all() {
        let (desk, filled) = full(mode, &profile_with(&[]));
        desk.attach();
        // The control: there is room for a small file.
        desk.file("small", "small\n");
        let (small, requests) = desk.bash("rm small", approve);
        assert!(small.success && small.undo.is_some(), "{mode:?}: {small:?}");
        assert!(!requests[0].findings.iter().any(|found| found.why.contains(NO_ROOM)));
        assert!(!recorded(&desk, &small).no_undo, "{mode:?}");

        let (lost, requests) = desk.bash("rm c; echo new > d", approve);
        let [request] = &requests[..] else { panic!("{mode:?}: {requests:?}") };
        let found = of_kind(&request.findings, "destructive");
        assert!(found[0].why.starts_with(NO_ROOM), "{mode:?}: {found:?}");
        let needed = "and this call needs at least ";
        let remedy = format!("`palisade forget --user {} --only undo --older-than ", mode.uid());
        for part in [needed, &remedy, "raise quotas.undo_bytes"] {
            assert!(found[0].why.contains(part), "{mode:?}: {}", found[0].why);
        }
        for name in ["c", "d"] {
            let path = desk.path(name).display().to_string();
            assert!(found.iter().any(|found| found.targets == [path.clone()]), "{found:?}");
        }
        // It is committed, and everything says that there is no undo.
        assert!(lost.success && lost.undo.is_none(), "{mode:?}: {lost:?}");
        assert_eq!((desk.text("c"), desk.text("d").as_deref()), (None, Some("new\n")));
        let told = of_kind(&lost.findings, "no_undo");
        assert!(told.len() == 1 && told[0].why.contains(&remedy), "{mode:?}: {told:?}");
        assert!(recorded(&desk, &lost).no_undo, "{mode:?}");
        let undone = desk.sandbox.call("undo", json!({"call_id": lost.call_id}));
        let error = undone.error.expect("no undo");
        assert_eq!(error.code, ErrorCode::NotFound, "{mode:?}: {error}");
        assert!(error.message.contains("has no undo record"), "{error}");
        assert!(error.hint.contains("`no_undo`"), "{error}");
        // No other record was deleted for it.
        for (call, name) in [(&small, "small"), (&filled, "a")] {
            let undone = desk.sandbox.call("undo", json!({"call_id": call.undo}));
            assert!(undone.success, "{mode:?} {name}: {:?}", undone.error);
            assert!(desk.text(name).is_some(), "{mode:?} {name}");
        }
    }
}

#[test]
fn with_no_approver_nothing_is_lost_for_lack_of_room() {
    let allowing = profile_with(&[("deletions = \"ask\"", "deletions = \"allow\"")]);
    for (profile, line) in [
        (profile_with(&[]), "rm c"),
        (profile_with(&[]), "echo new > c; echo new > new"),
        // The profile allows deletions because undo keeps what was deleted.
        (allowing, "rm c"),
    ] {
        for mode in Mode::all() {
            let (desk, _) = full(mode, &profile);
            let before = tree(&desk.world.workspace());
            let result = desk.sandbox.bash(line);
            let error = result.error.expect("a denial");
            assert_eq!(error.code, ErrorCode::Denied, "{mode:?} {line}: {error}");
            let remedy =
                format!("`palisade forget --user {} --only undo --older-than ", mode.uid());
            for part in [NO_ROOM, "raise quotas.undo_bytes", &remedy, "no approver is connected"] {
                assert!(error.message.contains(part), "{mode:?} {line}: {error}");
            }
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?} {line}");
        }
    }
}

/// Promise 2: only what was shown may be lost.
#[test]
fn an_approval_of_what_undo_had_room_for_is_no_approval_without() {
    for mode in Mode::all() {
        let desk = desk(mode, &profile_with(&[]));
        desk.attach();
        let call = async { desk.sandbox.session.bash("rm c").await.expect("a result") };
        let (result, requests) = desk.during(call, async |request| {
            thread::scope(|scope| scope.spawn(|| fill(&desk)).join().expect("filled"));
            desk.operator.answer(request, Answer::approve()).await.expect("taken");
        });
        assert!(!requests[0].findings.iter().any(|found| found.why.contains(NO_ROOM)));
        let error = result.error.expect("stale");
        assert_eq!(error.code, ErrorCode::StaleApproval, "{mode:?}: {error}");
        assert_eq!(desk.text("c"), Some("c".repeat(SIZE)), "{mode:?}");
        // Made again, it is shown as it is.
        let (result, requests) = desk.bash("rm c", approve);
        assert!(requests[0].findings[0].why.contains(NO_ROOM), "{mode:?}: {requests:?}");
        assert!(result.success && desk.text("c").is_none(), "{mode:?}: {result:?}");
    }
}

#[test]
fn what_loses_nothing_is_committed_without_room_and_the_result_says_so() {
    for mode in Mode::all() {
        let (desk, _) = full(mode, &profile_with(&[]));
        let make = "git init -q -b main . && git config user.name x && \
                    git config user.email x@example.org && git add c && git commit -qm x";
        outside(&desk.world, &desk.world.workspace(), make);
        for line in ["sed -i s/c/x/ c", "head -c 60000 /dev/zero > own", "echo new > own"] {
            let (result, requests) = desk.call("bash", json!({"command": line}), |_| None);
            assert!(result.success, "{mode:?} {line}: {:?}", result.error);
            assert_eq!(requests.len(), 0, "{mode:?} {line}");
            // A new file needs no room.
            let is_new = line.starts_with("head");
            let told = of_kind(&result.findings, "no_undo");
            assert_eq!((result.undo.is_some(), told.len()), (is_new, usize::from(!is_new)));
        }
        assert_eq!(desk.text("own").as_deref(), Some("new\n"), "{mode:?}");
        assert!(desk.text("c").unwrap().starts_with('x'), "{mode:?}");
    }
}

/// The profile's limit of one record.
#[test]
fn what_exceeds_the_limit_of_a_record_is_shown_as_that() {
    let little = profile_with(&[("undo = \"256 MiB\"", "undo = \"16 KiB\"")]);
    for mode in Mode::all() {
        let desk = Desk::new(mode, &little);
        desk.attach();
        desk.file("large", &"x".repeat(SIZE));
        desk.file("small", "small\n");
        let (result, requests) = desk.bash("rm large", approve);
        let why = &requests[0].findings[0].why;
        assert!(why.starts_with(NO_ROOM) && why.contains("16384 bytes (limits.undo"), "{why}");
        assert!(result.success && result.undo.is_none(), "{mode:?}: {result:?}");
        assert_eq!(of_kind(&result.findings, "no_undo").len(), 1, "{mode:?}: {result:?}");
        let (result, requests) = desk.bash("rm small", approve);
        assert!(!requests[0].findings.iter().any(|found| found.why.contains(NO_ROOM)));
        assert!(result.success && result.undo.is_some(), "{mode:?}: {result:?}");
    }
}
