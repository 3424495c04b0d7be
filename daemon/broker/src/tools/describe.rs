//! The description of a built-in tool. Runs in the broker. Pure: no I/O.

use super::tool::{Parse, RegistryError, Tool, ToolOrigin};
use palisade_protocol::{AuditOperation, JsonText, PermissionClass, ToolMetadata, ToolSpec};
use schemars::{JsonSchema, schema_for};

/// The description of a built-in tool, from which its specification is made.
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) text: &'static str,
    pub(super) traits: Traits,
    pub(super) class: PermissionClass,
    pub(super) operation: AuditOperation,
    pub(super) search: &'static str,
}

/// The effect that a built-in tool can have, from least to most.
pub(super) enum Traits {
    ReadOnly,
    /// Changes only the session's own notes, so it needs no approval except under `always`. The
    /// notes do change, so such calls run in order.
    OwnNotes,
    /// Changes something that no other call depends on.
    Aside,
    Mutating,
    Destructive,
}

/// Makes the tool whose arguments have the type `A`.
pub(super) fn built_in<A: JsonSchema>(
    from: &Description,
    parse: Parse,
) -> Result<Tool, RegistryError> {
    let aliases = from.aliases.iter().map(|alias| alias.parse()).collect::<Result<_, _>>()?;
    let read_only = matches!(from.traits, Traits::ReadOnly | Traits::OwnNotes);
    let metadata = ToolMetadata {
        concurrency_safe: matches!(from.traits, Traits::ReadOnly | Traits::Aside),
        read_only,
        destructive: matches!(from.traits, Traits::Destructive),
        permission_class: from.class,
        audit_operation: from.operation,
        requires_checkpoint: false,
        requires_reverse_thinking: false,
        search_hint: from.search.to_owned(),
    };
    let spec = ToolSpec {
        name: from.name.parse()?,
        aliases,
        description: from.text.to_owned(),
        schema: JsonText::render(&schema_for!(A))?,
        metadata,
    };
    Ok(Tool { spec, origin: ToolOrigin::BuiltIn(parse) })
}
