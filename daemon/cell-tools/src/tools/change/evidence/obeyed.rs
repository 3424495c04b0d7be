//! Finds files that a program outside obeys although their names do not tell: by git's
//! configuration, through a symbolic link, or because a rebase is under way. Runs in the cell.

use super::{
    super::tree::entries,
    linked::{joined, resolved},
    trees::{self, TreeView, Trees, relative},
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

/// The maximum size of the list of a rebase. A longer one may have any command in it.
const MOST_TODO_BYTES: u64 = 1024 * 1024;

/// The maximum size of a configuration file that is read.
const MOST_CONFIGURATION: u64 = 1024 * 1024;

/// The maximum number of configuration files that are read, the included ones counted.
const MOST_FILES: usize = 32;

/// The maximum number of names at the top of the workspace that are read.
const MOST_NAMES: usize = 10_000;

/// The maximum number of linked worktrees of a repository that are examined.
const MOST_WORKTREES: usize = 1000;

/// Returns the lists of a rebase under way that get a new command to run, in these repositories.
/// `git rebase --continue` runs it, outside of the sandbox too.
pub(super) fn rebase_commands<'a>(
    trees: &Trees,
    git_dirs: impl Iterator<Item = &'a Vec<u8>>,
) -> Vec<PlantedPath> {
    let mut found = Vec::new();
    for git_dir in git_dirs {
        let all = joined(git_dir, b"worktrees");
        let names = trees::directory(trees.after(), &all)
            .and_then(|directory| entries(&directory, MOST_WORKTREES));
        let linked = names.unwrap_or_default().into_iter().map(|name| joined(&all, &name));
        for own in std::iter::once(git_dir.clone()).chain(linked) {
            let todo = joined(&own, b"rebase-merge/git-rebase-todo");
            let known = commands(trees.before(), &todo).unwrap_or_default();
            if commands(trees.after(), &todo).is_none_or(|now| !now.is_subset(&known)) {
                let reader = "git rebase --continue".to_owned();
                found.push(PlantedPath { path: trees.path(&todo), reader });
            }
        }
    }
    found
}

/// Returns the commands in the list of a rebase; `None` if the list can not be read.
fn commands(tree: TreeView<'_>, todo: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    if trees::seen(tree, todo).is_none() {
        return Some(BTreeSet::new());
    }
    let text = trees::read(tree, todo, MOST_TODO_BYTES)?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let is_command = |line: &&[u8]| {
        let name = line.split(u8::is_ascii_whitespace).next();
        name == Some(b"exec") || name == Some(b"x")
    };
    Some(lines.filter(is_command).map(<[u8]>::to_vec).collect())
}

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
