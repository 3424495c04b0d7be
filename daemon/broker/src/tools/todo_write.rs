//! `todo_write`: replaces the session's to-do list. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, SessionTask, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};
use std::collections::HashSet;

/// The most items of the list.
const ITEMS: usize = 200;
/// The longest text of an item, in bytes.
const CONTENT: usize = 4 * 1024;
/// The longest id that a caller may give an item, in bytes.
const ID: usize = 128;

pub(super) const DESCRIPTION: Description = Description {
    name: "todo_write",
    aliases: &["TodoWrite"],
    text: "Replaces the session's todo list. Each item has a content, a status (pending, \
           in_progress or completed) and optionally an id. The list ends with the session, and \
           nothing else is changed.",
    traits: Traits::OwnNotes,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Invoke,
    search: "todo task list plan steps progress",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::TodoWrite { items } = schema::parse(tool, call)?;
    if items.len() > ITEMS {
        let why = format!("{} are given, at most {ITEMS} are allowed", items.len());
        return Err(invalid("items", &why, "leave out completed items"));
    }
    let mut ids = HashSet::new();
    for (number, item) in items.iter().enumerate() {
        let field = |name: &str| format!("items[{number}].{name}");
        if item.content.trim().is_empty() || item.content.len() > CONTENT {
            let why = format!("it has {} bytes, not from 1 to {CONTENT}", item.content.len());
            return Err(invalid(&field("content"), &why, "describe the item in a sentence"));
        }
        let Some(id) = &item.id else { continue };
        if id.is_empty() || id.len() > ID {
            let why = format!("it has {} bytes, not from 1 to {ID}", id.len());
            return Err(invalid(&field("id"), &why, "give a short name, or leave it out"));
        }
        if !ids.insert(id.as_str()) {
            let why = format!("{id:?} is given twice");
            return Err(invalid(&field("id"), &why, "give each item a unique id"));
        }
    }
    Ok(Task::Errand(SessionTask::TodoWrite(items)).into())
}
