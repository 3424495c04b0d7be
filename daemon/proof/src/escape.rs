//! Escapes whose acts succeed in the program but must not be committed. They are detected when the
//! program has ended, and then all its changes are discarded. Each is a separate call, and so is
//! the control that must be committed.

use crate::{
    Probe,
    verdict::{Row, Verdict},
};
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The state of a file outside: its inode and contents.
type FileState = Option<(u64, Vec<u8>)>;

fn look(path: &Path) -> FileState {
    Some((fs::symlink_metadata(path).ok()?.ino(), fs::read(path).ok()?))
}

/// An escape and the calls that try it, one after another.
#[derive(Debug)]
pub struct EscapeAttempt {
    pub(crate) probe: &'static Probe,
    words: [String; 3],
    target: PathBuf,
    ordinary: PathBuf,
    /// The state of both files, before the calls and after each.
    seen: Vec<(FileState, FileState)>,
    /// The layers that denied each call.
    layers: Vec<Vec<String>>,
}

impl EscapeAttempt {
    /// Creates an escape. Both attempts are an act and the path that it is for.
    pub(crate) fn new(probe: &'static Probe, attempt: String, control: String) -> Self {
        let about = |word: &str| PathBuf::from(word.split_once(' ').map_or("", |(_, path)| path));
        let (target, ordinary) = (about(&attempt), about(&control));
        let seen = vec![(look(&target), look(&ordinary))];
        let make = format!("write {}", ordinary.display());
        Self { probe, words: [make, control, attempt], target, ordinary, seen, layers: Vec::new() }
    }

    /// Returns the next attempt, for a separate call; `None` if all were made.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        self.words.get(self.layers.len()).map(String::as_str)
    }

    /// Records which layers denied the last attempt, from the result of its call.
    pub fn record(&mut self, layers: Vec<String>) {
        self.layers.push(layers);
        self.seen.push((look(&self.target), look(&self.ordinary)));
    }

    /// Returns the outcome.
    #[must_use]
    pub fn row(&self) -> Row {
        let [first, made, controlled, last] = self.seen.as_slice() else {
            let (answer, control) = (String::new(), String::new());
            return Row { probe: self.probe, answer, control, verdict: Verdict::Silent };
        };
        let by = self.layers.last().map_or(&[][..], Vec::as_slice);
        let refused = by.iter().any(|layer| layer == self.probe.layer.name());
        let answer = match (first.0.is_some() && first.0 == last.0, refused) {
            (false, _) => "ok",
            (true, true) => self.probe.stopped,
            (true, false) => "kept",
        };
        let control = if made.1 == controlled.1 { "nothing" } else { "ok" };
        let verdict = match (answer, control) {
            ("ok", _) => Verdict::Escaped,
            (_, "nothing") => Verdict::Vacuous,
            _ if refused => Verdict::Stopped,
            _ => Verdict::Otherwise,
        };
        let (answer, control) = (answer.to_owned(), control.to_owned());
        Row { probe: self.probe, answer, control, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NAMES;

    #[test]
    fn only_what_is_refused_and_as_it_was_beside_what_counted_is_a_proof() {
        let top = tempfile::tempdir().unwrap();
        let (target, ordinary) = (top.path().join("target"), top.path().join("ordinary"));
        let probe = NAMES.iter().find(|probe| probe.name == "replace-protected").unwrap();
        let row = |acts: [&dyn Fn(); 3], layer: &str| {
            fs::write(&target, "palisade\n").unwrap();
            drop(fs::remove_file(&ordinary));
            let word = |path: &Path| format!("replace {}", path.display());
            let mut attempt = EscapeAttempt::new(probe, word(&target), word(&ordinary));
            assert_eq!(attempt.row().verdict, Verdict::Silent);
            for act in acts {
                assert!(attempt.next().is_some());
                act();
                attempt.record(vec![layer.to_owned()]);
            }
            assert_eq!(attempt.next(), None);
            attempt.row().verdict
        };
        let nothing = || ();
        let make = || fs::write(&ordinary, "1").unwrap();
        let change = || fs::write(&ordinary, "12").unwrap();
        let escape = || fs::write(&target, "other").unwrap();
        assert_eq!(row([&make, &change, &nothing], "protect"), Verdict::Stopped);
        assert_eq!(row([&make, &change, &nothing], "landlock"), Verdict::Otherwise);
        assert_eq!(row([&make, &nothing, &nothing], "protect"), Verdict::Vacuous);
        assert_eq!(row([&make, &change, &escape], "protect"), Verdict::Escaped);
    }
}
