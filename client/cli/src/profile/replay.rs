//! What real calls of the audit log would fare differently with another profile.

use super::{
    history::{Told, history},
    learn::home_of,
};
use crate::{audit::Directory, failure::Failure};
use palisade_audit::{Call, Denied};
use palisade_policy::{Act, Decision, Explanation, Place, Profile, Scene, explain};
use serde::Serialize;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// Arguments of file tools that are paths, with what is done with them.
const PATHS: [(&str, &str, Act); 14] = [
    ("read_file", "path", Act::Read),
    ("list_files", "path", Act::Read),
    ("glob", "path", Act::Read),
    ("grep", "path", Act::Read),
    ("write_file", "path", Act::Write),
    ("edit", "path", Act::Write),
    ("multi_edit", "path", Act::Write),
    ("delete_file", "path", Act::Write),
    ("make_dir", "path", Act::Write),
    ("move_file", "from", Act::Write),
    ("move_file", "to", Act::Write),
    ("bash", "cwd", Act::Read),
    ("diagnostics", "path", Act::Read),
    ("undo", "path", Act::Write),
];

/// A call that would fare differently.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Changed {
    pub(super) call_id: String,
    pub(super) tool: String,
    /// What of it.
    pub(super) what: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// What was seen, and what of it would change.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) calls: u64,
    pub(super) changed: Vec<Changed>,
}

/// Replays the calls of the log, what was refused to them, and what an observed profile would have.
pub(super) fn replay(
    directory: &Directory,
    since: Duration,
    first: &Profile,
    second: &Profile,
) -> Result<Replayed, Failure> {
    let mut scenes: HashMap<String, Scene> = HashMap::new();
    let mut tools: HashMap<String, String> = HashMap::new();
    let mut replayed = Replayed::default();
    history(directory, Some(since), |told| match told {
        Told::Opened(open) => {
            let scene = scene(open.workspace.as_str(), open.runs_as.unwrap_or(open.uid));
            scenes.insert(open.session, scene);
        }
        Told::Call(call) => {
            replayed.calls += 1;
            if let Some(scene) = scenes.get(&call.session) {
                replayed.changed.extend(of_call(first, second, scene, &call));
            }
            tools.insert(call.call_id, call.tool);
        }
        Told::Ended(end) => {
            let Some(scene) = scenes.get(&end.session) else { return };
            let tool = tools.get(&end.call_id).cloned().unwrap_or_default();
            let of = |denial| of_denial(first, second, scene, denial);
            for (what, from, to) in end.denials.iter().chain(&end.observed).filter_map(of) {
                let (call_id, tool) = (end.call_id.clone(), tool.clone());
                let told = Changed { call_id, tool, what, from, to };
                if !replayed.changed.contains(&told) {
                    replayed.changed.push(told);
                }
            }
        }
    })?;
    Ok(replayed)
}

/// Where a session was.
pub(super) fn scene(workspace: &str, uid: u32) -> Scene {
    let (workspace, home) = (PathBuf::from(workspace), home_of(uid));
    Scene { workspace, home, user: String::new(), uid, gid: uid }
}

/// What both say to one access; none if it is the same, or neither can say.
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

/// An answer in words: what is done to a private file system of the session's is not the same.
fn said(told: &Explanation) -> &'static str {
    match (told.decision, told.place) {
        (Decision::Deny, Place::Host | Place::Session) => "deny",
        (Decision::Allow, Place::Host) => "allow",
        (Decision::Allow, Place::Session) => "allow, privately",
    }
}

fn of_call(first: &Profile, second: &Profile, scene: &Scene, call: &Call) -> Vec<Changed> {
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
        if let Some(path) = arguments.get(name).and_then(|value| value.as_str()) {
            found.extend(differs(first, second, scene, *act, &absolute(path)));
        }
    }
    let program = arguments.get("argv").and_then(|argv| argv.get(0)).and_then(|word| word.as_str());
    if let Some(program) = program.filter(|program| program.starts_with('/')) {
        found.extend(differs(first, second, scene, Act::Execute, program));
    }
    let changed = |(what, from, to)| Changed {
        call_id: call.call_id.clone(),
        tool: call.tool.clone(),
        what,
        from,
        to,
    };
    found.into_iter().map(changed).collect()
}

/// A refusal's right is the first word of its rule.
fn of_denial(
    first: &Profile,
    second: &Profile,
    scene: &Scene,
    denial: &Denied,
) -> Option<(String, String, String)> {
    let (right, _) = denial.rule.as_str().split_once(':')?;
    let act: Act = right.parse().ok()?;
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
        let denial = Denied {
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
