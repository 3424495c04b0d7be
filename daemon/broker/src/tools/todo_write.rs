//! `todo_write`: replaces the session's list of things to do. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{Errand, Parsed, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};
use std::collections::HashSet;

/// How many things there are to do at most.
const ITEMS: usize = 200;
/// How long the text of one is at most, in bytes.
const CONTENT: usize = 4 * 1024;
/// How long a name of the caller's own is at most, in bytes.
const ID: usize = 128;

pub(super) const DESCRIPTION: Description = Description {
    name: "todo_write",
    aliases: &["TodoWrite"],
    text: "Replaces the session's list of things to do. Each item has a content, a status \
           (pending, in_progress or completed) and, if wanted, an id. The list is kept for the \
           session only and nothing outside of it changes.",
    traits: Traits::OwnNotes,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Invoke,
    search: "todo task list plan steps progress",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::TodoWrite { items } = schema::parse(tool, call)?;
    if items.len() > ITEMS {
        let why = format!("there are {} of at most {ITEMS}", items.len());
        return Err(invalid("items", &why, "leave out what is completed"));
    }
    let mut ids = HashSet::new();
    for (number, item) in items.iter().enumerate() {
        let field = |name: &str| format!("items[{number}].{name}");
        if item.content.trim().is_empty() || item.content.len() > CONTENT {
            let why = format!("it has {} bytes, not from 1 to {CONTENT}", item.content.len());
            return Err(invalid(&field("content"), &why, "say in a sentence what is to be done"));
        }
        let Some(id) = &item.id else { continue };
        if id.is_empty() || id.len() > ID {
            let why = format!("it has {} bytes, not from 1 to {ID}", id.len());
            return Err(invalid(&field("id"), &why, "give a short name, or leave it out"));
        }
        if !ids.insert(id.as_str()) {
            let why = format!("{id:?} is there twice");
            return Err(invalid(&field("id"), &why, "give each item a name of its own"));
        }
    }
    Ok(Task::Errand(Errand::TodoWrite(items)).into())
}
