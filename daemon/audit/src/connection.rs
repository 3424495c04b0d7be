//! The record of a network connection, made or refused. Pure: no I/O.

use crate::{clean::CleanText, denial::LayerDenial};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The decision about a network connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionVerdict {
    /// The connection was allowed; it may have failed afterwards.
    Allow,
    /// The connection was refused, and nothing was sent.
    Deny,
}

impl fmt::Display for ConnectionVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// A network connection of a session has ended, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The id of the session.
    pub session: String,
    /// The calls that ran in the session when the connection was asked for.
    pub calls: Vec<String>,
    /// The host as the program named it, a name or an address; empty if it could not be read.
    pub host: CleanText,
    /// The TCP port; 0 for the query of a name, or if it could not be read.
    pub port: u16,
    /// The way in which the program asked: `lookup`, `connect`, `http`, `socks`, `direct`, or
    /// `request` for one on a connection to an inspected host; empty if that is not known.
    pub asked: String,
    /// The decision.
    pub verdict: ConnectionVerdict,
    /// The entry of the profile or the approval that allows it, or the reason of the refusal.
    pub rule: CleanText,
    /// The address that was dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The server name in the TLS greeting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<CleanText>,
    /// The number of bytes that the session sent.
    #[serde(default)]
    pub sent_bytes: u64,
    /// The number of bytes that the session received.
    #[serde(default)]
    pub received_bytes: u64,
    /// The time from the decision to the end, in microseconds.
    #[serde(default)]
    pub duration_us: u64,
    /// The reason that an allowed connection failed or was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<CleanText>,
    /// The number of refusals that this record stands for. Repetitions are counted, and recorded
    /// when the session ends.
    #[serde(default, skip_serializing_if = "is_one")]
    pub count: Count,
    /// The alarm, if the refusal is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<ConnectionAlarm>,
    /// The refusal, and what would allow the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<LayerDenial>,
}

/// A refusal that calls for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionAlarm {
    /// A request had the placeholder of a credential, and went to a place that the credential is not for.
    CredentialPlaceholder,
}

/// A number of refusals, one unless a record says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count(pub u64);

impl Default for Count {
    fn default() -> Self {
        Self(1)
    }
}

/// Returns `true` if a count is one, which records leave out.
fn is_one(count: &Count) -> bool {
    count.0 == 1
}

impl Connection {
    /// Describes the connection in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let times = match self.count.0 {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        let target = match (self.host.as_str(), self.port) {
            ("", _) => "a connection".to_owned(),
            (host, 0) => host.to_owned(),
            (host, port) => format!("{host}:{port}"),
        };
        match self.verdict {
            ConnectionVerdict::Deny => {
                let alarm = if self.alarm.is_some() { "ALARM: " } else { "" };
                format!("{alarm}{target} refused{times}: {}", self.rule)
            }
            ConnectionVerdict::Allow => {
                let address = self.address.as_deref().unwrap_or("not connected");
                let failed = self.failure.as_ref().map(|why| format!("; {why}"));
                format!(
                    "{target} ({address}), {} bytes sent, {} received, {}{}",
                    self.sent_bytes,
                    self.received_bytes,
                    self.rule,
                    failed.unwrap_or_default()
                )
            }
        }
    }
}
