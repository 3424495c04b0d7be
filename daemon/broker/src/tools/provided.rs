//! Tools that another process provides. What it says of them is trusted only as far as the profile
//! trusts it. Runs in the broker. Pure: no I/O.

use super::{
    schema,
    tool::{Tool, ToolOrigin, ToolProvider},
};
use crate::tools::provider::Provider;
use palisade_policy::Profile;
use palisade_protocol::{
    AuditOperation, ErrorCode, ProvidedTool, ToolMetadata, ToolSpec, WireError,
};
use std::sync::Arc;

/// Makes a tool from a provider's description, after checking its schema.
pub(super) fn tool(provider: &Arc<Provider>, from: ProvidedTool) -> Result<Tool, WireError> {
    let value: serde_json::Value = serde_json::from_str(from.schema.as_str()).unwrap_or_default();
    let refused = |why: String| {
        let message = format!("`tools.{}.schema`: {why}", from.name);
        let hint = "give a JSON Schema that refers to nothing outside itself";
        WireError::new(ErrorCode::InvalidRequest, message, hint)
    };
    if value.get("type").is_some_and(|kind| kind != "object") {
        return Err(refused("its `type` must be \"object\"".to_owned()));
    }
    let validator = Arc::new(schema::compile(&value).map_err(refused)?);
    let ProvidedTool { name, aliases, description, schema, metadata, r#override: _ } = from;
    let spec = ToolSpec { name, aliases, description, schema, metadata };
    let provider = Arc::clone(provider);
    Ok(Tool { spec, origin: ToolOrigin::Provided(ToolProvider { provider, validator }) })
}

/// Returns the tool as the profile sees it. A provided tool gets the careful default metadata,
/// unless the profile trusts its own. Where its own metadata is stricter, that applies in any case.
pub(crate) fn with_trusted_metadata(tool: Arc<Tool>, profile: &Profile) -> Arc<Tool> {
    let ToolOrigin::Provided(provided) = &tool.origin else { return tool };
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
    Arc::new(Tool { spec, origin: ToolOrigin::Provided(provided.clone()) })
}
