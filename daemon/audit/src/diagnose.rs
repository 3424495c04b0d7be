//! Tells from the lines around the first one that does not fit what was done to a chain. Pure.

use crate::{
    files::Head,
    verify::{Bad, Mark, What},
};

/// What there is to go by.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The last line that fits.
    pub(crate) before: Option<&'a Mark>,
    /// The first one that does not.
    pub(crate) first: &'a Mark,
    /// Those after it.
    pub(crate) rest: &'a [Mark],
    /// The number and hash of `before`.
    pub(crate) good: Head,
    /// What the head file says.
    pub(crate) stored: Option<Head>,
}

/// Names the first bad record.
pub(crate) fn diagnose(evidence: &Evidence<'_>) -> Bad {
    let Evidence { first, rest, good, .. } = evidence;
    let missing = good.seq + 1;
    let at = |mark: &Mark, seq, what| Bad { place: mark.place.clone(), seq, what };
    let Some((seq, _)) = first.link else {
        return at(first, missing, What::Edited);
    };
    if rest.iter().any(|mark| mark.link == Some((missing, good.hash))) {
        // What should be here comes later: `first` is a stranger, or came too early.
        let what =
            if seq > missing && evidence.is_followed() { What::Reordered } else { What::Inserted };
        return at(first, seq, what);
    }
    let number_changed = match rest.first() {
        Some(next) => next.link.is_some_and(|(next, _)| next == missing + 1),
        None => evidence.stored.is_some_and(|stored| stored.seq == missing),
    };
    match (seq.cmp(&missing), evidence.before) {
        // The one before is not what this one was written after, and this one is as it was.
        (std::cmp::Ordering::Equal, Some(before)) if evidence.is_followed() => {
            at(before, good.seq, What::Edited)
        }
        (std::cmp::Ordering::Equal, _) => at(first, missing, What::Edited),
        (_, _) if number_changed => at(first, missing, What::Edited),
        (std::cmp::Ordering::Greater, _) => at(first, missing, What::Deleted(seq - 1)),
        (std::cmp::Ordering::Less, _) => at(first, seq, What::Inserted),
    }
}

impl Evidence<'_> {
    /// Whether another line, or the head, was written after `first` as it is.
    fn is_followed(&self) -> bool {
        let hash = self.first.hash;
        self.rest.iter().any(|mark| mark.link.is_some_and(|(_, prev)| prev == hash))
            || self.stored.is_some_and(|stored| stored.hash == hash)
    }
}
