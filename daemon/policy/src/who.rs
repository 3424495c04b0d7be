//! Who may use a profile.

use crate::entries::UnitEntry;
use serde::{Deserialize, Serialize};

/// `[who]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(crate) struct Who {
    pub(crate) uid: Vec<u32>,
    pub(crate) gid: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unit: Vec<UnitEntry>,
}
