//! The outcome of an approval request: the decision and who made it. Pure: no I/O.

use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The outcome of an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The decision.
    pub decision: ApprovalOutcome,
    /// The one who decided.
    pub by: DecidedBy,
    /// The reason for the decision.
    pub reason: String,
}

impl Checkpoint {
    /// Returns `true` if the call was denied because no approver could be asked, or none answered.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.decision == ApprovalOutcome::Denied && self.by == DecidedBy::Default
    }
}

/// The decision on an approval request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// The call may run, or its effects are committed.
    Approved,
    /// The call may run, with other arguments.
    Modified,
    /// The call may not run, or its effects are discarded.
    Denied,
    /// The agent sees the output as it is.
    Passed,
    /// The agent sees another output.
    Replaced,
    /// The agent does not see the output.
    Withheld,
}

impl ApprovalOutcome {
    /// Returns the outcome's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Modified => "modified",
            Self::Denied => "denied",
            Self::Passed => "passed",
            Self::Replaced => "replaced",
            Self::Withheld => "withheld",
        }
    }
}

impl fmt::Display for ApprovalOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one who decided on an approval request. Both codecs write it as text: `handler:NAME`,
/// `agent-client:NAME`, `remembered:ID of NAME` or `default`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DecidedBy {
    /// An approver of the operator socket, by name, such as `person:alice`.
    Approver(String),
    /// The agent's own client, by name. It may not decide about losses.
    AgentClient(String),
    /// A remembered approval, by its id and the approver who gave it.
    Remembered(String),
    /// No approver: none could be asked, or none answered.
    Default,
}

/// The error for a text that names no [`DecidedBy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not handler:NAME, agent-client:NAME, remembered:ID or default")]
pub struct DecidedByError(String);

impl DecidedBy {
    /// The beginning of the name of an agent's own client.
    pub const AGENT_CLIENT: &str = "agent-client:";

    const HANDLER: &str = "handler:";
    const REMEMBERED: &str = "remembered:";
    const DEFAULT: &str = "default";

    /// Returns the name of the approver; `None` if no approver of the operator socket decided.
    #[must_use]
    pub fn approver(&self) -> Option<&str> {
        match self {
            Self::Approver(name) => Some(name),
            Self::AgentClient(_) | Self::Remembered(_) | Self::Default => None,
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approver(name) => write!(f, "{}{name}", Self::HANDLER),
            Self::AgentClient(name) => write!(f, "{}{name}", Self::AGENT_CLIENT),
            Self::Remembered(id) => write!(f, "{}{id}", Self::REMEMBERED),
            Self::Default => f.write_str(Self::DEFAULT),
        }
    }
}

impl FromStr for DecidedBy {
    type Err = DecidedByError;
    fn from_str(text: &str) -> Result<Self, DecidedByError> {
        let after = |prefix: &str| text.strip_prefix(prefix).map(str::to_owned);
        if text == Self::DEFAULT {
            return Ok(Self::Default);
        }
        let named = after(Self::HANDLER).map(Self::Approver);
        let named = named.or_else(|| after(Self::AGENT_CLIENT).map(Self::AgentClient));
        let named = named.or_else(|| after(Self::REMEMBERED).map(Self::Remembered));
        named.ok_or_else(|| DecidedByError(text.to_owned()))
    }
}

impl TryFrom<String> for DecidedBy {
    type Error = DecidedByError;
    fn try_from(text: String) -> Result<Self, DecidedByError> {
        text.parse()
    }
}

impl From<DecidedBy> for String {
    fn from(by: DecidedBy) -> Self {
        by.to_string()
    }
}

impl Encode for DecidedBy {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.to_string().encode(encoder)
    }
}

impl<C> Decode<C> for DecidedBy {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        Self::try_from(text).map_err(|error| DecodeError::OtherString(error.to_string()))
    }
}

impl<'de, C> BorrowDecode<'de, C> for DecidedBy {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decider_is_read_as_it_is_written() {
        let name = || "person:ann".to_owned();
        for (by, text) in [
            (DecidedBy::Approver(name()), "handler:person:ann"),
            (DecidedBy::AgentClient(name()), "agent-client:person:ann"),
            (DecidedBy::Remembered("g-1 of ann".to_owned()), "remembered:g-1 of ann"),
            (DecidedBy::Default, "default"),
            // An approver that takes another's word for its name is an approver still.
            (DecidedBy::Approver("default".to_owned()), "handler:default"),
            (DecidedBy::Approver("agent-client:x".to_owned()), "handler:agent-client:x"),
        ] {
            assert_eq!(by.to_string(), text);
            assert_eq!(text.parse(), Ok(by));
        }
        for wrong in ["", "ann", "Default", "default ", "rule:x"] {
            assert!(wrong.parse::<DecidedBy>().is_err(), "{wrong:?}");
        }
    }
}
