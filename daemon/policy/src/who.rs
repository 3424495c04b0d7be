//! The users that may use a profile. Pure: no I/O.

use crate::entries::UnitEntry;
use serde::{Deserialize, Serialize};

/// The profile section `[who]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(crate) struct Who {
    pub(crate) uid: Vec<u32>,
    pub(crate) gid: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unit: Vec<UnitEntry>,
}
