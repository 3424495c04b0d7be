//! The entries of a profile's lists, each checked as it is read so that an error has its line.

use crate::environment::{refused, variable_name};
use palisade_plan::{Layer, MissingPath, ceiling};
use palisade_protocol::ToolName;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// A variable that may begin a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Root,
    Home,
    Workspace,
}

/// A path: absolute, or below `$HOME` or `$WORKSPACE`. One that is not there is left out; with
/// `!` in front it must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PathEntry(String);

impl PathEntry {
    pub(crate) fn missing(&self) -> MissingPath {
        if self.0.starts_with('!') { MissingPath::Refuse } else { MissingPath::Skip }
    }

    /// The variable, and the path below it.
    pub(crate) fn split(&self) -> (Base, &str) {
        split(self.0.strip_prefix('!').unwrap_or(&self.0))
    }
}

fn split(text: &str) -> (Base, &str) {
    for (variable, base) in [("$HOME", Base::Home), ("$WORKSPACE", Base::Workspace)] {
        if let Some(rest) = text.strip_prefix(variable) {
            return (base, rest);
        }
    }
    (Base::Root, text)
}

impl TryFrom<String> for PathEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let (base, path) = split(text.strip_prefix('!').unwrap_or(&text));
        let shaped = match base {
            Base::Root => path.starts_with('/'),
            Base::Home | Base::Workspace => path.is_empty() || path.starts_with('/'),
        };
        if !shaped {
            return Err(format!("{text:?} is not absolute and not below $HOME or $WORKSPACE"));
        }
        if !plain(path) {
            return Err(format!("{text:?} has a `.`, a `..`, a `//`, a `$` or a NUL in it"));
        }
        if base == Base::Home && path.is_empty() {
            return Err("$HOME itself holds keys and tokens: name directories below it".to_owned());
        }
        Ok(Self(text))
    }
}

/// Whether what follows the base is made of plain names only.
fn plain(path: &str) -> bool {
    let mut names = path.strip_prefix('/').unwrap_or(path).split('/');
    let bare = path.is_empty() || path == "/";
    bare || names.all(|name| !matches!(name, "" | "." | "..") && !name.contains(['\0', '$']))
}

/// A path that is writable, hence not one of the system's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PathEntry", into = "PathEntry")]
pub(crate) struct WritableEntry(pub(crate) PathEntry);

impl TryFrom<PathEntry> for WritableEntry {
    type Error = String;
    fn try_from(entry: PathEntry) -> Result<Self, String> {
        let (base, path) = entry.split();
        if base == Base::Root && ceiling::is_system(Path::new(path)) {
            return Err(format!("{path:?} belongs to the system and is never writable"));
        }
        Ok(Self(entry))
    }
}

impl From<WritableEntry> for PathEntry {
    fn from(entry: WritableEntry) -> Self {
        entry.0
    }
}

/// The name of a file or directory below `/etc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct EtcEntry(String);

/// What of `/etc` no profile shows: secrets of the system's and Palisade's own configuration.
const ETC_NEVER: [&str; 6] =
    ["shadow", "gshadow", "sudoers", "sudoers.d", "palisade", "ssl/private"];

impl EtcEntry {
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/etc").join(&self.0)
    }
}

impl TryFrom<String> for EtcEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let plain = !text.is_empty()
            && !text.contains('\0')
            && Path::new(&text).components().all(|c| matches!(c, Component::Normal(_)));
        if !plain {
            return Err(format!("{text:?} is not the name of something below /etc"));
        }
        // Both ways: `ssl` would show `ssl/private`, `palisade/x` is part of `palisade`.
        let path = Path::new(&text);
        let clash = |never: &&str| path.starts_with(never) || Path::new(never).starts_with(path);
        if let Some(never) = ETC_NEVER.iter().find(|never| clash(never)) {
            return Err(format!("{text:?} would show /etc/{never}, which no profile may"));
        }
        Ok(Self(text))
    }
}

/// A layer, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LayerEntry(String);

impl LayerEntry {
    pub(crate) fn layer(&self) -> Option<Layer> {
        self.0.parse().ok()
    }
}

impl TryFrom<String> for LayerEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<Layer>().map(|layer| Self(layer.name().to_owned()))
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

/// The name of a tool, or one of its aliases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ToolEntry(pub(crate) ToolName);
