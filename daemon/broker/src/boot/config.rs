//! The configuration file: its values, each with its place. This module reads only that file, and
//! decides nothing. Runs in the broker.

use crate::base::reach::{self, OpenDirectories};
use std::{fs, io, path::Path};

mod declare;
mod document;
mod error;
mod keys;
mod place;
mod upstream_proxy;
mod values;

pub(crate) use declare::Reloadability;
pub use error::ConfigError;
pub(crate) use keys::{AuditSection, Config, QuotaSection, RoleSection, keys};
pub use place::ConfigPosition;
pub(crate) use place::LocatedValue;
pub use upstream_proxy::UpstreamProxy;
pub use values::{AllowedPorts, LogFilter};
pub(crate) use values::{KeySource, Offered, Retention};

use document::Document;
use keys::ConfigText;

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
        let text: ConfigText = document.values()?;
        Ok(text.located(&document))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

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
