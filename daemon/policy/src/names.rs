//! `fs.hide` and `fs.protect`: name patterns for the workspace, each entry with its source
//! position. Pure: no I/O.

use crate::{keys::noun, source::WithOrigin, written::List};
use palisade_plan::names::{Kind, Matcher, NameList, Pattern};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::fmt;
use toml::Spanned;

/// The entry that stands for every name in the table of plants.
pub(crate) const ALL_PLANTS: &str = "$PLANTS";

/// The entry that stands for every name that usually holds secrets.
pub(crate) const ALL_SECRETS: &str = "$SECRETS";

/// A name pattern as it is written in a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct NameEntry(pub(crate) String);

impl TryFrom<String> for NameEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if [ALL_PLANTS, ALL_SECRETS].contains(&text.as_str()) {
            return Ok(Self(text));
        }
        Pattern::parse(&text).map_err(|error| error.to_string())?;
        Ok(Self(text))
    }
}

/// The value of `fs.hide` or `fs.protect` in a profile file: a list of patterns, or several such
/// lists. An exception in one list does not apply to the others.
#[derive(Debug)]
pub(crate) struct NameLists(pub(crate) Vec<List<NameEntry>>);

noun! { NameLists: "list of patterns", "lists of patterns"; }

impl NameLists {
    /// Returns the patterns of all lists.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Spanned<NameEntry>> {
        self.0.iter().flatten()
    }
}

impl<'de> Deserialize<'de> for NameLists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut names, mut lists) = (Vec::new(), Vec::new());
        for one in List::<NameOrList>::deserialize(deserializer)? {
            let span = one.span();
            match one.into_inner() {
                NameOrList::Name(name) => names.push(Spanned::new(span, name)),
                NameOrList::List(list) => lists.push(list),
            }
        }
        match (names.is_empty(), lists.is_empty()) {
            (_, true) => Ok(Self(vec![names])),
            (true, false) => Ok(Self(lists)),
            (false, false) => Err(D::Error::custom("has both names and lists of names")),
        }
    }
}

/// An element of `fs.hide` or `fs.protect`.
enum NameOrList {
    Name(NameEntry),
    List(List<NameEntry>),
}

impl<'de> Deserialize<'de> for NameOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Element;
        impl<'de> Visitor<'de> for Element {
            type Value = NameOrList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name pattern, or a list of name patterns")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<NameOrList, E> {
                NameEntry::try_from(text.to_owned()).map(NameOrList::Name).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<NameOrList, A::Error> {
                List::deserialize(SeqAccessDeserializer::new(list)).map(NameOrList::List)
            }
        }
        deserializer.deserialize_any(Element)
    }
}

/// The patterns of one profile file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternList(pub(crate) Vec<WithOrigin<NameEntry>>);

impl Serialize for PatternList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|said| &said.value))
    }
}

/// Selects one of the two keys, `fs.hide` and `fs.protect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameListKey {
    Hide,
    Protect,
}

impl NameListKey {
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Hide => "fs.hide",
            Self::Protect => "fs.protect",
        }
    }

    pub(crate) const fn done(self) -> &'static str {
        match self {
            Self::Hide => "hidden",
            Self::Protect => "protected",
        }
    }
}

/// Combines the lists of two profiles: a name is hidden or protected if any of the lists matches
/// it.
pub(crate) fn union(a: &[PatternList], b: &[PatternList]) -> Vec<PatternList> {
    let same = |one: &PatternList, other: &PatternList| texts(one) == texts(other);
    let more = b.iter().filter(|list| !a.iter().any(|known| same(known, list)));
    a.iter().chain(more).cloned().collect()
}

fn texts(list: &PatternList) -> Vec<&str> {
    list.0.iter().map(|said| said.value.0.as_str()).collect()
}

/// Converts the lists to the form in which the cell receives them.
pub(crate) fn to_lists(lists: &[PatternList]) -> Vec<NameList> {
    let list =
        |list: &PatternList| NameList(list.0.iter().map(|said| said.value.0.clone()).collect());
    lists.iter().map(list).collect()
}

/// Formats an entry's source position in parentheses.
pub(crate) fn place(said: &WithOrigin<NameEntry>) -> String {
    said.at.as_ref().map_or_else(String::new, |at| format!(" ({at})"))
}

/// Returns the entry that decides about a path, which is relative to the workspace.
pub(crate) fn deciding_entry<'a>(
    lists: &'a [PatternList],
    path: &[u8],
) -> Option<&'a WithOrigin<NameEntry>> {
    let hit = Matcher::new(&to_lists(lists)).ok()?.covers(path, Kind::Either)?;
    lists.get(hit.list)?.0.get(hit.pattern)
}
