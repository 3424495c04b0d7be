//! Values of the configuration file that are more than text. Broker, pure.

use palisade_plan::ceiling::Reach;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, str::FromStr};

/// A path that means the same wherever the daemon is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "PathBuf")]
pub(super) struct Absolute(pub(super) PathBuf);

impl TryFrom<PathBuf> for Absolute {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(format!("{:?} is not an absolute path", path.display().to_string()))
    }
}

/// What to log, in the language of `RUST_LOG`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogFilter(String);

impl LogFilter {
    /// For a daemon that speaks for itself only when something is wrong.
    pub(crate) fn errors() -> Self {
        Self("error".to_owned())
    }

    /// As it was written.
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

/// Ports as the launcher's `--allow-ports` takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedPorts(String);

impl AllowedPorts {
    /// As it was written.
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
