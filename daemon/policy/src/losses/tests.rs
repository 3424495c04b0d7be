//! Tests of the six rules, each alone.

use super::*;
use crate::ProfileSet;
use palisade_plan::{
    Path,
    change::Print,
    evidence::{ConfigurationChange, NewCopy, NewPlace, PlantedPath},
};

const WORKSPACE: &str = "/w";

fn version(ino: u64) -> Version {
    Version { dev: 1, ino, ctime: (1, 1) }
}

fn path(name: &str) -> Path {
    Path(format!("{WORKSPACE}/{name}").into_bytes())
}

/// Returns a file that existed before, with inode 1.
fn file(name: &str) -> EarlierEntry {
    EarlierEntry {
        path: path(name),
        kind: EarlierKind::File,
        version: version(1),
        size: 10,
        links: 1,
        moved_to: None,
        digest: None,
        git: GitEvidence::None,
    }
}

fn tracked(commit: Option<&str>, stays_tracked: bool) -> WorkingTreeEvidence {
    WorkingTreeEvidence {
        git_dir: path(".git"),
        is_tracked: true,
        stays_tracked,
        commit: commit.map(str::to_owned),
        ignored: None,
    }
}

fn ignored(directory: &str) -> GitEvidence {
    let ignored = Some(path(directory));
    let (is_tracked, stays_tracked) = (false, false);
    let (git_dir, commit) = (path(".git"), None);
    GitEvidence::WorkingTree(WorkingTreeEvidence {
        git_dir,
        is_tracked,
        stays_tracked,
        commit,
        ignored,
    })
}

fn effect(name: &str, kind: EffectKind) -> Effect {
    let (size_before, size_after) = (10, 5);
    let replaces = Some(version(1));
    Effect { path: path(name), kind, size_before, size_after, print: Print::Absent, replaces }
}

fn deleted(name: &str) -> Effect {
    effect(name, EffectKind::Deleted { entries: 1 })
}

fn replaced(name: &str) -> Effect {
    effect(name, EffectKind::Replaced)
}

fn profile() -> Profile {
    let set = ProfileSet::new([]).expect("the built-in profiles");
    set.get(crate::DEFAULT).expect("the default").clone()
}

fn judged(
    memory: &SessionMemory,
    undo: UndoRecord,
    effects: &[Effect],
    evidence: &Evidence,
) -> Assessment {
    let (profile, tool) = (profile(), "bash".parse().expect("a name"));
    let context = LossContext {
        profile: &profile,
        tool: &tool,
        workspace: WORKSPACE.as_bytes(),
        memory,
        approved: &[],
        undo,
    };
    assess(context, effects, evidence)
}

/// Returns the reason why a change to one file is not a loss; `None` if it is one.
fn reason(memory: &SessionMemory, effect: Effect, earlier: EarlierEntry) -> Option<Reason> {
    let evidence = Evidence { earlier: vec![earlier], ..Evidence::default() };
    let mut assessment = judged(memory, UndoRecord::Kept, &[effect], &evidence);
    assert_eq!(assessment.findings.is_empty(), !assessment.reasons.is_empty());
    assessment.reasons.pop().map(|(_, reason)| reason)
}

#[test]
fn without_evidence_every_change_is_a_loss() {
    let memory = SessionMemory::default();
    assert_eq!(reason(&memory, deleted("f"), file("f")), None);
    assert_eq!(reason(&memory, replaced("f"), file("f")), None);
    assert_eq!(reason(&memory, effect("f", EffectKind::Mode), file("f")), None);
}

#[test]
fn git_keeps_what_a_commit_has_and_a_deletion_if_the_index_agrees() {
    let memory = SessionMemory::default();
    for (effect, commit, stays_tracked, is_kept) in [
        (replaced("f"), Some("c0ffee"), true, true),
        (replaced("f"), None, true, false),
        (deleted("f"), Some("c0ffee"), false, true),
        (deleted("f"), Some("c0ffee"), true, false),
    ] {
        let git = GitEvidence::WorkingTree(tracked(commit, stays_tracked));
        let found = reason(&memory, effect.clone(), EarlierEntry { git, ..file("f") });
        assert_eq!(found.is_some(), is_kept, "{effect:?} {commit:?} {stays_tracked}");
    }
}

#[test]
fn git_keeps_neither_attributes_nor_hard_links() {
    let memory = SessionMemory::default();
    let git = || GitEvidence::WorkingTree(tracked(Some("c0ffee"), true));
    let attributes = EarlierEntry { kind: EarlierKind::Attributes, git: git(), ..file("f") };
    assert_eq!(reason(&memory, effect("f", EffectKind::Touched), attributes), None);
    let linked = EarlierEntry { links: 2, git: git(), ..file("f") };
    assert_eq!(reason(&memory, replaced("f"), linked), None);
}

#[test]
fn noise_is_what_git_does_not_track_below_directories_of_that_name() {
    let memory = SessionMemory::default();
    let noise = Some(Reason::Noise);
    assert_eq!(reason(&memory, deleted("target/x"), file("target/x")), noise);
    assert_eq!(reason(&memory, deleted("target"), file("target")), None, "a file of that name");
    let git = GitEvidence::WorkingTree(tracked(None, true));
    let earlier = EarlierEntry { git, ..file("src/target/mod.rs") };
    assert_eq!(reason(&memory, deleted("src/target/mod.rs"), earlier), None, "tracked");
}

#[test]
fn what_git_tracked_earlier_in_the_session_is_not_noise() {
    let change = RepositoryChange {
        git_dir: path(".git"),
        is_new: false,
        losses: Vec::new(),
        configuration: Vec::new(),
        untracked: vec![path("src/target/mod.rs")],
        stored: Vec::new(),
        keepers: Vec::new(),
        is_cut: false,
    };
    let evidence = Evidence { repositories: vec![change], ..Evidence::default() };
    let mut memory = SessionMemory::default();
    let first = judged(&memory, UndoRecord::Kept, &[], &evidence);
    memory.remember(first.lessons, &[], &[]);
    assert_eq!(reason(&memory, deleted("src/target/mod.rs"), file("src/target/mod.rs")), None);
}

#[test]
fn each_removed_file_needs_a_copy_of_its_own() {
    let digest = Some([7; 32]);
    let earlier = vec![EarlierEntry { digest, ..file("a") }, EarlierEntry { digest, ..file("b") }];
    let copy = |name: &str, is_ignored| NewCopy { path: path(name), digest: [7; 32], is_ignored };
    for (copies, losses) in [
        (vec![], 2),
        (vec![copy("new", false)], 1),
        (vec![copy("new", false), copy("other", false)], 0),
        (vec![copy("new", false), copy("x.log", true)], 1),
        (vec![copy("new", false), copy("f.o", false)], 1),
        (vec![copy("new", false), copy(".git/x", false)], 1),
    ] {
        let evidence = Evidence { earlier: earlier.clone(), copies, ..Evidence::default() };
        let effects = [deleted("a"), deleted("b")];
        let memory = SessionMemory::default();
        let found = judged(&memory, UndoRecord::Kept, &effects, &evidence);
        let asked = found.findings.iter().filter(|finding| crate::is_asked(finding));
        assert_eq!(asked.count(), losses, "{:?}", evidence.copies);
    }
}

#[test]
fn a_rename_keeps_bytes_only_where_they_can_stay() {
    let memory = SessionMemory::default();
    for (to, is_ignored, is_kept) in
        [("g", false, true), ("g", true, false), ("f.o", false, false), (".git/g", false, false)]
    {
        let moved_to = Some(NewPlace { path: path(to), is_ignored });
        let effect = effect(to, EffectKind::Moved { from: path("f") });
        let found = reason(&memory, effect, EarlierEntry { moved_to, ..file("f") });
        assert_eq!(found.is_some(), is_kept, "{to} {is_ignored}");
    }
}

#[test]
fn a_file_that_keeps_the_bytes_of_another_is_not_own() {
    let copies = vec![NewCopy { path: path("g"), digest: [7; 32], is_ignored: false }];
    let earlier = vec![EarlierEntry { digest: Some([7; 32]), ..file("f") }];
    let evidence = Evidence { earlier, copies, ..Evidence::default() };
    let effects = [deleted("f"), Effect { replaces: None, ..effect("g", EffectKind::Created) }];
    let mut memory = SessionMemory::default();
    let found = judged(&memory, UndoRecord::Kept, &effects, &evidence);
    assert!(found.findings.is_empty());
    memory.remember(found.lessons, &effects, &[(path("g"), version(1))]);
    assert_eq!(reason(&memory, deleted("g"), file("g")), None);
    // A new file that keeps no bytes of others is the session's own.
    let effects = [Effect { replaces: None, ..effect("h", EffectKind::Created) }];
    let found = judged(&memory, UndoRecord::Kept, &effects, &Evidence::default());
    memory.remember(found.lessons, &effects, &[(path("h"), version(1))]);
    assert_eq!(reason(&memory, deleted("h"), file("h")), Some(Reason::Own));
}

#[test]
fn what_is_edited_by_name_needs_undo_and_does_not_become_own() {
    let effects = [effect("f", EffectKind::Edited)];
    let evidence = Evidence { earlier: vec![file("f")], ..Evidence::default() };
    let mut memory = SessionMemory::default();
    let unkept = judged(&memory, UndoRecord::Unavailable, &effects, &evidence);
    assert_eq!(unkept.findings.len(), 1);
    let kept = judged(&memory, UndoRecord::Kept, &effects, &evidence);
    assert!(kept.findings.is_empty() && kept.needs_undo);
    memory.remember(kept.lessons, &effects, &[(path("f"), version(1))]);
    assert_eq!(reason(&memory, deleted("f"), file("f")), None);
}

/// Makes one change to `f`, which becomes version 2, and returns what the session remembers.
fn after_change(kind: EffectKind, git: GitEvidence) -> SessionMemory {
    let effects = [effect("f", kind)];
    let evidence =
        Evidence { earlier: vec![EarlierEntry { git, ..file("f") }], ..Evidence::default() };
    let mut memory = SessionMemory::default();
    let found = judged(&memory, UndoRecord::Kept, &effects, &evidence);
    assert!(found.findings.is_empty());
    memory.remember(found.lessons, &effects, &[(path("f"), version(2))]);
    memory
}

#[test]
fn what_is_made_of_a_version_that_git_keeps_is_own_and_pins_the_repository() {
    let committed = || GitEvidence::WorkingTree(tracked(Some("c0ffee"), true));
    let second = || EarlierEntry { version: version(2), ..file("f") };
    let attributes = || EarlierEntry { kind: EarlierKind::Attributes, ..second() };
    for kind in [EffectKind::Edited, EffectKind::Appended, EffectKind::Replaced] {
        let memory = after_change(kind.clone(), committed());
        assert_eq!(reason(&memory, deleted("f"), second()), Some(Reason::Own), "{kind:?}");
        assert!(memory.is_pinned(&path(".git").0), "{kind:?}");
        // The attributes are those that the file had before.
        let touched = effect("f", EffectKind::Touched);
        assert_eq!(reason(&memory, touched, attributes()), None, "{kind:?}");
    }
    for kind in [EffectKind::Edited, EffectKind::Appended] {
        let memory = after_change(kind.clone(), GitEvidence::WorkingTree(tracked(None, true)));
        assert_eq!(reason(&memory, deleted("f"), second()), None, "{kind:?}, not committed");
        assert!(!memory.is_pinned(&path(".git").0), "{kind:?}, not committed");
    }
}

#[test]
fn a_renamed_file_is_own_if_git_keeps_it_and_agrees() {
    for (commit, stays_tracked, is_own) in
        [(Some("c"), false, true), (Some("c"), true, false), (None, false, false)]
    {
        let moved_to = Some(NewPlace { path: path("g"), is_ignored: false });
        let git = GitEvidence::WorkingTree(tracked(commit, stays_tracked));
        let earlier = vec![EarlierEntry { moved_to, git, ..file("f") }];
        let effects = [effect("g", EffectKind::Moved { from: path("f") })];
        let mut memory = SessionMemory::default();
        let evidence = Evidence { earlier, ..Evidence::default() };
        let found = judged(&memory, UndoRecord::Kept, &effects, &evidence);
        assert!(found.findings.is_empty());
        memory.remember(found.lessons, &effects, &[(path("g"), version(1))]);
        assert_eq!(memory.wrote(version(1)), is_own, "{commit:?} {stays_tracked}");
    }
}

#[test]
fn the_state_of_a_git_operation_needs_undo_and_objects_do_not() {
    let change = RepositoryChange {
        git_dir: path(".git"),
        is_new: false,
        losses: Vec::new(),
        configuration: Vec::new(),
        untracked: Vec::new(),
        stored: Vec::new(),
        keepers: Vec::new(),
        is_cut: false,
    };
    for (name, needs_undo) in [(".git/rebase-merge/git-rebase-todo", true), (".git/index", false)] {
        let git = GitEvidence::Internal { git_dir: path(".git"), is_compared: true };
        let earlier = vec![EarlierEntry { git, ..file(name) }];
        let repositories = vec![change.clone()];
        let evidence = Evidence { earlier, repositories, ..Evidence::default() };
        let memory = SessionMemory::default();
        let kept = judged(&memory, UndoRecord::Kept, &[deleted(name)], &evidence);
        assert_eq!((kept.findings.len(), kept.needs_undo), (0, needs_undo), "{name}");
        let unkept = judged(&memory, UndoRecord::Unavailable, &[deleted(name)], &evidence);
        assert_eq!(unkept.findings.is_empty(), !needs_undo, "{name}");
    }
}

#[test]
fn a_finding_names_the_true_reason() {
    let said = |memory: &SessionMemory, effect: Effect, earlier: EarlierEntry| {
        let evidence = Evidence { earlier: vec![earlier], ..Evidence::default() };
        let found = judged(memory, UndoRecord::Kept, &[effect], &evidence).findings;
        found.first().expect("a loss").why.clone()
    };
    let memory = SessionMemory::default();
    let git = || GitEvidence::WorkingTree(tracked(None, true));
    let kind = EarlierKind::Tree { entries: 1 };
    let directory = EarlierEntry { kind, git: git(), ..file("docs") };
    let closed = said(&memory, effect("docs", EffectKind::Mode), directory);
    assert!(closed.ends_with("nobody could read what is in it any more"), "{closed}");
    let staged = said(&memory, replaced("f"), EarlierEntry { git: git(), ..file("f") });
    assert!(staged.contains("no commit has this content"), "{staged}");
    let mut memory = memory;
    let touched = Evidence { ignore_files: vec![path(".gitignore")], ..Evidence::default() };
    let lessons = judged(&memory, UndoRecord::Kept, &[], &touched).lessons;
    memory.remember(lessons, &[], &[]);
    let earlier = EarlierEntry { git: ignored("dist"), ..file("dist/out.js") };
    let rules = said(&memory, replaced("dist/out.js"), earlier);
    assert!(rules.ends_with("the session made or changed the rules for that"), "{rules}");
}

#[test]
fn ignored_files_pass_up_to_a_bound_and_by_untouched_rules() {
    let earlier = |size| EarlierEntry { size, git: ignored("dist"), ..file("dist/out.js") };
    let memory = SessionMemory::default();
    let passes = Some(Reason::Ignored);
    assert_eq!(reason(&memory, replaced("dist/out.js"), earlier(1 << 20)), passes);
    assert_eq!(reason(&memory, replaced("dist/out.js"), earlier(1 << 25)), None, "too large");
    let evidence = Evidence { earlier: vec![earlier(1)], ..Evidence::default() };
    let effects = [replaced("dist/out.js")];
    let unkept = judged(&memory, UndoRecord::Unavailable, &effects, &evidence);
    assert_eq!(unkept.findings.len(), 1, "undo does not keep it");
    let mut memory = SessionMemory::default();
    let touched = Evidence { ignore_files: vec![path(".gitignore")], ..Evidence::default() };
    let lessons = judged(&memory, UndoRecord::Kept, &[], &touched).lessons;
    memory.remember(lessons, &[], &[]);
    assert_eq!(reason(&memory, replaced("dist/out.js"), earlier(1)), None, "rules were touched");
}

#[test]
fn a_socket_has_no_bytes_and_passes_only_where_git_ignores_it() {
    let memory = SessionMemory::default();
    let socket = |git| EarlierEntry { kind: EarlierKind::Other, size: 0, git, ..file("dist/s") };
    let evidence = Evidence { earlier: vec![socket(ignored("dist"))], ..Evidence::default() };
    for undo in [UndoRecord::Kept, UndoRecord::Unavailable] {
        let found = judged(&memory, undo, &[deleted("dist")], &evidence);
        assert_eq!((found.findings.len(), found.needs_undo), (0, false));
        assert_eq!(found.reasons, [(path("dist/s").0, Reason::NoContent)]);
    }
    assert_eq!(reason(&memory, deleted("dist"), socket(GitEvidence::None)), None);
}

#[test]
fn a_repository_of_the_session_may_go_until_it_keeps_something() {
    let change = |is_new, losses| RepositoryChange {
        git_dir: path("sub/.git"),
        is_new,
        losses,
        configuration: Vec::new(),
        untracked: Vec::new(),
        stored: Vec::new(),
        keepers: Vec::new(),
        is_cut: false,
    };
    let mut memory = SessionMemory::default();
    let made = Evidence { repositories: vec![change(true, vec![])], ..Evidence::default() };
    let lessons = judged(&memory, UndoRecord::Kept, &[], &made).lessons;
    memory.remember(lessons, &[], &[]);
    let gone = || vec![RepositoryLoss::Unreadable("it is gone".to_owned())];
    let gone = Evidence { repositories: vec![change(false, gone())], ..Evidence::default() };
    assert!(judged(&memory, UndoRecord::Kept, &[], &gone).findings.is_empty());
    // Now the repository keeps the bytes of a file that existed before.
    let tree = WorkingTreeEvidence { git_dir: path("sub/.git"), ..tracked(Some("c"), false) };
    let earlier = vec![EarlierEntry { git: GitEvidence::WorkingTree(tree), ..file("sub/f") }];
    let kept = Evidence { earlier, ..Evidence::default() };
    let lessons = judged(&memory, UndoRecord::Kept, &[deleted("sub/f")], &kept).lessons;
    memory.remember(lessons, &[], &[]);
    assert_eq!(judged(&memory, UndoRecord::Kept, &[], &gone).findings.len(), 1);
}

/// The values of a setting before and after a change.
type ValueChange = (Option<u8>, Option<u8>);

/// Returns the evidence of a change to a setting, whose values are told apart by numbers. An odd one
/// is harmless.
fn setting(key: &str, before: Option<u8>, after: Option<u8>) -> Evidence {
    let digest = |value: Option<u8>| value.map(|value| [value; 32]);
    let is_harmless = after.is_some_and(|value| value % 2 == 1);
    let (before, after) = (digest(before), digest(after));
    let (file, key) = (path(".git/config"), key.to_owned());
    let change = RepositoryChange {
        git_dir: path(".git"),
        is_new: false,
        losses: Vec::new(),
        configuration: vec![ConfigurationChange { file, key, before, after, is_harmless }],
        untracked: Vec::new(),
        stored: Vec::new(),
        keepers: Vec::new(),
        is_cut: false,
    };
    Evidence { repositories: vec![change], ..Evidence::default() }
}

#[test]
fn a_setting_of_the_session_may_go_or_get_a_harmless_value() {
    // Changes to one setting, one after another: its values, and whether the last change is asked
    // about. All are committed.
    let cases: [(&[ValueChange], bool); 11] = [
        (&[(None, Some(1))], false),
        (&[(None, Some(2))], true),
        (&[(Some(2), None)], true),
        (&[(Some(2), Some(1))], true),
        (&[(None, Some(2)), (Some(2), None)], false),
        (&[(None, Some(2)), (Some(2), Some(1))], false),
        (&[(None, Some(1)), (Some(1), Some(3))], false),
        (&[(None, Some(2)), (Some(2), Some(4))], true),
        (&[(None, Some(2)), (Some(2), Some(4)), (Some(4), None)], false),
        // Somebody else set it in between, or had set it before.
        (&[(None, Some(2)), (Some(4), None)], true),
        (&[(Some(4), Some(2)), (Some(2), None)], true),
    ];
    for (changes, is_asked) in cases {
        let mut memory = SessionMemory::default();
        let mut found = Vec::new();
        for (before, after) in changes {
            let evidence = setting("core.pager", *before, *after);
            let assessment = judged(&memory, UndoRecord::Kept, &[], &evidence);
            found = assessment.findings;
            memory.remember(assessment.lessons, &[], &[]);
        }
        assert_eq!(!found.is_empty(), is_asked, "{changes:?}: {found:?}");
        let other = judged(&memory, UndoRecord::Kept, &[], &setting("alias.x", Some(1), None));
        assert_eq!(other.findings.len(), 1, "{changes:?}");
    }
}

#[test]
fn plants_are_asked_about() {
    let plants = vec![PlantedPath { path: path(".envrc"), reader: "direnv".to_owned() }];
    let evidence = Evidence { plants, ..setting("core.pager", None, Some(2)) };
    let found = judged(&SessionMemory::default(), UndoRecord::Kept, &[], &evidence).findings;
    let kinds: Vec<&str> = found.iter().map(|found| found.kind.as_str()).collect();
    assert_eq!(kinds, ["plant", "plant"]);
}

#[test]
fn adding_to_a_file_loses_nothing() {
    let evidence = Evidence { earlier: vec![file("f")], ..Evidence::default() };
    let effects = [effect("f", EffectKind::Appended)];
    let memory = SessionMemory::default();
    assert!(judged(&memory, UndoRecord::Unavailable, &effects, &evidence).findings.is_empty());
}
