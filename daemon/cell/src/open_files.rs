//! Finds the files that the frozen processes of a transaction have open for writing, to name them.
//! Runs in the cell, as the first process of its PID namespace.

use crate::freeze::processes;
use palisade_plan::Path;
use rustix::io::Errno;
use std::{collections::BTreeSet, fs, os::unix::ffi::OsStrExt as _, path};

/// The maximum number of files that are named.
const MOST_NAMED: usize = 3;

/// Explains why what a frozen program wrote could not be made read-only.
pub(crate) fn explain(errno: Errno, workspace: &Path) -> String {
    if errno != Errno::BUSY {
        return format!("its files could not be made read-only: {errno}");
    }
    let files = open_for_writing(workspace.as_path());
    let mut named: Vec<_> = files
        .iter()
        .take(MOST_NAMED)
        .map(|(file, pid)| format!("{file:?} (process {pid})"))
        .collect();
    if files.len() > MOST_NAMED {
        named.push(format!("{} more", files.len() - MOST_NAMED));
    }
    let files = match named.is_empty() {
        true => "a file that it has passed on is open for writing".to_owned(),
        false => format!("it has files open for writing: {}", named.join(", ")),
    };
    format!(
        "{files}. They can not be committed while another program runs that may have them too, or \
         while a process of the job can not be held"
    )
}

/// Returns the files of the workspace that are open for writing, each with a process that has it
/// open.
fn open_for_writing(workspace: &path::Path) -> BTreeSet<(String, i32)> {
    let mut found = BTreeSet::new();
    for pid in processes().unwrap_or_default() {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for file in files.flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let name = file.file_name();
            let about = path::Path::new("/proc").join(pid.to_string()).join("fdinfo").join(name);
            let Ok(below) = target.strip_prefix(workspace) else { continue };
            if fs::read_to_string(about).is_ok_and(|about| is_for_writing(&about)) {
                let name = String::from_utf8_lossy(below.as_os_str().as_bytes()).into_owned();
                found.insert((name, pid));
            }
        }
    }
    found
}

/// Returns `true` if a text of `/proc/PID/fdinfo` is about a descriptor for writing.
fn is_for_writing(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags
        .is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_say_what_is_for_writing() {
        let about = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t9\n");
        assert!(is_for_writing(&about("0100001")));
        assert!(is_for_writing(&about("02")));
        assert!(!is_for_writing(&about("0100000")));
        assert!(!is_for_writing(&about("010000002")), "O_PATH");
        assert!(!is_for_writing("pos:\t0\n"));
    }

    #[test]
    fn other_errors_are_named() {
        let text = explain(Errno::PERM, &Path::from("/w"));
        assert!(text.contains("could not be made read-only: Operation not permitted"), "{text}");
    }
}
