//! The entry types of a profile's lists. Each entry is checked when it is deserialized, so that an
//! error has its source position. Pure: no I/O.

use crate::{
    keys::{AcceptedValues, Described, Single, noun},
    variables::{refused, variable_name},
};
use palisade_plan::{Layer, MissingPath, ceiling};
use palisade_protocol::ToolName;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The directory that a profile's path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    Root,
    Home,
    Workspace,
}

/// The variables that may begin a path.
pub(crate) const VARIABLES: [&str; 3] = ["$WORKSPACE", "$HOME", "$TMP"];

/// The path that `$TMP` stands for, in every session.
pub(crate) const TMP: &str = "/tmp";

/// The shared memory directory.
const SHM: &str = "/dev/shm";

/// Directories that are private to each session and start empty. The home is private too, but is
/// not in this list.
pub(crate) const PRIVATE: [&str; 3] = [TMP, "/var/tmp", SHM];

/// A path: absolute, or below `$HOME`, `$WORKSPACE` or `$TMP`. A path that does not exist is
/// skipped; with a leading `!` it must exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct PathEntry {
    pub(crate) base: Base,
    /// The rest of the path after the base: empty, or with a leading slash.
    pub(crate) rest: String,
    pub(crate) missing: MissingPath,
}

impl PathEntry {
    /// Returns the entry for the whole workspace, which must exist.
    pub(crate) fn workspace() -> Self {
        Self { base: Base::Workspace, rest: String::new(), missing: MissingPath::Refuse }
    }

    /// Returns `true` if the other entry names the same path as this one, or a path below it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        // Paths are plain, so their text is compared: this is done for each pair of entries.
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/') || self.rest == "/";
        self.base == other.base && other.rest.strip_prefix(&self.rest).is_some_and(below)
    }

    /// Returns the number of path components below the base.
    pub(crate) fn depth(&self) -> usize {
        if self.rest == "/" { 0 } else { self.rest.matches('/').count() }
    }

    /// Returns the entry as it is written in a profile, without the `!`.
    pub(crate) fn shown(&self) -> String {
        let base = match self.base {
            Base::Root => "",
            Base::Home => "$HOME",
            Base::Workspace => "$WORKSPACE",
        };
        format!("{base}{}", self.rest)
    }

    /// Parses a path of the profile language.
    ///
    /// # Errors
    /// A description of the fault in the path.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (missing, path) = match text.strip_prefix('!') {
            Some(path) => (MissingPath::Refuse, path),
            None => (MissingPath::Skip, text),
        };
        let (base, rest) = split(path)?;
        if rest.contains(['*', '?', '[']) {
            return Err(format!(
                "{text:?} is a glob; an entry names a file, or a directory with everything below \
                 it"
            ));
        }
        if !plain(&rest) {
            return Err(format!(
                "{text:?} does not resolve: it has a `.`, a `..`, a `//`, a `$`, a NUL or a \
                 trailing slash"
            ));
        }
        Ok(Self { base, rest, missing })
    }
}

/// Splits a path into its base and the rest.
fn split(text: &str) -> Result<(Base, String), String> {
    if text.starts_with('/') {
        return Ok((Base::Root, text.to_owned()));
    }
    let (variable, rest) = text.find('/').map_or((text, ""), |at| text.split_at(at));
    match variable {
        "$WORKSPACE" => Ok((Base::Workspace, rest.to_owned())),
        "$HOME" => Ok((Base::Home, rest.to_owned())),
        "$TMP" => Ok((Base::Root, format!("{TMP}{rest}"))),
        _ if variable.starts_with('$') => Err(match palisade_text::nearest(variable, VARIABLES) {
            Some(near) => format!("{text:?} does not resolve: did you mean {near}?"),
            None => {
                format!("{text:?} does not resolve: the variables are {}", VARIABLES.join(", "))
            }
        }),
        _ => Err(format!(
            "{text:?} does not resolve: it is not absolute and not below {}",
            VARIABLES.join(", ")
        )),
    }
}

impl TryFrom<String> for PathEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let entry = Self::parse(&text)?;
        if entry.base == Base::Home && entry.rest.is_empty() {
            return Err("$HOME itself holds keys and tokens: name directories below it".to_owned());
        }
        if entry.base == Base::Root {
            let path = Path::new(&entry.rest);
            never_shown(path)?;
            own(path)?;
        }
        Ok(entry)
    }
}

impl From<PathEntry> for String {
    fn from(entry: PathEntry) -> Self {
        let mark = match entry.missing {
            MissingPath::Skip => "",
            MissingPath::Refuse => "!",
        };
        format!("{mark}{}", entry.shown())
    }
}

/// Returns `true` if the part after the base consists of plain names only.
fn plain(path: &str) -> bool {
    let mut names = path.strip_prefix('/').unwrap_or(path).split('/');
    let bare = path.is_empty() || path == "/";
    bare || names.all(|name| !matches!(name, "" | "." | "..") && !name.contains(['\0', '$']))
}

/// A path that may be writable, and is therefore not a system directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PathEntry")]
pub(crate) struct WritableEntry(pub(crate) PathEntry);

impl TryFrom<PathEntry> for WritableEntry {
    type Error = String;
    fn try_from(entry: PathEntry) -> Result<Self, String> {
        if entry.base == Base::Root && ceiling::is_system(Path::new(&entry.rest)) {
            return Err(format!("{:?} belongs to the system and is never writable", entry.rest));
        }
        Ok(Self(entry))
    }
}

/// The name of a file or directory below `/etc`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct EtcEntry(pub(crate) PathEntry);

/// Paths that no profile may expose: secrets of the system and Palisade's own files.
const NEVER: [&str; 8] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/palisade",
    "/run/palisade",
    "/var/lib/palisade",
];

/// Refuses a path that every session replaces with a private one.
fn own(path: &Path) -> Result<(), String> {
    let private = PRIVATE.iter().chain(&["/run"]).any(|own| path == Path::new(own));
    let special = path.starts_with("/proc") || path.starts_with("/dev") && !path.starts_with(SHM);
    if private || special {
        return Err(format!("{path:?} has no effect: every session has a private one"));
    }
    Ok(())
}

/// Refuses a path that no profile may expose, and any path above or below one.
pub(crate) fn never_shown(path: &Path) -> Result<(), String> {
    // Both directions are checked: `/etc/ssl` would expose `/etc/ssl/private`.
    let clash = |never: &&str| path.starts_with(never) || Path::new(never).starts_with(path);
    match NEVER.iter().find(|never| clash(never)) {
        Some(never) => Err(format!("{path:?} would expose {never}, which no profile may do")),
        None => Ok(()),
    }
}

impl TryFrom<String> for EtcEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = !text.is_empty()
            && !text.contains(['\0', '$', '*', '?'])
            && Path::new(&text).components().all(|c| matches!(c, Component::Normal(_)));
        if !is_plain {
            return Err(format!("{text:?} is not a name below /etc"));
        }
        let path: PathBuf = Path::new("/etc").join(&text).components().collect();
        never_shown(&path)?;
        let rest = path.to_string_lossy().into_owned();
        Ok(Self(PathEntry { base: Base::Root, rest, missing: MissingPath::Skip }))
    }
}

/// The name of a confinement layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LayerEntry(pub(crate) Layer);

impl TryFrom<String> for LayerEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<Layer>().map(Self).map_err(|_| format!("there is no layer {text:?}"))
    }
}

impl Serialize for LayerEntry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

/// The name of an environment variable that does not make programs run other code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct VariableEntry(pub(crate) String);

impl TryFrom<String> for VariableEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        variable_name(&text).map_err(|e| e.to_string())?;
        refused(&text).map_err(|e| e.to_string())?;
        Ok(Self(text))
    }
}

/// The name of a systemd unit that a client can belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct UnitEntry(pub(crate) String);

impl TryFrom<String> for UnitEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let name = text.strip_suffix(".service").or_else(|| text.strip_suffix(".scope"));
        match name {
            Some(name) if !name.is_empty() && !name.contains(['/', '*', ' ']) => Ok(Self(text)),
            Some(_) | None => Err(format!("{text:?} is not a unit, such as \"agent.service\"")),
        }
    }
}

/// The name of a tool, or one of its aliases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ToolEntry(pub(crate) ToolName);

noun! {
    PathEntry: "path", "paths";
    WritableEntry: "path", "paths";
    EtcEntry: "name", "names";
    VariableEntry: "name", "names";
    UnitEntry: "unit", "units";
    ToolEntry: "tool", "tools";
}

impl Described for LayerEntry {
    const TAKES: AcceptedValues = AcceptedValues::Words(&[
        "mount", "pid", "network", "ipc", "uts", "cgroup", "landlock", "seccomp", "limits", "hide",
        "protect",
    ]);

    fn described() -> String {
        "layer".to_owned()
    }

    fn list_described() -> String {
        "list of layers".to_owned()
    }
}

impl Single for PathEntry {
    fn shown(&self) -> String {
        Self::shown(self)
    }
}

impl Single for LayerEntry {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}

impl Single for VariableEntry {
    fn shown(&self) -> String {
        self.0.clone()
    }
}

impl Single for ToolEntry {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}
