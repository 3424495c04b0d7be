//! Remembered approvals of losses: what they cover and what is asked about all the same, what a
//! person is told of earlier requests, and that undo brings back all of it.

use palisade_client::Answer;
use palisade_protocol::{
    ApprovalRequest, CallResult, ErrorCode, LossScope, RawPath, Review, Scope, Until,
};
use palisade_tests::{Desk, Mode, handlers};
use serde_json::json;

fn desk(mode: Mode) -> Desk {
    let desk = Desk::new(mode, &handlers(""));
    desk.attach_for(&[Review::Input, Review::Effects]);
    desk
}

fn scope(desk: &Desk, path: &str, kinds: &[&str], programs: &[&str]) -> Scope {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let path = RawPath::from(desk.path(path));
    Scope::Losses(LossScope { path, kinds: texts(kinds), programs: texts(programs) })
}

/// Approves a line that loses something, and has the approval remembered for a scope.
fn remember(desk: &Desk, line: &str, scope: &Scope) {
    let keep = |_: &ApprovalRequest| Answer::approve().remember(scope.clone(), Until::Session);
    let (result, asked) = desk.bash(line, keep);
    assert_eq!((result.success, asked.len()), (true, 1), "{line}: {:?}", result.error);
}

/// Runs a line whose approval request, if there is one, is denied.
fn run(desk: &Desk, line: &str) -> (CallResult, usize) {
    let (result, asked) = desk.bash(line, |_| Answer::deny("no"));
    (result, asked.len())
}

fn assert_asked(desk: &Desk, line: &str) {
    let (result, asked) = run(desk, line);
    assert_eq!((result.success, asked), (false, 1), "{line}");
    assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{line}");
}

#[test]
fn losses_in_a_directory_are_approved_once_and_undo_brings_them_back() {
    for mode in Mode::all() {
        let desk = desk(mode);
        for name in ["out/a", "out/deep/b", "outer", "src/c"] {
            desk.file(name, "old");
        }
        remember(&desk, "rm out/a", &scope(&desk, "out", &[], &[]));
        let (result, asked) = run(&desk, "rm -r out/deep");
        assert_eq!((result.success, asked), (true, 0), "{mode:?}: {:?}", result.error);
        assert!(result.checkpoint.unwrap().by.to_string().starts_with("remembered:g-"), "{mode:?}");
        assert_eq!(desk.text("out/deep/b"), None);
        let undone = desk.sandbox.call("undo", json!({"call_id": result.undo.unwrap()}));
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
        assert_eq!(desk.text("out/deep/b").as_deref(), Some("old"), "{mode:?}");
        // A name that begins alike, another directory, and one loss too many.
        for line in ["rm outer", "rm src/c", "rm -r out/deep src"] {
            assert_asked(&desk, line);
        }
        for name in ["out/deep/b", "outer", "src/c"] {
            assert_eq!(desk.text(name).as_deref(), Some("old"), "{mode:?}: {name}");
        }
        // The call itself was not approved for good.
        desk.file("elsewhere/a", "old");
        assert_asked(&desk, "cd elsewhere; rm a");
        let grants = desk.sandbox.wait(desk.operator.grants()).unwrap();
        assert_eq!((grants.len(), grants[0].used), (1, 1));
        assert!(grants[0].summary.starts_with("bash: losses in /"), "{}", grants[0].summary);
        desk.sandbox.wait(desk.operator.revoke(&grants[0].id)).unwrap();
        assert_asked(&desk, "rm -r out/deep");
    }
}

#[test]
fn a_remembered_loss_covers_no_plant_no_other_kind_and_no_other_program() {
    for mode in Mode::all() {
        let desk = desk(mode);
        for name in ["a", "b", "c", "d", "e", ".git/HEAD", ".git/objects/x", ".git/refs/y"] {
            desk.file(name, "old");
        }
        remember(&desk, "rm a", &scope(&desk, "", &["deleted"], &["rm"]));
        let (result, asked) = run(&desk, "rm b");
        assert_eq!((result.success, asked), (true, 0), "{mode:?}: {:?}", result.error);
        for line in [
            // Another kind of loss, another program, one that hides what it runs.
            "rm c; echo new > d",
            "echo new > c",
            "find c -delete",
            "sh -c 'rm c'",
            // A file that git runs outside of the sandbox, beside a loss that is covered.
            "mkdir -p .githooks; echo x > .githooks/post-merge; rm c",
            // A repository, in whole.
            "rm -r .git",
        ] {
            assert_asked(&desk, line);
        }
        assert!(!desk.path(".githooks").exists(), "{mode:?}");
        for name in ["c", "d", "e", ".git/HEAD", ".git/refs/y"] {
            assert_eq!(desk.text(name).as_deref(), Some("old"), "{mode:?}: {name}");
        }
    }
}

#[test]
fn what_undo_does_not_keep_and_what_a_profile_leaves_out_is_asked_about() {
    for mode in Mode::all() {
        let none = handlers("").replace("\"exact\", \"losses\"", "\"exact\"");
        let desk = Desk::new(mode, &none);
        desk.attach_for(&[Review::Effects]);
        desk.file("a", "old");
        let wanted = scope(&desk, "", &[], &[]);
        let call = desk.sandbox.session.bash("rm a");
        let (result, asked) = desk.during(async { call.await.unwrap() }, async |request| {
            let keep = Answer::approve().remember(wanted.clone(), Until::Session);
            let refused = desk.operator.answer(request, keep).await.unwrap_err();
            assert_eq!(refused.code(), Some(ErrorCode::Denied), "{mode:?}");
        });
        assert!(result.success, "{mode:?}: the decision counts");
        assert_eq!(asked[0].scopes, [""; 0], "{mode:?}");

        let small = handlers("").replace("undo = \"256 MiB\"", "undo = \"16 KiB\"");
        let desk = Desk::new(mode, &small);
        desk.attach_for(&[Review::Effects]);
        desk.file("small", "old");
        desk.file("large", &"x".repeat(64 * 1024));
        let wanted = scope(&desk, "", &[], &[]);
        remember(&desk, "rm small", &wanted);
        assert_asked(&desk, "rm large");
        assert!(desk.path("large").exists(), "{mode:?}");
    }
}

#[test]
fn a_person_is_told_what_a_scope_would_have_allowed() {
    for mode in Mode::all() {
        let desk = desk(mode);
        for name in ["out/a", "out/b", "src/c", "src/d"] {
            desk.file(name, "old");
        }
        assert!(desk.bash("rm out/a", |_| Answer::approve()).0.success);
        assert_asked(&desk, "rm out/b");
        assert_asked(&desk, "rm src/c");
        let scopes = [
            scope(&desk, "out", &[], &[]),
            scope(&desk, "", &["deleted"], &["rm"]),
            Scope::ExactCall,
        ];
        let call = desk.sandbox.session.bash("rm src/d");
        let mut history = None;
        let (_, asked) = desk.during(async { call.await.unwrap() }, async |request| {
            history = desk.operator.scope_history(request, scopes.to_vec()).await.ok();
            desk.operator.answer(request, Answer::deny("no")).await.unwrap();
        });
        assert_eq!(
            (asked[0].scopes.as_slice(), asked[0].remember_ms),
            (&["losses".to_owned()][..], 86_400_000)
        );
        assert_eq!(asked[0].prefix, ["rm"]);
        let history = history.expect("counts");
        let counts: Vec<_> = history.scopes.iter().map(|one| (one.covered, one.denied)).collect();
        assert_eq!(history.requests, 3, "{mode:?}: those before this one");
        assert_eq!(counts, [(2, 1), (3, 2), (0, 0)], "{mode:?}");
        let over = desk.operator.scope_history(&asked[0], scopes.to_vec());
        assert_eq!(desk.sandbox.wait(over).unwrap_err().code(), Some(ErrorCode::StaleApproval));
    }
}
