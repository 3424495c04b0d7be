//! The file of a profile that allows what was refused: the text of one with more entries, or a
//! profile that widens it. It is loaded before it is written.

use super::{Directories, load, refusals::Refusals};
use crate::{failure::Failure, paint::harmless, print};
use palisade_policy::{Addition, Profile, ProfileError, amended, merged, turned, widening};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// How many tests of a profile may have another answer by what is added.
const MOST_TURNED: usize = 64;

/// Writes a profile that allows what can be allowed of all refusals.
pub(super) fn write(
    path: &Path,
    refusals: &Refusals,
    directories: &Directories,
) -> Result<(), Failure> {
    let profiles: BTreeSet<&str> = refusals.met.keys().map(|c| c.profile.as_str()).collect();
    let [name] = profiles.iter().copied().collect::<Vec<_>>()[..] else {
        let known = profiles.into_iter().collect::<Vec<_>>().join(", ");
        let told = format!("what was refused is of several profiles: {known}");
        return Err(Failure::new(told, "name one with --profile"));
    };
    let found = load::find(directories, [name])?;
    let Some(profile) = found.first() else { return Ok(()) };
    let additions = merged(&additions(refusals));
    if additions.is_empty() {
        let told = "no change of a profile would allow anything of it, so none is written";
        return Err(Failure::new(told, "the suggestions say why not"));
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

/// What is to be added, each with why.
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
        "# By `palisade profile suggest`: {name}, and what was refused with it. Whether that was right is\n\
         # yours to say: take out what is not to be allowed.\n"
    );
    for change in refusals.met.keys().filter(|change| change.changes.is_empty()) {
        let why = harmless(&change.remedy).replace('\n', " ");
        head += &format!(
            "# Not in here: {}\n",
            if why.is_empty() { "no profile can allow it" } else { &why }
        );
    }
    let root = rustix::process::geteuid().is_root();
    let files = load::files(&load::directories(directories))?;
    let source = load::text_of(profile, &files);
    let text = match source {
        // What says all of it itself needs nobody's leave to say more.
        Some((text, load::From::File)) if profile.extends().is_empty() => own(text, additions)?,
        Some((text, load::From::Builtin)) if profile.extends().is_empty() && !root => {
            own(text, additions)?
        }
        Some(_) | None => widening(name, profile.observed_under(), additions),
    };
    checked(head + "\n" + &text, files, path)
}

fn own(text: &str, additions: &[Addition]) -> Result<String, Failure> {
    amended(text, additions).map_err(|why| {
        let told = format!("can not put entries into the profile's own text: {why}");
        Failure::new(told, "add what is suggested by hand")
    })
}

/// The same, as it loads: what its own tests say of what is allowed now is turned round.
fn checked(mut text: String, files: Vec<load::File>, path: &Path) -> Result<String, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let others: Vec<load::File> =
        files.into_iter().filter(|file| real(&file.path) != real(path)).collect();
    for _ in 0..MOST_TURNED {
        // It may be its own file of the same name that it takes the place of.
        let draft = load::File::draft(&stem, path, &text);
        let rest = others.iter().filter(|file| !file.is_named(&stem)).cloned();
        let all: Vec<load::File> = rest.chain([draft]).collect();
        match load::set(&all) {
            Ok(_) => return Ok(text),
            Err(ProfileError::Test { at, .. }) if at.profile == stem => match turned(&text, &at) {
                Some(other) => text = other,
                None => break,
            },
            Err(ProfileError::Duplicate(_)) => {
                let told = format!("there is a built-in profile {stem:?}");
                return Err(Failure::new(told, "give the file another name"));
            }
            Err(error) => {
                let told = format!("what is suggested makes no profile together: {error}");
                return Err(Failure::new(told, "name fewer with --since, or add it by hand"));
            }
        }
    }
    Err(Failure::new(
        "the profile's own tests can not be brought together with it",
        "add it by hand",
    ))
}
