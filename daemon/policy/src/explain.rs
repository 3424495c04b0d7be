//! What a profile answers to one access, which line of it decides, and the smallest change that
//! would make it another. From the same plan that confines: nothing is tried.

mod change;
mod files;
mod network;

pub use change::Change;

use crate::{Origin, PlanError, Profile, Scene};
use palisade_plan::Layer;
use palisade_protocol::Denial;
use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// What a program would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Open a file to read it, or list a directory.
    Read,
    /// Make a file, or change one.
    Write,
    /// Run a program.
    Execute,
    /// Open a TCP connection.
    Connect,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Connect];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "exec",
            Self::Connect => "connect",
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Act {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|act| act.name() == text)
            .ok_or_else(|| format!("{text:?} is none of read, write, exec and connect"))
    }
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No layer stands in the way.
    Allow,
    /// One does.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// Whose what is reached is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The host's.
    Host,
    /// The session's own: it ends with the session, and nobody else sees it.
    Session,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Session => "session",
        })
    }
}

/// An answer with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What was asked about.
    #[serde(serialize_with = "shown")]
    pub act: Act,
    /// And on what, variables resolved.
    pub target: String,
    /// The answer.
    #[serde(serialize_with = "shown")]
    pub decision: Decision,
    /// Whose the target is, inside.
    #[serde(serialize_with = "shown")]
    pub place: Place,
    /// The layer that gives it.
    #[serde(serialize_with = "shown")]
    pub layer: Layer,
    /// The line of a profile that decides; none if it is what no profile says otherwise.
    pub at: Option<Origin>,
    /// Why, in a sentence.
    pub rule: String,
    /// The smallest change that would allow it; none if it is allowed, or no profile can.
    pub change: Option<Change>,
    /// What more there is to know; empty if nothing.
    pub note: String,
}

impl Explanation {
    /// As a result has it; none if it is allowed.
    #[must_use]
    pub fn denial(&self) -> Option<Denial> {
        if self.decision == Decision::Allow {
            return None;
        }
        let (remedy, opens) = match &self.change {
            Some(change) => (change.how.clone(), change.opens.clone()),
            None => (self.note.clone(), String::new()),
        };
        Some(Denial {
            layer: self.layer.name().to_owned(),
            rule: format!("{}: {}", self.act, self.rule),
            target: self.target.clone(),
            remedy,
            at: self.at.as_ref().map_or_else(String::new, ToString::to_string),
            opens,
        })
    }
}

fn shown<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// There would be no session.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Not a path that a session could have.
    #[error("{target:?} is not a path: {why}")]
    Path {
        /// What was given.
        target: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not an address with a port.
    #[error("{0:?} is not an address with its port, such as 1.1.1.1:443 or [::1]:80")]
    Address(String),
}

/// What a profile answers. A path is taken to be there and to be no link; what mode bits and
/// owners say is the kernel's own matter.
///
/// # Errors
/// If the target can not be one, or the scene gives no session.
pub fn explain(
    profile: &Profile,
    scene: &Scene,
    act: Act,
    target: &str,
) -> Result<Explanation, ExplainError> {
    let mut found = match act {
        Act::Read | Act::Write | Act::Execute => files::explain(profile, scene, act, target)?,
        Act::Connect => network::connect(profile, scene, target)?,
    };
    if profile.settings.layers.optional.iter().any(|entry| entry.0 == found.layer) {
        let dot = if found.note.is_empty() { "" } else { "; " };
        let layer = found.layer;
        found.note += &format!(
            "{dot}the profile calls the layer {layer} optional: a host without it holds less, and every result says so"
        );
    }
    Ok(found)
}
