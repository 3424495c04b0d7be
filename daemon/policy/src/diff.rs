//! Compares the meaning of two profiles: what the second allows more, and what less. Pure: no I/O.

use crate::{
    Profile,
    access::{Guarding, PathAccess},
    entries::PathEntry,
    judge::guard_name,
    limits::ENDLESS,
    names::PatternList,
    net::{Net, entry::HostEntry},
    rules::{Rule, Verdict},
    settings::{FileSettings, Settings},
    source::WithOrigin,
    stack::{guarding, reach},
    transactions::{ApprovalNeed, Noise, Transactions, Unreviewed},
};
use palisade_protocol::Ask;
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

/// Returns the differences of the second profile from the first.
#[must_use]
pub fn diff(first: &Profile, second: &Profile) -> Vec<Difference> {
    let (a, b) = (&first.settings, &second.settings);
    let mut found = DifferenceList(Vec::new());
    found.files(a, b);
    found.rest(a, b);
    found.rules(&a.rules, &b.rules);
    found.0.sort();
    found.0
}

struct DifferenceList(Vec<Difference>);

impl DifferenceList {
    fn push(&mut self, direction: Direction, key: &str, what: String) {
        self.0.push(Difference { direction, key: key.to_owned(), what });
    }

    /// Compares a value of which a greater one allows more.
    fn ordered<T: Ord>(&mut self, key: &str, (a, b): (T, T), (from, to): (String, String)) {
        let direction = match b.cmp(&a) {
            Ordering::Greater => Direction::More,
            Ordering::Less => Direction::Less,
            Ordering::Equal => return,
        };
        self.push(direction, key, format!("{from} → {to}"));
    }

    /// Compares a list whose entries each allow something, or with `Less` deny it.
    fn list<T: PartialEq>(
        &mut self,
        key: &str,
        entry: Direction,
        (a, b): (&[T], &[T]),
        shown: impl Fn(&T) -> String,
    ) {
        let back = match entry {
            Direction::More => Direction::Less,
            Direction::Less => Direction::More,
            Direction::Other => Direction::Other,
        };
        for item in b.iter().filter(|item| !a.contains(item)) {
            self.push(entry, key, format!("with {}", shown(item)));
        }
        for item in a.iter().filter(|item| !b.contains(item)) {
            self.push(back, key, format!("without {}", shown(item)));
        }
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
                    self.ordered("fs", (from, to), texts);
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
        let delete = (a.fs.allow_delete, b.fs.allow_delete);
        self.ordered("fs.allow_delete", delete, (delete.0.to_string(), delete.1.to_string()));
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

    fn rest(&mut self, a: &Settings, b: &Settings) {
        for ((name, from, less), (_, to, more)) in a.limits.each().into_iter().zip(b.limits.each())
        {
            let shown = |text: String| {
                if text == ENDLESS.to_string() { "unlimited".to_owned() } else { text }
            };
            self.ordered(&format!("limits.{name}"), (less, more), (shown(from), shown(to)));
        }
        // A stricter mode compares as greater.
        let asks = |ask: Ask| format!("{ask:?}").to_lowercase();
        self.ordered("ask", (b.ask, a.ask), (asks(a.ask), asks(b.ask)));
        let guards = |guard| guard_name(guard).to_owned();
        self.ordered("guard", (b.guard, a.guard), (guards(a.guard), guards(b.guard)));
        self.transactions(&a.transactions, &b.transactions);
        let routes = (&a.jobs.routes[..], &b.jobs.routes[..]);
        self.list("jobs.routes", Direction::More, routes, |route| route.name().to_owned());
        let defaults = (a.jobs.default, b.jobs.default);
        let named = (defaults.0.name().to_owned(), defaults.1.name().to_owned());
        self.ordered("jobs.default", defaults, named);
        let (more, less) = (Direction::More, Direction::Less);
        let mode = |settings: &Settings| settings.net.mode.value;
        let name = |settings: &Settings| mode(settings).name().to_owned();
        self.ordered("net.mode", (mode(a), mode(b)), (name(a), name(b)));
        let ports = |s: &Settings| s.net.ports.iter().map(|p| p.value.0).collect::<Vec<_>>();
        self.list("net.ports", more, (&ports(a), &ports(b)), u16::to_string);
        let hosts = |list: &[WithOrigin<HostEntry>]| {
            list.iter().map(|said| said.value.clone()).collect::<Vec<_>>()
        };
        let covers = |net: &Net, said: &&WithOrigin<HostEntry>| net.covers(&said.value);
        for said in b.net.allow.iter().filter(|said| !covers(&a.net, said)) {
            self.push(more, "net.allow", format!("with {}", said.value));
        }
        for said in a.net.allow.iter().filter(|said| !covers(&b.net, said)) {
            self.push(less, "net.allow", format!("without {}", said.value));
        }
        for (one, other, direction, word) in [(a, b, more, "with"), (b, a, less, "without")] {
            for said in other.net.fetch.iter().filter(|said| !one.net.covers_fetch(&said.value)) {
                self.push(direction, "net.fetch", format!("{word} {}", said.value));
            }
        }
        let deny = (&hosts(&a.net.deny)[..], &hosts(&b.net.deny)[..]);
        self.list("net.deny", less, deny, HostEntry::to_string);
        for (one, other, (within, beyond), word) in
            [(a, b, (less, more), "with"), (b, a, (more, less), "without")]
        {
            for rule in other.net.rules.iter().map(|said| &said.value) {
                if one.net.rules.iter().all(|said| said.value != *rule) {
                    let direction = if one.net.covers_rule(rule) { within } else { beyond };
                    self.push(direction, "net.rule", format!("{word} {}: {rule}", rule.host));
                }
            }
        }
        let asks = (a.net.ask, b.net.ask);
        self.ordered("net.ask", asks, (asks.0.to_string(), asks.1.to_string()));
        let ports = |net: &Net| net.host.ports.iter().map(|p| p.value.0).collect::<Vec<_>>();
        self.list("net.host.ports", more, (&ports(&a.net), &ports(&b.net)), u16::to_string);
        let sockets = |net: &Net| {
            net.host.sockets.iter().map(|said| said.value.to_string()).collect::<Vec<_>>()
        };
        let both = (&sockets(&a.net)[..], &sockets(&b.net)[..]);
        self.list("net.host.sockets", more, both, String::clone);
        let ports = |net: &Net| net.publish.ports.iter().map(|p| p.value.0).collect::<Vec<_>>();
        self.list("net.publish.ports", more, (&ports(&a.net), &ports(&b.net)), u16::to_string);
        let (ea, eb) = (&a.env, &b.env);
        self.list("env.pass", more, (&ea.pass, &eb.pass), |name| name.0.clone());
        self.list("env.deny", less, (&ea.deny, &eb.deny), |name| name.0.clone());
        let set = |settings: &Settings| -> Vec<String> {
            settings.env.set.iter().map(|(name, value)| format!("{}={value}", name.0)).collect()
        };
        self.list("env.set", Direction::Other, (&set(a), &set(b)), String::clone);
        let path = |s: &Settings| s.env.path.iter().map(PathEntry::shown).collect::<Vec<_>>();
        self.list("env.path", Direction::Other, (&path(a), &path(b)), String::clone);
        let layer = |entry: &crate::entries::LayerEntry| entry.0.to_string();
        self.list("layers.optional", more, (&a.layers.optional, &b.layers.optional), layer);
        let tool = |entry: &crate::entries::ToolEntry| entry.0.to_string();
        match (&a.tools.allow, &b.tools.allow) {
            (None, None) => {}
            (Some(a), Some(b)) => self.list("tools.allow", more, (a, b), tool),
            (None, Some(b)) => self.push(less, "tools.allow", format!("only {} tools", b.len())),
            (Some(_), None) => self.push(more, "tools.allow", "every tool".to_owned()),
        }
        self.list("tools.deny", less, (&a.tools.deny, &b.tools.deny), tool);
        let trusted = (&a.tools.trust_provided[..], &b.tools.trust_provided[..]);
        self.list("tools.trust_provided", more, trusted, tool);
        let checkers = (&a.diagnostics[..], &b.diagnostics[..]);
        self.list("diagnostics", Direction::Other, checkers, |checker| checker.name().to_owned());
        let thinking = (&a.tools.reverse_thinking[..], &b.tools.reverse_thinking[..]);
        self.list("tools.reverse_thinking", less, thinking, tool);
        let (ha, hb) = (&a.handlers, &b.handlers);
        let number = |a: u64, b: u64| (a.to_string(), b.to_string());
        let (qa, qb) = (ha.quorum(), hb.quorum());
        self.ordered("handlers.quorum", (qb, qa), number(qa, qb));
        let pending = (ha.max_pending(), hb.max_pending());
        self.ordered("handlers.max_pending", pending, number(pending.0, pending.1));
        for (key, from, to) in [
            ("handlers.deadline_ms", ha.deadline_ms(), hb.deadline_ms()),
            ("handlers.grace_ms", ha.grace_ms(), hb.grace_ms()),
        ] {
            if from != to {
                self.push(Direction::Other, key, format!("{from} → {to}"));
            }
        }
        self.list("handlers.review_output", less, (&ha.review_output, &hb.review_output), tool);
        let own = (ha.agent_client(), hb.agent_client());
        self.ordered("handlers.agent_client", own, (own.0.to_string(), own.1.to_string()));
        self.list("remember.scopes", more, (&ha.scopes(), &hb.scopes()), String::clone);
        let ms = (ha.remember_ms(), hb.remember_ms());
        self.ordered("remember.ms", ms, number(ms.0, ms.1));
        self.list("who", less, (&a.who, &b.who), |who| {
            let units: Vec<_> = who.unit.iter().map(|unit| unit.0.as_str()).collect();
            format!("only uid {:?}, gid {:?} or unit {units:?}", who.uid, who.gid)
        });
    }

    fn transactions(&mut self, a: &Transactions, b: &Transactions) {
        let shown = |held: ApprovalNeed| format!("{held:?}").to_lowercase();
        for (key, from, to) in [
            ("transactions.deletions", a.deletions, b.deletions),
            ("transactions.replacements", a.replacements, b.replacements),
        ] {
            self.ordered(key, (to, from), (shown(from), shown(to)));
        }
        let files = (a.most_files.get(), b.most_files.get());
        let bytes = (a.most_bytes.bytes(), b.most_bytes.bytes());
        self.ordered("transactions.most_files", files, (files.0.to_string(), files.1.to_string()));
        let sizes = (a.most_bytes.to_string(), b.most_bytes.to_string());
        self.ordered("transactions.most_bytes", bytes, sizes);
        let files = (a.unasked_files, b.unasked_files);
        let shown = (files.0.to_string(), files.1.to_string());
        self.ordered("transactions.unasked_files", files, shown);
        let bytes = (a.unasked_bytes.bytes(), b.unasked_bytes.bytes());
        let sizes = (a.unasked_bytes.to_string(), b.unasked_bytes.to_string());
        self.ordered("transactions.unasked_bytes", bytes, sizes);
        let (more, noise) = (Direction::More, (&a.noise[..], &b.noise[..]));
        self.list("transactions.noise", more, noise, Noise::shown);
        let shown = |unreviewed: Unreviewed| format!("{unreviewed:?}").to_lowercase();
        let words = (shown(a.unreviewed), shown(b.unreviewed));
        self.ordered("transactions.unreviewed", (b.unreviewed, a.unreviewed), words);
        for (key, from, to) in [
            ("transactions.upper", format!("{:?}", a.upper), format!("{:?}", b.upper)),
            ("transactions.durable", format!("{:?}", a.durable), format!("{:?}", b.durable)),
        ] {
            if from != to {
                let text = format!("{from} → {to}").to_lowercase();
                self.push(Direction::Other, key, text);
            }
        }
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
        assert_eq!(
            told("workspace", "readonly"),
            [
                "Less fs: $WORKSPACE is writable → readable and executable",
                "Less fs.allow_delete: true → false",
                "Less fs.hide: with **/*credentials*/*.ini",
                "Less fs.hide: with **/*credentials*/*.json",
                "Less fs.hide: with **/*credentials*/*.toml",
                "Less fs.hide: with **/*credentials*/*.txt",
                "Less fs.hide: with **/*credentials*/*.yaml",
                "Less fs.hide: with **/*credentials*/*.yml",
                "Less fs.hide: with *.key",
                "Less fs.hide: with *.pem",
                "Less fs.hide: with *credentials*",
                "Less fs.hide: with .aws",
                "Less fs.hide: with .env",
                "Less fs.hide: with .env.*",
                "Less fs.hide: with .gnupg",
                "Less fs.hide: with .netrc",
                "Less fs.hide: with .ssh",
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
        assert!(strict.contains(&"Less remember.scopes: without exact_call".to_owned()));
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
