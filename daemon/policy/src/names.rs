//! `fs.hide` and `fs.protect`: names inside the workspace, each list with the places of its entries.

use crate::source::Said;
use palisade_plan::names::{Kind, Matcher, NameList, Pattern};
use serde::{Deserialize, Serialize};

/// A pattern as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct NameEntry(pub(crate) String);

impl TryFrom<String> for NameEntry {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Pattern::parse(&text).map_err(|error| error.to_string())?;
        Ok(Self(text))
    }
}

/// The patterns of one file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed(pub(crate) Vec<Said<NameEntry>>);

impl Serialize for Listed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|said| &said.value))
    }
}

/// Which of the two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Hide,
    Protect,
}

impl Which {
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

/// The lists of several profiles: a name is meant if one of them means it.
pub(crate) fn union(a: &[Listed], b: &[Listed]) -> Vec<Listed> {
    let same = |one: &Listed, other: &Listed| texts(one) == texts(other);
    let more = b.iter().filter(|list| !a.iter().any(|known| same(known, list)));
    a.iter().chain(more).cloned().collect()
}

fn texts(list: &Listed) -> Vec<&str> {
    list.0.iter().map(|said| said.value.0.as_str()).collect()
}

/// As the cell is told.
pub(crate) fn told(lists: &[Listed]) -> Vec<NameList> {
    let list = |list: &Listed| NameList(list.0.iter().map(|said| said.value.0.clone()).collect());
    lists.iter().map(list).collect()
}

/// Where an entry stands, in brackets.
pub(crate) fn place(said: &Said<NameEntry>) -> String {
    said.at.as_ref().map_or_else(String::new, |at| format!(" ({at})"))
}

/// The entry that decides about a path, which is relative to the workspace.
pub(crate) fn deciding<'a>(lists: &'a [Listed], path: &[u8]) -> Option<&'a Said<NameEntry>> {
    let hit = Matcher::new(&told(lists)).ok()?.covers(path, Kind::Either)?;
    lists.get(hit.list)?.0.get(hit.pattern)
}
