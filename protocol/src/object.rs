//! Reads JSON objects into structs. Only objects are accepted, because serde would also take an
//! array of the fields in order. Errors carry the path of the field.

use crate::limits::MAX_LIST;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use std::{fmt, marker::PhantomData};

/// Deserializes a struct from a JSON object only: `#[serde(deserialize_with = "object::only")]`.
pub(crate) fn only<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

/// Parses `text`, which must be a JSON object. The error names the field instead of the line and
/// column.
pub(crate) fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let value = only(tracked);
    let path = track.path().to_string();
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|e: serde_json::Error| {
        let text = e.to_string();
        let what = text.split_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        if path == "." { what.to_owned() } else { format!("`{path}`: {what}") }
    })
}

/// Deserializes a list of at most [`MAX_LIST`] entries: `#[serde(deserialize_with =
/// "object::list")]`.
///
/// Without the limit, a line full of empty strings would take many times its size in memory.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List(PhantomData))
}

/// Deserializes a list like [`list`] does, but also accepts `null`.
pub(crate) fn optional_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_option(OptionalList(PhantomData))
}

struct OptionalList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalList<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        list(deserializer).map(Some)
    }
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            if list.len() == MAX_LIST {
                return Err(A::Error::custom(format_args!("more than {MAX_LIST} entries")));
            }
            list.push(item);
        }
        Ok(list)
    }
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
