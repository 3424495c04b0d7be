//! Combines profiles: together they allow only what each of them allows. Nothing here can widen,
//! and no denial is lost. Pure: no I/O.

use crate::{
    access::{Guarding, PathAccess},
    entries::PathEntry,
    keys::Section as _,
    names,
    rules::{Rule, Verdict},
    settings::{FileEntry, FileSettings, Settings},
    source::WithOrigin,
    tools::ToolSettings,
};

/// Returns the settings that allow only what both profiles allow.
pub(crate) fn both(a: &Settings, b: &Settings) -> Settings {
    let fs = files(&a.fs, &b.fs);
    Settings {
        description: a.description.clone(),
        extends: Vec::new(),
        widening: a.widening,
        modes: a.modes.both(&b.modes),
        fs,
        net: a.net.both(&b.net),
        env: a.env.combined(&b.env),
        limits: a.limits.both(&b.limits),
        layers: a.layers.combined(&b.layers),
        tools: a.tools.both(&b.tools),
        handlers: a.handlers.both(&b.handlers),
        transactions: a.transactions.both(&b.transactions),
        jobs: a.jobs.both(&b.jobs),
        rules: rules(&a.rules, &b.rules),
        diagnostics: common(&a.diagnostics, &b.diagnostics),
        who: union(&a.who, &b.who),
        tests: Vec::new(),
    }
}

/// Returns the settings that are enforced while a profile is observed under a base. Files, network
/// and tools are those of the base. Denials by name, approvals and limits are those of both.
pub(crate) fn observed(base: &Settings, meant: &Settings) -> Settings {
    let both = both(base, meant);
    Settings {
        description: meant.description.clone(),
        extends: meant.extends.clone(),
        widening: meant.widening,
        fs: FileSettings {
            workspace: base.fs.workspace.clone(),
            allow_delete: base.fs.allow_delete,
            entries: base.fs.entries.clone(),
            ..both.fs
        },
        net: base.net.clone(),
        tools: ToolSettings { allow: base.tools.allow.clone(), ..both.tools },
        diagnostics: meant.diagnostics.clone(),
        ..both
    }
}

/// Returns the access to a path. The innermost mount decides whether it is writable. Landlock adds
/// up the read and execute rights of all entries that cover it.
pub(crate) fn reach(files: &FileSettings, path: &PathEntry) -> Option<PathAccess> {
    let workspace = PathEntry::workspace();
    let own = workspace.covers(path).then(|| (0, files.workspace.value.reach()));
    let covering = files.entries.iter().filter(|entry| entry.path.covers(path));
    let over: Vec<_> = covering.map(|entry| (entry.path.depth(), entry.reach)).chain(own).collect();
    let (_, innermost) = *over.iter().max()?;
    let most = over.iter().map(|(_, reach)| *reach).max()?;
    Some(if innermost == PathAccess::Write {
        PathAccess::Write
    } else {
        most.min(PathAccess::Execute)
    })
}

/// Returns the protection of a path by transactions, according to the innermost entry.
pub(crate) fn guarding(files: &FileSettings, path: &PathEntry) -> Guarding {
    let covering = files.entries.iter().filter(|entry| entry.path.covers(path));
    let innermost = covering.max_by_key(|entry| (entry.path.depth(), entry.reach));
    innermost.map_or(Guarding::Guarded, |entry| entry.guarding)
}

/// Returns the entries that change what is allowed, without the redundant ones.
pub(crate) fn needed(files: &FileSettings, entries: Vec<FileEntry>) -> Vec<FileEntry> {
    let all = FileSettings { entries, ..files.clone() };
    let mut order: Vec<usize> = (0..all.entries.len()).collect();
    order.sort_by_key(|number| all.entries.get(*number).map(|entry| entry.path.depth()));
    let mut kept = FileSettings { entries: Vec::new(), ..files.clone() };
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

/// Returns the common access of two profiles: at each path that either lists, the lesser of the
/// two.
pub(crate) fn files(a: &FileSettings, b: &FileSettings) -> FileSettings {
    let workspace =
        if a.workspace.value <= b.workspace.value { &a.workspace } else { &b.workspace };
    let mut entries = Vec::new();
    for (entry, one, other) in
        a.entries.iter().map(|e| (e, a, b)).chain(b.entries.iter().map(|e| (e, b, a)))
    {
        if let (Some(own), Some(most)) = (reach(one, &entry.path), reach(other, &entry.path)) {
            let reach = own.min(most);
            // The other profile either has no guard, so changes take effect at once, or has no such
            // entry.
            let said = [one, other].map(|files| guarding(files, &entry.path));
            let guarding = match reach {
                PathAccess::Write if said.contains(&Guarding::Unguarded) => Guarding::Unguarded,
                PathAccess::Read | PathAccess::Execute | PathAccess::Write => Guarding::Guarded,
            };
            entries.push(FileEntry { reach, guarding, ..entry.clone() });
        }
    }
    let mut both = FileSettings {
        workspace: workspace.clone(),
        allow_delete: a.allow_delete && b.allow_delete,
        entries: Vec::new(),
        hide: names::union(&a.hide, &b.hide),
        protect: names::union(&a.protect, &b.protect),
    };
    both.entries = needed(&both, entries);
    both
}

/// Combines two lists of rules. An allow rule applies only if both have it; an ask or deny rule, if
/// either has it.
fn rules(a: &[WithOrigin<Rule>], b: &[WithOrigin<Rule>]) -> Vec<WithOrigin<Rule>> {
    let has = |rules: &[WithOrigin<Rule>], rule: &Rule| {
        rules.iter().any(|other| other.value.is_equivalent(rule))
    };
    let first = a.iter().filter(|rule| rule.value.verdict > Verdict::Allow || has(b, &rule.value));
    let second =
        b.iter().filter(|rule| rule.value.verdict > Verdict::Allow && !has(a, &rule.value));
    first.chain(second).cloned().collect()
}

/// Returns the items that are in either list.
pub(crate) fn union<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    let more = b.iter().filter(|item| !a.contains(item));
    a.iter().chain(more).cloned().collect()
}

/// Returns the items that are in both lists.
pub(crate) fn common<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().filter(|item| b.contains(item)).cloned().collect()
}
