//! Finds the smallest profile change that would really allow a refused access on this host. A
//! profile can not name a file that does not exist yet, or that a tool replaces by a new file. Then
//! its directory is suggested.

use palisade_audit::LayerDenial;
use palisade_policy::{
    Act, Change, Decision, Explanation, Profile, Scene, TargetOwner, explain, explain_bind, on_host,
};
use serde::Serialize;
use std::{fs, io, path::Path};

/// The enforcement of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Enforcement {
    /// The access was refused.
    Refused,
    /// The profile is only observed: the access would have been refused.
    WouldBe,
    /// The target exists on the host, and the profile leaves it out of the session.
    LeftOut,
}

/// The state of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathState {
    Directory,
    /// A file, or anything else that is not a directory.
    File,
    Missing,
    /// The user may not see it.
    Unknown,
}

/// The way in which a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMethod {
    /// The file is opened and written to, as far as is known.
    InPlace,
    /// A new file replaces it, as file tools do.
    Replacing,
}

impl WriteMethod {
    /// Returns how a tool changes files.
    pub(super) fn of_tool(tool: &str) -> Self {
        if matches!(tool, "" | "bash") { Self::InPlace } else { Self::Replacing }
    }
}

/// The change that would allow an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remedy {
    /// The change in a sentence; if no profile can allow the access, the reason.
    pub(super) how: String,
    pub(super) opens: String,
    /// The keys to change: one more entry for a list, or a value. Empty if no profile can allow the
    /// access.
    pub(super) changes: Vec<(&'static str, String)>,
}

/// The advice on a refusal in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Remedy(Remedy),
    /// The profile in its current form allows the access.
    AllowedByNow,
    /// The recorded remedy, because nothing more is known.
    AsRecorded,
}

/// Returns what exists at a path on this host.
pub(super) fn there(path: &Path) -> PathState {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => PathState::Directory,
        Ok(_) => PathState::File,
        Err(error) => {
            let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            if kinds.contains(&error.kind()) { PathState::Missing } else { PathState::Unknown }
        }
    }
}

/// Returns what would have allowed a refused access in such a session. The answer is about the
/// profile as it is written, even if it is only observed.
pub(super) fn answer(
    profile: &Profile,
    scene: &Scene,
    tool: &str,
    (denied, met): (&LayerDenial, Enforcement),
    host: impl Fn(&Path) -> PathState,
) -> Answer {
    let written = profile.as_written();
    let (rule, target) = (denied.rule.as_str(), denied.target.as_str());
    let opens = denied.opens.as_str().to_owned();
    let by_tool = |key, value: &str| {
        let how = denied.remedy.as_str().to_owned();
        Answer::Remedy(Remedy { how, opens, changes: vec![(key, value.to_owned())] })
    };
    match rule {
        "tools.allow" if !written.allows_name(target) => return by_tool("tools.allow", target),
        "fs.allow_delete" if !written.allow_delete() => return by_tool("fs.allow_delete", "true"),
        "tools.allow" | "fs.allow_delete" => return Answer::AllowedByNow,
        _ => {}
    }
    let right = denied.right().unwrap_or_default();
    if right == "bind" {
        return match explain_bind(written, target) {
            Some(_) => Answer::AsRecorded,
            None => Answer::AllowedByNow,
        };
    }
    let act = right.parse::<Act>().ok();
    let told = act.and_then(|act| explain(written, scene, act, target).ok());
    let by_enforced = || act.and_then(|act| explain(profile, scene, act, target).ok());
    // An access that was meant for the host is not allowed by a place of the session's own.
    let for_host = match met {
        Enforcement::Refused => false,
        Enforcement::LeftOut => true,
        Enforcement::WouldBe => by_enforced().is_some_and(|told| told.place == TargetOwner::Host),
    };
    match told.map(|told| if for_host { on_host(written, scene, told) } else { told }) {
        None => Answer::AsRecorded,
        // Landlock and the network may still refuse in part what the plan allows as a whole. Then
        // the denial has no change that would open something.
        Some(told) if told.decision == Decision::Allow => match denied.opens.as_str().is_empty() {
            false => Answer::AllowedByNow,
            true => Answer::AsRecorded,
        },
        Some(told) => {
            Answer::Remedy(remedy(written, scene, &told, WriteMethod::of_tool(tool), host))
        }
    }
}

/// Returns the change that would allow an access that a profile denies.
pub(super) fn remedy(
    profile: &Profile,
    scene: &Scene,
    told: &Explanation,
    writing: WriteMethod,
    host: impl Fn(&Path) -> PathState,
) -> Remedy {
    let missing = host(Path::new(&told.target)) == PathState::Missing;
    let (change, note) = match (instead(profile, scene, told, writing, &host), &told.change) {
        (Some(instead), _) => instead,
        (None, Some(change)) if missing && matches!(told.act, Act::Read | Act::Execute) => {
            let how = format!("{}; it does not exist on this host", change.how);
            return Remedy { how, opens: change.opens.clone(), changes: Vec::new() };
        }
        (None, change) => (change.clone(), told.note.clone()),
    };
    let Some(change) = change else {
        return Remedy { how: note, opens: String::new(), changes: Vec::new() };
    };
    let mut changes = vec![(change.key, change.value)];
    // Only the host's own network has ports, and there Landlock is the layer that refuses.
    let in_hosts_network = told.layer.name() == "landlock";
    if change.key == "net.ports" && !in_hosts_network {
        changes.insert(0, ("net.mode", "ports".to_owned()));
    }
    if change.key == "net.allow" && profile.egress().is_none() {
        changes.insert(0, ("net.mode", "domains".to_owned()));
    }
    Remedy { how: change.how, opens: change.opens, changes }
}

/// Returns a replacement for a suggested change that names a path which a profile can not name, or
/// the reason there is none. `None` if the path can be named.
pub(super) fn instead(
    profile: &Profile,
    scene: &Scene,
    told: &Explanation,
    writing: WriteMethod,
    host: impl Fn(&Path) -> PathState,
) -> Option<(Option<Change>, String)> {
    if told.change.as_ref()?.key != "fs.unguarded" {
        return None;
    }
    let path = Path::new(&told.target);
    let (directory, why) = match (host(path), writing) {
        (PathState::Directory | PathState::Unknown, _)
        | (PathState::File, WriteMethod::InPlace) => return None,
        (PathState::File, WriteMethod::Replacing) => {
            (path.parent()?, "a file tool replaces the file, which needs its directory")
        }
        (PathState::Missing, _) => {
            let there = |at: &&Path| host(at) != PathState::Missing;
            (path.ancestors().skip(1).find(there)?, "a missing path can not be named")
        }
    };
    if host(directory) != PathState::Directory {
        return None;
    }
    let of = explain(profile, scene, Act::Write, &directory.display().to_string()).ok()?;
    let of = on_host(profile, scene, of);
    if let Some(change) = of.change {
        let how = format!("{}: for {}, {why}", change.how, path.display());
        return Some((Some(Change { how, ..change }), String::new()));
    }
    let rest = path.strip_prefix(directory).ok()?.components().next()?;
    let first = directory.join(rest);
    let note = format!(
        "create {first} on the host, and add {first:?} to fs.unguarded: {why}, \
         and for {directory}: {note}",
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

    fn host(path: &Path) -> PathState {
        match path.to_str().unwrap() {
            "/" | "/srv" | "/srv/out" | "/w" | "/w/sub" | "/opt" => PathState::Directory,
            "/srv/out/file" | "/opt/tool" | "/w/secret" => PathState::File,
            "/srv/locked/x" | "/srv/locked" => PathState::Unknown,
            _ => PathState::Missing,
        }
    }

    fn asked(tool: &str, rule: &str, target: &str) -> Answer {
        let profile = Profile::parse("mine", TEXT).unwrap();
        let user = String::new();
        let scene = Scene { workspace: "/w".into(), home: None, user, uid: 1, gid: 1 };
        let clean = CleanText::new;
        let denied = LayerDenial {
            layer: clean("mount"),
            rule: clean(rule),
            target: clean(target),
            remedy: clean("in mine.toml, add it"),
            at: clean(""),
            opens: clean("it"),
        };
        answer(&profile, &scene, tool, (&denied, Enforcement::Refused), host)
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
        let host = [("net.mode", "domains".to_owned()), ("net.allow", "192.0.2.1".to_owned())];
        assert_eq!(changes("bash", "connect: x", "192.0.2.1:80"), host);
        let port = [("net.mode", "ports".to_owned()), ("net.ports", "53".to_owned())];
        assert_eq!(changes("bash", "connect: x", "192.0.2.1:53"), port);
    }

    #[test]
    fn what_no_change_allows_is_said_with_what_to_do_first() {
        let Answer::Remedy(told) = asked("bash", "write: x", "/new/a/b") else { panic!() };
        assert!(told.changes.is_empty());
        assert!(
            told.how.starts_with("create /new on the host, and add \"/new\" to fs.unguarded: ")
        );
        let Answer::Remedy(told) = asked("bash", "read: x", "/srv/none") else { panic!() };
        assert!(told.how.ends_with("; it does not exist on this host") && told.changes.is_empty());
        assert_eq!(asked("bash", "write: x", "/srv/granted/x"), Answer::AllowedByNow);
        assert_eq!(asked("bash", "ptrace: x", "init"), Answer::AsRecorded);
    }
}
