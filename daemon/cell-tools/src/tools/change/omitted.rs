//! The entries of an undo record that undo leaves out, so that they do not prevent the rest from being
//! restored. Runs in the cell.

use crate::tools::shown;
use palisade_plan::Path;

/// The maximum number of entries that are reported one by one.
const MOST_NAMED: usize = 20;

/// The reason why an entry of an undo record is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The undo record has nothing that it could be made from.
    NoContent,
    /// Nothing is there any more, and the record only has the file's earlier size, mode and time.
    Gone,
    /// The file is shorter than it was, so its earlier bytes are gone.
    Shorter,
    /// It is no longer a regular file.
    OtherType,
    /// Nothing is there any more that could be renamed back.
    NotThere,
}

impl Obstacle {
    const fn words(self) -> &'static str {
        match self {
            Self::NoContent => {
                "it was a FIFO, socket or device, or a file that could not be read, and undo can not \
                 make these again"
            }
            Self::Gone => {
                "it is gone, and the call only added to it or changed its mode or time, so that undo \
                 has no copy of it"
            }
            Self::Shorter => {
                "it is shorter than before the call, which only added to it or changed its mode or \
                 time, so that undo has no copy of it"
            }
            Self::OtherType => {
                "it is no longer a regular file, and the call only added to it or changed its mode \
                 or time, so that undo has no copy of it"
            }
            Self::NotThere => "it is gone, so that it can not be renamed back",
        }
    }
}

/// The entries of an undo record that are not restored.
#[derive(Debug, Default)]
pub(super) struct NotRestored {
    named: Vec<(Path, Obstacle)>,
    others: usize,
}

impl NotRestored {
    /// Adds an entry.
    pub(super) fn add(&mut self, path: &Path, obstacle: Obstacle) {
        if self.named.len() < MOST_NAMED {
            self.named.push((path.clone(), obstacle));
        } else {
            self.others += 1;
        }
    }

    /// Returns a sentence for each entry; those that are too many are counted.
    pub(super) fn notes(&self) -> Vec<String> {
        let sentence = |(path, obstacle): &(Path, Obstacle)| {
            format!("{} is not restored: {}", shown(path), obstacle.words())
        };
        let others = (self.others > 0)
            .then(|| format!("{} more entries are not restored for such reasons", self.others));
        self.named.iter().map(sentence).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_maximum_are_counted() {
        let mut all = NotRestored::default();
        assert_eq!(all.notes(), Vec::<String>::new());
        for n in 0..MOST_NAMED + 3 {
            all.add(&Path(format!("/w/{n}").into_bytes()), Obstacle::NoContent);
        }
        let notes = all.notes();
        assert_eq!(notes.len(), MOST_NAMED + 1);
        assert!(notes[0].starts_with("/w/0 is not restored: it was a FIFO"), "{}", notes[0]);
        assert_eq!(notes[MOST_NAMED], "3 more entries are not restored for such reasons");
    }
}
