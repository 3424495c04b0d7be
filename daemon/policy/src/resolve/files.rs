//! Resolves `[fs]` of a profile file over the profile that it extends. Pure: no I/O.

use super::{
    laxer::{WIDEN, laxer},
    names,
};
use crate::{
    ProfileError,
    access::{Guarding, PathAccess, Widening, WorkspaceAccess},
    document::Document,
    entries::PathEntry,
    judge::guard_name,
    names::NameListKey,
    settings::{FileEntry, FileSettings},
    source::WithOrigin,
    stack, written,
};
use palisade_protocol::Guard;

/// The suggestion for a writable directory that no transaction covers.
const UNGUARDED: &str = "move it to fs.unguarded, or set guard = \"off\"";

/// Returns the file system settings of a file, combined with those that it extends.
pub(super) fn files(
    document: &Document<'_>,
    written: &written::Files,
    base: &FileSettings,
    widening: Widening,
) -> Result<FileSettings, ProfileError> {
    let workspace = match &written.workspace {
        Some(said) if *said.get_ref() > base.workspace.value && widening == Widening::No => {
            return Err(laxer(document, "fs.workspace", "is read-only in the extended profile"));
        }
        Some(said) => {
            WithOrigin { value: *said.get_ref(), at: Some(document.origin(said.span().start)) }
        }
        None => base.workspace.clone(),
    };
    let own = own(document, written);
    for entry in &own {
        if widening == Widening::No && stack::reach(base, &entry.path) < Some(entry.reach) {
            let why = format!(
                "{:?} is not {} in the extended profile",
                entry.path.shown(),
                allowed(entry.reach)
            );
            return Err(crate::document::invalid(entry.at.clone(), entry.key(), why, WIDEN));
        }
    }
    let inherited = base
        .entries
        .iter()
        .filter(|entry| widening == Widening::Yes || !own_lists(written).contains(&entry.key()));
    let allow_delete = allow_delete(document, written, base, &workspace, widening)?;
    let hide = names::over(document, NameListKey::Hide, written.hide.as_ref(), &base.hide)?;
    let protect =
        names::over(document, NameListKey::Protect, written.protect.as_ref(), &base.protect)?;
    let mut files = FileSettings { workspace, allow_delete, entries: Vec::new(), hide, protect };
    let inherited: Vec<FileEntry> = inherited.cloned().collect();
    reachable(&files, &own, &inherited)?;
    let all = inherited.into_iter().chain(own).collect();
    files.entries = stack::needed(&files, all);
    if widening == Widening::No {
        // Replacing an inherited list must not make a path writable that the inherited list kept
        // read-only.
        files = stack::files(&files, base);
    }
    names::check_consistency(document, written, &files)?;
    if !files.entries.iter().any(|entry| entry.reach >= PathAccess::Execute) {
        let why = "is empty, so no program could run";
        return Err(document.wrong(
            "fs.execute",
            why,
            "name `!/usr`, or the directories of your programs",
        ));
    }
    Ok(files)
}

/// Refuses a writable directory that no transaction covers, unless it is listed in `fs.unguarded`.
pub(crate) fn held(guard: Guard, files: &FileSettings) -> Result<(), ProfileError> {
    match files.entries.iter().find(|entry| is_guarded(entry)) {
        Some(entry) if guard != Guard::Off => Err(crate::document::invalid(
            entry.at.clone(),
            entry.key(),
            format!(
                "{:?} is writable outside of transactions, and guard is {:?}",
                entry.path.shown(),
                guard_name(guard)
            ),
            UNGUARDED,
        )),
        Some(_) | None => Ok(()),
    }
}

/// Returns `true` if a directory is writable and not listed in `fs.unguarded`.
pub(crate) fn is_guarded(entry: &FileEntry) -> bool {
    (entry.reach, entry.guarding) == (PathAccess::Write, Guarding::Guarded)
}

fn allow_delete(
    document: &Document<'_>,
    written: &written::Files,
    base: &FileSettings,
    workspace: &WithOrigin<WorkspaceAccess>,
    widening: Widening,
) -> Result<bool, ProfileError> {
    let writable = workspace.value == WorkspaceAccess::Write;
    match written.allow_delete {
        Some(true) if !writable => Err(document.wrong(
            "fs.allow_delete",
            "is true, but the workspace is read-only",
            "leave it out, or set `workspace = \"write\"`",
        )),
        Some(true) if !base.allow_delete && widening == Widening::No => {
            Err(laxer(document, "fs.allow_delete", "is false in the extended profile"))
        }
        Some(said) => Ok(said),
        None => Ok(base.allow_delete && writable),
    }
}

/// Returns the lists that a file sets itself. They replace the inherited ones unless the file
/// widens.
fn own_lists(written: &written::Files) -> Vec<&'static str> {
    let lists = [
        ("fs.execute", written.execute.is_some()),
        ("fs.read", written.read.is_some()),
        ("fs.write", written.write.is_some()),
        ("fs.unguarded", written.unguarded.is_some()),
        ("fs.etc", written.etc.is_some()),
    ];
    lists.into_iter().filter(|(_, said)| *said).map(|(list, _)| list).collect()
}

/// Returns the entries that the file itself contains.
fn own(document: &Document<'_>, written: &written::Files) -> Vec<FileEntry> {
    let entry = |path: &PathEntry, reach, guarding, start: usize| FileEntry {
        path: path.clone(),
        reach,
        guarding,
        at: document.origin(start),
    };
    let guarded = |path: &PathEntry, reach, start| entry(path, reach, Guarding::Guarded, start);
    let execute = written.execute.iter().flatten();
    let execute =
        execute.map(|said| guarded(said.get_ref(), PathAccess::Execute, said.span().start));
    let read = written.read.iter().flatten();
    let read = read.map(|said| guarded(said.get_ref(), PathAccess::Read, said.span().start));
    let write = written.write.iter().flatten();
    let write = write.map(|said| guarded(&said.get_ref().0, PathAccess::Write, said.span().start));
    let unguarded = written.unguarded.iter().flatten();
    let unguarded = unguarded.map(|said| {
        entry(&said.get_ref().0, PathAccess::Write, Guarding::Unguarded, said.span().start)
    });
    let etc = written.etc.iter().flatten();
    let etc = etc.map(|said| guarded(&said.get_ref().0, PathAccess::Read, said.span().start));
    execute.chain(read).chain(write).chain(unguarded).chain(etc).collect()
}

/// Refuses an entry of the file that does not change what is allowed.
fn reachable(
    files: &FileSettings,
    own: &[FileEntry],
    inherited: &[FileEntry],
) -> Result<(), ProfileError> {
    for (number, entry) in own.iter().enumerate() {
        let others = own.iter().enumerate().filter(|(other, _)| *other != number);
        let others = others.map(|(_, other)| other).chain(inherited).cloned().collect();
        let mut without = FileSettings { entries: others, ..files.clone() };
        let before = stack::reach(&without, &entry.path);
        without.entries.push(entry.clone());
        if before != stack::reach(&without, &entry.path) {
            continue;
        }
        without.entries.pop();
        let over = without.entries.iter().filter(|other| other.path.covers(&entry.path));
        let over = over.max_by_key(|other| (other.reach, other.path.depth()));
        let by = match over {
            Some(other) if Some(other.reach) >= before => {
                format!("{:?} ({})", other.path.shown(), other.at)
            }
            Some(_) | None => "the workspace".to_owned(),
        };
        let shown = entry.path.shown();
        let why = format!(
            "{shown:?} has no effect: {by} is {} with everything below it",
            before.map_or("there", allowed)
        );
        return Err(crate::document::invalid(
            entry.at.clone(),
            entry.key(),
            why,
            "leave one of the two out",
        ));
    }
    Ok(())
}

const fn allowed(reach: PathAccess) -> &'static str {
    match reach {
        PathAccess::Read => "readable",
        PathAccess::Execute => "readable and executable",
        PathAccess::Write => "writable",
    }
}
