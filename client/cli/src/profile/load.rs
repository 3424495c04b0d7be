//! Loads the profiles of this host in the way the daemon does.

use super::Directories;
use crate::failure::Failure;
use palisade_policy::{Owner, Profile, ProfileError, ProfileSet, Source};
use std::{
    collections::BTreeSet,
    env, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The file of a profile, as it was read.
#[derive(Debug, Clone)]
pub(crate) struct File {
    name: String,
    pub(crate) path: PathBuf,
    shown: String,
    text: String,
    owner: Owner,
}

impl File {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let owner = match [path, directory].map(owner) {
            [Owner::Root, Owner::Root] => Owner::Root,
            [Owner::Root | Owner::Own, Owner::Root | Owner::Own] => Owner::Own,
            [..] => Owner::Other,
        };
        let shown = path.display().to_string();
        Ok(Self { name, path: path.to_owned(), shown, text, owner })
    }

    /// Creates a file that is not written yet, as if root owned it.
    pub(crate) fn draft(name: &str, path: &Path, text: &str) -> Self {
        let shown = path.display().to_string();
        let (name, text) = (name.to_owned(), text.to_owned());
        Self { name, path: path.to_owned(), shown, text, owner: Owner::Root }
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    fn source(&self) -> Source<'_> {
        Source { name: &self.name, file: &self.shown, text: &self.text, owner: self.owner }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let told = format!("can not read {}: {error}", path.display());
    let is = |kind| error.kind() == kind;
    let hint = if is(io::ErrorKind::IsADirectory) {
        "name a file in it; or give the directory with --profiles, and a profile by its name"
    } else if is(io::ErrorKind::PermissionDenied) {
        "this user may not read it; try as its owner or as root"
    } else if is(io::ErrorKind::InvalidData) {
        "a profile is a UTF-8 text file; see docs/profiles.md"
    } else {
        "name an existing profile file, or a directory of profiles"
    };
    Failure::new(told, hint)
}

/// Returns the only user who can write a file or directory.
fn owner(path: &Path) -> Owner {
    let Ok(found) = fs::metadata(path) else { return Owner::Other };
    let is_closed = found.mode() & 0o002 == 0 && (found.mode() & 0o020 == 0 || found.gid() == 0);
    match found.uid() {
        _ if !is_closed => Owner::Other,
        0 => Owner::Root,
        // A user's own daemon lets the user's own files widen a profile; root's daemon requires
        // files of root.
        uid if uid == rustix::process::geteuid().as_raw() => Owner::Own,
        _ => Owner::Other,
    }
}

/// Returns the directories that were given, or the default one if it exists.
pub(crate) fn directories(given: &Directories) -> Vec<PathBuf> {
    if !given.profiles.is_empty() {
        return given.profiles.clone();
    }
    let config = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from("/etc"))
    } else {
        let variable = |name| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))
    };
    let usual = config.map(|config| config.join("palisade/profiles"));
    usual.into_iter().filter(|directory| directory.is_dir()).collect()
}

/// Reads the profiles in these directories.
pub(crate) fn files(directories: &[PathBuf]) -> Result<Vec<File>, Failure> {
    let mut paths = Vec::new();
    for directory in directories {
        let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| unreadable(directory, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| File::read(path)).collect()
}

/// Loads the profiles of these files, and the built-in ones.
pub(crate) fn set(files: &[File]) -> Result<ProfileSet, ProfileError> {
    ProfileSet::new(files.iter().map(File::source))
}

/// Loads one profile and those that it needs; `None` if there is none of this name. Files of other
/// profiles may be invalid.
pub(crate) fn only(name: &str, files: &[File]) -> Result<Option<Profile>, ProfileError> {
    let given: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let set = ProfileSet::only(name, &given, |name| {
        let file = files.iter().find(|file| file.is_named(name));
        Ok::<_, ProfileError>(file.map(File::source))
    })?;
    Ok(set.get(name).cloned())
}

/// Returns the names of the built-in profiles and of those in files, sorted.
pub(crate) fn names(files: &[File]) -> BTreeSet<&str> {
    let built_in = palisade_policy::builtin().into_iter().map(|(name, _)| name);
    built_in.chain(files.iter().map(|file| file.name.as_str())).collect()
}

/// Merges two lists of files, without duplicates.
pub(crate) fn with(mut files: Vec<File>, more: Vec<File>) -> Vec<File> {
    let real = |file: &File| file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
    for file in more {
        if !files.iter().any(|other| real(other) == real(&file)) {
            files.push(file);
        }
    }
    files
}

/// The origin of a profile's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOrigin {
    /// A built-in profile.
    Builtin,
    /// One of the given files.
    File,
}

/// Returns the text of a profile, and its origin.
pub(crate) fn text_of<'a>(profile: &Profile, files: &'a [File]) -> Option<(&'a str, TextOrigin)> {
    let own = files.iter().find(|file| file.is_named(profile.name()));
    let own = own.map(|file| (file.text.as_str(), TextOrigin::File));
    own.or_else(|| {
        let built_in = palisade_policy::builtin();
        let found = built_in.into_iter().find(|(name, _)| *name == profile.name());
        found.map(|(_, text)| (text, TextOrigin::Builtin))
    })
}

/// Returns `true` if a PROFILE argument is a file.
pub(crate) fn is_file(profile: &str) -> bool {
    profile.contains('/') || Path::new(profile).extension().is_some_and(|e| e == "toml")
}

/// Loads the requested profiles, by name or by file.
pub(crate) fn find<'a>(
    directories_: &Directories,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Profile>, Failure> {
    let wanted: Vec<&str> = wanted.into_iter().collect();
    let given = wanted.iter().filter(|profile| is_file(profile));
    let given = given.map(|path| File::read(Path::new(path))).collect::<Result<_, _>>()?;
    let files = with(files(&directories(directories_))?, given);
    wanted
        .into_iter()
        .map(|profile| {
            let stem = Path::new(profile).file_stem().unwrap_or_default().to_string_lossy();
            let name = if is_file(profile) { stem.as_ref() } else { profile };
            only(name, &files).map_err(|error| bad(&error))?.ok_or_else(|| {
                let names = names(&files);
                let known = names.iter().copied().collect::<Vec<_>>().join(", ");
                let hint = match palisade_text::nearest(name, names) {
                    Some(near) => format!("did you mean {near:?}? The profiles are {known}"),
                    None => format!("the profiles are {known}; name a file with its .toml"),
                };
                Failure::absent(format!("there is no profile {name:?}"), hint)
            })
        })
        .collect()
}

/// Creates the failure for a profile that is not valid.
pub(crate) fn bad(error: &ProfileError) -> Failure {
    Failure::absent(error.to_string(), "docs/profiles.md describes every key with an example")
}
