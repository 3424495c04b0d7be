//! Chooses the profile entry that a person would write for a path that was used.

use super::need::{Access, Need};
use crate::Scene;
use palisade_plan::record::{Right, TargetKind};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Directories with unrelated contents. A whole one is never allowed because one of its files was
/// used.
const BROAD: [&str; 26] = [
    "/",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/src",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/usr/local/share",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/nix/store",
    "/etc",
];

/// The number of files in one broad directory that are listed one by one.
const MOST_NAMED: usize = 64;

/// The profile entry that an access results in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProfileEntry {
    /// A name in `fs.etc`.
    Etc(String),
    /// A file, or a directory with everything below it.
    Path(PathBuf),
    /// A directory that was only listed or looked up.
    LookedUp,
    /// A directory that exists as the parent of others, and needs no entry.
    Between,
}

/// Returns the entry for a path that was used, below an entry of the wider profile.
pub(super) fn target(scene: &Scene, entry: &Path, path: &Path, access: &Access) -> ProfileEntry {
    if let Ok(name) = entry.strip_prefix("/etc") {
        return ProfileEntry::Etc(name.to_string_lossy().into_owned());
    }
    let broad = |path: &Path| BROAD.iter().any(|broad| path == Path::new(broad));
    // A person chose this entry as a unit, whatever versions of files come and go in it.
    if scene.private_home().is_some_and(|home| entry.starts_with(home)) || !is_system(entry) {
        return ProfileEntry::Path(entry.to_owned());
    }
    if access.kind == TargetKind::Link {
        return ProfileEntry::Path(path.to_owned());
    }
    if access.kind == TargetKind::Directory && broad(path) {
        return ProfileEntry::Between;
    }
    let mut at = path;
    while let Some(parent) = at.parent() {
        if broad(parent) {
            break;
        }
        at = parent;
    }
    match (access.right, access.kind) {
        (Right::Look, TargetKind::Directory) => ProfileEntry::LookedUp,
        _ => ProfileEntry::Path(at.to_owned()),
    }
}

/// Returns `true` if an entry is a system directory, or contains one.
fn is_system(entry: &Path) -> bool {
    BROAD.iter().any(|broad| entry == Path::new(broad))
        || ["/usr", "/opt", "/nix"].iter().any(|system| entry.starts_with(system))
}

/// Replaces the entries in a broad directory by the whole directory, if they are too many.
pub(super) fn merge_crowded(paths: &mut BTreeMap<PathBuf, Need>) {
    for broad in BROAD.iter().skip(2).map(Path::new) {
        let inside: Vec<PathBuf> =
            paths.keys().filter(|path| path.parent() == Some(broad)).cloned().collect();
        if inside.len() <= MOST_NAMED {
            continue;
        }
        let mut whole = Need::default();
        for path in inside {
            if let Some(need) = paths.remove(&path) {
                whole.reach = whole.reach.max(need.reach);
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                whole.used.push(name);
            }
        }
        paths.insert(broad.to_owned(), whole);
    }
}

/// Returns `true` if a name changes with the next release: `python3.11`, `libfoo-1.2.so`.
pub(super) fn is_versioned(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let dotted = |three: &[u8]| match three {
        [a, b'.', b] => a.is_ascii_digit() && b.is_ascii_digit(),
        _ => false,
    };
    name.as_bytes().windows(3).any(dotted) || name.split('-').skip(1).any(digits)
}

/// Returns a path as a profile writes it.
pub(super) fn named(scene: &Scene, path: &Path) -> String {
    let bases = [("$WORKSPACE", Some(scene.workspace.as_path())), ("$HOME", scene.private_home())];
    for (variable, base) in bases {
        if let Some(rest) = base.and_then(|base| path.strip_prefix(base).ok()) {
            let slash = if rest.as_os_str().is_empty() { "" } else { "/" };
            return format!("{variable}{slash}{}", rest.display());
        }
    }
    path.display().to_string()
}
