//! `[fs]` over what a profile extends.

use super::{
    laxer::{WIDEN, laxer},
    names,
};
use crate::{
    ProfileError,
    access::{Guarding, Reach, Widening, WorkspaceAccess},
    document::Document,
    entries::PathEntry,
    judge::guard_name,
    names::Which,
    settings::{FileEntry, Files},
    source::Said,
    stack, written,
};
use palisade_protocol::Guard;

/// What to do about a directory that no transaction holds.
const UNGUARDED: &str = "move it to fs.unguarded, or set guard = \"off\"";

/// What a file says of the file system, over what it extends.
pub(super) fn files(
    document: &Document<'_>,
    written: &written::Files,
    base: &Files,
    widening: Widening,
) -> Result<Files, ProfileError> {
    let workspace = match &written.workspace {
        Some(said) if *said.get_ref() > base.workspace.value && widening == Widening::No => {
            return Err(laxer(
                document,
                "fs.workspace",
                "is only read in what the profile extends",
            ));
        }
        Some(said) => Said { value: *said.get_ref(), at: Some(document.origin(said.span().start)) },
        None => base.workspace.clone(),
    };
    let own = own(document, written);
    for entry in &own {
        if widening == Widening::No && stack::reach(base, &entry.path) < Some(entry.reach) {
            let why = format!(
                "{:?} is not {} in what the profile extends",
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
    let hide = names::over(document, Which::Hide, written.hide.as_ref(), &base.hide)?;
    let protect = names::over(document, Which::Protect, written.protect.as_ref(), &base.protect)?;
    let mut files = Files { workspace, allow_delete, entries: Vec::new(), hide, protect };
    let inherited: Vec<FileEntry> = inherited.cloned().collect();
    reachable(&files, &own, &inherited)?;
    let all = inherited.into_iter().chain(own).collect();
    files.entries = stack::needed(&files, all);
    if widening == Widening::No {
        // A list that takes the place of another does not take back what that kept from writing.
        files = stack::files(&files, base);
    }
    names::together(document, written, &files)?;
    if !files.entries.iter().any(|entry| entry.reach >= Reach::Execute) {
        let why = "is empty, so no program could run";
        return Err(document.wrong("fs.execute", why, "name `!/usr`, or where your programs are"));
    }
    Ok(files)
}

/// Refuses a directory that can be changed and that neither a transaction holds nor the profile
/// calls unguarded.
pub(crate) fn held(guard: Guard, files: &Files) -> Result<(), ProfileError> {
    match files.entries.iter().find(|entry| is_guarded(entry)) {
        Some(entry) if guard != Guard::Off => Err(crate::document::invalid(
            entry.at.clone(),
            entry.key(),
            format!(
                "{:?} is writable, no transaction holds back what is changed there, and guard is {:?}",
                entry.path.shown(),
                guard_name(guard)
            ),
            UNGUARDED,
        )),
        Some(_) | None => Ok(()),
    }
}

/// Whether a directory can be changed, and is not said to be unguarded.
pub(crate) fn is_guarded(entry: &FileEntry) -> bool {
    (entry.reach, entry.guarding) == (Reach::Write, Guarding::Guarded)
}

fn allow_delete(
    document: &Document<'_>,
    written: &written::Files,
    base: &Files,
    workspace: &Said<WorkspaceAccess>,
    widening: Widening,
) -> Result<bool, ProfileError> {
    let writable = workspace.value == WorkspaceAccess::Write;
    match written.allow_delete {
        Some(true) if !writable => Err(document.wrong(
            "fs.allow_delete",
            "is true in a workspace that is only read",
            "leave it out, or say `workspace = \"write\"`",
        )),
        Some(true) if !base.allow_delete && widening == Widening::No => {
            Err(laxer(document, "fs.allow_delete", "is false in what the profile extends"))
        }
        Some(said) => Ok(said),
        None => Ok(base.allow_delete && writable),
    }
}

/// The lists of a file, which take the place of those that it extends.
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

/// The entries of a file itself.
fn own(document: &Document<'_>, written: &written::Files) -> Vec<FileEntry> {
    let entry = |path: &PathEntry, reach, guarding, start: usize| FileEntry {
        path: path.clone(),
        reach,
        guarding,
        at: document.origin(start),
    };
    let guarded = |path: &PathEntry, reach, start| entry(path, reach, Guarding::Guarded, start);
    let execute = written.execute.iter().flatten();
    let execute = execute.map(|said| guarded(said.get_ref(), Reach::Execute, said.span().start));
    let read = written.read.iter().flatten();
    let read = read.map(|said| guarded(said.get_ref(), Reach::Read, said.span().start));
    let write = written.write.iter().flatten();
    let write = write.map(|said| guarded(&said.get_ref().0, Reach::Write, said.span().start));
    let unguarded = written.unguarded.iter().flatten();
    let unguarded = unguarded
        .map(|said| entry(&said.get_ref().0, Reach::Write, Guarding::Unguarded, said.span().start));
    let etc = written.etc.iter().flatten();
    let etc = etc.map(|said| guarded(&said.get_ref().0, Reach::Read, said.span().start));
    execute.chain(read).chain(write).chain(unguarded).chain(etc).collect()
}

/// Refuses an entry of the file's own without which the same would be allowed.
fn reachable(
    files: &Files,
    own: &[FileEntry],
    inherited: &[FileEntry],
) -> Result<(), ProfileError> {
    for (number, entry) in own.iter().enumerate() {
        let others = own.iter().enumerate().filter(|(other, _)| *other != number);
        let others = others.map(|(_, other)| other).chain(inherited).cloned().collect();
        let mut without = Files { entries: others, ..files.clone() };
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
            "{shown:?} changes nothing: {by} is {} with all below it",
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

const fn allowed(reach: Reach) -> &'static str {
    match reach {
        Reach::Read => "readable",
        Reach::Execute => "readable and executable",
        Reach::Write => "writable",
    }
}
