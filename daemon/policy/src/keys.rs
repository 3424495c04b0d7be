//! The table of all profile keys, with the values that each takes. The loader refuses keys that are
//! not in the table, and a test checks the documentation against it.
//! Pure: no I/O.

/// A key of the profile language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key with its section, such as `limits.memory`.
    pub path: &'static str,
    /// The values that the key takes.
    pub takes: AcceptedValues,
}

/// The values that a key takes, in as much detail as suggestions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedValues {
    /// One of these words, or a list of them.
    Words(&'static [&'static str]),
    /// A table with names that the user chooses, each with a value.
    Names,
    /// Any other value; serde reports errors in it.
    Value,
}

const fn key(path: &'static str) -> Key {
    Key { path, takes: AcceptedValues::Value }
}

const fn words(path: &'static str, words: &'static [&'static str]) -> Key {
    Key { path, takes: AcceptedValues::Words(words) }
}

const LAYERS: &[&str] = &[
    "mount", "pid", "network", "ipc", "uts", "cgroup", "landlock", "seccomp", "limits", "hide",
    "protect",
];

/// All keys, in the order of the documentation.
pub const KEYS: &[Key] = &[
    key("version"),
    key("description"),
    key("extends"),
    key("widen"),
    key("observe"),
    words("ask", &["never", "destructive", "sensitive", "always"]),
    words("guard", &["off", "text", "auto", "transaction"]),
    key("tests"),
    words("fs.workspace", &["read", "write"]),
    key("fs.allow_delete"),
    key("fs.execute"),
    key("fs.read"),
    key("fs.write"),
    key("fs.unguarded"),
    key("fs.etc"),
    key("fs.hide"),
    key("fs.protect"),
    words("net.mode", &["none", "loopback", "domains", "ports"]),
    key("net.ports"),
    key("net.allow"),
    key("net.deny"),
    key("net.fetch"),
    key("net.ask"),
    key("net.host.ports"),
    key("net.host.sockets"),
    key("net.publish.ports"),
    key("net.rule.host"),
    key("net.rule.methods"),
    key("net.rule.credential"),
    key("env.path"),
    Key { path: "env.set", takes: AcceptedValues::Names },
    key("env.pass"),
    key("env.deny"),
    key("limits.memory"),
    key("limits.processes"),
    key("limits.cpu_percent"),
    key("limits.file_size"),
    key("limits.open_files"),
    key("limits.tmp"),
    key("limits.timeout_ms"),
    key("limits.max_timeout_ms"),
    key("limits.output"),
    key("limits.file"),
    key("limits.spool"),
    key("limits.undo"),
    key("limits.transaction"),
    key("limits.kill_grace_ms"),
    key("limits.sessions"),
    key("limits.jobs"),
    key("limits.job_ms"),
    key("limits.parallel"),
    key("limits.connections"),
    key("limits.upload"),
    key("limits.grace_ms"),
    words("layers.required", LAYERS),
    words("layers.optional", LAYERS),
    key("tools.allow"),
    key("tools.deny"),
    key("tools.reverse_thinking"),
    key("tools.trust_provided"),
    words("rules.verdict", &["allow", "ask", "deny"]),
    key("rules.why"),
    key("rules.tools"),
    key("rules.command"),
    key("rules.paths"),
    key("rules.findings"),
    key("rules.match"),
    key("rules.not_match"),
    words("transactions.deletions", &["ask", "allow"]),
    words("transactions.replacements", &["ask", "allow"]),
    key("transactions.most_files"),
    key("transactions.most_bytes"),
    key("transactions.noise"),
    key("transactions.unasked_bytes"),
    key("transactions.unasked_files"),
    words("transactions.unreviewed", &["allow", "undoable"]),
    words("transactions.upper", &["memory", "disk"]),
    words("transactions.durable", &["no", "replaced", "all"]),
    words("jobs.routes", &["watch", "transaction", "direct"]),
    words("jobs.default", &["watch", "transaction", "direct"]),
    key("diagnostics.name"),
    key("diagnostics.argv"),
    words("diagnostics.format", &["cargo-json", "gcc"]),
    key("diagnostics.when"),
    key("diagnostics.paths"),
    words("remember.scopes", &["exact", "prefix", "path"]),
    key("remember.ms"),
    key("handlers.deadline_ms"),
    key("handlers.grace_ms"),
    key("handlers.quorum"),
    key("handlers.max_pending"),
    key("handlers.review_output"),
    key("handlers.agent_client"),
    key("who.uid"),
    key("who.gid"),
    key("who.unit"),
];

/// Returns the key with this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Returns `true` if a path names a section: there is a key below it.
pub(crate) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Suggests what was meant by an unknown key.
pub(crate) fn suggestion(path: &str) -> String {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let of = |key: &&Key| key.path.rsplit_once('.').map_or("", |(section, _)| section) == section;
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    let sections = KEYS.iter().filter_map(|key| key.path.split_once('.')).map(|(name, _)| name);
    let sections = sections.filter(|_| section.is_empty());
    let siblings = KEYS.iter().filter(of).map(|key| last(key.path)).chain(sections);
    if let Some(near) = nearest(name, siblings) {
        return format!("did you mean `{near}`?");
    }
    if let Some(elsewhere) = KEYS.iter().find(|key| last(key.path) == name) {
        let (section, _) = elsewhere.path.rsplit_once('.').unwrap_or(("the top", ""));
        return match elsewhere.path.contains('.') {
            true => format!("`{name}` is a key of [{section}]"),
            false => format!("`{name}` belongs at the top, before any section"),
        };
    }
    let known: Vec<_> = KEYS.iter().filter(of).map(|key| last(key.path)).collect();
    let place =
        if section.is_empty() { "at the top".to_owned() } else { format!("in [{section}]") };
    format!("the keys {place} are {}", known.join(", "))
}

/// Returns the candidate nearest to a word, if any is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 3);
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|(far, _)| *far <= most).min().map(|(_, candidate)| candidate)
}

/// Returns the edit distance of two words: insertions, deletions, replacements and swaps of
/// neighbouring characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best =
                (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_meant() {
        for (typed, meant_) in [
            ("limits.memry", "did you mean `memory`?"),
            ("descriptoin", "did you mean `description`?"),
            ("fs.raed", "did you mean `read`?"),
            ("limit", "did you mean `limits`?"),
            ("timeout_ms", "`timeout_ms` is a key of [limits]"),
            ("fs.ask", "`ask` belongs at the top, before any section"),
            ("who.shoesize", "the keys in [who] are uid, gid, unit"),
        ] {
            assert_eq!(suggestion(typed), meant_, "{typed}");
        }
    }

    #[test]
    fn no_key_is_there_twice() {
        let paths: std::collections::BTreeSet<_> = KEYS.iter().map(|key| key.path).collect();
        assert_eq!(paths.len(), KEYS.len());
    }
}
