//! A directory beside the workspace, where the same commands run without a sandbox.

use crate::{World, tree};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Creates files in a directory, owned by the session's user.
///
/// # Panics
/// If they can not be written.
pub fn fill(world: &World, directory: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.join(name);
        let above = path.parent().expect("a directory");
        if !above.exists() {
            fs::create_dir(above).expect("mkdir");
            world.give(above);
        }
        fs::write(&path, text).expect("write");
        world.give(&path);
    }
}

/// Runs a shell line as the session's user, without a sandbox.
///
/// # Panics
/// If there is no shell.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "what a sandbox is held against is without one")]
pub fn unconfined(world: &World, directory: &Path, home: &Path, line: &str) -> Output {
    // If git finds no repository in the directory, it must not look for one above.
    let above = directory.parent().unwrap_or(directory);
    world.mode.act(|| {
        Command::new("/bin/bash")
            .args(["-c", line])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home)
            .env("LANG", "C.UTF-8")
            .env("GIT_CEILING_DIRECTORIES", above)
            .current_dir(directory)
            .output()
            .expect("a shell")
    })
}

/// Lists the contents of a directory, except git's own files. For names that `varies` selects, only
/// the name is listed.
#[must_use]
pub fn listed(directory: &Path, varies: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = tree(directory);
    lines.retain(|line| !line.starts_with(".git/"));
    for line in &mut lines {
        let name = line.split(' ').next().unwrap_or_default();
        if varies(name) {
            *line = name.to_owned();
        }
    }
    lines
}
