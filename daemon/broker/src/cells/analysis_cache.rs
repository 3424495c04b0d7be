//! The analyses of the lines that a session ran lately, so that a line which comes again is not
//! parsed again: an analysis depends on the text alone. Runs in the broker. Pure: no I/O.

use palisade_policy::analysis::CommandAnalysis;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of analyses that are kept.
const MOST: usize = 32;

/// The longest text whose analysis is kept, in bytes.
const LONGEST: usize = 1024;

/// The last analyses of one session. Sessions share none: a user can not find out by the time that
/// an answer takes what another one ran.
#[derive(Debug, Default)]
pub(crate) struct AnalysisCache(Mutex<VecDeque<(String, CommandAnalysis)>>);

impl AnalysisCache {
    /// Returns the analysis of a text, if it is still known.
    pub(crate) fn get(&self, text: &str) -> Option<CommandAnalysis> {
        let mut kept = self.kept();
        let place = kept.iter().position(|(known, _)| known == text)?;
        let found = kept.remove(place)?;
        let analysis = found.1.clone();
        kept.push_back(found);
        Some(analysis)
    }

    /// Keeps the analysis of a text. The one that was not used for the longest time makes room.
    pub(crate) fn put(&self, text: String, analysis: &CommandAnalysis) {
        if text.len() > LONGEST {
            return;
        }
        let mut kept = self.kept();
        kept.retain(|(known, _)| *known != text);
        while kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back((text, analysis.clone()));
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(String, CommandAnalysis)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::analysis::{Kind, RawFinding};

    fn analysis(of: &str) -> CommandAnalysis {
        let found = vec![RawFinding::whole(Kind::Hidden, of, "a reason")];
        CommandAnalysis { found, ..CommandAnalysis::default() }
    }

    #[test]
    fn each_text_has_its_own_analysis_and_the_least_used_goes_first() {
        let cache = AnalysisCache::default();
        for number in 0..MOST {
            let text = format!("{number:->number$}");
            cache.put(text.clone(), &analysis(&text));
        }
        let first = "0";
        assert_eq!(cache.get(first), Some(analysis(first)));
        cache.put("another".to_owned(), &analysis("another"));
        assert_eq!(cache.get(first), Some(analysis(first)), "it was used just before");
        assert_eq!(cache.get("1"), None, "it made room");
        assert_eq!(cache.get("another"), Some(analysis("another")));
        assert_eq!(cache.get("anothe"), None);
    }

    #[test]
    fn a_long_text_is_not_kept() {
        let cache = AnalysisCache::default();
        for (length, kept) in [(LONGEST, true), (LONGEST + 1, false)] {
            let text = "x".repeat(length);
            cache.put(text.clone(), &analysis("x"));
            assert_eq!(cache.get(&text).is_some(), kept);
        }
    }
}
