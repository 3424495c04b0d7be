//! The record of a change set, written before it is committed. It lists as many paths as there is
//! room for, with exact counts and one digest of all of them. Pure: no I/O.

use crate::{clean::CleanText, hash::Hash};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The number of effects that are kept from each end of the list.
const ENTRIES: usize = 64;
/// The number of bytes of effects that are kept from each end.
const BYTES: usize = 16 << 10;

/// The changes that a call is about to make. Written before they are committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// The id of the call.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// Digest of the whole change set. If approval was requested, it is bound to this.
    pub change: Hash,
    /// Number of effects by kind.
    pub counts: BTreeMap<String, u64>,
    /// The first effects, in order.
    pub effects: Vec<CommittedEffect>,
    /// Number of effects that are left out after those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The last effects, if some are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<CommittedEffect>,
    /// SHA-256 over all effects, each as compact JSON followed by a newline.
    pub digest: Hash,
    /// True if the changes are committed without an undo record.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_undo: bool,
}

/// The effect on one path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedEffect {
    /// The path afterwards, or the earlier path of something deleted.
    pub path: CleanText,
    /// The kind of effect: `created`, `replaced`, `deleted` and so on.
    pub effect: String,
    /// The earlier path, if it is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CleanText>,
    /// The target, if it is a symbolic link afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<CleanText>,
    /// Number of entries, for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Size in bytes before, for a file.
    pub size_before: u64,
    /// Size in bytes afterwards.
    pub size: u64,
    /// Permission bits afterwards, for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// SHA-256 of what is there afterwards: the contents of a file, or names, kinds, modes and
    /// contents of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Hash>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Effects {
    /// Creates the record, keeping as many effects as there is room for.
    ///
    /// # Errors
    /// If an effect can not be written as JSON.
    pub fn new(
        (call_id, session): (String, String),
        change: Hash,
        all: impl Iterator<Item = CommittedEffect>,
    ) -> Result<Self, serde_json::Error> {
        let mut hasher = Hash::begin();
        let mut counts = BTreeMap::new();
        let (mut effects, mut room) = (Vec::new(), BYTES);
        let mut last: VecDeque<(CommittedEffect, usize)> = VecDeque::new();
        let (mut held, mut left_out) = (0, 0);
        for effect in all {
            let mut line = serde_json::to_vec(&effect)?;
            line.push(b'\n');
            hasher.add(&line);
            *counts.entry(effect.effect.clone()).or_default() += 1;
            if left_out == 0 && last.is_empty() && effects.len() < ENTRIES && line.len() <= room {
                room -= line.len();
                effects.push(effect);
                continue;
            }
            held += line.len();
            last.push_back((effect, line.len()));
            while last.len() > ENTRIES || held > BYTES {
                let Some((_, bytes)) = last.pop_front() else { break };
                (held, left_out) = (held - bytes, left_out + 1);
            }
        }
        let last: Vec<_> = last.into_iter().map(|(effect, _)| effect).collect();
        // If nothing is left out, both parts form one list.
        let (rest, last) = if left_out == 0 { (last, Vec::new()) } else { (Vec::new(), last) };
        effects.extend(rest);
        let digest = hasher.end();
        Ok(Self {
            call_id,
            session,
            change,
            counts,
            effects,
            left_out,
            last,
            digest,
            no_undo: false,
        })
    }

    /// Returns the counts in words, and whether undo is impossible: `2 created, 1 deleted, no undo`.
    #[must_use]
    pub fn summary(&self) -> String {
        let each = |(kind, count): (&String, &u64)| format!("{count} {kind}");
        let no_undo = self.no_undo.then(|| "no undo".to_owned());
        self.counts.iter().map(each).chain(no_undo).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(path: &str, effect: &str) -> CommittedEffect {
        let (path, effect) = (CleanText::new(path), effect.to_owned());
        CommittedEffect { path, effect, size: 1, ..CommittedEffect::default() }
    }

    fn recorded(all: &[CommittedEffect]) -> Effects {
        let ids = ("c".to_owned(), "s".to_owned());
        Effects::new(ids, Hash::ZERO, all.iter().cloned()).unwrap()
    }

    #[test]
    fn a_short_list_is_whole_and_its_digest_can_be_computed_again() {
        let all = [effect("/w/a", "created"), effect("/w/b", "deleted"), effect("/w/c", "created")];
        let found = recorded(&all);
        assert_eq!((found.effects.as_slice(), found.left_out), (all.as_slice(), 0));
        assert_eq!(found.summary(), "2 created, 1 deleted");
        let lines: Vec<String> =
            all.iter().map(|one| format!("{}\n", serde_json::to_string(one).unwrap())).collect();
        assert_eq!(found.digest, Hash::of(lines.concat().as_bytes()));
        let json = serde_json::to_string(&found).unwrap();
        assert!(!json.contains("left_out") && !json.contains("no_undo"), "{json}");
        let without = Effects { no_undo: true, ..found };
        assert_eq!(without.summary(), "2 created, 1 deleted, no undo");
        let json = serde_json::to_string(&without).unwrap();
        assert_eq!(serde_json::from_str::<Effects>(&json).unwrap(), without);
    }

    #[test]
    fn a_long_list_keeps_both_ends_exact_counts_and_the_digest_of_all() {
        let all: Vec<_> = (0..50_000).map(|n| effect(&format!("/w/{n}"), "created")).collect();
        let found = recorded(&all);
        assert_eq!(found.effects, all[..ENTRIES]);
        assert_eq!(found.last, all[50_000 - ENTRIES..]);
        assert_eq!(found.left_out, 50_000 - 2 * ENTRIES as u64);
        assert_eq!(found.counts["created"], 50_000);
        let mut other = all.clone();
        other[25_000] = effect("/w/other", "created");
        assert_ne!(recorded(&other).digest, found.digest, "what is left out is in the digest");
        // Exactly as many as there is room for.
        let found = recorded(&all[..2 * ENTRIES]);
        assert_eq!((found.effects.len(), found.left_out), (2 * ENTRIES, 0));
    }

    #[test]
    fn long_paths_do_not_make_a_long_record() {
        let all: Vec<_> = (0..300).map(|n| effect(&format!("/{n:04000}"), "deleted")).collect();
        let found = recorded(&all);
        assert!(serde_json::to_string(&found).unwrap().len() < 3 * BYTES);
        assert_eq!(found.effects.len() + found.last.len() + found.left_out as usize, 300);
        assert_eq!(found.last.last(), all.last());
    }
}
