//! A file's names over those that it extends, which it can only add to.

use crate::{
    ProfileError,
    access::WorkspaceAccess,
    document::{Document, invalid},
    entries::Base,
    names::{Listed, NameEntry, Which, place, told, union},
    settings,
    source::{Origin, Said},
    written::{self, List},
};
use palisade_plan::names::{Kind, Matcher};

/// The list of a file over those that it extends, which it can only add to.
pub(super) fn over(
    document: &Document<'_>,
    which: Which,
    written: Option<&List<NameEntry>>,
    base: &[Listed],
) -> Result<Vec<Listed>, ProfileError> {
    let Some(written) = written else { return Ok(base.to_vec()) };
    if written.is_empty() {
        let why = "is empty, and takes nothing back of what is extended";
        return Err(document.wrong(which.key(), why, "name something, or leave it out"));
    }
    let said = |entry: &toml::Spanned<NameEntry>| Said {
        value: entry.get_ref().clone(),
        at: Some(document.origin(entry.span().start)),
    };
    let own = Listed(written.iter().map(said).collect());
    check(which, &own, base)?;
    Ok(union(base, &[own]))
}

/// Refuses an entry that changes nothing, or takes back what another says.
fn check(which: Which, own: &Listed, base: &[Listed]) -> Result<(), ProfileError> {
    let inherited = Matcher::new(&told(base)).unwrap_or_default();
    for (number, entry) in own.0.iter().enumerate() {
        let (before, text) = (own.0.get(..number).unwrap_or_default(), entry.value.0.as_str());
        let earlier = Matcher::new(&told(&[Listed(before.to_vec())])).unwrap_or_default();
        let bare = text.strip_prefix('!');
        let same = before.iter().find(|other| other.value.0 == bare.unwrap_or(text));
        let exact = plain(bare.unwrap_or(text));
        let covered = |by: &Matcher| {
            exact.is_some_and(|name| by.names(name.as_bytes(), Kind::Either).is_some())
        };
        let (why, suggestion) = match (bare, same) {
            (None, Some(other)) => {
                (format!("{text:?} is there already{}", place(other)), "leave one of the two out")
            }
            (Some(_), Some(other)) => (
                format!("{text:?} takes back all of {:?}{}", other.value.0, place(other)),
                "leave both out",
            ),
            (Some(_), None) if before.is_empty() || (exact.is_some() && !covered(&earlier)) => (
                format!("{text:?} takes back what nothing before it names"),
                "an exception stands after what it is an exception of",
            ),
            (None, None) if covered(&earlier) => (
                format!("{text:?} changes nothing: what is before it names it already"),
                "leave it out",
            ),
            (None, None) if own.0.len() == 1 && covered(&inherited) => (
                format!("{text:?} changes nothing: it is {} in what is extended", which.done()),
                "leave it out",
            ),
            (Some(_) | None, None) => continue,
        };
        let at = entry.at.clone().unwrap_or_else(unplaced);
        return Err(invalid(at, which.key(), why, suggestion));
    }
    Ok(())
}

fn unplaced() -> Origin {
    Origin { profile: String::new(), file: String::new(), line: 1, column: 1 }
}

/// A pattern that means one name, at any depth.
fn plain(text: &str) -> Option<&str> {
    let name = text.strip_suffix('/').unwrap_or(text);
    (!name.contains(['/', '*', '?', '[', '\\'])).then_some(name)
}

/// Refuses what can not be held together.
pub(super) fn together(
    document: &Document<'_>,
    written: &written::Files,
    files: &settings::Files,
) -> Result<(), ProfileError> {
    let named = if written.hide.is_some() { Which::Hide } else { Which::Protect };
    let own = written.hide.is_some() || written.protect.is_some();
    if files.hide.is_empty() && files.protect.is_empty() {
        return Ok(());
    }
    if let Some(entry) = files.entries.iter().find(|entry| entry.path.base == Base::Workspace) {
        let shown = entry.path.shown();
        let why = format!(
            "{shown:?} ({}) is mounted in the workspace, and over a mount nothing can be hidden or \
             protected",
            entry.at
        );
        let key = if own { named.key() } else { entry.key() };
        return Err(document.wrong(key, why, "leave the one or the other out"));
    }
    if written.protect.is_some() && files.workspace.value == WorkspaceAccess::Read {
        let why = "the workspace is only read, so there is nothing to protect";
        return Err(document.wrong("fs.protect", why, "leave it out"));
    }
    // The same exception in both says nothing of either.
    let said = written.protect.iter().flatten().filter(|one| !one.get_ref().0.starts_with('!'));
    for protected in said {
        let text = &protected.get_ref().0;
        let hidden = written.hide.iter().flatten().find(|hidden| hidden.get_ref().0 == *text);
        if hidden.is_some() {
            let why = format!("{text:?} is hidden, so there is nothing to protect");
            let at = protected.span().start;
            return Err(document.wrong_at(at, "fs.protect", why, "leave one of the two out"));
        }
    }
    Ok(())
}
