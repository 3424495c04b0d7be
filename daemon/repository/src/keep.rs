//! Finds out whether a reachable commit has given bytes at a path.

use crate::history::{Commit, History};
use crate::object::ObjectReader;
use crate::search::{FileType, TreeSearch};
use crate::stored::StoredCopy;
use crate::tips::{RootPurpose, Tips};
use crate::{ObjectId, Repository, RepositoryError};
use std::fmt;
use std::io::{self, Read};

/// A query for bytes that a path had and that should not be lost.
pub struct ContentQuery<'a> {
    /// The path relative to the top of the working tree, with `/` between its parts.
    pub path: &'a [u8],
    /// The type of the path.
    pub file_type: FileType,
    /// The bytes, which are read once.
    pub content: Box<dyn Read + 'a>,
}

impl fmt::Debug for ContentQuery<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(self.path);
        formatter.debug_struct("ContentQuery").field("path", &path).finish_non_exhaustive()
    }
}

/// A reachable commit that has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedBlob {
    /// The commit.
    pub commit: ObjectId,
    /// The blob in the commit.
    pub object: ObjectId,
}

/// The reason that git does not keep the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotKeptReason {
    /// No object has these bytes.
    NoObject,
    /// The object that should have them is damaged or replaced.
    Damaged,
    /// An object has them, but no reachable commit has it at the path.
    NoCommit,
    /// More work than the bounds allow would be needed to find out.
    BeyondBound,
    /// The path is not one that git tracks.
    Path,
    /// The bytes that were asked about could not be read.
    Unreadable,
}

/// The answer to one [`ContentQuery`].
pub type KeepAnswer = Result<CommittedBlob, NotKeptReason>;

impl Repository {
    /// Returns for each query whether git keeps the bytes. `tips` are those of
    /// [`Repository::tips`].
    ///
    /// # Errors
    ///
    /// If the files that truncate history (`shallow`, `info/grafts`) cannot be read. Exceeding a
    /// bound is not an error: what remains undecided is answered as not kept.
    pub fn keeps_all<'a>(
        &self,
        tips: &Tips,
        queries: impl IntoIterator<Item = ContentQuery<'a>>,
    ) -> Result<Vec<KeepAnswer>, RepositoryError> {
        let mut reader = self.reader().ignoring(&tips.replaced());
        let mut search = TreeSearch::default();
        let mut answers = Vec::new();
        for query in queries {
            let found = self.find_blob(&mut reader, query.content);
            let answer = match (found, is_tracked_path(query.path)) {
                (Ok(object), true) => {
                    search.add(query.path, query.file_type, object, answers.len());
                    NotKeptReason::NoCommit
                }
                (Ok(_), false) => NotKeptReason::Path,
                (Err(why), _) => why,
            };
            answers.push(Err(answer));
        }
        self.answer(tips, &mut reader, search, &mut answers)?;
        Ok(answers)
    }

    /// Returns whether git keeps the bytes of one path.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::keeps_all`].
    pub fn keeps(
        &self,
        tips: &Tips,
        query: ContentQuery<'_>,
    ) -> Result<KeepAnswer, RepositoryError> {
        let answers = self.keeps_all(tips, [query])?;
        Ok(answers.first().copied().unwrap_or(Err(NotKeptReason::BeyondBound)))
    }

    /// Fills in the answers to a search, from the commits that are reachable from the tips.
    pub(crate) fn answer(
        &self,
        tips: &Tips,
        reader: &mut ObjectReader<'_>,
        mut search: TreeSearch,
        answers: &mut [KeepAnswer],
    ) -> Result<(), RepositoryError> {
        let severed = self.severed()?;
        let roots = tips.roots(RootPurpose::Keep, &self.bounds);
        let mut history = History::new(roots, &severed);
        let mut look = || -> Result<(), RepositoryError> {
            while search.is_open() {
                let Some(Commit { id, tree }) = history.next(reader)? else { break };
                for (position, object) in search.look(reader, &tree)? {
                    if let Some(answer) = answers.get_mut(position) {
                        *answer = Ok(CommittedBlob { commit: id, object });
                    }
                }
            }
            Ok(())
        };
        match look() {
            Err(RepositoryError::Bound { .. }) => {
                for answer in
                    answers.iter_mut().filter(|answer| **answer == Err(NotKeptReason::NoCommit))
                {
                    *answer = Err(NotKeptReason::BeyondBound);
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Finds the blob that has exactly these bytes.
    fn find_blob(
        &self,
        reader: &mut ObjectReader<'_>,
        content: Box<dyn Read + '_>,
    ) -> Result<ObjectId, NotKeptReason> {
        let content = read_content(content, self.bounds.object_bytes)?;
        let id = self.blob_id(&content).ok_or(NotKeptReason::Damaged)?;
        match reader.read_blob(&id, &content) {
            Ok(StoredCopy::Found(_)) => Ok(id),
            Ok(StoredCopy::Damaged) => Err(NotKeptReason::Damaged),
            Ok(StoredCopy::Absent) => Err(NotKeptReason::NoObject),
            Ok(StoredCopy::TooLarge) | Err(_) => Err(NotKeptReason::BeyondBound),
        }
    }
}

fn read_content(content: Box<dyn Read + '_>, limit: u64) -> Result<Vec<u8>, NotKeptReason> {
    let mut bytes = Vec::new();
    let read: io::Result<usize> = content.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|_| NotKeptReason::Unreadable)?;
    if bytes.len() as u64 > limit { Err(NotKeptReason::BeyondBound) } else { Ok(bytes) }
}

/// Returns `true` if git could have a file with this path in a commit.
pub(crate) fn is_tracked_path(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|part| {
        let is_special = matches!(part, b"" | b"." | b"..") || part.eq_ignore_ascii_case(b".git");
        !is_special && !part.contains(&0)
    })
}
