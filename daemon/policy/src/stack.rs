//! Combines profiles: together they allow only what each of them allows. Nothing here can widen,
//! and no denial is lost. Pure: no I/O.

use crate::{
    access::{Guarding, PathAccess},
    entries::PathEntry,
    handlers::Handlers,
    names,
    rules::{Rule, Verdict},
    settings::{
        EnvironmentSettings, FileEntry, FileSettings, LayerSettings, Settings, ToolSettings,
    },
    source::WithOrigin,
};

/// Returns the settings that allow only what both profiles allow.
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

fn environment(a: &EnvironmentSettings, b: &EnvironmentSettings) -> EnvironmentSettings {
    let deny = union(&a.deny, &b.deny);
    let mut set = a.set.clone();
    set.extend(b.set.clone());
    set.retain(|name, _| !deny.contains(name));
    let mut pass = common(&a.pass, &b.pass);
    pass.retain(|name| !deny.contains(name));
    let path = if b.path.is_empty() { a.path.clone() } else { b.path.clone() };
    EnvironmentSettings { path, set, pass, deny }
}

fn layers(a: &LayerSettings, b: &LayerSettings) -> LayerSettings {
    let required = union(&a.required, &b.required);
    let mut optional = common(&a.optional, &b.optional);
    optional.retain(|layer| !required.contains(layer));
    LayerSettings { required, optional }
}

fn tools(a: &ToolSettings, b: &ToolSettings) -> ToolSettings {
    let allow = match (&a.allow, &b.allow) {
        (Some(a), Some(b)) => Some(common(a, b)),
        (one, other) => one.clone().or_else(|| other.clone()),
    };
    ToolSettings {
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
        agent_client: a.agent_client && b.agent_client,
    }
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

fn common<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().filter(|item| b.contains(item)).cloned().collect()
}
