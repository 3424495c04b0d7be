//! What a profile answers to one access, which line of it decides, and the smallest change that
//! would make it another. From the same plan that confines: nothing is tried.

mod change;
mod files;
mod network;

pub use change::Change;

use crate::{
    Origin, PlanError, Profile, Scene,
    act::{Act, Decision},
};
use palisade_plan::Layer;
use palisade_protocol::Denial;
use serde::{Serialize, Serializer};
use std::{fmt, path::Path};

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
            Some(change) => (change.unseen(), change.opens.clone()),
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
    #[error(
        "{0:?} is not an address with its port (1 to 65535), such as 1.1.1.1:443, [::1]:80 or example.com:443"
    )]
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

/// The same of what is the host's: what would be done to something of the session's own in its place
/// is not done to that.
#[must_use]
pub fn on_host(profile: &Profile, scene: &Scene, told: Explanation) -> Explanation {
    if told.decision == Decision::Deny || told.place == Place::Host {
        return told;
    }
    let target = &told.target;
    let (layer, rule, change) = match told.act {
        Act::Connect => {
            let why = "it would go to a loopback of the session's own, on which the host is not";
            (
                Layer::Network,
                why.to_owned(),
                network::opening(profile, target).ok_or_else(String::new),
            )
        }
        Act::Read | Act::Write | Act::Execute => {
            let why = "it would go to a private file system of the session's, and end with it";
            let rule = format!("{why}: the host's {target} would not be there");
            (Layer::Mount, rule, change::smallest(profile, scene, told.act, Path::new(target)))
        }
    };
    let (change, note) = match change {
        Ok(change) => (Some(change), String::new()),
        Err(why) => (None, format!("no profile can allow it: {why}")),
    };
    Explanation { decision: Decision::Deny, layer, rule, change, note, ..told }
}
