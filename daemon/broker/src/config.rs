//! The configuration file: what it says, with the place of each value. Nothing is touched here but
//! that file, and nothing is decided. Broker.

use crate::{
    reach::{self, Reach},
    roles::{Identity, Principal, SessionUids},
    scrape::Address,
    traces::Export,
};
use palisade_audit::Sync;
use palisade_policy::Size;
use serde::Deserialize;
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
mod values;

pub use error::ConfigError;
pub(crate) use keys::{Changes, KEYS};
pub use place::Place;
pub(crate) use place::Written;
pub use values::{AllowedPorts, LogFilter};

use document::Document;
use values::Absolute;

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) socket: Option<Written<PathBuf>>,
    pub(crate) operator_socket: Option<Written<PathBuf>>,
    pub(crate) provider_socket: Option<Written<PathBuf>>,
    pub(crate) profiles: Option<Written<Vec<PathBuf>>>,
    pub(crate) state: Option<Written<PathBuf>>,
    pub(crate) audit_sync: Option<Written<Sync>>,
    pub(crate) user: Option<Written<String>>,
    pub(crate) launcher_socket: Option<Written<PathBuf>>,
    pub(crate) allow_ports: Option<Written<AllowedPorts>>,
    pub(crate) identity: Option<Written<Identity>>,
    pub(crate) session_uids: Option<Written<SessionUids>>,
    pub(crate) prove_at_start: Option<Written<bool>>,
    pub(crate) log: Option<Written<LogFilter>>,
    pub(crate) drain_ms: Option<Written<u32>>,
    pub(crate) journal: Option<Written<bool>>,
    pub(crate) roles: Roles,
    pub(crate) quotas: Quotas,
    pub(crate) metrics_listen: Option<Written<Address>>,
    pub(crate) traces_export: Option<Written<Export>>,
}

/// `[roles]`.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) connect: Option<Written<Vec<Principal>>>,
    pub(crate) handle: Option<Written<Vec<Principal>>>,
    pub(crate) observe: Option<Written<Vec<Principal>>>,
    pub(crate) administer: Option<Written<Vec<Principal>>>,
    pub(crate) provide: Option<Written<Vec<Principal>>>,
    pub(crate) record: Option<Written<Vec<Principal>>>,
    pub(crate) throwaway: Option<Written<Vec<Principal>>>,
}

/// `[quotas]`.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) sessions: Option<Written<u32>>,
    pub(crate) calls: Option<Written<u32>>,
    pub(crate) jobs: Option<Written<u32>>,
    pub(crate) spool_bytes: Option<Written<u64>>,
    pub(crate) undo_bytes: Option<Written<u64>>,
    pub(crate) audit_per_day: Option<Written<Size>>,
    pub(crate) requests_per_second: Option<Written<u32>>,
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
    spool_bytes: Option<Spanned<u64>>,
    undo_bytes: Option<Spanned<u64>>,
    audit_per_day: Option<Spanned<Size>>,
    requests_per_second: Option<Spanned<NonZeroU32>>,
}

/// The file as it is spelled.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spelled {
    socket: Option<Spanned<Absolute>>,
    operator_socket: Option<Spanned<Absolute>>,
    provider_socket: Option<Spanned<Absolute>>,
    profiles: Option<Spanned<Vec<Absolute>>>,
    state: Option<Spanned<Absolute>>,
    audit_sync: Option<Spanned<Sync>>,
    user: Option<Spanned<String>>,
    launcher_socket: Option<Spanned<Absolute>>,
    allow_ports: Option<Spanned<AllowedPorts>>,
    identity: Option<Spanned<Identity>>,
    session_uids: Option<Spanned<SessionUids>>,
    prove_at_start: Option<Spanned<bool>>,
    log: Option<Spanned<LogFilter>>,
    drain_ms: Option<Spanned<u32>>,
    journal: Option<Spanned<bool>>,
    roles: SpelledRoles,
    quotas: SpelledQuotas,
    metrics: SpelledMetrics,
    traces: SpelledTraces,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledTraces {
    export: Option<Spanned<Export>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpelledMetrics {
    listen: Option<Spanned<Address>>,
}

impl SpelledRoles {
    fn placed(self, document: &Document<'_>) -> Roles {
        Roles {
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

impl SpelledQuotas {
    fn placed(self, document: &Document<'_>) -> Quotas {
        Quotas {
            sessions: document.count(self.sessions),
            calls: document.count(self.calls),
            jobs: document.count(self.jobs),
            spool_bytes: document.written(self.spool_bytes),
            undo_bytes: document.written(self.undo_bytes),
            audit_per_day: document.written(self.audit_per_day),
            requests_per_second: document.count(self.requests_per_second),
        }
    }
}

/// Whether there has to be a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It was named, so it has to be there.
    Named,
    /// It is where one would be looked for.
    Usual,
}

impl Config {
    /// Reads a file; none if the usual one is not there.
    pub(crate) fn read(
        path: &Path,
        presence: Presence,
        reach: &Reach,
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
            profiles: document.written(spelled.profiles).map(|written| Written {
                value: written.value.into_iter().map(|Absolute(path)| path).collect(),
                at: written.at,
            }),
            state: document.path(spelled.state),
            audit_sync: document.written(spelled.audit_sync),
            user: document.written(spelled.user),
            launcher_socket: document.path(spelled.launcher_socket),
            allow_ports: document.written(spelled.allow_ports),
            identity: document.written(spelled.identity),
            session_uids: document.written(spelled.session_uids),
            prove_at_start: document.written(spelled.prove_at_start),
            log: document.written(spelled.log),
            drain_ms: document.written(spelled.drain_ms),
            journal: document.written(spelled.journal),
            roles: spelled.roles.placed(&document),
            quotas: spelled.quotas.placed(&document),
            metrics_listen: document.written(spelled.metrics.listen),
            traces_export: document.written(spelled.traces.export),
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
                "2:1: sokcet: is no key; did you mean `socket`?",
            ),
            ("\n\nuser = 3\n", "3:8: user: invalid type: integer `3`, expected a string"),
            ("state = \"var\"", "1:9: state: \"var\" is not an absolute path"),
            ("profiles = [\"/a\", \"b\"]", "1:19: profiles: \"b\" is not an absolute path"),
            (
                "audit_sync = \"5s\"",
                "1:14: audit_sync: \"5s\" is neither `always` nor a time from 1ms to 60000ms",
            ),
            ("allow_ports = \"80,0\"", "1:15: allow_ports: \"0\" is no port from 1 to 65535"),
            (
                "identity = \"root\"",
                "1:12: identity: unknown variant `root`, expected `peer` or `throwaway`",
            ),
            (
                "session_uids = \"1-9\"",
                "1:16: session_uids: 1 is below 1000, where the accounts of the system are",
            ),
            ("log = \"a[\"", "1:7: log: \"a[\" is not a filter: invalid filter directive"),
            ("socket = \"/a\"\nsocket = \"/a\"\n", "2:1: duplicate key"),
            ("socket = \"/a", "1:13: invalid basic string, expected `\"`"),
        ] {
            assert_eq!(error(text), format!("/etc/p.toml:{expected}"), "{text}");
        }
    }

    #[test]
    fn only_the_usual_file_may_be_missing() {
        let missing = Path::new("/nonexistent/palisaded.toml");
        assert!(Config::read(missing, Presence::Usual, &Reach::default()).unwrap().is_none());
        let named = Config::read(missing, Presence::Named, &Reach::default());
        assert!(matches!(named, Err(ConfigError::Read { .. })));
    }
}
