//! What would really allow what was refused, on this host: the smallest change of its profile, and of
//! what can not be named, since it is yet to be made or is put in another's place, its directory.

use palisade_audit::Denied;
use palisade_policy::{Act, Change, Decision, Explanation, Profile, Scene, explain, on_host};
use std::{fs, io, path::Path};

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Directory,
    /// Or anything else that is not a directory.
    File,
    Missing,
    /// Who asks may not see it.
    Unknown,
}

/// How a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// It is opened and written to, as far as it is known.
    InPlace,
    /// A new file is put in its place, as file tools do.
    Replacing,
}

impl Writing {
    /// How a tool does.
    pub(super) fn of_tool(tool: &str) -> Self {
        if matches!(tool, "" | "bash") { Self::InPlace } else { Self::Replacing }
    }
}

/// What would allow something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remedy {
    /// In a sentence; why there is none, if no profile can.
    pub(super) how: String,
    pub(super) opens: String,
    /// Keys with one more entry each, or their value; empty if no profile can.
    pub(super) changes: Vec<(&'static str, String)>,
}

/// What is said of a refusal of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Remedy(Remedy),
    /// The profile, as it is by now, allows it.
    AllowedByNow,
    /// What was recorded, since nothing more can be told.
    AsRecorded,
}

/// What is on this host.
pub(super) fn there(path: &Path) -> Found {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Found::Directory,
        Ok(_) => Found::File,
        Err(error) => {
            let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            if kinds.contains(&error.kind()) { Found::Missing } else { Found::Unknown }
        }
    }
}

/// What would have allowed a refusal to a session there.
pub(super) fn answer(
    profile: &Profile,
    scene: &Scene,
    tool: &str,
    denied: &Denied,
    host: impl Fn(&Path) -> Found,
) -> Answer {
    let (rule, target) = (denied.rule.as_str(), denied.target.as_str());
    let opens = denied.opens.as_str().to_owned();
    let by_tool = |key, value: &str| {
        let how = denied.remedy.as_str().to_owned();
        Answer::Remedy(Remedy { how, opens, changes: vec![(key, value.to_owned())] })
    };
    match rule {
        "tools.allow" if !profile.allows_name(target) => return by_tool("tools.allow", target),
        "fs.allow_delete" if !profile.allow_delete() => return by_tool("fs.allow_delete", "true"),
        "tools.allow" | "fs.allow_delete" => return Answer::AllowedByNow,
        _ => {}
    }
    let act = rule.split_once(':').and_then(|(right, _)| right.parse::<Act>().ok());
    let told = act.and_then(|act| explain(profile, scene, act, target).ok());
    // What was done to the host's own, while the profile was only observed.
    let elsewhere = rule.contains(": it would go to ");
    let told = told.map(|told| if elsewhere { on_host(profile, scene, told) } else { told });
    match told {
        None => Answer::AsRecorded,
        // Landlock and the network may still refuse in part what the plan allows as a whole.
        Some(told) if told.decision == Decision::Allow => match denied.remedy.as_str() {
            recorded if recorded.contains(" add ") || recorded.contains(" set ") => {
                Answer::AllowedByNow
            }
            _ => Answer::AsRecorded,
        },
        Some(told) => Answer::Remedy(remedy(profile, scene, &told, Writing::of_tool(tool), host)),
    }
}

fn remedy(
    profile: &Profile,
    scene: &Scene,
    told: &Explanation,
    writing: Writing,
    host: impl Fn(&Path) -> Found,
) -> Remedy {
    let missing = host(Path::new(&told.target)) == Found::Missing;
    let (change, note) = match (instead(profile, scene, told, writing, &host), &told.change) {
        (Some(instead), _) => instead,
        (None, Some(change)) if missing && matches!(told.act, Act::Read | Act::Execute) => {
            let how = format!("{}; it is not on this host", change.how);
            return Remedy { how, opens: change.opens.clone(), changes: Vec::new() };
        }
        (None, change) => (change.clone(), told.note.clone()),
    };
    let Some(change) = change else {
        return Remedy { how: note, opens: String::new(), changes: Vec::new() };
    };
    let mut changes = vec![(change.key, change.value)];
    // Only the host's own network has ports, and there Landlock is what refuses.
    let in_hosts_network = told.layer.name() == "landlock";
    if change.key == "net.ports" && !in_hosts_network {
        changes.insert(0, ("net.mode", "ports".to_owned()));
    }
    Remedy { how: change.how, opens: change.opens, changes }
}

/// The change that works in place of one that names what can not be named, or why there is none;
/// nothing if it can.
pub(super) fn instead(
    profile: &Profile,
    scene: &Scene,
    told: &Explanation,
    writing: Writing,
    host: impl Fn(&Path) -> Found,
) -> Option<(Option<Change>, String)> {
    if told.change.as_ref()?.key != "fs.unguarded" {
        return None;
    }
    let path = Path::new(&told.target);
    let (directory, why) = match (host(path), writing) {
        (Found::Directory | Found::Unknown, _) | (Found::File, Writing::InPlace) => return None,
        (Found::File, Writing::Replacing) => {
            (path.parent()?, "a file tool puts a new file in its place, which takes its directory")
        }
        (Found::Missing, _) => {
            let there = |at: &&Path| host(at) != Found::Missing;
            (path.ancestors().skip(1).find(there)?, "what is not there yet can not be named")
        }
    };
    if host(directory) != Found::Directory {
        return None;
    }
    let of = explain(profile, scene, Act::Write, &directory.display().to_string()).ok()?;
    let of = on_host(profile, scene, of);
    if let Some(change) = of.change {
        let how = format!("{}: of {}, {why}", change.how, path.display());
        return Some((Some(Change { how, ..change }), String::new()));
    }
    let rest = path.strip_prefix(directory).ok()?.components().next()?;
    let first = directory.join(rest);
    let note = format!(
        "make {first} on the host, and add {first:?} to fs.unguarded: {why}, and of {directory}, {note}",
        first = first.display().to_string(),
        directory = directory.display(),
        note = if of.note.is_empty() { &of.rule } else { &of.note }
    );
    Some((None, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::CleanText;

    const TEXT: &str = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"read\"\n\
        execute = [\"!/usr\"]\nunguarded = [\"/srv/granted\"]\nhide = [\"secret\"]\n";

    fn host(path: &Path) -> Found {
        match path.to_str().unwrap() {
            "/" | "/srv" | "/srv/out" | "/w" | "/w/sub" | "/opt" => Found::Directory,
            "/srv/out/file" | "/opt/tool" | "/w/secret" => Found::File,
            "/srv/locked/x" | "/srv/locked" => Found::Unknown,
            _ => Found::Missing,
        }
    }

    fn asked(tool: &str, rule: &str, target: &str) -> Answer {
        let profile = Profile::parse("mine", TEXT).unwrap();
        let user = String::new();
        let scene = Scene { workspace: "/w".into(), home: None, user, uid: 1, gid: 1 };
        let clean = CleanText::new;
        let denied = Denied {
            layer: clean("mount"),
            rule: clean(rule),
            target: clean(target),
            remedy: clean("in mine.toml, add it"),
            at: clean(""),
            opens: clean("it"),
        };
        answer(&profile, &scene, tool, &denied, host)
    }

    fn changes(tool: &str, rule: &str, target: &str) -> Vec<(&'static str, String)> {
        match asked(tool, rule, target) {
            Answer::Remedy(remedy) => remedy.changes,
            other @ (Answer::AllowedByNow | Answer::AsRecorded) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_can_be_named_is_and_of_the_rest_the_directory() {
        let one = |key, value: &str| vec![(key, value.to_owned())];
        for (tool, rule, target, key, value) in [
            ("bash", "write: x", "/srv/out/file", "fs.unguarded", "/srv/out/file"),
            ("edit", "write: x", "/srv/out/file", "fs.unguarded", "/srv/out"),
            ("bash", "write: x", "/srv/out/new", "fs.unguarded", "/srv/out"),
            ("write_file", "write: x", "/srv/out/new/deeper", "fs.unguarded", "/srv/out"),
            ("make_dir", "write: x", "/srv/out", "fs.unguarded", "/srv/out"),
            ("write_file", "write: x", "/w/sub/new", "fs.unguarded", "$WORKSPACE/sub"),
            ("write_file", "write: x", "/w/new", "fs.workspace", "write"),
            ("write_file", "write: x", "/srv/locked/x", "fs.unguarded", "/srv/locked/x"),
            ("bash", "exec: x", "/opt/tool", "fs.execute", "/opt/tool"),
            ("read_file", "read: x", "/w/secret", "fs.hide", "!/secret"),
        ] {
            assert_eq!(changes(tool, rule, target), one(key, value), "{tool} {rule} {target}");
        }
        let port = [("net.mode", "ports".to_owned()), ("net.ports", "80".to_owned())];
        assert_eq!(changes("bash", "connect: x", "192.0.2.1:80"), port);
    }

    #[test]
    fn what_no_change_allows_is_said_with_what_to_do_first() {
        let Answer::Remedy(told) = asked("bash", "write: x", "/new/a/b") else { panic!() };
        assert!(told.changes.is_empty());
        assert!(told.how.starts_with("make /new on the host, and add \"/new\" to fs.unguarded: "));
        let Answer::Remedy(told) = asked("bash", "read: x", "/srv/none") else { panic!() };
        assert!(told.how.ends_with("; it is not on this host") && told.changes.is_empty());
        assert_eq!(asked("bash", "write: x", "/srv/granted/x"), Answer::AllowedByNow);
        assert_eq!(asked("bash", "ptrace: x", "init"), Answer::AsRecorded);
    }
}
