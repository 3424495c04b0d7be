//! Names and ids, parsed once into types so that no unchecked string travels further.

use crate::limits::MAX_NAME;
use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    error::DecodeError,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("a {0} must not be empty")]
    Empty(&'static str),
    /// The name has more than [`MAX_NAME`] bytes.
    #[error("a {0} is at most {MAX_NAME} bytes long")]
    TooLong(&'static str),
    /// The name has a character outside the allowed set.
    #[error("a {0} consists of letters, digits, '_', '-' and '.'; {1:?} is not allowed")]
    Character(&'static str, char),
}

fn check(what: &'static str, text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty(what));
    }
    if text.len() > MAX_NAME {
        return Err(NameError::TooLong(what));
    }
    match text.chars().find(|c| !(c.is_ascii_alphanumeric() || "_-.".contains(*c))) {
        Some(c) => Err(NameError::Character(what, c)),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Returns the name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                check($what, &text)?;
                Ok(Self(text))
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<C> Decode<C> for $type {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                let text = String::decode(decoder)?;
                Self::try_from(text).map_err(|e| DecodeError::OtherString(e.to_string()))
            }
        }

        impl<'de, C> BorrowDecode<'de, C> for $type {
            fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
                decoder: &mut D,
            ) -> Result<Self, DecodeError> {
                Self::decode(decoder)
            }
        }
    };
}

name! {
    /// The permanent id of one call, used in results, the output store and the audit log. Assigned
    /// by the daemon.
    CallId, "call id"
}
name! {
    /// The id of one session. Assigned by the daemon.
    SessionId, "session id"
}
name! {
    /// The id of one approval request. Assigned by the daemon.
    ApprovalId, "approval request id"
}
name! {
    /// The id of one remembered approval. Assigned by the daemon.
    GrantId, "grant id"
}
name! {
    /// The id of one connected approver. Assigned by the daemon.
    HandlerId, "handler id"
}
name! {
    /// The name of a tool, as the agent wrote it.
    ToolName, "tool name"
}
