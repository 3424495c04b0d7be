//! Reads and writes the configuration files of agents: with a backup, whole or not at all.

use super::{agents::ConfigFile, text};
use crate::failure::Failure;
use rustix::process::geteuid;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// The maximum size of a configuration file, in bytes.
const MOST: u64 = 4 << 20;

/// A file as it is, and as it is to be.
#[derive(Debug)]
pub(super) struct PreparedFile {
    path: PathBuf,
    before: Option<FoundFile>,
    after: String,
}

/// A file that is there.
#[derive(Debug, PartialEq, Eq)]
struct FoundFile {
    text: String,
    mode: u32,
}

/// The outcome of writing a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    Unchanged,
    Created,
    Changed { backup: PathBuf },
}

/// Returns the settings that a file lacks.
pub(super) fn missing(file: &ConfigFile) -> Result<Vec<String>, Failure> {
    match find(&file.path)? {
        Some(found) => text::missing(file, &found.text),
        None => Ok(vec!["the file".to_owned()]),
    }
}

/// Reads a file and puts the settings into its text.
pub(super) fn prepare(file: &ConfigFile) -> Result<PreparedFile, Failure> {
    let before = find(&file.path)?;
    let after = match &before {
        Some(found) => text::with_settings(file, &found.text)?,
        None => text::fresh(file)?,
    };
    Ok(PreparedFile { path: file.path.clone(), before, after })
}

/// Reads a file; `None` if there is none.
fn find(path: &Path) -> Result<Option<FoundFile>, Failure> {
    let unread = |error: &io::Error| {
        let message = format!("can not read {}: {error}", path.display());
        Failure::new(message, "mend it, or move it away; no file was changed")
    };
    for part in path.parent().into_iter().chain([path]) {
        let is_link = fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink());
        if is_link {
            return Err(Failure::new(
                format!("{} is a symbolic link", part.display()),
                "add by hand what the command prints without --write; no file was changed",
            ));
        }
    }
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| unread(&error))?,
    };
    if !found.is_file() || found.len() > MOST || found.uid() != geteuid().as_raw() {
        return Err(Failure::new(
            format!(
                "{} is not a file of this user with at most {} MiB",
                path.display(),
                MOST >> 20
            ),
            "move it away, or run the command as the user it belongs to; no file was changed",
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| unread(&error))?;
    Ok(Some(FoundFile { text, mode: found.mode() & 0o777 }))
}

impl PreparedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file: a backup first, then a new file in the old one's place.
    pub(super) fn write(self) -> Result<Written, Failure> {
        let Self { path, before, after } = self;
        if before.as_ref().is_some_and(|found| found.text == after) {
            return Ok(Written::Unchanged);
        }
        let unwritten = |error: &io::Error| {
            let message = format!("can not write {}: {error}", path.display());
            Failure::new(message, "is there room, and may this user write there?")
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(|error| unwritten(&error))?;
        let backup = match &before {
            Some(found) => Some(back_up(&path, found).map_err(|error| unwritten(&error))?),
            None => None,
        };
        let mode = before.as_ref().map_or(0o600, |found| found.mode);
        let mut new = tempfile::Builder::new()
            .prefix(".palisade-")
            .tempfile_in(directory)
            .map_err(|error| unwritten(&error))?;
        let filled = new
            .write_all(after.as_bytes())
            .and_then(|()| {
                fs::set_permissions(new.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))
            })
            .and_then(|()| new.as_file().sync_all());
        filled.map_err(|error| unwritten(&error))?;
        // The agent may have written it meanwhile.
        if find(&path)? != before {
            return Err(Failure::new(
                format!("{} has changed meanwhile", path.display()),
                "end the agent, then run the command again",
            ));
        }
        let placed = match backup {
            Some(_) => new.persist(&path),
            None => new.persist_noclobber(&path),
        };
        placed.map_err(|error| unwritten(&error.error))?;
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| unwritten(&error))?;
        Ok(backup.map_or(Written::Created, |backup| Written::Changed { backup }))
    }
}

/// Copies a file to a name beside it that nothing has yet.
fn back_up(path: &Path, found: &FoundFile) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for number in 1..1000 {
        let suffix = if number == 1 { String::new() } else { format!(".{number}") };
        let backup = path.with_file_name(format!("{name}.before-palisade{suffix}"));
        match OpenOptions::new().write(true).create_new(true).mode(found.mode).open(&backup) {
            Ok(mut file) => {
                file.write_all(found.text.as_bytes())?;
                file.sync_all()?;
                return Ok(backup);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many backups"))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{agents::Format, settings::Setting},
        *,
    };

    fn file(path: PathBuf, value: bool) -> ConfigFile {
        ConfigFile { path, format: Format::Json(vec![Setting::exactly(&["a", "b"], value)]) }
    }

    #[test]
    fn a_file_is_created_then_changed_with_a_backup_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/a.json");
        let write = |value| prepare(&file(path.clone(), value)).unwrap().write().unwrap();
        assert_eq!(write(true), Written::Created);
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(write(true), Written::Unchanged);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let Written::Changed { backup } = write(false) else { panic!("not changed") };
        assert_eq!(fs::read_to_string(&backup).unwrap(), first);
        let Written::Changed { backup: second } = write(true) else { panic!("not changed") };
        assert_ne!(backup, second);
        assert_eq!(fs::read_to_string(&backup).unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path().join("below")).unwrap().count(), 3);
    }

    #[test]
    fn links_and_what_changes_meanwhile_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("t.json"), directory.path().join("l.json"));
        fs::write(&target, "{}").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(prepare(&file(link, true)).is_err());
        std::os::unix::fs::symlink(directory.path(), directory.path().join("d")).unwrap();
        assert!(prepare(&file(directory.path().join("d/t.json"), true)).is_err());
        let prepared = prepare(&file(target.clone(), true)).unwrap();
        fs::write(&target, "{\"c\": 1}").unwrap();
        assert!(prepared.write().is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "{\"c\": 1}");
        let new = directory.path().join("n.json");
        let prepared = prepare(&file(new.clone(), true)).unwrap();
        fs::write(&new, "mine").unwrap();
        assert!(prepared.write().is_err());
        assert_eq!(fs::read_to_string(&new).unwrap(), "mine");
    }
}
