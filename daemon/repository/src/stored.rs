//! The outcome of reading an object: its content, or the reason that there is none.

use std::rc::Rc;

/// An object's type and content.
#[derive(Debug, Clone)]
pub(crate) struct GitObject {
    pub(crate) kind: gix_object::Kind,
    pub(crate) data: Rc<Vec<u8>>,
}

/// The result of reading an object, or one of its copies.
#[derive(Debug)]
pub(crate) enum StoredCopy {
    Found(GitObject),
    Absent,
    Damaged,
    TooLarge,
}
