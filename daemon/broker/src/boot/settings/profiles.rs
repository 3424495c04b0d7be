//! Loads the profiles of the configured directories. Runs in the broker, before it serves and when
//! it reloads.

use super::{StartedBy, error::SettingsError};
use crate::{
    base::reach::{self, OpenDirectories},
    boot::{config::Offered, ownership},
};
use palisade_policy::{Owner, ProfileSet, Source};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Loads the profiles of the given directories; if none are given, of the default one if it exists.
pub(super) fn load(
    given: &[PathBuf],
    usual: Option<&Path>,
    (by, offered): (StartedBy, &[Offered]),
    reach: &OpenDirectories,
) -> Result<ProfileSet, SettingsError> {
    let directories: Vec<&Path> = if given.is_empty() {
        usual.into_iter().filter(|directory| reach.enter(directory).is_dir()).collect()
    } else {
        given.iter().map(PathBuf::as_path).collect()
    };
    let mut files = Vec::new();
    for directory in directories {
        let directory_owner = ownership::check(directory, reach)?;
        for path in files_in(directory, reach)? {
            let owner = match (directory_owner, ownership::check(&path, reach)?, by) {
                (Owner::Root, Owner::Root, _) => Owner::Root,
                // The checks above ensure that only root and this user can write these files.
                (_, _, StartedBy::User) => Owner::Own,
                (_, _, StartedBy::Root) => Owner::Other,
            };
            let text = fs::read_to_string(reach.enter(&path)).map_err(unreadable(&path))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, path.display().to_string(), text, owner));
        }
    }
    let sources =
        files.iter().map(|(name, file, text, owner)| Source { name, file, text, owner: *owner });
    let mut set = ProfileSet::new(sources)?;
    for (profile, name) in Offered::ALL {
        if !offered.contains(&profile) {
            set = set.without(name);
        }
    }
    Ok(set)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> SettingsError + '_ {
    move |error| SettingsError::Read { path: path.to_owned(), source: reach::explain(path, error) }
}

fn files_in(directory: &Path, reach: &OpenDirectories) -> Result<Vec<PathBuf>, SettingsError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(reach.enter(directory)).map_err(unreadable(directory))? {
        let path = directory.join(entry.map_err(unreadable(directory))?.file_name());
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
    use crate::boot::ownership::UnsafePlace;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn profiles_are_found_by_their_file_names() {
        let directory = tempfile::tempdir().unwrap();
        let (_, text) = palisade_policy::builtin()[0];
        fs::write(directory.path().join("mine.toml"), text).unwrap();
        fs::write(directory.path().join("notes.txt"), "not a profile").unwrap();
        let profiles = load(
            &[directory.path().to_owned()],
            None,
            (StartedBy::Root, &[]),
            &OpenDirectories::default(),
        )
        .unwrap();
        assert!(profiles.get("mine").is_some());
        assert!(profiles.get("notes").is_none());
    }

    #[test]
    fn a_bad_profile_is_named_with_file_and_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bad.toml");
        fs::write(&path, "description = \"x\"\nnonsense = 1\n").unwrap();
        let error = load(
            &[directory.path().to_owned()],
            None,
            (StartedBy::Root, &[]),
            &OpenDirectories::default(),
        )
        .unwrap_err()
        .to_string();
        let expected = format!("{}:2:1: nonsense: unknown key; ", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn missing_and_open_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(matches!(
            load(
                std::slice::from_ref(&missing),
                None,
                (StartedBy::Root, &[]),
                &OpenDirectories::default()
            ),
            Err(SettingsError::Place(UnsafePlace::Look { .. }))
        ));
        load(&[], Some(&missing), (StartedBy::Root, &[]), &OpenDirectories::default()).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            load(
                &[directory.path().to_owned()],
                None,
                (StartedBy::Root, &[]),
                &OpenDirectories::default()
            ),
            Err(SettingsError::Place(UnsafePlace::Writable { .. }))
        ));
    }
}
