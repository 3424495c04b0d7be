//! The order of two values of a key: which one is stricter, what applies if two profiles are combined,
//! what a file may set over the profile that it extends, and how a difference is described. Pure:
//! no I/O.

use super::value::{KeyValue, Single};
use crate::{
    ProfileError,
    access::Widening,
    diff::{Difference, Direction},
    document::Document,
    resolve::laxer::{WIDEN, laxer},
    stack::{common, union},
    written::List,
};
use std::{cmp::Ordering, collections::BTreeMap};
use toml::Spanned;

/// The order of the values of a key.
pub(crate) trait Order<T: KeyValue> {
    /// Returns the value of two profiles that are combined.
    fn both(&self, a: &T, b: &T) -> T;

    /// Returns the value of a file that extends a profile.
    fn over(&self, base: &T, own: &T::Written, file: OwnKey<'_>) -> Result<T, ProfileError>;

    /// Returns the differences of the second value from the first.
    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference>;
}

/// A key in the file that is resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnKey<'a> {
    pub(crate) document: &'a Document<'a>,
    pub(crate) key: &'static str,
    pub(crate) widening: Widening,
}

impl OwnKey<'_> {
    /// Refuses the key if the file may not widen.
    fn refuse_laxer(self, is_laxer: bool, why: &str) -> Result<(), ProfileError> {
        match self.widening {
            Widening::No if is_laxer => Err(laxer(self.document, self.key, why)),
            Widening::No | Widening::Yes => Ok(()),
        }
    }

    /// Refuses the first entry of a list that is not allowed, if the file may not widen.
    fn refuse_more<T: Single>(
        self,
        own: &List<T>,
        why: &str,
        is_allowed: impl Fn(&T) -> bool,
    ) -> Result<(), ProfileError> {
        let more = own.iter().find(|said| !is_allowed(said.get_ref()));
        match (more, self.widening) {
            (Some(said), Widening::No) => {
                let why = format!("{} {why} the extended profile", said.get_ref().shown());
                Err(self.document.wrong_at(said.span().start, self.key, why, WIDEN))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// A smaller value is stricter.
#[derive(Debug)]
pub(crate) struct Smaller;

impl<T: Single + Ord> Order<T> for Smaller {
    fn both(&self, a: &T, b: &T) -> T {
        a.min(b).clone()
    }

    fn over(&self, base: &T, own: &T, file: OwnKey<'_>) -> Result<T, ProfileError> {
        let why = format!("exceeds the {} of the extended profile", base.shown());
        file.refuse_laxer(own > base, &why)?;
        Ok(own.clone())
    }

    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference> {
        ordered(key, b.cmp(a), a, b)
    }
}

/// A greater value is stricter.
#[derive(Debug)]
pub(crate) struct Greater;

impl<T: Single + Ord> Order<T> for Greater {
    fn both(&self, a: &T, b: &T) -> T {
        a.max(b).clone()
    }

    fn over(&self, base: &T, own: &T, file: OwnKey<'_>) -> Result<T, ProfileError> {
        let why = format!("is below the {} of the extended profile", base.shown());
        file.refuse_laxer(own < base, &why)?;
        Ok(own.clone())
    }

    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference> {
        ordered(key, a.cmp(b), a, b)
    }
}

/// A later word is stricter. The text says what an earlier one does less than the extended profile,
/// such as `asks for approval less often`.
#[derive(Debug)]
pub(crate) struct LaterWord(pub(crate) &'static str);

impl<T: Single + Ord> Order<T> for LaterWord {
    fn both(&self, a: &T, b: &T) -> T {
        a.max(b).clone()
    }

    fn over(&self, base: &T, own: &T, file: OwnKey<'_>) -> Result<T, ProfileError> {
        file.refuse_laxer(own < base, &format!("{} than the extended profile", self.0))?;
        Ok(own.clone())
    }

    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference> {
        ordered(key, a.cmp(b), a, b)
    }
}

/// No value allows more than another. Of two profiles that are combined, one value applies.
#[derive(Debug)]
pub(crate) enum Neutral {
    SmallerApplies,
    GreaterApplies,
}

impl<T: Single + Ord> Order<T> for Neutral {
    fn both(&self, a: &T, b: &T) -> T {
        match self {
            Self::SmallerApplies => a.min(b).clone(),
            Self::GreaterApplies => a.max(b).clone(),
        }
    }

    fn over(&self, _: &T, own: &T, _: OwnKey<'_>) -> Result<T, ProfileError> {
        Ok(own.clone())
    }

    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference> {
        let what = || format!("{} → {}", a.shown(), b.shown());
        (a != b).then(|| Difference::new(Direction::Other, key, what())).into_iter().collect()
    }
}

/// A smaller value is stricter, but another key decides which ones a file may choose.
#[derive(Debug)]
pub(crate) struct Chosen;

impl<T: Single + Ord> Order<T> for Chosen {
    fn both(&self, a: &T, b: &T) -> T {
        a.min(b).clone()
    }

    fn over(&self, _: &T, own: &T, _: OwnKey<'_>) -> Result<T, ProfileError> {
        Ok(own.clone())
    }

    fn differences(&self, key: &str, a: &T, b: &T) -> Vec<Difference> {
        ordered(key, b.cmp(a), a, b)
    }
}

/// Each entry of the list allows something. A file that widens adds entries, any other names those
/// that stay. The text says what an entry is that the extended profile lacks, such as `is not
/// passed in`.
#[derive(Debug)]
pub(crate) struct Allowing(pub(crate) &'static str);

impl<T: Single> Order<Vec<T>> for Allowing {
    fn both(&self, a: &Vec<T>, b: &Vec<T>) -> Vec<T> {
        common(a, b)
    }

    fn over(&self, base: &Vec<T>, own: &List<T>, file: OwnKey<'_>) -> Result<Vec<T>, ProfileError> {
        file.refuse_more(own, self.0, |entry| base.contains(entry))?;
        Ok(match file.widening {
            Widening::Yes => union(base, &values(own)),
            Widening::No => values(own),
        })
    }

    fn differences(&self, key: &str, a: &Vec<T>, b: &Vec<T>) -> Vec<Difference> {
        entries(key, Direction::More, a, b)
    }
}

/// The list of all that is allowed; everything is if it is absent.
impl<T: Single> Order<Option<Vec<T>>> for Allowing {
    fn both(&self, a: &Option<Vec<T>>, b: &Option<Vec<T>>) -> Option<Vec<T>> {
        match (a, b) {
            (Some(a), Some(b)) => Some(common(a, b)),
            (one, other) => one.clone().or_else(|| other.clone()),
        }
    }

    fn over(
        &self,
        base: &Option<Vec<T>>,
        own: &List<T>,
        file: OwnKey<'_>,
    ) -> Result<Option<Vec<T>>, ProfileError> {
        match base {
            Some(base) => self.over(base, own, file).map(Some),
            None => Ok(Some(values(own))),
        }
    }

    fn differences(&self, key: &str, a: &Option<Vec<T>>, b: &Option<Vec<T>>) -> Vec<Difference> {
        let change = |direction, what| vec![Difference::new(direction, key, what)];
        match (a, b) {
            (None, None) => Vec::new(),
            (Some(a), Some(b)) => entries(key, Direction::More, a, b),
            (None, Some(b)) => {
                let only = b.iter().map(T::shown).collect::<Vec<_>>().join(", ");
                change(Direction::Less, format!("only {only}"))
            }
            (Some(_), None) => change(Direction::More, "all".to_owned()),
        }
    }
}

/// Each entry of the list allows something, and a file's own list replaces the inherited one also
/// if the file widens. The text is as for [`Allowing`].
#[derive(Debug)]
pub(crate) struct Choosing(pub(crate) &'static str);

impl<T: Single> Order<Vec<T>> for Choosing {
    fn both(&self, a: &Vec<T>, b: &Vec<T>) -> Vec<T> {
        common(a, b)
    }

    fn over(&self, base: &Vec<T>, own: &List<T>, file: OwnKey<'_>) -> Result<Vec<T>, ProfileError> {
        file.refuse_more(own, self.0, |entry| base.contains(entry))?;
        Ok(values(own))
    }

    fn differences(&self, key: &str, a: &Vec<T>, b: &Vec<T>) -> Vec<Difference> {
        entries(key, Direction::More, a, b)
    }
}

/// Each entry of the list denies something, or demands something more. Entries are only added.
#[derive(Debug)]
pub(crate) struct Restricting;

impl<T: Single> Order<Vec<T>> for Restricting {
    fn both(&self, a: &Vec<T>, b: &Vec<T>) -> Vec<T> {
        union(a, b)
    }

    fn over(&self, base: &Vec<T>, own: &List<T>, _: OwnKey<'_>) -> Result<Vec<T>, ProfileError> {
        Ok(union(base, &values(own)))
    }

    fn differences(&self, key: &str, a: &Vec<T>, b: &Vec<T>) -> Vec<Difference> {
        entries(key, Direction::Less, a, b)
    }
}

/// No value allows more than another, and the one that is named last applies.
#[derive(Debug)]
pub(crate) struct Last;

impl<T: Single> Order<Vec<T>> for Last {
    fn both(&self, a: &Vec<T>, b: &Vec<T>) -> Vec<T> {
        if b.is_empty() { a.clone() } else { b.clone() }
    }

    fn over(&self, _: &Vec<T>, own: &List<T>, _: OwnKey<'_>) -> Result<Vec<T>, ProfileError> {
        Ok(values(own))
    }

    fn differences(&self, key: &str, a: &Vec<T>, b: &Vec<T>) -> Vec<Difference> {
        entries(key, Direction::Other, a, b)
    }
}

impl<K: Single + Ord> Order<BTreeMap<K, String>> for Last {
    fn both(&self, a: &BTreeMap<K, String>, b: &BTreeMap<K, String>) -> BTreeMap<K, String> {
        let all = a.iter().chain(b);
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn over(
        &self,
        base: &BTreeMap<K, String>,
        own: &BTreeMap<K, Spanned<String>>,
        _: OwnKey<'_>,
    ) -> Result<BTreeMap<K, String>, ProfileError> {
        let own = own.iter().map(|(name, value)| (name.clone(), value.get_ref().clone())).collect();
        Ok(self.both(base, &own))
    }

    fn differences(
        &self,
        key: &str,
        a: &BTreeMap<K, String>,
        b: &BTreeMap<K, String>,
    ) -> Vec<Difference> {
        let texts = |map: &BTreeMap<K, String>| -> Vec<String> {
            map.iter().map(|(name, value)| format!("{}={value}", name.shown())).collect()
        };
        crate::diff::list(key, Direction::Other, (&texts(a), &texts(b)), String::clone)
    }
}

/// Describes a changed value; a laxer one compares as greater.
fn ordered<T: Single>(key: &str, order: Ordering, a: &T, b: &T) -> Vec<Difference> {
    crate::diff::ordered(key, order, (a.shown(), b.shown())).into_iter().collect()
}

fn entries<T: Single>(key: &str, entry: Direction, a: &[T], b: &[T]) -> Vec<Difference> {
    crate::diff::list(key, entry, (a, b), T::shown)
}

/// Returns the entries of a list without their source positions.
pub(crate) fn values<T: Clone>(list: &List<T>) -> Vec<T> {
    list.iter().map(|said| said.get_ref().clone()).collect()
}
