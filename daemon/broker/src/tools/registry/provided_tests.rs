//! Tests of the tools that a provider may register, and what becomes of them.

use super::*;
use crate::tools::with_trusted_metadata;
use palisade_policy::{Profile, builtin};
use palisade_protocol::{
    AuditOperation, Call, CallOptions, JsonText, PermissionClass, ToolMetadata,
};
use serde_json::json;
use tokio::sync::mpsc;

fn provider(number: ConnectionNumber, uid: u32) -> Arc<Provider> {
    let (outbox, _) = mpsc::channel(1);
    Arc::new(Provider::new(number, uid, outbox))
}

fn tool(name: &str, schema: serde_json::Value) -> ProvidedTool {
    ProvidedTool {
        name: name.parse().unwrap(),
        aliases: Vec::new(),
        description: "does".to_owned(),
        schema: JsonText::render(&schema).unwrap(),
        metadata: ToolMetadata::default(),
        r#override: false,
    }
}

fn any(name: &str) -> ProvidedTool {
    tool(name, json!({"type": "object"}))
}

fn with_alias(name: &str, alias: &str) -> ProvidedTool {
    ProvidedTool { aliases: vec![alias.parse().unwrap()], ..any(name) }
}

fn over(tool: ProvidedTool) -> ProvidedTool {
    ProvidedTool { r#override: true, ..tool }
}

fn names(registry: &Registry) -> Vec<String> {
    registry.list().iter().map(|tool| tool.spec.name.to_string()).collect()
}

#[test]
fn tools_come_sorted_and_go_with_their_provider() {
    let registry = Registry::new().unwrap();
    let before = names(&registry);
    let (one, other) = (provider(1, 7), provider(2, 7));
    let own = registry.provide(&one, vec![any("weather"), any("aardvark")]).unwrap();
    assert_eq!(own.iter().map(ToolName::as_str).collect::<Vec<_>>(), ["aardvark", "weather"]);
    registry.provide(&other, vec![any("zebra")]).unwrap();
    assert!(names(&registry).is_sorted());
    registry.provide(&one, vec![any("weather")]).unwrap();
    assert_eq!(names(&registry).len(), before.len() + 3, "its own is replaced");
    let missing = registry.unprovide(1, &["zebra".parse().unwrap()]).unwrap_err();
    assert_eq!(missing.code, ErrorCode::NotFound);
    registry.unprovide(1, &["aardvark".parse().unwrap()]).unwrap();
    registry.withdraw(1);
    assert_eq!(names(&registry).len(), before.len() + 1);
    registry.withdraw(2);
    assert_eq!(names(&registry), before);
}

#[test]
fn nothing_is_shadowed() {
    let registry = Registry::new().unwrap();
    let (one, same, stranger) = (provider(1, 7), provider(2, 7), provider(3, 8));
    registry.provide(&one, vec![with_alias("weather", "forecast")]).unwrap();
    let before = names(&registry);
    let taken = |provider: &Arc<Provider>, tools: Vec<ProvidedTool>| {
        let error = registry.provide(provider, tools).unwrap_err();
        assert_eq!(error.code, ErrorCode::AlreadyExists);
        error.message
    };
    for name in ["bash", "Bash", "BASH", "shell", "read_file", "TODO_WRITE"] {
        let message = taken(&one, vec![any("fine"), any(name)]);
        assert!(message.contains("the built-in tool"), "{message}");
        taken(&one, vec![over(any(name))]);
        taken(&one, vec![over(with_alias("fine", name))]);
    }
    assert_eq!(
        taken(&same, vec![any("weather")]),
        "the name weather is taken by the provided tool weather"
    );
    taken(&same, vec![any("forecast")]);
    taken(&stranger, vec![over(any("weather"))]);
    taken(&one, vec![any("a"), with_alias("b", "a")]);
    assert_eq!(names(&registry), before, "all or nothing");
    registry.provide(&same, vec![over(any("weather"))]).unwrap();
    assert_eq!(names(&registry), before);
    registry.withdraw(1);
    assert_eq!(names(&registry), before, "it is the other's now");
}

#[test]
fn a_provider_has_so_many_tools_and_no_more() {
    let registry = Registry::new().unwrap();
    let one = provider(1, 7);
    let many = |count| (0..count).map(|number| any(&format!("t{number}"))).collect::<Vec<_>>();
    let error = registry.provide(&one, many(PROVIDED + 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitReached);
    registry.provide(&one, many(PROVIDED)).unwrap();
    assert_eq!(registry.provide(&one, vec![any("x")]).unwrap_err().code, ErrorCode::LimitReached);
}

#[test]
fn schemas_that_are_none_or_lead_outside_are_refused() {
    let registry = Registry::new().unwrap();
    let one = provider(1, 7);
    for schema in [
        json!({"type": "array"}),
        json!({"type": "nonsense"}),
        json!({"properties": {"a": {"type": 7}}}),
        json!({"$ref": "http://example.com/schema.json"}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"properties": {"a": {"pattern": "("}}}),
    ] {
        let error = registry.provide(&one, vec![tool("t", schema.clone())]).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{schema}");
        assert!(error.message.starts_with("`tools.t.schema`: "), "{}", error.message);
    }
    let nested = json!({"properties": {"a": {"type": 7}}});
    let error = registry.provide(&one, vec![tool("t", nested)]).unwrap_err();
    assert!(error.message.contains("at /properties/a"), "{}", error.message);
    let own = json!({"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}});
    registry.provide(&one, vec![tool("t", own)]).unwrap();
}

#[test]
fn every_violation_is_named() {
    let registry = Registry::new().unwrap();
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["city"],
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}});
    registry.provide(&provider(1, 7), vec![tool("weather", schema)]).unwrap();
    let tool = registry.resolve(&"weather".parse().unwrap()).unwrap();
    let call = |arguments: serde_json::Value| Call {
        tool: "weather".parse().unwrap(),
        arguments: JsonText::render(&arguments).unwrap(),
        reason: None,
        options: CallOptions::default(),
    };
    tool.parse(&call(json!({"city": "Oslo", "days": 2}))).unwrap();
    let error = tool.parse(&call(json!({"days": 0, "more": 1}))).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    for part in ["`city`: it is required", "`days`: ", "`more`: there is no such argument"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[test]
fn claims_are_believed_where_the_profile_says_so() {
    let registry = Registry::new().unwrap();
    let claims = ToolMetadata {
        concurrency_safe: true,
        read_only: true,
        destructive: false,
        permission_class: PermissionClass::Readonly,
        audit_operation: AuditOperation::Read,
        requires_checkpoint: false,
        requires_reverse_thinking: true,
        search_hint: "rain".to_owned(),
    };
    let lax = ProvidedTool { metadata: claims.clone(), ..with_alias("weather", "trusted") };
    registry.provide(&provider(1, 7), vec![lax]).unwrap();
    let tool = registry.resolve(&"weather".parse().unwrap()).unwrap();
    let profile = |tools: &str| {
        let text = builtin()[0].1.replacen("[tools]\n", &format!("[tools]\n{tools}\n"), 1);
        Profile::parse("p", &text).unwrap()
    };
    let careful = ToolMetadata {
        requires_reverse_thinking: true,
        search_hint: "rain".to_owned(),
        ..ToolMetadata::default()
    };
    for silent in ["", "trust_provided = [\"other\"]", "trust_provided = [\"trusted\"]"] {
        let seen = with_trusted_metadata(Arc::clone(&tool), &profile(silent));
        assert_eq!(seen.spec.metadata, careful, "{silent}");
    }
    let trusting = profile("trust_provided = [\"weather\"]");
    assert_eq!(with_trusted_metadata(tool, &trusting).spec.metadata, claims);
}
