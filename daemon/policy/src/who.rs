//! The users that may use a profile. Pure: no I/O.

use crate::entries::UnitEntry;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use std::fmt;

/// One profile section `[who]`: the users, groups and units that may use the profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(crate) struct Who {
    pub(crate) uid: Vec<u32>,
    pub(crate) gid: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unit: Vec<UnitEntry>,
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
