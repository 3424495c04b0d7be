//! Attempts on names in the workspace. They change only files that the proof itself created.

use crate::answer::{Answer, answer};
use rustix::fs::{Mode, OFlags};
use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

/// Makes an attempt on a name; `None` if the act is not one of these.
pub(crate) fn names(act: &str, about: &Path) -> Option<Answer> {
    Some(match act {
        "stat" => answer(fs::symlink_metadata(about)),
        "listed" => listed(about),
        "read-by-descriptor" => answer(by_descriptor(above(about), |directory| {
            fs::File::open(directory.join(about.file_name().unwrap_or_default())).map(drop)
        })),
        "link" => {
            let other = beside(about, "link");
            let linked = fs::hard_link(about, &other);
            // The attempt only tests whether the link can be created.
            if linked.is_ok() {
                drop(fs::remove_file(&other));
            }
            answer(linked)
        }
        "write" => answer(write(about)),
        "write-by-descriptor" => answer(by_descriptor(about, write)),
        "replace" => {
            let new = beside(about, "new");
            answer(fs::write(&new, "other\n").and_then(|()| fs::rename(&new, about)))
        }
        "rename" => answer(fs::rename(about, beside(about, "away"))),
        "rename-above" => answer(move_above(about)),
        "remove" => answer(fs::remove_file(about)),
        _ => return None,
    })
}

fn above(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".palisade-{what}"));
    name.into()
}

fn write(path: &Path) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(b"palisade\n")
}

/// Renames the directory of a file that is alone in it. If that is not possible across mounts, it
/// copies and deletes, as `mv` does.
fn move_above(path: &Path) -> io::Result<()> {
    let (from, to) = (above(path), beside(above(path), "away"));
    match fs::rename(from, &to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::create_dir(&to)?;
            fs::copy(path, to.join(path.file_name().unwrap_or_default()))?;
            fs::remove_file(path).and_then(|()| fs::remove_dir(from))
        }
        done => done,
    }
}

fn listed(path: &Path) -> Answer {
    match fs::read_dir(above(path)) {
        Ok(entries) => {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            let found = names.any(|name| Some(name.as_os_str()) == path.file_name());
            if found { Answer::Done } else { Answer::Another }
        }
        Err(error) => answer(Err::<(), _>(error)),
    }
}

/// Performs an act through an `O_PATH` descriptor, which can be opened without any rights.
fn by_descriptor(path: &Path, act: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let held: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    act(Path::new(&format!("/proc/self/fd/{}", held.as_raw_fd())))
}
