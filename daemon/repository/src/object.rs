//! Objects of a repository. They are searched for in every place where git may look, and verified
//! against the id by which they are found.

use crate::bounds::{Bounds, Budget};
use crate::directory::{EntryType, GitDirectory};
use crate::inflate::{ZlibStream, buffer};
use crate::pack::{Pack, ReadingState};
use crate::stored::{GitObject, StoredCopy};
use crate::{ObjectId, RepositoryError};
use gix_hash::{Kind, oid};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Most bytes in the header of a loose object: a type, a size and a zero byte.
const LOOSE_HEADER: usize = 64;

/// The object database of a repository: its own loose objects and packs, and nothing else.
#[derive(Debug)]
pub(crate) struct ObjectDatabase {
    pub(crate) directory: GitDirectory,
    pub(crate) kind: Kind,
    pub(crate) packs: Vec<Pack>,
    /// Promisor packs. They keep nothing, because the objects that they refer to need not exist; but
    /// git reads them.
    pub(crate) promised: Vec<Pack>,
    /// Names of packs that exist, but that git or this crate cannot use, those of promisor packs
    /// included.
    pub(crate) unusable: Vec<Vec<u8>>,
    /// True if git may find objects in other directories too.
    has_alternates: bool,
}

impl ObjectDatabase {
    pub(crate) fn open(
        directory: GitDirectory,
        kind: Kind,
        bounds: &Bounds,
    ) -> Result<Self, RepositoryError> {
        let names = directory.names(b"pack", bounds.packs.saturating_mul(8))?;
        let names: BTreeSet<_> = names
            .into_iter()
            .filter(|(_, is)| *is != EntryType::Directory)
            .map(|(name, _)| name)
            .collect();
        let (mut packs, mut promised, mut unusable) = (Vec::new(), Vec::new(), Vec::new());
        for name in names.iter().filter_map(|name| name.strip_suffix(b".idx")) {
            // The objects that a promisor pack refers to need not exist anywhere.
            let is_promised = names.contains([name, b".promisor"].concat().as_slice());
            if packs.len() + unusable.len() >= bounds.packs {
                return Err(RepositoryError::bound("packs", bounds.packs));
            }
            match Pack::open(&directory, name, kind) {
                Some(pack) if !is_promised => packs.push(pack),
                pack => {
                    promised.extend(pack);
                    unusable.push(name.to_vec());
                }
            }
        }
        let has_alternates = !matches!(directory.identity(b"info/alternates"), Ok(None));
        Ok(ObjectDatabase { directory, kind, packs, promised, unusable, has_alternates })
    }

    /// Returns `true` if no place has an object of this id. In doubt, returns `false`.
    pub(crate) fn lacks(&self, id: &oid) -> bool {
        self.unusable.is_empty()
            && !self.packs.iter().any(|pack| pack.index.find(id).is_some())
            && matches!(self.directory.identity(&loose_path(id)), Ok(None))
            && !self.has_alternates
    }

    /// Returns `true` if some place that git reads may have an object of this id.
    pub(crate) fn may_have(&self, id: &oid) -> bool {
        self.has_alternates
            || self.packs.iter().chain(&self.promised).any(|pack| pack.index.find(id).is_some())
            || !matches!(self.directory.identity(&loose_path(id)), Ok(None))
    }

    /// Computes the id of an object; `None` if its bytes look like an attempted collision.
    pub(crate) fn hash(&self, kind: gix_object::Kind, data: &[u8]) -> Option<ObjectId> {
        gix_object::compute_hash(self.kind, kind, data).ok()
    }
}

/// Returns the path of a loose object below the objects directory.
pub(crate) fn loose_path(id: &oid) -> Vec<u8> {
    let hex = id.to_hex().to_string();
    let (directory, file) = hex.split_at(2);
    format!("{directory}/{file}").into_bytes()
}

/// Reads objects for one operation, within its budget.
pub(crate) struct ObjectReader<'repository> {
    objects: &'repository ObjectDatabase,
    ignored: BTreeSet<ObjectId>,
    pub(crate) budget: Budget,
    state: ReadingState,
}

impl<'repository> ObjectReader<'repository> {
    pub(crate) fn new(objects: &'repository ObjectDatabase, bounds: Bounds) -> Self {
        let (budget, state) = (Budget::new(bounds), ReadingState::default());
        ObjectReader { objects, ignored: BTreeSet::new(), budget, state }
    }

    /// Treats some objects as damaged: those that git would replace by another object.
    pub(crate) fn ignoring(mut self, ids: &BTreeSet<ObjectId>) -> Self {
        self.ignored.clone_from(ids);
        self
    }

    pub(crate) fn objects(&self) -> &'repository ObjectDatabase {
        self.objects
    }

    /// Reads an object and verifies that its bytes have its id.
    pub(crate) fn read(&mut self, id: &oid) -> Result<StoredCopy, RepositoryError> {
        let objects = self.objects;
        let is_right =
            |object: &GitObject| objects.hash(object.kind, &object.data).as_deref() == Some(id);
        self.read_copies(id, is_right)
    }

    /// Reads a blob and verifies that its content equals `content`, from which the caller has
    /// computed the id.
    pub(crate) fn read_blob(
        &mut self,
        id: &oid,
        content: &[u8],
    ) -> Result<StoredCopy, RepositoryError> {
        let is_right = |object: &GitObject| {
            object.kind == gix_object::Kind::Blob && object.data.as_slice() == content
        };
        self.read_copies(id, is_right)
    }

    /// Reads all copies of an object. Git does not verify what it reads and may use any copy, so
    /// one wrong copy makes the object damaged.
    fn read_copies(
        &mut self,
        id: &oid,
        is_right: impl Fn(&GitObject) -> bool,
    ) -> Result<StoredCopy, RepositoryError> {
        let verified = |copy: StoredCopy| {
            let is_wrong = matches!(&copy, StoredCopy::Found(object) if !is_right(object));
            if is_wrong { StoredCopy::Damaged } else { copy }
        };
        let mut result = StoredCopy::Absent;
        for (position, pack) in self.objects.packs.iter().enumerate() {
            let Some(offset) = pack.index.find(id) else { continue };
            self.budget.object()?;
            let copy = pack.read(position, offset, &mut self.budget, &mut self.state)?;
            result = verified(copy);
            if !matches!(result, StoredCopy::Found(_)) {
                return Ok(result);
            }
        }
        for (position, pack) in self.objects.promised.iter().enumerate() {
            let Some(offset) = pack.index.find(id) else { continue };
            self.budget.object()?;
            let position = self.objects.packs.len() + position;
            let copy = pack.read(position, offset, &mut self.budget, &mut self.state)?;
            let copy = verified(copy);
            if !matches!(copy, StoredCopy::Found(_)) {
                return Ok(copy);
            }
        }
        let loose = self.read_loose(id)?;
        if !matches!(loose, StoredCopy::Absent) {
            result = verified(loose);
        }
        Ok(if self.ignored.contains(id) { StoredCopy::Damaged } else { result })
    }

    /// Reads an object, and returns it if it is of a kind and verified.
    pub(crate) fn find(
        &mut self,
        id: &oid,
        kind: gix_object::Kind,
    ) -> Result<Option<Rc<Vec<u8>>>, RepositoryError> {
        Ok(match self.read(id)? {
            StoredCopy::Found(object) if object.kind == kind => Some(object.data),
            StoredCopy::Found(_)
            | StoredCopy::Absent
            | StoredCopy::Damaged
            | StoredCopy::TooLarge => None,
        })
    }

    fn read_loose(&mut self, id: &oid) -> Result<StoredCopy, RepositoryError> {
        let file = match self.objects.directory.file(&loose_path(id)) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(StoredCopy::Absent),
            Err(_) => return Ok(StoredCopy::Damaged),
        };
        self.budget.object()?;
        let mut stream = ZlibStream::new(&file, 0, &mut self.state.inflate);
        let mut head = [0; LOOSE_HEADER];
        let Some(head) = stream.fill(&mut head).and_then(|filled| head.get(..filled)) else {
            return Ok(StoredCopy::Damaged);
        };
        let Some((kind, size, used)) = loose_header(head) else { return Ok(StoredCopy::Damaged) };
        if size > self.budget.object_bytes() {
            return Ok(StoredCopy::TooLarge);
        }
        self.budget.inflate(size)?;
        Ok(match loose_data(&mut stream, head.get(used..).unwrap_or_default(), size) {
            Some(data) => StoredCopy::Found(GitObject { kind, data: Rc::new(data) }),
            None => StoredCopy::Damaged,
        })
    }
}

/// Parses the header of a loose object as strictly as git does.
fn loose_header(head: &[u8]) -> Option<(gix_object::Kind, u64, usize)> {
    let end = head.iter().position(|byte| *byte == 0)?;
    let (kind, size) = std::str::from_utf8(head.get(..end)?).ok()?.split_once(' ')?;
    let kind = gix_object::Kind::from_bytes(kind.as_bytes()).ok()?;
    let value: u64 = size.parse().ok()?;
    (value.to_string() == size).then_some((kind, value, end + 1))
}

fn loose_data(stream: &mut ZlibStream<'_>, begun: &[u8], size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok()?;
    stream.expect(size);
    let mut data = buffer(size)?;
    data.get_mut(..begun.len())?.copy_from_slice(begun);
    let rest = data.get_mut(begun.len()..)?;
    (stream.fill(rest)? == rest.len() && stream.finish_with_file()).then_some(data)
}
