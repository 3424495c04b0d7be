//! Transactions from end to end: what a command does counts when it was judged, and what it
//! destroyed only when somebody approved exactly that. Otherwise the workspace is as it was.

use palisade_client::{Answer, ApprovalRequest, ChangeSet, Effect, Guard, Review};
use palisade_protocol::{Ask, CallResult, ErrorCode, RawPath, Route};
use palisade_tests::{Desk, Mode, data, profile_with, tree};
use serde_json::json;
use std::{fs, path::Path};

pub(crate) fn profile() -> String {
    profile_with(&[])
}

pub(crate) fn guarded(guard: &str) -> String {
    profile_with(&[("guard = \"auto\"", &format!("guard = \"{guard}\""))])
}

fn approve(_: &ApprovalRequest) -> Answer {
    Answer::approve()
}

fn nobody(request: &ApprovalRequest) -> Answer {
    panic!("nobody should be asked: {request:?}")
}

/// A workspace with something to lose.
pub(crate) fn filled(mode: Mode, profile: &str) -> Desk {
    let desk = Desk::new(mode, profile);
    fill(&desk);
    desk
}

fn fill(desk: &Desk) {
    desk.file("a.txt", "one\ntwo\n");
    desk.file("b.txt", "bee\n");
    desk.file("d/c.txt", "sea\n");
    desk.file("d/e.txt", "eh\n");
    desk.file("wipe.sh", "rm -r d\n");
    desk.file("wipe.py", "import os, shutil\nos.remove('a.txt')\nshutil.rmtree('d')\n");
}

/// Commands whose text does not show what they destroy, and what each of them destroys.
const DESTROYERS: [(&str, &str); 7] = [
    ("python3 wipe.py", "a.txt"),
    ("sh wipe.sh", "d"),
    ("perl -e 'my $f = \"un\" . \"link\"; eval \"$f q(a.txt)\"'", "a.txt"),
    ("eval \"$(cat wipe.sh)\"", "d"),
    ("make -f - <<< $'all:\\n\\t@mv b.txt a.txt'", "a.txt"),
    ("python3 - <<< 'open(\"b.txt\", \"r+\").write(\"X\")'", "b.txt"),
    (
        "cc -o /tmp/x -x c - <<< 'int unlink(); int main() { return unlink(\"b.txt\"); }' && /tmp/x",
        "b.txt",
    ),
];

fn set(result: &CallResult) -> ChangeSet {
    ChangeSet::of(result).unwrap_or_else(|| panic!("no change set: {result:?}"))
}

#[test]
fn without_a_handler_nothing_that_a_program_destroyed_is_gone() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        let before = tree(&desk.world.workspace());
        for (line, lost) in DESTROYERS {
            let result = desk.sandbox.bash(&format!("echo said; {line}"));
            let error = result.error.clone().unwrap_or_else(|| panic!("{line}: {result:?}"));
            assert_eq!(error.code, ErrorCode::Denied, "{line}: {error:?}");
            assert_eq!(tree(&desk.world.workspace()), before, "{line}");
            // It ran, and what it did is told.
            assert_eq!((result.exit_code, result.stdout.as_str()), (Some(0), "said\n"), "{line}");
            let told = set(&result);
            assert!(!told.committed, "{line}");
            let path = desk.path(lost);
            assert!(told.effects.iter().any(|one| one.path.as_path() == path), "{line}: {told:?}");
            assert!(error.message.contains("so nothing was committed"), "{error:?}");
            assert!(error.message.contains(lost), "{error:?}");
            let checkpoint = result.checkpoint.unwrap();
            assert!(checkpoint.is_unanswered(), "{line}: {checkpoint:?}");
            assert_eq!(result.undo, None, "{line}");
        }
    }
}

#[test]
fn what_is_not_lost_is_told_with_where_it_is() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        let result = desk.sandbox.bash("mv a.txt moved.txt");
        assert!(result.success, "{mode:?}: {:?}", result.error);
        let (from, to) = (desk.path("a.txt"), desk.path("moved.txt"));
        let kept =
            json!([{"why": "still in the workspace", "paths": 1, "path": from, "place": to}]);
        assert_eq!(data(&result)["transaction"]["kept"], kept, "{mode:?}");
        // On the card it is told beside what is lost.
        desk.attach();
        let (result, asked) =
            desk.bash("mv moved.txt back.txt; rm b.txt; mv d/e.txt e.txt", approve);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        let notices: Vec<&str> = asked[0]
            .findings
            .iter()
            .filter(|found| found.kind == "kept")
            .map(|found| found.why.as_str())
            .collect();
        assert_eq!(notices, ["nothing else is lost: 2 still in the workspace"], "{mode:?}");
    }
}

#[test]
fn an_approval_is_of_exactly_the_effects() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let (result, asked) = desk.bash("python3 wipe.py; echo new > n.txt", approve);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        let [request] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(request.review, Review::Effects);
        assert!(request.scopes.iter().all(|scope| scope == "losses"));
        let mut changes: Vec<_> = request
            .view
            .changes
            .iter()
            .map(|one| (one.path.as_path().to_owned(), one.effect.as_str(), one.entries, one.lost))
            .collect();
        changes.sort();
        let expected = [
            (desk.path("a.txt"), "deleted", 1, true),
            (desk.path("d"), "deleted", 3, true),
            (desk.path("n.txt"), "created", 1, false),
        ];
        assert_eq!(changes, expected, "{mode:?}");
        assert!(request.view.diff.as_ref().unwrap().contains("+new"), "{request:?}");
        let left: Vec<String> = tree(&desk.world.workspace());
        let names: Vec<&str> = left.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["b.txt", "n.txt", "wipe.py", "wipe.sh"], "{mode:?}");
        assert!(set(&result).committed);
        let checkpoint = result.checkpoint.as_ref().unwrap();
        assert_eq!(checkpoint.by.approver(), Some("person:ann"));
        // Undo restores what was destroyed.
        let undo = result.undo.clone().expect("an undo id");
        let undone = desk.sandbox.done("undo", json!({"call_id": undo}));
        assert!(undone.success);
        assert_eq!(desk.text("a.txt").as_deref(), Some("one\ntwo\n"));
        assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"));
        assert_eq!(desk.text("n.txt"), None);
    }
}

#[test]
fn what_destroys_nothing_is_not_asked_about_and_can_be_undone() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        desk.file("Makefile", "all:\n\tmkdir -p out && echo built > out/x && echo more >> b.txt\n");
        let (result, _) = desk.bash("make && exit 3", nobody);
        assert_eq!(result.exit_code, Some(3), "{mode:?}: {:?}", result.error);
        assert_eq!(result.error.unwrap().code, ErrorCode::CommandFailed);
        assert_eq!(desk.text("out/x").as_deref(), Some("built\n"));
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nmore\n"));
        let undo = result.undo.expect("an undo id");
        assert!(desk.sandbox.done("undo", json!({"call_id": undo})).success);
        assert!(!desk.path("out").exists(), "{mode:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\n"), "{mode:?}");
    }
}

#[test]
fn what_only_reads_has_the_workspace_read_only() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        let result = desk.sandbox.bash("cat a.txt | wc -l; find . -name c.txt");
        assert!(result.success, "{:?}", result.error);
        assert_eq!((result.data, result.undo), (None, None));
        assert_eq!(result.stdout, "2\n./d/c.txt\n");
        assert_eq!(result.route, Some(Route::Reading));
        // One that fails there is told how it can write, and has done nothing.
        let result = desk.sandbox.bash("cat missing");
        assert_eq!(result.route, Some(Route::Reading));
        let hint = result.error.unwrap().hint;
        assert!(hint.contains("route = \"transaction\""), "{mode:?}: {hint}");
        let asked = json!({"command": "cat a.txt", "route": "transaction"});
        assert_eq!(desk.sandbox.call("bash", asked).route, Some(Route::Transaction));
        // A program of the session's own is not taken for the system's: where those are looked for it
        // can not be put (see planted.rs).
        let line = "mkdir -p ~/own && python3 -c 'import os
f = os.path.expanduser(\"~/own/cat\")
open(f, \"w\").write(\"rm -r d\"); os.chmod(f, 0o755)'";
        assert_eq!(desk.sandbox.ok(line), "");
        assert_eq!(desk.sandbox.ok("cat a.txt"), "one\ntwo\n");
        assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"), "{mode:?}");
        // If it is run by its path, its effects are judged.
        let result = desk.sandbox.bash("~/own/cat");
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"), "{mode:?}");
    }
}

#[test]
fn a_part_of_it_counts_if_that_is_what_was_said() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let line = "python3 -c 'import os
os.remove(\"a.txt\"); os.rename(\"b.txt\", \"m.txt\"); open(\"n.txt\", \"w\").write(\"new\")'";
        let (result, asked) = desk.bash(line, |_| Answer::approve().without_deletions());
        assert_eq!(asked.len(), 1, "{mode:?}: {result:?}");
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("a.txt").as_deref(), Some("one\ntwo\n"), "{mode:?}");
        assert_eq!(desk.text("n.txt").as_deref(), Some("new"), "{mode:?}");
        let changes = ChangeSet::of(&result).unwrap();
        let left = changes.left_out.unwrap();
        assert_eq!((left.by.as_str(), left.effects.len()), ("handler:person:ann", 1), "{mode:?}");
        assert_eq!(left.effects[0].path, RawPath::from(desk.path("a.txt")), "{mode:?}");
        // The moved file has both names.
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\n"), "{mode:?}");
        assert_eq!(desk.text("m.txt").as_deref(), Some("bee\n"), "{mode:?}");
        let path = RawPath::from(desk.path("d"));
        let (result, _) = desk.bash("python3 wipe.py", |_| Answer::approve_without([path.clone()]));
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("a.txt"), None, "{mode:?}");
        assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"), "{mode:?}");
    }
}

#[test]
fn a_git_directory_is_committed_whole_or_not_at_all() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let made = "git init -q . && git add a.txt && \
                    git -c user.name=x -c user.email=x@y commit -qm one && git rev-parse HEAD";
        let first = desk.sandbox.ok(made);
        let line = "echo new >new.txt; rm b.txt; git add new.txt; \
                    git -c user.name=x -c user.email=x@y commit -qm two";
        let index = RawPath::from(desk.path(".git/index"));
        let (result, asked) = desk.bash(line, |_| Answer::approve_without([index.clone()]));
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!((asked.len(), desk.text("b.txt")), (1, None), "{mode:?}");
        assert_eq!(desk.text("new.txt").as_deref(), Some("new\n"), "{mode:?}");
        let left = ChangeSet::of(&result).unwrap().left_out.unwrap();
        let git = RawPath::from(desk.path(".git"));
        assert!(left.effects.len() > 3, "{left:?}");
        assert!(left.effects.iter().all(|effect| effect.path.0.starts_with(&git.0)), "{left:?}");
        // The repository is what it was, and whole.
        assert_eq!(desk.sandbox.ok("git rev-parse HEAD"), first, "{mode:?}");
        assert_eq!(desk.sandbox.ok("git fsck --no-dangling 2>&1"), "", "{mode:?}");
        assert_eq!(desk.sandbox.ok("git status --short -- new.txt"), "?? new.txt\n", "{mode:?}");
    }
}

#[test]
fn a_no_and_nonsense_discard_it() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let before = tree(&desk.world.workspace());
        let (result, _) = desk
            .bash("python3 wipe.py", |_| Answer::deny("that is ours").guidance("write a new file"));
        let error = result.error.unwrap();
        assert_eq!((error.code, error.hint.as_str()), (ErrorCode::Denied, "write a new file"));
        assert!(error.message.contains("denied by person:ann (that is ours)"), "{error:?}");
        assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}");
    }
}

#[test]
fn what_the_session_made_is_its_own() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let (result, _) = desk.bash("python3 -c 'open(\"own\", \"w\").write(\"1\")'", nobody);
        assert!(result.success, "{:?}", result.error);
        let (result, _) = desk.bash("python3 -c 'open(\"own\", \"w\").write(\"2\")'", nobody);
        assert!(result.success, "{:?}", result.error);
        assert_eq!(desk.text("own").as_deref(), Some("2"));
        let (result, _) = desk.bash("python3 -c 'import os; f = os.unlink; f(\"own\")'", nobody);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("own"), None);
        // A directory with nothing but such files too, and no other.
        let make = "python3 -c 'import os; os.mkdir(\"o\")
for n in \"xy\": open(\"o/\" + n, \"w\").write(n)'";
        let drop = "python3 -c 'import shutil; f = shutil.rmtree; f(\"o\")'";
        let (result, _) = desk.bash(make, nobody);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        let (result, _) = desk.bash(drop, nobody);
        assert!(result.success && !desk.path("o").exists(), "{mode:?}: {:?}", result.error);
        let (result, _) = desk.bash(make, nobody);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        desk.file("o/z", "somebody's");
        let (result, asked) = desk.bash(drop, |_| Answer::deny("no"));
        assert_eq!((asked.len(), result.success), (1, false), "{mode:?}");
        assert_eq!(desk.text("o/z").as_deref(), Some("somebody's"), "{mode:?}");
        // Until somebody else changes it.
        let (result, _) = desk.bash("python3 -c 'open(\"own\", \"w\").write(\"3\")'", nobody);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        desk.file("own", "somebody's");
        let (result, asked) =
            desk.bash("python3 -c 'open(\"own\", \"w\").write(\"4\")'", |_| Answer::deny("no"));
        assert_eq!((asked.len(), result.success), (1, false), "{mode:?}");
        assert_eq!(desk.text("own").as_deref(), Some("somebody's"), "{mode:?}");
    }
}

#[test]
fn links_and_new_modes_of_its_files_are_the_sessions_own() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let theirs = desk.path("theirs");
        mode.act(|| std::os::unix::fs::symlink("b.txt", &theirs)).unwrap();
        for line in [
            "ln -s nowhere link && mkdir o && ln -s ../b.txt o/l && echo 1 > own && echo 2 > o/f",
            "chmod 400 own o/f",
            "ln -sfn b.txt link",
            "mv link moved && mv own old",
            "chmod 644 old && touch old",
            "rm moved old && rm -r o",
            // A new mode, or a second name, makes nothing the session's own.
            "chmod 755 b.txt && ln -P theirs second",
        ] {
            let (result, _) = desk.bash(line, nobody);
            assert!(result.success, "{mode:?}: {line}: {:?}", result.error);
        }
        for (line, path) in [("rm b.txt", "b.txt"), ("rm theirs", "theirs")] {
            let (result, asked) = desk.bash(line, |_| Answer::deny("no"));
            assert_eq!((asked.len(), result.success), (1, false), "{mode:?}: {line}");
            assert!(desk.path(path).symlink_metadata().is_ok(), "{mode:?}: {line}");
        }
        assert!(!desk.path("o").exists() && !desk.path("old").exists(), "{mode:?}");
    }
}

#[test]
fn a_dry_run_is_a_real_one_that_leaves_nothing() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let before = tree(&desk.world.workspace());
        let session = &desk.sandbox.session;
        let line = "python3 wipe.py; echo x > n.txt; echo out";
        let result = desk.sandbox.wait(async { session.bash(line).dry_run().await.unwrap() });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(result.stdout, "out\n");
        assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}");
        let told = set(&result);
        assert!(!told.committed);
        let mut lines = told.short(&desk.world.workspace());
        lines.sort();
        assert_eq!(lines, [" D a.txt", " D d/ (3 entries)", "?? n.txt"], "{mode:?}");
        assert!(told.diff.unwrap().contains("+x"));
        let report = data(&result);
        assert_eq!(report["dry_run"], true);
        assert_eq!(
            (&report["effects_judgement"], &report["exit_code"]),
            (&json!("ask"), &json!(0))
        );
        // A command that would need approval before it runs is tried too, and nobody is asked.
        let result = desk.sandbox.wait(async { session.bash("rm b.txt").dry_run().await.unwrap() });
        assert_eq!(data(&result)["effects_judgement"], "ask", "{mode:?}");
        assert_eq!(set(&result).effects[0].effect, Effect::Deleted);
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\n"), "{mode:?}");
    }
}

#[test]
fn what_changed_outside_meanwhile_is_not_lost() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        let line = "python3 -c 'import sys
open(\"b.txt\", \"a\").write(\"inside\\n\"); print(\"ready\", flush=True); sys.stdin.read()'";
        let outside = || desk.file("b.txt", "bee\noutside\n");
        let (result, _) = desk.meanwhile(line, outside, nobody);
        let error = result.error.unwrap_or_else(|| panic!("{mode:?}: {:?}", result.data));
        assert_eq!(error.code, ErrorCode::Conflict, "{mode:?}: {error:?}");
        assert!(error.message.contains("b.txt"), "{error:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\noutside\n"), "{mode:?}");
    }
}

#[test]
fn always_in_a_transaction_nothing_is_asked_first() {
    for mode in Mode::all() {
        let desk = filled(mode, &guarded("transaction"));
        let result = desk.sandbox.bash("rm b.txt && echo gone");
        assert_eq!(result.stdout, "gone\n", "{mode:?}: {:?}", result.error);
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied);
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\n"), "{mode:?}");
        assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Transaction);
        desk.attach();
        let (result, asked) = desk.bash("rm b.txt", approve);
        assert!(result.success, "{:?}", result.error);
        assert_eq!(asked.iter().map(|one| one.review).collect::<Vec<_>>(), [Review::Effects]);
        assert_eq!(desk.text("b.txt"), None, "{mode:?}");
    }
}

#[test]
fn what_is_known_to_destroy_is_asked_about_by_its_effects_and_can_be_undone() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        desk.attach();
        let (result, asked) = desk.bash("rm b.txt", approve);
        assert!(result.success, "{:?}", result.error);
        assert_eq!(asked.iter().map(|one| one.review).collect::<Vec<_>>(), [Review::Effects]);
        assert_eq!(
            (desk.text("b.txt"), result.receipt.as_ref().unwrap().guard),
            (None, Guard::Auto),
            "{mode:?}"
        );
        assert!(desk.sandbox.done("undo", json!({"call_id": result.undo})).success);
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\n"), "{mode:?}");
    }
}

/// A yes to a command is a yes to the losses that it was shown with, and to no others.
#[test]
fn an_approved_line_loses_what_was_shown_and_nothing_else() {
    for mode in Mode::all() {
        let desk = Desk::asking(mode, &profile(), Ask::Sensitive);
        fill(&desk);
        desk.attach();
        let reviews =
            |asked: &[ApprovalRequest]| asked.iter().map(|one| one.review).collect::<Vec<_>>();
        let (result, asked) = desk.bash("rm b.txt", approve);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(reviews(&asked), [Review::Input], "{mode:?}");
        let (result, asked) = desk.bash("rm a.txt; sh wipe.sh", |request| match request.review {
            Review::Effects => Answer::deny("not that"),
            Review::Input | Review::Output => Answer::approve(),
        });
        assert_eq!(reviews(&asked), [Review::Input, Review::Effects], "{mode:?}");
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(desk.text("a.txt").as_deref(), Some("one\ntwo\n"), "{mode:?}");
        assert_eq!(desk.text("d/c.txt").as_deref(), Some("sea\n"), "{mode:?}");
    }
}

/// A rule that allows a command does away with the approval of the command, not of what it loses.
#[test]
fn a_line_that_a_rule_allows_loses_nothing_unasked() {
    let rule = "[[rules]]\nverdict = \"allow\"\nwhy = \"builds\"\ntools = [\"bash\"]\n\
                command = [[\"make\", \"rm\"]]\n\n[layers]";
    for mode in Mode::all() {
        let asks = ("ask = \"destructive\"", "ask = \"sensitive\"");
        let desk = Desk::asking(mode, &profile_with(&[asks, ("[layers]", rule)]), Ask::Sensitive);
        fill(&desk);
        desk.file("dd/one", "one\n");
        desk.file("Makefile", "clean:\n\trm -r dd\nall:\n\techo new > new\n");
        let lines = ["make -s clean", "rm -r dd"];
        let before = tree(&desk.world.workspace());
        for line in lines {
            let (code, _) = desk.refused("bash", json!({"command": line}));
            assert_eq!(code, ErrorCode::Denied, "{mode:?}: {line}");
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}: {line}");
        }
        desk.attach();
        for line in lines {
            let (result, asked) = desk.bash(line, |_| Answer::deny("not that"));
            let reviews: Vec<_> = asked.iter().map(|one| one.review).collect();
            assert_eq!(reviews, [Review::Effects], "{mode:?}: {line}: {:?}", result.error);
            assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}: {line}");
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}: {line}");
        }
        // The controls: the rule holds for what loses nothing, and for no other command.
        let (result, asked) = desk.bash("make -s all", nobody);
        assert!(result.success && asked.is_empty(), "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("new").as_deref(), Some("new\n"), "{mode:?}");
        let (result, asked) = desk.bash("touch other", approve);
        assert!(result.success && asked.len() == 1, "{mode:?}: {:?}", result.error);
        let (result, asked) = desk.bash("make -s clean", approve);
        assert!(result.success && asked.len() == 1, "{mode:?}: {:?}", result.error);
        assert!(!desk.path("dd").exists(), "{mode:?}");
    }
}

#[test]
fn the_session_goes_on_where_what_counts_ended() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile());
        assert_eq!(desk.sandbox.ok("mkdir -p new/deep && cd new/deep"), "");
        let top = desk.world.workspace().canonicalize().unwrap();
        let here = |desk: &Desk| desk.sandbox.ok("pwd").trim_end().to_owned();
        assert_eq!(Path::new(&here(&desk)), top.join("new/deep"));
        // A discarded command does not change the session's directory.
        let line = format!("cd {} && python3 wipe.py && mkdir gone && cd gone", top.display());
        let result = desk.sandbox.bash(&line);
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(Path::new(&here(&desk)), top.join("new/deep"), "{mode:?}");
    }
}

#[test]
fn rules_about_paths_hold_for_what_was_done() {
    for mode in Mode::all() {
        let rule = "[[rules]]\nverdict = \"deny\"\nwhy = \"kept\"\nchanges = true\npaths = [\"kept/**\"]\n\n[layers]";
        let desk = filled(mode, &profile_with(&[("[layers]", rule)]));
        desk.attach();
        let line = "python3 -c 'import os; os.mkdir(\"kept\"); open(\"kept/x\", \"w\")'";
        let (result, _) = desk.bash(line, nobody);
        let error = result.error.unwrap();
        assert_eq!(error.code, ErrorCode::Denied, "{mode:?}");
        assert!(error.message.contains("denies this: kept"), "{error:?}");
        assert!(!desk.path("kept").exists(), "{mode:?}");
        let (result, _) = desk.bash("python3 -c 'open(\"free\", \"w\")'", nobody);
        assert!(result.success, "{mode:?}: {:?}", result.error);
    }
}

/// Holes take no room in the layer, but each of their bytes is read when the change is judged.
#[test]
fn files_whose_holes_would_take_long_to_read_are_refused() {
    let small = profile_with(&[
        ("file_size = \"4 GiB\"", "file_size = \"48 MiB\""),
        ("transaction = \"1 GiB\"", "transaction = \"64 MiB\""),
    ]);
    for mode in Mode::all() {
        let desk = filled(mode, &small);
        let before = tree(&desk.world.workspace());
        for line in [
            "truncate -s 40M 1 2 3 4",
            "mkdir new; cd new; truncate -s 40M 1 2 3 4",
            "truncate -s 40M 1 2 3 4; mv 4 a.txt",
            "truncate -s 40M a.txt b.txt d/c.txt d/e.txt",
        ] {
            let error = desk.sandbox.bash(line).error.unwrap_or_else(|| panic!("{line}"));
            assert_eq!(error.code, ErrorCode::TooLarge, "{mode:?}: {line}: {error:?}");
            assert!(error.message.contains("counting their holes"), "{error:?}");
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}: {line}");
        }
        // The control: as much as the limits allow.
        assert!(desk.sandbox.bash("truncate -s 40M 1 2").success, "{mode:?}");
        assert_eq!(fs::metadata(desk.path("2")).unwrap().len(), 40 << 20, "{mode:?}");
    }
}
