//! A walk over the commits that are reachable from roots. Each is verified before it counts.

use crate::object::ObjectReader;
use crate::stored::{GitObject, StoredCopy};
use crate::{ObjectId, RepositoryError};
use gix_object::commit::ref_iter::Token;
use gix_object::{CommitRefIter, TagRefIter};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// A verified commit.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) id: ObjectId,
    pub(crate) tree: ObjectId,
}

/// A walk over history. It alternates between unvisited roots and ancestors of visited ones, so
/// that neither many roots nor a long history delays the other.
#[derive(Debug)]
pub(crate) struct History<'a> {
    roots: VecDeque<ObjectId>,
    ancestors: VecDeque<ObjectId>,
    /// Commits whose parents git ignores.
    severed: &'a BTreeSet<ObjectId>,
    seen: HashSet<ObjectId>,
    reached: Vec<ObjectId>,
    takes_root: bool,
}

impl<'a> History<'a> {
    pub(crate) fn new(roots: Vec<ObjectId>, severed: &'a BTreeSet<ObjectId>) -> Self {
        History {
            roots: roots.into(),
            ancestors: VecDeque::new(),
            severed,
            seen: HashSet::new(),
            reached: Vec::new(),
            takes_root: true,
        }
    }

    /// Finds the next commit.
    pub(crate) fn next(
        &mut self,
        reader: &mut ObjectReader<'_>,
    ) -> Result<Option<Commit>, RepositoryError> {
        while let Some(id) = self.take() {
            if !self.seen.insert(id) {
                continue;
            }
            reader.budget.commit()?;
            let object = match reader.read(&id)? {
                StoredCopy::Found(object) => object,
                StoredCopy::Absent | StoredCopy::Damaged | StoredCopy::TooLarge => continue,
            };
            self.reached.push(id);
            if let Some(commit) = self.open(id, &object, reader.objects().kind) {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    /// Takes the objects that were reached and verified since the last time.
    pub(crate) fn take_reached(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.reached)
    }

    fn take(&mut self) -> Option<ObjectId> {
        self.takes_root = !self.takes_root;
        let (first, second) = if self.takes_root {
            (&mut self.roots, &mut self.ancestors)
        } else {
            (&mut self.ancestors, &mut self.roots)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    fn open(&mut self, id: ObjectId, object: &GitObject, kind: gix_hash::Kind) -> Option<Commit> {
        match object.kind {
            gix_object::Kind::Commit => {
                let (tree, parents) = parse_commit(&object.data, kind)?;
                if !self.severed.contains(&id) {
                    self.ancestors.extend(parents);
                }
                Some(Commit { id, tree })
            }
            gix_object::Kind::Tag => {
                let target = TagRefIter::from_bytes(&object.data, kind).target_id().ok()?;
                self.ancestors.push_back(target);
                None
            }
            gix_object::Kind::Blob | gix_object::Kind::Tree => None,
        }
    }
}

/// Parses the tree and the parents of a commit; `None` if any part of it is invalid.
pub(crate) fn parse_commit(data: &[u8], kind: gix_hash::Kind) -> Option<(ObjectId, Vec<ObjectId>)> {
    let (mut tree, mut parents) = (None, Vec::new());
    for token in CommitRefIter::from_bytes(data, kind) {
        match token.ok()? {
            Token::Tree { id } => tree = Some(id),
            Token::Parent { id } => parents.push(id),
            Token::Author { .. }
            | Token::Committer { .. }
            | Token::Encoding(_)
            | Token::ExtraHeader(_)
            | Token::Message(_) => break,
        }
    }
    Some((tree?, parents))
}
