//! Names inside the workspace that a session does not see, or sees and can not change. They are
//! given as patterns like those of a `.gitignore`, matched against bytes. Pure: no I/O.

mod kept;
mod pattern;

pub use kept::{StoredDirectory, StoredScan};
pub use pattern::{Kind, Pattern, PatternError};

use bincode::{Decode, Encode};

/// The hidden and the protected names. A name is hidden or protected if any one of the lists says
/// so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Names {
    /// Names that do not exist for the session.
    pub hide: Vec<NameList>,
    /// Names that the session can read but not change.
    pub protect: Vec<NameList>,
}

/// Patterns in order. The last one that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct NameList(pub Vec<String>);

/// The position of the pattern that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The index of the list.
    pub list: usize,
    /// The index of the pattern in the list.
    pub pattern: usize,
}

/// Parsed lists of patterns, ready for matching.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    lists: Vec<Vec<Pattern>>,
}

/// Matchers for hidden and for protected names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameMatchers {
    /// The hidden names.
    pub hidden: Matcher,
    /// The protected names.
    pub protected: Matcher,
}

impl Names {
    /// Returns `true` if nothing is hidden or protected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hide.is_empty() && self.protect.is_empty()
    }
}

impl NameMatchers {
    /// Parses the patterns.
    ///
    /// # Errors
    /// Returns the first invalid pattern.
    pub fn new(names: &Names) -> Result<Self, PatternError> {
        Ok(Self { hidden: Matcher::new(&names.hide)?, protected: Matcher::new(&names.protect)? })
    }
}

impl Matcher {
    /// Parses the patterns.
    ///
    /// # Errors
    /// Returns the first invalid pattern.
    pub fn new(lists: &[NameList]) -> Result<Self, PatternError> {
        let list = |list: &NameList| list.0.iter().map(|text| Pattern::parse(text)).collect();
        Ok(Self { lists: lists.iter().map(list).collect::<Result<_, _>>()? })
    }

    /// Parses a pattern and adds it to the end of the last list.
    ///
    /// # Errors
    /// If the pattern is invalid.
    pub fn push(&mut self, text: &str) -> Result<(), PatternError> {
        let pattern = Pattern::parse(text)?;
        match self.lists.last_mut() {
            Some(list) => list.push(pattern),
            None => self.lists.push(vec![pattern]),
        }
        Ok(())
    }

    /// Returns `true` if there are no lists, so that nothing ever matches.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Finds the pattern that matches an entry or a directory above it. The path is relative to the
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

    /// Finds the pattern that matches an entry itself, whatever matches above it.
    #[must_use]
    pub fn names(&self, path: &[u8], kind: Kind) -> Option<Hit> {
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..)),
            None => (&[][..], Some(path)),
        };
        self.entry(directory, name.unwrap_or_default(), kind)
    }

    /// Finds the pattern that matches a name in a directory; the path of the workspace itself is
    /// empty.
    #[must_use]
    pub fn entry(&self, directory: &[u8], name: &[u8], kind: Kind) -> Option<Hit> {
        if name.is_empty() {
            return None;
        }
        if kind == Kind::Either {
            // An exception for one kind does not apply to the other.
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

    /// Iterates over the literal names that are matched at any depth. They can be kept out of a
    /// directory before they exist.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.lists.iter().flatten().filter_map(Pattern::literal)
    }
}

#[cfg(test)]
mod tests;
