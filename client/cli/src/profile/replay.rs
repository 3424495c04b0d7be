//! Finds real calls of the audit log that another profile would decide differently.

use super::{
    history::{HistoryRecord, history},
    learn::home_of,
};
use crate::{audit::Directory, failure::Failure};
use palisade_audit::{Call, LayerDenial};
use palisade_policy::{Act, Decision, Explanation, Profile, Scene, TargetOwner, explain};
use serde::Serialize;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// The arguments of tools that are paths, with the access that the tool makes.
const PATHS: [(&str, &str, Act); 19] = [
    ("read_file", "path", Act::Read),
    ("read_file", "file_path", Act::Read),
    ("stat", "path", Act::Read),
    ("realpath", "path", Act::Read),
    ("list_files", "path", Act::Read),
    ("glob", "path", Act::Read),
    ("grep", "path", Act::Read),
    ("write_file", "path", Act::Write),
    ("write_file", "file_path", Act::Write),
    ("edit", "path", Act::Write),
    ("edit", "file_path", Act::Write),
    ("multi_edit", "path", Act::Write),
    ("multi_edit", "file_path", Act::Write),
    ("delete_file", "path", Act::Write),
    ("make_dir", "path", Act::Write),
    ("move_file", "from", Act::Write),
    ("move_file", "to", Act::Write),
    ("bash", "cwd", Act::Read),
    ("diagnostics", "paths", Act::Read),
];

/// A call that would be decided differently.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ChangedDecision {
    pub(super) call_id: String,
    pub(super) tool: String,
    /// The access that differs.
    pub(super) what: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// The number of calls replayed, and those that would change.
#[derive(Debug, Default)]
pub(super) struct ReplayResult {
    pub(super) calls: u64,
    pub(super) changed: Vec<ChangedDecision>,
}

/// Replays the calls of the log, their refusals, and what an observed profile would have refused.
pub(super) fn replay(
    directory: &Directory,
    since: Duration,
    first: &Profile,
    second: &Profile,
) -> Result<ReplayResult, Failure> {
    let mut scenes: HashMap<String, Scene> = HashMap::new();
    let mut tools: HashMap<String, String> = HashMap::new();
    let mut replayed = ReplayResult::default();
    history(directory, Some(since), |told| match told {
        HistoryRecord::Opened(open) => {
            let scene = scene(open.workspace.as_str(), open.runs_as.unwrap_or(open.uid));
            scenes.insert(open.session, scene);
        }
        HistoryRecord::Call(call) => {
            replayed.calls += 1;
            if let Some(scene) = scenes.get(&call.session) {
                replayed.changed.extend(of_call(first, second, scene, &call));
            }
            tools.insert(call.call_id, call.tool);
        }
        HistoryRecord::Ended(end) => {
            let Some(scene) = scenes.get(&end.session) else { return };
            let tool = tools.get(&end.call_id).cloned().unwrap_or_default();
            let of = |denial| of_denial(first, second, scene, denial);
            for (what, from, to) in end.denials.iter().chain(&end.observed).filter_map(of) {
                let (call_id, tool) = (end.call_id.clone(), tool.clone());
                let told = ChangedDecision { call_id, tool, what, from, to };
                if !replayed.changed.contains(&told) {
                    replayed.changed.push(told);
                }
            }
        }
    })?;
    Ok(replayed)
}

/// Returns the workspace and identity of a session.
pub(super) fn scene(workspace: &str, uid: u32) -> Scene {
    let (workspace, home) = (PathBuf::from(workspace), home_of(uid));
    Scene { workspace, home, user: String::new(), uid, gid: uid }
}

/// Returns both profiles' decisions on one access; `None` if they are equal, or one has no answer.
fn differs(
    first: &Profile,
    second: &Profile,
    scene: &Scene,
    act: Act,
    target: &str,
) -> Option<(String, String, String)> {
    let answer = |profile| explain(profile, scene, act, target).ok().map(|told| said(&told));
    let (from, to) = (answer(first)?, answer(second)?);
    (from != to).then(|| (format!("{act} {target}"), from.to_owned(), to.to_owned()))
}

/// Returns a decision in words. Access to a private file system of the session counts as different.
fn said(told: &Explanation) -> &'static str {
    match (told.decision, told.place) {
        (Decision::Ask, TargetOwner::Host | TargetOwner::Session) => "ask",
        (Decision::Deny, TargetOwner::Host | TargetOwner::Session) => "deny",
        (Decision::Allow, TargetOwner::Host) => "allow",
        (Decision::Allow, TargetOwner::Session) => "allow, privately",
    }
}

fn of_call(first: &Profile, second: &Profile, scene: &Scene, call: &Call) -> Vec<ChangedDecision> {
    let mut found = Vec::new();
    let (from, to) = (first.allows_name(&call.tool), second.allows_name(&call.tool));
    if from != to {
        let told = |allowed: bool| if allowed { "allow" } else { "deny" }.to_owned();
        found.push((format!("tool {}", call.tool), told(from), told(to)));
    }
    let arguments = call.arguments.value();
    let absolute = |path: &str| {
        let whole = Path::new(call.cwd.as_str()).join(path);
        whole.components().collect::<PathBuf>().display().to_string()
    };
    for (_, name, act) in PATHS.iter().filter(|(tool, ..)| *tool == call.tool) {
        let given = arguments.get(name);
        let many = given.and_then(|value| value.as_array()).into_iter().flatten();
        for path in given.into_iter().chain(many).filter_map(|value| value.as_str()) {
            found.extend(differs(first, second, scene, *act, &absolute(path)));
        }
    }
    let program = arguments.get("argv").and_then(|argv| argv.get(0)).and_then(|word| word.as_str());
    if let Some(program) = program.filter(|program| program.starts_with('/')) {
        found.extend(differs(first, second, scene, Act::Execute, program));
    }
    let changed = |(what, from, to)| ChangedDecision {
        call_id: call.call_id.clone(),
        tool: call.tool.clone(),
        what,
        from,
        to,
    };
    found.into_iter().map(changed).collect()
}

/// Compares the profiles on a refused access.
fn of_denial(
    first: &Profile,
    second: &Profile,
    scene: &Scene,
    denial: &LayerDenial,
) -> Option<(String, String, String)> {
    let act: Act = denial.right()?.parse().ok()?;
    differs(first, second, scene, act, denial.target.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::{CleanJson, CleanText, Hash, Judgement};
    use palisade_policy::ProfileSet;

    fn call(tool: &str, arguments: &str) -> Call {
        Call {
            call_id: "c".to_owned(),
            session: "s".to_owned(),
            uid: 1000,
            pid: None,
            tool: tool.to_owned(),
            digest: Hash::of(b""),
            arguments: CleanJson::new(arguments),
            altered: None,
            claims: Vec::new(),
            cwd: CleanText::new("/home/u/project/sub"),
            reason: None,
            dry_run: false,
            judgement: Judgement::Allow,
            findings: Vec::new(),
            thinking: None,
        }
    }

    #[test]
    fn only_what_would_change_is_told() {
        let set = ProfileSet::new([]).unwrap();
        let (wide, narrow) = (set.get("workspace").unwrap(), set.get("readonly").unwrap());
        let scene = Scene { home: None, ..scene("/home/u/project", 1000) };
        let changed = |tool: &str, arguments: &str| {
            let told = of_call(wide, narrow, &scene, &call(tool, arguments));
            told.into_iter()
                .map(|c| format!("{}: {} > {}", c.what, c.from, c.to))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            changed("write_file", r#"{"path": "x"}"#),
            ["tool write_file: allow > deny", "write /home/u/project/sub/x: allow > deny"]
        );
        assert!(changed("read_file", r#"{"path": "x"}"#).is_empty());
        assert!(changed("bash", r#"{"argv": ["/usr/bin/true"]}"#).is_empty());
        let clean = CleanText::new;
        let denial = LayerDenial {
            layer: clean("mount"),
            rule: clean("write: the workspace is read-only"),
            target: clean("/home/u/project/y"),
            remedy: clean(""),
            at: clean(""),
            opens: clean(""),
        };
        let told = of_denial(narrow, wide, &scene, &denial).unwrap();
        assert_eq!((told.1.as_str(), told.2.as_str()), ("deny", "allow"));
    }
}
