//! The users that may use a profile. Pure: no I/O.

use crate::{entries::UnitEntry, keys::text};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use std::fmt;

text! {
    /// One profile section `[who]`: the users, groups and units that may use the profile.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    "who." pub(crate) struct Who {
        /// these users
        uid: Vec<u32>, "none";
        /// users whose group is one of these
        gid: Vec<u32>, "none";
        /// processes of these units of the system's systemd, such as `agent.service`. A process
        /// whose unit is unknown (a kernel before 6.5, no systemd) does not match
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unit: Vec<UnitEntry>, "none";
    }
}

impl Who {
    /// Returns the section as comparisons show it.
    pub(crate) fn shown(&self) -> String {
        let units: Vec<_> = self.unit.iter().map(|unit| unit.0.as_str()).collect();
        format!("only uid {:?}, gid {:?} or unit {units:?}", self.uid, self.gid)
    }
}

/// The sections `[who]` of a profile file. A client has to meet each of them.
#[derive(Debug)]
pub(crate) struct Conditions(pub(crate) Vec<Who>);

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = Conditions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the section [who], or several [[who]]")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Conditions, A::Error> {
                let one = Who::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Conditions(vec![one]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Conditions, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Conditions)
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}
