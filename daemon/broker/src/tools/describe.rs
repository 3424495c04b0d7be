//! How a built-in describes itself. Broker, pure.

use super::tool::{Origin, Parse, RegistryError, Tool};
use palisade_protocol::{AuditOperation, JsonText, PermissionClass, ToolMetadata, ToolSpec};
use schemars::{JsonSchema, schema_for};

/// A built-in in its own words.
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) text: &'static str,
    pub(super) traits: Traits,
    pub(super) class: PermissionClass,
    pub(super) operation: AuditOperation,
    pub(super) search: &'static str,
}

/// What a built-in does to the world, from mild to grave.
pub(super) enum Traits {
    ReadOnly,
    /// Nothing outside the session changes, so that nobody is asked but under `always`; what the
    /// session keeps for itself does, so that such calls go in order.
    OwnNotes,
    /// Changes something that no other call depends on.
    Aside,
    Mutating,
    Destructive,
}

/// The tool whose arguments are an `A`.
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
    Ok(Tool { spec, origin: Origin::BuiltIn(parse) })
}
