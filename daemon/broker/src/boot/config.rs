//! The configuration file: its values, each with its place. This module reads only that file, and
//! decides nothing. Runs in the broker.

use crate::{
    base::{
        reach::{self, OpenDirectories},
        roles::{Identity, Principal, SessionUids},
        services::AllowedServices,
    },
    front::scrape::Address,
    telemetry::{logs::LogExport, traces::Export},
};
use palisade_audit::Sync;
use palisade_policy::Size;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    num::NonZeroU32,
    path::{Path, PathBuf},
};
use toml::Spanned;

mod document;
mod error;
mod keys;
mod place;
mod upstream_proxy;
mod values;

pub use error::ConfigError;
pub(crate) use keys::{KEYS, Reloadability};
pub use place::ConfigPosition;
pub(crate) use place::LocatedValue;
pub use upstream_proxy::UpstreamProxy;
pub use values::{AllowedPorts, LogFilter};
pub(crate) use values::{KeySource, Retention};

use document::Document;
use values::{AbsolutePath, ByteCount};

/// All values of the configuration file.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) socket: Option<LocatedValue<PathBuf>>,
    pub(crate) operator_socket: Option<LocatedValue<PathBuf>>,
    pub(crate) provider_socket: Option<LocatedValue<PathBuf>>,
    pub(crate) profiles: Option<LocatedValue<Vec<PathBuf>>>,
    pub(crate) offered: Option<LocatedValue<Vec<Offered>>>,
    pub(crate) state: Option<LocatedValue<PathBuf>>,
    pub(crate) audit_sync: Option<LocatedValue<Sync>>,
    pub(crate) user: Option<LocatedValue<String>>,
    pub(crate) launcher_socket: Option<LocatedValue<PathBuf>>,
    pub(crate) egress_socket: Option<LocatedValue<PathBuf>>,
    pub(crate) egress_proxy: Option<LocatedValue<UpstreamProxy>>,
    pub(crate) credentials: Option<LocatedValue<PathBuf>>,
    pub(crate) allow_ports: Option<LocatedValue<AllowedPorts>>,
    pub(crate) allow_host: Option<LocatedValue<AllowedServices>>,
    pub(crate) allow_publish: Option<LocatedValue<AllowedServices>>,
    pub(crate) identity: Option<LocatedValue<Identity>>,
    pub(crate) session_uids: Option<LocatedValue<SessionUids>>,
    pub(crate) prove_at_start: Option<LocatedValue<bool>>,
    pub(crate) log: Option<LocatedValue<LogFilter>>,
    pub(crate) drain_ms: Option<LocatedValue<u32>>,
    pub(crate) journal: Option<LocatedValue<bool>>,
    pub(crate) private_daemons: Option<LocatedValue<bool>>,
    pub(crate) roles: RoleSection,
    pub(crate) quotas: QuotaSection,
    pub(crate) undo_keep: Option<LocatedValue<Retention>>,
    pub(crate) audit: AuditSection,
    pub(crate) metrics_listen: Option<LocatedValue<Address>>,
    pub(crate) traces_export: Option<LocatedValue<Export>>,
    pub(crate) logs_export: Option<LocatedValue<LogExport>>,
}

/// A built-in profile that the system's daemon offers only if the configuration says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Offered {
    /// The profile `autonomous`: no approver is asked.
    Autonomous,
    /// The profile `container`: namespaces may be missing.
    Container,
}

impl Offered {
    /// All optional profiles, each with its name.
    pub(crate) const ALL: [(Self, &'static str); 2] =
        [(Self::Autonomous, "autonomous"), (Self::Container, "container")];
}

/// The section `[roles]`.
#[derive(Debug, Default)]
pub(crate) struct RoleSection {
    pub(crate) connect: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) handle: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) observe: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) administer: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) provide: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) record: Option<LocatedValue<Vec<Principal>>>,
    pub(crate) throwaway: Option<LocatedValue<Vec<Principal>>>,
}

/// The section `[audit]`.
#[derive(Debug, Default)]
pub(crate) struct AuditSection {
    pub(crate) keep: Option<LocatedValue<Retention>>,
    pub(crate) keep_size: Option<LocatedValue<Size>>,
    pub(crate) keep_archives: Option<LocatedValue<Retention>>,
    pub(crate) keep_archives_size: Option<LocatedValue<Size>>,
    pub(crate) key: Option<LocatedValue<KeySource>>,
}

/// The section `[quotas]`.
#[derive(Debug, Default)]
pub(crate) struct QuotaSection {
    pub(crate) sessions: Option<LocatedValue<u32>>,
    pub(crate) calls: Option<LocatedValue<u32>>,
    pub(crate) jobs: Option<LocatedValue<u32>>,
    pub(crate) spool_bytes: Option<LocatedValue<u64>>,
    pub(crate) undo_bytes: Option<LocatedValue<u64>>,
    pub(crate) audit_per_day: Option<LocatedValue<Size>>,
    pub(crate) requests_per_second: Option<LocatedValue<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledRoles {
    connect: Option<Spanned<Vec<Principal>>>,
    handle: Option<Spanned<Vec<Principal>>>,
    observe: Option<Spanned<Vec<Principal>>>,
    administer: Option<Spanned<Vec<Principal>>>,
    provide: Option<Spanned<Vec<Principal>>>,
    record: Option<Spanned<Vec<Principal>>>,
    throwaway: Option<Spanned<Vec<Principal>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledQuotas {
    sessions: Option<Spanned<NonZeroU32>>,
    calls: Option<Spanned<NonZeroU32>>,
    jobs: Option<Spanned<NonZeroU32>>,
    spool_bytes: Option<Spanned<ByteCount>>,
    undo_bytes: Option<Spanned<ByteCount>>,
    audit_per_day: Option<Spanned<Size>>,
    requests_per_second: Option<Spanned<NonZeroU32>>,
}

/// The file in the form in which it is parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spelled {
    socket: Option<Spanned<AbsolutePath>>,
    operator_socket: Option<Spanned<AbsolutePath>>,
    provider_socket: Option<Spanned<AbsolutePath>>,
    profiles: Option<Spanned<Vec<AbsolutePath>>>,
    offered: Option<Spanned<Vec<Offered>>>,
    state: Option<Spanned<AbsolutePath>>,
    audit_sync: Option<Spanned<Sync>>,
    user: Option<Spanned<String>>,
    launcher_socket: Option<Spanned<AbsolutePath>>,
    egress_socket: Option<Spanned<AbsolutePath>>,
    egress_proxy: Option<Spanned<UpstreamProxy>>,
    credentials: Option<Spanned<AbsolutePath>>,
    allow_ports: Option<Spanned<AllowedPorts>>,
    allow_host: Option<Spanned<AllowedServices>>,
    allow_publish: Option<Spanned<AllowedServices>>,
    identity: Option<Spanned<Identity>>,
    session_uids: Option<Spanned<SessionUids>>,
    prove_at_start: Option<Spanned<bool>>,
    log: Option<Spanned<LogFilter>>,
    drain_ms: Option<Spanned<u32>>,
    journal: Option<Spanned<bool>>,
    private_daemons: Option<Spanned<bool>>,
    roles: SpelledRoles,
    quotas: SpelledQuotas,
    undo: SpelledUndo,
    audit: SpelledAudit,
    metrics: SpelledMetrics,
    traces: SpelledTraces,
    logs: SpelledLogs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledLogs {
    export: Option<Spanned<LogExport>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledTraces {
    export: Option<Spanned<Export>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledUndo {
    keep: Option<Spanned<Retention>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledAudit {
    keep: Option<Spanned<Retention>>,
    keep_size: Option<Spanned<Size>>,
    keep_archives: Option<Spanned<Retention>>,
    keep_archives_size: Option<Spanned<Size>>,
    key: Option<Spanned<KeySource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledMetrics {
    listen: Option<Spanned<Address>>,
}

impl SpelledRoles {
    fn placed(self, document: &Document<'_>) -> RoleSection {
        RoleSection {
            connect: document.written(self.connect),
            handle: document.written(self.handle),
            observe: document.written(self.observe),
            administer: document.written(self.administer),
            provide: document.written(self.provide),
            record: document.written(self.record),
            throwaway: document.written(self.throwaway),
        }
    }
}

impl SpelledAudit {
    fn placed(self, document: &Document<'_>) -> AuditSection {
        AuditSection {
            keep: document.written(self.keep),
            keep_size: document.written(self.keep_size),
            keep_archives: document.written(self.keep_archives),
            keep_archives_size: document.written(self.keep_archives_size),
            key: document.written(self.key),
        }
    }
}

impl SpelledQuotas {
    fn placed(self, document: &Document<'_>) -> QuotaSection {
        QuotaSection {
            sessions: document.count(self.sessions),
            calls: document.count(self.calls),
            jobs: document.count(self.jobs),
            spool_bytes: document.bytes(self.spool_bytes),
            undo_bytes: document.bytes(self.undo_bytes),
            audit_per_day: document.written(self.audit_per_day),
            requests_per_second: document.count(self.requests_per_second),
        }
    }
}

/// The way the configuration file was chosen, which decides whether it must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The file was named explicitly, so it must exist.
    Named,
    /// The file has the default path, and may be missing.
    Usual,
}

impl Config {
    /// Reads a file; `None` if the default file is missing.
    pub(crate) fn read(
        path: &Path,
        presence: Presence,
        reach: &OpenDirectories,
    ) -> Result<Option<Self>, ConfigError> {
        match fs::read_to_string(reach.enter(path)) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && presence == Presence::Usual =>
            {
                Ok(None)
            }
            Err(error) => {
                let source = reach::explain(path, error);
                Err(ConfigError::Read { path: path.to_owned(), source })
            }
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let document = Document::read(path, text)?;
        let spelled: Spelled = document.values()?;
        Ok(Self {
            socket: document.path(spelled.socket),
            operator_socket: document.path(spelled.operator_socket),
            provider_socket: document.path(spelled.provider_socket),
            profiles: document.written(spelled.profiles).map(|written| LocatedValue {
                value: written.value.into_iter().map(|AbsolutePath(path)| path).collect(),
                at: written.at,
            }),
            offered: document.written(spelled.offered),
            state: document.path(spelled.state),
            audit_sync: document.written(spelled.audit_sync),
            user: document.written(spelled.user),
            launcher_socket: document.path(spelled.launcher_socket),
            egress_socket: document.path(spelled.egress_socket),
            egress_proxy: document.written(spelled.egress_proxy),
            credentials: document.path(spelled.credentials),
            allow_ports: document.written(spelled.allow_ports),
            allow_host: document.written(spelled.allow_host),
            allow_publish: document.written(spelled.allow_publish),
            identity: document.written(spelled.identity),
            session_uids: document.written(spelled.session_uids),
            prove_at_start: document.written(spelled.prove_at_start),
            log: document.written(spelled.log),
            drain_ms: document.written(spelled.drain_ms),
            journal: document.written(spelled.journal),
            private_daemons: document.written(spelled.private_daemons),
            roles: spelled.roles.placed(&document),
            quotas: spelled.quotas.placed(&document),
            undo_keep: document.written(spelled.undo.keep),
            audit: spelled.audit.placed(&document),
            metrics_listen: document.written(spelled.metrics.listen),
            traces_export: document.written(spelled.traces.export),
            logs_export: document.written(spelled.logs.export),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(Path::new("/etc/p.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn each_value_has_its_place() {
        let config =
            Config::parse(Path::new("/c"), "# a comment\nstate = \"/s\"\nprofiles = [\"/p\"]\n");
        let config = config.unwrap();
        let state = config.state.unwrap();
        assert_eq!((state.value, state.at.to_string()), ("/s".into(), "/c:2:9".to_owned()));
        assert_eq!(config.profiles.unwrap().value, [PathBuf::from("/p")]);
        assert!(config.socket.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_key_and_what_to_do() {
        for (text, expected) in [
            (
                "socket = \"/a\"\nsokcet = \"/b\"\n",
                "2:1: sokcet: unknown key; did you mean `socket`?",
            ),
            ("\n\nuser = 3\n", "3:8: user: invalid type: integer `3`, expected a string"),
            ("state = \"var\"", "1:9: state: \"var\" is not an absolute path"),
            ("profiles = [\"/a\", \"b\"]", "1:19: profiles: \"b\" is not an absolute path"),
            (
                "audit_sync = \"5s\"",
                "1:14: audit_sync: \"5s\" is neither `always` nor a time from 1ms to 60000ms",
            ),
            ("allow_ports = \"80,0\"", "1:15: allow_ports: \"0\" is not a port from 1 to 65535"),
            (
                "identity = \"root\"",
                "1:12: identity: unknown variant `root`, expected `peer` or `throwaway`",
            ),
            (
                "session_uids = \"1-9\"",
                "1:16: session_uids: 1 is below 1000, in the range of system accounts",
            ),
            (
                "[undo]\nkeep = \"week\"",
                "2:8: undo.keep: \"week\" is not a time from 1m to 3650d, such as 90m, 12h or 7d",
            ),
            (
                "[audit]\nkey = \"audit.pem\"",
                "2:7: audit.key: \"audit.pem\" is neither credential:NAME nor an absolute path",
            ),
            ("log = \"a[\"", "1:7: log: \"a[\" is not a filter: invalid filter directive"),
            ("socket = \"/a\"\nsocket = \"/a\"\n", "2:1: duplicate key"),
            ("socket = \"/a", "1:13: invalid basic string, expected `\"`"),
        ] {
            assert_eq!(error(text), format!("/etc/p.toml:{expected}"), "{text}");
        }
    }

    #[test]
    fn quotas_of_bytes_are_numbers_or_sizes() {
        let quota = |written: &str| {
            let text = format!("[quotas]\nspool_bytes = {written}\n");
            let config = Config::parse(Path::new("/c"), &text).ok()?;
            config.quotas.spool_bytes.map(|quota| quota.value)
        };
        assert_eq!(quota("600000"), Some(600_000));
        assert_eq!(quota("0"), Some(0));
        assert_eq!(quota("\"256 MiB\""), Some(256 << 20));
        for wrong in ["-1", "\"256 MB\"", "\"\"", "1.5"] {
            assert_eq!(quota(wrong), None, "{wrong}");
        }
        let told = error("[quotas]\nundo_bytes = \"2 GB\"\n");
        assert!(told.starts_with("/etc/p.toml:2:14: quotas.undo_bytes: "), "{told}");
        assert!(told.contains("a number of bytes or a size such as \"256 MiB\""), "{told}");
    }

    #[test]
    fn only_the_usual_file_may_be_missing() {
        let missing = Path::new("/nonexistent/palisaded.toml");
        assert!(
            Config::read(missing, Presence::Usual, &OpenDirectories::default()).unwrap().is_none()
        );
        let named = Config::read(missing, Presence::Named, &OpenDirectories::default());
        assert!(matches!(named, Err(ConfigError::Read { .. })));
    }
}
