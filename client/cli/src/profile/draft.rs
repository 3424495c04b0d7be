//! Drafts a profile that allows what was refused: the original text with more entries, or a profile
//! that extends and widens it. The draft is loaded as a check before it is written.

use super::{Directories, load, refusals::Refusals};
use crate::{failure::Failure, paint::harmless, print};
use palisade_policy::{
    Addition, Profile, ProfileError, amended, merged, widening, with_reversed_decision,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The maximum number of the profile's own tests whose expected answer may change.
const MOST_TURNED: usize = 64;

/// Writes a profile that allows, of all refusals, those that can be allowed.
pub(super) fn write(
    path: &Path,
    refusals: &Refusals,
    directories: &Directories,
) -> Result<(), Failure> {
    let profiles: BTreeSet<&str> = refusals.met.keys().map(|c| c.profile.as_str()).collect();
    let [name] = profiles.iter().copied().collect::<Vec<_>>()[..] else {
        let known = profiles.into_iter().collect::<Vec<_>>().join(", ");
        let told = format!("the refusals are from several profiles: {known}");
        return Err(Failure::new(told, "name one with --profile"));
    };
    let found = load::find(directories, [name])?;
    let Some(profile) = found.first() else { return Ok(()) };
    let additions = merged(&additions(refusals));
    if additions.is_empty() {
        let told = "no profile was written: no change to a profile would allow any of this";
        return Err(Failure::new(told, "the suggestions above say why"));
    }
    let text = text(profile, &additions, refusals, directories, path)?;
    fs::write(path, text).map_err(|error| {
        let told = format!("can not write {}: {error}", path.display());
        Failure::new(told, "name a file in a directory that can be written to")
    })?;
    let shown = harmless(&path.display().to_string());
    print::note(&format!("written: {} entries in {shown}", additions.len()));
    Ok(())
}

/// Returns the entries to add, each with its reason.
fn additions(refusals: &Refusals) -> Vec<Addition> {
    let mut additions = Vec::new();
    for (change, allowed) in &refusals.met {
        let targets: Vec<&str> = allowed.targets.iter().map(String::as_str).collect();
        for (key, value) in &change.changes {
            let why = match targets.as_slice() {
                [one] if one == value => "it was refused".to_owned(),
                [one] => format!("for {one}, which was refused"),
                [one, rest @ ..] => {
                    format!("for {one} and {} more, which were refused", rest.len())
                }
                [] => String::new(),
            };
            additions.push(Addition { key, value: value.clone(), why });
        }
    }
    additions
}

fn text(
    profile: &Profile,
    additions: &[Addition],
    refusals: &Refusals,
    directories: &Directories,
    path: &Path,
) -> Result<String, Failure> {
    let name = profile.name();
    let mut head = format!(
        "# Written by `palisade profile suggest`: {name}, plus what was refused under it.\n\
         # Remove every entry that should stay refused.\n"
    );
    for change in refusals.met.keys().filter(|change| change.changes.is_empty()) {
        let why = harmless(&change.remedy).replace('\n', " ");
        head += &format!(
            "# Not included: {}\n",
            if why.is_empty() { "no profile can allow it" } else { &why }
        );
    }
    let root = rustix::process::geteuid().is_root();
    let files = load::files(&load::directories(directories))?;
    let source = load::text_of(profile, &files);
    let text = match source {
        // A profile that extends nothing needs no permission to allow more, so its own text is
        // changed.
        Some((text, load::TextOrigin::File)) if profile.extends().is_empty() => {
            own(text, additions)?
        }
        Some((text, load::TextOrigin::Builtin)) if profile.extends().is_empty() && !root => {
            own(text, additions)?
        }
        Some(_) | None => widening(name, profile.observed_under(), additions),
    };
    checked(head + "\n" + &text, files, path)
}

fn own(text: &str, additions: &[Addition]) -> Result<String, Failure> {
    amended(text, additions).map_err(|why| {
        let told = format!("can not add entries to the profile's own text: {why}");
        Failure::new(told, "add the suggestions by hand")
    })
}

/// Checks that the text loads. Tests of the profile that expect a denial of what is now allowed are
/// inverted.
fn checked(mut text: String, files: Vec<load::File>, path: &Path) -> Result<String, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let others: Vec<load::File> =
        files.into_iter().filter(|file| real(&file.path) != real(path)).collect();
    for _ in 0..MOST_TURNED {
        // The draft may replace its own file of the same name.
        let draft = load::File::draft(&stem, path, &text);
        let rest = others.iter().filter(|file| !file.is_named(&stem)).cloned();
        let all: Vec<load::File> = rest.chain([draft]).collect();
        match load::set(&all) {
            Ok(_) => return Ok(text),
            Err(ProfileError::Test { at, .. }) if at.profile == stem => {
                match with_reversed_decision(&text, &at) {
                    Some(other) => text = other,
                    None => break,
                }
            }
            Err(ProfileError::Duplicate(_)) => {
                let told = format!("there is a built-in profile {stem:?}");
                return Err(Failure::new(told, "give the file another name"));
            }
            Err(error) => {
                let told = format!("the suggestions together are not a valid profile: {error}");
                return Err(Failure::new(told, "select fewer with --since, or add them by hand"));
            }
        }
    }
    Err(Failure::new(
        "the profile's own tests contradict the suggestions",
        "add the suggestions by hand",
    ))
}
