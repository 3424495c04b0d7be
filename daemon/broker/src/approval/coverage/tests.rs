//! Tests of what scopes of losses cover.

use super::*;
use palisade_plan::{
    change::{Effect, EffectKind, Print},
    evidence::Evidence,
};
use palisade_policy::{Judgement, Profile, judge_effects};
use palisade_protocol::{Ask, Finding, RawPath, Severity, ToolMetadata, ToolSpec};

fn effect(path: &str, kind: EffectKind) -> Effect {
    Effect {
        path: path.into(),
        kind,
        size_before: 1,
        size_after: 0,
        print: Print::Absent,
        replaces: None,
    }
}

fn deleted(path: &str) -> Effect {
    effect(path, EffectKind::Deleted { entries: 1 })
}

fn preview(effects: Vec<Effect>) -> Preview {
    Preview {
        effects,
        digest: [0; 32],
        diff: String::new(),
        complete: true,
        conflicts: Vec::new(),
        evidence: Evidence::default(),
    }
}

fn found(kind: &str, target: &str) -> Finding {
    let targets = vec![target.to_owned()];
    Finding { targets, ..Finding::new(kind, Severity::Warning, "why") }
}

fn losses(effects: Vec<Effect>, findings: Vec<Finding>, permanent: bool) -> Option<CommandLosses> {
    let profile = Profile::parse(
        "test",
        "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n",
    )
    .unwrap();
    let spec = ToolSpec {
        name: "bash".parse().unwrap(),
        aliases: Vec::new(),
        description: String::new(),
        schema: palisade_protocol::JsonText::default(),
        metadata: ToolMetadata::default(),
    };
    let facts = Facts { findings, is_permanent: permanent, ..Facts::default() };
    let Judgement::Ask(request) = judge_effects(&profile, Ask::Destructive, &spec, &facts) else {
        panic!("nothing is asked")
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    let commands = Commands::Known(vec![words("cd out"), words("rm -r x")]);
    CommandLosses::of(&preview(effects), &request, &facts, &commands)
}

fn scope(path: &str, kinds: &[&str], programs: &[&str]) -> LossScope {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    LossScope { path: RawPath::from(path), kinds: texts(kinds), programs: texts(programs) }
}

#[test]
fn every_loss_has_to_be_in_the_scope() {
    let two = losses(
        vec![deleted("/w/out/a"), deleted("/w/out/b/c"), effect("/w/new", EffectKind::Created)],
        vec![found("destructive", "/w/out/a"), found("destructive", "/w/out/b/c")],
        false,
    )
    .unwrap();
    for (scope, covered) in [
        (scope("/w", &[], &[]), true),
        (scope("/w/out", &[], &[]), true),
        (scope("/w/out/", &["deleted"], &["rm", "cd", "ls"]), true),
        (scope("/w/out/b", &[], &[]), false),
        (scope("/w/ou", &[], &[]), false),
        (scope("/w/out", &["replaced"], &[]), false),
        (scope("/w/out", &[], &["rm"]), false),
    ] {
        assert_eq!(two.are_in(&scope), covered, "{scope:?}");
    }
    assert_eq!(two.programs(), ["cd", "rm"]);
    let unknown = CommandLosses { programs: None, ..two };
    assert!(!unknown.are_in(&scope("/w", &[], &["rm"])));
    assert!(unknown.are_in(&scope("/w", &[], &[])));
}

#[test]
fn a_directory_that_is_lost_as_a_whole_is_in_the_scope_of_itself() {
    let whole = losses(vec![deleted("/w/out")], vec![found("destructive", "/w/out")], false);
    let whole = whole.unwrap();
    assert!(whole.are_in(&scope("/w/out", &[], &[])));
    assert!(!whole.are_in(&scope("/w/out/a", &[], &[])), "more is lost than that");
    assert!(!whole.are_in(&scope("/w/gen", &[], &[])));
}

#[test]
fn nothing_but_losses_that_undo_keeps_can_be_covered() {
    let loss = || vec![found("destructive", "/w/a")];
    assert!(losses(vec![deleted("/w/a")], loss(), false).is_some());
    assert_eq!(losses(vec![deleted("/w/a")], loss(), true), None, "undo does not keep it");
    let with = |other: Finding| {
        let findings = [loss(), vec![other]].concat();
        losses(vec![deleted("/w/a"), deleted("/w/.git/hooks/x")], findings, false)
    };
    assert_eq!(with(found("plant", "/w/.git/hooks/x")), None);
    assert_eq!(with(found("conflict", "/w/a")), None);
    assert_eq!(with(found("destructive", "/w/.git")), None, "a loss inside a repository");
    let much = Finding::new("destructive", Severity::Warning, "changes many entries");
    assert_eq!(with(much), None, "a loss without a path");
    assert!(with(Finding::new("kept", Severity::Notice, "nothing else")).is_some());
    let whole = vec![found("destructive", "/w/.git")];
    assert_eq!(losses(vec![deleted("/w/.git")], whole, false), None, "a whole repository");
}

#[test]
fn a_moved_file_has_to_be_in_the_scope_at_both_ends_and_names_are_compared_as_bytes() {
    let moved = EffectKind::Moved { from: "/w/src/a".into() };
    let found = vec![found("destructive", "/w/out/a")];
    let moved = losses(vec![effect("/w/out/a", moved)], found, false).unwrap();
    assert!(!moved.are_in(&scope("/w/out", &[], &[])));
    assert!(moved.are_in(&scope("/w", &["moved"], &[])));
    let odd = |byte: u8| [b"/w/".as_slice(), &[byte]].concat();
    let two: Vec<_> = [0xfe, 0xff]
        .map(|byte| Effect { path: palisade_plan::Path(odd(byte)), ..deleted("/w/x") })
        .into();
    let same_text = vec![Finding {
        // However often it is named.
        targets: vec!["/w/\u{fffd}".to_owned(); 3],
        ..Finding::new("destructive", Severity::Warning, "why")
    }];
    let both = losses(two, same_text, false).unwrap();
    assert_eq!(both.losses.len(), 2);
    let one = LossScope { path: RawPath(odd(0xfe)), kinds: Vec::new(), programs: Vec::new() };
    assert!(!both.are_in(&one));
}

#[test]
fn a_recorded_request_is_compared_as_the_waiting_one() {
    let losses = losses(vec![deleted("/w/a")], vec![found("destructive", "/w/a")], false);
    let request = ComparedRequest {
        uid: 1,
        profile: "p".to_owned(),
        tool: "bash".to_owned(),
        exact: Hash::of(b"x"),
        commands: Some(vec![vec!["rm".to_owned(), "a".to_owned()]]),
        paths: Some(vec![b"/w/a".to_vec()]),
        losses,
    };
    assert_eq!(ComparedRequest::from(request.recorded()), request);
    let mut many = request.clone();
    many.paths = Some(vec![b"/w/a".to_vec(); MOST_RECORDED + 1]);
    assert_eq!(many.recorded().paths, None, "too many for a record");
}
