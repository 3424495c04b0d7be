//! Checks of providers' requests that their types do not express.

use super::{at_most, few, invalid};
use crate::{
    InvokeOutput, InvokeProgress, Provide, ProvidedTool, Unprovide, WireError,
    limits::{MAX_CHUNK, MAX_REASON},
};

/// The longest description of a provided tool, in bytes.
const DESCRIPTION: usize = 8 * 1024;
/// The longest schema of a provided tool, in bytes.
const SCHEMA: usize = 64 * 1024;
/// The maximum number of aliases of a provided tool.
const ALIASES: usize = 16;

pub(crate) fn check_provide(provide: &Provide) -> Result<(), WireError> {
    few("tools", provide.tools.len())?;
    if provide.tools.is_empty() {
        return Err(invalid("`tools` is empty".to_owned(), "name at least one tool"));
    }
    provide.tools.iter().try_for_each(check_tool)
}

fn check_tool(tool: &ProvidedTool) -> Result<(), WireError> {
    let field = |name: &str| format!("tools.{}.{name}", tool.name);
    if tool.description.trim().is_empty() {
        let message = format!("`{}` is empty", field("description"));
        return Err(invalid(message, "say what the tool does"));
    }
    if tool.aliases.len() > ALIASES {
        let message = format!(
            "`{}` has {} entries, the limit is {ALIASES}",
            field("aliases"),
            tool.aliases.len()
        );
        return Err(invalid(message, "give fewer"));
    }
    if !tool.schema.is_object() {
        let message = format!("`{}` is not a JSON object", field("schema"));
        return Err(invalid(message, "give a JSON Schema with \"type\": \"object\""));
    }
    let shorter = "make it shorter";
    at_most(&field("description"), tool.description.len(), DESCRIPTION, shorter)?;
    at_most(&field("schema"), tool.schema.as_str().len(), SCHEMA, shorter)?;
    let hint = tool.metadata.search_hint.len();
    at_most(&field("metadata.search_hint"), hint, MAX_REASON, shorter)
}

pub(crate) fn check_unprovide(unprovide: &Unprovide) -> Result<(), WireError> {
    few("names", unprovide.names.len())
}

pub(crate) fn check_progress(progress: &InvokeProgress) -> Result<(), WireError> {
    at_most("message", progress.message.len(), MAX_REASON, "say it in a few words")
}

pub(crate) fn check_output(output: &InvokeOutput) -> Result<(), WireError> {
    at_most("text", output.text.len(), MAX_CHUNK, "send it in smaller pieces")
}

#[cfg(test)]
mod tests {
    use crate::{
        ErrorCode, InvokeOutput, InvokeProgress, JsonText, Provide, ProvidedTool, Request,
        ToolMetadata, ToolName, limits::MAX_CHUNK,
    };

    fn tool(change: impl FnOnce(&mut ProvidedTool)) -> Request {
        let mut tool = ProvidedTool {
            name: "weather".parse().unwrap(),
            aliases: Vec::new(),
            description: "says".to_owned(),
            schema: JsonText::parse("{}".to_owned()).unwrap(),
            metadata: ToolMetadata::default(),
            r#override: false,
        };
        change(&mut tool);
        Request::Provide(Provide { tools: vec![tool] })
    }

    #[test]
    fn tools_are_held_to_their_limits() {
        assert_eq!(tool(|_| {}).check(), Ok(()));
        let alias: ToolName = "a".parse().unwrap();
        let long = format!("{{\"title\":\"{}\"}}", "x".repeat(65536));
        for (request, field) in [
            (tool(|tool| tool.description = " ".to_owned()), "description"),
            (tool(|tool| tool.description = "x".repeat(8193)), "description"),
            (tool(|tool| tool.aliases = vec![alias; 17]), "aliases"),
            (tool(|tool| tool.schema = JsonText::parse("[]".to_owned()).unwrap()), "schema"),
            (tool(|tool| tool.schema = JsonText::parse(long).unwrap()), "schema"),
            (tool(|tool| tool.metadata.search_hint = "x".repeat(8193)), "metadata.search_hint"),
        ] {
            let error = request.check().unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidRequest);
            assert!(error.message.starts_with(&format!("`tools.weather.{field}`")), "{error}");
        }
        assert!(Request::Provide(Provide { tools: Vec::new() }).check().is_err());
        let output = |length| {
            Request::InvokeOutput(InvokeOutput { invocation: 1, text: "x".repeat(length) })
        };
        assert_eq!(output(MAX_CHUNK).check(), Ok(()));
        assert!(output(MAX_CHUNK + 1).check().is_err());
        let message = "x".repeat(8193);
        let progress = InvokeProgress { invocation: 1, message, done: 0, total: None };
        assert!(Request::InvokeProgress(progress).check().is_err());
    }
}
