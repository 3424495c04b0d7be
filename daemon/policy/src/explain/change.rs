//! The smallest change of a profile that would allow an access, and its consequences. Pure: no I/O.

use crate::{
    Profile, Scene,
    access::{Widening, WorkspaceAccess},
    act::Act,
    entries::{EtcEntry, PathEntry, WritableEntry},
    names::{NameEntry, NameListKey},
    source::{Owner, WithOrigin},
};
use serde::Serialize;
use std::path::Path;

/// A change of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The key to change.
    pub key: &'static str,
    /// The new entry of the list, or the new value.
    pub value: String,
    /// The instruction, in a sentence.
    pub how: String,
    /// The access that the change would allow in addition.
    pub opens: String,
}

impl Change {
    /// Returns the instruction for a reader who can not see the host. A path that does not exist is
    /// left out of a session, so that it could not be created there.
    #[must_use]
    pub fn unseen(&self) -> String {
        let how = &self.how;
        match self.key {
            "fs.unguarded" => {
                format!("{how} (or, if it does not exist yet, the nearest directory that does)")
            }
            _ => how.clone(),
        }
    }
}

/// Returns the smallest change.
///
/// # Errors
/// The reason why no change would allow the access.
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
    let below = format!("{shown}, and everything below it if it is a directory");
    let not_empty = |text: &str| match text.strip_prefix("/etc/") {
        Some(name) => EtcEntry::try_from(name.to_owned()).map(|entry| entry.0),
        None => PathEntry::try_from(text.to_owned()),
    };
    let entry = not_empty(&shown)?;
    let (key, value, could) = match act {
        Act::Write => {
            WritableEntry::try_from(entry)?;
            ("fs.unguarded", shown, "read, run and changed (outside transactions)")
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

/// Returns an exception for a hidden or protected name. Inherited entries can not be taken back.
pub(super) fn named(
    profile: &Profile,
    which: NameListKey,
    said: &WithOrigin<NameEntry>,
    path: &[u8],
) -> Change {
    let value = format!("!/{}", String::from_utf8_lossy(path));
    let (key, text) = (which.key(), &said.value.0);
    let own = said.at.as_ref().is_some_and(|at| at.file == profile.file);
    let how = match (own, profile.owner) {
        (true, Owner::Root | Owner::Own | Owner::Other) => {
            format!("in {}, add {value:?} to {key}, after {text:?}", profile.file)
        }
        (true | false, Owner::Builtin | Owner::Root | Owner::Own | Owner::Other) => format!(
            "inherited names of {key} can not be removed: write a profile that does not extend \
             the one with {text:?}, and add {value:?} after it there"
        ),
    };
    let opens = match which {
        NameListKey::Hide => {
            "it could be read, and changed if the workspace is writable, by every program"
        }
        NameListKey::Protect => "it could be changed by every program",
    };
    Change { key, value, how, opens: format!("{opens} of the session") }
}

pub(super) fn set(profile: &Profile, key: &'static str, value: &str, opens: &str) -> Change {
    let how = how(profile, key, &format!("set {value:?} as"));
    Change { key, value: value.to_owned(), how, opens: opens.to_owned() }
}

/// Returns the instruction: which profile to edit, and how.
pub(super) fn how(profile: &Profile, key: &str, act: &str) -> String {
    let name = profile.name();
    match (profile.owner, profile.settings.widening) {
        (Owner::Builtin, _) => format!(
            "in your own profile, in a file owned by root (of yours, if the daemon is your own), \
             with `extends = {name:?}` and `widen = true`, {act} {key}"
        ),
        (Owner::Own, Widening::No) => {
            format!("in {}, with `widen = true`, {act} {key}", profile.file)
        }
        (Owner::Root | Owner::Own | Owner::Other, Widening::Yes) => {
            format!("in {}, {act} {key}", profile.file)
        }
        (Owner::Root | Owner::Other, Widening::No) => {
            format!("in {}, owned by root and with `widen = true`, {act} {key}", profile.file)
        }
    }
}

/// Returns a path as a profile would write it.
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
