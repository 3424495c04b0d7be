//! Finds files that a program outside obeys although their names do not tell: by git's
//! configuration, or through a symbolic link. Runs in the cell.

use super::{
    super::tree::entries,
    linked::{joined, resolved},
    trees::{self, Trees, relative},
};
use palisade_plan::{
    change::{Effect, EffectKind},
    evidence::PlantedPath,
    plants::{PLANTS, PlantType, plant_reader},
};
use palisade_repository::Configuration;
use palisade_workspace::MainRepository;
use rustix::fs::FileType;
use std::collections::BTreeSet;

/// The maximum size of a configuration file that is read.
const MOST_CONFIGURATION: u64 = 1024 * 1024;

/// The maximum number of configuration files that are read, the included ones counted.
const MOST_FILES: usize = 32;

/// The maximum number of names at the top of the workspace that are read.
const MOST_NAMES: usize = 10_000;

/// A path that a program outside obeys, and everything below it.
#[derive(Debug, PartialEq, Eq)]
struct ObeyedPath {
    /// The path, relative to the workspace.
    way: Vec<u8>,
    reader: &'static str,
}

/// Returns what a change writes at paths that a program outside obeys because git's configuration,
/// or a symbolic link with a listed name, leads there. Both count as they were before the change:
/// changing them is a plant itself. Only the top of the workspace is examined.
pub(super) fn led_to(
    trees: &Trees,
    main: Option<&MainRepository>,
    effects: &[Effect],
) -> Vec<PlantedPath> {
    let mut obeyed = by_configuration(trees, main);
    obeyed.extend(by_links(trees));
    let mut found = Vec::new();
    for effect in effects.iter().filter(|effect| writes(effect)) {
        let Some(way) = relative(&effect.path.0, &trees.top) else { continue };
        let is_led_to = |obeyed: &&ObeyedPath| {
            // A new directory, or a link, may have it below.
            let is_below = relative(&obeyed.way, way).is_some();
            relative(way, &obeyed.way).is_some()
                || (is_below && trees::seen(trees.after(), &obeyed.way).is_some())
        };
        if let Some(obeyed) = obeyed.iter().find(is_led_to) {
            let reader = obeyed.reader.to_owned();
            found.push(PlantedPath { path: effect.path.clone(), reader });
        }
    }
    found
}

/// Returns `true` if an effect leaves something that a program could obey.
pub(super) const fn writes(effect: &Effect) -> bool {
    match &effect.kind {
        EffectKind::Created
        | EffectKind::Replaced
        | EffectKind::Appended
        | EffectKind::Edited
        | EffectKind::Moved { .. }
        | EffectKind::Mode => true,
        EffectKind::Deleted { .. } | EffectKind::Special | EffectKind::Touched => false,
    }
}

/// Returns the directory of hooks and the included files that the configuration of git names.
fn by_configuration(trees: &Trees, main: Option<&MainRepository>) -> Vec<ObeyedPath> {
    let git_dir = main.map_or_else(|| b".git".to_vec(), |main| main.path.0.clone());
    let mut waiting = vec![joined(&git_dir, b"config"), joined(&git_dir, b"config.worktree")];
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    while let Some(file) = waiting.pop() {
        if seen.len() == MOST_FILES || !seen.insert(file.clone()) {
            continue;
        }
        let text = trees::read(trees.before(), &file, MOST_CONFIGURATION);
        let Some(Ok(configuration)) = text.map(|text| Configuration::parse(&text)) else {
            continue;
        };
        let above = file.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let above = file.get(..above).unwrap_or_default();
        for (key, values) in configuration.keys() {
            let named = |from: &[u8]| {
                let ways = values.iter().flatten();
                ways.filter_map(|value| resolved(trees, from, value)).collect::<Vec<_>>()
            };
            let (ways, reader) = match (key.section.as_str(), key.name.as_str()) {
                ("core", "hookspath") => (named(b""), "git (core.hooksPath)"),
                ("include" | "includeif", "path") => {
                    waiting.extend(named(above));
                    (named(above), "git (include.path)")
                }
                _ => continue,
            };
            found.extend(ways.into_iter().map(|way| ObeyedPath { way, reader }));
        }
    }
    found
}

/// Returns where the symbolic links at the top of the workspace lead that have listed names.
fn by_links(trees: &Trees) -> Vec<ObeyedPath> {
    let names = trees::directory(trees.before(), b"")
        .and_then(|top| entries(&top, MOST_NAMES))
        .map(|names| names.into_iter().collect::<BTreeSet<_>>());
    let may_be_there = |name: &&str| match &names {
        Ok(names) => names.contains(name.as_bytes()),
        Err(_) => true,
    };
    let listed: BTreeSet<&[&str]> = PLANTS
        .iter()
        .filter(|plant| plant.parts.first().is_some_and(may_be_there))
        .flat_map(|plant| (1..=plant.parts.len()).filter_map(|count| plant.parts.get(..count)))
        .collect();
    let mut found = Vec::new();
    for parts in listed {
        let way = parts.join("/").into_bytes();
        let is_link =
            trees::seen(trees.before(), &way).is_some_and(|seen| seen.kind() == FileType::Symlink);
        let Some(target) = is_link.then(|| trees::link(trees.before(), &way)).flatten() else {
            continue;
        };
        let above = way.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let Some(to) = resolved(trees, way.get(..above).unwrap_or_default(), &target) else {
            continue;
        };
        let reader = plant_reader(&way, PlantType::SymbolicLink).unwrap_or("a program");
        found.push(ObeyedPath { way: to, reader });
    }
    found
}
