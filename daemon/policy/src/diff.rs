//! Compares the meaning of two profiles: what the second allows more, and what less. Pure: no I/O.

use crate::{
    Checker, Profile,
    access::{Guarding, PathAccess},
    entries::PathEntry,
    keys::Section as _,
    names::PatternList,
    rules::{Rule, Verdict},
    settings::{FileSettings, Settings},
    source::WithOrigin,
    stack::{guarding, reach},
    who::Who,
};
use serde::Serialize;
use std::{cmp::Ordering, collections::BTreeSet};

/// The direction of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The second profile allows more.
    More,
    /// The second profile allows less.
    Less,
    /// The profiles differ, but neither allows more.
    Other,
}

/// One difference between two profiles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// The direction of the difference.
    pub direction: Direction,
    /// The profile key that differs.
    pub key: String,
    /// A description of the difference.
    pub what: String,
}

impl Difference {
    pub(crate) fn new(direction: Direction, key: &str, what: String) -> Self {
        Self { direction, key: key.to_owned(), what }
    }
}

/// Returns the differences of the second profile from the first.
#[must_use]
pub fn diff(first: &Profile, second: &Profile) -> Vec<Difference> {
    let (a, b) = (&first.settings, &second.settings);
    let mut found = DifferenceList(Vec::new());
    found.files(a, b);
    found.rules(&a.rules, &b.rules);
    let checkers = (&a.diagnostics[..], &b.diagnostics[..]);
    let name = |checker: &Checker| checker.name().to_owned();
    let sections = [
        a.modes.differences(&b.modes),
        a.net.differences(&b.net),
        a.env.differences(&b.env),
        a.limits.differences(&b.limits),
        a.layers.differences(&b.layers),
        a.tools.differences(&b.tools),
        a.handlers.waiting.differences(&b.handlers.waiting),
        a.handlers.remember.differences(&b.handlers.remember),
        a.transactions.differences(&b.transactions),
        a.jobs.differences(&b.jobs),
        list("diagnostics", Direction::Other, checkers, name),
        list("who", Direction::Less, (&a.who, &b.who), Who::shown),
    ];
    found.0.extend(sections.into_iter().flatten());
    found.0.sort();
    found.0
}

/// Describes a value that changed. The order is `Greater` if the new one allows more.
pub(crate) fn ordered(
    key: &str,
    order: Ordering,
    (from, to): (String, String),
) -> Option<Difference> {
    let direction = match order {
        Ordering::Greater => Direction::More,
        Ordering::Less => Direction::Less,
        Ordering::Equal => return None,
    };
    Some(Difference::new(direction, key, format!("{from} → {to}")))
}

/// Compares a list whose entries each allow something, or with `Less` deny it.
pub(crate) fn list<T: PartialEq>(
    key: &str,
    entry: Direction,
    (a, b): (&[T], &[T]),
    shown: impl Fn(&T) -> String,
) -> Vec<Difference> {
    let back = match entry {
        Direction::More => Direction::Less,
        Direction::Less => Direction::More,
        Direction::Other => Direction::Other,
    };
    let added = b.iter().filter(|item| !a.contains(item));
    let removed = a.iter().filter(|item| !b.contains(item));
    let added = added.map(|item| Difference::new(entry, key, format!("with {}", shown(item))));
    let removed =
        removed.map(|item| Difference::new(back, key, format!("without {}", shown(item))));
    added.chain(removed).collect()
}

struct DifferenceList(Vec<Difference>);

impl DifferenceList {
    fn push(&mut self, direction: Direction, key: &str, what: String) {
        self.0.push(Difference::new(direction, key, what));
    }

    fn files(&mut self, a: &Settings, b: &Settings) {
        let workspace = PathEntry::workspace();
        let entries = a.fs.entries.iter().chain(&b.fs.entries).map(|entry| &entry.path);
        let mut paths: Vec<&PathEntry> = std::iter::once(&workspace).chain(entries).collect();
        paths.sort_by_key(|path| (path.base, path.rest.as_str()));
        paths.dedup_by(|one, other| one.covers(other) && other.covers(one));
        let of =
            |files: &FileSettings, path: &PathEntry| (reach(files, path), guarding(files, path));
        let at = |path: &PathEntry| (of(&a.fs, path), of(&b.fs, path));
        for path in &paths {
            let (from, to) = at(path);
            let above = paths
                .iter()
                .any(|other| other.covers(path) && !path.covers(other) && at(other) == (from, to));
            if !above {
                let (key, shown) = (path.shown(), [allowed(from), allowed(to)]);
                let (from, to) = (from.0, to.0);
                if from != to {
                    let texts = (format!("{key} is {}", shown[0]), shown[1].to_owned());
                    self.0.extend(ordered("fs", to.cmp(&from), texts));
                } else if shown[0] != shown[1] {
                    let what = format!("{key} is {} → {}", shown[0], shown[1]);
                    self.push(Direction::Other, "fs.unguarded", what);
                }
            }
        }
        for (key, a, b) in
            [("fs.hide", &a.fs.hide, &b.fs.hide), ("fs.protect", &a.fs.protect, &b.fs.protect)]
        {
            self.names(key, a, b);
        }
        let (from, to) = (a.fs.allow_delete, b.fs.allow_delete);
        let texts = (from.to_string(), to.to_string());
        self.0.extend(ordered("fs.allow_delete", to.cmp(&from), texts));
    }

    /// Compares the hidden or protected names.
    fn names(&mut self, key: &str, a: &[PatternList], b: &[PatternList]) {
        let texts = |lists: &[PatternList], other: &[PatternList]| -> BTreeSet<String> {
            let all = lists.iter().flat_map(|list| &list.0).map(|said| said.value.0.clone());
            // An exception applies to its own list only. If the other profile has no list, it
            // changes nothing.
            all.filter(|text| !other.is_empty() || !text.starts_with('!')).collect()
        };
        let (a, b) = (texts(a, b), texts(b, a));
        let taken_back = |text: &&String| text.starts_with('!');
        let (more, less): (Vec<_>, Vec<_>) = b.difference(&a).partition(taken_back);
        let (lost, gained): (Vec<_>, Vec<_>) = a.difference(&b).partition(taken_back);
        less.into_iter().for_each(|t| self.push(Direction::Less, key, format!("with {t}")));
        more.into_iter().for_each(|t| self.push(Direction::More, key, format!("with {t}")));
        gained.into_iter().for_each(|t| self.push(Direction::More, key, format!("without {t}")));
        lost.into_iter().for_each(|t| self.push(Direction::Less, key, format!("without {t}")));
    }

    fn rules(&mut self, a: &[WithOrigin<Rule>], b: &[WithOrigin<Rule>]) {
        let has = |rules: &[WithOrigin<Rule>], rule: &Rule| {
            rules.iter().any(|r| r.value.is_equivalent(rule))
        };
        let way = |rule: &Rule, there: (Direction, Direction)| match rule.verdict {
            Verdict::Allow => there.0,
            Verdict::Ask | Verdict::Deny => there.1,
        };
        for rule in b.iter().map(|said| &said.value).filter(|rule| !has(a, rule)) {
            let direction = way(rule, (Direction::More, Direction::Less));
            self.push(direction, "rules", format!("with {:?}: {}", rule.verdict, rule.why));
        }
        for rule in a.iter().map(|said| &said.value).filter(|rule| !has(b, rule)) {
            let direction = way(rule, (Direction::Less, Direction::More));
            self.push(direction, "rules", format!("without {:?}: {}", rule.verdict, rule.why));
        }
    }
}

const fn allowed(at: (Option<PathAccess>, Guarding)) -> &'static str {
    match at {
        (None, _) => "not included",
        (Some(PathAccess::Read), _) => "readable",
        (Some(PathAccess::Execute), _) => "readable and executable",
        (Some(PathAccess::Write), Guarding::Guarded) => "writable",
        (Some(PathAccess::Write), Guarding::Unguarded) => "writable outside transactions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileSet;

    #[test]
    fn the_built_in_profiles_differ_as_they_say() {
        let set = ProfileSet::new([]).unwrap();
        let get = |name| set.get(name).unwrap();
        assert_eq!(diff(get("workspace"), get("workspace")), []);
        let told = |a, b| -> Vec<String> {
            let found = diff(get(a), get(b));
            found.iter().map(|d| format!("{:?} {}: {}", d.direction, d.key, d.what)).collect()
        };
        let (hidden, readonly): (Vec<String>, Vec<String>) = told("workspace", "readonly")
            .into_iter()
            .partition(|line| line.starts_with("Less fs.hide: with "));
        for name in [".env", ".env~", "*.pem", "*credentials*", ".ssh"] {
            assert!(hidden.contains(&format!("Less fs.hide: with {name}")), "{hidden:#?}");
        }
        assert_eq!(
            readonly,
            [
                "Less fs: $WORKSPACE is writable → readable and executable",
                "Less fs.allow_delete: true → false",
                "Less limits.cpu_percent: 400 → 200",
                "Less limits.file_size: 4 GiB → 1 GiB",
                "Less limits.memory: 4 GiB → 2 GiB",
                "Less limits.processes: 1024 → 512",
                "Less limits.tmp: 1 GiB → 512 MiB",
                "Less tools.deny: with apply_patch",
                "Less tools.deny: with delete_file",
                "Less tools.deny: with edit",
                "Less tools.deny: with make_dir",
                "Less tools.deny: with move_file",
                "Less tools.deny: with multi_edit",
                "Less tools.deny: with undo",
                "Less tools.deny: with write_file",
            ]
        );
        let build = told("workspace", "build");
        let cache = "More fs: $HOME/.npm/_cacache is not included → writable outside transactions";
        assert!(build.contains(&cache.to_owned()), "{build:#?}");
        assert!(build.iter().all(|line| line.starts_with("More")), "{build:#?}");
        // The hidden names are the same, whether or not the workspace is writable.
        let guarded = told("workspace", "guarded");
        assert!(guarded.contains(&"Less fs.protect: with **/.git/config".to_owned()));
        assert!(guarded.iter().all(|line| line.starts_with("Less fs.")), "{guarded:#?}");
        let hidden = |name| crate::names::to_lists(&get(name).settings.fs.hide);
        assert_eq!(hidden("guarded"), hidden("readonly"));
        let strict = told("readonly", "strict");
        assert!(strict.contains(&"Less ask: destructive → always".to_owned()), "{strict:#?}");
        assert!(strict.contains(&"Less remember.scopes: without exact".to_owned()));
        let narrower = |line: &String| line.starts_with("Less") || line.contains(" env.path: ");
        assert!(strict.iter().all(narrower), "{strict:#?}");
    }

    #[test]
    fn a_directory_that_is_unguarded_is_neither_more_nor_less_than_one_that_is_written() {
        let profile = |key: &str| {
            let text = format!(
                "version = 1\ndescription = \"x\"\nguard = \"off\"\n[fs]\nworkspace = \"read\"\n\
                 execute = [\"!/usr\"]\n{key} = [\"/srv/out\"]\n"
            );
            Profile::parse("mine", &text).unwrap()
        };
        let found = diff(&profile("write"), &profile("unguarded"));
        let what = "/srv/out is writable → writable outside transactions".to_owned();
        let key = "fs.unguarded".to_owned();
        assert_eq!(found, [Difference { direction: Direction::Other, key, what }]);
    }
}
