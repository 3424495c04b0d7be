//! Tools that another process provides: made from what it says of them, and believed only as far as
//! the profile believes it. Broker, pure.

use super::{
    schema,
    tool::{Origin, Provided, Tool},
};
use crate::provider::Provider;
use palisade_policy::Profile;
use palisade_protocol::{
    AuditOperation, ErrorCode, ProvidedTool, ToolMetadata, ToolSpec, WireError,
};
use std::sync::Arc;

/// Makes a tool of what a provider says.
pub(super) fn tool(provider: &Arc<Provider>, from: ProvidedTool) -> Result<Tool, WireError> {
    let value: serde_json::Value = serde_json::from_str(from.schema.as_str()).unwrap_or_default();
    let refused = |why: String| {
        let message = format!("`tools.{}.schema`: {why}", from.name);
        let hint = "give a JSON Schema that refers to nothing outside itself";
        WireError::new(ErrorCode::InvalidRequest, message, hint)
    };
    if value.get("type").is_some_and(|kind| kind != "object") {
        return Err(refused("its `type` is not \"object\", which arguments are".to_owned()));
    }
    let validator = Arc::new(schema::compile(&value).map_err(refused)?);
    let ProvidedTool { name, aliases, description, schema, metadata, r#override: _ } = from;
    let spec = ToolSpec { name, aliases, description, schema, metadata };
    let provider = Arc::clone(provider);
    Ok(Tool { spec, origin: Origin::Provided(Provided { provider, validator }) })
}

/// The tool as the profile sees it. What is provided gets the careful answers, unless the profile
/// says that it is what it says of itself; where that is the stricter answer, it holds all the same.
pub(crate) fn believed(tool: Arc<Tool>, profile: &Profile) -> Arc<Tool> {
    let Origin::Provided(provided) = &tool.origin else { return tool };
    if profile.trusts_provided(&tool.spec) {
        return tool;
    }
    let said = &tool.spec.metadata;
    let careful = ToolMetadata::default();
    let audit_operation = match said.audit_operation {
        AuditOperation::Delete => AuditOperation::Delete,
        AuditOperation::Read
        | AuditOperation::Write
        | AuditOperation::Edit
        | AuditOperation::Execute
        | AuditOperation::Invoke => careful.audit_operation,
    };
    let metadata = ToolMetadata {
        audit_operation,
        requires_reverse_thinking: said.requires_reverse_thinking,
        search_hint: said.search_hint.clone(),
        ..careful
    };
    let spec = ToolSpec { metadata, ..tool.spec.clone() };
    Arc::new(Tool { spec, origin: Origin::Provided(provided.clone()) })
}
