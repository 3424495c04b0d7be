//! Computes the new content of a file from its old content and hunks. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::{Hunk, HunkPosition, Kind, Newline},
    lines::{EndingComparison, File, FinalNewline, LineComparison},
    near::Cause,
    replace::MAX_TEXT,
    text::{Endings, block, endings},
};

/// Returns the new content; `line` is the line of the patch where the file's part begins.
pub(crate) fn apply(old: &[u8], hunks: &[Hunk], line: usize) -> Result<Vec<u8>, PatchError> {
    if old.len() > MAX_TEXT {
        let problem = Problem::TooMuch { most: MAX_TEXT, what: "bytes in the file" };
        return Err(PatchError { line, problem });
    }
    let mut new = Writer::new(old, manner(old, hunks));
    let mut drift = 0;
    for hunk in hunks {
        let place = new.file.find(hunk, new.done, drift)?;
        if let HunkPosition::After(after) = hunk.at {
            drift = place.cast_signed() - (after as usize).cast_signed();
        }
        new.keep(place - new.done);
        new.change(hunk).map_err(|problem| PatchError { line: hunk.line as usize, problem })?;
    }
    new.keep(new.file.len() - new.done);
    Ok(new.finish(old))
}

/// Determines how the file and the patch are compared: exactly, unless the patch's format can not
/// express that.
fn manner(old: &[u8], hunks: &[Hunk]) -> LineComparison {
    let is_bare = || hunks.iter().flat_map(Hunk::old).all(|line| !line.text.ends_with(b"\r"));
    let crlf = endings(old) == Endings::Crlf && is_bare();
    let said = |hunk: &Hunk| matches!(hunk.at, HunkPosition::After(_));
    LineComparison {
        endings: if crlf { EndingComparison::CrlfInFile } else { EndingComparison::Exact },
        last: if hunks.iter().all(said) { FinalNewline::Said } else { FinalNewline::Kept },
    }
}

struct Writer<'a> {
    file: File<'a>,
    manner: LineComparison,
    /// The number of lines of the old file that are done.
    done: usize,
    out: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(old: &'a [u8], manner: LineComparison) -> Self {
        let out = Vec::with_capacity(old.len());
        Self { file: File::new(old, manner), manner, done: 0, out }
    }

    fn newline(&self) -> &'static [u8] {
        match self.manner.endings {
            EndingComparison::Exact => b"\n",
            EndingComparison::CrlfInFile => b"\r\n",
        }
    }

    /// Copies lines of the old file.
    fn keep(&mut self, count: usize) {
        self.out.extend_from_slice(self.file.bytes(self.done, self.done + count));
        self.done += count;
    }

    /// Ends the line before, if the patch can not say that it has no newline.
    fn separate(&mut self, hunk: &Hunk) -> Result<(), Problem> {
        if self.out.is_empty() || self.out.ends_with(b"\n") {
            return Ok(());
        }
        match self.manner.last {
            FinalNewline::Kept => {
                self.out.extend_from_slice(self.newline());
                Ok(())
            }
            FinalNewline::Said => Err(self.ends_without_newline(hunk)),
        }
    }

    fn change(&mut self, hunk: &Hunk) -> Result<(), Problem> {
        let mut is_last = false;
        for line in hunk.lines() {
            match line.kind {
                Kind::Context => {
                    self.separate(hunk)?;
                    self.keep(1);
                }
                Kind::Old => self.done += 1,
                Kind::New => {
                    self.separate(hunk)?;
                    let text = match self.manner.endings {
                        EndingComparison::Exact => line.text,
                        EndingComparison::CrlfInFile => {
                            line.text.strip_suffix(b"\r").unwrap_or(line.text)
                        }
                    };
                    self.out.extend_from_slice(text);
                    match line.newline {
                        Newline::Present => self.out.extend_from_slice(self.newline()),
                        Newline::Absent => is_last = true,
                    }
                }
            }
        }
        match is_last && self.done < self.file.len() {
            true => Err(self.ends_without_newline(hunk)),
            false => Ok(()),
        }
    }

    fn ends_without_newline(&self, hunk: &Hunk) -> Problem {
        let expected = block(hunk.lines().map(|line| line.text));
        Problem::NoMatch { expected, cause: Some(Cause::LastNewline), near: None }
    }

    /// Returns the new content. It ends as the old content did, if the patch can not say how.
    fn finish(mut self, old: &[u8]) -> Vec<u8> {
        let had = old.is_empty() || old.ends_with(b"\n");
        if self.manner.last == FinalNewline::Kept && !had && self.out.ends_with(b"\n") {
            let end = self.out.len() - self.newline().len();
            self.out.truncate(end);
        }
        self.out
    }
}
