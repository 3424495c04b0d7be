//! A session's list of things to do. Broker.

use palisade_protocol::arguments::TodoItem;
use std::sync::{Mutex, PoisonError};

/// A session's list of things to do.
#[derive(Debug, Default)]
pub(crate) struct Todos(Mutex<Vec<TodoItem>>);

impl Todos {
    /// What is on it.
    pub(crate) fn read(&self) -> Vec<TodoItem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts something else on it.
    pub(crate) fn write(&self, items: Vec<TodoItem>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = items;
    }
}
