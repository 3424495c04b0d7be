//! What a profile says of transactions: which effects of a command are asked about before they
//! count, and which never are. Pure.

use crate::{access::Widening, rules::glob, size::Size};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Whether a kind of effect is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    Allow,
    Ask,
}

/// `[transactions]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Transactions {
    /// What was there before and is gone.
    pub(crate) deletions: Held,
    /// What was there before and has other contents.
    pub(crate) replacements: Held,
    /// More entries than this are asked about, whatever happens to them.
    pub(crate) most_files: NonZeroU64,
    /// More bytes than this are asked about.
    pub(crate) most_bytes: Size,
    /// What may come and go unasked.
    pub(crate) noise: Vec<Noise>,
    /// What may be written over unasked, but not be deleted.
    pub(crate) rewritten: Vec<Noise>,
    /// Where what a command writes is kept until it counts.
    pub(crate) upper: Upper,
    /// What is on the disk before it counts.
    pub(crate) durable: Durable,
}

/// Where what a command writes is kept until it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Upper {
    Memory,
    Disk,
}

/// What is on the disk before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durable {
    No,
    Replaced,
    All,
}

/// A path below the workspace, at any depth; with a slash at its end all that is below it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Noise(String);

impl TryFrom<String> for Noise {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}"));
        let body = text.strip_suffix('/').unwrap_or(&text);
        if body.is_empty() || body.starts_with('/') || body.starts_with('$') {
            return wrong("is not a path below the workspace");
        }
        if body.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return wrong("has an empty name, `.` or `..` in it");
        }
        if body.chars().all(|letter| matches!(letter, '*' | '/')) {
            return wrong("is everything: then nothing would be asked about");
        }
        Ok(Self(text))
    }
}

impl From<Noise> for String {
    fn from(noise: Noise) -> Self {
        noise.0
    }
}

impl Noise {
    /// As it is written.
    pub(crate) fn shown(&self) -> String {
        self.0.clone()
    }

    /// Whether it is about a path, which is relative to the workspace.
    fn is(&self, path: &[u8]) -> bool {
        match self.0.strip_suffix('/') {
            None => glob::matches(format!("**/{}", self.0).as_bytes(), path),
            Some(directory) => glob::matches(format!("**/{directory}/**").as_bytes(), path),
        }
    }
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            deletions: Held::Ask,
            replacements: Held::Ask,
            most_files: NonZeroU64::MIN.saturating_add(9_999),
            most_bytes: Size::gib(1),
            noise: Vec::new(),
            rewritten: Vec::new(),
            upper: Upper::Memory,
            durable: Durable::Replaced,
        }
    }
}

/// `[transactions]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TransactionsText {
    deletions: Option<Held>,
    replacements: Option<Held>,
    most_files: Option<NonZeroU64>,
    most_bytes: Option<Size>,
    noise: Option<Vec<Noise>>,
    rewritten: Option<Vec<Noise>>,
    upper: Option<Upper>,
    durable: Option<Durable>,
}

impl Transactions {
    /// What both let pass.
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        let common = |a: &[Noise], b: &[Noise]| -> Vec<Noise> {
            a.iter().filter(|noise| b.contains(noise)).cloned().collect()
        };
        Self {
            deletions: self.deletions.max(other.deletions),
            replacements: self.replacements.max(other.replacements),
            most_files: self.most_files.min(other.most_files),
            most_bytes: self.most_bytes.min(other.most_bytes),
            noise: common(&self.noise, &other.noise),
            rewritten: common(&self.rewritten, &other.rewritten),
            upper: self.upper.max(other.upper),
            durable: self.durable.max(other.durable),
        }
    }

    /// How transactions are kept.
    pub(crate) const fn kept(&self) -> palisade_plan::Transactions {
        palisade_plan::Transactions {
            upper: match self.upper {
                Upper::Memory => palisade_plan::Upper::Memory,
                Upper::Disk => palisade_plan::Upper::Disk,
            },
            durable: match self.durable {
                Durable::No => palisade_plan::Durable::No,
                Durable::Replaced => palisade_plan::Durable::Replaced,
                Durable::All => palisade_plan::Durable::All,
            },
        }
    }

    /// What is written in place of what was; or the first key that is laxer, unless it may be.
    pub(crate) fn with(
        &self,
        text: TransactionsText,
        widening: Widening,
    ) -> Result<Self, (&'static str, String)> {
        let new = Self {
            deletions: text.deletions.unwrap_or(self.deletions),
            replacements: text.replacements.unwrap_or(self.replacements),
            most_files: text.most_files.unwrap_or(self.most_files),
            most_bytes: text.most_bytes.unwrap_or(self.most_bytes),
            noise: text.noise.unwrap_or_else(|| self.noise.clone()),
            rewritten: text.rewritten.unwrap_or_else(|| self.rewritten.clone()),
            upper: text.upper.unwrap_or(self.upper),
            durable: text.durable.unwrap_or(self.durable),
        };
        if widening == Widening::Yes {
            return Ok(new);
        }
        let asks = "asks less than what the profile extends";
        let more = |own: &[Noise], base: &[Noise]| {
            own.iter().find(|noise| !base.contains(noise)).map(Noise::shown)
        };
        if new.deletions < self.deletions {
            return Err(("transactions.deletions", asks.to_owned()));
        }
        if new.replacements < self.replacements {
            return Err(("transactions.replacements", asks.to_owned()));
        }
        if new.most_files > self.most_files {
            return Err(("transactions.most_files", asks.to_owned()));
        }
        if new.most_bytes > self.most_bytes {
            return Err(("transactions.most_bytes", asks.to_owned()));
        }
        if let Some(noise) = more(&new.noise, &self.noise) {
            return Err(("transactions.noise", format!("has {noise:?}, which is asked about")));
        }
        if let Some(noise) = more(&new.rewritten, &self.rewritten) {
            return Err(("transactions.rewritten", format!("has {noise:?}, which is asked about")));
        }
        Ok(new)
    }

    /// Whether what becomes of a path, which is relative to the workspace, is never asked about.
    pub(crate) fn is_noise(&self, path: &[u8]) -> bool {
        self.noise.iter().any(|noise| noise.is(path))
    }

    /// Whether a path may be written over unasked.
    pub(crate) fn is_rewritten(&self, path: &[u8]) -> bool {
        self.rewritten.iter().any(|noise| noise.is(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(text: &str) -> Noise {
        Noise::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn noise_is_at_any_depth() {
        for (pattern, path, expected) in [
            ("target/", "target", true),
            ("target/", "target/debug/x", true),
            ("target/", "a/b/target/x", true),
            ("target/", "targets/x", false),
            ("*.pyc", "a/b.pyc", true),
            ("*.pyc", "a/b.pyc/c", false),
            (".git/index", ".git/index", true),
            (".git/index", "sub/.git/index", true),
            (".git/index", ".git/index/x", false),
            (".git/refs/", ".git/refs/heads/main", true),
            (".git/refs/", ".git", false),
        ] {
            assert_eq!(noise(pattern).is(path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_would_be_everything_is_refused() {
        for bad in ["", "/", "/etc", "**", "*/", "**/*", "../x", "a//b", "$HOME/x", "./a"] {
            assert!(Noise::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_stack_lets_pass_what_both_do() {
        let lax = Transactions {
            deletions: Held::Allow,
            noise: vec![noise("a/"), noise("b/")],
            ..Transactions::default()
        };
        let strict = Transactions { noise: vec![noise("b/")], ..Transactions::default() };
        let both = lax.stricter(&strict);
        assert_eq!((both.deletions, both.noise), (Held::Ask, vec![noise("b/")]));
    }
}
