//! The file that records the accepted tools of a server.

use super::{
    label::RecordedLabel,
    tool_list::{MAX_SIZE, ToolList, ToolListError},
};
use serde_json::{Value, json};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// The maximum size of the file: the list of tools, indented.
const MAX_FILE: u64 = 8 * MAX_SIZE as u64;

/// The version of the file's format.
const VERSION: u64 = 2;

/// The version of files that do not have the name which the server gives itself.
const UNLABELLED: u64 = 1;

/// The reason the file can not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("can not read the accepted tools from {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("can not record the accepted tools in {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{} does not record the tools of a server ({why}); look at what changed it, then delete it or \
         name another file with --pin",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
}

/// The file.
#[derive(Debug)]
pub(crate) struct PinFile {
    path: PathBuf,
}

/// The outcome of comparing a server's tools with the accepted ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    /// Nothing was accepted before, or all except for the server's name; all of it is now.
    First,
    /// The changes.
    Changed(Vec<String>),
}

impl PinFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares a list with the accepted one. The first list is accepted.
    pub(super) fn compare(&self, list: &ToolList) -> Result<Comparison, PinError> {
        if let Some(accepted) = self.read()? {
            if accepted.has_label() || list.clone().with_label(None).digest() != accepted.digest() {
                return Ok(comparison(list, &accepted));
            }
            // An earlier version of this program did not record the name.
            self.accept(list)?;
            return Ok(Comparison::First);
        }
        if self.write(list, |from, to| fs::hard_link(from, to))? == Written::Yes {
            return Ok(Comparison::First);
        }
        // Another process was first.
        let accepted = self.read()?;
        Ok(accepted.map_or(Comparison::First, |accepted| comparison(list, &accepted)))
    }

    /// Accepts a list in place of the one that was accepted before.
    pub(super) fn accept(&self, list: &ToolList) -> Result<(), PinError> {
        self.write(list, |from, to| fs::rename(from, to)).map(drop)
    }

    /// Returns the accepted list; `None` if there is none.
    pub(super) fn read(&self) -> Result<Option<ToolList>, PinError> {
        let failed = |source| PinError::Read { path: self.path.clone(), source };
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let damaged = |why: String| PinError::Damaged { path: self.path.clone(), why };
        if text.len() as u64 > MAX_FILE {
            return Err(damaged(format!("it has more than {MAX_FILE} bytes")));
        }
        let mut value: Value =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let label = match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {
                let label = value.get("server").and_then(RecordedLabel::from_value);
                Some(label.ok_or_else(|| damaged("it has no name of the server".to_owned()))?)
            }
            Some(UNLABELLED) => None,
            Some(_) | None => {
                return Err(damaged(format!("its version is neither {UNLABELLED} nor {VERSION}")));
            }
        };
        let tools = match value.get_mut("tools").map(Value::take) {
            Some(Value::Array(tools)) => tools,
            Some(_) | None => return Err(damaged("it has no list of tools".to_owned())),
        };
        let instructions = value.get("instructions").and_then(Value::as_str).unwrap_or_default();
        let list = ToolList::new(tools, instructions)
            .map_err(|error: ToolListError| damaged(error.to_string()))?
            .with_label(label);
        if value.get("digest") != Some(&json!(list.digest())) {
            return Err(damaged("its digest is not that of its tools".to_owned()));
        }
        Ok(Some(list))
    }

    /// Writes the whole file beside its place, and then `put`s it there.
    fn write(
        &self,
        list: &ToolList,
        put: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<Written, PinError> {
        let failed = |source| PinError::Write { path: self.path.clone(), source };
        let mut value = list.to_value();
        if let Value::Object(map) = &mut value {
            map.insert("version".to_owned(), json!(VERSION));
            map.insert("digest".to_owned(), json!(list.digest()));
        }
        if let Some(parent) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        }
        let beside = self.path.with_extension(format!("{}.new", Uuid::new_v4()));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&beside);
        let written = opened.and_then(|mut file| {
            file.write_all(format!("{value:#}\n").as_bytes())?;
            file.sync_all()
        });
        let put = match written {
            Ok(()) => put(&beside, &self.path),
            Err(error) => return Err(failed(error)),
        };
        // After a rename it is gone already.
        fs::remove_file(&beside).unwrap_or_default();
        match put {
            Ok(()) => Ok(Written::Yes),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Written::AlreadyThere),
            Err(error) => Err(failed(error)),
        }
    }
}

/// The outcome of recording a list.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Yes,
    AlreadyThere,
}

fn comparison(list: &ToolList, accepted: &ToolList) -> Comparison {
    if list.digest() == accepted.digest() {
        Comparison::Same
    } else {
        Comparison::Changed(list.changes_since(accepted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn list(names: &[&str]) -> ToolList {
        labelled("server", names)
    }

    fn labelled(label: &str, names: &[&str]) -> ToolList {
        let tool = |name: &&str| json!({"name": name, "inputSchema": {}});
        let label = RecordedLabel { name: label.to_owned(), version: None };
        ToolList::new(names.iter().map(tool).collect(), "").unwrap().with_label(Some(label))
    }

    #[test]
    fn the_first_list_is_accepted_and_another_only_when_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let pin = PinFile::new(directory.path().join("a/b/tools.json"));
        assert_eq!(pin.compare(&list(&["x"])).unwrap(), Comparison::First);
        assert_eq!(pin.compare(&list(&["x"])).unwrap(), Comparison::Same);
        let changed = Comparison::Changed(vec!["added tool y".to_owned()]);
        assert_eq!(pin.compare(&list(&["x", "y"])).unwrap(), changed);
        assert_eq!(pin.compare(&list(&["x"])).unwrap(), Comparison::Same);
        pin.accept(&list(&["x", "y"])).unwrap();
        assert_eq!(pin.compare(&list(&["x", "y"])).unwrap(), Comparison::Same);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(pin.path()), 0o600);
        assert_eq!(mode(&directory.path().join("a")), 0o700);
        let names = fs::read_dir(directory.path().join("a/b")).unwrap().count();
        assert_eq!(names, 1, "nothing is left beside it");
    }

    #[test]
    fn another_name_of_the_server_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let pin = PinFile::new(directory.path().join("tools.json"));
        assert_eq!(pin.compare(&labelled("one", &["x"])).unwrap(), Comparison::First);
        let changed = Comparison::Changed(vec!["changed the server's name".to_owned()]);
        assert_eq!(pin.compare(&labelled("two", &["x"])).unwrap(), changed);
        assert_eq!(pin.compare(&labelled("one", &["x"])).unwrap(), Comparison::Same);
    }

    /// The name is added to a file of an earlier version of this program, and only to one whose tools
    /// are the same.
    #[test]
    fn a_file_without_the_servers_name_gets_it_once() {
        let directory = tempfile::tempdir().unwrap();
        let pin = PinFile::new(directory.path().join("tools.json"));
        let earlier = list(&["x"]).with_label(None);
        let mut file = earlier.to_value();
        (file["version"], file["digest"]) = (json!(UNLABELLED), json!(earlier.digest()));
        fs::write(pin.path(), file.to_string()).unwrap();
        let changed = Comparison::Changed(vec!["added tool y".to_owned()]);
        assert_eq!(pin.compare(&labelled("one", &["x", "y"])).unwrap(), changed);
        assert_eq!(pin.compare(&labelled("two", &["x"])).unwrap(), Comparison::First);
        assert_eq!(pin.compare(&labelled("two", &["x"])).unwrap(), Comparison::Same);
        let changed = Comparison::Changed(vec!["changed the server's name".to_owned()]);
        assert_eq!(pin.compare(&labelled("one", &["x"])).unwrap(), changed);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_a_first_use() {
        let directory = tempfile::tempdir().unwrap();
        let pin = PinFile::new(directory.path().join("tools.json"));
        pin.compare(&list(&["x"])).unwrap();
        let good = fs::read_to_string(pin.path()).unwrap();
        for bad in [
            String::new(),
            "{}".to_owned(),
            good.replace("\"x\"", "\"z\""),
            good.replace("\"server\"", "\"other\""),
            good.replace("version\": 2", "version\": 1"),
        ] {
            fs::write(pin.path(), bad).unwrap();
            let error = pin.compare(&list(&["x"])).unwrap_err();
            assert!(matches!(error, PinError::Damaged { .. }), "{error}");
        }
    }
}
