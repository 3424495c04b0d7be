//! A session's to-do list. Runs in the broker.

use palisade_protocol::arguments::TodoItem;
use std::sync::{Mutex, PoisonError};

/// A session's to-do list.
#[derive(Debug, Default)]
pub(crate) struct Todos(Mutex<Vec<TodoItem>>);

impl Todos {
    /// Returns the items.
    pub(crate) fn read(&self) -> Vec<TodoItem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the items.
    pub(crate) fn write(&self, items: Vec<TodoItem>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = items;
    }
}
