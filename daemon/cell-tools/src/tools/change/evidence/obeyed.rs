//! Finds files that a program outside obeys although their names do not tell: by git's
//! configuration, or through symbolic links. Runs in the cell.

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
use palisade_workspace::{MainRepository, look};
use rustix::fs::FileType;
use std::collections::BTreeSet;

/// The maximum size of a configuration file that is read.
const MOST_CONFIGURATION: u64 = 1024 * 1024;

/// The maximum number of configuration files that are read, the included ones counted.
const MOST_FILES: usize = 32;

/// The maximum number of names at the top of the workspace that are read, and of those in all
/// directories in which links are looked for.
const MOST_NAMES: usize = 10_000;

/// The maximum number of links that are followed to one file, as by the kernel.
const MOST_LINKS: usize = 40;

/// A path that a program outside obeys, and everything below it.
#[derive(Debug, PartialEq, Eq)]
struct ObeyedPath {
    /// The path, relative to the workspace.
    way: Vec<u8>,
    reader: &'static str,
}

/// Returns what a change writes at paths that a program outside obeys because git's configuration,
/// or a symbolic link with a listed name or below one, leads there. Both count as they were before
/// the change: changing them is a plant itself. Only the top of the workspace is examined.
pub(super) fn led_to(
    trees: &Trees,
    main: Option<&MainRepository>,
    effects: &[Effect],
) -> Vec<PlantedPath> {
    let mut search = LinkSearch::new(trees);
    for ObeyedPath { way, reader } in by_configuration(trees, main) {
        search.obeyed(way, reader);
    }
    search.listed_names();
    let obeyed = search.found;
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
        let text = text.map(|text| without_carriage_returns(&text));
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
                (section, name) if is_command(section, name) => {
                    let values = values.iter().flatten();
                    (values.flat_map(|line| files_in(trees, line)).collect(), "git (a command)")
                }
                _ => continue,
            };
            found.extend(ways.into_iter().map(|way| ObeyedPath { way, reader }));
        }
    }
    found
}

/// Returns the text of a configuration file as git reads it: without a byte order mark, and with
/// other line ends.
fn without_carriage_returns(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let lines: Vec<&[u8]> =
        lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    lines.join(&b'\n')
}

/// Returns `true` if the value of a setting of git is a command that git runs.
fn is_command(section: &str, name: &str) -> bool {
    match section {
        "alias" => true,
        "core" => {
            ["fsmonitor", "sshcommand", "editor", "pager", "askpass", "gitproxy"].contains(&name)
        }
        "sequence" => name == "editor",
        "diff" => ["external", "command", "textconv"].contains(&name),
        "filter" => ["clean", "smudge", "process"].contains(&name),
        "merge" => name == "driver",
        "difftool" | "mergetool" | "man" | "browser" => name == "cmd",
        "credential" => name == "helper",
        "gpg" => name == "program",
        "interactive" => name == "difffilter",
        "pager" | "uploadpack" | "trailer" => true,
        _ => false,
    }
}

/// Returns the files of the workspace that a command line names. Git runs it at the top.
fn files_in(trees: &Trees, line: &[u8]) -> Vec<Vec<u8>> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"'\"!;|&()<>=".contains(byte);
    let words = line.split(is_end).filter(|word| !word.is_empty());
    let ways = words.filter_map(|word| resolved(trees, b"", word));
    let is_file = |way: &Vec<u8>| {
        let seen = trees::seen(trees.before(), way).map(|seen| seen.kind());
        matches!(seen, Some(FileType::RegularFile | FileType::Symlink))
    };
    ways.filter(is_file).collect()
}

/// Finds where symbolic links lead whose targets are obeyed, as they were before a change.
struct LinkSearch<'a> {
    trees: &'a Trees,
    found: Vec<ObeyedPath>,
    /// The directories in which links were looked for.
    entered: BTreeSet<Vec<u8>>,
    /// The number of names that may still be read.
    names: usize,
}

impl<'a> LinkSearch<'a> {
    const fn new(trees: &'a Trees) -> Self {
        Self { trees, found: Vec::new(), entered: BTreeSet::new(), names: MOST_NAMES }
    }

    /// Adds a path that is obeyed with everything below it, and where the links on the way to it and
    /// below it lead.
    fn obeyed(&mut self, way: Vec<u8>, reader: &'static str) {
        if let Some(target) = target_of(self.trees, &way).filter(|target| *target != way) {
            self.enter(target.clone(), reader);
            self.found.push(ObeyedPath { way: target, reader });
        } else {
            self.enter(way.clone(), reader);
        }
        self.found.push(ObeyedPath { way, reader });
    }

    /// Adds where the links lead that have listed names at the top of the workspace, that stand for
    /// a directory above one, or that are below one.
    fn listed_names(&mut self) {
        let names = trees::directory(self.trees.before(), b"")
            .and_then(|top| entries(&top, MOST_NAMES))
            .map(|names| names.into_iter().collect::<BTreeSet<_>>());
        let may_be_there = |name: &&str| match &names {
            Ok(names) => names.contains(name.as_bytes()),
            Err(_) => true,
        };
        let plants = PLANTS.iter().filter(|plant| plant.parts.first().is_some_and(may_be_there));
        let listed: BTreeSet<(&[&str], bool)> = plants
            .flat_map(|plant| {
                let count = plant.parts.len();
                (1..=count).filter_map(move |at| Some((plant.parts.get(..at)?, at == count)))
            })
            .collect();
        for (parts, is_whole) in listed {
            let way = parts.join("/").into_bytes();
            let reader = plant_reader(&way, PlantType::SymbolicLink).unwrap_or("a program");
            match trees::seen(self.trees.before(), &way).map(|seen| seen.kind()) {
                Some(FileType::Symlink) => self.link(&way, reader),
                Some(FileType::Directory) if is_whole => self.enter(way, reader),
                Some(_) | None => {}
            }
        }
    }

    /// Adds where a link leads.
    fn link(&mut self, way: &[u8], reader: &'static str) {
        if let Some(target) = target_of(self.trees, way) {
            self.enter(target.clone(), reader);
            self.found.push(ObeyedPath { way: target, reader });
        }
    }

    /// Adds where the links lead that are in a directory, and in those below it.
    fn enter(&mut self, way: Vec<u8>, reader: &'static str) {
        let mut waiting = vec![way];
        while let Some(way) = waiting.pop() {
            if self.names == 0 || !self.entered.insert(way.clone()) {
                continue;
            }
            let Ok(directory) = trees::directory(self.trees.before(), &way) else { continue };
            let Ok(names) = entries(&directory, self.names) else {
                self.names = 0;
                continue;
            };
            self.names = self.names.saturating_sub(names.len());
            for name in names {
                match look(&directory, &name).ok().flatten().map(|seen| seen.kind()) {
                    Some(FileType::Directory) => waiting.push(joined(&way, &name)),
                    Some(FileType::Symlink) => {
                        if let Some(target) = target_of(self.trees, &joined(&way, &name)) {
                            waiting.push(target.clone());
                            self.found.push(ObeyedPath { way: target, reader });
                        }
                    }
                    Some(_) | None => {}
                }
            }
        }
    }
}

/// Returns where a path leads when the links on the way and at its end are followed; `None` if that
/// is outside of the workspace. What is missing can be made there.
fn target_of(trees: &Trees, way: &[u8]) -> Option<Vec<u8>> {
    if way.starts_with(b"/") {
        // The main repository of a linked worktree, whose hooks and configuration no session writes.
        return Some(way.to_vec());
    }
    let split = |way: &[u8]| -> Vec<Vec<u8>> {
        way.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
    };
    let (mut above, mut rest, mut links) = (Vec::new(), split(way), 0);
    while let Some(name) = rest.pop() {
        let next = joined(&above, &name);
        let Some(target) = trees::link(trees.before(), &next) else {
            above = next;
            continue;
        };
        links += 1;
        let to = resolved(trees, &above, &target).filter(|_| links <= MOST_LINKS)?;
        rest.extend(split(&to));
        above = Vec::new();
    }
    Some(above)
}
