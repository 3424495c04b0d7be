//! Resolves `fs.hide` and `fs.protect` of a profile file. A file can only add to inherited names.
//! Pure: no I/O.

use crate::{
    ProfileError,
    access::WorkspaceAccess,
    document::{Document, invalid},
    entries::Base,
    names::{
        ALL_PLANTS, ALL_SECRETS, NameEntry, NameListKey, NameLists, PatternList, place, to_lists,
        union,
    },
    settings,
    source::{Origin, WithOrigin},
    written,
};
use palisade_plan::{
    names::{Kind, Matcher},
    plants::plant_patterns,
    secrets::secret_patterns,
};

/// Returns the inherited lists with the list of a file added.
pub(super) fn over(
    document: &Document<'_>,
    which: NameListKey,
    written: Option<&NameLists>,
    base: &[PatternList],
) -> Result<Vec<PatternList>, ProfileError> {
    let Some(written) = written else { return Ok(base.to_vec()) };
    if written.0.iter().any(Vec::is_empty) {
        let why = "is empty, which removes no inherited name";
        return Err(document.wrong(which.key(), why, "name something, or leave it out"));
    }
    let (other, why, instead) = match which {
        NameListKey::Hide => (
            ALL_PLANTS,
            "names files that programs outside the sandbox run, which must stay visible",
            "use it in fs.protect",
        ),
        NameListKey::Protect => {
            (ALL_SECRETS, "names secrets, which should not be read", "use it in fs.hide")
        }
    };
    if let Some(entry) = written.entries().find(|entry| entry.get_ref().0 == other) {
        let (at, why) = (entry.span().start, format!("{other} {why}"));
        return Err(document.wrong_at(at, which.key(), why, instead));
    }
    let said = |entry: &toml::Spanned<NameEntry>| {
        let at = document.origin(entry.span().start);
        let texts = match entry.get_ref().0.as_str() {
            ALL_PLANTS => plant_patterns(),
            ALL_SECRETS => secret_patterns(),
            text => vec![text.to_owned()],
        };
        texts
            .into_iter()
            .map(move |text| WithOrigin { value: NameEntry(text), at: Some(at.clone()) })
    };
    let own = written.0.iter().map(|list| PatternList(list.iter().flat_map(said).collect()));
    let own: Vec<PatternList> = own.collect();
    for list in &own {
        check(which, list, base)?;
    }
    Ok(union(base, &own))
}

/// Refuses an entry that has no effect, or that takes back another entry.
fn check(which: NameListKey, own: &PatternList, base: &[PatternList]) -> Result<(), ProfileError> {
    let inherited = Matcher::new(&to_lists(base)).unwrap_or_default();
    let mut earlier = Matcher::default();
    for (number, entry) in own.0.iter().enumerate() {
        let (before, text) = (own.0.get(..number).unwrap_or_default(), entry.value.0.as_str());
        let bare = text.strip_prefix('!');
        let same = before.iter().find(|other| other.value.0 == bare.unwrap_or(text));
        let exact = plain(bare.unwrap_or(text));
        let covered = |by: &Matcher| {
            exact.is_some_and(|name| by.names(name.as_bytes(), Kind::Either).is_some())
        };
        let (why, suggestion) = match (bare, same) {
            (None, Some(other)) => {
                (format!("{text:?} is already listed{}", place(other)), "leave one of the two out")
            }
            (Some(_), Some(other)) => (
                format!("{text:?} cancels all of {:?}{}", other.value.0, place(other)),
                "leave both out",
            ),
            (Some(_), None) if before.is_empty() || (exact.is_some() && !covered(&earlier)) => (
                format!("{text:?} is an exception, but no entry before it matches"),
                "put an exception after the entry that it is an exception to",
            ),
            (None, None) if covered(&earlier) => (
                format!("{text:?} has no effect: an entry before it already matches"),
                "leave it out",
            ),
            (None, None) if own.0.len() == 1 && covered(&inherited) => (
                format!("{text:?} has no effect: it is {} in the extended profile", which.done()),
                "leave it out",
            ),
            (Some(_) | None, None) => match earlier.push(text) {
                Ok(()) => continue,
                Err(error) => (error.to_string(), "write a pattern as in a .gitignore"),
            },
        };
        let at = entry.at.clone().unwrap_or_else(unplaced);
        return Err(invalid(at, which.key(), why, suggestion));
    }
    Ok(())
}

fn unplaced() -> Origin {
    Origin { profile: String::new(), file: String::new(), line: 1, column: 1 }
}

/// Returns the name if a pattern matches one name only, at any depth.
fn plain(text: &str) -> Option<&str> {
    let name = text.strip_suffix('/').unwrap_or(text);
    (!name.contains(['/', '*', '?', '[', '\\'])).then_some(name)
}

/// Refuses settings that contradict each other.
pub(super) fn check_consistency(
    document: &Document<'_>,
    written: &written::Files,
    files: &settings::FileSettings,
) -> Result<(), ProfileError> {
    let named = if written.hide.is_some() { NameListKey::Hide } else { NameListKey::Protect };
    let own = written.hide.is_some() || written.protect.is_some();
    if files.hide.is_empty() && files.protect.is_empty() {
        return Ok(());
    }
    if let Some(entry) = files.entries.iter().find(|entry| entry.path.base == Base::Workspace) {
        let shown = entry.path.shown();
        let why = format!(
            "{shown:?} ({}) is mounted in the workspace, and nothing can be hidden or protected \
             in a mount",
            entry.at
        );
        let key = if own { named.key() } else { entry.key() };
        return Err(document.wrong(key, why, "leave one of the two out"));
    }
    if written.protect.is_some() && files.workspace.value == WorkspaceAccess::Read {
        let why = "the workspace is read-only, so there is nothing to protect";
        return Err(document.wrong("fs.protect", why, "leave it out"));
    }
    // An exception that is in both lists is allowed: it takes nothing back.
    let said = written
        .protect
        .iter()
        .flat_map(NameLists::entries)
        .filter(|one| !one.get_ref().0.starts_with('!'));
    for protected in said {
        let text = &protected.get_ref().0;
        let hidden = written
            .hide
            .iter()
            .flat_map(NameLists::entries)
            .find(|hidden| hidden.get_ref().0 == *text);
        if hidden.is_some() {
            let why = format!("{text:?} is hidden, so there is nothing to protect");
            let at = protected.span().start;
            return Err(document.wrong_at(at, "fs.protect", why, "leave one of the two out"));
        }
    }
    Ok(())
}
