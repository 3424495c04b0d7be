//! Outputs that a result had to cut and the daemon did not store, kept to be read by pages.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// The maximum size of all kept outputs together, in bytes. The oldest are dropped first.
const MAX_KEPT: usize = 16 << 20;

/// Says how to read what a result leaves out of a text, from this byte on.
pub(crate) fn reads_on(call: &str, offset: usize) -> String {
    format!("read_output with call_id \"{call}\" and offset {offset} reads on")
}

/// A part of an output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextPage {
    pub(crate) text: String,
    /// The position after the page, in bytes.
    pub(crate) end: usize,
    pub(crate) total: usize,
}

/// The kept outputs, oldest first, each with the id of its call.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    kept: Mutex<VecDeque<(String, String)>>,
}

impl Pages {
    /// Keeps the output of a call.
    pub(crate) fn keep(&self, call: &str, output: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((call.to_owned(), output.to_owned()));
        let size = |kept: &VecDeque<(String, String)>| {
            kept.iter().map(|(_, output)| output.len()).sum::<usize>()
        };
        while size(&kept) > MAX_KEPT {
            kept.pop_front();
        }
    }

    /// Returns at most `limit` bytes of a call's output; `None` if it is not kept. Characters stay
    /// whole.
    pub(crate) fn read(&self, call: &str, offset: usize, limit: usize) -> Option<TextPage> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, output) = kept.iter().find(|(id, _)| id == call)?;
        let start = output.floor_char_boundary(offset);
        let mut end = output.floor_char_boundary(start.saturating_add(limit));
        if end == start {
            end = output.ceil_char_boundary(start + 1);
        }
        let text = output.get(start..end).unwrap_or_default().to_owned();
        Some(TextPage { text, end, total: output.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_and_end() {
        let pages = Pages::default();
        pages.keep("c1", "aébcd");
        let read = |offset, limit| {
            let page = pages.read("c1", offset, limit).unwrap();
            assert_eq!(page.total, 6);
            (page.text, page.end)
        };
        assert_eq!(read(0, 2), ("a".to_owned(), 1));
        assert_eq!(read(1, 1), ("é".to_owned(), 3));
        assert_eq!(read(3, 100), ("bcd".to_owned(), 6));
        assert_eq!(read(6, 100), (String::new(), 6));
        assert_eq!(read(600, 100), (String::new(), 6));
        assert_eq!(pages.read("c2", 0, 1), None);
    }

    #[test]
    fn the_oldest_are_dropped_first() {
        let pages = Pages::default();
        for call in ["c1", "c2", "c3"] {
            pages.keep(call, &"x".repeat(MAX_KEPT / 2));
        }
        assert!(pages.read("c1", 0, 1).is_none());
        assert!(pages.read("c2", 0, 1).is_some() && pages.read("c3", 0, 1).is_some());
    }
}
