//! Reads the lines of a patch, and collects its files within limits. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    patch::{Destination, FilePatch},
    text::{self, shown},
};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// Most files in a patch.
pub const MAX_FILES: usize = 10_000;
/// Most hunks in a patch.
pub const MAX_HUNKS: usize = 1_000_000;

/// Reads the lines of a patch.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Arc<[u8]>,
    at: usize,
    /// The number of the next line.
    pub(crate) line: usize,
    hunks: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first line.
    pub(crate) const fn new(source: &'a Arc<[u8]>) -> Self {
        Self { source, at: 0, line: 1, hunks: 0 }
    }

    /// Returns the next line without its newline.
    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        text::lines(&self.source[self.at..]).next().map(text::bare)
    }

    /// Returns the line after the next.
    pub(crate) fn peek_second(&self) -> Option<&'a [u8]> {
        text::lines(&self.source[self.at..]).nth(1).map(text::bare)
    }

    /// Returns the lines from here on.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &'a [u8]> {
        text::lines(&self.source[self.at..]).map(text::bare)
    }

    /// Advances to the next line.
    pub(crate) fn skip(&mut self) {
        if let Some(line) = text::lines(&self.source[self.at..]).next() {
            self.at += line.len();
            self.line += 1;
        }
    }

    /// Returns the offset of the next line. A patch is never too long for the type.
    pub(crate) fn mark(&self) -> u32 {
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }

    /// Returns the range of text from a mark to here.
    pub(crate) fn since(&self, mark: u32) -> Range<u32> {
        mark..self.mark()
    }

    /// Counts a hunk, and fails if there are too many.
    pub(crate) fn count_hunk(&mut self) -> Result<(), PatchError> {
        self.hunks += 1;
        match self.hunks <= MAX_HUNKS {
            true => Ok(()),
            false => Err(self.fail(Problem::TooMuch { most: MAX_HUNKS, what: "hunks" })),
        }
    }

    /// Returns an error at the next line.
    pub(crate) fn fail(&self, problem: Problem) -> PatchError {
        PatchError { line: self.line, problem }
    }

    /// Returns the error that the next line is not what was expected.
    pub(crate) fn expected(&self, expected: &'static str) -> PatchError {
        let found = self.peek().map_or_else(|| "the end of the patch".to_owned(), shown);
        self.fail(Problem::Expected { expected, found })
    }
}

/// The files of a patch. Each path occurs once.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<FilePatch>,
    seen: HashMap<Vec<u8>, usize>,
}

impl Files {
    /// Returns all files, in order.
    pub(crate) fn into_patches(self) -> Vec<FilePatch> {
        self.files
    }

    /// Adds a file.
    pub(crate) fn push(&mut self, file: FilePatch) -> Result<(), PatchError> {
        let line = file.line();
        if self.files.len() == MAX_FILES {
            let problem = Problem::TooMuch { most: MAX_FILES, what: "files" };
            return Err(PatchError { line, problem });
        }
        match &file {
            FilePatch::Add { path, .. } | FilePatch::Delete { path, .. } => {
                self.claim(path, line)?;
            }
            FilePatch::Update { path, to, .. } => match to {
                None => self.claim(path, line)?,
                Some(Destination::Copy(to)) if to != path => self.claim(to, line)?,
                Some(Destination::Copy(to) | Destination::Move(to)) => {
                    self.claim(path, line)?;
                    self.claim(to, line)?;
                }
            },
        }
        self.files.push(file);
        Ok(())
    }

    fn claim(&mut self, path: &[u8], line: usize) -> Result<(), PatchError> {
        match self.seen.insert(path.to_owned(), line) {
            None => Ok(()),
            Some(first) => {
                let problem = Problem::Twice { path: shown(path), first };
                Err(PatchError { line, problem })
            }
        }
    }
}
