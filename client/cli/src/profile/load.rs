//! Profiles of this host, read as the daemon reads them.

use super::Directories;
use crate::failure::Failure;
use palisade_policy::{Owner, Profile, ProfileError, ProfileSet, Source, nearest};
use std::{
    env, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A profile's file as it was read.
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
        let owner = if is_roots(path) && is_roots(directory) { Owner::Root } else { Owner::Other };
        let shown = path.display().to_string();
        Ok(Self { name, path: path.to_owned(), shown, text, owner })
    }

    /// One that is not written yet, as it would be in a file of root's.
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
        "this user may not; try as its owner or as root"
    } else if is(io::ErrorKind::InvalidData) {
        "a profile is text; docs/profiles.md has examples"
    } else {
        "name a profile's file, or a directory of them, that exists"
    };
    Failure::new(told, hint)
}

/// Whether root alone can write it.
fn is_roots(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let group = found.mode() & 0o020 == 0 || found.gid() == 0;
        found.uid() == 0 && found.mode() & 0o002 == 0 && group
    })
}

/// The directories that were named, or the usual one if it is there.
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

/// The files of these directories.
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

/// All profiles of these files, and the built-in ones.
pub(crate) fn set(files: &[File]) -> Result<ProfileSet, ProfileError> {
    ProfileSet::new(files.iter().map(File::source))
}

/// Files without those that are the same as another.
pub(crate) fn with(mut files: Vec<File>, more: Vec<File>) -> Vec<File> {
    let real = |file: &File| file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
    for file in more {
        if !files.iter().any(|other| real(other) == real(&file)) {
            files.push(file);
        }
    }
    files
}

/// Where a profile's text is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// It came with the program.
    Builtin,
    /// One of these files.
    File,
}

/// The text of a profile.
pub(crate) fn text_of<'a>(profile: &Profile, files: &'a [File]) -> Option<(&'a str, From)> {
    let own = files.iter().find(|file| file.is_named(profile.name()));
    let own = own.map(|file| (file.text.as_str(), From::File));
    own.or_else(|| {
        let built_in = palisade_policy::builtin();
        let found = built_in.into_iter().find(|(name, _)| *name == profile.name());
        found.map(|(_, text)| (text, From::Builtin))
    })
}

/// Whether a PROFILE is a file.
pub(crate) fn is_file(profile: &str) -> bool {
    profile.contains('/') || Path::new(profile).extension().is_some_and(|e| e == "toml")
}

/// The profiles that are asked for, by name or by file, and the set that they are in.
pub(crate) fn find<'a>(
    directories_: &Directories,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Profile>, Failure> {
    let wanted: Vec<&str> = wanted.into_iter().collect();
    let given = wanted.iter().filter(|profile| is_file(profile));
    let given = given.map(|path| File::read(Path::new(path))).collect::<Result<_, _>>()?;
    let files = with(files(&directories(directories_))?, given);
    let set = set(&files).map_err(|error| bad(&error))?;
    wanted
        .into_iter()
        .map(|profile| {
            let stem = Path::new(profile).file_stem().unwrap_or_default().to_string_lossy();
            let name = if is_file(profile) { stem.as_ref() } else { profile };
            set.get(name).cloned().ok_or_else(|| {
                let known = set.names().collect::<Vec<_>>().join(", ");
                let hint = match nearest(name, set.names()) {
                    Some(near) => format!("did you mean {near:?}? There are {known}"),
                    None => format!("there are {known}; a file is named with its .toml"),
                };
                Failure::absent(format!("there is no profile {name:?}"), hint)
            })
        })
        .collect()
}

/// A profile that is not one.
pub(crate) fn bad(error: &ProfileError) -> Failure {
    Failure::absent(error.to_string(), "docs/profiles.md has every key with an example")
}
