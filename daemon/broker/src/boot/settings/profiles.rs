//! Loads the profiles of the configured directories. Runs in the broker, before it serves and when
//! it reloads.

use super::{StartedBy, error::SettingsError};
use crate::{
    base::reach::{self, OpenDirectories},
    boot::{config::Offered, ownership},
};
use palisade_policy::{InvalidProfile, Owner, ProfileSet, Source};
use std::{
    cell::OnceCell,
    fs, io,
    path::{Path, PathBuf},
};

/// The directories that profiles are read from, and the profiles to load.
#[derive(Debug)]
pub(crate) struct ProfilePlaces {
    /// The directories that are given; if there are none, the default one is used.
    pub(super) given: Vec<PathBuf>,
    pub(super) usual: Option<PathBuf>,
    /// The only profile to load, with those that it extends or is observed under; other files are
    /// not opened. `None`: all of them.
    pub(super) only: Option<String>,
    /// The longest time of calls: their own, or that of jobs.
    pub(super) calls: CallTime,
    pub(super) by: StartedBy,
    pub(super) offered: Vec<Offered>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallTime {
    /// As long as the profile says.
    OfProfile,
    /// As long as a job of the profile.
    OfJob,
}

/// A file in a directory of profiles.
#[derive(Debug)]
struct ProfileFile {
    name: String,
    path: PathBuf,
    /// The path, as errors show it.
    shown: String,
    directory_owner: Owner,
    text: OnceCell<String>,
}

impl ProfileFile {
    /// Checks who can write the file, and reads it.
    fn source(&self, by: StartedBy, reach: &OpenDirectories) -> Result<Source<'_>, SettingsError> {
        let owner = match (self.directory_owner, ownership::check(&self.path, reach)?, by) {
            (Owner::Root, Owner::Root, _) => Owner::Root,
            // The checks above ensure that only root and this user can write these files.
            (_, _, StartedBy::User) => Owner::Own,
            (_, _, StartedBy::Root) => Owner::Other,
        };
        let text = fs::read_to_string(reach.enter(&self.path)).map_err(unreadable(&self.path))?;
        let text = self.text.get_or_init(|| text);
        Ok(Source { name: &self.name, file: &self.shown, text, owner })
    }
}

/// The profiles that sessions can have, and those that are invalid.
#[derive(Debug)]
pub(crate) struct LoadedProfiles {
    pub(crate) set: ProfileSet,
    pub(crate) invalid: Vec<InvalidProfile>,
}

impl LoadedProfiles {
    /// Returns an error that names all errors if a profile is invalid.
    pub(crate) fn require_all(self) -> Result<Self, SettingsError> {
        if self.invalid.is_empty() {
            return Ok(self);
        }
        let errors = self.invalid.into_iter().map(|invalid| invalid.error.to_string());
        Err(SettingsError::Invalid(errors.collect::<Vec<_>>().join("\n")))
    }
}

impl ProfilePlaces {
    /// Loads the profiles. An invalid one is left out; one that another user could change, or that
    /// can not be read, is an error. Directories in `reach` are read through their descriptors
    /// where their paths are closed.
    pub(crate) fn load(&self, reach: &OpenDirectories) -> Result<LoadedProfiles, SettingsError> {
        let files = self.files(reach)?;
        if let Some(name) = &self.only {
            let set = self.offer(self.load_only(name, &files, reach)?)?;
            if set.get(name).is_some() {
                return Ok(LoadedProfiles { set, invalid: Vec::new() });
            }
            // There is no such profile. Whoever asks for it is told which there are.
        }
        let sources = files.iter().map(|file| file.source(self.by, reach));
        let (set, invalid) = ProfileSet::valid(sources.collect::<Result<Vec<_>, _>>()?)?;
        Ok(LoadedProfiles { set: self.offer(set)?, invalid })
    }

    /// Loads one profile and those that it needs; nothing if there is none of this name.
    fn load_only(
        &self,
        name: &str,
        files: &[ProfileFile],
        reach: &OpenDirectories,
    ) -> Result<ProfileSet, SettingsError> {
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        ProfileSet::only(name, &names, |name| {
            let file = files.iter().find(|file| file.name == name);
            file.map(|file| file.source(self.by, reach)).transpose()
        })
    }

    /// Removes the built-in profiles that are not offered, and sets how long calls may take.
    fn offer(&self, set: ProfileSet) -> Result<ProfileSet, SettingsError> {
        let kept_back = Offered::ALL.iter().filter(|(profile, _)| !self.offered.contains(profile));
        let set = kept_back.fold(set, |set, (_, name)| set.without(name));
        match self.calls {
            CallTime::OfProfile => Ok(set),
            CallTime::OfJob => Ok(set.with_long_calls()?),
        }
    }

    /// Returns the files of all directories, none of which is opened yet.
    fn files(&self, reach: &OpenDirectories) -> Result<Vec<ProfileFile>, SettingsError> {
        let directories: Vec<&PathBuf> = if self.given.is_empty() {
            self.usual.iter().filter(|directory| reach.enter(directory).is_dir()).collect()
        } else {
            self.given.iter().collect()
        };
        let mut files = Vec::new();
        for directory in directories {
            let directory_owner = ownership::check(directory, reach)?;
            for path in files_in(directory, reach)? {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let (shown, text) = (path.display().to_string(), OnceCell::new());
                files.push(ProfileFile { name, path, shown, directory_owner, text });
            }
        }
        Ok(files)
    }
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

    fn places(given: Vec<PathBuf>) -> ProfilePlaces {
        let (by, offered) = (StartedBy::Root, Vec::new());
        ProfilePlaces { given, usual: None, only: None, calls: CallTime::OfProfile, by, offered }
    }

    fn load(
        given: &Path,
        only: Option<&str>,
        offered: &[Offered],
    ) -> Result<ProfileSet, SettingsError> {
        let (only, offered) = (only.map(str::to_owned), offered.to_vec());
        let places = ProfilePlaces { only, offered, ..places(vec![given.to_owned()]) };
        Ok(places.load(&OpenDirectories::default())?.require_all()?.set)
    }

    #[test]
    fn profiles_are_found_by_their_file_names() {
        let directory = tempfile::tempdir().unwrap();
        let (_, text) = palisade_policy::builtin()[0];
        fs::write(directory.path().join("mine.toml"), text).unwrap();
        fs::write(directory.path().join("notes.txt"), "not a profile").unwrap();
        let profiles = load(directory.path(), None, &[]).unwrap();
        assert!(profiles.get("mine").is_some());
        assert!(profiles.get("notes").is_none());
    }

    #[test]
    fn a_bad_profile_is_named_with_file_and_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bad.toml");
        fs::write(&path, "description = \"x\"\nnonsense = 1\n").unwrap();
        let error = load(directory.path(), None, &[]).unwrap_err().to_string();
        let expected = format!("{}:2:1: nonsense: unknown key; ", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn an_invalid_profile_is_left_out_unless_all_are_required() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("good.toml", "version = 1\ndescription = \"x\"\nextends = \"readonly\"\n");
        write("one.toml", "nonsense = 1\n");
        write("two.toml", "version = 2\n");
        let places = places(vec![directory.path().to_owned()]);
        let loaded = places.load(&OpenDirectories::default()).unwrap();
        assert!(loaded.set.get("good").is_some() && loaded.set.get("one").is_none());
        let error = loaded.require_all().unwrap_err().to_string();
        let files: Vec<_> = error.lines().map(|line| line.split(':').next().unwrap()).collect();
        let at = |name: &str| directory.path().join(name).display().to_string();
        assert_eq!(files, [at("one.toml"), at("two.toml")], "{error}");
    }

    #[test]
    fn one_profile_is_loaded_without_a_look_into_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("base.toml", "version = 1\ndescription = \"x\"\nextends = \"readonly\"\n");
        write("mine.toml", "version = 1\ndescription = \"x\"\nextends = \"base\"\n");
        write("broken.toml", "nonsense = 1\n");
        let open = directory.path().join("open.toml");
        write("open.toml", "nonsense = 1\n");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        let load = |only: Option<&str>| load(directory.path(), only, &[]);
        let set = load(Some("mine")).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["base", "mine", "readonly", "workspace"]);
        let set = load(Some("workspace")).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["workspace"]);
        let told = |only: Option<&str>| load(only).unwrap_err().to_string();
        assert!(told(Some("broken")).contains("broken.toml:1:1: nonsense"));
        // Whoever names a profile that does not exist, or is not offered, gets all or their errors.
        for only in [Some("open"), Some("missing"), Some("autonomous"), None] {
            assert!(told(only).contains("open.toml"), "{only:?}");
        }
        fs::remove_file(&open).unwrap();
        fs::remove_file(directory.path().join("broken.toml")).unwrap();
        let all = load(None).unwrap();
        assert_eq!(load(Some("missing")).unwrap(), all);
        // All built-in ones but those that are not offered, and two more.
        let offered = palisade_policy::builtin().len() - Offered::ALL.len();
        assert_eq!(all.names().count(), offered + 2);
    }

    #[test]
    fn missing_and_open_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let absent = load(&missing, None, &[]);
        assert!(matches!(absent, Err(SettingsError::Place(UnsafePlace::Look { .. }))));
        let usual = ProfilePlaces { usual: Some(missing), ..places(Vec::new()) };
        usual.load(&OpenDirectories::default()).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let writable = load(directory.path(), None, &[]);
        assert!(matches!(writable, Err(SettingsError::Place(UnsafePlace::Writable { .. }))));
    }
}
