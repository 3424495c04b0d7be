//! The smallest change that would allow an access, and what it would open.

use crate::{
    Profile, Scene,
    access::{Widening, WorkspaceAccess},
    act::Act,
    entries::{EtcEntry, PathEntry, WritableEntry},
    names::{NameEntry, Which},
    source::{Owner, Said},
};
use serde::Serialize;
use std::path::Path;

/// A change of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The key that it changes.
    pub key: &'static str,
    /// What to give it: one more entry of a list, or the value.
    pub value: String,
    /// How, in a sentence.
    pub how: String,
    /// What more would be allowed.
    pub opens: String,
}

impl Change {
    /// How, for whom the host is out of sight: what is not there is left out of a session, so that
    /// it can not be made there.
    #[must_use]
    pub fn unseen(&self) -> String {
        let how = &self.how;
        match self.key {
            "fs.unguarded" => {
                format!("{how} (or, if it is yet to be made, the nearest directory that is there)")
            }
            _ => how.clone(),
        }
    }
}

/// The smallest change, or why there is none.
pub(super) fn smallest(
    profile: &Profile,
    scene: &Scene,
    act: Act,
    path: &Path,
) -> Result<Change, String> {
    let in_workspace = path.starts_with(&scene.workspace);
    if act == Act::Write
        && in_workspace
        && profile.settings.fs.workspace.value == WorkspaceAccess::Read
        && path == scene.workspace
    {
        return Ok(set(
            profile,
            "fs.workspace",
            "write",
            "everything in the workspace could be changed",
        ));
    }
    let shown = shown(scene, path);
    let below = format!("{shown}, and if it is a directory, all below it");
    let not_empty = |text: &str| match text.strip_prefix("/etc/") {
        Some(name) => EtcEntry::try_from(name.to_owned()).map(|entry| entry.0),
        None => PathEntry::try_from(text.to_owned()),
    };
    let entry = not_empty(&shown)?;
    let (key, value, could) = match act {
        Act::Write => {
            WritableEntry::try_from(entry)?;
            ("fs.unguarded", shown, "read, run and changed (in no transaction)")
        }
        Act::Execute => ("fs.execute", shown, "read and run"),
        Act::Read | Act::Connect => match shown.strip_prefix("/etc/") {
            Some(name) => ("fs.etc", name.to_owned(), "read"),
            None => ("fs.read", shown, "read"),
        },
    };
    let how = how(profile, key, &format!("add {value:?} to"));
    Ok(Change {
        key,
        value,
        how,
        opens: format!("{below}, could be {could} by every program of the session"),
    })
}

/// An exception for a name that is hidden or protected. What is extended can not be taken back.
pub(super) fn named(
    profile: &Profile,
    which: Which,
    said: &Said<NameEntry>,
    path: &[u8],
) -> Change {
    let value = format!("!/{}", String::from_utf8_lossy(path));
    let (key, text) = (which.key(), &said.value.0);
    let own = said.at.as_ref().is_some_and(|at| at.file == profile.file);
    let how = match (own, profile.owner) {
        (true, Owner::Root | Owner::Other) => {
            format!("in {}, add {value:?} to {key}, after {text:?}", profile.file)
        }
        (true | false, Owner::Builtin | Owner::Root | Owner::Other) => format!(
            "names of {key} are only ever added to: write a profile that does not extend the one \
             with {text:?}, and add {value:?} after it there"
        ),
    };
    let opens = match which {
        Which::Hide => "it could be seen, and changed if the workspace can, by every program",
        Which::Protect => "it could be changed by every program",
    };
    Change { key, value, how, opens: format!("{opens} of the session") }
}

pub(super) fn set(profile: &Profile, key: &'static str, value: &str, opens: &str) -> Change {
    let how = how(profile, key, &format!("set {value:?} as"));
    Change { key, value: value.to_owned(), how, opens: opens.to_owned() }
}

/// What to do to which profile.
pub(super) fn how(profile: &Profile, key: &str, act: &str) -> String {
    let name = profile.name();
    match (profile.owner, profile.settings.widening) {
        (Owner::Builtin, _) => format!(
            "in a profile of your own, in a file of root's, with `extends = {name:?}` and \
             `widen = true`, {act} {key}"
        ),
        (Owner::Root | Owner::Other, Widening::Yes) => {
            format!("in {}, {act} {key}", profile.file)
        }
        (Owner::Root | Owner::Other, Widening::No) => {
            format!("in {}, as a file of root's with `widen = true`, {act} {key}", profile.file)
        }
    }
}

/// A path as a profile would name it.
fn shown(scene: &Scene, path: &Path) -> String {
    let bases = [("$WORKSPACE", Some(scene.workspace.as_path())), ("$HOME", scene.private_home())];
    for (variable, base) in bases {
        if let Some(rest) = base.and_then(|base| path.strip_prefix(base).ok()) {
            let slash = if rest.as_os_str().is_empty() { "" } else { "/" };
            return format!("{variable}{slash}{}", rest.display());
        }
    }
    path.display().to_string()
}
