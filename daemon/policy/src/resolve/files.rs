//! `[fs]` over what a profile extends.

use super::{
    laxer::{WIDEN, laxer},
    names,
};
use crate::{
    ProfileError,
    access::{Reach, Widening, WorkspaceAccess},
    document::Document,
    entries::{Base, PathEntry},
    names::Which,
    settings::{FileEntry, Files},
    source::Said,
    stack, written,
};
use std::path::Path;

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
    for (entry, key) in &own {
        if widening == Widening::No && stack::reach(base, &entry.path) < Some(entry.reach) {
            let why = format!(
                "{:?} is not {} in what the profile extends",
                entry.path.shown(),
                allowed(entry.reach)
            );
            return Err(crate::document::invalid(entry.at.clone(), key, why, WIDEN));
        }
    }
    let inherited = base
        .entries
        .iter()
        .filter(|entry| widening == Widening::Yes || !own_lists(written).contains(&list(entry)));
    let allow_delete = allow_delete(document, written, base, &workspace, widening)?;
    let hide = names::over(document, Which::Hide, written.hide.as_ref(), &base.hide)?;
    let protect = names::over(document, Which::Protect, written.protect.as_ref(), &base.protect)?;
    let mut files = Files { workspace, allow_delete, entries: Vec::new(), hide, protect };
    let inherited: Vec<FileEntry> = inherited.cloned().collect();
    reachable(&files, &own, &inherited)?;
    let all = inherited.into_iter().chain(own.into_iter().map(|(entry, _)| entry)).collect();
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Execute,
    Read,
    Write,
    Etc,
}

fn own_lists(written: &written::Files) -> Vec<List> {
    let lists = [
        (List::Execute, written.execute.is_some()),
        (List::Read, written.read.is_some()),
        (List::Write, written.write.is_some()),
        (List::Etc, written.etc.is_some()),
    ];
    lists.into_iter().filter(|(_, said)| *said).map(|(list, _)| list).collect()
}

fn list(entry: &FileEntry) -> List {
    let etc = entry.path.base == Base::Root && Path::new(&entry.path.rest).starts_with("/etc");
    match entry.reach {
        Reach::Read if etc => List::Etc,
        Reach::Read => List::Read,
        Reach::Execute => List::Execute,
        Reach::Write => List::Write,
    }
}

/// The entries of a file itself, each with its key.
fn own(document: &Document<'_>, written: &written::Files) -> Vec<(FileEntry, &'static str)> {
    let entry = |path: &PathEntry, reach, start: usize| FileEntry {
        path: path.clone(),
        reach,
        at: document.origin(start),
    };
    let execute = written.execute.iter().flatten();
    let execute = execute
        .map(|said| (entry(said.get_ref(), Reach::Execute, said.span().start), "fs.execute"));
    let read = written.read.iter().flatten();
    let read = read.map(|said| (entry(said.get_ref(), Reach::Read, said.span().start), "fs.read"));
    let write = written.write.iter().flatten();
    let write =
        write.map(|said| (entry(&said.get_ref().0, Reach::Write, said.span().start), "fs.write"));
    let etc = written.etc.iter().flatten();
    let etc = etc.map(|said| (entry(&said.get_ref().0, Reach::Read, said.span().start), "fs.etc"));
    execute.chain(read).chain(write).chain(etc).collect()
}

/// Refuses an entry of the file's own without which the same would be allowed.
fn reachable(
    files: &Files,
    own: &[(FileEntry, &'static str)],
    inherited: &[FileEntry],
) -> Result<(), ProfileError> {
    for (number, (entry, key)) in own.iter().enumerate() {
        let others = own.iter().enumerate().filter(|(other, _)| *other != number);
        let others = others.map(|(_, (other, _))| other).chain(inherited).cloned().collect();
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
            key,
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
