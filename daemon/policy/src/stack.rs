//! Stacking: what several profiles allow together is what each of them allows. Nothing here can
//! widen, and no deny is lost.

use crate::{
    access::{Guarding, Reach},
    entries::PathEntry,
    handlers::Handlers,
    names,
    rules::{Rule, Verdict},
    settings::{Environment, FileEntry, Files, Layers, Settings, Tools},
    source::Said,
};

/// What both allow.
pub(crate) fn both(a: &Settings, b: &Settings) -> Settings {
    let fs = files(&a.fs, &b.fs);
    Settings {
        description: a.description.clone(),
        extends: Vec::new(),
        widening: a.widening,
        ask: a.ask.max(b.ask),
        guard: a.guard.max(b.guard),
        fs,
        net: a.net.both(&b.net),
        env: environment(&a.env, &b.env),
        limits: a.limits.stricter(&b.limits),
        layers: layers(&a.layers, &b.layers),
        tools: tools(&a.tools, &b.tools),
        handlers: handlers(&a.handlers, &b.handlers),
        transactions: a.transactions.stricter(&b.transactions),
        jobs: a.jobs.stricter(&b.jobs),
        rules: rules(&a.rules, &b.rules),
        diagnostics: common(&a.diagnostics, &b.diagnostics),
        who: union(&a.who, &b.who),
        tests: Vec::new(),
    }
}

/// What holds while a profile is observed under a base: the base's files, network and tools, and all
/// that either denies by name, asks or bounds.
pub(crate) fn observed(base: &Settings, meant: &Settings) -> Settings {
    let both = both(base, meant);
    Settings {
        description: meant.description.clone(),
        extends: meant.extends.clone(),
        widening: meant.widening,
        fs: Files {
            workspace: base.fs.workspace.clone(),
            allow_delete: base.fs.allow_delete,
            entries: base.fs.entries.clone(),
            ..both.fs
        },
        net: base.net.clone(),
        tools: Tools { allow: base.tools.allow.clone(), ..both.tools },
        diagnostics: meant.diagnostics.clone(),
        ..both
    }
}

/// What is allowed at a path: the innermost mount says whether it can be changed, and Landlock
/// adds up what all that lie over it let be read and run.
pub(crate) fn reach(files: &Files, path: &PathEntry) -> Option<Reach> {
    let workspace = PathEntry::workspace();
    let own = workspace.covers(path).then(|| (0, files.workspace.value.reach()));
    let covering = files.entries.iter().filter(|entry| entry.path.covers(path));
    let over: Vec<_> = covering.map(|entry| (entry.path.depth(), entry.reach)).chain(own).collect();
    let (_, innermost) = *over.iter().max()?;
    let most = over.iter().map(|(_, reach)| *reach).max()?;
    Some(if innermost == Reach::Write { Reach::Write } else { most.min(Reach::Execute) })
}

/// Whether a profile says of a path that can be changed that no transaction holds that back.
pub(crate) fn guarding(files: &Files, path: &PathEntry) -> Guarding {
    let covering = files.entries.iter().filter(|entry| entry.path.covers(path));
    let innermost = covering.max_by_key(|entry| (entry.path.depth(), entry.reach));
    innermost.map_or(Guarding::Guarded, |entry| entry.guarding)
}

/// Entries without which something else would be allowed.
pub(crate) fn needed(files: &Files, entries: Vec<FileEntry>) -> Vec<FileEntry> {
    let all = Files { entries, ..files.clone() };
    let mut order: Vec<usize> = (0..all.entries.len()).collect();
    order.sort_by_key(|number| all.entries.get(*number).map(|entry| entry.path.depth()));
    let mut kept = Files { entries: Vec::new(), ..files.clone() };
    let mut numbers = Vec::new();
    for number in order {
        let Some(entry) = all.entries.get(number) else { continue };
        let wanted = reach(&all, &entry.path);
        if reach(&kept, &entry.path) != wanted {
            let (reach, guarding) = (wanted.unwrap_or(entry.reach), guarding(&all, &entry.path));
            kept.entries.push(FileEntry { reach, guarding, ..entry.clone() });
            numbers.push(number);
        }
    }
    let mut found: Vec<_> = numbers.into_iter().zip(kept.entries).collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, entry)| entry).collect()
}

/// At each path that either names, the lesser of what the two allow there.
pub(crate) fn files(a: &Files, b: &Files) -> Files {
    let workspace =
        if a.workspace.value <= b.workspace.value { &a.workspace } else { &b.workspace };
    let mut entries = Vec::new();
    for (entry, one, other) in
        a.entries.iter().map(|e| (e, a, b)).chain(b.entries.iter().map(|e| (e, b, a)))
    {
        if let (Some(own), Some(most)) = (reach(one, &entry.path), reach(other, &entry.path)) {
            let reach = own.min(most);
            // One that says nothing of it lets everything take effect at once, or has no such entry.
            let said = [one, other].map(|files| guarding(files, &entry.path));
            let guarding = match reach {
                Reach::Write if said.contains(&Guarding::Unguarded) => Guarding::Unguarded,
                Reach::Read | Reach::Execute | Reach::Write => Guarding::Guarded,
            };
            entries.push(FileEntry { reach, guarding, ..entry.clone() });
        }
    }
    let mut both = Files {
        workspace: workspace.clone(),
        allow_delete: a.allow_delete && b.allow_delete,
        entries: Vec::new(),
        hide: names::union(&a.hide, &b.hide),
        protect: names::union(&a.protect, &b.protect),
    };
    both.entries = needed(&both, entries);
    both
}

fn environment(a: &Environment, b: &Environment) -> Environment {
    let deny = union(&a.deny, &b.deny);
    let mut set = a.set.clone();
    set.extend(b.set.clone());
    set.retain(|name, _| !deny.contains(name));
    let mut pass = common(&a.pass, &b.pass);
    pass.retain(|name| !deny.contains(name));
    let path = if b.path.is_empty() { a.path.clone() } else { b.path.clone() };
    Environment { path, set, pass, deny }
}

fn layers(a: &Layers, b: &Layers) -> Layers {
    let required = union(&a.required, &b.required);
    let mut optional = common(&a.optional, &b.optional);
    optional.retain(|layer| !required.contains(layer));
    Layers { required, optional }
}

fn tools(a: &Tools, b: &Tools) -> Tools {
    let allow = match (&a.allow, &b.allow) {
        (Some(a), Some(b)) => Some(common(a, b)),
        (one, other) => one.clone().or_else(|| other.clone()),
    };
    Tools {
        allow,
        deny: union(&a.deny, &b.deny),
        reverse_thinking: union(&a.reverse_thinking, &b.reverse_thinking),
        trust_provided: common(&a.trust_provided, &b.trust_provided),
    }
}

fn handlers(a: &Handlers, b: &Handlers) -> Handlers {
    Handlers {
        deadline_ms: a.deadline_ms.min(b.deadline_ms),
        grace_ms: a.grace_ms.min(b.grace_ms),
        quorum: a.quorum.max(b.quorum),
        max_pending: a.max_pending.min(b.max_pending),
        remember: common(&a.remember, &b.remember),
        remember_ms: a.remember_ms.min(b.remember_ms),
        review_output: union(&a.review_output, &b.review_output),
    }
}

/// A rule that allows holds only if both have it; one that asks or denies, if either has.
fn rules(a: &[Said<Rule>], b: &[Said<Rule>]) -> Vec<Said<Rule>> {
    let has = |rules: &[Said<Rule>], rule: &Rule| rules.iter().any(|other| other.value.same(rule));
    let first = a.iter().filter(|rule| rule.value.verdict > Verdict::Allow || has(b, &rule.value));
    let second =
        b.iter().filter(|rule| rule.value.verdict > Verdict::Allow && !has(a, &rule.value));
    first.chain(second).cloned().collect()
}

/// What is in either.
pub(crate) fn union<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    let more = b.iter().filter(|item| !a.contains(item));
    a.iter().chain(more).cloned().collect()
}

fn common<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().filter(|item| b.contains(item)).cloned().collect()
}
