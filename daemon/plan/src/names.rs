//! Names inside the workspace that a session does not see, or sees and can not change: patterns as
//! in a `.gitignore`, matched against bytes. Pure.

mod kept;
mod pattern;

pub use kept::{Kept, KeptDirectory};
pub use pattern::{Kind, Pattern, PatternError};

use bincode::{Decode, Encode};

/// What is hidden and what is protected. A name is, if one of the lists says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Names {
    /// They do not exist for the session.
    pub hide: Vec<NameList>,
    /// They can be read and not be changed.
    pub protect: Vec<NameList>,
}

/// Patterns in order; of those that match, the last decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct NameList(pub Vec<String>);

/// Which pattern matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The number of its list.
    pub list: usize,
    /// Its number there.
    pub pattern: usize,
}

/// Lists that can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    lists: Vec<Vec<Pattern>>,
}

/// Both kinds of lists, ready to be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Veil {
    /// What is hidden.
    pub hidden: Matcher,
    /// What is protected.
    pub protected: Matcher,
}

impl Names {
    /// Whether nothing is hidden or protected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hide.is_empty() && self.protect.is_empty()
    }
}

impl Veil {
    /// Reads the patterns.
    ///
    /// # Errors
    /// The first that is none.
    pub fn new(names: &Names) -> Result<Self, PatternError> {
        Ok(Self { hidden: Matcher::new(&names.hide)?, protected: Matcher::new(&names.protect)? })
    }
}

impl Matcher {
    /// Reads the patterns.
    ///
    /// # Errors
    /// The first that is none.
    pub fn new(lists: &[NameList]) -> Result<Self, PatternError> {
        let list = |list: &NameList| list.0.iter().map(|text| Pattern::parse(text)).collect();
        Ok(Self { lists: lists.iter().map(list).collect::<Result<_, _>>()? })
    }

    /// Whether nothing ever matches.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// What decides that an entry is meant, or something above it. The path is relative to the
    /// workspace.
    #[must_use]
    pub fn covers(&self, path: &[u8], kind: Kind) -> Option<Hit> {
        if self.lists.is_empty() {
            return None;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = ends.filter_map(|end| self.names(path.get(..end)?, Kind::Directory));
        above.chain(self.names(path, kind)).next()
    }

    /// What decides that an entry itself is meant, whatever is above it.
    #[must_use]
    pub fn names(&self, path: &[u8], kind: Kind) -> Option<Hit> {
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..)),
            None => (&[][..], Some(path)),
        };
        self.entry(directory, name.unwrap_or_default(), kind)
    }

    /// The same for a name in a directory, which is empty for the workspace itself.
    #[must_use]
    pub fn entry(&self, directory: &[u8], name: &[u8], kind: Kind) -> Option<Hit> {
        if name.is_empty() {
            return None;
        }
        if kind == Kind::Either {
            // An exception for the one kind takes nothing back of the other.
            let other = self.entry(directory, name, Kind::Other);
            return other.or_else(|| self.entry(directory, name, Kind::Directory));
        }
        self.lists.iter().enumerate().find_map(|(list, patterns)| {
            let matching = patterns.iter().enumerate().rev();
            let mut matching = matching.filter(|(_, one)| one.matches(directory, name, kind));
            let (pattern, last) = matching.next()?;
            (!last.is_exception()).then_some(Hit { list, pattern })
        })
    }

    /// Names that are meant at any depth by themselves: they can be kept out of a directory before
    /// they are there.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.lists.iter().flatten().filter_map(Pattern::literal)
    }
}

#[cfg(test)]
mod tests;
