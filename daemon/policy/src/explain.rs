//! Explains a profile's decision about one access: the line that decides, and the smallest change
//! that would allow it. It uses the same plan that confines a session; nothing is tried. Pure: no
//! I/O.

mod change;
mod files;
mod network;

pub use change::Change;
pub use network::{explain_bind, fetch_change};

use crate::{
    Origin, PlanError, Profile, Scene,
    act::{Act, Decision},
};
use palisade_plan::Layer;
use palisade_protocol::Denial;
use serde::{Serialize, Serializer};
use std::{fmt, path::Path};

/// The owner of a target: the host or the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetOwner {
    /// The target belongs to the host.
    Host,
    /// The target is private to the session: it ends with the session, and nobody else sees it.
    Session,
}

impl fmt::Display for TargetOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Session => "session",
        })
    }
}

/// A decision about an access, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The operation.
    #[serde(serialize_with = "shown")]
    pub act: Act,
    /// The target, with variables resolved.
    pub target: String,
    /// The decision.
    #[serde(serialize_with = "shown")]
    pub decision: Decision,
    /// The owner of the target, as seen in the session.
    #[serde(serialize_with = "shown")]
    pub place: TargetOwner,
    /// The layer that decides.
    #[serde(serialize_with = "shown")]
    pub layer: Layer,
    /// The line of a profile that decides; `None` if the decision is the same in every profile.
    pub at: Option<Origin>,
    /// The reason, in a sentence.
    pub rule: String,
    /// The smallest change that would allow the access; `None` if it is allowed or no profile can
    /// allow it.
    pub change: Option<Change>,
    /// Additional remarks; empty if there are none.
    pub note: String,
}

impl Explanation {
    /// Returns the denial for a result; `None` if the access is allowed.
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

/// The reason why an access could not be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// No session can be planned for the scene.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The target is not a path that a session could have.
    #[error("{target:?} is not a path: {why}")]
    Path {
        /// The given target.
        target: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// The target is not an address with a port.
    #[error(
        "{0:?} is not an address with a port (1 to 65535), such as 1.1.1.1:443, [::1]:80 or \
         example.com:443"
    )]
    Address(String),
}

/// Explains a profile's decision about an access. The path is assumed to exist and not to be a
/// symbolic link. Mode bits and owners are left to the kernel.
///
/// # Errors
/// If the target is invalid, or no session can be planned for the scene.
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
            "{dot}the layer {layer} is optional in this profile: a host without it does not \
             enforce this, and every result says so"
        );
    }
    Ok(found)
}

/// Converts an explanation to one about the host. An access that reaches something private to the
/// session instead counts as denied, because it does not reach the host.
#[must_use]
pub fn on_host(profile: &Profile, scene: &Scene, told: Explanation) -> Explanation {
    if told.decision == Decision::Deny || told.place == TargetOwner::Host {
        return told;
    }
    let target = &told.target;
    let (layer, rule, change) = match told.act {
        Act::Connect => {
            let why = "it would go to the session's private loopback, not to the host's";
            (
                Layer::Network,
                why.to_owned(),
                network::opening(profile, target).ok_or_else(String::new),
            )
        }
        Act::Read | Act::Write | Act::Execute => {
            let why = "it would go to a private file system, which is deleted when the session \
                       ends";
            let rule = format!("{why}: the host's {target} is not included");
            (Layer::Mount, rule, change::smallest(profile, scene, told.act, Path::new(target)))
        }
    };
    let (change, note) = match change {
        Ok(change) => (Some(change), String::new()),
        Err(why) => (None, format!("no profile can allow it: {why}")),
    };
    Explanation { decision: Decision::Deny, layer, rule, change, note, ..told }
}
