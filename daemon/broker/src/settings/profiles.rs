//! The profiles of the configured directories. Broker, before it serves and when it reloads.

use super::error::SettingsError;
use crate::ownership;
use palisade_policy::{Owner, ProfileSet, Source};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Profiles of the given directories, and of the usual one if it exists.
pub(super) fn load(given: &[PathBuf], usual: Option<&Path>) -> Result<ProfileSet, SettingsError> {
    let directories: Vec<&Path> = if given.is_empty() {
        usual.into_iter().filter(|directory| directory.is_dir()).collect()
    } else {
        given.iter().map(PathBuf::as_path).collect()
    };
    let mut files = Vec::new();
    for directory in directories {
        let directory_owner = ownership::check(directory)?;
        for path in files_in(directory)? {
            let owner = match (directory_owner, ownership::check(&path)?) {
                (Owner::Root, Owner::Root) => Owner::Root,
                (_, Owner::Root | Owner::Other | Owner::Builtin) => Owner::Other,
            };
            let text = fs::read_to_string(&path).map_err(unreadable(&path))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, path.display().to_string(), text, owner));
        }
    }
    let sources =
        files.iter().map(|(name, file, text, owner)| Source { name, file, text, owner: *owner });
    Ok(ProfileSet::new(sources)?)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> SettingsError + '_ {
    move |source| SettingsError::Read { path: path.to_owned(), source }
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, SettingsError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
        let path = entry.map_err(unreadable(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::UnsafePlace;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn profiles_are_found_by_their_file_names() {
        let directory = tempfile::tempdir().unwrap();
        let (_, text) = palisade_policy::builtin()[0];
        fs::write(directory.path().join("mine.toml"), text).unwrap();
        fs::write(directory.path().join("notes.txt"), "not a profile").unwrap();
        let profiles = load(&[directory.path().to_owned()], None).unwrap();
        assert!(profiles.get("mine").is_some());
        assert!(profiles.get("notes").is_none());
    }

    #[test]
    fn a_bad_profile_is_named_with_file_and_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bad.toml");
        fs::write(&path, "description = \"x\"\nnonsense = 1\n").unwrap();
        let error = load(&[directory.path().to_owned()], None).unwrap_err().to_string();
        let expected = format!("{}:2:1: nonsense: is no key; ", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn missing_and_open_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(matches!(
            load(std::slice::from_ref(&missing), None),
            Err(SettingsError::Place(UnsafePlace::Look { .. }))
        ));
        load(&[], Some(&missing)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            load(&[directory.path().to_owned()], None),
            Err(SettingsError::Place(UnsafePlace::Writable { .. }))
        ));
    }
}
