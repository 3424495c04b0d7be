//! Every key of the configuration file. The loader refuses other keys, `--dump-config` shows each
//! of these, and the documentation is checked against them. Pure: no I/O.

use palisade_policy::KnownKeys;

/// A key of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfigKey {
    /// The key with its section, for example `metrics.listen`.
    pub(crate) path: &'static str,
    pub(crate) changes: Reloadability,
}

/// The moment at which a new value of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloadability {
    /// The value takes effect with a reload.
    Live,
    /// The value takes effect with the next start.
    AtStart,
}

const fn live(path: &'static str) -> ConfigKey {
    ConfigKey { path, changes: Reloadability::Live }
}

const fn at_start(path: &'static str) -> ConfigKey {
    ConfigKey { path, changes: Reloadability::AtStart }
}

/// All keys, in the order of the documentation.
pub(crate) const KEYS: &[ConfigKey] = &[
    at_start("socket"),
    at_start("operator_socket"),
    at_start("provider_socket"),
    live("profiles"),
    live("offered"),
    at_start("state"),
    at_start("audit_sync"),
    at_start("user"),
    at_start("launcher_socket"),
    at_start("egress_socket"),
    at_start("egress_proxy"),
    at_start("credentials"),
    at_start("allow_ports"),
    live("allow_host"),
    live("allow_publish"),
    live("identity"),
    at_start("session_uids"),
    at_start("prove_at_start"),
    live("log"),
    live("drain_ms"),
    at_start("private_daemons"),
    at_start("journal"),
    live("roles.connect"),
    live("roles.handle"),
    live("roles.observe"),
    live("roles.administer"),
    live("roles.provide"),
    live("roles.record"),
    live("roles.throwaway"),
    live("quotas.sessions"),
    live("quotas.calls"),
    live("quotas.jobs"),
    live("quotas.spool_bytes"),
    live("quotas.undo_bytes"),
    live("quotas.audit_per_day"),
    live("quotas.requests_per_second"),
    live("undo.keep"),
    at_start("audit.keep"),
    at_start("audit.keep_size"),
    at_start("audit.keep_archives"),
    at_start("audit.keep_archives_size"),
    at_start("audit.key"),
    at_start("metrics.listen"),
    at_start("traces.export"),
    at_start("logs.export"),
];

/// Returns the keys that a configuration file may have.
pub(super) fn known() -> KnownKeys {
    KnownKeys { paths: KEYS.iter().map(|key| key.path).collect(), lists: &[], once_or_lists: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_there_twice_and_the_page_explains_each() {
        let page = include_str!("../../../../../docs/operations.md");
        let mut paths: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        for key in KEYS {
            let row = format!("\n| `{}` |", key.path);
            let line = page.split(&row).nth(1).and_then(|rest| rest.lines().next());
            let line = line.unwrap_or_else(|| panic!("{} is not documented", key.path));
            let when = match key.changes {
                Reloadability::Live => "reload",
                Reloadability::AtStart => "start",
            };
            assert!(line.ends_with(&format!("| {when} |")), "{}: {line}", key.path);
        }
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
    }
}
