//! Values of the configuration file that are more than text. Pure: no I/O.

use palisade_plan::ceiling::Reach;
use palisade_policy::Size;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, str::FromStr, time::Duration};

/// An absolute path: it means the same wherever the daemon is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "PathBuf")]
pub(super) struct AbsolutePath(PathBuf);

impl TryFrom<PathBuf> for AbsolutePath {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(format!("{:?} is not an absolute path", path.display().to_string()))
    }
}

impl From<AbsolutePath> for PathBuf {
    fn from(AbsolutePath(path): AbsolutePath) -> Self {
        path
    }
}

/// A list of absolute paths.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct AbsolutePaths(Vec<AbsolutePath>);

impl From<AbsolutePaths> for Vec<PathBuf> {
    fn from(AbsolutePaths(paths): AbsolutePaths) -> Self {
        paths.into_iter().map(PathBuf::from).collect()
    }
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

/// A number of bytes, written as a number or as a size such as `"256 MiB"`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a number of bytes or a size such as \"256 MiB\"")]
pub(super) enum ByteCount {
    /// A plain number, which may be 0.
    Number(u64),
    /// A size with a unit.
    Written(Size),
}

impl From<ByteCount> for u64 {
    fn from(count: ByteCount) -> Self {
        match count {
            ByteCount::Number(bytes) => bytes,
            ByteCount::Written(size) => size.into(),
        }
    }
}

/// A filter of log messages, in the syntax of `RUST_LOG`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogFilter(String);

impl LogFilter {
    /// A filter for errors only, for a daemon that is to be silent unless something is wrong.
    pub(crate) fn errors() -> Self {
        Self("error".to_owned())
    }

    /// The filter as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match tracing_subscriber::EnvFilter::try_new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(format!("{text:?} is not a filter: {error}")),
        }
    }
}

impl TryFrom<String> for LogFilter {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LogFilter> for String {
    fn from(filter: LogFilter) -> Self {
        filter.0
    }
}

/// A list of ports in the syntax of the launcher's `--allow-ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedPorts(String);

impl AllowedPorts {
    /// The list as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AllowedPorts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<Reach>().map(|_| Self(text.to_owned()))
    }
}

impl TryFrom<String> for AllowedPorts {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AllowedPorts> for String {
    fn from(ports: AllowedPorts) -> Self {
        ports.0
    }
}

/// A retention time: a whole number of `m`, `h` or `d`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Retention {
    text: String,
    time: Duration,
}

/// The longest retention, in days.
const MOST_DAYS: u64 = 3650;

impl Retention {
    /// A retention of this many days.
    pub(crate) fn days(days: u32) -> Self {
        let time = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        Self { text: format!("{days}d"), time }
    }

    pub(crate) const fn time(&self) -> Duration {
        self.time
    }
}

impl TryFrom<String> for Retention {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refused = || format!("{text:?} is not a time from 1m to 3650d, such as 90m, 12h or 7d");
        let (number, unit) =
            text.split_at_checked(text.len().wrapping_sub(1)).ok_or_else(refused)?;
        let unit = match unit {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            _ => return Err(refused()),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse::<u64>().ok().filter(|_| digits).ok_or_else(refused)?;
        let minutes =
            number.checked_mul(unit).filter(|minutes| (1..=MOST_DAYS * 24 * 60).contains(minutes));
        let time = Duration::from_secs(minutes.ok_or_else(refused)? * 60);
        Ok(Self { text, time })
    }
}

impl From<Retention> for String {
    fn from(retention: Retention) -> Self {
        retention.text
    }
}

/// The place of the key that signs the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum KeySource {
    /// A credential that the service manager passes.
    Credential(String),
    /// A file.
    File(PathBuf),
}

impl TryFrom<String> for KeySource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("credential:") {
            Some(name) if !name.is_empty() && !name.contains('/') && name != ".." => {
                Ok(Self::Credential(name.to_owned()))
            }
            None if text.starts_with('/') => Ok(Self::File(PathBuf::from(text))),
            Some(_) | None => {
                Err(format!("{text:?} is neither credential:NAME nor an absolute path"))
            }
        }
    }
}

impl From<KeySource> for String {
    fn from(source: KeySource) -> Self {
        match source {
            KeySource::Credential(name) => format!("credential:{name}"),
            KeySource::File(path) => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_credential_or_a_file() {
        for text in ["credential:audit.pem", "/etc/palisade/audit.pem"] {
            assert_eq!(String::from(KeySource::try_from(text.to_owned()).unwrap()), text);
        }
        for text in ["", "audit.pem", "credential:", "credential:a/b", "credential:.."] {
            assert!(KeySource::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_retention_is_from_a_minute_to_ten_years() {
        let read = |text: &str| Retention::try_from(text.to_owned());
        for (text, minutes) in [("1m", 1), ("90m", 90), ("12h", 720), ("7d", 10_080)] {
            let retention = read(text).unwrap();
            assert_eq!(retention.time(), Duration::from_secs(minutes * 60), "{text}");
            assert_eq!(String::from(retention), text);
        }
        assert_eq!(read("7d"), Ok(Retention::days(7)));
        for text in
            ["", "d", "0m", "0d", "+1d", "-1d", "1.5h", "7", "7 d", "3651d", "1w", "7é", "30s"]
        {
            let refused =
                format!("{text:?} is not a time from 1m to 3650d, such as 90m, 12h or 7d");
            assert_eq!(read(text), Err(refused));
        }
        assert!(read("99999999999999999999d").is_err());
        assert!(read("18446744073709551615d").is_err());
    }
}
