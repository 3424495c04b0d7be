//! A workspace with files of each kind, and a snapshot of everything in it.

use crate::{Mode, World};
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::Path};

/// Returns everything in a workspace: kind, mode, and content or target.
///
/// # Panics
/// If it can not be read.
#[must_use]
pub fn picture(dir: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    add(dir, dir, &mut found);
    found
}

fn add(top: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, String)>) {
    for entry in fs::read_dir(dir).expect("made") {
        let path = entry.expect("made").path();
        let meta = fs::symlink_metadata(&path).expect("made");
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).expect("made").display())
        } else if meta.is_dir() {
            add(top, &path, found);
            "directory".to_owned()
        } else {
            format!("file {}", String::from_utf8_lossy(&fs::read(&path).expect("made")))
        };
        let name = path.strip_prefix(top).expect("made").display().to_string();
        found.insert(name, (meta.mode() & 0o7777, what));
    }
}

/// Creates a workspace with files of each kind.
///
/// # Panics
/// If it can not be created.
#[must_use]
pub fn furnished() -> World {
    let world = World::new(Mode::User);
    let at = world.workspace();
    Mode::User.act(|| {
        fs::create_dir_all(at.join("dir/sub")).expect("made");
        fs::write(at.join("file"), "old\n").expect("made");
        fs::write(at.join("log"), "one\n").expect("made");
        fs::write(at.join("dir/a"), "a\n").expect("made");
        fs::write(at.join("dir/sub/b"), "b\n").expect("made");
        fs::write(at.join("keep"), "keep\n").expect("made");
        std::os::unix::fs::symlink("file", at.join("link")).expect("made");
    });
    world
}

/// A line that changes a [`furnished`] workspace in seven ways.
pub const CHANGES: &str = "echo new > file; echo two >> log; rm -r dir; mkdir -p tree/x; \
                           echo t > tree/x/y; ln -sfn log link; chmod 600 keep; echo fresh > made";
