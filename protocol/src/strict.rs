//! Walks JSON text and refuses what parsers disagree about: repeated keys, lone surrogates,
//! unbounded nesting, unbounded keys. Pure: no I/O; the parsed values are dropped.

use crate::limits::{MAX_KEY, MAX_KEYS};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{borrow::Cow, collections::HashSet, fmt};

/// Checks that `text` is exactly one JSON value with at most `depth` levels.
pub(crate) fn check(text: &str, depth: usize) -> Result<(), serde_json::Error> {
    let mut keys = MAX_KEYS;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Walk { depth, keys: &mut keys }.deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Walk<'a> {
    depth: usize,
    keys: &'a mut usize,
}

impl Walk<'_> {
    fn below<E: Error>(&mut self) -> Result<Walk<'_>, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Walk { depth, keys: self.keys }),
            None => Err(E::custom("nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let below = self.below()?;
        while seq.next_element_seed(Walk { depth: below.depth, keys: below.keys })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let below = self.below()?;
        let mut seen = HashSet::new();
        while let Some(Key(key)) = map.next_key()? {
            *below.keys = below.keys.checked_sub(1).ok_or_else(|| {
                A::Error::custom(format_args!("more than {MAX_KEYS} object keys"))
            })?;
            if key.len() > MAX_KEY {
                return Err(A::Error::custom(format_args!("a key of more than {MAX_KEY} bytes")));
            }
            if let Some(Key(key)) = seen.replace(Key(key)) {
                return Err(A::Error::custom(format_args!("the key {key:?} occurs twice")));
            }
            map.next_value_seed(Walk { depth: below.depth, keys: below.keys })?;
        }
        Ok(())
    }
}

#[derive(PartialEq, Eq, Hash, serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
